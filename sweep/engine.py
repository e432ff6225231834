"""The loop of a study: ask, cap, dispatch, record, race, tell; owns the budget."""

from __future__ import annotations

import datetime
import functools
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import machine, measure, statistics, trainers
from .interrupts import Interrupts
from .race import Race, RunView
from .samplers import CPU_SHARE, Sampler
from .workers import DEPTH, LocalPool, WorkerError

#: Where runs are shorter than this, each worker has its next task in hand: the gap between runs would count. Longer runs are
#: decided when they start, with all that is known by then.
SHORT_SECONDS = 2.0
#: What the first Ctrl-C means.
STOPPING = "ending the runs in flight, to measure what was found; Ctrl-C again stops at once"
#: At most this often a snapshot of the study goes to `progress`, and at most this often its front is found anew.
PROGRESS_SECONDS, FRONT_SECONDS = 0.5, 3.0
#: A trial whose runs crash so often has ended.
CRASHES = 2
#: A search whose first runs, so many, all crash for one reason is ended.
HOPELESS = 8


def run(study: Any, store: Any, workers: int | None = None, seed: int = 0, ray: str | None = None,
        progress: Callable[[dict], None] | None = None, command: str | None = None,
        first: Sequence[tuple[dict, str]] = ()) -> int:
    """Searches for `study.budget.study_seconds` of wall time, then measures the finalists; the study's id in the store.

    A study that was interrupted goes on with what is left of its budget; one that came to its end starts on a fresh one. Ctrl-C once:
    runs in flight end, finalists are measured. Twice, or SIGTERM: KeyboardInterrupt; all that ended is stored. `ray`: address of a cluster.
    `first`: (params, origin) of trials that come before any suggestion.
    """
    cpu_before = time.process_time()
    sampler = Sampler(study.sampler, study.dimensions, seed, functools.partial(trainers.network_size, study))  # before anything is written: it may be unusable here
    study_id = store.open_study(study)
    with store.lock(study_id), Interrupts() as interrupts:
        facts, build = machine.facts(), trainers.build(study)
        left = budget_left(study, store, study_id)
        pool = _pool(workers, ray) if left.search_seconds > 0 else None
        size = pool.size if pool else workers or len(machine.cores())
        invocation = store.add_invocation(study_id, facts, build, command or _command(), size)
        search = Search(study, store, study_id, invocation, seed, sampler, progress, size, cpu_before)
        finished = False
        try:
            if pool:
                with pool:
                    search.begin_with(first)
                    search.run(pool, left.search_seconds, interrupts)
            seconds = study.budget.verify_seconds if pool else left.verify_seconds
            finished = measure.verify(search, seconds, interrupts) and not interrupts.count
        finally:
            store.end_invocation(invocation, {**search.totals, "finished": finished, "seed": seed})
        if interrupts.count > 1:
            raise interrupts.stopped()
    return study_id


@dataclass
class Left:
    """Wall seconds that are left of a study's budget."""

    search_seconds: float
    verify_seconds: float


def budget_left(study: Any, store: Any, study_id: int) -> Left:
    """The study's budget less what has been spent since it last came to its end; a fresh one where it did, or where it is new."""
    ends: dict[int, float] = {}  # of killed invocations, which left no totals: when their last run ended
    for row in store.runs(study_id, superseded=True):
        if row["purpose"] == "search":
            ends[row["invocation_id"]] = _instant(row["started"]) + (row["seconds"] or 0.0)
    searched = verified = 0.0
    for row in store.invocations(study_id):
        totals = row["totals"] or {}
        if totals.get("finished"):
            searched = verified = 0.0
            continue
        spent = totals.get("search_seconds")
        if spent is None:
            spent = max(0.0, ends.get(row["id"], 0.0) - _instant(row["started"]))
        searched += spent
        # What was found since must be measured again: verification has its whole time after every search.
        verified = totals.get("verify_seconds", 0.0) + (verified if spent == 0 else 0.0)
    return Left(max(0.0, study.budget.study_seconds - searched), max(0.0, study.budget.verify_seconds - verified))


@dataclass
class Trial:
    """A trial as the engine sees it; what its runs say is the race's business."""

    id: int
    number: int
    params: dict
    parameters: int
    seeds: dict[int, int] = field(default_factory=dict)  # seed -> attempts made or being made
    crashes: int = 0
    solves: int = 0
    flying: int = 0  # tasks that workers have


@dataclass
class Task:
    """A run that a worker has, or will have next."""

    trial: Trial
    seed: int
    attempt: int
    cap_seconds: float


class Search:
    """The state of one invocation: what the store holds, in the form that decisions need."""

    def __init__(self, study, store, study_id, invocation, seed, sampler, progress, workers, cpu_before, clock=time.monotonic,
                 rules=None):
        self.study, self.store, self.study_id, self.invocation, self.seed = study, store, study_id, invocation, seed
        self.sampler, self.progress, self.clock = sampler, progress, clock
        self.best = "best_return" if study.solve.metric is None else "best_metric"  # how near an unsolved run came
        self.race = Race(study.budget.run_seconds, study.budget.seeds, seed, study.solve.target, rules)
        self.trials: dict[int, Trial] = {}
        self.open: dict[int, Trial] = {}
        self.tasks: dict[int, Task] = {}
        self.suggestions: list[tuple[dict, str]] = []
        self.counts = {"runs": 0, "solved": 0}
        self.typical_seconds = math.inf  # of a run, lately
        self.workers = workers
        self.network_size = functools.partial(trainers.network_size, study)
        self.here = machine.alike(store.invocations(study_id), invocation)
        self._keys = 0
        self._shown = self._front_found = -math.inf
        self._front: list[tuple[int, int, float]] = []
        self.totals = {"search_seconds": 0.0, "verify_seconds": 0.0, "worker_seconds": 0.0, "training_seconds": 0.0,
                       "sampler_cpu_seconds": 0.0, "platform_cpu_seconds": 0.0, "runs": 0, "cut_off": 0}
        self._first: list[str] = []  # why the first runs of this invocation crashed, "" where one did not
        self._worker_cpu, self._cpu_before = 0.0, cpu_before
        self._load()

    # -- the loop ---------------------------------------------------------------------------------------

    def begin_with(self, first: Sequence[tuple[dict, str]]) -> None:
        """Trials behind trial 0 and before what is suggested; all stored now, so that a study that is stopped goes on with them."""
        if first and not self.trials:
            first = [(self.study.trial0(), "default"), *first]
        for params, origin in first:
            if all(trial.params != params for trial in self.trials.values()):
                self.sampler.add(params)
                self._new_trial(params, origin)

    def run(self, pool: Any, seconds: float, interrupts: Interrupts) -> None:
        """Until the time is over, nothing is left to try, or Ctrl-C."""
        self.begun, self.deadline, self.pool = self.clock(), self.clock() + seconds, pool
        interrupts.act = lambda count: pool.wake()
        cancelled = False
        while True:
            now = self.clock()
            over = now >= self.deadline or interrupts.count > 1
            if over and not cancelled:
                cancelled, self.deadline = True, now
                for key in self.tasks:
                    pool.cancel(key)
            elif interrupts.count == 1 and not over:
                pool.cancel_waiting()
            elif not over:
                self._fill()
            if not self.tasks and (over or interrupts.count or pool.room() > 0) or now > self.deadline + 5:
                break  # no room without a task: a cluster that has lost all its nodes, and may get them back
            for finished in pool.wait(min(PROGRESS_SECONDS, max(0.01, self.deadline - now) if not over else 1.0)):
                self._finish(finished)
            self._lower_caps()
            self._count()
            self.show("searching", self.deadline, message=STOPPING if interrupts.count == 1 else None)
        self._count()
        self.show("searching", self.deadline, at_once=True)

    def _fill(self) -> None:
        """Every worker has what to do; then, while they are busy, suggestions for later."""
        depth = DEPTH if self.typical_seconds < SHORT_SECONDS else 1
        while self.pool.room(depth) > 0:
            task = self._next()
            if task is None:
                return
            self._send(task)
        if depth > 1 and not self.suggestions:
            self._ask()

    def _next(self) -> Task | None:
        """What to run now: seeds that trials have earned, runs worth doing again for longer, and else a new trial."""
        for trial in sorted(self.open.values(), key=lambda t: -len(t.seeds)):
            if trial.crashes >= CRASHES or trial.number == 0 and trial.flying >= max(1, self.pool.size // 2):
                continue  # the defaults run long; the others look around meanwhile
            if not trial.flying and trial.seeds:
                self._settle(trial)  # what others did since may have ended it
            if trial.number in self.open and len(trial.seeds) < self.race.seeds_wanted(trial.number):
                return Task(trial, self._fresh_seed(trial), 0, self.race.cap(trial.number))
        if not self._promoted:
            self._promoted = [Task(self.trials[p.trial], p.seed, self.trials[p.trial].seeds.get(p.seed, 0), p.cap_seconds)
                              for p in self.race.promote()]
        if self._promoted:
            self.open[self._promoted[0].trial.number] = self._promoted[0].trial
            return self._promoted.pop(0)
        if not self.suggestions:
            self._ask()
        if not self.suggestions:
            return None
        params, origin = self.suggestions.pop(0)
        trial = self._new_trial(params, origin)
        return Task(trial, self._fresh_seed(trial), 0, self.race.cap(trial.number))

    def _send(self, task: Task) -> None:
        self._keys += 1
        task.trial.seeds[task.seed] = task.attempt + 1
        task.trial.flying += 1
        self.tasks[self._keys] = task
        self.pool.submit(trainers.task(self._keys, self.study, task.trial.params, task.seed, task.cap_seconds))

    def _finish(self, finished: Any) -> None:
        """A task is over: its run is stored before anything else is made of it."""
        task, run = self.tasks.pop(finished.key), finished.run
        trial = task.trial
        trial.flying -= 1
        self._worker_cpu += finished.cpu_seconds
        if run is None or run.reason == "cancelled":  # it has not happened; the seed is free again
            trial.seeds[task.seed] = task.attempt
            if task.attempt == 0:
                del trial.seeds[task.seed]
            if run is not None:
                self.totals["training_seconds"] += run.seconds
                self.totals["cut_off"] += 1
            return
        audit = self.race.audit(trial.number)
        self.store.add_run(trial.id, self.invocation, run, "search", task.cap_seconds, audit, finished.worker, task.attempt)
        self.totals["training_seconds"] += run.seconds
        self.totals["runs"] += 1
        self.typical_seconds = run.seconds if math.isinf(self.typical_seconds) else 0.9 * self.typical_seconds + 0.1 * run.seconds
        self._record(trial, RunView(run.seed, run.status, run.cpu_seconds, task.cap_seconds, audit, run.reason,
                                    getattr(run, self.best), run.curve))
        if not trial.flying:
            self._settle(trial)
        if len(self._first) < HOPELESS:
            self._first.append(run.reason or "unknown" if run.status == "crashed" else "")
            if len(self._first) == HOPELESS and self._first[0] and len(set(self._first)) == 1:
                raise WorkerError(f"the first {HOPELESS} runs all crashed, so the search has ended: {run.reason}")

    def _lower_caps(self) -> None:
        """What was learned since a run began holds for it too."""
        for key, task in self.tasks.items():
            cap = self.race.cap(task.trial.number)
            if cap < task.cap_seconds:
                task.cap_seconds = cap
                self.pool.lower_cap(key, cap)

    def _settle(self, trial: Trial) -> None:
        """A trial without runs in flight has ended, or has earned more seeds."""
        if self.race.ended(trial.number) or trial.crashes >= CRASHES:
            self.open.pop(trial.number, None)
            value = self.race.value(trial.number)
            self.store.set_trial(trial.id, "ended", value[1] if value and trial.solves else None)
            self._tell(trial)

    def _tell(self, trial: Trial) -> None:
        value = self.race.value(trial.number)
        if value is not None:
            self.sampler.tell(trial.number, trial.params, trial.parameters, value[1], trial.solves, self.race.evidence(trial.number)[0])

    def _ask(self) -> None:
        """Suggestions for those who wait; where runs are short, one for each worker."""
        if not self.trials:
            self.sampler.add(self.study.trial0())
            self.suggestions.append((self.study.trial0(), "default"))
            return
        allowed = CPU_SHARE * self.pool.size * (self.clock() - self.begun) - self.sampler.cpu_seconds
        short = self.typical_seconds < SHORT_SECONDS
        count = max(self.pool.room(DEPTH if short else 1), self.pool.size if short else 1)
        self.suggestions = self.sampler.ask(count, allowed)

    # -- what is known ----------------------------------------------------------------------------------

    def _load(self) -> None:
        """Trials and runs of the store, replayed in their order; trials that had not ended are open again."""
        self._promoted: list[Task] = []
        rows = [r for r in self.store.runs(self.study_id, superseded=True) if r["purpose"] == "search"]
        unsolved = [r["id"] for r in rows if r["status"] != "solved"]
        curves = self.store.curves(self.study_id, unsolved) if unsolved else {}
        audits = {r["trial_id"]: r["audit"] for r in rows}
        by_id = {}
        for row in self.store.trials(self.study_id):
            trial = Trial(row["id"], row["number"], row["params"], row["parameters"])
            by_id[trial.id] = self.trials[trial.number] = trial
            self.race.add_trial(trial.number, trial.parameters, audits.get(trial.id))
            self.sampler.add(trial.params)
        for row in rows:
            trial = by_id[row["trial_id"]]
            trial.seeds[row["seed"]] = max(trial.seeds.get(row["seed"], 0), row["attempt"] + 1)
            if row["invocation_id"] in self.here:
                self._record(trial, RunView(row["seed"], row["status"], row["cpu_seconds"] or 0.0, row["cap_seconds"],
                                            row["audit"], row["reason"] or "", row[self.best], curves.get(row["id"])))
        elsewhere = {r["trial_id"] for r in rows} - {r["trial_id"] for r in rows if r["invocation_id"] in self.here}
        for trial in self.trials.values():
            if trial.id in elsewhere:
                continue  # times of another machine or build say nothing here
            self.open[trial.number] = trial
            if trial.seeds:
                self._settle_loaded(trial)

    def _settle_loaded(self, trial: Trial) -> None:
        if self.race.ended(trial.number) or trial.crashes >= CRASHES:
            del self.open[trial.number]
            self._tell(trial)

    def _record(self, trial: Trial, run: RunView) -> None:
        self.race.add(trial.number, run)
        trial.crashes += run.status == "crashed"
        trial.solves += run.status == "solved"
        self.counts["runs"] += 1
        self.counts["solved"] += run.status == "solved"

    def _new_trial(self, params: dict, origin: str) -> Trial:
        number = len(self.trials)
        parameters = self.network_size(params)
        trial = Trial(self.store.add_trial(self.study_id, number, params, parameters, origin), number, params, parameters)
        self.trials[number] = self.open[number] = trial
        self.race.add_trial(number, parameters)
        return trial

    def _fresh_seed(self, trial: Trial) -> int:
        index = 0
        while (seed := trainers.seed_of(self.seed, trial.number, index)) in trial.seeds:
            index += 1
        return seed

    # -- what it says of itself -------------------------------------------------------------------------

    def _count(self) -> None:
        elapsed = self.clock() - self.begun
        self.totals["search_seconds"] = elapsed
        self.totals["worker_seconds"] = elapsed * self.pool.size
        self.totals["sampler_cpu_seconds"] = self.sampler.cpu_seconds
        self.totals["platform_cpu_seconds"] = max(0.0, time.process_time() - self._cpu_before - self.sampler.cpu_seconds) + self._worker_cpu

    def show(self, phase: str, deadline: float, at_once: bool = False, message: str | None = None) -> None:
        """A snapshot for whoever watches."""
        now = self.clock()
        if self.progress is None or now - self._shown < PROGRESS_SECONDS and not at_once:
            return
        self._shown = now
        self.progress({
            "study": self.study.name, "phase": phase, "trials": len(self.trials), "runs": self.counts["runs"],
            "solved": self.counts["solved"], "runs_per_second": self.totals["runs"] / max(1e-3, self.totals["search_seconds"]),
            "front": self.front(), "seconds_left": max(0.0, deadline - now), "workers": self.workers, "message": message,
        })

    def front(self) -> list[tuple[int, int, float]]:
        """(trial, parameters, shrunk restart ERT in seconds) of the front as the search saw it a moment ago."""
        if self.clock() - self._front_found < FRONT_SECONDS:
            return self._front
        worth = [(t.number, t.parameters, math.exp(self.race.value(t.number)[1])) for t in self.trials.values() if t.solves]
        self._front_found = self.clock()
        self._front = [worth[i] for i in statistics.front([(parameters, seconds) for _, parameters, seconds in worth])]
        return self._front


def _pool(workers: int | None, ray: str | None) -> Any:
    if ray is None:
        return LocalPool(workers)
    from .ray_workers import RayPool

    return RayPool(ray, workers)


def _command() -> str:
    return " ".join(["sweep", *sys.argv[1:]])


def _instant(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
