"""Intervals that hold what they promise: of the restart ERT, the survival curve, the median, the restricted mean, the
front. Pure; nothing here reads or writes. Runs are given as in `statistics`; docs/coverage.md has what was measured.

All but the log-log band stand on one idea, the beta product of Fay, Brittain and Proschan (Biostatistics 14, 2013,
section 3), exact without censoring: at the i-th solve, with r runs at risk, the true survival falls by a factor that is
distributed as Beta(r, 1), that is exp(−E ÷ r) with E exponential. Between two solves the curve is not known. The *late*
curve lets all mass of a gap come at its end, and what is left after the last solve never come; the *early* curve at its
beginning. What grows with every time (restart ERT, mean, quantiles) has its upper end from the late curve, its lower end
from the early one. Without censoring that gives Clopper–Pearson for a share, order statistics for a quantile, and for a
mean Gaffke's bound (Statistics 39, 2005; Learned-Miller and Thomas, arXiv:1905.06208).

The lower ends suppose that nothing solves in less time than the fastest run seen, the restricted mean's excepted: a
setting of which one run in twenty solves at once looks like any other to a dozen seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sweep import statistics

DRAWS = 1000
LEAST_RUNS = 4  # below, the fastest of the runs lies above the restart ERT too often to be a lower end
#: Cutoffs by which less than this share of the solves had come are not tried for an upper end: they promise by luck.
LEAST_SHARE = 1 / 3


@lru_cache(maxsize=64)
def _exponentials(draws: int, columns: int, seed: int) -> np.ndarray:
    """Float64 [columns, draws], the same for the same arguments."""
    drawn = np.random.default_rng([seed, columns]).standard_exponential((columns, draws))
    drawn.setflags(write=False)
    return drawn


def _at_risk(times: Sequence[float], solved: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """(solve times [k], runs at risk at each and just after the last [k + 1]); ties one after the other."""
    pairs = statistics._ordered(times, solved)
    where = [i for i, (_, solve) in enumerate(pairs) if solve]
    left = [len(pairs) - i for i in where]
    return np.array([pairs[i][0] for i in where]), np.array(left + [left[-1] - 1] if left else [], dtype=float)


def _curves(at_risk: np.ndarray, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(late, early) survival just after each solve, [k, draws] each."""
    with np.errstate(divide="ignore"):
        survival = np.exp(-np.cumsum(_exponentials(draws, len(at_risk), seed) / at_risk[:, None], axis=0))
    return survival[:-1], survival[1:]


def _cutoff_erts(at: np.ndarray, survival: np.ndarray) -> np.ndarray:
    """Expected seconds until a solve with restarts after each solve time, [k, draws]."""
    before = np.ones_like(survival)
    before[1:] = survival[:-1]
    area = np.cumsum(before * np.diff(at, prepend=0.0)[:, None], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(survival < 1.0, area / (1.0 - survival), math.inf)


def _rank(share: float, draws: int) -> int:
    """Index of the quantile among sorted draws: at least `share` of them are no larger."""
    return min(draws - 1, max(0, math.ceil(share * draws - 1e-9) - 1))


def restart_ert(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """(low, high) of the restart ERT in seconds; (inf, inf), undefined, where nothing solved; from 0 below four runs.

    It is of min E[min(T, c)] ÷ P(T ≤ c) over all real c up to the longest time a run was watched: what a later cutoff
    would give nobody has seen. Being a minimum, its estimate is too low, the more so the more cutoffs are nearly as
    good (for exponential times all are). So the upper end is that of an intersection bound (Chernozhukov, Lee and
    Rosen, Econometrica 81, 2013, section 3): the least upper end over cutoffs, of a band that holds for all those
    together that could be the best. The lower end is that of the cutoff which the median draw prefers."""
    tail = (1.0 - level) / 2.0
    return restart_ert_ends(times, solved, tail, tail, seed, draws)


def restart_ert_ends(
    times: Sequence[float], solved: Sequence[bool], below: float, above: float, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """`restart_ert` with a probability of its own for each side to be missed: the truth below low, or above high."""
    at, at_risk = _at_risk(times, solved)
    if not len(at):
        return math.inf, math.inf
    if len(at) == 1 and len(times) < LEAST_RUNS:  # most trials of a search: Beta(r, 1) has a quantile to write down
        return 0.0, float(at[0] / -math.expm1(math.log1p(-above) / at_risk[0]))
    late, early = _curves(at_risk, draws, seed)
    cutoffs = _last_of_ties(at)
    cutoffs = cutoffs[cutoffs >= min(len(at) - 1, max(2, math.ceil(LEAST_SHARE * len(at))) - 1)]
    erts = _cutoff_erts(at, late)[cutoffs]
    rank = _rank(1.0 - above, draws)
    parted = np.partition(erts, [draws // 2, rank], axis=1)
    middle, single = parted[:, draws // 2], parted[:, rank]
    # Could be the best: half of its draws are below the least upper end of any alone.
    maybe = erts[middle <= single.min()]
    order = np.argsort(maybe, axis=1)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(draws), axis=1)
    together = np.partition(ranks.max(axis=0), rank)[rank]
    high = float(np.take_along_axis(maybe, order[:, [together]], axis=1).min())
    chosen = cutoffs[np.argmin(middle)]
    rank = _rank(below, draws)
    low = float(np.partition(_cutoff_erts(at[: chosen + 1], early[: chosen + 1])[-1], rank)[rank]) if len(times) >= LEAST_RUNS else 0.0
    return low, high


def _last_of_ties(at: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.append(np.diff(at) > 0, True))


def _beta_shapes(at_risk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a, b) of the Beta distributions with the mean and variance of the survival after 1, 2, ... of the factors.

    Exact where nothing is censored between, else the moments of Fay, Brittain and Proschan (2013, section 3.2)."""
    mean = np.cumprod(at_risk / (at_risk + 1.0))
    second = np.cumprod(at_risk / (at_risk + 2.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (mean - second) / (second - mean**2)
    return mean * total, (1.0 - mean) * total


def _beta_cdf(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """P(X ≤ x) of Beta(a, b), by Lentz's continued fraction (Press et al., Numerical Recipes, section 6.4)."""
    x, a, b = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (x, a, b)))
    swap = x > (a + 1.0) / (a + b + 2.0)  # there it converges faster from the other side
    x, a, b = np.where(swap, 1.0 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    lgamma = np.vectorize(math.lgamma, otypes=[float])
    with np.errstate(divide="ignore"):
        front = np.exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * np.log(x) + b * np.log1p(-x)) / a
    c, d = np.ones_like(x), 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 300):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d, c = 1.0 / (1.0 + term * d), 1.0 + term / c
            fraction = fraction * d * c
        if np.all(np.abs(d * c - 1.0) < 1e-11):
            break
    return np.where(swap, 1.0 - front * fraction, front * fraction)


def _beta_quantile(share: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low, high = np.zeros_like(a), np.ones_like(a)
    for _ in range(34):  # to 1e-10
        middle = 0.5 * (low + high)
        under = _beta_cdf(middle, a, b) < share
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return 0.5 * (low + high)


@lru_cache(maxsize=1024)
def _survival_ends(at_risk: tuple[float, ...], level: float) -> tuple[np.ndarray, np.ndarray]:
    """(low [k + 1], high [k]) of the survival after each solve, low before the first one too."""
    factors, tail = np.array(at_risk), (1.0 - level) / 2.0
    a, b = _beta_shapes(factors[factors > 0])
    low = np.append(_beta_quantile(tail, a, b), 0.0)[: len(factors)]
    return low, _beta_quantile(1.0 - tail, a, b)[: len(factors) - 1]


def survival(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(0 and the solve times, Kaplan–Meier survival from each on, low, high), pointwise by the beta product; empty where
    nothing solved.

    Without censoring it is Clopper–Pearson's at each time."""
    at, at_risk = _at_risk(times, solved)
    if not len(at):
        return at, at, at, at
    low, high = _survival_ends(tuple(at_risk), level)
    last = np.append(0, 1 + _last_of_ties(at))
    at, estimate = statistics.kaplan_meier(times, solved)
    return np.append(0.0, at), np.append(1.0, estimate), low[last], np.append(1.0, high)[last]


def survival_log_log(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.95
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(solve times, survival, low, high) by Greenwood's variance of log(−log S) (Kalbfleisch and Prentice, The Statistical Analysis of Failure
    Time Data, 2nd ed. 2002, section 1.4): what other tools show; nan where the survival is 0. Nothing is said
    before the first solve.

    Narrower than `survival`, and below its level where few runs are left or few have solved."""
    at, estimate, greenwood = statistics._steps(times, solved)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = statistics._NORMAL.inv_cdf(0.5 + level / 2.0) * np.sqrt(greenwood) / np.abs(np.log(estimate))
        low, high = estimate ** np.exp(width), estimate ** np.exp(-width)
    gone = estimate <= 0
    return at, estimate, np.where(gone, math.nan, low), np.where(gone, math.nan, high)


@lru_cache(maxsize=4096)
def _below_half(at_risk: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """P(survival < ½) after 1, 2, ... of the factors: (late [k], early [k + 1]). Kept: most trials have the same runs at
    risk as others."""
    factors = np.array(at_risk)
    shares = _beta_cdf(0.5, *_beta_shapes(factors[factors > 0]))
    return shares[: len(factors) - 1], np.append(shares, 1.0)[: len(factors)]


def median(
    times: Sequence[float], solved: Sequence[bool], level: float = 0.95
) -> tuple[float | None, float | None, float | None]:
    """(Kaplan–Meier median, low, high) in seconds; None where not reached, all three where nothing solved.

    By inversion of `survival`: without censoring it is the order statistics' (David and Nagaraja, Order Statistics, 3rd
    ed. 2003, section 7.1). Five runs or fewer bound no median at 95%: low is then 0 and high None."""
    at, at_risk = _at_risk(times, solved)
    if not len(at):
        return None, None, None
    tail, last = (1.0 - level) / 2.0, _last_of_ties(at)
    late, early = _below_half(tuple(at_risk))
    # Early: one factor more at each solve, the first before the first of them.
    low = 0.0 if early[0] >= tail else statistics._first(at[last], early[1:][last] >= tail)
    high = statistics._first(at[last], 1.0 - late[last] < tail)
    return statistics.median_interval(times, solved)[0], low, high


def restricted_mean(
    times: Sequence[float], solved: Sequence[bool], until: float, level: float = 0.95, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float, float, float]:
    """(mean of min(T, until) in seconds, its variance, low, high).

    Mean and variance as in Klein and Moeschberger (Survival Analysis, 2nd ed. 2003, section 4.5): the area under
    Kaplan–Meier, Σ (area from t on)² d ÷ (n (n − d)); the variance is 0 where it says nothing, as after one run. The
    interval does not use it: at a dozen runs ± 1.96 standard errors covers too seldom. Kaplan–Meier is carried on level
    where no run was watched until then; the interval supposes no more than that nothing solves twice."""
    if not (0 < until < math.inf):
        raise ValueError(f"restricted_mean: until {until} s must be above 0 and finite")
    at, estimate, greenwood = statistics._steps(times, solved)
    inside = at < until
    at, estimate, greenwood = at[inside], estimate[inside], greenwood[inside]
    areas = np.append(1.0, estimate) * np.diff(at, prepend=0.0, append=until)
    after = np.cumsum(areas[::-1])[::-1][1:]
    steps = np.diff(greenwood, prepend=0.0)
    variance = float(np.sum(np.where(after > 0, after**2 * np.where(np.isfinite(steps), steps, 0.0), 0.0)))
    every, at_risk = _at_risk(times, solved)
    every = every[every < until]
    if not len(times):
        return until, 0.0, 0.0, until
    # The runs at risk when the next solve could come: after the last within `until`, all that are left by then.
    watched = sum(t >= until for t in times)
    factors = np.append(at_risk[: len(every)], max(watched, 0))
    late, early = _curves(factors, draws, seed)
    gaps = np.diff(every, prepend=0.0, append=until)
    one = np.ones((1, draws))
    highs = gaps @ np.vstack([one, late])
    with np.errstate(divide="ignore"):
        first = np.exp(-_exponentials(draws, len(factors), seed)[:1] / factors[0]) if factors[0] else 0.0 * one
    lows = gaps @ np.vstack([first, early])
    tail = (1.0 - level) / 2.0
    low, high = np.sort(lows)[_rank(tail, draws)], np.sort(highs)[_rank(1.0 - tail, draws)]
    return float(areas.sum()), variance, float(low), float(high)


def front(
    trials: Sequence[tuple[int, Sequence[float], Sequence[bool]]], level: float = 0.95, seed: int = 0, draws: int = 4000
) -> list[tuple[int, float, float, float]]:
    """[(parameters, least restart ERT of networks no larger, low, high)] at each size of the (parameters, times,
    solved); inf where nothing of that size or below solved.

    A band, pointwise: at a size it covers the least true restart ERT of these trials, not of all that could be. The
    lower end is the least of theirs. For the upper the least of several would be too low, so each is taken at the
    level at which all hold together (Šidák, Journal of the American Statistical Association 62, 1967)."""
    tail = (1.0 - level) / 2.0
    band = []
    for size in sorted({p for p, _, _ in trials}):
        here = [(t, s) for p, t, s in trials if p <= size and any(s)]
        each = 1.0 - (1.0 - tail) ** (1.0 / max(1, len(here)))
        ends = [restart_ert_ends(t, s, tail, each, seed, draws) for t, s in here]
        estimate = min((statistics.restart_ert(t, s) for t, s in here), default=math.inf)
        low, high = (min(side) for side in zip(*ends)) if ends else (math.inf, math.inf)
        band.append((size, estimate, low, high))
    return band
