"""How fast trial 0 of each study solves with seeds that nobody tuned on: a markdown table.

`python scripts/solve_table.py [NAMES] [--seeds 10] [--json FILE]`: one run at a time, each within the study's run budget (CPU
seconds). With --json every run is kept in the file as it ends, and a run that stands there (same definition of the study, same
params and seed, same machine and build) is not made again. Times are wall-clock seconds, so leave the machine alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import trainer_native
from sweep import formats, library, machine, study, trainers
from sweep.measure import DISTURBED
from trainer_native import environments

COLUMNS = ("study", "rules of", "parameters", "solved", "median time to solve, s", "env steps", "env steps/s")


def known(file: Path | None) -> list[dict[str, Any]]:
    """The runs that a file holds; none where there is no such file."""
    return json.loads(file.read_text())["runs"] if file and file.exists() else []


def keep(file: Path | None, runs: list[dict[str, Any]]) -> None:
    """All runs in the file, whole or as it was."""
    if file:
        partial = file.with_name(f".{file.name}.partial")
        partial.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
        os.replace(partial, file)


def measure(question: study.Study, seeds: int, runs: list[dict[str, Any]], file: Path | None, show: Any) -> list[dict[str, Any]]:
    """The runs of a study's trial 0 with `seeds` fresh seeds; those made now are added to `runs` and the file."""
    params, environment = question.trial0(), environments.find(question.env)
    build = trainer_native.build_info()
    where = {"cpu": machine.facts()["cpu"], "isa": build["isa"], "compiler": build["compiler"], "semantics": build["semantics"]}
    about = {"study": question.name, "hash": question.hash, "params": params, "run_seconds": question.budget.run_seconds, "where": where}
    mine = []
    for index in range(seeds):
        seed = trainers.seed_of(0, 0, index, "table")
        this = {**about, "seed": seed}
        found = next((r for r in runs if all(r.get(key) == value for key, value in this.items())), None)
        if found is None:
            run = trainer_native.train(environment, params, seed, question.solve, question.budget.run_seconds,
                                       question.budget.max_env_steps or 0)
            found = this | {key: getattr(run, key) for key in (
                "status", "reason", "parameters", "seconds", "cpu_seconds", "env_steps", "mean_return", "mean_metric")}
            runs.append(found)
            keep(file, runs)
        mine.append(found)
        show(f"{question.name}: {index + 1} of {seeds}, {found['status']} after {found['seconds']:.3g} s, "
             f"{found['env_steps']:,} env steps")
    return mine


def row(question: study.Study, runs: list[dict[str, Any]]) -> list[str]:
    """The columns of one study. An unsolved run counts as longer than any: the median of mostly unsolved ones is a dash."""
    solved = [r for r in runs if r["status"] == "solved"]
    times = sorted([r["seconds"] for r in solved] + [math.inf] * (len(runs) - len(solved)))
    steps = sorted([float(r["env_steps"]) for r in solved] + [math.inf] * (len(runs) - len(solved)))
    speed = sorted(r["env_steps"] / r["seconds"] for r in runs)
    rules = library.facts(environments.find(question.env), None)["reference"]
    return [question.name, rules or formats.ABSENT, f"{runs[0]['parameters']:,}", f"{len(solved)} of {len(runs)}",
            _number(_middle(times)), formats.short(_finite(_middle(steps))), formats.short(_middle(speed))]


def _middle(values: list[float]) -> float:
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return formats.number(_finite(value))


def main(words: list[str] | None = None) -> None:
    """Progress to stderr, the table to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="studies; all that ship by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(words)
    if given.seeds < 1:
        parser.error("--seeds is at least 1")
    runs, rows, disturbed = known(given.json), [], 0
    for name in given.names or study.names():
        try:
            question = study.load(name)
            mine = measure(question, given.seeds, runs, given.json, lambda line: print(line, file=sys.stderr, flush=True))
        except (study.StudyError, environments.HeaderError, ValueError) as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        rows.append(row(question, mine))
        disturbed += sum(r["seconds"] > DISTURBED * r["cpu_seconds"] for r in mine)
    print("\n".join("| " + " | ".join(cells) + " |" for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows)))
    if disturbed:
        print(f"{disturbed} runs were disturbed: their wall time is over {DISTURBED} of their CPU time", file=sys.stderr)


if __name__ == "__main__":
    main()
