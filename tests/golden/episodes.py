"""Plays a gymnasium environment and ours side by side: whole episodes of several policies, each transition from its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import replay

from trainer_native.environments import Environment


@dataclass
class Recording:
    """n transitions of a reference, whole episodes one behind the other."""

    before: np.ndarray       # float64 [n, fields]: the reference's state
    taken: np.ndarray        # int64 [n]: env steps of the episode before this one
    actions: np.ndarray      # int64 [n], or float32 [n, numbers]
    after: np.ndarray        # float64 [n, fields]
    reward: np.ndarray       # float64 [n]
    terminated: np.ndarray   # bool [n]
    truncated: np.ndarray    # bool [n]; not where it terminated too
    observation: np.ndarray  # float32 [n, observation_size]

    def lengths(self) -> np.ndarray:
        """Of the episodes, env steps."""
        return self.taken[self.terminated | self.truncated] + 1


def recorded(reference: Any, policy: Callable[[np.ndarray, np.random.Generator, int], Any], seeds: Sequence[int]) -> Recording:
    """One episode of each seed; `policy(state, rng, env steps so far)` gives the action."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        reference.reset(seed=int(seed))
        taken, ended = 0, False
        while not ended:
            before = np.array(reference.unwrapped.state, np.float64)
            action = policy(before, rng, taken)
            seen, reward, terminated, truncated, _ = reference.step(action)
            after = np.array(reference.unwrapped.state, np.float64)
            rows.append((before, taken, action, after, reward, terminated, truncated and not terminated, seen))
            taken, ended = taken + 1, terminated or truncated
    return Recording(*(np.array(column) for column in zip(*rows, strict=True)))


def played(env: Environment, fields: Sequence[str], clock: str, recording: Recording) -> replay.Played:
    """Ours from the same states; `clock` names the field that counts the episode's env steps. Asserts that all endings are
    those of the reference."""
    columns = dict(zip(fields, recording.before.T, strict=True)) | {clock: recording.taken}
    ours = replay.play(env, replay.states(env, columns, len(recording.taken)), recording.actions)
    for name in ("terminated", "truncated"):
        differ = np.flatnonzero(getattr(ours, name) != getattr(recording, name))
        assert not len(differ), (name, len(differ), recording.before[differ[:3]], recording.actions[differ[:3]])
    assert (ours.after[clock] == recording.taken + 1).all()
    return ours


def same_distribution(ours: np.ndarray, theirs: np.ndarray, false_alarm: float) -> bool:
    """Kolmogorov and Smirnov's test of two samples [n], [m]: False for equal distributions with this probability at most
    (the two-sample bound with the constant 2, which holds from n = m = 458 on: Wei and Dudley, 2012)."""
    at = np.sort(np.concatenate([ours, theirs]))
    shares = [np.searchsorted(np.sort(sample), at, side="right") / len(sample) for sample in (ours, theirs)]
    distance = np.abs(shares[0] - shares[1]).max()
    return distance <= np.sqrt(np.log(2 / false_alarm) / 2 * (1 / len(ours) + 1 / len(theirs)))


def first_states_agree(env: Environment, fields: Sequence[str], reference: Any, n: int = 1000, false_alarm: float = 1e-6) -> None:
    """Asserts that episodes begin as the reference's do: each field, and each product of two, at this rate of false alarm."""
    ours = replay.first_states(env, n, seed=11)
    theirs = []
    for seed in range(n):
        reference.reset(seed=seed)
        theirs.append(np.array(reference.unwrapped.state, np.float64))
    ours = np.stack([ours[name].astype(np.float64) for name in fields], axis=1)
    theirs = np.array(theirs)
    centre, scale = theirs.mean(0), theirs.std(0) + 1e-12
    for i, name in enumerate(fields):
        assert same_distribution(ours[:, i], theirs[:, i], false_alarm), name
        for j in range(i):
            products = [((sample - centre) / scale)[:, i] * ((sample - centre) / scale)[:, j] for sample in (ours, theirs)]
            assert same_distribution(*products, false_alarm), (fields[j], name)
