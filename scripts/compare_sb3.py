"""CartPole-v1 by Stable-Baselines3 with rl-zoo3's params and by this trainer, in turn, under the same solve rule.

Both are timed from the first env step to the confirmation: a frozen, sampled policy reaches a mean return of 475 over 100
fresh episodes, tried when the last 100 training episodes pass 475. Start-up and imports are outside the clock.

    pip install stable-baselines3 torch gymnasium      # not dependencies of sweep
    python scripts/compare_sb3.py [--seeds 3] [--params cartpole.toml] [--json]

`--params`: a file from `sweep export cartpole`; without it the trainer's defaults play.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tomllib

SOLVE = {"mean_return": 475.0, "episodes": 100}


def stable_baselines(seed: int) -> dict:
    """rl-zoo3's PPO params for CartPole-v1 (github.com/DLR-RM/rl-baselines3-zoo, hyperparams/ppo.yml), one torch thread."""
    import numpy as np
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    fresh = make_vec_env("CartPole-v1", n_envs=SOLVE["episodes"], seed=seed + 10_000)

    def frozen_mean(model) -> float:
        observations, returns = fresh.reset(), np.zeros(SOLVE["episodes"])
        playing = np.ones(SOLVE["episodes"], bool)
        while playing.any():
            actions, _ = model.predict(observations, deterministic=False)
            observations, rewards, ended, _ = fresh.step(actions)
            returns += rewards * playing
            playing &= ~ended
        return float(returns.mean())

    class StopWhenSolved(BaseCallback):
        solved, start = None, None

        def _on_training_start(self) -> None:
            self.start = time.perf_counter()

        def _on_step(self) -> bool:
            return self.solved is None

        def _on_rollout_end(self) -> None:
            recent = [episode["r"] for episode in self.model.ep_info_buffer]
            promising = len(recent) >= SOLVE["episodes"] and statistics.mean(recent) >= SOLVE["mean_return"]
            if promising and frozen_mean(self.model) >= SOLVE["mean_return"]:
                self.solved = time.perf_counter() - self.start

    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=seed), n_steps=32, batch_size=256, n_epochs=20,
                gamma=0.98, gae_lambda=0.8, ent_coef=0.0, learning_rate=lambda left: 0.001 * left,
                clip_range=lambda left: 0.2 * left, seed=seed, device="cpu")
    callback = StopWhenSolved()
    model.learn(total_timesteps=100_000, callback=callback)
    return {"seconds": callback.solved, "env_steps": model.num_timesteps}


def ours(seed: int, params: dict) -> dict:
    import trainer_native

    run = trainer_native.train("cartpole", params, seed, SOLVE, 60.0)
    return {"seconds": run.seconds if run.status == "solved" else None, "env_steps": run.env_steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--params", help="TOML from `sweep export`")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    params: dict = {}
    if arguments.params:
        with open(arguments.params, "rb") as file:
            tables = tomllib.load(file)
        params = {key: value for table in ("net", "train", "environment") for key, value in tables.get(table, {}).items()}
    rows = []
    for seed in range(arguments.seeds):  # in turn: both see the same machine
        rows.append({"seed": seed, "stable_baselines3": stable_baselines(seed), "sweep": ours(seed, params)})
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        for who in ("stable_baselines3", "sweep"):
            seconds, env_steps = row[who]["seconds"], row[who]["env_steps"]
            found = "unsolved" if seconds is None else f"{seconds:.3f} s"
            print(f"seed {row['seed']}: {who:18} {found:>10} after {env_steps:,} env steps")


if __name__ == "__main__":
    main()
