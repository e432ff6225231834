"""comparison.py against exact permutations, hand-worked cases and simulated power."""

import itertools
import math

import numpy as np
import pytest

from sweep import comparison, intervals, statistics

INF = math.inf


def log_erts(times, solved):
    """(log restart ERT, variance) of one trial, through the rows of the many."""
    order = np.lexsort((~np.asarray(solved), times))
    found = comparison._log_erts(np.asarray(times, float)[order], np.asarray(solved)[order], np.ones((1, len(times)), bool))
    return float(found[0][0]), float(found[1][0])


def test_rows_of_a_permutation_are_trials():
    rng = np.random.default_rng(1)
    times, solved = np.sort(rng.integers(1, 9, 12)).astype(float), rng.random(12) < 0.7
    order = np.lexsort((~solved, times))
    times, solved = times[order], solved[order]
    member = rng.random((40, 12)) < 0.5
    erts, _ = comparison._log_erts(times, solved, member)
    for row, ert in zip(member, erts, strict=True):
        assert math.exp(ert) == pytest.approx(statistics.restart_ert(times[row], solved[row]))


def test_variance_by_hand_and_by_simulation():
    # All solves at once: that of log p, (1 − p) ÷ (p n), with Greenwood's n − 1 or the like.
    times, solved = [2.0] * 6 + [INF] * 2, [True] * 6 + [False] * 2
    assert log_erts(times, solved)[1] == pytest.approx((1 - 0.75) / 0.75 / 8)
    assert log_erts([2.0, 2.0, 2.0], [True] * 3)[1] == 0.0
    # No restart pays: that of the log of a mean.
    times = [9.0, 10.0, 11.0, 12.0]
    assert log_erts(times, [True] * 4)[1] == pytest.approx(np.var(times) / 4 / np.mean(times) ** 2)
    # Of many runs, censored ones among them, the scatter of the estimates themselves.
    rng, found = np.random.default_rng(2), []
    for _ in range(400):
        times, caps = np.exp(0.4 * rng.standard_normal(100)), rng.uniform(0.5, 3.0, 100)
        found.append(log_erts(np.minimum(times, caps), times <= caps))
    erts, variances = np.array(found).T
    assert np.var(erts) == pytest.approx(np.mean(variances), rel=0.25)


def test_p_value_is_the_share_of_all_permutations():
    a, b = np.array([1.0, 1.3, 2.0, 2.2]), np.array([1.9, 2.5, 3.1])
    solved, other = np.array([True, True, True, False]), np.array([True, True, True])
    times, every = np.concatenate([a, b]), np.concatenate([solved, other])

    def apart(first):
        second = [i for i in range(7) if i not in first]
        (x, v), (y, w) = log_erts(times[list(first)], every[list(first)]), log_erts(times[second], every[second])
        return abs(x - y) / math.sqrt(v + w)

    observed = apart((0, 1, 2, 3))
    exact = np.mean([apart(first) >= observed - 1e-9 for first in itertools.combinations(range(7), 4)])
    found = comparison.compare(a, solved, b, other, draws=20_000)
    assert found.p_value == pytest.approx(exact, abs=0.015)
    assert found.ratio == pytest.approx(statistics.restart_ert(a, solved) / statistics.restart_ert(b, other))


def test_compare_is_symmetric_in_scale_and_order():
    rng = np.random.default_rng(4)
    a, b, solved = np.exp(0.3 * rng.standard_normal(12)), 2 * np.exp(0.3 * rng.standard_normal(12)), [True] * 12
    one, other = comparison.compare(a, solved, b, solved), comparison.compare(b, solved, a, solved)
    assert (one.ratio, one.low, one.high) == pytest.approx((1 / other.ratio, 1 / other.high, 1 / other.low))
    assert one.low < one.ratio < one.high < 1 and one.p_value <= 0.005
    scaled = comparison.compare(9 * a, solved, 9 * b, solved)
    assert (scaled.ratio, scaled.low, scaled.p_value) == pytest.approx((one.ratio, one.low, one.p_value))
    # MOVER with one side known exactly is that side's own interval.
    (low, _), exact = intervals.restart_ert(b, solved), statistics.restart_ert(b, solved)
    assert one.high > one.ratio * exact / low


def test_undefined_and_one_sided_comparisons():
    none, some = ([5.0] * 8, [False] * 8), ([1.0, 1.5, 2.0, 2.1, 2.2, 2.5, 3.0, 3.3], [True] * 8)
    undefined = comparison.compare(*none, *none)
    assert math.isnan(undefined.ratio) and (undefined.low, undefined.high, undefined.p_value) == (0.0, INF, 1.0)
    assert math.isnan(comparison.compare([], [], *some).ratio)
    # One never solves: no ratio to bound, but eight of eight against none is no chance.
    found = comparison.compare(*none, *some)
    assert (found.ratio, found.low, found.high) == (INF, 0.0, INF) and found.p_value < 0.01
    assert comparison.compare(*some, *none).ratio == 0.0
    # One seed each: an interval without ends, nothing to test.
    single = comparison.compare([1.0], [True], [2.0], [True])
    assert (single.ratio, single.low, single.high, single.p_value) == (0.5, 0.0, INF, 1.0)
    same = comparison.compare([2.0] * 5, [True] * 5, [2.0] * 5, [True] * 5)
    assert same.ratio == 1.0 and same.p_value == 1.0
    with pytest.raises(ValueError, match="times are at least 0"):
        comparison.compare([-1.0], [True], [1.0], [True])


def test_log_ert_variance():
    # So narrow a spread that no restart pays, and the end of the grid is no cutoff: exp(σ²) − 1, of a log-normal mean.
    assert comparison.log_ert_variance(0.2) == pytest.approx(math.expm1(0.2**2), rel=1e-3)
    # Almost no spread: that of log p.
    assert comparison.log_ert_variance(0.001, 0.4) == pytest.approx(0.6 / 0.4, rel=0.02)
    for wrong in ((0.0, 1.0), (0.4, 0.0), (0.4, 1.1)):
        with pytest.raises(ValueError, match="log_sd"):
            comparison.log_ert_variance(*wrong)


def test_seeds_to_tell_and_back():
    assert comparison.seeds_to_tell(1.3, 0.4) == 41
    assert comparison.ratio_told(32, 0.4) == pytest.approx(1.34, abs=0.01)  # what 32 seeds tell apart
    for seeds in (8, 12, 32, 100):
        ratio = comparison.ratio_told(seeds, 0.4, 0.8)
        assert comparison.seeds_to_tell(ratio * 1.0001, 0.4, 0.8) == seeds
        assert comparison.seeds_to_tell(1 / (ratio * 1.0001), 0.4, 0.8) == seeds
    assert comparison.ratio_told(0, 0.4) == INF
    assert comparison.seeds_to_tell(100.0, 0.2) == 2
    assert comparison.seeds_to_tell(1.3, 0.4, power=0.95) > comparison.seeds_to_tell(1.3, 0.4)
    with pytest.raises(ValueError, match="not 1"):
        comparison.seeds_to_tell(1.0, 0.4)
