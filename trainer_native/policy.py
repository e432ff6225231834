"""A trained network that acts in Python: observations in, actions out, by the trainer's own forward pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainer_native import trainer
from trainer_native.environments import Environment


class Policy:
    """Weights that act on `num_envs` copies side by side, each with its own memory.

    `params` and `weights` as a Run has them; `sweep train` writes both into one file. Raises ValueError where they do not
    fit each other; ConfigError, HeaderError.
    """

    def __init__(self, env: str | Path | Environment, params: dict, weights: dict[str, np.ndarray], num_envs: int = 1):
        self.environment, self.num_envs = trainer._environment(env), num_envs
        self._full = trainer._complete(self.environment, params)
        self._flat = trainer._join(weights, trainer._shapes(self.environment, self._full))
        self._scale, self._shift = (np.asarray(weights[name], np.float64) for name in ("input_scale", "input_shift"))
        self._log_std = weights.get("log_std")
        layers, floats = trainer._core().state_shape(trainer.isa(), self.environment.table_address, self._full)
        self._states = np.zeros((layers, num_envs, floats), np.float32)
        self._keep = np.zeros((1, num_envs), np.float32)

    def begin(self, begins: np.ndarray | None = None) -> None:
        """An episode begins with the next observations: in all copies, or where `begins` [num_envs] says so."""
        self._keep[0, slice(None) if begins is None else np.asarray(begins, bool)] = 0.0

    def act(self, observations: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions as `make_vec(...).step` takes them: the likeliest, or drawn with `rng`.

        `observations` [num_envs, ...] in the header's units. Call it once per env step: it moves the memory on.
        """
        logits = self.logits(observations)
        env, k = self.environment, self.environment.actions
        if len(env.action_bounds):
            return self._continuous(logits[:, :k], rng)
        noise = 0.0 if rng is None else rng.gumbel(size=(self.num_envs, k))
        pieces = np.split(logits[:, :k] + noise, np.cumsum(env.choices)[:-1], axis=1)
        chosen = np.stack([piece.argmax(1) for piece in pieces], 1)
        return chosen[:, 0] if len(env.choices) == 1 else chosen

    def logits(self, observations: np.ndarray) -> np.ndarray:
        """float32 [num_envs, actions + 1]: logits, or the means of continuous actions; then the value. Moves the memory on."""
        seen = np.asarray(observations).reshape(self.num_envs, -1)
        if seen.shape[1] != self.environment.observation_size:
            raise ValueError(f"observations of {seen.shape[1]} numbers; {self.environment.name} has {self.environment.observation_size}")
        seen = (seen.astype(np.float64) * self._scale + self._shift).astype(np.float32)   # in effect one rounding, as an fma
        if self._full["normalise_inputs"] == "moments":
            scaled = (self._scale != 1) | (self._shift != 0)
            seen[:, scaled] = seen[:, scaled].clip(-5, 5)
        if self._full["constant_input"]:
            seen = np.concatenate([seen, np.ones((self.num_envs, 1), np.float32)], 1)
        logits, self._states = trainer._core().forward(trainer.isa(), self.environment.table_address, self._full, self._flat,
                                                       seen[:, None], self._keep, self._states)
        self._keep[:] = 1.0
        return logits[0]

    def _continuous(self, means: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        drawn = means if rng is None else means + np.exp(self._log_std.reshape(1, -1)) * rng.standard_normal(means.shape)
        drawn = np.tanh(drawn) if self._full["gaussian"] == "squashed" else np.clip(drawn, -1, 1)
        low, high = self.environment.action_bounds.T
        return ((low + high) / 2 + (high - low) / 2 * drawn).astype(np.float32)
