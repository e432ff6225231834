"""The rules of the search on simulated studies with known truth: log-normal times to solve and runs that never solve.

Each rate stated here was measured over many more seeds than the test uses; with its fixed seeds a test passes or
fails for good, and the margin is such that an unlucky choice of seeds would fail it less than one time in a
hundred."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from sweep import race, statistics
from sweep.race import Race, RunView

SPREAD = 0.4  # standard deviation of log time to solve, as recorded
SIZES = (400, 1200, 3000, 9000)
SLOWER = (2.5, 1.4, 1.1, 1.35)  # of each size, at its best


def true_ert(median, never):
    """Restart ERT of log-normal times with this median, of runs that never solve with probability `never`."""
    z = np.linspace(-3.5, 3.5, 300)
    t = median * np.exp(SPREAD * z)
    left = 1.0 - (1.0 - never) * np.array([NormalDist().cdf(x) for x in z])
    area = t[0] + np.concatenate([[0.0], np.cumsum(0.5 * (left[1:] + left[:-1]) * np.diff(t))])
    return float(np.min(area / (1.0 - left)))


class World:
    """Trials as a sampler that learns would suggest them; `scale` is the best median there could be, in seconds."""

    def __init__(self, seed, scale):
        self.seed, self.scale, self.rng = seed, scale, np.random.default_rng(seed)
        self.trials = []  # (parameters, median, never)

    def suggest(self, progress):
        size = int(self.rng.integers(4))
        hopeless = self.rng.random() < 0.4 * (1.0 - 0.5 * progress)
        worse = abs(self.rng.normal(0.0, 1.0 - 0.3 * progress)) + self.rng.exponential(0.3)
        never = 1.0 if hopeless else float(np.clip(self.rng.beta(0.5, 4.0) + 0.1 * min(worse, 2.0), 0.0, 0.97))
        if not self.trials:
            worse, never = 1.0, 0.1
        self.trials.append((SIZES[size], self.scale * SLOWER[size] * math.exp(worse), never))
        return SIZES[size]

    def run(self, trial, seed, limit):
        _, median, never = self.trials[trial]
        rng = np.random.default_rng([self.seed, trial, seed])
        t = median * math.exp(SPREAD * rng.standard_normal())
        if rng.random() < never or t > limit:
            return RunView(seed, "censored", limit, limit, reason="cap", best_return=100.0 * (1.0 - never))
        return RunView(seed, "solved", t, limit)

    def ert(self, trial):
        _, median, never = self.trials[trial]
        return true_ert(median, never) if never < 1.0 else math.inf


def search(world, state, seconds):
    """A study of one worker; its time in CPU seconds."""
    used, number, waiting = 0.0, -1, []
    while used < seconds:
        for promotion in state.promote():
            run = world.run(promotion.trial, promotion.seed, promotion.cap_seconds)
            state.add(promotion.trial, run)
            used += run.seconds
            waiting.append(promotion.trial)
        while waiting and state.ended(waiting[-1]):
            waiting.pop()
        if not waiting:
            number += 1
            state.add_trial(number, world.suggest(min(1.0, used / seconds)))
            waiting.append(number)
        trial = waiting[-1]
        audit, cap = state.audit(trial), state.cap(trial)
        run = world.run(trial, len(state.trials[trial].runs), cap)
        state.add(trial, RunView(run.seed, run.status, run.seconds, cap, audit, run.reason, run.best_return))
        used += run.seconds
    return used


def verify(world, state, seconds):
    """(recommended trial or None, its Finalist)."""
    finalists = {n: state.finalist(n) for n in state.finalists(16)}
    while (step := race.verification_next(list(finalists.values()), seconds)) is not None:
        runs = finalists[step.trial].runs
        run = world.run(step.trial, 1000 + len(runs), step.cap_seconds)
        seconds -= run.seconds
        if seconds < 0:
            break
        runs.append(run)
    verified = []
    for f in finalists.values():
        times, solved = statistics.outcomes((r.status, r.seconds, r.reason) for r in f.runs)
        if statistics.is_verified(int(solved.sum()), len(solved)):
            verified.append((f.number, f.parameters, statistics.restart_ert(times, solved)))
    chosen = statistics.recommended(verified)
    return chosen, finalists.get(chosen)


def test_one_lucky_seed_does_not_censor_the_truly_best():
    """As recorded: a 4.1 s run whose trial mostly never solves again, and the truly best, solving in 9 to 16 s."""
    lucky, best = [4.1, 5.2, 15.9, 18.2], [9.1, 10.4, 11.9, 12.5, 13.1, 14.0, 15.2, 16.0]
    assert all(t > 1.5 * lucky[0] for t in best)  # the cap that was recorded would have censored all eight
    state = Race(60.0)
    state.add_trial(0, 3000)
    for seed in range(4):
        state.add(0, RunView(seed, "solved", 20.0 + 3.0 * seed, 60.0))
    state.add_trial(1, 3000, False)
    state.add(1, RunView(0, "solved", lucky[0]))
    state.add_trial(2, 3000, False)
    failing = iter(
        [
            *[RunView(s, "censored", 40.0, reason="cap") for s in range(1, 6)],
            *[RunView(5 + i, "solved", t) for i, t in enumerate(lucky[1:], 1)],
        ]
    )
    for seed, t in enumerate(best):
        assert t < state.cap(2), "the best trial's run would have been censored"
        assert state.seeds_wanted(2) > seed
        state.add(2, RunView(seed, "solved", t, state.cap(2)))
        if not state.ended(1):
            state.add(1, next(failing))
    assert state.ended(1) and state.finalists(1) == [2]


def test_caps_rarely_kill_a_trial_as_good_as_the_best():
    """A newcomer as good as the best solid trial is censored in its first run in under 6 of 100 cases that would have
    solved.

    Measured: 1.1, 1.5 and 3.6 of 100, with 1, 10 and 100 solid trials to choose the lowest upper end from."""
    rng = np.random.default_rng(11)
    for solids in (1, 10, 100):
        killed = runs = 0
        for _ in range(30 if solids < 100 else 6):
            state = Race(1000.0)
            for number in range(solids):
                slower = 1.0 if number == 0 else math.exp(abs(rng.normal(0.0, 0.7)))
                state.add_trial(number, 1000, False)
                for seed in range(8 if slower < 1.5 else 4):
                    state.add(number, RunView(seed, "solved", 10.0 * slower * math.exp(SPREAD * rng.standard_normal())))
            newcomers = 10.0 * np.exp(SPREAD * rng.standard_normal(100))
            killed += int(np.sum(newcomers > state.ordinary_cap(1000)))
            runs += 100
        assert killed / runs < 0.06, (solids, killed / runs)


@pytest.mark.parametrize(
    "name, scale, run_seconds, study_seconds, verify_seconds, studies",
    [("cartpole", 0.08, 10.0, 110.0, 120.0, 14), ("breakout", 4.0, 60.0, 1750.0, 600.0, 24)],
)
def test_search_and_verification_find_a_trial_near_the_best(
    name, scale, run_seconds, study_seconds, verify_seconds, studies
):
    """Measured over 80 studies: 96 to 99 of 100 end with a recommended trial, its true restart ERT 1.22 to 1.26 ×
    (geometric mean) that of the best reliable trial the sampler happened to suggest (up to 1.5 × is the rule's price
    for a smaller network)."""
    slower, found, capped = [], 0, 0.0
    for seed in range(studies):
        world, state = World(seed, scale), Race(run_seconds, study_seed=seed)
        search(world, state, study_seconds)
        chosen, finalist = verify(world, state, verify_seconds)
        capped += state.ordinary_cap(math.inf) < run_seconds
        if chosen is None:
            continue
        found += 1
        assert len(finalist.runs) >= 12
        best = min(world.ert(n) for n, (_, _, never) in enumerate(world.trials) if never < 0.2)
        slower.append(world.ert(chosen) / best)
    assert capped == studies
    assert found >= math.floor(0.8 * studies)
    assert np.exp(np.mean(np.log(slower))) < 1.5
    assert np.median(slower) < 1.6


def test_the_race_keeps_the_truly_best_trial():
    """Of 40 reliable trials on one size the best, 1.3 × faster than the next, gets all eight seeds in 4 of 5 studies
    (measured: 91 of 100), and is then among the first three finalists in 9 of 10 (94 of 100); most others end
    early."""
    kept = first = seeds = 0
    studies = 40
    for study in range(studies):
        rng = np.random.default_rng([3, study])
        medians = 10.0 * np.sort(np.concatenate([[1.0], 1.3 * np.exp(np.abs(rng.normal(0.0, 0.8, 39)))]))
        order = rng.permutation(40)
        state = Race(120.0, study_seed=study)
        for number, rank in enumerate(order):
            state.add_trial(number, 1000)
            while not state.ended(number):
                t = medians[rank] * math.exp(SPREAD * rng.standard_normal())
                cap, seed = state.cap(number), len(state.trials[number].runs)
                state.add(number, RunView(seed, "solved" if t <= cap else "censored", min(t, cap), cap, reason="cap"))
        best = int(np.flatnonzero(order == 0)[0])
        full = len(state.trials[best].runs) == 8
        kept += full
        first += full and best in state.finalists(3)
        seeds += sum(len(t.runs) for t in state.trials.values())
    assert kept >= 0.8 * studies
    assert first >= 0.9 * kept
    assert seeds / studies / 40 < 4.0


def test_audits_show_good_trials_with_an_unlucky_first_run():
    """Trials as good as the best but for a first run in ten that never solves are killed by their cap; audits say so,
    within their time."""
    rng = np.random.default_rng(2)
    state = Race(100.0, study_seed=1)
    state.add_trial(0, 1000)
    for seed in range(8):
        state.add(0, RunView(seed, "solved", 10.0 * math.exp(SPREAD * rng.standard_normal())))
    beyond = total = 0.0
    killed = 0
    for number in range(1, 3000):
        state.add_trial(number, 1000)
        while not state.ended(number):
            cap, audit = state.cap(number), state.audit(number)
            t = math.inf if rng.random() < 0.1 else 10.0 * math.exp(SPREAD * rng.standard_normal())
            run = RunView(
                len(state.trials[number].runs), "solved" if t <= cap else "censored", min(t, cap), cap, audit, "cap"
            )
            beyond += max(0.0, run.seconds - state.ordinary_cap(1000)) if audit else 0.0
            total += run.seconds
            state.add(number, run)
        only = state.trials[number].runs
        killed += len(only) == 1 and only[0].status == "censored" and not only[0].audit
    audited, good = state.audits()
    assert beyond <= 0.11 * total
    # A tenth of the unlucky are audited. The front is the luckiest of 2,700 equals, so by far not all look good.
    assert audited / (audited + killed) == pytest.approx(0.1, abs=0.05)
    assert good >= 0.15 * audited > 0


def test_audits_find_nothing_where_the_caps_kill_only_slow_trials():
    rng = np.random.default_rng(4)
    state = Race(100.0, study_seed=1)
    state.add_trial(0, 1000)
    for seed in range(8):
        state.add(0, RunView(seed, "solved", 10.0 * math.exp(SPREAD * rng.standard_normal())))
    for number in range(1, 600):
        state.add_trial(number, 1000)
        while not state.ended(number):
            cap, audit, seed = state.cap(number), state.audit(number), len(state.trials[number].runs)
            t = 60.0 * math.exp(SPREAD * rng.standard_normal())
            state.add(number, RunView(seed, "solved" if t <= cap else "censored", min(t, cap), cap, audit, "cap"))
    audited, good = state.audits()
    assert audited >= 10 and good == 0
