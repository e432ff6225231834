"""Decisions of the search, pure: the cap of a run, whether a trial goes on, what it is worth, who is to be verified.

`Race` holds a summary of the runs so far: add each run, then ask. Nothing here reads a clock, draws at random or does
input or output. All seconds are CPU seconds since the run's first env step.

A run is a function of its params and seed, so a rerun of a seed with a longer cap is the same run going on: per
(trial, seed) the longest counts and the shorter is forgotten. That is what promote() and a store read again after an
interruption rely on.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from sweep import statistics
from sweep.verification import (
    Finalist,
    VerificationStep,
    hopeless,
    reliability,
    verification_cap,
    verification_next,
)

__all__ = [
    "Finalist",
    "Promotion",
    "Race",
    "Rules",
    "RunView",
    "TrialView",
    "VerificationStep",
    "is_audit",
    "verification_cap",
    "verification_next",
]

# A trial's time is believed, sets caps and stands on the front from so many runs and solves on.
SOLID_RUNS, SOLID_SOLVES = 4, 3
# A cap over the upper end of the best interval among networks no larger, and over the fastest restart ERT of any size.
CAP_OVER_UPPER, CAP_OVER_FASTEST = 2.0, 4.0
# Before there is a cap the first 8 trials get a 16th of run_seconds, the next 16 an 8th, the next 32 a 4th, ...
RAMP_START, RAMP_TRIALS = 16, 8
# Of the trials that the ramp cut, this share, those with the best curves, is run again for longer.
PROMOTED_SHARE = 0.25
# One trial in ten audits the caps, while audits take no more than this share of all seconds ...
AUDIT_ONE_IN, AUDIT_SHARE = 10, 0.1
# ... and goes on to so many times its cap: a first run that is still unsolved then cannot be what makes a trial fast.
AUDIT_OVER_CAP = 8.0
# Standard deviation of one log time to solve: how far the truth may lie below a restart ERT of few solves.
SPREAD = 0.4
# A trial ends where so few solves in its runs had at most this probability, were 80% of them to solve.
HOPELESS = 0.1
# A finalist's time is divided by this power of the share of its runs expected to solve.
RELIABILITY_CLAIMED = 3
# Among the finalists are the best of other sizes within so many times the fastest, behind the first so many.
SPREAD_WITHIN, SPREAD_BEHIND = 3.0, 4
# Log seconds over which trials without a solve are spread, above all solved ones.
WIDTH_UNSOLVED = 1.0


@dataclass(frozen=True)
class RunView:
    """What the race needs to know of one run. Per (trial, seed) the longest run counts: a rerun with the same seed is
    the same run."""

    seed: int
    status: str  # solved, censored, diverged, crashed
    seconds: float  # CPU seconds in the search, wall seconds in verification
    cap_seconds: float | None = None  # the cap it had at its end
    audit: bool = False
    reason: str = ""  # Run.reason; "cancelled" runs are ignored by the race
    best_return: float | None = None  # or best metric, where that is solved on
    curve: np.ndarray | None = field(default=None, compare=False, repr=False)  # [points, 4] as trainer_native.Run.curve


@dataclass
class TrialView:
    """A trial as the race sees it."""

    number: int
    parameters: int
    audit: bool = False  # goes on uncapped where its first run is censored at its cap
    runs: dict[int, RunView] = field(default_factory=dict)  # by seed, the longest of each


@dataclass(frozen=True)
class Promotion:
    """Run this seed of this trial again, from the start, with a longer cap: exact, so it replaces the shorter run."""

    trial: int
    seed: int
    cap_seconds: float


@dataclass(frozen=True)
class Rules:
    """Which of the race's rules hold; a replay takes one away at a time to see what it is worth."""

    cap: bool = True  # runs are capped by what others showed; else by run_seconds alone
    grow: bool = True  # a trial earns more seeds; else it has one


@dataclass
class _Record(TrialView):
    """A trial with what is kept of its runs, so that no decision goes through them again."""

    # As statistics.outcome has them: inf for a failure of the policy, nothing for a crashed run.
    times: list[float] = field(default_factory=list)
    solved: list[bool] = field(default_factory=list)
    solves: int = 0
    crashes: int = 0
    diverged: int = 0
    ert: float = math.inf
    best_return: np.ndarray | None = None  # by the times of Race._grid; None where a run solved
    outlived: bool = False  # an audit whose first run went on beyond the cap that holds for others
    slot: int | None = None  # its row among the solid trials

    @property
    def statements(self) -> int:
        """Runs that say something about the policy: all but the crashed."""
        return len(self.times)

    def cut(self) -> RunView | None:
        """Its only run, where that was stopped unsolved by a cap."""
        run = next((r for r in self.runs.values() if r.status != "crashed"), None)
        one = self.statements == 1 and run.status == "censored" and run.reason in ("", "cap")
        return run if one else None


def is_audit(trial_number: int, study_seed: int) -> bool:
    """Whether the trial is one of the one in ten that audit the caps; fixed by both numbers, never trial 0."""
    digest = hashlib.blake2b(f"{study_seed}:{trial_number}".encode(), digest_size=8).digest()
    return trial_number != 0 and int.from_bytes(digest) % AUDIT_ONE_IN == 0


class Race:
    """The state of the search: add trials and runs in the order they come (or come out of the store), then ask.

    run_seconds: budget.run; max_seeds: budget.seeds; study_seed: the study's --seed; target_return:
    solve.target."""

    def __init__(self, run_seconds: float, max_seeds: int = 8, study_seed: int = 0, target_return: float = 0.0,
                 rules: Rules | None = None):
        self.run_seconds, self.max_seeds = float(run_seconds), int(max_seeds)
        self.study_seed, self.target_return = study_seed, float(target_return)
        self.rules = rules or Rules()
        self.trials: dict[int, TrialView] = {}
        # The times at which curves are compared, ascending.
        self._grid = self.run_seconds / 2.0 ** np.arange(12, -1, -1)
        self._first_runs = 0  # trials with a statement, trial 0 aside: what the ramp counts
        self._seconds = self._audit_seconds = 0.0
        self._solves = 0
        self._promoted_from = 0.0  # the limit up to which trials have been promoted
        self._promotions_due = False
        # Solid trials in arrays, one slot each, that grow by doubling; `upper` is nan until someone needs it.
        self._solid: list[_Record] = []
        self._solid_parameters, self._solid_ert, self._solid_upper = (np.empty(64) for _ in range(3))
        # Sizes ascending, and up to each the least upper end and the least restart ERT; None: to be computed.
        self._stairs: tuple[list, list, list] | None = None

    # What happened

    def add_trial(self, number: int, parameters: int, audit: bool | None = None) -> None:
        """A new trial, before its first run starts. audit None: decided here (is_audit, and audits within a tenth of
        all seconds)."""
        if number in self.trials:
            return
        if audit is None:
            audit = is_audit(number, self.study_seed) and self._audit_seconds <= AUDIT_SHARE * self._seconds
        self.trials[number] = _Record(number, parameters, bool(audit))

    def add(self, number: int, run: RunView) -> None:
        """A run of a trial that was added has ended. Idempotent per run: a shorter or equal run of a seed changes
        nothing."""
        trial = self.trials[number]
        before = trial.runs.get(run.seed)
        if run.reason == "cancelled" or (before is not None and not _replaces(run, before)):
            return
        if before is not None:
            self._seconds -= before.seconds
            self._solves -= before.status == "solved"
        self._seconds += run.seconds
        self._solves += run.status == "solved"
        if run.audit:
            trial.audit = True
            beyond = run.seconds - self.ordinary_cap(trial.parameters)
            self._audit_seconds += max(0.0, beyond)
            trial.outlived |= beyond > 0.0 and not trial.statements
        if not trial.statements and number != 0 and run.status != "crashed":
            self._first_runs += 1
            self._promotions_due = True
        trial.runs[run.seed] = run
        self._summarise(trial, run)

    def _summarise(self, trial: _Record, run: RunView) -> None:
        pairs = [statistics.outcome(r.status, r.seconds, r.reason) for r in trial.runs.values()]
        trial.crashes = sum(pair is None for pair in pairs)
        trial.times = [pair[0] for pair in pairs if pair]
        trial.solved = [pair[1] for pair in pairs if pair]
        trial.solves = sum(trial.solved)
        trial.ert = statistics.restart_ert(trial.times, trial.solved)
        trial.diverged = sum(r.status == "diverged" for r in trial.runs.values())
        if trial.solves:
            trial.best_return = None
        elif run.status != "crashed":
            returns = _returns_by(run, self._grid)
            trial.best_return = returns if trial.best_return is None else np.fmax(trial.best_return, returns)
        if trial.statements >= SOLID_RUNS and trial.solves >= SOLID_SOLVES:
            self._set_solid(trial)

    def _set_solid(self, trial: _Record) -> None:
        if trial.slot is None:
            trial.slot = len(self._solid)
            self._solid.append(trial)
            if trial.slot == len(self._solid_ert):
                self._solid_parameters, self._solid_ert, self._solid_upper = (
                    np.concatenate([a, np.empty_like(a)])
                    for a in (self._solid_parameters, self._solid_ert, self._solid_upper)
                )
            if trial.slot == 0:
                self._promotions_due = True
        self._solid_parameters[trial.slot] = trial.parameters
        self._solid_ert[trial.slot] = trial.ert
        self._solid_upper[trial.slot] = math.nan
        self._stairs = None

    # Caps

    def _up_to(self, parameters: float) -> tuple[float, float]:
        """(least upper end, least restart ERT) of the solid trials with networks no larger; inf where there are
        none."""
        if self._stairs is None:
            self._stairs = self._climb()
        sizes, uppers, erts = self._stairs
        i = bisect.bisect_right(sizes, parameters) - 1
        return (uppers[i], erts[i]) if i >= 0 else (math.inf, math.inf)

    def _climb(self) -> tuple[list, list, list]:
        n = len(self._solid)
        parameters, ert, upper = self._solid_parameters[:n], self._solid_ert[:n], self._solid_upper[:n]
        order = np.argsort(parameters, kind="stable")
        while True:
            # An upper end lies above its restart ERT: only where that is below the stairs can it matter.
            stairs = np.minimum.accumulate(np.fmin(upper[order], math.inf))
            missing = order[np.isnan(upper[order]) & (ert[order] < stairs)]
            if not len(missing):
                break
            slot = int(missing[np.argmin(ert[missing])])
            trial = self._solid[slot]
            upper[slot] = max(trial.ert, statistics.restart_ert_interval(trial.times, trial.solved, 0.9, draws=200)[1])
        least = np.minimum.accumulate(ert[order])
        sizes, last = np.unique(parameters[order][::-1], return_index=True)
        last = n - 1 - last
        return sizes.tolist(), stairs[last].tolist(), least[last].tolist()

    def _fastest(self) -> float:
        return self._up_to(math.inf)[1]

    def ramp(self) -> float:
        """CPU seconds a run gets while no trial is solid: run_seconds ÷ 16 for the first 8 trials, twice that for the
        next 16, ..."""
        level = int(math.log2(1 + self._first_runs / RAMP_TRIALS))
        return self.run_seconds * min(1.0, 2.0**level / RAMP_START)

    def ordinary_cap(self, parameters: float) -> float:
        """The cap of a run of a network this large that is neither an audit nor trial 0."""
        if not self._solid:
            return self.ramp()
        return min(self.run_seconds, CAP_OVER_UPPER * self._up_to(parameters)[0], CAP_OVER_FASTEST * self._fastest())

    def cap(self, number: int) -> float:
        """CPU seconds after which a run of this trial, next or in flight, is stopped now. At most run_seconds.

        Trial 0 runs its first four seeds up to run_seconds. While no trial is solid, a trial with a solve gets four
        times its fastest where that is more than the ramp: else the ramp would keep it from becoming solid. Caps
        shrink, but the ramp grows."""
        trial = self.trials[number]
        if not self.rules.cap or number == 0 and trial.statements < SOLID_RUNS:
            return self.run_seconds
        cap = self.ordinary_cap(trial.parameters)
        if not self._solid and trial.solves:
            cap = max(cap, CAP_OVER_FASTEST * min(t for t, s in zip(trial.times, trial.solved) if s))
        if self.audit(number):
            cap *= AUDIT_OVER_CAP
        return min(self.run_seconds, cap)

    def audit(self, number: int) -> bool:
        """Whether the trial's run, next or in flight, is an audit: its first, which then goes on beyond the cap."""
        trial = self.trials[number]
        return trial.audit and not trial.statements and bool(self._solid)

    # Seeds

    def seeds_wanted(self, number: int) -> int:
        """How many seeds this trial should have had by now, crashed ones included; not more than it had: it has ended.

        A trial that ended can be opened again by promote()."""
        trial = self.trials[number]
        n, had = trial.statements, trial.statements + trial.crashes
        if trial.crashes >= 2 or n >= self.max_seeds:
            return had
        if not self.rules.grow:
            return max(had, 1 + trial.crashes)
        first_seeds = min(self.max_seeds, SOLID_RUNS if number == 0 else 1)
        if n < first_seeds:
            return first_seeds + trial.crashes
        if not self._goes_on(trial):
            return had
        return min(self.max_seeds, 1 << n.bit_length()) + trial.crashes

    def _goes_on(self, trial: _Record) -> bool:
        """Whether the trial could still be on the front, and verified.

        A first run without a solve ends it, save an audit's, which gets up to four seeds while the others solve: a
        good trial with an unlucky first run shows there. While few trials are solid this is generous."""
        if trial.outlived and trial.statements < SOLID_RUNS and not trial.diverged:
            return trial.solves >= trial.statements - 1
        if trial.solves == 0:
            return False
        if hopeless(trial.solves, trial.statements, HOPELESS if self._solid else HOPELESS / 4):
            return False
        if not self._solid:
            return True
        sigmas = 1.0 if len(self._solid) >= 4 else 2.0
        optimistic = trial.ert * math.exp(-sigmas * SPREAD / math.sqrt(trial.solves))
        return optimistic <= min(self._up_to(trial.parameters)[1], CAP_OVER_FASTEST * self._fastest())

    def ended(self, number: int) -> bool:
        """Whether the trial has had all the seeds it should, so the sampler can be told its value (runs in flight
        aside)."""
        trial = self.trials[number]
        return trial.statements + trial.crashes >= self.seeds_wanted(number)

    def promote(self) -> list[Promotion]:
        """Runs to do again for longer, best first; each is handed out once, so call it when a worker could take one.
        Usually empty.

        Each time the ramp doubles, and once more when the first trial is solid, the quarter with the best returns at
        equal time among the trials that were cut at the limit before it is run again, same seed, up to the new
        limit."""
        if not self._promotions_due or self._promoted_from == math.inf:
            return []
        self._promotions_due = False
        ramp, least = self.ramp(), self._promoted_from / 1.9
        if not self._solid and ramp < 1.9 * max(self._promoted_from, self.run_seconds / RAMP_START):
            return []
        self._promoted_from = math.inf if self._solid else ramp
        cut = []
        for trial in self.trials.values():
            run = trial.cut()
            limit = self.ordinary_cap(trial.parameters)
            if run and trial.number != 0 and least < run.seconds <= limit / 1.9:
                cut.append((trial, run, limit))
        at = self._grid_index(min((run.seconds for _, run, _ in cut), default=0.0))
        cut.sort(key=lambda c: (-_number(c[0].best_return[at]), c[0].number))
        return [Promotion(t.number, run.seed, limit) for t, run, limit in cut[: math.ceil(PROMOTED_SHARE * len(cut))]]

    def _grid_index(self, seconds: float) -> int:
        """The last time of the grid that is not above `seconds`; a run's clock overshoots its cap a little, never
        falls short."""
        return max(0, bisect.bisect_right(self._grid.tolist(), seconds * 1.001) - 1)

    # What a trial is worth

    def pooled_seconds_per_solve(self) -> float:
        """All seconds of the search over all its solves, at most max_seeds × run_seconds, as no restart ERT is above
        that."""
        limit = self.max_seeds * self.run_seconds
        return min(limit, self._seconds / self._solves) if self._solves else limit

    def value(self, number: int) -> tuple[int, float] | None:
        """(parameters, log seconds) for the sampler, both minimised, as of now; None where all runs crashed: nothing
        to tell.

        Solved: log of the shrunk restart ERT. Without a solve: finite, above every solved trial's, ordered by best
        return at equal time; a diverged trial lies above those."""
        trial = self.trials[number]
        if trial.statements == 0:
            return None
        if trial.solves:
            return trial.parameters, statistics.shrunk(trial.ert, trial.solves, self.pooled_seconds_per_solve())
        worst_solved = math.log(self.max_seeds * self.run_seconds)
        best = -math.inf
        if trial.best_return is not None and not trial.diverged:
            best = _number(trial.best_return[self._grid_index(self.ordinary_cap(math.inf))])
        # From the return to (0, 1) without knowing the range of returns: only the order matters.
        short = max(0.0, self.target_return - best) / (abs(self.target_return) or 1.0)
        rank = short / (1.0 + short) if math.isfinite(short) else 1.0
        return trial.parameters, worst_solved + WIDTH_UNSOLVED * (0.5 + rank)

    def evidence(self, number: int) -> tuple[float, int]:
        """(log seconds, solves) for a surrogate: of the restart ERT, or, without a solve, of the longest it went on.

        A trial that diverged went on for as long as all its seeds could have, as if it had been seen never to solve."""
        trial = self.trials[number]
        if trial.solves:
            return math.log(max(trial.ert, 1e-9)), trial.solves
        longest = max((t for t in trial.times if math.isfinite(t)), default=self.run_seconds)
        return math.log(max(self.max_seeds * self.run_seconds if trial.diverged else longest, 1e-9)), 0

    def _claim(self, trial: _Record) -> tuple[float, float]:
        """(shrunk restart ERT in seconds, the same made longer where its runs did not all solve): what a finalist
        goes by."""
        claimed = math.exp(statistics.shrunk(trial.ert, trial.solves, self.pooled_seconds_per_solve()))
        return claimed, claimed / reliability(trial.solves, trial.statements) ** RELIABILITY_CLAIMED

    def fastest(self) -> int | None:
        """The trial that is the fastest as far as the search knows; None where nothing has solved."""
        for least_runs, least_solves in ((SOLID_RUNS, SOLID_SOLVES), (2, 2), (1, 1)):
            group = [(self._claim(t)[1], t.number) for t in self.trials.values()
                     if t.statements >= least_runs and t.solves >= least_solves]  # fmt: skip
            if group:
                return min(group)[1]
        return None

    def front(self) -> list[int]:
        """Numbers of the solid trials that no other beats in both network size and claimed time, smallest first."""
        claims = [(t.parameters, self._claim(t)[1]) for t in self._solid]
        return [self._solid[i].number for i in statistics.front(claims)]

    def finalists(self, k: int) -> list[int]:
        """At most k trial numbers in the order in which to verify them; trials without a solve are never among them.

        By shrunk restart ERT, made longer where runs did not solve. First the smallest within 1.5 × of the fastest,
        which would be recommended, then those within 1.5 × by turns the fastest and the smallest, then the rest of
        the front, then by time alone. Trials that are not solid stand behind those that are. Fifth and following: the
        best within 3 × of the fastest of each size up to the fastest's, and of the next larger one."""
        order: list[int] = []
        sizes: dict[int, tuple[float, int, int]] = {}  # parameters -> its best (seconds, parameters, number)
        best = (math.inf, 0, 0)
        for least_runs, least_solves in ((SOLID_RUNS, SOLID_SOLVES), (2, 2), (1, 1)):
            group = [
                (self._claim(t)[1], t.parameters, t.number)
                for t in self.trials.values()
                if t.statements >= least_runs and t.solves >= least_solves
            ]
            for claim in sorted(group):
                sizes.setdefault(claim[1], claim)
            if len(order) < k:
                known = set(order)
                best = best if order else min(group, default=best)
                order += [number for number in _by_promise(group) if number not in known]
        return list(dict.fromkeys(order[:SPREAD_BEHIND] + _spread(sizes, best) + order))[:k]

    def finalist(self, number: int) -> Finalist:
        """The trial as verification_next wants it, without fresh runs yet."""
        trial = self.trials[number]
        median = statistics.median_interval(trial.times, trial.solved)[0]
        median = trial.ert if median is None else median
        claimed = self._claim(trial)[0]
        return Finalist(number, trial.parameters, claimed, median, trial.statements, trial.solves)

    def audits(self) -> tuple[int, int]:
        """(trials audited, those of them that the cap would have killed although they are within 1.5 × of the front).

        Audited are those whose first run outlived the cap that holds for others. They are judged by their other
        seeds: the first was picked for being slow."""
        outlived = [t for t in self.trials.values() if t.outlived]
        return len(outlived), sum(self._good_but_for_its_first(t) for t in outlived)

    def _good_but_for_its_first(self, trial: _Record) -> bool:
        others = statistics.restart_ert(trial.times[1:], trial.solved[1:])
        return len(trial.times) > 2 and others <= 1.5 * self._up_to(trial.parameters)[1]


def _replaces(run: RunView, before: RunView) -> bool:
    """Whether the run goes further than another of the same trial and seed."""
    if run.status == "crashed":
        return False
    if before.status != "censored":
        return before.status == "crashed"
    return run.status != "censored" or run.seconds > before.seconds


def _returns_by(run: RunView, grid: np.ndarray) -> np.ndarray:
    """The run's best return up to each time of the grid, -inf before the first."""
    if run.curve is None or not len(run.curve):
        best = -math.inf if run.best_return is None else run.best_return
        return np.where(grid * 1.001 >= min(run.seconds, grid[-1]), best, -math.inf)
    best = np.concatenate([[-math.inf], np.fmax.accumulate(run.curve[:, 3])])
    return best[np.searchsorted(run.curve[:, 0], grid * 1.001, side="right")]


def _number(x: float) -> float:
    return -math.inf if math.isnan(x) else float(x)


def _by_promise(group: list[tuple[float, int, int]]) -> list[int]:
    """Numbers of (seconds, parameters, number) in the order of Race.finalists."""
    if not group:
        return []
    by_time = sorted(group)
    near = [c for c in by_time if c[0] <= 1.5 * by_time[0][0]]
    by_size = sorted(near, key=lambda c: (c[1], c[0], c[2]))
    order = [c for pair in zip(by_size, near) for c in pair]
    order += [by_time[i] for i in statistics.front([(c[1], c[0]) for c in by_time])] + by_time
    return list(dict.fromkeys(number for _, _, number in order))


def _spread(sizes: dict[int, tuple[float, int, int]], best: tuple[float, int, int]) -> list[int]:
    """Numbers of the best trial of each size up to that of `best`, fastest first, behind that of the next larger."""
    within = [c for c in sizes.values() if c[0] <= SPREAD_WITHIN * best[0]]
    larger = sorted((c for c in within if c[1] > best[1]), key=lambda c: c[1])[:1]
    return [c[2] for c in larger + sorted(c for c in within if c[1] <= best[1])]
