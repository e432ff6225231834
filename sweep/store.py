"""The SQLite file that holds studies; the only module that opens it. `schema` says what stands in it.

Every write is committed before its method returns. kill -9 loses nothing; a power cut may lose the last moments before it (WAL with
synchronous=NORMAL does not wait for the disk), never consistency. Readers never block the writer, nor the writer them. One process
runs a study; several may run different studies into one file, their writes wait for each other.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import sqlite_utils

from sweep import locks
from sweep.schema import (
    APPLICATION,
    COUNTS,
    NOT_NULL,
    PARENTS,
    RUN_FIELDS,
    SCHEMA,
    STATES,
    STATUSES,
    TABLES,
    UNIQUE,
    VIEWS,
)
from sweep.values import StoreError, curve_text, json_text, now, plain, row_of, strict_json
from trainer_native.config import closest

#: How long a write waits for another process's write, seconds.
BUSY_SECONDS = 30.0


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
        self.readonly = readonly
        self._lock_path = os.path.realpath(path) + ".lock"
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder; a database is a file, such as {self.path / 'sweep.db'}")
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: the folder {self.path.parent} does not exist; create it first")
        if not self.path.exists() and (readonly or not create):
            raise StoreError(f"{self.path} does not exist; `sweep run NAME` creates it, --db names another")
        with self._explained():
            self._connection = _connect(self.path, readonly)
        try:
            self._database = sqlite_utils.Database(self._connection, execute_plugins=False)
            with self._explained():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Closes the file; locks held through this store are released by their own context managers."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- studies ----------------------------------------------------------------------------------------

    def open_study(self, study: Any) -> int:
        """study_id of the study with this name and hash, a new one where there is none; it becomes the newest of its name."""
        where = f"study {study.name!r}"
        row = row_of(name=study.name, hash=study.hash, env=study.env, question=study.question, sampler=study.sampler,
                   definition=strict_json(study.definition(), where), budget=json_text(study.budget), opened=now())  # fmt: skip
        with self._writing():
            known = self._rows("SELECT id FROM studies WHERE name = :name AND hash = :hash", row)
            if known:
                self._database.table("studies").update(known[0]["id"], row)
                return known[0]["id"]
            return self._database.table("studies").insert({**row, "created": row["opened"]}).last_pk

    def find(self, name: str) -> dict:
        """The newest study of that name: id, name, hash, env, question, definition (dict), budget (dict), sampler, created, opened.

        StoreError names the studies there are, and the one that was meant.
        """
        rows = self._rows("SELECT * FROM studies WHERE name = ? ORDER BY opened DESC, id DESC LIMIT 1", [plain(name)])
        if rows:
            return self._decoded("studies", rows[0], "definition", "budget")
        names = [row["name"] for row in self._rows("SELECT name FROM studies GROUP BY name ORDER BY max(opened) DESC")]
        holds = (
            f"it holds {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else "it holds none yet"
        )
        raise StoreError(f"{self.path} has no study {name!r}.{closest(name, names)} ({holds})")

    def studies(self) -> list[dict]:
        """All studies, newest first: the columns of `find` and `newest` (bool), `trials`, `runs`, `solved` (counts)."""
        rows = self._rows(f"""SELECT studies.*, (SELECT count(*) FROM trials WHERE study_id = studies.id) AS trials,
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
        """Deletes a study (an id, or the newest of a name) with all that hangs on it; the number of its runs. Refused while it runs."""
        study_id = self.find(study)["id"] if isinstance(study, str) else study
        mine = "SELECT id FROM trials WHERE study_id = ?"
        with self.lock(study_id), self._writing():
            execute = self._connection.execute
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

        The lock is one byte, at offset study_id, of the file `<database>.lock`; it goes with the process, however that ends, and
        is not inherited by children.
        """
        names = self._rows("SELECT name FROM studies WHERE id = ?", [study_id])
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
        """The pid of the process that runs the study, else None; 0 or less where it is one of another machine or container."""
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
        with self._writing():
            return self._database.table("invocations").insert(row).last_pk

    def end_invocation(self, invocation_id: int, totals: dict) -> None:
        """A `sweep run` ends; `totals` are seconds by purpose (worker_seconds, training_seconds, sampler_cpu_seconds, ...)."""
        with self._writing():
            self._connection.execute(
                "UPDATE invocations SET ended = ?, totals = ? WHERE id = ?", [now(), json_text(totals), invocation_id]
            )

    def add_trial(self, study_id: int, number: int, params: dict, parameters: int | None, origin: str) -> int:
        """A new trial, state "open"; its id. `number` is unique in a study, `parameters` is the network size."""
        row = row_of(study_id=study_id, number=number, params=strict_json(params, f"trial {number}"), parameters=parameters,
                   origin=origin, state="open", created=now())  # fmt: skip
        with self._writing(f"trial {number}"):
            return self._insert("trials", row)

    def set_trial(self, trial_id: int, state: str, value: float | None = None) -> None:
        """state: "open" or "ended"; value: what the sampler was told (log restart ERT), None (also for inf) where nothing solved."""
        if state not in STATES:
            raise StoreError(f"a trial's state is one of {', '.join(STATES)}; got {state!r}")
        with self._writing():
            self._connection.execute(
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

        `run` is a trainer_native.Run (or any object with its attributes; weights are not stored). `cap_seconds` is the cap it ended
        under, CPU seconds; None or inf: none. (trial, seed, purpose, attempt) is stored once: a second time is a StoreError.
        `attempt` counts up where the same seed is run again; `noisy` marks a wall time that its CPU time belies. `started` is UTC,
        ISO 8601; None: now less the run's seconds. `curve`: store the learning curve too.
        """
        if run.status not in STATUSES:
            raise StoreError(f"a run's status is one of {', '.join(STATUSES)}; got {run.status!r}")
        row = row_of(trial_id=trial_id, invocation_id=invocation_id, purpose=purpose, attempt=attempt, audit=audit, noisy=noisy,
                   cap_seconds=cap_seconds, worker=worker, **{name: getattr(run, name) for name in RUN_FIELDS})  # fmt: skip
        row["started"] = started or now(ago=(row["seconds"] or 0.0) + (row["setup_seconds"] or 0.0))
        points = run.curve if curve else None
        text = None if points is None else curve_text(points)
        with self._writing(f"the run of seed {row['seed']}, {purpose}, attempt {attempt}"):
            run_id = self._insert("runs", row)
            if text is not None:
                self._connection.execute("INSERT INTO curves VALUES (?, ?, ?)", [run_id, len(points), text])
        return run_id

    def add_audit(self, trial_id: int, run_id: int, mean_return: float, episodes: int, solved: bool) -> int:
        """The frozen policy of a run, measured again over `episodes` fresh episodes; its id."""
        row = row_of(
            trial_id=trial_id, run_id=run_id, mean_return=mean_return, episodes=episodes, solved=solved, created=now()
        )
        with self._writing(f"the audit of run {run_id}"):
            return self._insert("audits", row)

    # -- reading ----------------------------------------------------------------------------------------

    def trials(self, study_id: int) -> list[dict]:
        """id, study_id, number, params (dict), parameters, origin, state, value, created; by number."""
        rows = self._rows("SELECT * FROM trials WHERE study_id = ? ORDER BY number", [study_id])
        return [self._decoded("trials", row, "params") for row in rows]

    def runs(self, study_id: int, superseded: bool = False) -> list[dict]:
        """All columns of `runs` in the order they ended, bools as bools; with those superseded by a later attempt only if asked."""
        rows = self._rows(f"""SELECT runs.* FROM runs JOIN trials ON trials.id = trial_id
            WHERE study_id = ? AND {"1" if superseded else COUNTS} ORDER BY runs.id""", [study_id])  # fmt: skip
        for row in rows:
            row["audit"], row["noisy"] = bool(row["audit"]), bool(row["noisy"])
        return rows

    def curves(self, study_id: int, run_ids: Iterable[int] | None = None) -> dict[int, np.ndarray]:
        """run_id -> float64 [points, 4]: cpu_seconds, seconds, env_steps, mean_return (times to a microsecond; nan where absent).

        Runs stored without a curve are left out. 10,000 curves take about 2 s to read: ask for those you need.
        """
        only = "" if run_ids is None else "AND runs.id IN (SELECT value FROM json_each(?))"
        chosen = [] if run_ids is None else [json.dumps([int(run_id) for run_id in run_ids])]
        rows = self._rows(f"""SELECT run_id, curve FROM curves JOIN runs ON runs.id = run_id JOIN trials ON trials.id = trial_id
            WHERE study_id = ? {only} ORDER BY run_id""", [study_id, *chosen])  # fmt: skip
        return {row["run_id"]: self._curve(row["run_id"], row["curve"]) for row in rows}

    def audits(self, study_id: int) -> list[dict]:
        """id, trial_id, run_id, mean_return, episodes, solved (bool), created."""
        rows = self._rows("""SELECT audits.* FROM audits JOIN trials ON trials.id = trial_id WHERE study_id = ?
            ORDER BY audits.id""", [study_id])  # fmt: skip
        return [{**row, "solved": bool(row["solved"])} for row in rows]

    def invocations(self, study_id: int) -> list[dict]:
        """id, study_id, started, ended, command, workers, machine (dict), build (dict), totals (dict or None); by id."""
        rows = self._rows("SELECT * FROM invocations WHERE study_id = ? ORDER BY id", [study_id])
        return [self._decoded("invocations", row, "machine", "build", "totals") for row in rows]

    def counts(self, study_id: int) -> dict:
        """{"trials", "runs": {status: number}, "training_seconds", "env_steps"}; superseded runs included: their time was spent."""
        trials = self._rows("SELECT count(*) AS n FROM trials WHERE study_id = ?", [study_id])[0]["n"]
        rows = self._rows("""SELECT status, count(*) AS n, total(seconds) AS seconds, ifnull(sum(env_steps), 0) AS env_steps
            FROM runs JOIN trials ON trials.id = trial_id WHERE study_id = ? GROUP BY status""", [study_id])  # fmt: skip
        runs = dict.fromkeys(STATUSES, 0) | {row["status"]: row["n"] for row in rows}
        return {"trials": trials, "runs": runs, "training_seconds": sum(row["seconds"] for row in rows),
                "env_steps": sum(row["env_steps"] for row in rows)}  # fmt: skip

    # -- inside -----------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Checks that the file is ours, and makes the tables in an empty one."""
        execute = self._connection.execute
        if self.readonly:
            self._check_schema()
            return
        if self._is_empty():
            _to_wal(self._connection)
            with self._writing():
                if self._is_empty():  # else another process was faster
                    self._create()
        self._check_schema()
        execute("PRAGMA synchronous = NORMAL")
        execute("PRAGMA foreign_keys = ON")
        with self._writing():  # fails now, not at the first run, where the file cannot be written
            pass

    def _is_empty(self) -> bool:
        return not self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def _check_schema(self) -> None:
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if self._is_empty():
            raise StoreError(f"{self.path} is empty; `sweep run NAME` fills it, --db names another")
        if application != APPLICATION:
            raise StoreError(f"{self.path} is a database of another program; give --db another path")
        if version > SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer sweep (schema {version}, this one reads {SCHEMA}); update sweep"
            )
        if version < SCHEMA:
            raise StoreError(f"{self.path} was written by an older sweep (schema {version}, this one reads {SCHEMA}); "
                             "read it with that one, and give --db another path")  # fmt: skip

    def _create(self) -> None:
        for table, columns in TABLES.items():
            self._database.table(table).create(
                columns,
                pk="id" if "id" in columns else "run_id",
                foreign_keys=[(name, PARENTS[name], "id") for name in columns if name in PARENTS],
                not_null=NOT_NULL & columns.keys(),
            )
        for table, columns in UNIQUE.items():
            self._database.table(table).create_index(columns, unique=True)
        for view, select in VIEWS.items():
            self._database.create_view(view, select)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextlib.contextmanager
    def _explained(self, what: str = "") -> Iterator[None]:
        """Errors of SQLite that a user can do something about, as StoreError."""
        try:
            yield
        except sqlite3.Error as error:
            if line := _explain(error, what):
                raise StoreError(f"{self.path} {line}") from error
            raise

    @contextlib.contextmanager
    def _writing(self, what: str = "") -> Iterator[None]:
        """One transaction: all of it on disk at the end, or none."""
        if self.readonly:
            raise StoreError(f"{self.path} was opened for reading only")
        with self._explained(what):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself rolls back where the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def _insert(self, table: str, row: dict) -> int:
        """Straight through sqlite3: sqlite-utils takes 0.3 ms and more per row."""
        marks = ", ".join("?" * len(row))
        return self._connection.execute(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values())
        ).lastrowid

    def _rows(self, sql: str, arguments: Any = ()) -> list[dict]:
        with self._explained():
            cursor = self._connection.execute(sql, arguments)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, values)) for values in cursor]

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


# -- the file -------------------------------------------------------------------------------------------


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    """A connection without implicit transactions.

    A reader that may write asks for more than it needs: only then does SQLite clear away its -wal and -shm files at the end.
    One that may not reads the file as it stands where no writer has left a -wal file.
    """
    options = "mode=rw" if path.exists() else "mode=rwc"
    may_write = all(
        os.access(p, os.W_OK, effective_ids=os.access in os.supports_effective_ids) for p in (path, path.parent)
    )
    if readonly and not may_write:
        wal = Path(f"{path}-wal")
        options = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    address = f"file:{urllib.parse.quote(str(path))}?{options}"
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON" if readonly else "PRAGMA query_only = OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _to_wal(connection: sqlite3.Connection) -> None:
    """Write-ahead logging; SQLite does not wait for others here, so we do."""
    for patience in np.geomspace(0.001, 1.0, 12):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(float(patience))
    connection.execute("PRAGMA journal_mode = WAL")


def _explain(error: sqlite3.Error, what: str) -> str | None:
    """What is wrong and what to do, following the path of the file; None where a user can do nothing about it."""
    name = getattr(error, "sqlite_errorname", None) or ""
    lines = {
        "SQLITE_NOTADB": "is not a SQLite database; give --db another path",
        "SQLITE_CORRUPT": f"is damaged ({error}); restore a copy, or try `sqlite3 FILE .recover`, and give --db another path",
        "SQLITE_READONLY": "cannot be written; make the file and its folder writable, or give --db another path",
        "SQLITE_CANTOPEN": "cannot be opened; check who may read and write it, its -wal file and its folder, or give --db another path",
        "SQLITE_PERM": "cannot be opened; check who may read and write it, or give --db another path",
        "SQLITE_FULL": "cannot grow: the disk is full; free some space and run again, nothing that was stored is lost",
        "SQLITE_IOERR": f"cannot be read or written ({error}); check the disk, nothing that was stored is lost",
        "SQLITE_BUSY": f"is locked: another process has been writing for over {BUSY_SECONDS:.0f} s; end it, or try again",
        "SQLITE_LOCKED": "is locked by another process; try again",
        "SQLITE_CONSTRAINT_FOREIGNKEY": f"holds no such study, trial or run any more; was it removed? ({what or error})",
        "SQLITE_CONSTRAINT_UNIQUE": f"holds {what or 'this'} already ({error})",
        "SQLITE_CONSTRAINT": f"cannot take {what or 'this'} ({error})",
    }  # fmt: skip
    for prefix, line in lines.items():
        if name.startswith(prefix):
            return line
    if str(error).startswith("no such"):
        return f"is not as sweep made it ({error}); restore a copy, or give --db another path"
    return None
