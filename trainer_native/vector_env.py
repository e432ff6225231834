"""Environments as gymnasium has them: many copies as a VectorEnv, one as an Env."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from trainer_native import environments, pictures
from trainer_native.environments import OUTCOME, Environment


def observation_space(env: Environment) -> spaces.Box:
    """What an agent sees, in the header's own units: an image where it is one, unbounded where a quantity knows no limit."""
    free = env.inputs["is_open"] & (env.observation_dtype != np.uint8)   # a byte is bounded as it is
    low, high = np.where(free, -np.inf, env.inputs["low"]), np.where(free, np.inf, env.inputs["high"])
    shape = env.image or (env.observation_size,)
    return spaces.Box(low.astype(env.observation_dtype).reshape(shape), high.astype(env.observation_dtype).reshape(shape),
                      dtype=env.observation_dtype)  # fmt: skip


def action_space(env: Environment) -> spaces.Space:
    """Discrete for one action, MultiDiscrete for several at once, a Box of float32 for continuous ones."""
    if len(env.action_bounds):
        low, high = env.action_bounds.astype(np.float32).T
        return spaces.Box(low, high, dtype=np.float32)
    return spaces.Discrete(env.choices[0]) if len(env.choices) == 1 else spaces.MultiDiscrete(env.choices)


class Copies(VectorEnv):
    """`num_envs` copies of an environment, stepped together in C++; each step's observations are written once, into a new array.

    `autoreset_mode`: as in gymnasium, "NextStep", "SameStep" or "Disabled". `params`: those of the environment.
    `reset(seed=7)` begins the same episodes as `trainer_native.evaluate(..., seed=7)`; a list gives each copy its own seed.
    With `copy=False` observations are always the same array, overwritten by the next step. Where an episode ends and the
    environment has a metric, infos hold it as "metric", with the mask "_metric". Raises HeaderError, ConfigError.
    """

    def __init__(self, env: str | Path | Environment, num_envs: int = 1, *, autoreset_mode: str | AutoresetMode = "NextStep",
                 render_mode: str | None = None, copy: bool = True, **params: Any):  # fmt: skip
        if not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs is a whole number of at least 1, not {num_envs!r}")
        self.environment, self._table, self._params, _ = environments._prepare(env, 0, params)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is None or 'rgb_array', not {render_mode!r}")
        if render_mode and not self.environment.picture:
            raise ValueError(f"{self.environment.name} has no picture: its header has no draw()")
        self.num_envs, self.render_mode, self._copy = num_envs, render_mode, copy
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        modes = ["rgb_array"] if self.environment.picture else []
        self.metadata = {"render_modes": modes, "render_fps": 30, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = observation_space(self.environment)
        self.single_action_space = action_space(self.environment)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.states = np.zeros(num_envs, self.environment.state_dtype)
        self._rngs = np.zeros(num_envs, np.uint64)
        self._outcomes = np.zeros(num_envs, OUTCOME)
        self._observations = self._new_observations()
        self._ended = np.zeros(num_envs, bool)   # and not yet begun anew
        self._begun = False

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        """Begins an episode in every copy, or in those of options["reset_mask"]: (observations, infos)."""
        options = options or {}
        rows = np.flatnonzero(_mask(options["reset_mask"], self.num_envs)) if "reset_mask" in options else None
        self._seed(seed, rows)
        if rows is None:
            self._table.reset(self.states.ctypes.data, self._params, self._rngs.ctypes.data, self.num_envs)
            self._ended[:], self._begun = False, True
        else:
            self._begin(rows)
        return self._observe(), {}

    def step(self, actions: Any):
        """One env step of each copy: (observations, rewards float64 [n], terminations, truncations, infos)."""
        if not self._begun:
            raise gymnasium.error.ResetNeeded("call reset() before the first step()")
        actions = self._legal(actions)
        self._outcomes[:] = 0
        infos: dict[str, Any] = {}
        waiting = np.flatnonzero(self._ended)
        if len(waiting) and self.autoreset_mode is AutoresetMode.DISABLED:
            raise gymnasium.error.ResetNeeded(f"the episodes of copies {waiting[:8].tolist()} have ended: reset(options="
                                              '{"reset_mask": ...}) them')  # fmt: skip
        self._step_all_but(waiting, actions)
        self._begin(waiting)
        rewards = self._outcomes["reward"].astype(np.float64)
        terminations, truncations = self._outcomes["terminated"].copy(), self._outcomes["truncated"].copy()
        self._ended = terminations | truncations
        ended = np.flatnonzero(self._ended)
        if len(ended) and self.environment.has_metric:
            infos["metric"], infos["_metric"] = self._metric(), self._ended.copy()
        if len(ended) and self.autoreset_mode is AutoresetMode.SAME_STEP:
            last = self._new_observations()
            self._table.observe(self.states.ctypes.data, self._params, last.ctypes.data, self.environment.observation_size,
                                self.num_envs)
            final = np.full(self.num_envs, None, object)
            for i in ended:
                final[i] = last[i]
            infos |= {"final_obs": final, "_final_obs": self._ended.copy(), "final_info": {}, "_final_info": self._ended.copy()}
            self._begin(ended)
        return self._observe(), rewards, terminations, truncations, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """uint8 [height, width, 3] of each copy."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: make the environment with render_mode='rgb_array'")
            return None
        return tuple(pictures.picture(self.environment, state, self._params) for state in self.states)

    def _new_observations(self) -> np.ndarray:
        return np.empty((self.num_envs, *self.single_observation_space.shape), self.environment.observation_dtype)

    def _observe(self) -> np.ndarray:
        seen = self._new_observations() if self._copy else self._observations
        self._table.observe(self.states.ctypes.data, self._params, seen.ctypes.data, self.environment.observation_size, self.num_envs)
        return seen

    def _metric(self) -> np.ndarray:
        found = np.zeros(self.num_envs, np.float32)
        self._table.metric(self.states.ctypes.data, self._params, found.ctypes.data, self.num_envs)
        return found

    def _begin(self, rows: np.ndarray) -> None:
        """A new episode in each of these copies."""
        size = self.states.itemsize
        for i in rows.tolist():
            self._table.reset(self.states.ctypes.data + i * size, self._params, self._rngs.ctypes.data + 8 * i, 1)
        self._ended[rows] = False

    def _step_all_but(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Steps the stretches of copies between these."""
        starts, ends = [0, *(rows + 1).tolist()], [*rows.tolist(), self.num_envs]
        for first, last in zip(starts, ends, strict=True):
            if last > first:
                self._table.step(self.states[first:].ctypes.data, self._params, actions[first:].ctypes.data,
                                 self._rngs[first:].ctypes.data, self._outcomes[first:].ctypes.data, last - first)

    def _legal(self, actions: Any) -> np.ndarray:
        """The actions as the header takes them; continuous ones are clipped to its bounds."""
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(f"actions have the shape {actions.shape}; {self.num_envs} copies of {self.environment.name} take "
                             f"{self.action_space.shape}")  # fmt: skip
        if len(self.environment.action_bounds):
            actions = np.clip(actions, *self.environment.action_bounds.T)   # NaN stays, and is refused
        return environments.legal_actions(self.environment, actions)

    def _seed(self, seed: Any, rows: np.ndarray | None) -> None:
        rows = np.arange(self.num_envs) if rows is None else rows
        if seed is None:
            if self._begun:
                return
            seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1))
        if isinstance(seed, (int, np.integer)):
            self._np_random_seed = int(seed)
            for i in rows.tolist():
                self._rngs[i] = environments._stream(int(seed), 2 * i)   # as `evaluate` numbers its episodes
            return
        if len(seed) != self.num_envs:
            raise ValueError(f"{len(seed)} seeds for {self.num_envs} copies")
        for i in rows.tolist():
            if seed[i] is not None:
                self._rngs[i] = environments._stream(int(seed[i]))


def _mask(mask: Any, count: int) -> np.ndarray:
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (count,):
        raise ValueError(f"options['reset_mask'] is a NumPy array of {count} bool")
    return mask


class One(gymnasium.Env):
    """One environment as a gymnasium.Env. `params`: those of the environment; the rest as for Copies."""

    def __init__(self, env: str | Path | Environment, *, render_mode: str | None = None, **params: Any):
        self._copies = Copies(env, 1, autoreset_mode=AutoresetMode.DISABLED, render_mode=render_mode, **params)
        self.environment, self.render_mode = self._copies.environment, render_mode
        self.metadata = {name: self._copies.metadata[name] for name in ("render_modes", "render_fps")}
        self.observation_space, self.action_space = self._copies.single_observation_space, self._copies.single_action_space

    @property
    def state(self) -> np.void:
        """The game's state, fields as in the header."""
        return self._copies.states[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        """Begins an episode: (observation, {})."""
        super().reset(seed=seed)
        observations, infos = self._copies.reset(seed=seed)
        return observations[0], infos

    def step(self, action: Any):
        """One env step: (observation, reward, terminated, truncated, info)."""
        observations, rewards, terminated, truncated, infos = self._copies.step(np.asarray(action)[None])
        info = {"metric": float(infos["metric"][0])} if "metric" in infos else {}
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> np.ndarray | None:
        """uint8 [height, width, 3]."""
        frames = self._copies.render()
        return frames[0] if frames else None
