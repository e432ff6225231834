"""race.py and verification.py: caps, seeds, promotions, values and the order of verification, case by case."""

import math

import numpy as np
import pytest

from sweep import race, statistics, verification
from sweep.race import Race, RunView
from sweep.verification import hopeless, reliability, verification_cap, verification_next


def solved(seed, seconds):
    return RunView(seed, "solved", seconds)


def cut(seed, seconds, best_return=None, **more):
    return RunView(seed, "censored", seconds, seconds, reason="cap", best_return=best_return, **more)


def trial(state, number, parameters, runs, audit=False):
    state.add_trial(number, parameters, audit)
    for run in runs:
        state.add(number, run)


def solid(state, number, parameters, seconds, runs=4):
    trial(state, number, parameters, [solved(seed, seconds) for seed in range(runs)])


def curve(*points):
    """[(CPU seconds, mean return)] as a run's curve."""
    return np.array([[t, t, 1e5 * t, r] for t, r in points], dtype=float)


# Caps


def test_cap_needs_three_solves_in_four_runs():
    state = Race(60.0)
    trial(state, 1, 1000, [solved(0, 4.1), solved(1, 5.0), solved(2, 6.0)])
    assert state.ordinary_cap(1000) == state.ramp() == 60 / 16
    state.add(1, cut(3, 10.0))
    assert 8.0 < state.ordinary_cap(1000) < 60.0


def test_cap_is_twice_the_upper_end_among_no_larger_and_four_times_the_fastest():
    state = Race(60.0)
    solid(state, 1, 1000, 6.0)
    solid(state, 2, 5000, 2.0)
    assert state.ordinary_cap(1000) == state.ordinary_cap(4999) == 8.0  # 4 × 2 s < 2 × 6 s
    assert state.ordinary_cap(5000) == 4.0  # identical times: the interval is a point
    assert state.ordinary_cap(500) == 8.0  # nobody as small: four times the fastest alone
    solid(state, 3, 300, 40.0)
    assert state.ordinary_cap(300) == 8.0


def test_cap_follows_the_interval_not_the_estimate():
    state = Race(600.0)
    times = [4.0, 6.0, 9.0, 20.0]
    trial(state, 1, 1000, [solved(i, t) for i, t in enumerate(times)])
    upper = statistics.restart_ert_interval(times, [True] * 4, draws=200)[1]
    assert state.ordinary_cap(1000) == pytest.approx(min(2 * upper, 4 * statistics.restart_ert(times, [True] * 4)))


def test_cap_never_above_run_seconds_and_trial_0_runs_four_seeds_free():
    state = Race(10.0)
    solid(state, 1, 100, 9.0)
    assert state.ordinary_cap(100) == 10.0
    solid(state, 2, 100, 1.0)
    state.add_trial(0, 100)
    assert state.cap(0) == 10.0 and state.seeds_wanted(0) == 4
    for seed in range(4):
        state.add(0, solved(seed, 1.5))
    assert state.cap(0) == 2.0


def test_caps_rise_again_where_their_trial_turns_out_slower():
    state = Race(60.0)
    solid(state, 1, 1000, 2.0)
    before = state.ordinary_cap(1000)
    state.add(1, cut(4, 30.0))
    assert state.ordinary_cap(1000) > before


def test_ramp_doubles_as_trials_come_in():
    state = Race(16.0)
    seen = []
    for number in range(1, 150):
        seen.append(state.ramp())
        trial(state, number, 100, [cut(0, seen[-1], 1.0)])
    assert [seen.count(limit) for limit in (1.0, 2.0, 4.0, 8.0, 16.0)] == [8, 16, 32, 64, 29]


def test_ramp_does_not_keep_a_solver_from_becoming_solid():
    state = Race(16.0)
    trial(state, 1, 100, [solved(0, 0.9)])
    assert state.ordinary_cap(100) == 1.0 and state.cap(1) == pytest.approx(3.6)


def test_audit_is_one_in_ten_fixed_and_bounded_in_time():
    chosen = [n for n in range(5000) if race.is_audit(n, 7)]
    assert 400 < len(chosen) < 600 and chosen == [n for n in range(5000) if race.is_audit(n, 7)]
    assert chosen != [n for n in range(5000) if race.is_audit(n, 8)]
    assert not any(race.is_audit(0, seed) for seed in range(200))
    state = Race(60.0, study_seed=7)
    solid(state, 0, 1000, 1.0)
    first, second = chosen[:2]
    state.add_trial(first, 1000)
    assert state.audit(first) and state.cap(first) == 8 * state.ordinary_cap(1000)
    state.add(first, RunView(0, "censored", 16.0, 16.0, True, "cap"))
    assert not state.audit(first)  # only the first run
    assert state.seeds_wanted(first) == 2 and state.cap(first) == state.ordinary_cap(1000)
    state.add(first, cut(1, 2.0))
    assert state.ended(first)
    state.add_trial(second, 1000)
    assert not state.audit(second)  # audits have had more than a tenth of all seconds


def test_audits_counts_good_trials_that_the_cap_would_have_killed():
    state = Race(60.0)
    solid(state, 0, 1000, 1.0)
    trial(state, 1, 1000, [RunView(0, "censored", 8.0, 8.0, True, "cap")] + [solved(i, 1.1) for i in (1, 2, 3)])
    trial(state, 2, 1000, [RunView(0, "censored", 8.0, 8.0, True, "cap"), cut(1, 2.0)])
    trial(state, 3, 1000, [RunView(0, "solved", 1.0, 8.0, True)])
    assert state.audits() == (2, 1)


# Seeds


def test_seeds_race_one_two_four_eight():
    state = Race(60.0)
    solid(state, 0, 1000, 10.0)
    state.add_trial(1, 1000)
    wanted = [state.seeds_wanted(1)]
    for seed in range(8):
        state.add(1, solved(seed, 9.0))
        wanted.append(state.seeds_wanted(1))
    assert wanted == [1, 2, 4, 4, 8, 8, 8, 8, 8]
    assert state.ended(1)


def test_no_more_seeds_once_dominated_by_a_network_no_larger():
    state = Race(60.0)
    for number in range(4):
        solid(state, number, 1000, 10.0)
    trial(state, 10, 1000, [solved(0, 20.0)])
    assert state.ended(10)
    trial(state, 11, 999, [solved(0, 20.0)])  # smaller than all: still on the front
    assert state.seeds_wanted(11) == 2
    trial(state, 12, 1000, [solved(0, 12.0)])
    assert state.seeds_wanted(12) == 2
    trial(state, 13, 10, [solved(0, 100.0)])  # more than four times the fastest
    assert state.ended(13)


def test_an_earned_seed_is_taken_back_when_the_front_has_moved():
    state = Race(60.0)
    for number in range(4):
        solid(state, number, 1000, 10.0)
    trial(state, 10, 1000, [solved(0, 9.0)])
    assert state.seeds_wanted(10) == 2
    solid(state, 11, 1000, 2.0)
    assert state.ended(10)


def test_first_run_without_a_solve_ends_the_trial():
    state = Race(60.0)
    solid(state, 0, 1000, 5.0)
    trial(state, 1, 1000, [cut(0, 10.0)])
    trial(state, 2, 1000, [RunView(0, "diverged", 1.0)], audit=True)
    assert state.ended(1) and state.ended(2)


def test_trials_that_cannot_be_verified_end():
    state = Race(60.0)
    solid(state, 0, 1000, 10.0)
    trial(state, 1, 1000, [solved(0, 1.0), cut(1, 20.0), cut(2, 20.0), cut(3, 20.0)])
    assert state.ended(1)
    assert hopeless(1, 4, 0.1) and not hopeless(2, 4, 0.1) and not hopeless(0, 1, 0.1)


def test_crashes_say_nothing_of_the_policy():
    state = Race(60.0)
    solid(state, 0, 1000, 10.0)
    trial(state, 1, 1000, [RunView(0, "crashed", 3.0)])
    assert state.seeds_wanted(1) == 2 and state.value(1) is None
    state.add(1, RunView(1, "crashed", 3.0))
    assert state.ended(1) and state.value(1) is None
    trial(state, 2, 1000, [RunView(0, "crashed", 3.0), solved(0, 9.0)])  # the same seed again
    assert state.seeds_wanted(2) == 2 and state.trials[2].runs[0].status == "solved"


def test_the_longest_run_of_a_seed_counts_once():
    state = Race(60.0)
    trial(state, 1, 1000, [cut(0, 4.0, 1.0), solved(0, 7.0)])
    assert state.trials[1].runs[0].status == "solved" and state.pooled_seconds_per_solve() == 7.0
    for again in (cut(0, 4.0, 1.0), cut(0, 9.0, 1.0), solved(0, 7.0), RunView(0, "crashed", 1.0)):
        state.add(1, again)
    assert state.pooled_seconds_per_solve() == 7.0 and len(state.trials[1].runs) == 1
    state.add(1, RunView(1, "censored", 30.0, 60.0, reason="cancelled"))
    assert len(state.trials[1].runs) == 1


def test_replayed_in_any_order_of_trials_it_decides_the_same():
    rng = np.random.default_rng(0)
    rows = [(n, solved(s, float(t))) for n in range(20) for s, t in enumerate(rng.lognormal(1, 0.4, 1 + n % 8))]
    states = []
    for order in (range(len(rows)), rng.permutation(len(rows))):
        state = Race(60.0)
        for n in range(20):
            state.add_trial(n, 100 * (1 + n % 5), False)
        for i in order:
            state.add(*rows[i])
        states.append([(state.seeds_wanted(n), state.cap(n)) for n in range(20)] + [state.finalists(9)])
    assert states[0] == states[1]


# Promotions


def test_promotes_the_best_curves_when_the_ramp_doubles():
    state = Race(16.0, target_return=100.0)
    for number in range(1, 9):
        assert state.promote() == []
        # Late in its longer run trial 1 is the best; at equal time trials 3 and 5 are.
        shape = curve((0.5, number if number in (3, 5) else 0.0), (1.0, 10.0 + (number in (3, 5)) * 20 + number % 5))
        trial(state, number, 100, [cut(77, 1.0, 99.0 if number == 1 else 50.0, curve=shape)])
    promoted = state.promote()
    assert [(p.trial, p.seed, p.cap_seconds) for p in promoted] == [(3, 77, 2.0), (5, 77, 2.0)]
    assert state.promote() == []
    assert state.ended(3)
    state.add(3, solved(77, 1.8))
    assert state.seeds_wanted(3) == 2  # open again


def test_promotes_once_more_when_a_cap_exists_and_never_after():
    state = Race(16.0)
    for number in range(1, 5):
        trial(state, number, 100, [cut(0, 1.0, float(number))])
    solid(state, 0, 100, 2.0)
    assert [(p.trial, p.cap_seconds) for p in state.promote()] == [(4, 4.0)]
    trial(state, 9, 100, [cut(0, 1.0, 9.0)])
    assert state.promote() == []


def test_promotion_leaves_out_what_a_longer_run_cannot_help():
    state = Race(16.0)
    trial(state, 1, 100, [RunView(0, "diverged", 0.5)])
    trial(state, 2, 100, [RunView(0, "censored", 1.0, 1.0, reason="env-step limit", best_return=9.0)])
    trial(state, 3, 100, [cut(0, 1.0, 1.0)])
    solid(state, 0, 100, 2.0)
    assert [p.trial for p in state.promote()] == [3]


# Values


def test_values_rank_solved_below_unsolved_below_diverged():
    state = Race(16.0, target_return=100.0)
    trial(state, 1, 100, [solved(0, 16.0)] + [cut(seed, 16.0) for seed in range(1, 8)])
    trial(state, 2, 100, [solved(0, 1.0)])
    trial(state, 3, 100, [cut(0, 1.0, curve=curve((0.9, 80.0)))])
    trial(state, 4, 100, [cut(0, 4.0, curve=curve((0.9, 20.0), (3.9, 99.0)))])  # better, but not at equal time
    trial(state, 5, 100, [cut(0, 1.0, curve=curve((0.9, math.nan)))])
    trial(state, 6, 100, [RunView(0, "diverged", 0.9, curve=curve((0.8, 90.0)))])
    values = [state.value(n)[1] for n in (2, 1, 3, 4, 5)]
    assert values == sorted(values) and len(set(values)) == 5 and all(map(math.isfinite, values))
    assert state.value(6)[1] >= values[-1] and state.value(2)[0] == 100


def test_evidence_is_a_time_where_it_solved_and_else_a_bound():
    state = Race(60.0, max_seeds=8)
    trial(state, 1, 1000, [solved(0, 4.0), solved(1, 4.0), cut(2, 9.0)])
    trial(state, 2, 1000, [cut(0, 3.0), cut(1, 7.0)])
    trial(state, 3, 1000, [cut(0, 3.0), RunView(1, "diverged", 1.0)])
    assert state.evidence(1) == (math.log(state.trials[1].ert), 2)
    assert state.evidence(2) == (math.log(7.0), 0)
    assert state.evidence(3) == (math.log(8 * 60.0), 0)


def test_values_of_negative_targets_and_few_curves():
    state = Race(16.0, target_return=-200.0)
    trial(state, 1, 100, [cut(0, 1.0, -300.0)])
    trial(state, 2, 100, [cut(0, 1.0, -1500.0)])
    trial(state, 3, 100, [cut(0, 1.0)])
    assert state.value(1)[1] < state.value(2)[1] < state.value(3)[1] < math.inf


# Finalists


def test_finalists_prefer_proven_and_reliable_trials():
    state = Race(60.0)
    solid(state, 1, 1000, 10.0, runs=8)
    trial(state, 2, 1000, [solved(i, 9.0) for i in range(5)] + [cut(i, 30.0) for i in range(5, 8)])
    trial(state, 3, 1000, [solved(0, 4.1)])  # a lucky seed
    trial(state, 4, 1000, [cut(0, 30.0)])
    solid(state, 5, 400, 13.0, runs=8)  # smallest within 1.5 ×
    solid(state, 6, 50, 39.0, runs=8)  # on the front, too slow to be recommended
    order = state.finalists(10)
    assert order[:2] == [5, 1] and set(order) == {1, 2, 3, 5, 6} and order[-1] == 3
    assert order.index(6) < order.index(2)
    assert state.finalists(2) == [5, 1]
    finalist = state.finalist(1)
    assert (finalist.number, finalist.search_runs, finalist.search_solved, finalist.claimed_median) == (1, 8, 8, 10.0)
    assert finalist.claimed_seconds > 10.0


def test_finalists_are_spread_over_sizes():
    state = Race(60.0)
    for n in range(20):
        solid(state, n, 256, 10.0 + 0.1 * n, runs=8)
    solid(state, 30, 120, 25.0, runs=8)  # smaller, within 3 ×
    solid(state, 31, 100, 45.0, runs=8)  # smaller, too slow
    trial(state, 32, 500, [solved(0, 16.0)])  # the next larger, with one run only
    solid(state, 33, 900, 15.0, runs=8)  # larger still
    order = state.finalists(12)
    assert order[0] == 0 and {30, 32} <= set(order) and not {31, 33} & set(order)
    assert all(n < 20 for n in order[:4]) and set(order[4:6]) == {30, 32}
    assert len(order) == len(set(order)) == 12


def test_reliability():
    assert reliability(8, 8) > reliability(4, 4) > reliability(7, 8) > reliability(5, 8)


# Verification


def finalist(number, parameters, seconds, runs=(), search=(8, 8)):
    return race.Finalist(number, parameters, seconds, seconds, search[0], search[1], list(runs))


def play(finalists, seconds, run, seeds=32):
    """Runs verification to its end; the trials in order and the seconds left."""
    by = {f.number: f for f in finalists}
    order = []
    while (step := verification_next(finalists, seconds, seeds)) is not None:
        fresh = run(step.trial, len(by[step.trial].runs), step.cap_seconds)
        by[step.trial].runs.append(fresh)
        seconds -= fresh.seconds
        order.append(step.trial)
        assert len(order) < 1000
    return order, seconds


def test_verification_cap():
    assert verification_cap(2.0) == 20.0 and verification_cap(10.0) == 30.0


def test_breakout_gets_a_narrow_screen_then_one_verified_trial():
    finalists = [finalist(n, 1000, 10.0 + 0.1 * n) for n in range(8)]
    order, left = play(finalists, 600.0, lambda n, i, cap: solved(i, 10.0 + n))
    assert order[:8] == [0] * 4 + [1] * 4 and order.count(0) == 32
    last = max(i for i, n in enumerate(order) if n == 0)
    assert 2 <= len(set(order[:last])) <= 4  # time that is left afterwards goes to the others
    assert all(order.count(n) <= 4 for n in range(1, 8))  # four runs show that they are clearly slower
    assert left > 0.0


def test_a_failure_ends_the_screen_and_an_unreliable_trial_is_left():
    finalists = [finalist(0, 1000, 10.0), finalist(1, 1000, 11.0), finalist(2, 1000, 11.5)]
    order, _ = play(finalists, 600.0, lambda n, i, cap: cut(i, cap) if n == 0 else solved(i, 11.0))
    assert order.count(0) == 1 and order.count(1) == 32


def test_short_time_goes_to_one_trial_that_can_be_verified():
    finalists = [finalist(n, 1000, 10.0) for n in range(5)]
    order, _ = play(finalists, 170.0, lambda n, i, cap: solved(i, 10.0))
    assert max(order.count(n) for n in range(5)) >= 12


def test_cartpole_has_time_for_all_that_may_be_recommended():
    finalists = [finalist(n, 100 * (1 + n), 0.2 / (1 + 0.2 * n)) for n in range(6)]
    order, left = play(finalists, 60.0, lambda n, i, cap: solved(i, 0.2 / (1 + 0.2 * n)))
    assert all(order.count(n) in (0, 12, 32) or order.count(n) >= 4 for n in range(6))
    assert sum(order.count(n) == 32 for n in range(6)) >= 2 and left > 0


def test_time_that_is_left_goes_to_all_that_are_not_clearly_slower():
    rng = np.random.default_rng(3)
    finalists = [finalist(n, 256 if n < 8 else 400, 0.0072 + 0.0002 * n) for n in range(12)]
    order, left = play(finalists, 20.0, lambda n, i, cap: solved(i, 0.0075 * float(np.exp(0.4 * rng.normal()))))
    counts = [order.count(n) for n in range(12)]
    assert left > 10.0 and counts.count(32) >= 6 and min(counts) >= 4, counts
    verified = [f for f in finalists if len(f.runs) >= 12]
    interval = {f.number: statistics.restart_ert_interval([r.seconds for r in f.runs], [True] * len(f.runs), 0.9, draws=400)
                for f in finalists}
    for f in finalists:
        clearly = any(interval[g.number][1] < interval[f.number][0] for g in verified if g.parameters <= f.parameters)
        assert len(f.runs) == 32 or clearly


def test_none_is_begun_that_the_time_left_cannot_verify():
    measured = finalist(0, 100, 5.0, [solved(i, 5.0 + 0.1 * i) for i in range(32)])
    assert verification_next([measured, finalist(1, 100, 6.5)], 50.0) is None
    assert verification_next([measured, finalist(1, 100, 6.5)], 200.0).trial == 1


def test_four_runs_of_another_drop_none():
    slower = finalist(1, 100, 1.0, [solved(i, 2.0 + 0.01 * i) for i in range(4)])
    screened = finalist(0, 100, 1.0, [solved(i, 1.0 + 0.01 * i) for i in range(4)])
    alive = verification._alive([verification._fresh(f) for f in (screened, slower)], 32)
    assert len(alive) == 2


def test_nothing_to_do():
    assert verification_next([], 100.0) is None
    assert verification_next([finalist(0, 100, 10.0)], 5.0) is None
    done = [finalist(0, 100, 1.0, [solved(i, 1.0) for i in range(32)])]
    assert verification_next(done, 1000.0) is None
    failed = [finalist(0, 100, 1.0, [cut(i, 20.0) for i in range(3)])]
    assert verification_next(failed, 1000.0) is None
    crashed = [finalist(0, 100, 1.0, [RunView(i, "crashed", 0.1) for i in range(3)])]
    assert verification_next(crashed, 1000.0) is None


def test_clearly_slower_and_larger_is_dropped():
    small = finalist(0, 100, 1.0, [solved(i, 1.0 + 0.01 * i) for i in range(32)])
    large = finalist(1, 200, 1.0, [solved(i, 3.0 + 0.01 * i) for i in range(4)])
    assert verification_next([small, large], 1000.0) is None
    faster = finalist(2, 200, 0.4)
    step = verification_next([small, large, faster], 1000.0)
    assert step.trial == 2 and step.cap_seconds == 20.0
