"""The catalog: one SQLite database in WAL mode with definitions, commits and hot relations.

    $meta         format version
    $definition   what was defined and dropped, in order, as it was given
    $commit       one row for each change of the warehouse
    $change       which relations it changed, and by how much
    $relation     how many rows each relation has, and where they are

Relations themselves are tables without a ``$`` in front. Everything a commit changes is one SQLite transaction.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewkeeper.errors import StoreError, problem

FORMAT = 1
FILE = "catalog.db"

_SCHEMA = """
CREATE TABLE "$meta" (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE "$definition" (
    id INTEGER PRIMARY KEY, commit_id INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE "$commit" (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, engine TEXT NOT NULL, seconds REAL NOT NULL,
    detail TEXT NOT NULL) STRICT;
CREATE TABLE "$change" (
    commit_id INTEGER NOT NULL, relation TEXT NOT NULL, inserted INTEGER, deleted INTEGER, form TEXT NOT NULL,
    PRIMARY KEY (commit_id, relation)) STRICT;
CREATE TABLE "$relation" (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, rows INTEGER NOT NULL, place TEXT NOT NULL, changed INTEGER NOT NULL,
    snapshot INTEGER) STRICT;
"""


@dataclass(frozen=True)
class Kept:
    """A relation as the catalog knows it: ``changed`` and ``snapshot`` are commit numbers."""

    name: str
    kind: str
    rows: int
    place: str
    changed: int
    snapshot: int | None


@dataclass(frozen=True)
class Definition:
    """A text that was defined, or the name of a relation that was dropped."""

    kind: str
    name: str
    text: str


class Catalog:
    """The tables of the catalog behind one connection."""

    def __init__(self, directory: Path, connection: sqlite3.Connection, writable: bool) -> None:
        self.directory, self.connection, self.writable = directory, connection, writable

    # ---- opening

    @classmethod
    def create(cls, directory: Path) -> None:
        """An empty catalog in an existing directory. It appears whole: under another name first."""
        partial = directory / (FILE + ".partial")
        with translated(directory):
            for leftover in directory.glob(FILE + ".partial*"):
                leftover.unlink()
            connection = sqlite3.connect(partial, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("BEGIN")
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute('INSERT INTO "$meta" VALUES (?, ?)', ("format", str(FORMAT)))
                connection.execute("COMMIT")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()
            partial.rename(directory / FILE)

    @classmethod
    def open(cls, directory: Path, writable: bool) -> Catalog:
        path = directory / FILE
        if not path.is_file():
            raise StoreError(problem("NOT_A_WAREHOUSE", path=directory))
        with translated(directory):
            connection = _connect(path, writable)
            try:
                [[version]] = connection.execute("SELECT value FROM \"$meta\" WHERE key = 'format'")
            except BaseException:
                connection.close()
                raise
        if int(version) > FORMAT:
            connection.close()
            raise StoreError(problem("CATALOG_VERSION", path=directory, found=version, known=FORMAT))
        return cls(directory, connection, writable)

    def close(self) -> None:
        self.connection.close()

    # ---- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; durable when it ends."""
        with translated(self.directory):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state, whatever is committed meanwhile."""
        with translated(self.directory):
            self.connection.execute("BEGIN")
            try:
                self.connection.execute('SELECT 1 FROM "$meta"').fetchall()
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")

    # ---- definitions

    def definitions(self) -> list[Definition]:
        rows = self.connection.execute('SELECT kind, name, text FROM "$definition" ORDER BY id')
        return [Definition(*row) for row in rows]

    def add_definition(self, commit: int, definition: Definition) -> None:
        self.connection.execute(
            'INSERT INTO "$definition" (commit_id, kind, name, text) VALUES (?, ?, ?, ?)',
            (commit, definition.kind, definition.name, definition.text),
        )

    # ---- commits

    def last_commit(self) -> int:
        [[last]] = self.connection.execute('SELECT coalesce(max(id), 0) FROM "$commit"')
        return int(last)

    def add_commit(self, commit: int, kind: str, engine: str, seconds: float, detail: dict[str, Any]) -> None:
        self.connection.execute(
            'INSERT INTO "$commit" VALUES (?, ?, ?, ?, ?, ?)',
            (commit, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), kind, engine, seconds, json.dumps(detail)),
        )

    def add_change(self, commit: int, relation: str, inserted: int | None, deleted: int | None, form: str) -> None:
        self.connection.execute('INSERT INTO "$change" VALUES (?, ?, ?, ?, ?)', (commit, relation, inserted, deleted, form))

    # ---- relations

    def relations(self) -> dict[str, Kept]:
        rows = self.connection.execute('SELECT name, kind, rows, place, changed, snapshot FROM "$relation"')
        return {row[0]: Kept(*row) for row in rows}

    def put_relation(self, kept: Kept) -> None:
        self.connection.execute(
            'INSERT OR REPLACE INTO "$relation" VALUES (?, ?, ?, ?, ?, ?)',
            (kept.name, kept.kind, kept.rows, kept.place, kept.changed, kept.snapshot),
        )

    def remove_relation(self, name: str) -> None:
        self.connection.execute('DELETE FROM "$relation" WHERE name = ?', (name,))


def _connect(path: Path, writable: bool) -> sqlite3.Connection:
    mode = "rw" if writable else "ro"
    uri = f"file:{_quoted(path)}?mode={mode}"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=512, check_same_thread=False)
        connection.execute('SELECT 1 FROM "$meta"').fetchall()
    except sqlite3.OperationalError:
        # A directory that cannot be written has no room for the shared-memory file that readers of a WAL database use.
        if writable or Path(f"{path}-wal").exists():
            raise
        connection = sqlite3.connect(f"{uri}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA busy_timeout=10000")
    connection.execute("PRAGMA temp_store=FILE")
    connection.execute("PRAGMA cache_size=-262144")
    if writable:
        connection.execute("PRAGMA synchronous=FULL")
    return connection


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))


@contextmanager
def translated(directory: Path) -> Iterator[None]:
    """SQLite's and the system's failures as errors of ours."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "disk is full" in text or "disk I/O error" in text:
            raise StoreError(problem("DISK_FULL", path=directory)) from None
        if "readonly" in text or "unable to open" in text:
            raise StoreError(problem("READ_ONLY", path=directory, why=text)) from None
        if isinstance(error, sqlite3.DatabaseError) and ("malformed" in text or "not a database" in text or "no such table" in text):
            raise StoreError(problem("CATALOG_DAMAGED", path=directory, why=text)) from None
        raise
    except OSError as error:
        code = "DISK_FULL" if error.errno == 28 else "READ_ONLY"
        raise StoreError(problem(code, path=directory, why=error.strerror or str(error))) from None
