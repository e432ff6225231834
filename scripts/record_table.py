"""Records a table for `sweep bench search`: settings of a study's space, each with several seeds and no cap but the run's.

`python scripts/record_table.py cartpole --rows 1500 --seeds 8 --run 2s --db cartpole-table.db --out tests/tables/cartpole.npz`

Row 0 is the trainer's defaults (the study's [start] would give the answer away). Even rows are random; odd ones, from row 21 on, are
neighbours of the fastest rows so far and of the front's, so that a table is dense where a search ends up. A row none of whose first two
seeds solves gets no more. Every run is on disk in --db when it ends, and the same command goes on where it was stopped; --rows may grow.
Times are CPU seconds: other work on the machine disturbs them little.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import math
import sys
import time
from pathlib import Path

import numpy as np

import trainer_native
from sweep import machine, space, statistics, study, tables, trainers
from sweep.store import Store
from sweep.workers import LocalPool

#: Random rows before the first neighbour, and seeds after which a row without a solve has ended.
FIRST_RANDOM, LOOK = 20, 2


class Recording:
    """What the database holds, and what is to be run next."""

    def __init__(self, question: study.Study, store: Store, rows: int, seeds: int):
        self.question, self.store, self.rows, self.seeds = question, store, rows, seeds
        self.study_id = store.open_study(question)
        self.ids: list[int] = []
        self.params: list[dict] = []
        self.parameters: list[int] = []
        self.origins: list[str] = []
        self.runs: list[dict[int, tuple[str, float]]] = []  # by row: seed index -> (status, CPU seconds)
        self.flying: set[tuple[int, int]] = set()
        self.open: list[int] = []
        for trial in store.trials(self.study_id):
            self._row(trial["id"], trial["params"], trial["parameters"], trial["origin"])
        index = {(row, trainers.seed_of(0, row, k, "table")): k for row in range(len(self.ids)) for k in range(seeds)}
        numbers = {trial_id: row for row, trial_id in enumerate(self.ids)}
        for run in store.runs(self.study_id):
            row = numbers[run["trial_id"]]
            if (row, run["seed"]) in index:
                self.runs[row][index[row, run["seed"]]] = (run["status"], run["cpu_seconds"])

    def _row(self, trial_id: int, params: dict, parameters: int, origin: str) -> None:
        self.open.append(len(self.ids))
        self.ids.append(trial_id)
        self.params.append(params)
        self.parameters.append(parameters)
        self.origins.append(origin)
        self.runs.append({})

    def next(self) -> tuple[int, int] | None:
        """(row, seed index) to run now; None where all that is wanted has been done or is being done."""
        for row in list(self.open):
            known = self.runs[row]
            solved = any(status == "solved" for status, _ in known.values())
            wanted = self.seeds if solved else min(LOOK, self.seeds)
            if len(known) >= wanted and (solved or len(known) >= LOOK):
                self.open.remove(row)
                continue
            for k in range(wanted):
                if k not in known and (row, k) not in self.flying:
                    return row, k
        if len(self.ids) >= self.rows:
            return None
        params, origin = self._suggest(len(self.ids))
        parameters = trainers.network_size(self.question, params)
        self._row(self.store.add_trial(self.study_id, len(self.ids), params, parameters, origin), params, parameters, origin)
        return self.open[-1], 0

    def _suggest(self, row: int) -> tuple[dict, str]:
        rng = np.random.default_rng([20261201, row])
        if row == 0:
            return dataclasses.replace(self.question, start={}).trial0(), "default"
        parents = self._parents() if row % 2 and row > FIRST_RANDOM else []
        for _ in range(1000):
            params = (space.mutate(self.question.dimensions, self.params[parents[int(rng.integers(len(parents)))]], rng,
                                   float(np.exp(rng.uniform(np.log(0.02), np.log(0.3)))))
                      if parents else space.sample(self.question.dimensions, rng))  # fmt: skip
            if params not in self.params:
                break
        return params, "neighbour" if parents else "random"

    def _parents(self) -> list[int]:
        erts = [statistics.restart_ert(*statistics.outcomes(runs.values())) for runs in self.runs]
        done = [row for row in range(len(erts)) if math.isfinite(erts[row]) and len(self.runs[row]) >= min(4, self.seeds)]
        fastest = sorted(done, key=erts.__getitem__)[: max(8, len(done) // 10)]
        return list({*fastest, *(done[i] for i in statistics.front([(self.parameters[row], erts[row]) for row in done]))})


def record(recording: Recording, pool: LocalPool, invocation: int, show) -> None:
    """Runs all that is missing; each is stored when it ends. A run whose worker died is made once more, then kept as crashed."""
    question, tasks, key, attempts = recording.question, {}, 0, {}
    while True:
        while pool.room(2) > 0 and (at := recording.next()) is not None:
            row, k = at
            key += 1
            tasks[key] = at
            recording.flying.add(at)
            pool.submit(trainers.task(key, question, recording.params[row], trainers.seed_of(0, row, k, "table"), question.budget.run_seconds))
        if not tasks:
            return
        for finished in pool.wait(1.0):
            at = tasks.pop(finished.key)
            recording.flying.discard(at)
            row, k = at
            attempts[at] = attempts.get(at, 0) + 1
            if finished.run.status == "crashed" and attempts[at] < 2:
                continue
            recording.store.add_run(recording.ids[row], invocation, finished.run, "search", question.budget.run_seconds, worker=finished.worker)
            recording.runs[row][k] = (finished.run.status, finished.run.cpu_seconds)
        show(recording)


def table(question: study.Study, store: Store) -> tables.Table:
    """All complete rows of the database, up to the first that is not."""
    study_id = store.find(question.name)["id"]
    trials, runs, curves = store.trials(study_id), store.runs(study_id), store.curves(study_id)
    by_trial: dict[int, list[dict]] = {}
    for run in runs:
        by_trial.setdefault(run["trial_id"], []).append(run)
    kept = [t for t in trials if len(by_trial.get(t["id"], [])) >= LOOK]
    order = {t["id"]: {trainers.seed_of(0, t["number"], k, "table"): k for k in range(64)} for t in kept}
    invocations = store.invocations(study_id)
    dates = sorted({i["started"][:10] for i in invocations} | {datetime.datetime.now(datetime.UTC).date().isoformat()})
    return tables.Table(
        study=question.name, run_seconds=question.budget.run_seconds, target=question.solve.target, dimensions=question.dimensions,
        about={"machine": {"cpu": invocations[-1]["machine"]["cpu"]}, "build": invocations[-1]["build"], "dates": dates,
               "definition": question.definition()},
        params=[t["params"] for t in kept], parameters=[t["parameters"] for t in kept], origins=[t["origin"] for t in kept],
        runs=[[tables.Recorded(r["status"], r["cpu_seconds"], r["env_steps"], curves[r["id"]][:, [0, 3]].astype(np.float32))
               for r in sorted(by_trial[t["id"]], key=lambda r, t=t: order[t["id"]][r["seed"]])] for t in kept],
    )  # fmt: skip


def progress():
    """Prints a line every ten seconds."""
    last = [0.0]

    def show(recording: Recording) -> None:
        if time.monotonic() - last[0] < 10:
            return
        last[0] = time.monotonic()
        runs = [r for row in recording.runs for r in row.values()]
        solved = sum(status == "solved" for status, _ in runs)
        erts = [statistics.restart_ert(*statistics.outcomes(row.values())) for row in recording.runs if len(row) >= 4]
        print(f"{len(recording.ids)} of {recording.rows} rows, {len(runs)} runs, {solved} solved, {sum(s for _, s in runs):.0f} CPU s, "
              f"best restart ERT {min(erts, default=math.inf):.4g} s", file=sys.stderr, flush=True)  # fmt: skip

    return show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--run", help="the run budget; the study's own if not given")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    question = study.load(arguments.study, run=arguments.run)
    with Store(arguments.db) as store:
        recording = Recording(question, store, arguments.rows, arguments.seeds)
        with store.lock(recording.study_id), LocalPool(arguments.workers) as pool:
            invocation = store.add_invocation(recording.study_id, machine.facts(), trainer_native.build_info(), "record_table", pool.size)
            try:
                record(recording, pool, invocation, progress())
            except KeyboardInterrupt:
                print("stopped; the same command goes on", file=sys.stderr)
        tables.save(arguments.out, table(question, store))


if __name__ == "__main__":
    main()
