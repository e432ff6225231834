"""Stable-Baselines3's PPO on CartPole-v1 with rl-zoo3's params, as its users run it, on one torch thread.

    pip install stable-baselines3 torch gymnasium

Params: CartPole-v1 in hyperparams/ppo.yml of github.com/DLR-RM/rl-baselines3-zoo; all others are the library's."""

from __future__ import annotations

import time

import numpy as np

NAME = "Stable-Baselines3"
ENV_STEPS = 100_000
PARAMS = {"n_envs": 8, "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "ent_coef": 0.0,
          "learning_rate": "lin_0.001", "clip_range": "lin_0.2"}


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("stable-baselines3", "torch", "gymnasium", "numpy")}


def train(seed: int) -> tuple[np.ndarray, float]:
    """(where episodes ended: bool [env steps per copy, copies], CPU seconds from the first env step) of one training run."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    class Watch(BaseCallback):
        def _on_training_start(self) -> None:
            self.ended: list[np.ndarray] = []
            self.start = time.process_time()

        def _on_step(self) -> bool:
            self.ended.append(self.locals["dones"].copy())
            return True

    params = {name: value for name, value in PARAMS.items() if name != "n_envs"}
    for name in ("learning_rate", "clip_range"):   # rl-zoo3's lin_X: X times the share of env steps that is left
        first = float(params[name].removeprefix("lin_"))
        params[name] = lambda left, first=first: first * left
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=PARAMS["n_envs"], seed=seed), **params, seed=seed, device="cpu")
    watch = Watch()
    model.learn(total_timesteps=ENV_STEPS, callback=watch)
    return np.array(watch.ended), time.process_time() - watch.start
