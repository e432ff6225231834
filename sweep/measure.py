"""Finalists measured again with fresh seeds, alone on the machine; then calibration and the audit of false solves."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from . import race, statistics, trainers
from .workers import LocalPool

#: Finalists that the race begins with, and how often its progress is shown, in seconds.
FINALISTS, LOOK_SECONDS = 12, 0.5
#: Most verification runs of one finalist.
SEEDS = 32
#: Wall over CPU seconds above which something disturbed a run: it is repeated, so often at most, and then marked.
DISTURBED, REPEATS = 1.05, 2
#: A finalist whose verification runs crash so often is given up.
CRASHES = 3
#: CPU seconds of the runs that show how fast each core is while all are busy.
CALIBRATION_SECONDS = 2.0
#: The audit of false solves: episodes per policy, policies, and wall seconds for all of it.
AUDIT_EPISODES, AUDIT_RUNS, AUDIT_SECONDS = 1000, 8, 60.0


def verify(search: Any, seconds: float, interrupts: Any) -> bool:
    """Verification runs, one at a time on one core, until none could change the recommendation or `seconds` are over.

    True where it came to its end. Runs that were stored before count; `search` is the state that the engine leaves.
    """
    return Verification(search, interrupts).run(seconds)


class Verification:
    """The finalists of a study and what fresh seeds say of them."""

    def __init__(self, search: Any, interrupts: Any):
        self.search, self.interrupts = search, interrupts
        self.interrupts_before = interrupts.count  # Ctrl-C during the search is no reason not to measure
        self.store, self.study = search.store, search.study
        self.key = 0
        self.weights: dict[int, list[tuple[int, dict, int]]] = {}  # trial -> (run id, weights, seed) of its solves
        chosen = search.race.finalists(FINALISTS)
        self.finalists = {number: search.race.finalist(number) for number in chosen}
        self.seeds: dict[int, set[int]] = {number: set() for number in search.trials}
        self.attempts: dict[tuple[int, int], int] = {}
        self.crashes: dict[int, int] = {}
        by_id = {trial.id: trial.number for trial in search.trials.values()}
        for row in self.store.runs(search.study_id, superseded=False):
            number = by_id[row["trial_id"]]
            if row["purpose"] == "calibrate":
                self.attempts[number, row["seed"]] = row["attempt"] + 1
            if row["purpose"] != "verify":
                continue
            self.seeds[number].add(row["seed"])
            if number in self.finalists and row["invocation_id"] in search.here:
                self.finalists[number].runs.append(race.RunView(
                    row["seed"], row["status"], row["seconds"] or 0.0, row["cap_seconds"], reason=row["reason"] or ""))

    def run(self, seconds: float) -> bool:
        begun = time.monotonic()
        self.deadline = begun + seconds
        finished = self.interrupts.count < 2
        if self.finalists and seconds > 0 and finished:
            # One worker alone: nothing else of the study runs while it measures.
            with LocalPool(1) as pool:
                self.interrupts.act = lambda count: (count > 1 and pool.cancel(self.key), pool.wake())
                finished = self._race(pool)
            recommended = self.recommended()
            if finished and recommended is not None:
                with LocalPool() as pool:
                    self.interrupts.act = lambda count: pool.wake()
                    self._calibrate(pool, recommended)
                    self._audit(pool, recommended)
        self.interrupts.act = lambda count: None
        self.search.totals["verify_seconds"] = time.monotonic() - begun
        return finished and not self._interrupted()

    def _interrupted(self) -> bool:
        return self.interrupts.count > self.interrupts_before

    def recommended(self) -> int | None:
        """The trial that would be recommended by the runs so far."""
        verified = []
        for finalist in self.finalists.values():
            runs = [r for r in finalist.runs if r.status != "crashed"]
            if statistics.is_verified(sum(r.status == "solved" for r in runs), len(runs)):
                times, solved = statistics.outcomes((r.status, r.seconds, r.reason) for r in runs)
                verified.append((finalist.number, finalist.parameters, statistics.restart_ert(times, solved)))
        return statistics.recommended(verified)

    def _race(self, pool: LocalPool) -> bool:
        """True where the race came to its end or its time is over, False where Ctrl-C ended it."""
        while True:
            left = self.deadline - time.monotonic()
            candidates = [f for f in self.finalists.values() if self.crashes.get(f.number, 0) < CRASHES]
            step = race.verification_next(candidates, left, SEEDS) if left > 0 else None
            if step is None:
                return True
            if self._interrupted():
                return False
            self._measure(pool, self.search.trials[step.trial], step.cap_seconds)

    def _measure(self, pool: LocalPool, trial: Any, cap_seconds: float) -> None:
        """One fresh seed of one finalist, again where the machine was disturbed."""
        seed = self._fresh_seed(trial)
        for attempt in range(1 + REPEATS):
            cap = min(cap_seconds, max(0.1, self.deadline - time.monotonic()))
            run = self._one(pool, trial, seed, cap)
            if run is None or run.reason == "cancelled":
                return
            if cap < cap_seconds and run.status == "censored":
                return  # the time of verification was over, which says nothing of the trial
            noisy = run.cpu_seconds > 0 and run.seconds / run.cpu_seconds > DISTURBED
            run_id = self.store.add_run(trial.id, self.search.invocation, run, "verify", cap, worker="local/0",
                                        attempt=attempt, noisy=noisy)
            if not noisy or self._interrupted() or time.monotonic() > self.deadline:
                break
        self.seeds[trial.number].add(seed)
        self.crashes[trial.number] = self.crashes.get(trial.number, 0) + (run.status == "crashed")
        self.finalists[trial.number].runs.append(race.RunView(run.seed, run.status, run.seconds, cap, reason=run.reason))
        if run.status == "solved" and run.weights is not None:
            self.weights.setdefault(trial.number, []).append((run_id, run.weights, seed))

    def _one(self, pool: LocalPool, trial: Any, seed: int, cap: float) -> Any:
        self.key += 1
        pool.submit(trainers.task(self.key, self.study, trial.params, seed, cap, keep_weights=True))
        self._show()  # runs may be shorter than a look
        while True:
            for finished in pool.wait(LOOK_SECONDS):
                return finished.run
            self._show()

    def _calibrate(self, pool: LocalPool, number: int) -> None:
        """The same params on all cores at once, without a solve to stop at: what a step costs when the machine is full."""
        trial = self.search.trials[number]
        endless = dataclasses.replace(self.study, solve=dataclasses.replace(self.study.solve, mean_return=1e300, metric=None))
        params = {**trial.params, "try_from": 1e9} if self.study.trainer == "native" else trial.params
        tasks = [trainers.task(index, endless, params, trainers.seed_of(self.search.seed, number, index, "calibrate"),
                               CALIBRATION_SECONDS) for index in range(pool.size)]
        for finished in self._all(pool, tasks, 10 * CALIBRATION_SECONDS):
            attempt = self.attempts.get((number, finished.run.seed), 0)
            self.store.add_run(trial.id, self.search.invocation, finished.run, "calibrate", CALIBRATION_SECONDS,
                               worker=finished.worker, attempt=attempt, curve=False)

    def _audit(self, pool: LocalPool, number: int) -> None:
        """Confirmed policies over many more episodes, off the clock: how often a solve was luck."""
        trial, solved = self.search.trials[number], self.weights.get(number, [])[:AUDIT_RUNS]
        tasks = [trainers.task(run_id, self.study, trial.params, seed, AUDIT_SECONDS, weights=weights, episodes=AUDIT_EPISODES)
                 for run_id, weights, seed in solved]
        for finished in self._all(pool, tasks, AUDIT_SECONDS):
            if isinstance(finished.run, dict) and finished.run["mean_return"] is not None:
                mean, metric, solve = finished.run["mean_return"], finished.run["mean_metric"], self.study.solve
                held = (mean if solve.metric is None else metric) >= solve.target
                self.store.add_audit(trial.id, finished.key, mean, AUDIT_EPISODES, held, metric)

    def _all(self, pool: LocalPool, tasks: list[dict], seconds: float):
        """Each of the tasks as it ends; those not over after `seconds` in all go with the pool."""
        deadline, waiting, running = time.monotonic() + seconds, list(tasks), 0
        while (waiting or running) and time.monotonic() < deadline and not self._interrupted():
            while waiting and pool.room():
                pool.submit(waiting.pop(0))
                running += 1
            for finished in pool.wait(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic()))):
                running -= 1
                if finished.run is not None:
                    yield finished
            self._show()

    def _fresh_seed(self, trial: Any) -> int:
        index = 0
        while (seed := trainers.seed_of(self.search.seed, trial.number, index, "verify")) in self.seeds[trial.number]:
            index += 1
        return seed

    def _show(self) -> None:
        runs = [r for f in self.finalists.values() for r in f.runs]
        solved = sum(r.status == "solved" for r in runs)
        verified = self.recommended()
        so_far = "none verified yet" if verified is None else f"trial {verified} verified so far"
        self.search.show("verifying", self.deadline, message=f"{solved} of {len(runs)} fresh runs solved, {so_far}")
