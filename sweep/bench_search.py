"""`sweep bench search`: searches against each other on tables of recorded runs, in simulated time.

Each replay has its own seed. What is judged is the truth: the restart ERT over all recorded seeds of the setting that the search would
recommend at that moment, not what the search has seen of it, and the area that its front dominates.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweep import formats, machine, opponents, replay, tables, terminal
from sweep.tables import Table, TableError

#: Moments at which a search is asked, as shares of the table's random-search time: 24 a factor of ten.
SHARES = tuple(np.geomspace(0.001, 1.0, 73).tolist())
#: Those that are printed: 1 to 100 percent.
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Methods where none is named.
DEFAULT = ("capri", "tpe", "random", "plain-tpe", "plain-random")
#: The table's best is found when the recommended setting is at most so many times slower.
WITHIN = 1.1


def random_seconds(table: Table, workers: int) -> float:
    """The table's random-search time: every setting run once, to its solve or the run budget, on so many workers."""
    return sum(sum(r.seconds for r in row) / len(row) + replay.RUN_OVERHEAD for row in table.runs) / workers


def measure(paths: Sequence[Path], methods: Sequence[str], replays: int = 30, workers: int = 2, jobs: int = 1,
            progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """What `sweep bench search --json` prints. Raises TableError, MethodError."""
    for name in methods:
        opponents.method(name)
    loaded = [tables.load(path) for path in paths]
    for path, table in zip(paths, loaded, strict=True):
        if not any(math.isfinite(table.true_ert(row)) for row in range(len(table.params))):
            raise TableError(f"{path}: none of its {len(table.params)} settings solved, so there is nothing to find; record more rows")
    todo = [(path, name, seed, workers) for path in paths for seed in range(replays) for name in methods]
    curves: dict[tuple, list] = {}
    # One thread a replay: what a suggestion cost here is charged in simulated time.
    os.environ.update({name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")})
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, (path, name, _, curve) in enumerate(pool.imap_unordered(_replay, todo), 1):
            curves.setdefault((path, name), []).append(curve)
            progress(f"{done} of {len(todo)} replays")
    facts = machine.facts()
    return {
        "shares": list(SHARES), "replays": replays, "workers": workers, "machine": {key: facts[key] for key in ("cpu", "architecture")},
        "tables": [{"table": str(path), "study": table.study, "settings": len(table.params), "runs": sum(map(len, table.runs)),
                    "random_seconds": random_seconds(table, workers), "best_restart_ert": min(map(table.true_ert, range(len(table.params)))),
                    "methods": [{"method": name, **summary(curves[path, name], random_seconds(table, workers))} for name in methods]}
                   for path, table in zip(paths, loaded, strict=True)],
    }  # fmt: skip


def _replay(todo: tuple[Path, str, int, int]) -> tuple[Path, str, int, dict]:
    path, name, seed, workers = todo
    table = tables.load(path)
    grid = [share * random_seconds(table, workers) for share in SHARES]
    begun = time.process_time()
    found = opponents.method(name)(table, seed, grid, workers)
    return path, name, seed, {**judged(table, found), "cpu_seconds": time.process_time() - begun}


def judged(table: Table, found: Sequence[replay.Found]) -> dict[str, list[float]]:
    """The truth about each answer: `times`, the recommended setting's restart ERT over the table's best (inf: none yet), and
    `volumes`, the share of the true front's area that the front dominates."""
    erts = [table.true_ert(row) for row in range(len(table.params))]
    best = min(erts)
    span = (math.log(min(table.parameters)), math.log(max(table.parameters) + 1)), (math.log(best), math.log(table.run_seconds))
    whole = replay.hypervolume(table, range(len(erts)), *span) or 1.0
    return {"times": [math.inf if f.recommended is None else erts[f.recommended] / best for f in found],
            "volumes": [replay.hypervolume(table, f.front, *span) / whole for f in found]}  # fmt: skip


def summary(curves: Sequence[dict], seconds: float) -> dict[str, Any]:
    """Medians over replays with their 95% bands at each share, and the time to come within WITHIN of the best for good."""
    reached = [_for_good(np.array(curve["times"]) <= WITHIN) * seconds for curve in curves]
    return {
        "time": band([curve["times"] for curve in curves]), "volume": band([curve["volumes"] for curve in curves]),
        "seconds_to_best": {key: values[0] for key, values in band([[r] for r in reached]).items()},
        "cpu_seconds": float(np.median([curve["cpu_seconds"] for curve in curves])),
    }  # fmt: skip


def _for_good(good: np.ndarray) -> float:
    """The share from which on all answers are good; inf where the last is not."""
    last_bad = np.flatnonzero(~good)[-1] if not good.all() else -1
    return SHARES[last_bad + 1] if last_bad + 1 < len(good) else math.inf


def band(samples: Sequence[Sequence[float]], level: float = 0.95) -> dict[str, list[float]]:
    """median, low and high of each column: the exact interval of a median by order statistics (Conover 1999, 3.2), which takes
    infinite values; the extremes where there are too few samples for the level."""
    ordered = np.sort(np.array(samples, float), axis=0)
    n = len(ordered)
    tail, cumulative, k = (1 - level) / 2, 0.0, 0
    while k < n // 2 and (cumulative := cumulative + math.comb(n, k) / 2**n) <= tail:
        k += 1
    low = max(0, k - 1)
    middle = [_middle(ordered[(n - 1) // 2, i], ordered[n // 2, i]) for i in range(ordered.shape[1])]
    return {"median": middle, "low": ordered[low].tolist(), "high": ordered[n - 1 - low].tolist()}


def _middle(a: float, b: float) -> float:
    return float(b) if math.isinf(b) else float((a + b) / 2)


def text(found: dict[str, Any]) -> str:
    """For a person: one table of times and one of areas for each recorded study."""
    shown = [int(np.argmin(np.abs(np.log(np.array(found["shares"]) / share)))) for share in SHOWN]
    parts = []
    for table in found["tables"]:
        head = ["search", *(formats.percent(share) for share in SHOWN), f"within {formats.percent(WITHIN - 1)}", "CPU s"]
        rows = [[m["method"], *(f"{m['time']['median'][i]:.2f}" if math.isfinite(m["time"]["median"][i]) else "–" for i in shown),
                 _seconds(m["seconds_to_best"]), f"{m['cpu_seconds']:.1f}"] for m in table["methods"]]  # fmt: skip
        volumes = [[m["method"], *(f"{m['volume']['median'][i]:.3f}" for i in shown), "", ""] for m in table["methods"]]
        parts += [
            (f"{table['study']}: {table['settings']} settings, {table['runs']} runs, random search takes "
             f"{formats.duration(table['random_seconds'])} on {found['workers']} workers; {found['replays']} replays"),
            "true restart ERT of what is recommended over the table's best, median, by share of that time:",
            terminal.table(head, rows),
            "area that the front dominates, of the true front's:",
            terminal.table(head[:-2] + ["", ""], volumes), "",
        ]  # fmt: skip
    return "\n".join(parts).rstrip()


def _seconds(at: dict[str, float]) -> str:
    if not math.isfinite(at["median"]):
        return "never"
    return f"{formats.seconds(at['median'])} [{formats.seconds(at['low'])}, {formats.seconds(at['high'])}]"
