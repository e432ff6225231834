"""How often intervals cover and p-values mislead, by simulation with fixed seeds; docs/coverage.md has the same of more simulations.

A check fails where so few intervals cover that, were the promise just kept, it would happen with probability 1e-4. There are some two
hundred checks, so a choice of seeds by which a kept promise fails has odds of one in fifty; with these seeds they pass or fail for good."""

import coverage_table
import numpy as np
import pytest
from coverage_table import SEEDS, Scenario, log_normal
from scipy import stats

from sweep import comparison, intervals, statistics

SIMULATIONS, FALSE_ALARM = 100, 1e-4
SCENARIOS = coverage_table.scenarios()
SHOWN = ("restart_ert", "median", "survival", "restricted_mean", "solved")
FAST = "3 in 10 four times as fast"  # which four seeds miss a quarter of the time


def promised(name, scenario, seeds):
    """The share that docs/coverage.md promises; None where it promises none."""
    if name == "restart_ert" and seeds < 12:
        return None if scenario.name == FAST else 0.85
    return 0.90 if name == "restart_ert" and seeds == 12 else 0.93


def short(found, promise, simulations=SIMULATIONS):
    """Whether fewer cover than a kept promise lets expect."""
    share, _, undefined = found
    defined = round((1.0 - undefined) * simulations)
    return round(share * defined) < stats.binom.ppf(FALSE_ALARM, defined, promise)


@pytest.mark.parametrize("name", SHOWN)
def test_intervals_cover(name):
    checked, broken = 0, []
    for scenario in SCENARIOS:
        for seeds in (4, 12) if name == "survival" else (4, 12, 32):
            promise, found = promised(name, scenario, seeds), coverage_table.coverage(name, scenario, seeds, SIMULATIONS)
            if promise is None or found is None:
                continue
            checked += 1
            if short(found, promise):
                broken.append((scenario.name, seeds, found))
    assert not broken
    assert checked >= 30


def test_the_check_would_notice():
    """BCa breaks the promise of twelve seeds, ours would break one that it does not make, and both are found out."""
    usual = {s.name: s for s in SCENARIOS}
    assert short(coverage_table.coverage("bca", usual["exponential"], 12, 400), 0.90, 400)
    assert short(coverage_table.coverage("restart_ert", usual[FAST], 4, 400), 0.93, 400)


def test_truths_are_those_of_many_runs():
    """Each scenario's known truths against those of one huge trial of it."""
    for scenario in SCENARIOS:
        times, solved = scenario.draw(20_000, np.random.default_rng(7))
        assert statistics.restart_ert(times, solved) <= scenario.restart_ert() * 1.08
        cutoff = statistics.restart_cutoff(times, solved)
        if cutoff > np.quantile(times[solved], 0.2):  # else the best of many early cutoffs is luck
            assert statistics.restart_ert(times, solved) == pytest.approx(scenario.restart_ert(), rel=0.08)
        if scenario.median():
            assert statistics.median_interval(times, solved)[0] == pytest.approx(scenario.median(), rel=0.03)
        t, left = scenario.late()
        at, survival = statistics.kaplan_meier(times, solved)
        assert survival[np.searchsorted(at, t, side="right") - 1] == pytest.approx(left, abs=0.02)
        mean = intervals.restricted_mean(times[:4000], solved[:4000], t, draws=2)[0]
        assert mean == pytest.approx(scenario.restricted_mean(), rel=0.05)


def test_front_band_covers():
    for seeds in (4, 12):
        share, _ = coverage_table.front_coverage(seeds, 50)
        assert round(50 * share) >= stats.binom.ppf(FALSE_ALARM, 50, 0.93)


def test_p_values_mislead_as_often_as_they_say():
    """Of equal trials one in twenty; of trials as far apart as `ratio_told` says, four in five are told."""
    n = 200
    for scenario in (Scenario("plain", log_normal(0.4)), Scenario("some", log_normal(0.4), 0.8, (2.5, 2.5))):
        for seeds in (4, 8):
            refused, _ = coverage_table.compared(scenario, scenario, seeds, n)
            assert round(refused * n) <= stats.binom.ppf(1 - FALSE_ALARM, n, 0.05)
    for seeds in (12, 32):
        ratio, scenario = comparison.ratio_told(seeds, 0.4), Scenario("plain", log_normal(0.4))
        told, _ = coverage_table.compared(scenario, scenario, seeds, n, ratio)
        assert stats.binom.ppf(FALSE_ALARM, n, 0.76) <= round(told * n) <= stats.binom.ppf(1 - FALSE_ALARM, n, 0.86)


def test_ratio_intervals_cover():
    for first, second in coverage_table.pairs():
        _, covers = coverage_table.compared(first, second, 12, 60)
        assert round(60 * covers) >= stats.binom.ppf(FALSE_ALARM, 60, 0.93)


def test_the_page_names_what_it_measures():
    assert set(coverage_table.HEADINGS) == set(coverage_table.INTERVALS) and SEEDS == (4, 8, 12, 32)
    page = coverage_table.PAGE.read_text()
    assert all(heading in page for heading in coverage_table.HEADINGS.values())
    assert all(f"| {scenario.name} |" in page for scenario in SCENARIOS)
