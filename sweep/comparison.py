"""Whether one trial is faster than another, by how much, and how many seeds it takes to tell. Pure; nothing here reads
or writes. Runs are given as in `statistics`; docs/coverage.md has the false alarms and the power that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sweep import intervals, statistics

PERMUTATIONS = 999


@dataclass(frozen=True)
class Comparison:
    """Restart ERT of the first trial over that of the second: below 1 where the first is faster."""

    ratio: float  # inf or 0 where one of them did not solve; nan, undefined, where neither did
    low: float
    high: float
    p_value: float  # two-sided, of no difference


@lru_cache(maxsize=64)
def _permutations(first: int, second: int, draws: int, seed: int) -> np.ndarray:
    """Which of the pooled runs are the first trial's, [1 + draws, runs]; row 0 is as it was."""
    labels = np.arange(first + second) < first
    rng = np.random.default_rng([seed, first, second])
    drawn = np.vstack([labels, rng.permuted(np.tile(labels, (draws, 1)), axis=1)])
    drawn.setflags(write=False)
    return drawn


def _log_erts(times: np.ndarray, solved: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log restart ERT, its variance) of each row of `member` [rows, runs]; the runs in order, solves before
    censorings. inf and 0 where none of a row's runs solved.

    The variance is the delta method's on Greenwood's at the best cutoff, which as the place of a minimum adds nothing
    of its own: log(area) − log(1 − S) changes by (area still to come ÷ area + S ÷ (1 − S)) for each unit of log(1 −
    hazard) (Klein and Moeschberger, Survival Analysis, 2nd ed. 2003, sections 4.2 and 4.5)."""
    at_risk = np.cumsum(member[:, ::-1], axis=1)[:, ::-1][:, solved].astype(float)
    here, at = member[:, solved].astype(float), times[solved]
    survival = np.cumprod(1.0 - here / np.maximum(at_risk, 1.0), axis=1)
    before = np.ones_like(survival)
    before[:, 1:] = survival[:, :-1]
    area = np.cumsum(before * np.diff(at, prepend=0.0), axis=1)
    rows = np.arange(len(member))
    with np.errstate(divide="ignore", invalid="ignore"):
        ert = np.where(survival < 1.0, area / (1.0 - survival), math.inf)
        best = ert.argmin(axis=1)
        least, whole, left = ert[rows, best], area[rows, best], survival[rows, best]
        slope = (whole[:, None] - area) / whole[:, None] + (left / (1.0 - left))[:, None]
        used = (here > 0) & (np.arange(here.shape[1]) <= best[:, None]) & (at_risk > 1)
        variance = np.sum(np.where(used, slope**2 / (at_risk * (at_risk - 1.0)), 0.0), axis=1)
        return np.log(least), np.where(np.isfinite(least), variance, 0.0)


def _p_value(times_a, solved_a, times_b, solved_b, draws: int, seed: int) -> float:
    member = _permutations(len(times_a), len(times_b), draws, seed)
    times, solved = np.concatenate([times_a, times_b]), np.concatenate([solved_a, solved_b])
    order = np.lexsort((~solved, times))
    times, solved, member = times[order], solved[order], member[:, order]
    first, variance = _log_erts(times, solved, member)
    second, other = _log_erts(times, solved, ~member)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(first - second) / np.sqrt(variance + other)
    apart = np.where(np.isnan(apart), 0.0, apart)  # equal, without any spread
    return float(np.count_nonzero(apart >= apart[0] * (1.0 - 1e-9)) / len(apart))


def compare(
    times_a: Sequence[float],
    solved_a: Sequence[bool],
    times_b: Sequence[float],
    solved_b: Sequence[bool],
    level: float = 0.95,
    seed: int = 0,
    draws: int = PERMUTATIONS,
) -> Comparison:
    """The first trial's restart ERT over the second's with its interval, and the p-value of no difference.

    The p-value is of a permutation test of the difference of logs over its standard error: exact where seeds of the two
    have the same times and are capped alike, whatever these times are (Janssen, Statistics & Probability Letters 36,
    1997; Chung and Romano, Annals of Statistics 41, 2013; with censored times Ditzhaus, Dobler and Pauly, Statistical
    Methods in Medical Research 30, 2021). The observed order counts as one of the permutations (Phipson and Smyth,
    Statistical Applications in Genetics and Molecular Biology 9, 2010).

    The interval supposes nothing alike: it joins those of `intervals` on the log scale (MOVER: Zou and Donner,
    Statistics in Medicine 27, 2008, section 2). It is the wider statement, and can hold 1 where the p-value is small:
    then the two differ, but perhaps in something else than their restart ERT.

    Undefined, p-value 1 and interval 0 to inf, where a trial has no run or neither has solved."""
    for times, solved in ((times_a, solved_a), (times_b, solved_b)):
        statistics._ordered(times, solved)  # refuses what is no time
    a, b = (np.asarray(times, dtype=float) for times in (times_a, times_b))
    sa, sb = (np.asarray(solved, dtype=bool) for solved in (solved_a, solved_b))
    if not len(a) or not len(b) or not (sa.any() or sb.any()):
        return Comparison(math.nan, 0.0, math.inf, 1.0)
    first, second = statistics.restart_ert(a, sa), statistics.restart_ert(b, sb)
    p_value = _p_value(a, sa, b, sb, draws, seed)
    if not (0.0 < first < math.inf and 0.0 < second < math.inf):
        return Comparison(first / second if second else math.nan, 0.0, math.inf, p_value)
    (down_a, up_a), (down_b, up_b) = (
        _log_distances(ert, intervals.restart_ert(t, s, level)) for ert, t, s in ((first, a, sa), (second, b, sb))
    )
    ratio = first / second
    return Comparison(ratio, ratio * math.exp(-math.hypot(down_a, up_b)), ratio * _exp(math.hypot(up_a, down_b)), p_value)


def _log_distances(ert: float, ends: tuple[float, float]) -> tuple[float, float]:
    """How far below and above the estimate the ends of its interval are, in logs."""
    low, high = ends
    return max(0.0, math.log(ert / low)) if low > 0 else math.inf, max(0.0, math.log(high / ert))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def log_ert_variance(log_sd: float, p_solve: float = 1.0) -> float:
    """Variance of log restart ERT times the number of runs, for log-normal times of which a share p_solve comes.

    At the best cutoff c, E[min(T, c)] ÷ P(T ≤ c) = R has the influence (min(T, c) − R [T ≤ c]) ÷ E[min(T, c)] (delta
    method: van der Vaart, Asymptotic Statistics, 1998, chapter 3); the cutoff, being a minimum's, adds none."""
    if not (log_sd > 0 and 0 < p_solve <= 1):
        raise ValueError(f"log_ert_variance: log_sd {log_sd} must be above 0, p_solve {p_solve} in (0, 1]")
    z = np.linspace(-6.0, 6.0, 4001)
    times = np.exp(log_sd * z)
    mass = np.exp(-0.5 * z**2)
    mass *= p_solve / mass.sum()
    share = np.cumsum(mass)
    left = np.maximum(0.0, 1.0 - share)
    mean, square = np.cumsum(mass * times) + left * times, np.cumsum(mass * times**2) + left * times**2
    ert = np.where(share > 1e-3 * p_solve, mean / share, math.inf)
    best = int(np.argmin(ert))
    r, m = ert[best], mean[best]
    # E of the square of min(T, c) − R [T ≤ c], whose mean is 0.
    return float((square[best] - 2.0 * r * np.sum((mass * times)[: best + 1]) + r**2 * share[best]) / m**2)


def _planned(power: float, level: float) -> tuple[float, float]:
    """((z of level + z of power)², and the seeds by which a test that has to estimate the spread needs more: Guenther,
    The American Statistician 35, 1981)."""
    z = statistics._NORMAL.inv_cdf(1.0 - level / 2.0)
    return (z + statistics._NORMAL.inv_cdf(power)) ** 2, z**2 / 4.0


def seeds_to_tell(ratio: float, log_sd: float, p_solve: float = 1.0, power: float = 0.8, level: float = 0.05) -> int:
    """Seeds for each of two trials so that `compare` tells them apart at `level` with probability `power`.

    `ratio` of their restart ERTs, either way up; `log_sd` the standard deviation of log time to solve, `p_solve` the
    share of runs that solve, of both."""
    if not (ratio > 0 and ratio != 1):
        raise ValueError(f"seeds_to_tell: ratio {ratio} must be above 0 and not 1")
    z2, more = _planned(power, level)
    return max(2, math.ceil(2.0 * z2 * log_ert_variance(log_sd, p_solve) / math.log(ratio) ** 2 + more))


def ratio_told(seeds: int, log_sd: float, p_solve: float = 1.0, power: float = 0.8, level: float = 0.05) -> float:
    """The ratio of restart ERTs, above 1, that so many seeds of each trial tell apart; inf where none. The inverse of
    `seeds_to_tell`."""
    z2, more = _planned(power, level)
    return math.exp(math.sqrt(2.0 * z2 * log_ert_variance(log_sd, p_solve) / (seeds - more))) if seeds > more else math.inf
