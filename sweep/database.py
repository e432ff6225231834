"""A SQLite file of ours: opened or made, rows read, transactions written, errors in one line. For `store` alone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sqlite_utils

from sweep import schema
from sweep.values import StoreError

#: How long a write waits for another process's write, seconds.
BUSY_SECONDS = 30.0


class Database:
    """An open file that is known to be ours; `utils` is its sqlite_utils.Database, `execute` that of its connection."""

    def __init__(self, path: Path, create: bool, readonly: bool):
        self.path = path
        self.readonly = readonly
        try:
            _check_path(path, create and not readonly)
            with self.explained():
                self._connection = _connect(path, readonly)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}; give --db another path") from error
        self.execute = self._connection.execute
        self.utils = sqlite_utils.Database(self._connection, execute_plugins=False)
        try:
            with self.explained():
                self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; the last to do so clears away its -wal and -shm files."""
        self._connection.close()

    def _open(self) -> None:
        """Checks that the file is ours, and makes the tables in an empty one."""
        if self.readonly:
            self._check_schema()
            return
        if self._is_empty():
            _to_wal(self._connection)
            with self.writing():
                if self._is_empty():  # else another process was faster
                    self._create()
        self._check_schema()
        self._update_schema()
        self.execute("PRAGMA synchronous = NORMAL")
        self.execute("PRAGMA foreign_keys = ON")
        with self.writing():  # fails now, not at the first run, where the file cannot be written
            pass

    def _is_empty(self) -> bool:
        return not self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def _check_schema(self) -> None:
        application = self.execute("PRAGMA application_id").fetchone()[0]
        version = self.execute("PRAGMA user_version").fetchone()[0]
        if self._is_empty():
            raise StoreError(f"{self.path} is empty; `sweep run NAME` fills it, --db names another")
        if application != schema.APPLICATION:
            raise StoreError(f"{self.path} is a database of another program; give --db another path")
        if version > schema.SCHEMA:
            raise StoreError(
                f"{self.path} was written by a newer sweep (schema {version}, this one reads {schema.SCHEMA}); "
                "update sweep, or give --db another path"
            )
        if version < schema.OLDEST:
            raise StoreError(
                f"{self.path} was written by an older sweep (schema {version}, this one reads from {schema.OLDEST} on); "
                "read it with that one, and give --db another path"
            )

    def _update_schema(self) -> None:
        """Adds what a file of an older schema lacks: columns, NULL in the rows that are there."""
        if self.execute("PRAGMA user_version").fetchone()[0] == schema.SCHEMA:
            return
        with self.writing():
            version = self.execute("PRAGMA user_version").fetchone()[0]   # another process may have been faster
            for newer in range(version + 1, schema.SCHEMA + 1):
                for table, columns in schema.ADDED[newer].items():
                    for column, kind in columns.items():
                        self.execute(f"ALTER TABLE {table} ADD COLUMN {column} {sqlite_utils.db.COLUMN_TYPE_MAPPING[kind]}")
            self.execute(f"PRAGMA user_version = {schema.SCHEMA}")

    def _create(self) -> None:
        for table, columns in schema.TABLES.items():
            self.utils.table(table).create(
                columns,
                pk="id" if "id" in columns else "run_id",
                foreign_keys=[(name, schema.PARENTS[name], "id") for name in columns if name in schema.PARENTS],
                not_null=schema.NOT_NULL & columns.keys(),
            )
        for table, columns in schema.UNIQUE.items():
            self.utils.table(table).create_index(columns, unique=True)
        for view, select in schema.VIEWS.items():
            self.utils.create_view(view, select)
        self.execute(f"PRAGMA application_id = {schema.APPLICATION}")
        self.execute(f"PRAGMA user_version = {schema.SCHEMA}")

    @contextlib.contextmanager
    def explained(self, what: str = "") -> Iterator[None]:
        """Errors of SQLite that a user can do something about, as StoreError."""
        try:
            yield
        except sqlite3.Error as error:
            if line := _explain(error, what):
                raise StoreError(f"{self.path} {line}") from error
            raise

    @contextlib.contextmanager
    def writing(self, what: str = "") -> Iterator[None]:
        """One transaction: all of it on disk at the end, or none."""
        if self.readonly:
            raise StoreError(f"{self.path} was opened for reading only")
        with self.explained(what):
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself rolls back where the disk is full
                    self.execute("ROLLBACK")
                raise

    def insert(self, table: str, row: dict) -> int:
        """Straight through sqlite3: sqlite-utils takes 0.3 ms and more per row."""
        marks = ", ".join("?" * len(row))
        return self.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values())).lastrowid

    def rows(self, sql: str, arguments: Any = ()) -> list[dict]:
        with self.explained():
            cursor = self.execute(sql, arguments)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, values)) for values in cursor]


def _check_path(path: Path, create: bool) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a database is a file, such as {path / 'sweep.db'}")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not path.exists() and not create:
        raise StoreError(f"{path} does not exist; `sweep run NAME` creates it, --db names another")


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    """A connection without implicit transactions.

    A reader that may write asks for more than it needs: only then does SQLite clear away its -wal and -shm files.
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
        "SQLITE_CORRUPT": f"is damaged ({error}); restore a copy, or try `sqlite3 FILE .recover`",
        "SQLITE_READONLY": "cannot be written; make the file and its folder writable, or give --db another path",
        "SQLITE_CANTOPEN": "cannot be opened; check who may read and write it, its -wal file and its folder",
        "SQLITE_PERM": "cannot be opened; check who may read and write it, or give --db another path",
        "SQLITE_FULL": "cannot grow: the disk is full; free some space and run again, nothing that was stored is lost",
        "SQLITE_IOERR": f"cannot be read or written ({error}); check the disk, nothing that was stored is lost",
        "SQLITE_BUSY": f"is locked: another process has been writing for {BUSY_SECONDS:.0f} s; end it, or try again",
        "SQLITE_LOCKED": "is locked by another process; try again",
        "SQLITE_CONSTRAINT_FOREIGNKEY": f"holds no such study, trial or run; was it removed? ({what or error})",
        "SQLITE_CONSTRAINT_UNIQUE": f"holds {what or 'this'} already ({error})",
        "SQLITE_CONSTRAINT": f"cannot take {what or 'this'} ({error})",
    }
    for prefix, line in lines.items():
        if name.startswith(prefix):
            return line
    if str(error).startswith("Could not decode"):
        return "holds text that is not UTF-8; was it edited by hand?"
    if str(error).startswith("no such"):
        return f"is not as sweep made it ({error}); restore a copy, or give --db another path"
    return None
