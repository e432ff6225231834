"""intervals.py against scipy, lifelines, textbook data and exact cases; tests/statistical/test_coverage.py has how often they cover."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweep import intervals, statistics, tables

INF = math.inf
TABLES = Path(__file__).resolve().parents[1] / "tables"
# Freireich and others' leukaemia data: 6-mercaptopurine, weeks in remission and whether it ended.
WEEKS = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
ENDED = [bool(e) for e in [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]]
RUNS = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=9)


def recorded():
    """(times, solved) of recorded settings with solves, some also with runs that were stopped."""
    table = tables.load(TABLES / "cartpole.npz")
    found = [table.outcome(row) for row in range(0, len(table.runs), 40)]
    return [(times, solved) for times, solved in found if solved.sum() >= 3]


def censored(times, solved):
    return stats.CensoredData.right_censored(np.where(np.isfinite(times), times, 1e9), ~np.asarray(solved, dtype=bool))


def test_beta_as_scipy():
    rng = np.random.default_rng(0)
    a, b, x = rng.uniform(0.3, 90, 300), rng.uniform(0.3, 90, 300), rng.random(300)
    assert intervals._beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-10)
    for share in (0.005, 0.025, 0.975):
        assert intervals._beta_quantile(share, a, b) == pytest.approx(stats.beta.ppf(share, a, b), abs=1e-9)


@pytest.mark.parametrize("runs", [1, 2, 5, 12, 32])
def test_survival_without_censoring_is_clopper_pearson(runs):
    _, estimate, low, high = intervals.survival(np.arange(1.0, runs + 1), [True] * runs)
    for left, s, below, above in zip(range(runs, -1, -1), estimate, low, high, strict=True):
        assert s == pytest.approx(left / runs)
        found = stats.binomtest(left, runs).proportion_ci(0.95, method="exact")
        assert (below, above) == pytest.approx((found.low, found.high), abs=1e-9)
    # All at once: as many factors, one time.
    tied = intervals.survival([3.0] * runs, [True] * runs)
    assert [column[-1] for column in tied] == pytest.approx([3.0, 0.0, low[-1], high[-1]])


def test_survival_at_textbook_data():
    at, estimate, low, high = intervals.survival_log_log(WEEKS, ENDED)
    week_10 = at.tolist().index(10)
    # As R's survfit(conf.type = "log-log") prints it.
    assert (estimate[week_10], low[week_10], high[week_10]) == pytest.approx((0.753, 0.503, 0.889), abs=5e-4)
    ours = intervals.survival(WEEKS, ENDED)
    assert ours[0][1:].tolist() == at.tolist() and ours[1][1:] == pytest.approx(estimate)
    assert np.all(ours[2] < ours[1]) and np.all(ours[1] <= ours[3])


def test_survival_log_log_as_scipy():
    for times, solved in [(WEEKS, ENDED), *recorded()]:
        at, estimate, low, high = intervals.survival_log_log(times, solved)
        curve = stats.ecdf(censored(times, solved)).sf
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings(action="ignore"):
            band = curve.confidence_interval(0.95, method="log-log")  # warns where it is undefined
        inside = estimate > 0
        assert estimate == pytest.approx(curve.evaluate(at))
        assert low[inside] == pytest.approx(band.low.evaluate(at)[inside])
        assert high[inside] == pytest.approx(band.high.evaluate(at)[inside])
        assert np.isnan(low[~inside]).all() and np.isnan(high[~inside]).all()


def test_as_lifelines():
    lifelines = pytest.importorskip("lifelines")
    from lifelines.utils import restricted_mean_survival_time

    for times, solved in [(WEEKS, ENDED), *recorded()]:
        until = float(np.median([t for t, s in zip(times, solved) if s])) * 1.01
        clipped = np.where(np.isfinite(times), times, 1e9)
        model = lifelines.KaplanMeierFitter().fit(clipped, solved)
        at, estimate, low, high = intervals.survival_log_log(times, solved)
        band = model.confidence_interval_survival_function_.loc[at].to_numpy()
        inside = estimate > 0
        assert band[inside] == pytest.approx(np.stack([low, high], axis=1)[inside])
        mean, *_ = intervals.restricted_mean(times, solved, until)
        theirs = restricted_mean_survival_time(model, t=until, return_variance=False)
        assert mean == pytest.approx(theirs)
        if np.all(np.abs(estimate - 0.5) > 1e-6):  # a level stretch at one half has its middle here, there its end
            median = intervals.median(times, solved)[0]
            assert (INF if median is None else median) == pytest.approx(model.median_survival_time_)


def test_median_without_censoring_is_the_order_statistics():
    for runs in range(1, 40):
        times = np.arange(1.0, runs + 1)
        _, low, high = intervals.median(times, [True] * runs)
        # The innermost pair of order statistics that each leave at most 2.5% outside.
        k = int(stats.binom.ppf(0.025, runs, 0.5))
        assert stats.binom.cdf(k - 1, runs, 0.5) < 0.025 <= stats.binom.cdf(k, runs, 0.5)
        assert (low, high) == ((0.0, None) if k == 0 else (k, runs + 1 - k))
    assert intervals.median([1, 2], [False, False]) == (None, None, None)
    assert intervals.median([1, INF, INF], [True, False, False]) == (None, 0.0, None)
    assert intervals.median([2.0] * 8, [True] * 8) == (2.0, 2.0, 2.0)
    assert intervals.median(WEEKS, ENDED)[0] == 23


@given(RUNS)
def test_median_is_where_the_band_crosses_one_half(runs):
    times, solved = [float(t) for t, _ in runs], [s for _, s in runs]
    at, _, low, high = intervals.survival(times, solved)
    _, below, above = intervals.median(times, solved)
    if any(solved):
        assert below == next((t for t, s in zip(at, low) if s <= 0.5), None)
        assert above == next((t for t, s in zip(at, high) if s < 0.5), None)


def test_restricted_mean_by_hand_and_by_its_binomial():
    mean, variance, low, high = intervals.restricted_mean([1, 2, 3, 4], [True] * 4, 10.0)
    assert mean == 2.5
    assert variance == pytest.approx(np.var([1, 2, 3, 4]) / 4)  # Greenwood's has no n − 1
    assert 0 < low < mean < high < 10
    # Censored at 2: 1 + 0.75 · 2 at 3, then 0.375 till 5; (2.25² ÷ (4 · 3) + 0.75² ÷ (2 · 1)).
    mean, variance, *_ = intervals.restricted_mean([1, 2, 3, INF], [True, False, True, False], 5.0)
    assert mean == pytest.approx(1 + 1.5 + 0.75)
    assert variance == pytest.approx(2.25**2 / 12 + 0.75**2 / 2)
    # All solves at once and the rest never: min(T, 2) is 1 or 2, so the interval is that of a share, by simulation.
    _, _, low, high = intervals.restricted_mean([1.0] * 9 + [INF] * 3, [True] * 9 + [False] * 3, 2.0, draws=100_000)
    share = stats.binomtest(3, 12).proportion_ci(0.95, method="exact")
    assert high == pytest.approx(1 + share.high, abs=0.01)
    assert low <= 1 + share.low  # that a run might have solved sooner is allowed for
    assert intervals.restricted_mean([1.0], [True], 5.0)[:2] == (1.0, 0.0)
    mean, variance, low, high = intervals.restricted_mean([7.0, 8.0], [False, False], 5.0)
    assert (mean, variance, high) == (5.0, 0.0, 5.0) and 0 < low < 5.0
    assert intervals.restricted_mean([], [], 5.0) == (5.0, 0.0, 0.0, 5.0)
    with pytest.raises(ValueError, match="above 0 and finite"):
        intervals.restricted_mean([1.0], [True], INF)


def test_curves_are_beta_products():
    """Against their exact distribution: without censoring the survival after i of n solves is Beta(n − i + 1, i), late."""
    _, at_risk = intervals._at_risk(np.arange(1.0, 9.0), [True] * 8)
    late, early = intervals._curves(at_risk, 4000, 0)
    for i in (1, 4, 8):
        assert stats.kstest(late[i - 1], stats.beta(8 - i + 1, i).cdf).pvalue > 1e-4
        if i < 8:
            assert stats.kstest(early[i - 1], stats.beta(8 - i, i + 1).cdf).pvalue > 1e-4
    assert np.all(early[-1] == 0) and np.all(early <= late)
    # Three censored after the second solve: the third factor has 3 at risk in place of 6.
    _, at_risk = intervals._at_risk([1, 2, 3, 3, 3, 4, 5, 6], [True, True, False, False, False, True, True, True])
    assert at_risk.tolist() == [8, 7, 3, 2, 1, 0]


def test_restart_ert_where_it_is_known():
    # One run, or one solve among few: the solve's time over a Clopper–Pearson bound.
    assert intervals.restart_ert([2.0], [True]) == pytest.approx((0.0, 2.0 / 0.025))
    lower = stats.binomtest(1, 3).proportion_ci(0.95, method="exact").low
    assert intervals.restart_ert([2.0, INF, 5.0], [True, False, False]) == pytest.approx((0.0, 2.0 / lower))
    # All solves at one time: t ÷ p at the largest, so the interval is that of p.
    low, high = intervals.restart_ert([2.0] * 9 + [INF] * 3, [True] * 9 + [False] * 3, draws=50_000)
    share = stats.binomtest(9, 12).proportion_ci(0.95, method="exact")
    assert high == pytest.approx(2.0 / share.low, rel=0.02)
    assert low == pytest.approx(2.0 / share.high, rel=0.02)
    assert intervals.restart_ert([5.0, 6.0], [False, False]) == (INF, INF)
    assert intervals.restart_ert([], []) == (INF, INF)


@given(RUNS)
def test_restart_ert_holds_its_estimate_and_scales(runs):
    times, solved = [float(t) for t, _ in runs], [s for _, s in runs]
    estimate = statistics.restart_ert(times, solved)
    low, high = intervals.restart_ert(times, solved)
    assert low <= estimate * (1 + 1e-9) and estimate <= high
    assert intervals.restart_ert([4 * t for t in times], solved) == pytest.approx((4 * low, 4 * high))
    narrow = intervals.restart_ert(times, solved, level=0.5)
    assert low <= narrow[0] and narrow[1] <= high


def test_front_bands():
    rng = np.random.default_rng(3)
    fast, slow, solved = np.exp(0.2 * rng.standard_normal(16)), 3 * np.exp(0.2 * rng.standard_normal(16)), [True] * 16
    band = intervals.front([(50, [1.0] * 16, [False] * 16), (100, slow, solved), (400, fast, solved), (800, slow, solved)])
    assert [row[0] for row in band] == [50, 100, 400, 800]
    assert band[0][1:] == (INF, INF, INF)
    assert band[1][1:] == (statistics.restart_ert(slow, solved), *intervals.restart_ert(slow, solved, draws=4000))
    assert band[2][1] == band[3][1] == statistics.restart_ert(fast, solved)
    assert band[2][3] < band[1][2]  # the bands at 100 and at 400 do not meet
    # More trials that could be the fastest make the upper end rise, and the lower one not.
    assert band[3][3] > band[2][3] > intervals.restart_ert(fast, solved, draws=4000)[1] and band[3][2] == band[2][2]
    assert intervals.front([]) == []
