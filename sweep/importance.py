"""Which hyperparameters matter, for solving and for speed apart, and which do not: total Sobol shares with their uncertainty. Pure.

Two fits of sweep.heredity: the log seconds of runs that solved, and whether a run solves within a time that four in five of the unsolved
had. A hyperparameter's total share is what is lost of the fit's variance over the whole space where it alone is known no more (Sobol 2001,
doi 10.1016/S0378-4754(00)00270-6; by Jansen's estimator, doi 10.1016/S0010-4655(98)00154-4), once for each draw of the fit's posterior.

What that means: a search looks mostly near its best trials, so elsewhere the posterior is wide, and where it is wide nothing is named.
A quadratic sees no narrow dip; what acts through an interaction alone, with no say of its own, may be missed; and what does not matter over
the space may matter next to the optimum. tests/unit/test_importance.py holds it against functions whose shares are known. Optuna's PED-ANOVA
has no uncertainty, and put the learning rate, which matters, under 5% in 32 of 60 such studies of 100 to 800 trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sweep import formats, space
from sweep.heredity import Fit
from sweep.surrogate import Features

#: What does not matter is, all of it together, surely below this share of the variance, so sure (of the posterior's draws).
LIMIT, SURE = 0.05, 0.95
#: Fewest trials of either fit.
FEWEST = 30
#: Points of the space, and draws of the posterior.
POINTS, DRAWS = 2048, 400
#: Share of the unsolved runs that had as long as a solve may take to count.
HAD_AS_LONG = 0.8
#: Trials a fit takes at most, the latest: more take longer, and change little.
MOST_TRIALS = 1500


def of(data: dict) -> dict[str, Any] | None:
    """What matters in a study, from what `results.collect` gives; None where too few trials say anything.

    `speed` and `solving`: trials, and of each name its share and that one's upper end; None where that fit has too few trials, or nothing varies.
    `within_seconds`: what solving means here. `does_not_matter`: names, the least important first, of what has no say in network size."""
    dimensions = _dimensions(data)
    if not dimensions:
        return None
    speed, solving, within = _observations(data, dimensions)
    if not _enough(*speed):
        return None
    features = Features(dimensions)
    at = points(features, dimensions)
    fits = {kind: _shares(features, at, *some) if _enough(*some) else None for kind, some in (("speed", speed), ("solving", solving))}
    return {**{kind: None if fit is None else {"trials": fit.trials, "shares": fit.table()} for kind, fit in fits.items()},
            "within_seconds": within, "does_not_matter": _unimportant([fit for fit in fits.values() if fit], list(dimensions))}


def sentence(found: dict[str, Any] | None) -> str:
    """What does not matter, in one line; empty where nothing is known not to."""
    if not found or not found["does_not_matter"]:
        return ""
    also = f", and of the chance to solve within {formats.seconds(found['within_seconds'])}" if found["solving"] else ""
    return (f"Does not matter here: {', '.join(found['does_not_matter'])} (together under {formats.percent(LIMIT)} of the variance of log "
            f"seconds{also})")


def rows(found: dict[str, Any] | None) -> list[dict[str, str]]:
    """Each hyperparameter with its shares as text, the most important first."""
    if not found:
        return []
    kinds = [found[kind]["shares"] if found[kind] else {} for kind in ("speed", "solving")]
    names = sorted(kinds[0], key=lambda name: -max(kind[name]["share"] for kind in kinds if kind))

    def cell(of: dict[str, float] | None, key: str) -> str:
        return formats.percent(min(of[key], 1.0)) if of else formats.ABSENT

    return [{"name": name, **{f"{kind}_{key}": cell(shares.get(name), key) for kind, shares in zip(("speed", "solving"), kinds, strict=True)
                              for key in ("share", "upper")}} for name in names]


class Shares:
    """Total shares of a fitted function's variance: one column of weights a draw of its posterior."""

    def __init__(self, fit: Fit, points: tuple[np.ndarray, np.ndarray], trials: int):
        self.trials, self.names = trials, list(fit.features.axes)
        self._features, (self._here, self._there) = fit.features, points
        self._expanded = fit.features.expand(self._here)
        self._weights = fit.weights(np.random.default_rng(0), DRAWS)
        self._variance = np.maximum(self._mean_square(self._expanded - self._expanded.mean(axis=0)), 1e-12)

    def total(self, names: Sequence[str]) -> np.ndarray:
        """The share of these together, one of each draw."""
        redrawn = np.array([name in names for name, _ in self._features.columns])
        moved = self._expanded - self._features.expand(np.where(redrawn, self._there, self._here))
        return 0.5 * self._mean_square(moved) / self._variance

    def _mean_square(self, x: np.ndarray) -> np.ndarray:
        """Of x @ weights over the rows of x, one of each draw; by the moments of x, of which there are few."""
        return np.einsum("fd,fd->d", self._weights, (x.T @ x / len(x)) @ self._weights)

    def table(self) -> dict[str, dict[str, float]]:
        """name -> its median `share`, and the `upper` end."""
        totals = {name: self.total([name]) for name in self.names}
        return {name: {"share": float(np.median(t)), "upper": float(np.quantile(t, SURE))} for name, t in totals.items()}


def points(features: Features, dimensions: Mapping[str, space.Dimension]) -> tuple[np.ndarray, np.ndarray]:
    """Two independent sets of points all over the space, as `features.linear` has them."""
    rng = np.random.default_rng(0)
    here, there = (features.linear([space.sample(dimensions, rng) for _ in range(POINTS)]) for _ in range(2))
    return here, there


def _unimportant(fits: list[Shares], names: list[str]) -> list[str]:
    """As many as are surely below the limit together, in each of the fits."""
    from trainer_native import config

    sized = {name for name, h in config.HYPERPARAMETERS.items() if h.table == "net"}  # smaller is better, whatever it does to the time
    upper = {name: max(float(np.quantile(fit.total([name]), SURE)) for fit in fits) for name in names if name not in sized}
    found: list[str] = []
    for name in sorted(upper, key=upper.__getitem__):
        if any(np.quantile(fit.total([*found, name]), SURE) >= LIMIT for fit in fits):
            break
        found.append(name)
    return found


def _enough(params: list[dict], values: list[float], counts: list[float]) -> bool:
    return len(params) >= FEWEST and len(set(values)) > 1


def _shares(features: Features, at: tuple[np.ndarray, np.ndarray], params: list[dict], values: list[float], counts: list[float]) -> Shares:
    """The fit of `values`, each known as well as `counts` runs tell."""
    last = slice(-MOST_TRIALS, None)
    linear = features.linear(params[last])
    return Shares(Fit(features, linear, np.array(values[last]), np.array(counts[last])), at, len(linear))


def _observations(data: dict, dimensions: Mapping[str, space.Dimension]) -> tuple[tuple, tuple, float | None]:
    """(params, mean log seconds of solves, solves), (params, share of runs solved in time, runs), what in time is: a trial each."""
    rows = []  # of each trial: params, and (solved, seconds) of its runs, inf where a run diverged
    for trial in data.get("trials") or []:
        params, runs = trial.get("params") or {}, []
        if not all(name in params and _inside(d, params[name]) for name, d in dimensions.items()):
            continue
        for run in trial.get("runs") or []:
            seconds = formats.finite(run.get("cpu_seconds"))
            if run.get("status") == "diverged":
                runs.append((False, math.inf))
            elif run.get("status") in ("solved", "censored") and seconds is not None and seconds > 0:
                runs.append((run["status"] == "solved", seconds))
        if runs:
            rows.append((params, runs))
    solved = [(params, [math.log(s) for solve, s in runs if solve]) for params, runs in rows]
    solved = [(params, logs) for params, logs in solved if logs]
    speed = ([p for p, _ in solved], [sum(logs) / len(logs) for _, logs in solved], [float(len(logs)) for _, logs in solved])
    ends = sorted(s for _, runs in rows for solve, s in runs if not solve and math.isfinite(s))
    within = ends[int((1 - HAD_AS_LONG) * len(ends))] if ends else None
    known = [(params, [solve and s <= within for solve, s in runs if solve or s >= within]) for params, runs in rows] if ends else []
    known = [(params, solves) for params, solves in known if solves]
    return speed, ([p for p, _ in known], [sum(s) / len(s) for _, s in known], [float(len(s)) for _, s in known]), within


def _dimensions(data: dict) -> dict[str, space.Dimension]:
    try:
        written = data["study"]["definition"]["dimensions"].items()
        return space.searched({name: space.parse(name, value, "study") for name, value in written})
    except (KeyError, space.SpaceError):  # of a study that another version wrote
        return {}


def _inside(dimension: space.Dimension, value: Any) -> bool:
    return dimension.contains(value) or isinstance(dimension, space.Range) and space.is_finite(value) and dimension.low <= value <= dimension.high
