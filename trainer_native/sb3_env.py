"""Copies of an environment as Stable-Baselines3's VecEnv; imported only where that library is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env.base_vec_env import VecEnv

from trainer_native.environments import Environment
from trainer_native.vector_env import Copies


class Sb3Copies(VecEnv):
    """`num_envs` copies of an environment for Stable-Baselines3: `PPO("MlpPolicy", Sb3Copies("breakout", 8, frameskip=4))`.

    Resets at once where an episode ends, as that library expects, with the last observation in infos.
    """

    def __init__(self, env: str | Path | Environment, num_envs: int = 1, render_mode: str | None = None, **params: Any):
        self.copies = Copies(env, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, render_mode=render_mode, **params)
        self.render_mode = render_mode
        super().__init__(num_envs, self.copies.single_observation_space, self.copies.single_action_space)
        self._actions: np.ndarray | None = None
        self._returns, self._lengths = np.zeros(num_envs), np.zeros(num_envs, int)

    def reset(self) -> np.ndarray:
        seed = next((seed for seed in self._seeds if seed is not None), None)   # seed(7) gives 7, 8, 9 ...
        observations, _ = self.copies.reset(seed=seed)
        self._reset_seeds()
        self._returns[:], self._lengths[:] = 0, 0
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self):
        observations, rewards, terminated, truncated, more = self.copies.step(self._actions)
        ended = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended).tolist():
            infos[i] = {"terminal_observation": more["final_obs"][i], "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                        "episode": {"r": float(self._returns[i]), "l": int(self._lengths[i])}}
            if "metric" in more:
                infos[i]["metric"] = float(more["metric"][i])
        self._returns[ended], self._lengths[ended] = 0, 0
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        self.copies.close()

    def get_images(self) -> list[np.ndarray | None]:
        return list(self.copies.render() or [])

    def get_attr(self, attr_name: str, indices=None) -> list[Any]:
        return [getattr(self.copies, attr_name)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices=None) -> None:
        setattr(self.copies, attr_name, value)

    def env_method(self, method_name: str, *args, indices=None, **kwargs) -> list[Any]:
        return [getattr(self.copies, method_name)(*args, **kwargs) for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))
