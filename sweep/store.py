"""The SQLite file that holds studies; the only module that opens it.

For people who query it (`sqlite3 sweep.db`, `datasette sweep.db`; reading never disturbs a study that runs):

| table | one row is | columns worth knowing |
|---|---|---|
| `studies` | one question | `name`, `hash` of its definition, `definition` (JSON), `opened` (the newest of a name is what the name means) |
| `invocations` | one `sweep run` | `machine`, `build`, `totals` (JSON), `command`, `workers`, `started`, `ended` (NULL: still running, or killed) |
| `trials` | one setting of the hyperparameters | `number`, `params` (JSON), `parameters` (network size), `origin` (who suggested it), `state`, `value` |
| `runs` | one training run | `trial_id`, `seed`, `purpose`, `attempt`, `status`, `seconds`, `cpu_seconds`, `env_steps`, `cap_seconds`, `noisy` |
| `curves` | the learning curve of one run | `curve`: JSON, a list of [cpu_seconds, seconds, env_steps, mean_return] |
| `audits` | one frozen policy measured again, off the clock | `run_id`, `episodes`, `mean_return`, `solved` |

| view | one row is |
|---|---|
| `run_times` | a run that counts, with its study, trial, params, `env_steps_per_second` and `wall_over_cpu` |
| `trial_times` | a trial and purpose: runs, how they ended, fastest, mean and slowest `seconds` of those that solved |
| `trial_params` | a trial and one hyperparameter: `name`, `value` |
| `curve_points` | a run and one point of its curve |

Times are seconds, on the clock from the first env step; `cpu_seconds` are those of the run's thread. Instants are UTC, ISO 8601.
NULL means absent; a number that is not finite is stored as NULL. `runs.audit` is 1 for a run that went uncapped to see what caps kill.
A trial's seed that is run again (with a longer cap, or because the machine was noisy) is a new row with the next `attempt`: of rows with
the same trial, seed and purpose the last attempt counts, the others are superseded. `python -c "import sweep.store as s; print(s.__doc__)"`.

Durability: every write is committed before its method returns. kill -9 loses nothing; a power cut may lose the last moments before it
(WAL with synchronous=NORMAL does not wait for the disk), never consistency.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import math
import os
import sqlite3
import struct
import sys
import urllib.parse
from pathlib import Path
from typing import Any, Iterable, Iterator

import numpy as np
import sqlite_utils

from trainer_native.config import closest

#: PRAGMA user_version of a database this module reads and writes.
SCHEMA = 1
#: PRAGMA application_id: says that a SQLite file is ours ("swep").
APPLICATION = 0x73776570
#: How long a write waits for another process's write, seconds.
BUSY_SECONDS = 30.0

STATUSES = ("solved", "censored", "diverged", "crashed")


class StoreError(ValueError):
    """The database cannot do what was asked; the message is the one line for the user."""


class Store:
    """One database file, opened by one thread of one process (open another Store in another).

    `create`: make the file where there is none. `readonly`: nothing is ever written, not even next to the file where avoidable;
    works while a study runs. Raises StoreError.
    """

    def __init__(self, path: str | Path, create: bool = True, readonly: bool = False):
        raise NotImplementedError

    def close(self) -> None:
        """Closes the file; locks held through this store are released by their own context managers."""

    # -- studies ----------------------------------------------------------------------------------------

    def open_study(self, study: Any) -> int:
        """study_id of the study with this name and hash, a new one where there is none; it becomes the newest of its name."""

    def find(self, name: str) -> dict:
        """The newest study of that name: id, name, hash, env, question, definition (dict), budget (dict), sampler, created, opened.

        StoreError names the studies there are, and the one that was meant.
        """

    def studies(self) -> list[dict]:
        """All studies, newest first: the columns of `find` and `newest` (bool), `trials`, `runs`, `solved` (counts)."""

    def remove(self, study: str | int) -> int:
        """Deletes a study (an id, or the newest of a name) with all that hangs on it; the number of its runs. Refused while it runs."""

    def lock(self, study_id: int) -> contextlib.AbstractContextManager:
        """`with store.lock(study_id):` this process alone runs the study, or StoreError with the pid of who does. Dies with the process."""

    def running(self, study_id: int) -> int | None:
        """The pid of the process that runs the study, else None."""

    # -- writing ----------------------------------------------------------------------------------------

    def add_invocation(self, study_id: int, machine: dict, build: dict, command: str, workers: int) -> int:
        """A `sweep run` begins; its id."""

    def end_invocation(self, invocation_id: int, totals: dict) -> None:
        """A `sweep run` ends; `totals` are seconds by purpose (worker_seconds, training_seconds, sampler_cpu_seconds, ...)."""

    def add_trial(self, study_id: int, number: int, params: dict, parameters: int | None, origin: str) -> int:
        """A new trial, state "open"; its id. `number` is unique in a study, `parameters` is the network size."""

    def set_trial(self, trial_id: int, state: str, value: float | None = None) -> None:
        """state: "open" or "ended"; value: what the sampler was told (log restart ERT), None (also for inf) where nothing solved."""

    def add_run(
        self,
        trial_id: int,
        invocation_id: int,
        run: Any,
        purpose: str = "search",
        cap_seconds: float | None = None,
        audit: bool = False,
        worker: str = "",
        attempt: int = 0,
        noisy: bool = False,
        started: str | None = None,
        curve: bool = True,
    ) -> int:
        """A run that ended; its id. On disk when this returns.

        `run` is a trainer_native.Run (or any object with its attributes; weights are not stored). `cap_seconds` is the cap it ended
        under, CPU seconds; None or inf: none. (trial, seed, purpose, attempt) is stored once: a second time is a StoreError.
        `attempt` counts up where the same seed is run again; `noisy` marks a wall time that its CPU time belies. `started` is UTC, ISO 8601;
        None: now less the run's seconds.
        """

    def add_audit(self, trial_id: int, run_id: int, mean_return: float, episodes: int, solved: bool) -> int:
        """The frozen policy of a run, measured again over `episodes` fresh episodes; its id."""

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, study_id: int) -> list[dict]:
        """id, study_id, number, params (dict), parameters, origin, state, value, created; by number."""

    def runs(self, study_id: int, superseded: bool = False) -> list[dict]:
        """All columns of `runs` in the order they ended, bools as bools; with those superseded by a later attempt only if asked."""

    def curves(self, study_id: int, run_ids: Iterable[int] | None = None) -> dict[int, np.ndarray]:
        """run_id -> float64 [points, 4]: cpu_seconds, seconds, env_steps, mean_return (times to a microsecond; nan where absent)."""

    def audits(self, study_id: int) -> list[dict]:
        """id, trial_id, run_id, mean_return, episodes, solved (bool), created."""

    def invocations(self, study_id: int) -> list[dict]:
        """id, study_id, started, ended, command, workers, machine (dict), build (dict), totals (dict or None)."""

    def counts(self, study_id: int) -> dict:
        """{"trials", "runs": {status: number}, "training_seconds", "env_steps"}; superseded runs included: their time was spent."""


def default_path(db: str | Path | None = None) -> Path:
    """`--db` where given, else $SWEEP_DB, else ./sweep.db."""
    return Path(db or os.environ.get("SWEEP_DB") or "sweep.db")
