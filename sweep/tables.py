"""A table of recorded runs: settings of one study's space, each trained with several seeds without caps; what searches are replayed on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sweep import space, statistics
from sweep.dimensions import Dimension

#: How a run ended, by its code in the file.
STATUSES = ("solved", "censored", "diverged", "crashed")
FORMAT = 1


class TableError(ValueError):
    """A file that is no table; the message is one line: where, what, what to do."""


@dataclass(frozen=True)
class Recorded:
    """One recorded run, up to its solve or the table's `run_seconds`."""

    status: str
    seconds: float  # CPU seconds since the run's first env step
    env_steps: int
    curve: np.ndarray = field(repr=False)  # float32 [points, 2]: CPU seconds, mean return (or metric) of training episodes


@dataclass(frozen=True)
class Table:
    """Rows are settings; `runs[row]` holds one Recorded a seed, fewer where the first ones showed that it never solves."""

    study: str
    run_seconds: float
    target: float  # solve.target
    dimensions: dict[str, Dimension]
    about: dict[str, Any]  # machine, build, dates
    params: list[dict[str, Any]]
    parameters: list[int]  # network size
    origins: list[str]  # default, random or neighbour
    runs: list[list[Recorded]]

    def outcome(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """(times, solved) of all of the row's seeds, as statistics takes them."""
        return statistics.outcomes((r.status, r.seconds) for r in self.runs[row])

    def true_ert(self, row: int) -> float:
        """Restart ERT in CPU seconds over all of the row's seeds; inf where none solved."""
        return statistics.restart_ert(*self.outcome(row))


def save(path: Path, table: Table) -> None:
    """Writes the table, compressed; the file is whole or as it was."""
    runs = [r for row in table.runs for r in row]
    meta = {"format": FORMAT, "study": table.study, "run_seconds": table.run_seconds, "target": table.target,
            "dimensions": {name: d.toml() for name, d in table.dimensions.items()}, "about": table.about,
            "params": table.params, "origins": table.origins}  # fmt: skip
    points = np.concatenate([r.curve for r in runs]) if runs else np.zeros((0, 2))
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "wb") as file:
        np.savez_compressed(
            file,
            meta=np.frombuffer(json.dumps(meta).encode(), np.uint8),
            parameters=np.array(table.parameters, np.int64),
            seeds=np.array([len(row) for row in table.runs], np.uint8),
            status=np.array([STATUSES.index(r.status) for r in runs], np.uint8),
            seconds=np.array([r.seconds for r in runs], np.float32),
            env_steps=np.array([r.env_steps for r in runs], np.int64),
            points=np.array([len(r.curve) for r in runs], np.uint16),
            curve_seconds=points[:, 0].astype(np.float32),
            curve_returns=points[:, 1].astype(np.float16 if abs(table.target) < 3e4 else np.float32),
        )
    os.replace(partial, path)


def load(path: Path) -> Table:
    """The table of a file that `save` wrote; TableError where it is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
        meta = json.loads(columns["meta"].tobytes())
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise TableError(f"{path} is not a table of recorded runs ({error}); scripts/record_table.py writes one") from None
    if meta.get("format") != FORMAT:
        raise TableError(f"{path} has format {meta.get('format')!r}, this sweep reads {FORMAT}; record it again")
    curves = np.stack([columns["curve_seconds"], columns["curve_returns"].astype(np.float32)], axis=1)
    curves = np.split(curves, np.cumsum(columns["points"])[:-1])
    flat = [Recorded(STATUSES[s], float(t), int(n), c) for s, t, n, c in zip(
        columns["status"], columns["seconds"], columns["env_steps"], curves, strict=True)]  # fmt: skip
    ends = np.cumsum(columns["seeds"])
    return Table(
        study=meta["study"], run_seconds=meta["run_seconds"], target=meta["target"],
        dimensions={name: space.parse(name, value, f"{path}") for name, value in meta["dimensions"].items()},
        about=meta["about"], params=meta["params"], parameters=columns["parameters"].tolist(), origins=meta["origins"],
        runs=[flat[end - n : end] for n, end in zip(columns["seeds"], ends, strict=True)],
    )  # fmt: skip
