"""Times to solve into numbers: restart ERT, Kaplan–Meier, intervals, shrinkage, the front. Pure; nothing here reads or writes.

Runs enter as two arrays of equal length, `times` in seconds and `solved`. A run that solved is (t, True). A run stopped by its cap or its
env-step limit is (t, False): it leaves the risk set at t. A run that failed by its own doing, diverged or killed on its curve, is
(inf, False): it never leaves the risk set, as a run that would never have solved. A crashed run says nothing about the policy and is left
out. `outcome` makes these pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

KILLED_ON_CURVE = "killed on its curve"  # reason of a run that was stopped for what its curve looked like


def outcome(status: str, seconds: float, reason: str = "") -> tuple[float, bool] | None:
    """The (time, solved) of one run; None for a crashed run, which is left out."""
    raise NotImplementedError


def outcomes(runs: Iterable[tuple[str, float] | tuple[str, float, str]]) -> tuple[np.ndarray, np.ndarray]:
    """(times float64[n], solved bool[n]) of runs given as (status, seconds) or (status, seconds, reason), crashed ones left out."""
    raise NotImplementedError


def kaplan_meier(times: Sequence[float], solved: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """(distinct solve times in seconds, share of runs not yet solved just after each); both empty where nothing solved."""
    raise NotImplementedError


def restart_ert(times: Sequence[float], solved: Sequence[bool]) -> float:
    """Expected seconds until a solve if every run is restarted after the best fixed cutoff; inf where nothing solved."""
    raise NotImplementedError


def restart_cutoff(times: Sequence[float], solved: Sequence[bool]) -> float | None:
    """The cutoff in seconds at which restart_ert is reached; None where nothing solved."""
    raise NotImplementedError


def restart_ert_interval(times: Sequence[float], solved: Sequence[bool], level: float = 0.9, seed: int = 0,
                         draws: int = 1000) -> tuple[float, float]:
    """(low, high) of the restart ERT in seconds by the percentile bootstrap over runs.

    A resample without a solve counts as infinite, so `high` is inf where those are more than (1 − level)/2 of them."""
    raise NotImplementedError


def median_interval(times: Sequence[float], solved: Sequence[bool],
                    level: float = 0.95) -> tuple[float | None, float | None, float | None]:
    """(Kaplan–Meier median, low, high) in seconds by Brookmeyer and Crowley with log-log bands; None where not reached."""
    raise NotImplementedError


def clopper_pearson(solved: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Exact (low, high) of the solve probability after `solved` of `runs`."""
    raise NotImplementedError


def olympic_mean(times: Sequence[float]) -> float | None:
    """Mean seconds of the solves without the fastest and the slowest; None below three. Infinite times are no solves."""
    raise NotImplementedError


def shrunk_log_ert(times: Sequence[float], solved: Sequence[bool], pooled_seconds_per_solve: float) -> float:
    """log restart ERT drawn towards log(pooled_seconds_per_solve) by one pseudo-run; inf where nothing solved.

    `pooled_seconds_per_solve` is one over the study's pooled rate: all its runs' seconds over all its solves."""
    raise NotImplementedError


def front(points: Sequence[tuple[float, float | None]]) -> list[int]:
    """Indices of the (parameters, seconds) that no other beats, smallest network first. Equal points both stay; None and inf never do."""
    raise NotImplementedError


def recommended(verified: Sequence[tuple[int, int, float]], within: float = 1.5) -> int | None:
    """Of verified (index, parameters, restart ERT): the index of the smallest network within `within` × the fastest; None of none."""
    raise NotImplementedError


def is_verified(solved: int, runs: int) -> bool:
    """At least 12 fresh seeds and at least 80% of them solved."""
    raise NotImplementedError


def best_over_time(runs: Iterable[tuple[float, int, float, bool]], least_runs: int = 4,
                   least_solves: int = 3) -> list[tuple[float, float, int]]:
    """[(elapsed seconds, best restart ERT, trial)] at each change of the best.

    `runs` are (elapsed seconds at the run's end, trial, time, solved) in the order they ended. Trials count from `least_solves` in
    `least_runs` on, so that one lucky seed does not shine."""
    raise NotImplementedError


def front_over_time(runs: Iterable[tuple[float, int, int, float, bool]], at: Sequence[float], least_runs: int = 4,
                    least_solves: int = 3) -> list[list[int]]:
    """The trials on the front at each elapsed time of `at`; runs are (elapsed, trial, parameters, time, solved) in order."""
    raise NotImplementedError
