"""The SQLite file that holds studies; the only module that opens it. `schema` says what stands in it.

Every write is committed before its method returns. kill -9 loses nothing; a power cut may lose the last moments before
it (WAL with synchronous=NORMAL does not wait for the disk), never consistency. Readers never block the writer, nor the
writer them. One process runs a study; several may run different studies into one file, their writes taking turns.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from sweep import locks
from sweep.database import Database
from sweep.schema import COUNTS, RUN_FIELDS, STATES, STATUSES
from sweep.tomlfiles import listing
from sweep.values import StoreError, curve_text, json_text, now, plain, row_of, strict_json
from trainer_native.config import closest


def default_path(db: str | Path | None = None) -> Path:
    """`--db` where given, else $SWEEP_DB, else ./sweep.db."""
    return Path(db or os.environ.get("SWEEP_DB") or "sweep.db")


class Store:
    """One database file, opened by one thread of one process (open another Store in another).

    `create`: make the file where there is none. `readonly`: nothing is ever written, not even next to the file where
    avoidable; works while a study runs. Raises StoreError.
    """

    def __init__(self, path: str | Path, create: bool = True, readonly: bool = False):
        self.path = Path(path)
        self._lock_path = os.path.realpath(path) + ".lock"
        self._database = Database(self.path, create, readonly)

    def close(self) -> None:
        """Closes the file; locks held through this store are released by their own context managers."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- studies ----------------------------------------------------------------------------------------

    def open_study(self, study: Any) -> int:
        """study_id of the study with this name and hash, else of a new one; it becomes the newest of its name."""
        where = f"study {study.name!r}"
        row = row_of(
            name=study.name,
            hash=study.hash,
            env=study.env,
            question=study.question,
            sampler=study.sampler,
            definition=strict_json(study.definition(), where),
            budget=json_text(study.budget),
            opened=now(),
        )
        with self._database.writing():
            known = self._database.rows("SELECT id FROM studies WHERE name = :name AND hash = :hash", row)
            if known:
                self._database.utils.table("studies").update(known[0]["id"], row)
                return known[0]["id"]
            return self._database.utils.table("studies").insert({**row, "created": row["opened"]}).last_pk

    def find(self, name: str) -> dict:
        """The newest study of that name, or the one of NAME@HASH, where HASH begins its hash; else StoreError.

        id, name, hash, env, question, definition (dict), budget (dict), sampler, created, opened. The error names the
        studies there are, and the one that was meant.
        """
        rows = self._database.rows(
            "SELECT * FROM studies WHERE name = ? ORDER BY opened DESC, id DESC LIMIT 1", [plain(name)]
        )
        start, at, prefix = name.rpartition("@")
        if not rows and at and prefix:
            rows = self._database.rows(
                "SELECT * FROM studies WHERE name = ? AND substr(hash, 1, ?) = ? ORDER BY opened DESC, id DESC LIMIT 1",
                [plain(start), len(prefix), plain(prefix)],
            )
        if rows:
            return self._decoded("studies", rows[0], "definition", "budget")
        names = [
            row["name"]
            for row in self._database.rows("SELECT name FROM studies GROUP BY name ORDER BY max(opened) DESC")
        ]
        holds = f"It holds {listing(names)}" if names else "It holds none yet"
        raise StoreError(f"{self.path} has no study {name!r}.{closest(name, names)} {holds}")

    def studies(self) -> list[dict]:
        """All studies, newest first: the columns of `find` and `newest` (bool), `trials`, `runs`, `solved` (counts)."""
        rows = self._database.rows(f"""SELECT studies.*,
            (SELECT count(*) FROM trials WHERE study_id = studies.id) AS trials,
            count(runs.id) AS runs, ifnull(sum(runs.status = 'solved'), 0) AS solved
            FROM studies LEFT JOIN trials ON trials.study_id = studies.id
            LEFT JOIN runs ON runs.trial_id = trials.id AND {COUNTS}
            GROUP BY studies.id ORDER BY opened DESC, studies.id DESC""")
        seen: set[str] = set()
        for row in rows:
            self._decoded("studies", row, "definition", "budget")
            row["newest"] = row["name"] not in seen
            seen.add(row["name"])
        return rows

    def remove(self, study: str | int) -> int:
        """Deletes a study (an id, or the newest of a name) with all that hangs on it; the number of its runs.

        Refused while the study runs. The file keeps its size; later runs fill the room.
        """
        study_id = self.find(study)["id"] if isinstance(study, str) else study
        mine = "SELECT id FROM trials WHERE study_id = ?"
        with self.lock(study_id), self._database.writing():
            execute = self._database.execute
            execute(f"DELETE FROM audits WHERE trial_id IN ({mine})", [study_id])
            execute(f"DELETE FROM curves WHERE run_id IN (SELECT id FROM runs WHERE trial_id IN ({mine}))", [study_id])
            runs = execute(f"DELETE FROM runs WHERE trial_id IN ({mine})", [study_id]).rowcount
            execute("DELETE FROM trials WHERE study_id = ?", [study_id])
            execute("DELETE FROM invocations WHERE study_id = ?", [study_id])
            execute("DELETE FROM studies WHERE id = ?", [study_id])
        return runs

    @contextlib.contextmanager
    def lock(self, study_id: int) -> Iterator[None]:
        """`with store.lock(study_id):` this process alone runs the study, or StoreError with the pid of who does.

        The lock is one byte, at offset study_id, of the file `<database>.lock`; it goes with the process, however that
        ends, and children do not inherit it.
        """
        names = self._database.rows("SELECT name FROM studies WHERE id = ?", [study_id])
        if not names:
            raise StoreError(f"{self.path} has no study with id {study_id}")
        try:
            pid = locks.acquire(self._lock_path, study_id)
        except OSError as error:
            raise StoreError(
                f"{self.path}.lock: cannot lock ({error.strerror}); the folder must be writable"
            ) from error
        if pid is not None:
            who = f"pid {pid}" if pid > 0 else "by another machine or container"
            raise StoreError(f"study {names[0]['name']!r} is already running ({who}); wait for it, or stop it first")
        try:
            yield
        finally:
            locks.release(self._lock_path, study_id)

    def running(self, study_id: int) -> int | None:
        """The pid of the process that runs the study, else None; 0 or less: one of another machine or container."""
        return locks.holder(self._lock_path, study_id)

    # -- writing ----------------------------------------------------------------------------------------

    def add_invocation(self, study_id: int, machine: dict, build: dict, command: str, workers: int) -> int:
        """A `sweep run` begins; its id."""
        row = row_of(
            study_id=study_id,
            started=now(),
            command=command,
            workers=workers,
            machine=json_text(machine),
            build=json_text(build),
        )
        with self._database.writing():
            return self._database.utils.table("invocations").insert(row).last_pk

    def end_invocation(self, invocation_id: int, totals: dict) -> None:
        """A `sweep run` ends; `totals`: seconds by what they went into (training_seconds, sampler_cpu_seconds, ...)."""
        with self._database.writing():
            self._database.execute(
                "UPDATE invocations SET ended = ?, totals = ? WHERE id = ?", [now(), json_text(totals), invocation_id]
            )

    def add_trial(self, study_id: int, number: int, params: dict, parameters: int | None, origin: str) -> int:
        """A new trial, state "open"; its id. `number` is unique in a study, `parameters` is the network size."""
        row = row_of(
            study_id=study_id,
            number=number,
            params=strict_json(params, f"trial {number}"),
            parameters=parameters,
            origin=origin,
            state="open",
            created=now(),
        )
        with self._database.writing(f"trial {number}"):
            return self._database.insert("trials", row)

    def set_trial(self, trial_id: int, state: str, value: float | None = None) -> None:
        """state: "open" or "ended"; value: what the sampler was told (log restart ERT), None or inf: nothing solved."""
        if state not in STATES:
            raise StoreError(f"a trial's state is one of {', '.join(STATES)}; got {state!r}")
        with self._database.writing():
            self._database.execute(
                "UPDATE trials SET state = ?, value = ? WHERE id = ?", [state, plain(value), trial_id]
            )

    def add_run(
        self,
        trial_id: int,
        invocation_id: int | None,
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

        `run` is a trainer_native.Run (or any object with its attributes; weights are not stored). `cap_seconds` is the
        cap it ended under, CPU seconds; None or inf: none. (trial, seed, purpose, attempt) is stored once: a second
        time is a StoreError. `attempt` counts up where the same seed is run again; `noisy` marks a wall time that its
        CPU time belies. `started` is UTC, ISO 8601; None: now less the run's seconds. `curve`: store it too.
        """
        if run.status not in STATUSES:
            raise StoreError(f"a run's status is one of {', '.join(STATUSES)}; got {run.status!r}")
        row = row_of(
            trial_id=trial_id,
            invocation_id=invocation_id,
            purpose=purpose,
            attempt=attempt,
            audit=audit,
            noisy=noisy,
            cap_seconds=cap_seconds,
            worker=worker,
            **{name: getattr(run, name) for name in RUN_FIELDS},
        )
        row["started"] = started or now(ago=(row["seconds"] or 0.0) + (row["setup_seconds"] or 0.0))
        points = run.curve if curve else None
        text = None if points is None else curve_text(points)
        with self._database.writing(f"the run of seed {row['seed']}, {purpose}, attempt {attempt}"):
            run_id = self._database.insert("runs", row)
            if text is not None:
                self._database.execute("INSERT INTO curves VALUES (?, ?, ?)", [run_id, len(points), text])
        return run_id

    def add_audit(self, trial_id: int, run_id: int, mean_return: float, episodes: int, solved: bool,
                  mean_metric: float | None = None) -> int:
        """The frozen policy of a run, measured again over `episodes` fresh episodes; its id."""
        row = row_of(
            trial_id=trial_id, run_id=run_id, mean_return=mean_return, episodes=episodes, solved=solved, created=now(),
            mean_metric=mean_metric,
        )
        with self._database.writing(f"the audit of run {run_id}"):
            return self._database.insert("audits", row)

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, study_id: int) -> list[dict]:
        """id, study_id, number, params (dict), parameters, origin, state, value, created; by number."""
        rows = self._database.rows("SELECT * FROM trials WHERE study_id = ? ORDER BY number", [study_id])
        return [self._decoded("trials", row, "params") for row in rows]

    def runs(self, study_id: int, superseded: bool = False) -> list[dict]:
        """All columns of `runs`, in the order they ended; `superseded`: also those that a later attempt supersedes."""
        rows = self._database.rows(
            f"""SELECT runs.* FROM runs JOIN trials ON trials.id = trial_id
            WHERE study_id = ? AND {"1" if superseded else COUNTS} ORDER BY runs.id""",
            [study_id],
        )
        for row in rows:
            row["audit"], row["noisy"] = bool(row["audit"]), bool(row["noisy"])
        return rows

    def curves(self, study_id: int, run_ids: Iterable[int] | None = None) -> dict[int, np.ndarray]:
        """run_id -> float64 [points, 4]: cpu_seconds, seconds, env_steps, mean_return (mean_metric where that is solved on).

        Times to a microsecond, nan where absent. Runs stored without a curve are left out. 10,000 curves take 2 s to
        read: ask for those you need.
        """
        only = "" if run_ids is None else "AND runs.id IN (SELECT value FROM json_each(?))"
        chosen = [] if run_ids is None else [json.dumps([int(run_id) for run_id in run_ids])]
        rows = self._database.rows(
            f"""SELECT run_id, curve FROM curves
            JOIN runs ON runs.id = run_id JOIN trials ON trials.id = trial_id
            WHERE study_id = ? {only} ORDER BY run_id""",
            [study_id, *chosen],
        )
        return {row["run_id"]: self._curve(row["run_id"], row["curve"]) for row in rows}

    def audits(self, study_id: int) -> list[dict]:
        """id, trial_id, run_id, mean_return, episodes, solved (bool), created, mean_metric."""
        rows = self._database.rows(
            """SELECT audits.* FROM audits JOIN trials ON trials.id = trial_id WHERE study_id = ?
            ORDER BY audits.id""",
            [study_id],
        )
        return [{**row, "solved": bool(row["solved"])} for row in rows]

    def invocations(self, study_id: int) -> list[dict]:
        """id, study_id, started, ended, command, workers, machine (dict), build (dict), totals (dict or None)."""
        rows = self._database.rows("SELECT * FROM invocations WHERE study_id = ? ORDER BY id", [study_id])
        return [self._decoded("invocations", row, "machine", "build", "totals") for row in rows]

    def counts(self, study_id: int) -> dict:
        """{"trials", "runs": {status: number}, "training_seconds", "env_steps"}, superseded runs included."""
        trials = self._database.rows("SELECT count(*) AS n FROM trials WHERE study_id = ?", [study_id])[0]["n"]
        rows = self._database.rows(
            """SELECT status, count(*) AS n, total(seconds) AS seconds,
            ifnull(sum(env_steps), 0) AS env_steps
            FROM runs JOIN trials ON trials.id = trial_id WHERE study_id = ? GROUP BY status""",
            [study_id],
        )
        runs = dict.fromkeys(STATUSES, 0) | {row["status"]: row["n"] for row in rows}
        return {
            "trials": trials,
            "runs": runs,
            "training_seconds": sum(row["seconds"] for row in rows),
            "env_steps": sum(row["env_steps"] for row in rows),
        }

    # -- inside -----------------------------------------------------------------------------------------

    def _decoded(self, table: str, row: dict, *columns: str) -> dict:
        """`row` with the JSON objects in `columns` as dicts (None where NULL)."""
        for column in columns:
            if row[column] is None:
                continue
            try:
                row[column] = json.loads(row[column])
                legal = isinstance(row[column], dict)
            except (TypeError, ValueError, RecursionError):
                legal = False
            if not legal:
                raise StoreError(
                    f"{self.path}: {column} in row {row['id']} of {table} is not a JSON object; was it edited by hand?"
                )
        return row

    def _curve(self, run_id: int, text: str) -> np.ndarray:
        try:
            curve = np.array(json.loads(text), dtype=np.float64)
            return curve if curve.size and curve.shape[1] == 4 and curve.ndim == 2 else curve.reshape(0, 4)
        except (TypeError, ValueError, IndexError, RecursionError):
            raise StoreError(
                f"{self.path}: curve of run {run_id} is not a list of four numbers each; was it edited by hand?"
            ) from None
