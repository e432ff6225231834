"""Trials of an older study as the first ones of a new one: which are taken, and what its space makes of their params. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep import figures, formats, results, space
from trainer_native import config

#: Most trials that are taken: each costs a run at least, before the search looks for itself.
MOST = 16


class WarmStartError(ValueError):
    """An older study that a new one cannot start from; the message is one line for the user."""


@dataclass
class Start:
    """What is taken from an older study, and what became of it on the way."""

    label: str  # NAME@HASH of the older study
    first: list[tuple[dict[str, Any], str]] = field(default_factory=list)  # (params, origin), the most trusted first
    taken: list[int] = field(default_factory=list)  # their trial numbers in the older study
    verified: int = 0  # how many of them are verified there
    moved: Counter = field(default_factory=Counter)  # name -> trials whose value this space does not hold
    defaults: list[str] = field(default_factory=list)  # searched here, and not said there: the trainer's defaults
    dropped: list[str] = field(default_factory=list)  # said there, and nothing this study can set
    alike: int = 0  # trials that are others' equals once they are in this space
    already: int = 0  # of an earlier `sweep run`: nothing more is taken


def plan(study: Any, data: dict, label: str) -> Start:
    """The first trials of `study` from `data`, the older study as `results.collect` gives it. Raises WarmStartError."""
    start = Start(label)
    known = {**config.HYPERPARAMETERS, **study.environment}
    defaults = {**{name: h.default for name, h in known.items()}, "try_from": study.solve.target}
    same_returns = _same_returns(study.definition(), data["study"]["definition"])
    seen = {_key(study.trial0())}
    for trial in ranked(data):
        if len(start.first) == MOST:
            break
        given = {name: value for name, value in trial["params"].items() if name != "try_from" or same_returns}
        params = {name: _nearest(d, given.get(name, defaults.get(name)), defaults.get(name)) for name, d in study.dimensions.items()}
        moved = [name for name in params if name in given and params[name] != given[name]]
        if space.legal(params) is not None:
            legal = space.mutate(study.dimensions, params, np.random.default_rng(0), 0.05)
            moved += [name for name in params if legal[name] != params[name] and name not in moved]
            params = legal
        if space.legal(params) is not None:
            continue
        if _key(params) in seen:
            start.alike += 1
            continue
        seen.add(_key(params))
        start.first.append((params, f"{origin(label)}{trial['number']}"))
        start.taken.append(trial["number"])
        start.verified += trial["is_verified"]
        start.moved.update(moved)
        start.dropped += [name for name, value in given.items() if name not in study.dimensions
                          and (name not in known or value != defaults[name]) and name not in start.dropped]
        start.defaults += [name for name, d in study.dimensions.items() if d.searched and name not in given and name not in start.defaults]
    if not start.first and not start.alike:
        raise WarmStartError(f"--from {label}: no trial of it has solved on this machine and build; legal is a study with a solve "
                             "(`sweep ls` says how many runs of each solved)")  # fmt: skip
    return start


def origin(label: str) -> str:
    """How the `origin` of a trial begins that was taken from the study of that label; its number there follows."""
    return f"from {label} trial "


def sentence(start: Start) -> str:
    """What was taken, and what was changed on the way, in one line."""
    head = f"from {start.label}: "
    if start.already:
        return f"{head}{_trials(start.already)} of it are in the study already; it goes on with them"
    parts = [f"{_trials(len(start.first))} taken ({start.verified} verified)" if start.first else "nothing taken"]
    if start.moved:
        parts.append("moved into this space: " + ", ".join(f"{name} in {n}" for name, n in start.moved.most_common()))
    if start.defaults:
        parts.append("not said there, so the trainer's defaults: " + ", ".join(start.defaults))
    if start.dropped:
        parts.append("dropped, as this study leaves them at their defaults or has none: " + ", ".join(start.dropped))
    if start.alike:
        parts.append(f"{start.alike} left out as others' equals here")
    return head + "; ".join(parts if len(parts) > 1 or not start.first else [*parts, "params as they were"])


def _trials(count: int) -> str:
    return f"{count} {'trial' if count == 1 else 'trials'}"


def ranked(data: dict) -> list[dict]:
    """Trials that solved, the most trusted first: verified, the recommended before the front before others; then those measured again,
    then claims as solid as a front asks for, then the rest; among equals the fastest first."""
    front, rated = set(data.get("front") or []), []
    for trial in data.get("trials") or []:
        claim, seconds = trial.get("search") or {}, figures.time_of(figures.summary(trial))
        if seconds is None:
            continue
        runs, solves = (formats.finite(claim.get(key)) or 0 for key in ("runs", "solved"))
        solid = runs >= results.SOLID_RUNS and solves >= results.SOLID_SOLVES
        rank = ("verified", "unverified", "claimed").index(figures.state(trial)) + (figures.state(trial) == "claimed" and not solid)
        number = trial["number"]
        rated.append((rank, number != data.get("recommended"), number not in front, seconds, number, trial))
    return [trial for *_, trial in sorted(rated, key=lambda row: row[:-1])]


def _nearest(dimension: space.Dimension, value: Any, default: Any) -> Any:
    """The value of the dimension closest to `value`; of words that it does not hold, the default where it holds that."""
    words = isinstance(dimension, space.Choice) and not dimension.ordered
    return dimension.nearest(default if words and not dimension.contains(value) else value)


def _same_returns(ours: dict, theirs: dict) -> bool:
    """Whether a mean return (or metric) there means what it means here, so that try_from does."""
    return ours["env"] == theirs.get("env") and formats.goal(ours).what == formats.goal(theirs).what


def _key(params: dict) -> tuple:
    return tuple(sorted(params.items()))
