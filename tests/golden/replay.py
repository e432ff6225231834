"""Plays recorded transitions through our headers, and keeps what came of it for the golden table.

A reference's recording gives the state before each env step, the action, and what the reference made of it. A test copies
those states into ours, plays all of them at once and compares. What a reference drew at random it does not tell: `matched`
looks for a stream of random numbers with which ours does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer_native import environments
from trainer_native.environments import OUTCOME, Environment
from trainer_native.probe import Table

#: What the golden tests of this session compared, printed at the end: (environment, reference) -> transitions, largest error.
COMPARED: dict[tuple[str, str], tuple[int, float]] = {}


@dataclass
class Played:
    """What one env step made of each of n states; where an episode ended, `after` is its last state, not the next first."""

    after: np.ndarray         # structured [n], fields of the header's State
    reward: np.ndarray        # float32 [n]
    terminated: np.ndarray    # bool [n]
    truncated: np.ndarray     # bool [n]
    observation: np.ndarray   # float32 or uint8 [n, observation_size], of `after`

    def at(self, rows) -> Played:
        """Some rows of it."""
        return Played(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def states(env: Environment, columns: dict[str, Any], n: int) -> np.ndarray:
    """n States with these fields; the rest 0."""
    made = np.zeros(n, env.state_dtype)
    for name, values in columns.items():
        made[name] = values
    return made


def play(env: Environment, before: np.ndarray, actions: np.ndarray, seed: int = 0, **params: Any) -> Played:
    """One env step from each state, each with a stream of its own of `seed`."""
    table, filled, n = Table.from_address(env.table_address), env.param_bytes(params), len(before)
    after, outcomes = np.ascontiguousarray(before).copy(), np.zeros(n, OUTCOME)
    actions = np.ascontiguousarray(actions, np.float32 if np.asarray(actions).dtype.kind == "f" else np.int32)
    rngs = np.array([environments._stream(seed, i) for i in range(n)], np.uint64)
    table.step(after.ctypes.data, filled, actions.ctypes.data, rngs.ctypes.data, outcomes.ctypes.data, n)
    seen = np.zeros((n, env.observation_size), getattr(env, "observation_dtype", np.float32))
    table.observe(after.ctypes.data, filled, seen.ctypes.data, env.observation_size, n)
    return Played(after, outcomes["reward"], outcomes["terminated"], outcomes["truncated"], seen)


def first_states(env: Environment, n: int, seed: int = 0, **params: Any) -> np.ndarray:
    """The states in which n episodes begin."""
    table, filled = Table.from_address(env.table_address), env.param_bytes(params)
    made, rngs = np.zeros(n, env.state_dtype), np.array([environments._stream(seed, i) for i in range(n)], np.uint64)
    table.reset(made.ctypes.data, filled, rngs.ctypes.data, n)
    return made


def matched(env: Environment, before: np.ndarray, actions: np.ndarray, agrees: Callable[[Played, np.ndarray], np.ndarray],
            seeds: int = 300, **params: Any) -> tuple[Played, np.ndarray]:  # fmt: skip
    """Plays each transition with one stream after another until it agrees, or `seeds` are through.

    `agrees(played, rows)`: bool for each of these rows. Gives the agreeing results (else those of seed 0) and the rows that
    never agreed.
    """
    best, left = play(env, before, actions, 0, **params), np.arange(len(before))
    left = left[~agrees(best, left)]
    for seed in range(1, seeds):
        if not len(left):
            break
        tried = play(env, before[left], actions[left], seed, **params)
        good = agrees(tried, left)
        for name in Played.__dataclass_fields__:
            getattr(best, name)[left[good]] = getattr(tried, name)[good]
        left = left[~good]
    return best, left


def compared(env: str, reference: str, transitions: int, worst: float = 0.0) -> None:
    """Says what a golden test compared; `worst` is the largest error of any number, 0 where all are exact."""
    before, error = COMPARED.get((env, reference), (0, 0.0))
    COMPARED[env, reference] = before + transitions, max(error, float(worst))
