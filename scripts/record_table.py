"""Records a table for `sweep bench search`: settings of a study's space, each with several seeds and no cap but the run's.

`python scripts/record_table.py cartpole --rows 1500 --seeds 8 --run 2s --out tests/tables/cartpole.npz`

Row 0 is the trainer's defaults (the study's [start] would give the answer away). Even rows are random; odd ones, from row 21 on, are
neighbours of the fastest rows so far and of the front's, so that a table is dense where a search ends up. A row none of whose first two
seeds solves gets no more. The table is written once a minute and at the end; the same command goes on where it was stopped, and --rows
and --seeds may grow. Times are CPU seconds: other work on the machine disturbs them little, another machine would not do.
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
from sweep.tables import Recorded, Table
from sweep.workers import LocalPool

#: Random rows before the first neighbour, and seeds after which a row without a solve has ended.
FIRST_RANDOM, LOOK = 20, 2
#: Between two writes of the table, and between two lines about the progress.
SAVE_SECONDS, SHOW_SECONDS = 60.0, 10.0


class Recording:
    """The table so far, and what is to be run next."""

    def __init__(self, question: study.Study, rows: int, seeds: int, before: Table | None = None):
        self.question, self.rows, self.seeds, self.before = question, rows, seeds, before
        self.params: list[dict] = []
        self.parameters: list[int] = []
        self.origins: list[str] = []
        self.runs: list[dict[int, Recorded]] = []  # by row, by the seed's index
        self.flying: set[tuple[int, int]] = set()
        self.open: list[int] = []  # rows that may want more seeds
        if before is not None:
            for params, parameters, origin, runs in zip(before.params, before.parameters, before.origins, before.runs, strict=True):
                self._add(params, parameters, origin)
                self.runs[-1] = dict(enumerate(runs))

    def _add(self, params: dict, parameters: int, origin: str) -> None:
        self.open.append(len(self.params))
        self.params.append(params)
        self.parameters.append(parameters)
        self.origins.append(origin)
        self.runs.append({})

    def next(self) -> tuple[int, int] | None:
        """(row, seed index) to run now; None where all that is wanted has been done or is being done."""
        for row in list(self.open):
            known = self.runs[row]
            solved = any(run.status == "solved" for run in known.values())
            wanted = self.seeds if solved else min(LOOK, self.seeds)
            if len(known) >= wanted and (solved or len(known) >= LOOK):
                self.open.remove(row)
                continue
            for k in range(wanted):
                if k not in known and (row, k) not in self.flying:
                    return row, k
        if len(self.params) >= self.rows:
            return None
        params, origin = self._suggest(len(self.params))
        self._add(params, trainers.network_size(self.question, params), origin)
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
        erts = [self.ert(row) for row in range(len(self.runs))]
        done = [row for row in range(len(erts)) if math.isfinite(erts[row]) and len(self.runs[row]) >= min(4, self.seeds)]
        fastest = sorted(done, key=erts.__getitem__)[: max(8, len(done) // 10)]
        return list({*fastest, *(done[i] for i in statistics.front([(self.parameters[row], erts[row]) for row in done]))})

    def ert(self, row: int) -> float:
        """Restart ERT of the row's runs so far, in CPU seconds."""
        return statistics.restart_ert(*statistics.outcomes((r.status, r.seconds) for r in self.runs[row].values()))

    def table(self) -> Table:
        """All rows up to the first that is not complete, each with its seeds up to the first that is missing."""
        runs = []
        for row in self.runs:
            complete = [row[k] for k in range(len(row)) if k in row]
            if len(complete) < LOOK:
                break
            runs.append(complete)
        about = measured_by()
        about["dates"] = sorted({*(self.before.about["dates"] if self.before else []), datetime.datetime.now(datetime.UTC).date().isoformat()})
        n = len(runs)
        return Table(
            study=self.question.name, run_seconds=self.question.budget.run_seconds, target=self.question.solve.target,
            dimensions=self.question.dimensions, about=about, params=self.params[:n], parameters=self.parameters[:n],
            origins=self.origins[:n], runs=runs)  # fmt: skip


def measured_by() -> dict:
    """What its times depend on: rows of two of these do not belong in one table."""
    facts = machine.facts()
    return {"machine": {"cpu": facts["cpu"], "architecture": facts["architecture"]}, "build": trainer_native.build_info()}


def check_same(question: study.Study, before: Table, path: Path) -> None:
    """SystemExit where the table in `path` answers another question, or was measured by something else."""
    mine, theirs = measured_by(), {key: before.about.get(key) for key in ("machine", "build")}
    asked = (question.name, question.budget.run_seconds, question.solve.target, question.dimensions)
    held = (before.study, before.run_seconds, before.target, before.dimensions)
    for what, a, b in (("machine and build", theirs, mine), ("study", held, asked)):
        if a != b:
            raise SystemExit(f"{path} is of another {what} ({a}; here: {b}); name another --out")


def record(recording: Recording, pool: LocalPool, out: Path) -> None:
    """Runs all that is missing. A run whose worker died is made once more, then kept as crashed."""
    question, tasks, key, attempts, saved, shown = recording.question, {}, 0, {}, time.monotonic(), 0.0
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
            run = finished.run
            attempts[at] = attempts.get(at, 0) + 1
            if run.status == "crashed" and attempts[at] < 2:
                continue
            curve = run.curve[:, [0, 3]].astype(np.float32)
            recording.runs[row][k] = Recorded(run.status, run.cpu_seconds, run.env_steps, curve)
        if time.monotonic() - saved >= SAVE_SECONDS:
            tables.save(out, recording.table())
            saved = time.monotonic()
        if time.monotonic() - shown >= SHOW_SECONDS:
            show(recording)
            shown = time.monotonic()


def show(recording: Recording) -> None:
    """One line about how far it is."""
    runs = [run for row in recording.runs for run in row.values()]
    solved = sum(run.status == "solved" for run in runs)
    best = min((recording.ert(row) for row in range(len(recording.runs)) if len(recording.runs[row]) >= 4), default=math.inf)
    print(f"{len(recording.params)} of {recording.rows} rows, {len(runs)} runs, {solved} solved, {sum(r.seconds for r in runs):.0f} CPU s, "
          f"best restart ERT {best:.4g} s", file=sys.stderr, flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("study")
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--run", help="the run budget; the study's own if not given")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    question = study.load(arguments.study, run=arguments.run)
    before = tables.load(arguments.out) if arguments.out.exists() else None
    if before is not None:
        check_same(question, before, arguments.out)
    recording = Recording(question, arguments.rows, arguments.seeds, before)
    with LocalPool(arguments.workers) as pool:
        try:
            record(recording, pool, arguments.out)
        except KeyboardInterrupt:
            print("stopped; the same command goes on", file=sys.stderr)
    tables.save(arguments.out, recording.table())


if __name__ == "__main__":
    main()
