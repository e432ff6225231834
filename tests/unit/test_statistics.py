"""statistics.py against hand-worked cases, brute force and scipy."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweep import statistics

INF = math.inf
RUNS = st.lists(
    st.tuples(st.integers(1, 9), st.sampled_from("sscf")), min_size=1, max_size=9
)  # solved, censored, failed


def split(runs):
    times = [INF if kind == "f" else float(t) for t, kind in runs]
    return times, [kind == "s" for _, kind in runs]


def brute_survival(times, solved, t):
    s = 1.0
    for u in sorted({x for x, y in zip(times, solved) if y and x <= t}):
        events = sum(y and x == u for x, y in zip(times, solved))
        s *= 1 - events / sum(x >= u for x in times)
    return s


def brute_ert(times, solved):
    """The definition, integrated over unit intervals: the times of these tests are whole."""
    best = INF
    for tau in {t for t, s in zip(times, solved) if s}:
        area = sum(brute_survival(times, solved, k) for k in range(int(tau)))
        best = min(best, area / (1 - brute_survival(times, solved, tau)))
    return best


def test_outcome_tells_failures_from_censorings():
    assert statistics.outcome("solved", 2.0) == (2.0, True)
    assert statistics.outcome("censored", 3.0, "cap") == (3.0, False)
    assert statistics.outcome("censored", 3.0, "env-step limit") == (3.0, False)
    assert statistics.outcome("censored", 3.0, statistics.KILLED_ON_CURVE) == (INF, False)
    assert statistics.outcome("diverged", 1.0) == (INF, False)
    assert statistics.outcome("crashed", 1.0) is None
    with pytest.raises(ValueError, match="not one of"):
        statistics.outcome("finished", 1.0)
    times, solved = statistics.outcomes([("solved", 1.0), ("crashed", 9.0), ("diverged", 2.0, "not a number")])
    assert times.tolist() == [1.0, INF] and solved.tolist() == [True, False]


def test_kaplan_meier_by_hand():
    # 1 solved of 4 at risk, 2 censored, 3 solved of 2 at risk, one never.
    times, survival = statistics.kaplan_meier([3, 1, 2, INF], [True, True, False, False])
    assert times.tolist() == [1, 3]
    assert survival.tolist() == pytest.approx([0.75, 0.375])
    # A censoring at the time of a solve leaves after it.
    assert statistics.kaplan_meier([1, 1], [False, True])[1].tolist() == [0.5]
    assert len(statistics.kaplan_meier([5, 6], [False, False])[0]) == 0


def test_restart_ert_by_hand():
    assert statistics.restart_ert([1, 2, 3, 6], [True] * 4) == pytest.approx(3.0)  # no restart: the mean
    # One second solves half, the others never: restart after 1 s, 1 s ÷ 0.5.
    assert statistics.restart_ert([1, INF], [True, False]) == pytest.approx(2.0)
    assert statistics.restart_ert([1, 100], [True, True]) == pytest.approx(2.0)
    assert statistics.restart_cutoff([1, 100], [True, True]) == 1.0
    # Censored at 2 by a cap: at 4 s one of the two at risk is left: ∫ = 1 + 0.75 · 3, S = 0.75 · 0.5.
    assert statistics.restart_ert([1, 2, 4, 9], [True, False, True, False]) == pytest.approx(min(4.0, 3.25 / 0.625))
    assert statistics.restart_ert([2, 3], [False, False]) == INF
    assert statistics.restart_ert([], []) == INF
    assert statistics.restart_cutoff([2], [False]) is None


@given(RUNS)
def test_restart_ert_is_its_definition(runs):
    times, solved = split(runs)
    assert statistics.restart_ert(times, solved) == pytest.approx(brute_ert(times, solved))
    shuffled = random.Random(0).sample(runs, len(runs))
    assert statistics.restart_ert(*split(shuffled)) == pytest.approx(statistics.restart_ert(times, solved))


@given(RUNS)
def test_kaplan_meier_is_its_definition(runs):
    times, solved = split(runs)
    for t, s in zip(*statistics.kaplan_meier(times, solved)):
        assert s == pytest.approx(brute_survival(times, solved, t))


@given(RUNS)
def test_resampled_erts_are_those_of_the_resamples(runs):
    times, solved = split(runs)
    pairs = statistics._ordered(times, solved)
    if not any(solved):
        assert statistics.restart_ert_interval(times, solved) == (INF, INF)
        return
    counts = statistics._resamples(len(pairs), 20, 3)
    for row, ert in zip(counts, statistics._resampled_erts(pairs, counts)):
        again = [pair for pair, count in zip(pairs, row) for _ in range(int(count))]
        assert ert == pytest.approx(statistics.restart_ert([t for t, _ in again], [s for _, s in again]))


def test_interval_is_fixed_and_scales():
    times, solved = [1.0, 2.0, 3.0, 5.0, 8.0, INF], [True] * 5 + [False]
    low, high = statistics.restart_ert_interval(times, solved)
    assert low < statistics.restart_ert(times, solved) < high
    assert statistics.restart_ert_interval(times, solved) == (low, high)
    assert statistics.restart_ert_interval([10 * t for t in times], solved) == pytest.approx((10 * low, 10 * high))
    narrow = statistics.restart_ert_interval(times, solved, level=0.5)
    assert low <= narrow[0] <= narrow[1] <= high
    assert statistics.restart_ert_interval([1, INF, INF, INF], [True, False, False, False])[1] == INF
    assert statistics.restart_ert_interval([2.0], [True]) == (2.0, 2.0)


def test_bad_times_are_refused():
    for times in ([-1.0], [math.nan], [INF]):
        with pytest.raises(ValueError, match="times are at least 0"):
            statistics.restart_ert(times, [True])
    with pytest.raises(ValueError, match="differ in length"):
        statistics.kaplan_meier([1.0, 2.0], [True])


def test_median_by_hand():
    assert statistics.median_interval([1, 2, 3, 4, 5], [True] * 5)[0] == 3
    assert statistics.median_interval([1, 2, 3, 4], [True] * 4)[0] == 2.5
    assert statistics.median_interval([1, INF, INF], [True, False, False]) == (None, 1, None)
    assert statistics.median_interval([1, 2], [False, False]) == (None, None, None)
    # Textbook data (Freireich's 6-mercaptopurine arm): median 23, 95% log-log interval from 13, no upper end.
    weeks = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    event = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert statistics.median_interval(weeks, [bool(e) for e in event]) == (23, 13, None)
    # Its placebo arm: median 8, interval 4 to 11.
    placebo = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]
    assert statistics.median_interval(placebo, [True] * 21) == (8, 4, 11)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_clopper_pearson_as_scipy(level):
    tail = (1 - level) / 2
    for n in (1, 4, 12, 32, 500):
        for k in {0, 1, n // 2, n - 1, n}:
            low = stats.beta.ppf(tail, k, n - k + 1) if k else 0.0
            high = stats.beta.ppf(1 - tail, k + 1, n - k) if k < n else 1.0
            assert statistics.clopper_pearson(k, n, level) == pytest.approx((low, high), abs=1e-9)
    assert statistics.clopper_pearson(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError):
        statistics.clopper_pearson(5, 4)


def test_olympic_mean():
    assert statistics.olympic_mean([9, 1, 2, 4]) == 3
    assert statistics.olympic_mean([9, 1, 2, INF]) == 2
    assert statistics.olympic_mean([1, 2]) is None


def test_shrinkage_tames_a_lucky_seed():
    pooled = 20.0
    lucky = statistics.shrunk_log_ert([4.1], [True], pooled)
    assert lucky == pytest.approx((math.log(4.1) + math.log(20)) / 2)
    proven = statistics.shrunk_log_ert([6.0] * 8, [True] * 8, pooled)
    assert proven < lucky < math.log(pooled)
    assert statistics.shrunk_log_ert([4.0], [False], pooled) == INF


def test_front_with_ties():
    points = [(100, 5.0), (50, 5.0), (50, 5.0), (50, 6.0), (200, 1.0), (10, None), (5, INF), (300, 1.0)]
    assert statistics.front(points) == [1, 2, 4]
    assert statistics.front([]) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(1, 4))), max_size=8))
def test_front_is_its_definition(points):
    def beaten(p, q):
        return q[1] is not None and q[0] <= p[0] and q[1] <= p[1] and q != p

    kept = {i for i, p in enumerate(points) if p[1] is not None and not any(beaten(p, q) for q in points)}
    assert set(statistics.front(points)) == kept


def test_recommended():
    assert statistics.recommended([(7, 900, 10.0), (8, 300, 14.9), (9, 100, 15.1)]) == 8
    assert statistics.recommended([(7, 900, 10.0), (9, 100, 15.1)], within=2.0) == 9
    assert statistics.recommended([(1, 300, 12.0), (2, 300, 11.0), (3, 300, 11.0)]) == 2
    assert statistics.recommended([(1, 300, INF)]) is None
    assert statistics.recommended([]) is None


def test_verified():
    assert statistics.is_verified(10, 12) and statistics.is_verified(12, 15) and statistics.is_verified(26, 32)
    assert (
        not statistics.is_verified(11, 11) and not statistics.is_verified(9, 12) and not statistics.is_verified(25, 32)
    )


def test_best_and_front_over_time():
    runs = [(float(i), 1, 10.0, True) for i in range(1, 5)]  # trial 1 is solid at 4 s
    runs += [(10.0 + i, 2, 5.0, True) for i in range(4)]  # trial 2 at 13 s
    runs += [(20.0, 2, INF, False), (21.0, 3, 0.1, True)]  # trial 2 gets slower; a lucky seed of trial 3 does not count
    assert statistics.best_over_time(runs) == [(4.0, 10.0, 1), (13.0, 5.0, 2), (20.0, 6.25, 2)]
    sizes = {1: 100, 2: 200, 3: 50}
    rows = [(at, trial, sizes[trial], t, s) for at, trial, t, s in runs]
    assert statistics.front_over_time(rows, [3.0, 4.0, 30.0]) == [[], [1], [1, 2]]


def test_intervals_cover():
    """Coverage by simulation, fixed seed: 400 studies each. A correct 95% interval falls below 0.92 one time in 200."""
    rng = np.random.default_rng(5)
    n, level = 32, 0.95
    covered = 0
    for _ in range(400):
        _, low, high = statistics.median_interval(np.exp(0.4 * rng.standard_normal(n)), [True] * n, level)
        covered += low <= 1.0 <= high
    assert covered / 400 > 0.92
    # Restart ERT of times that never gain by a restart is their mean, exp(0.3² ÷ 2). Documented: 84 to 89 of 100.
    truth = math.exp(0.3**2 / 2)
    covered = 0
    for _ in range(400):
        low, high = statistics.restart_ert_interval(np.exp(0.3 * rng.standard_normal(n)), [True] * n)
        covered += low <= truth <= high
    assert 0.80 < covered / 400 < 0.95
