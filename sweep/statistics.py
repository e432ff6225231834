"""Times to solve into numbers: restart ERT, Kaplan–Meier, intervals, shrinkage, the front. Pure; nothing here reads
or writes.

Runs enter as two sequences of equal length, `times` in seconds and `solved`. A run that solved is (t, True). A run
stopped by its cap or its env-step limit is (t, False): it leaves the risk set at t, after the solves at t. A run that
failed by its own doing, diverged or killed on its curve, is (inf, False): it never leaves the risk set, as a run that
would never have solved. A crashed run says nothing about the policy and is left out. `outcome` makes these pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_NORMAL = NormalDist()
KILLED_ON_CURVE = "killed on its curve"  # Run.reason of a run that was stopped for what its curve looked like
VERIFIED_RUNS, VERIFIED_SHARE = 12, 0.8  # fresh seeds, and the share of them solved, from which on a trial is verified


def outcome(status: str, seconds: float, reason: str = "") -> tuple[float, bool] | None:
    """The (time, solved) of one run; None for a crashed run, which is left out."""
    if status == "solved":
        return float(seconds), True
    if status == "diverged" or (status == "censored" and reason == KILLED_ON_CURVE):
        return math.inf, False
    if status == "censored":
        return float(seconds), False
    if status == "crashed":
        return None
    raise ValueError(f"outcome: status {status!r} is not one of solved, censored, diverged, crashed")


def outcomes(runs: Iterable[tuple]) -> tuple[np.ndarray, np.ndarray]:
    """(times float64[n], solved bool[n]) of runs given as (status, seconds) or (status, seconds, reason), crashed
    ones left out."""
    pairs = [pair for run in runs if (pair := outcome(*run)) is not None]
    return np.array([t for t, _ in pairs], dtype=float), np.array([s for _, s in pairs], dtype=bool)


def _ordered(times: Sequence[float], solved: Sequence[bool]) -> list[tuple[float, bool]]:
    """Pairs by time, solves before censorings of the same time; every entry checked."""
    if len(times) != len(solved):
        raise ValueError(f"times and solved differ in length: {len(times)} and {len(solved)}")
    pairs = sorted(((float(t), not s) for t, s in zip(times, solved)))
    for t, censored in pairs:
        if not t >= 0 or (math.isinf(t) and not censored):
            raise ValueError(f"a time of {t} s: times are at least 0, and a solve's is finite")
    return [(t, not censored) for t, censored in pairs]


def kaplan_meier(times: Sequence[float], solved: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """(distinct solve times in seconds, share of runs not yet solved just after each); both empty where nothing
    solved."""
    at, survival, _ = _steps(times, solved)
    return at, survival


def _steps(times: Sequence[float], solved: Sequence[bool]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kaplan–Meier's times and survival with Greenwood's sum Σ d ÷ (n (n − d)), inf where the survival is 0."""
    pairs = _ordered(times, solved)
    at: list[float] = []
    survival: list[float] = []
    greenwood: list[float] = []
    s, g, at_risk, i = 1.0, 0.0, len(pairs), 0
    while i < len(pairs):
        t = pairs[i][0]
        events = leaving = 0
        while i < len(pairs) and pairs[i][0] == t:
            events += pairs[i][1]
            leaving += 1
            i += 1
        if events:
            s *= (at_risk - events) / at_risk
            g += events / (at_risk * (at_risk - events)) if at_risk > events else math.inf
            at.append(t)
            survival.append(s)
            greenwood.append(g)
        at_risk -= leaving
    return np.array(at), np.array(survival), np.array(greenwood)


def restart_ert(times: Sequence[float], solved: Sequence[bool]) -> float:
    """Expected seconds until a solve if every run is restarted after the best fixed cutoff; inf where nothing solved.

    The least over solve times τ of ∫₀^τ S(t) dt ÷ (1 − S(τ)), S being the Kaplan–Meier curve."""
    return _restart(times, solved)[0]


def restart_cutoff(times: Sequence[float], solved: Sequence[bool]) -> float | None:
    """The cutoff in seconds at which restart_ert is reached, the shortest of equals; None where nothing solved."""
    return _restart(times, solved)[1]


def _restart(times: Sequence[float], solved: Sequence[bool]) -> tuple[float, float | None]:
    # One solve at a time: (1 − 1/n)(1 − 1/(n−1)) = 1 − 2/n, so ties need no care; half a tie has no lower ratio.
    best, cutoff = math.inf, None
    survival, area, last = 1.0, 0.0, 0.0
    pairs = _ordered(times, solved)
    for at_risk, (t, solve) in zip(range(len(pairs), 0, -1), pairs):
        if not solve:
            continue
        area += survival * (t - last)
        last = t
        survival *= (at_risk - 1) / at_risk
        ert = area / (1.0 - survival)
        if ert < best:
            best, cutoff = ert, t
    return best, cutoff


@lru_cache(maxsize=64)
def _resamples(runs: int, draws: int, seed: int) -> np.ndarray:
    """How often each of `runs` runs stands in each resample: float64 [draws, runs], the same for the same arguments."""
    picks = np.random.default_rng([seed, runs]).integers(0, runs, (draws, runs))
    counts = np.zeros((draws, runs))
    np.add.at(counts, (np.arange(draws)[:, None], picks), 1.0)
    counts.setflags(write=False)
    return counts


def restart_ert_interval(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.9, seed: int = 0, draws: int = 1000
) -> tuple[float, float]:
    """(low, high) of the restart ERT in seconds by the bias-corrected bootstrap over runs, with a fixed seed.

    The least over cutoffs is too low in a resample as it is in the sample; the bias correction moves the percentiles
    by the share of resamples below the estimate, and a factor √(n/(n−1)) widens them. A resample without a solve
    counts as infinite, so `high` is inf where those are many. Simulated with log-normal times, 90% intervals cover
    the truth 84 to 89 times in 100 with 32 runs, 74 to 86 with 12, 67 to 79 with 4: a failure rate of 10% that shows
    in no run is in no resample either. The search decides by it, which needs speed and a like measure for all; what is
    shown to people is `intervals.restart_ert`, which covers as often as it says (docs/coverage.md)."""
    pairs = _ordered(times, solved)
    runs, estimate = len(pairs), restart_ert(times, solved)
    if math.isinf(estimate):
        return math.inf, math.inf
    erts = np.sort(_resampled_erts(pairs, _resamples(runs, draws, seed)))
    below, ties = np.searchsorted(erts, [estimate * (1 - 1e-9), estimate * (1 + 1e-9)])
    share = min(max(0.5 * (below + ties) / draws, 0.5 / draws), 1.0 - 0.5 / draws)
    shift = 2.0 * _NORMAL.inv_cdf(share)
    width = _NORMAL.inv_cdf(0.5 + level / 2.0) * math.sqrt(runs / max(runs - 1, 1))
    # Resampled values as they are, nothing interpolated: half-way to infinity is no time.
    low = min(draws - 1, int(_NORMAL.cdf(shift - width) * draws))
    high = min(draws - 1, max(0, math.ceil(_NORMAL.cdf(shift + width) * draws) - 1))
    return float(erts[low]), float(erts[high])


def _resampled_erts(pairs: list[tuple[float, bool]], counts: np.ndarray) -> np.ndarray:
    """The restart ERT of each resample, [draws]; `counts` [draws, runs] in the order of `pairs`."""
    solve = np.array([s for _, s in pairs])
    times = np.array([t for t, _ in pairs])[solve]
    at_risk = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, solve]
    survival = np.cumprod(1.0 - counts[:, solve] / np.maximum(at_risk, 1.0), axis=1)
    before = np.empty_like(survival)
    before[:, 0], before[:, 1:] = 1.0, survival[:, :-1]
    area = np.cumsum(before * np.diff(times, prepend=0.0), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(survival < 1.0, area / (1.0 - survival), math.inf)
    return ratio.min(axis=1)


def median_interval(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.95
) -> tuple[float | None, float | None, float | None]:
    """(Kaplan–Meier median, low, high) in seconds by Brookmeyer and Crowley with log-log bands; None where not reached.

    A survival of exactly one half over a stretch gives the middle of the stretch, as the median of an even number
    does. As in R's survfit there is no band where the survival is 0, so that few runs have no upper end."""
    at, survival, greenwood = _steps(times, solved)
    if not len(at):
        return None, None, None
    z = _NORMAL.inv_cdf(0.5 + level / 2.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_s = np.log(survival)
        width = z * np.sqrt(greenwood) / np.abs(log_s)
        low_band, high_band = survival ** np.exp(width), survival ** np.exp(-width)
    inside = survival > 0
    low = _first(at, (np.where(inside, low_band, 0.0)) <= 0.5 + 1e-12)
    high = _first(at, inside & (high_band <= 0.5 + 1e-12))
    median = _first(at, survival <= 0.5 + 1e-12)
    if median is not None:
        k = int(np.searchsorted(at, median))
        if abs(survival[k] - 0.5) < 1e-12 and k + 1 < len(at):
            median = 0.5 * (median + float(at[k + 1]))
    return median, low, high


def _first(at: np.ndarray, reached: np.ndarray) -> float | None:
    hits = np.flatnonzero(reached)
    return float(at[hits[0]]) if len(hits) else None


def _at_least(k: int, n: int, p: float) -> float:
    """P(X ≥ k) of a binomial X of n tries at p."""
    if k <= 0:
        return 1.0
    if p <= 0.0 or p >= 1.0:
        return float(p >= 1.0)
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    return math.fsum(
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        for i in range(k, n + 1)
    )


def _at_most(k: int, n: int, p: float) -> float:
    """P(X ≤ k) of a binomial X of n tries at p."""
    return _at_least(n - k, n, 1.0 - p)


@lru_cache(maxsize=4096)
def clopper_pearson(solved: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Exact (low, high) of the solve probability after `solved` of `runs`; (0, 1) after none."""
    if not 0 <= solved <= runs:
        raise ValueError(f"clopper_pearson: {solved} solved of {runs} runs")
    tail = (1.0 - level) / 2.0
    low = 0.0 if solved == 0 else _bisect(lambda p: _at_least(solved, runs, p) >= tail)
    high = 1.0 if solved == runs else _bisect(lambda p: _at_most(solved, runs, p) < tail)
    return low, high


def _bisect(true_above) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if true_above(middle) else (middle, high)
    return 0.5 * (low + high)


def olympic_mean(times: Sequence[float]) -> float | None:
    """Mean seconds of the solves without the fastest and the slowest; None below three. Infinite times are no
    solves."""
    solves = sorted(float(t) for t in times if math.isfinite(t))
    return math.fsum(solves[1:-1]) / (len(solves) - 2) if len(solves) >= 3 else None


def shrunk_log_ert(times: Sequence[float], solved: Sequence[bool], pooled_seconds_per_solve: float) -> float:
    """log restart ERT drawn towards log(pooled_seconds_per_solve) by one pseudo-run; inf where nothing solved.

    `pooled_seconds_per_solve` is one over the study's pooled rate: all its runs' seconds over all its solves. A log
    rate is known as well as there are solves, so the mean of logs weighs the trial by its solves and the pseudo-run
    as one."""
    ert, solves = restart_ert(times, solved), sum(map(bool, solved))
    return shrunk(ert, solves, pooled_seconds_per_solve)


def shrunk(ert: float, solves: int, pooled_seconds_per_solve: float) -> float:
    """shrunk_log_ert for a restart ERT that is known already."""
    if not solves:
        return math.inf
    return (solves * math.log(max(ert, 1e-9)) + math.log(max(pooled_seconds_per_solve, 1e-9))) / (solves + 1)


def front(points: Sequence[tuple[float, float | None]]) -> list[int]:
    """Indices of the (parameters, seconds) that no other beats, smallest network first. Equal points both stay; None
    and inf never do."""
    usable = sorted((size, t, i) for i, (size, t) in enumerate(points) if t is not None and math.isfinite(t))
    kept: list[int] = []
    best: tuple[float, float] | None = None  # (parameters, seconds) of the last kept: the fastest so far
    for size, t, i in usable:
        if best is None or t < best[1] or (size, t) == best:
            kept.append(i)
            best = (size, t)
    return kept


def recommended(verified: Sequence[tuple[int, int, float]], within: float = 1.5) -> int | None:
    """Of verified (index, parameters, restart ERT): the index of the smallest network within `within` × the fastest;
    None of none.

    Of equally small networks the faster, then the first."""
    finite = [v for v in verified if v[2] is not None and math.isfinite(v[2])]
    if not finite:
        return None
    limit = within * min(ert for _, _, ert in finite)
    return min((v for v in finite if v[2] <= limit), key=lambda v: (v[1], v[2]))[0]


def is_verified(solved: int, runs: int) -> bool:
    """At least 12 fresh seeds and at least 80% of them solved."""
    return runs >= VERIFIED_RUNS and solved >= VERIFIED_SHARE * runs - 1e-9


def best_over_time(
    runs: Iterable[tuple[float, int, float, bool]], least_runs: int = 4, least_solves: int = 3
) -> list[tuple[float, float, int]]:
    """[(elapsed seconds, best restart ERT, trial)] at each change of the best, which can rise when its trial's later
    seeds are slower.

    `runs` are (elapsed seconds at the run's end, trial, time, solved) in the order they ended. Trials count from
    `least_solves` in `least_runs` on, so that one lucky seed does not shine."""
    seen: dict[int, tuple[list, list]] = {}
    erts: dict[int, float] = {}
    changes: list[tuple[float, float, int]] = []
    best, leader = math.inf, None
    for elapsed, trial, t, solve in runs:
        times, solved = seen.setdefault(trial, ([], []))
        times.append(t)
        solved.append(solve)
        if len(times) < least_runs or sum(solved) < least_solves:
            continue
        ert = erts[trial] = restart_ert(times, solved)
        if trial == leader and ert > best:
            leader = min(erts, key=erts.__getitem__)
        elif ert < best:
            leader = trial
        if erts[leader] != best:
            best = erts[leader]
            changes.append((elapsed, best, leader))
    return changes


def front_over_time(
    runs: Iterable[tuple[float, int, int, float, bool]], at: Sequence[float], least_runs: int = 4, least_solves: int = 3
) -> list[list[int]]:
    """The trials on the front at each elapsed time of `at` (ascending); runs are (elapsed, trial, parameters, time,
    solved) in order."""
    rows, fronts, used = list(runs), [], 0
    seen: dict[int, tuple[int, list, list]] = {}
    for moment in at:
        while used < len(rows) and rows[used][0] <= moment:
            _, trial, parameters, t, solve = rows[used]
            _, times, solved = seen.setdefault(trial, (parameters, [], []))
            times.append(t)
            solved.append(solve)
            used += 1
        solid = [
            (n, p, restart_ert(t, s))
            for n, (p, t, s) in seen.items()
            if len(t) >= least_runs and sum(s) >= least_solves
        ]
        fronts.append([solid[i][0] for i in front([(p, ert) for _, p, ert in solid])])
    return fronts
