"""The catalog: one SQLite database in WAL mode with definitions, commits and hot relations.

    $meta         format version
    $definition   what was defined and dropped, in order, as it was given
    $log          for each commit, a change of the warehouse, a row for each relation that it changed (see ``store.log``), and before those
                  one for itself: without a relation, its time as the form, and what else is known of it as the rows
    $relation     how many rows each relation has, and where they are: as of a commit, what came and went since is in $log
    $key          names of transactions that are made only once: see ``store.keys``

Relations themselves are tables without a ``$`` in front. Everything a commit changes is one SQLite transaction.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from viewkeeper.errors import InterruptedLate, StoreError, ViewkeeperError, problem
from viewkeeper.store.failures import UNWRITABLE, result_code, translated
from viewkeeper.store.folding import Folding
from viewkeeper.store.lock import FILE as LOCK_FILE
from viewkeeper.store.lock import reader_lock, writer_lock

FORMAT = 9
# Those before that become this one: in 7 all tables had row numbers, and up to 8 there may be indexes in which a column is repeated.
_FORMERLY = {7, 8}
FILE = "catalog.db"
PARTIAL = FILE + ".partial"
READ = "snapshots"
"""The directory that readers hold, so that no file they may need is removed."""
# The write-ahead log is folded after so many transactions, rows that they told, or changes of rows at all, also of temporary ones.
_FOLD_EVERY = 250
_MANY_TOLD = 10_000
_MANY_CHANGES = 200_000
# The space of a longer write-ahead log, and one that has more than a quarter of the database, is given back by who writes next. What is
# written where something was written before is on the disk sooner.
_LONG_LOG = 32 * 1024 * 1024
# Relations that merely have other rows are written down only with every so many commits: a page less for the others.
WRITE_EVERY = 64
# The log's rows are numbered by commits, so many numbers for each: they are appended, and those of a commit are found by its number.
_OF_A_COMMIT = 1_000_000
_END = (2**63 - 1) // _OF_A_COMMIT - 1
_PATIENCE = 10.0  # seconds to wait for another program that holds the database

KEYS = """
CREATE TABLE "$key" (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, commit_id INTEGER, digest BLOB NOT NULL, time INTEGER NOT NULL) STRICT"""

_SCHEMA = f"""
CREATE TABLE "$meta" (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE "$definition" (
    id INTEGER PRIMARY KEY, commit_id INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE "$log" (
    id INTEGER PRIMARY KEY, commit_id INTEGER AS (id / {_OF_A_COMMIT}), relation TEXT NOT NULL, inserted INTEGER NOT NULL,
    deleted INTEGER NOT NULL, form TEXT NOT NULL, rows BLOB) STRICT;
CREATE TABLE "$relation" (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, rows INTEGER NOT NULL, place TEXT NOT NULL, changed INTEGER NOT NULL,
    snapshot INTEGER) STRICT, WITHOUT ROWID;
{KEYS}
"""


TABLES = frozenset({"$meta", "$definition", "$log", "$relation", "$key"})


# The name of the relation in a commit's own row of the log: none has it. It is the first of a commit.
_COMMIT = ""
# The log's rows of commits after one up to another.
_BETWEEN = f"id >= (:since + 1) * {_OF_A_COMMIT} AND id < (:until + 1) * {_OF_A_COMMIT}"

Logged = tuple[str, int, int, str, bytes | None]
"""What a commit did to a relation: relation, inserted, deleted, form, rows."""

NOWHERE = "external"
"""The place of a view of which nothing is stored."""


class Kept(NamedTuple):
    """A relation as the catalog knows it: ``changed`` and ``snapshot`` are commit numbers.

    What has changed since a snapshot is in the log, row by row.
    """

    name: str
    kind: str
    rows: int
    place: str
    changed: int
    snapshot: int | None

    @property
    def is_stale(self) -> bool:
        """Has the relation changed since its snapshot was written?"""
        return self.snapshot is not None and self.snapshot < self.changed

    def moved(self, commit: int, more: int) -> Kept:
        """The relation after a commit that only changed its rows: so many more."""
        rows = 0 if self.place == NOWHERE else self.rows + more
        return Kept(self.name, self.kind, rows, self.place, commit, self.snapshot)


@dataclass(frozen=True)
class Definition:
    """A text that was defined ("define", "replace", "sql"), or the name of a relation that was dropped ("drop"), is stored from
    then on ("store") or is not any more ("external"), or is an integrity view of the level in the text ("level")."""

    kind: str
    name: str
    text: str
    commit: int = 0


class Catalog:
    """The tables of the catalog behind one connection."""

    def __init__(self, directory: Path, connection: sqlite3.Connection, writable: bool, frozen: _Stamp | None = None) -> None:
        """``frozen``: nothing tells this connection of changes; if the file is not as it was then, what was read is void."""
        self.directory, self.connection, self.writable, self.frozen = directory, connection, writable, frozen
        self._folding = Folding(directory / FILE)
        # Commits, rows that they told and rows that they changed: since the log was folded, in all, and in all when it was folded.
        self._unfolded = self._told = self._folded_told = self._folded_changes = 0
        if writable:
            connection.execute("PRAGMA wal_autocheckpoint=0")
            limit = max(_LONG_LOG, (directory / FILE).stat().st_size // 4)
            connection.execute(f"PRAGMA journal_size_limit={limit}")

    # ---- opening

    @classmethod
    def create(cls, directory: Path, exist_ok: bool = False) -> None:
        """An empty catalog in a new or empty directory. It appears whole: under another name first."""
        with translated(directory):
            if exist_ok and is_warehouse(directory):
                return
            if not directory.is_dir() and directory.exists():
                raise StoreError(problem("PATH_EXISTS", path=directory, hint="Choose a new or empty directory."))
            directory.mkdir(parents=True, exist_ok=True)
            with writer_lock(directory):
                if exist_ok and is_warehouse(directory):  # somebody else was faster
                    return
                _refuse_foreign_files(directory)
                _remove_partial(directory)
                try:
                    _write_schema(directory / PARTIAL)
                    (directory / PARTIAL).rename(directory / FILE)
                finally:
                    _remove_partial(directory)
                _make_durable(directory)

    @classmethod
    def open(cls, directory: Path, writable: bool) -> Catalog:
        with translated(directory, reading=not writable):
            if not is_warehouse(directory):
                raise StoreError(problem("NOT_A_WAREHOUSE", path=directory))
            catalog = cls(directory, *_connect(directory / FILE, writable))
            try:
                catalog._check_format()
            except BaseException:
                catalog.close()
                raise
        return catalog

    def _check_format(self) -> None:
        rows = self.connection.execute("SELECT value FROM \"$meta\" WHERE key = 'format'").fetchall()
        found = rows[0][0] if rows else "none"
        if not str(found).isdecimal():
            raise StoreError(problem("CATALOG_DAMAGED", path=self.directory, why=f"its format is {found}"))
        if int(found) in _FORMERLY:
            if self.writable:
                self.connection.execute("BEGIN IMMEDIATE")
                self._mend_indexes()
                self.connection.execute("UPDATE \"$meta\" SET value = ? WHERE key = 'format'", (str(FORMAT),))
                self.connection.execute("COMMIT")
        elif int(found) != FORMAT:
            raise StoreError(problem("CATALOG_VERSION", path=self.directory, found=found, known=FORMAT))

    def _mend_indexes(self) -> None:
        """Indexes in which a column is repeated are made without that: SQLite may not find rows by them."""
        sql = (
            "SELECT m.tbl_name, m.name, c.name FROM sqlite_master AS m, pragma_index_info(m.name) AS c"
            " WHERE m.type = 'index' AND m.sql IS NOT NULL ORDER BY m.name, c.seqno"
        )
        found: dict[tuple[str, str], list[str]] = {}
        for table, index, column in self.connection.execute(sql):
            found.setdefault((table, index), []).append(column)
        for (table, index), columns in found.items():
            once = list(dict.fromkeys(columns))
            if len(once) < len(columns) and None not in columns:  # an expression has no name
                self.connection.execute(f'DROP INDEX "{index}"')
                terms = ", ".join(f'"{column}"' for column in once)
                self.connection.execute(f'CREATE INDEX "{index}" ON "{table}" ({terms})')

    @classmethod
    def fold_log(cls, directory: Path) -> None:
        """Makes the database complete without its log, unless somebody uses it: SQLite does that when its last user leaves."""
        with suppress(ViewkeeperError):
            cls.open(directory, writable=True).close()

    def close(self) -> None:
        self._folding.finish()
        self.connection.close()

    def wait_for_disk(self, wait: bool) -> None:
        """Is a transaction on the disk when it ends? If not, the last ones may be lost with the power, but nothing is ever half there."""
        self.connection.execute(f"PRAGMA synchronous={'FULL' if wait else 'NORMAL'}")

    # ---- transactions

    def transaction(self) -> _Transaction:
        """All or nothing; durable when it ends."""
        return _Transaction(self)

    def begin(self) -> None:
        self._folding.writing.acquire()
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._folding.writing.release()
            raise

    def end(self, well: bool) -> None:
        """Commits what was begun, if it went well."""
        try:
            if well:
                self.connection.execute("COMMIT")
                self._fold_log()
        except KeyboardInterrupt:
            if not self.connection.in_transaction:
                raise InterruptedLate from None
            raise
        finally:
            self._roll_back()
            self._folding.writing.release()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads inside see one state, whatever is committed meanwhile."""
        with translated(self.directory, reading=True), reader_lock(self.directory / READ):
            self.connection.execute("BEGIN")
            try:
                self.connection.execute('SELECT 1 FROM "$meta"').fetchall()
                yield
            finally:
                self._roll_back()
            if self.frozen is not None and self.frozen != _stamp(self.directory / FILE):
                raise StoreError(problem("CHANGED_MEANWHILE", path=self.directory))

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Of what is made inside, temporary tables or what they are filled with, nothing stays."""
        self.connection.execute("SAVEPOINT scratch")
        try:
            yield
        finally:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK TO scratch")
                self.connection.execute("RELEASE scratch")

    def _roll_back(self) -> None:
        """Ends a transaction that did not end well. If even that fails, closing the connection does it."""
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    def _fold_log(self) -> None:
        """Small changes do not make a long log quickly."""
        self._unfolded += 1
        self._folding.told = self._told
        changed = self.connection.total_changes
        is_much = self._told - self._folded_told >= _MANY_TOLD or changed - self._folded_changes >= _MANY_CHANGES
        if self._unfolded >= _FOLD_EVERY or is_much:
            self._unfolded, self._folded_told, self._folded_changes = 0, self._told, changed
            self._folding.start()

    # ---- definitions

    def definitions(self, until: int | None = None) -> list[Definition]:
        """In order; those of commits up to ``until``."""
        sql = 'SELECT kind, name, text, commit_id FROM "$definition" WHERE commit_id <= ? ORDER BY id'
        return [Definition(*row) for row in self.connection.execute(sql, (_END if until is None else until,))]

    def add_definition(self, commit: int, definition: Definition) -> None:
        self.connection.execute(
            'INSERT INTO "$definition" (commit_id, kind, name, text) VALUES (?, ?, ?, ?)',
            (commit, definition.kind, definition.name, definition.text),
        )

    # ---- commits

    def last_commit(self) -> int:
        [[last]] = self.connection.execute('SELECT coalesce(max(id), 0) FROM "$log"')
        return int(last) // _OF_A_COMMIT

    def add_commit(
        self, commit: int, kind: str, engine: str, seconds: float, detail: dict[str, Any], changes: Sequence[Logged]
    ) -> None:
        for _, inserted, deleted, _, _ in changes:
            self._told += inserted + deleted
        known = msgspec.json.encode((kind, engine, seconds, detail))
        own = (_COMMIT, 0, 0, _moment(int(time.time())), known)
        rows = [(commit * _OF_A_COMMIT + i, *row) for i, row in enumerate((own, *changes))]
        self.connection.executemany('INSERT INTO "$log" VALUES (?, ?, ?, ?, ?, ?)', rows)

    def changes(self, since: int, until: int | None, relation: str | None) -> list[tuple[Any, ...]]:
        """commit_id, relation, inserted, deleted, form: of commits after ``since`` up to ``until``, in order."""
        where = f" AND relation <> '{_COMMIT}'" if relation is None else " AND relation = :relation"
        return self.connection.execute(
            f'SELECT commit_id, relation, inserted, deleted, form FROM "$log" WHERE {_BETWEEN}{where} ORDER BY commit_id, relation',
            {"since": since, "until": _END if until is None else until, "relation": relation},
        ).fetchall()

    def packed_change(self, commit: int, relation: str) -> bytes | None:
        sql = f'SELECT rows FROM "$log" WHERE {_BETWEEN} AND relation = :relation'
        [[rows]] = self.connection.execute(sql, {"since": commit - 1, "until": commit, "relation": relation})
        return rows  # type: ignore[no-any-return]

    def commits(self, since: int, until: int | None = None) -> list[tuple[Any, ...]]:
        """id, time, kind, engine, seconds, detail: of commits after ``since`` that are in the log, in order."""
        sql = f"SELECT commit_id, form, rows FROM \"$log\" WHERE {_BETWEEN} AND relation = '{_COMMIT}' ORDER BY id"
        limits = {"since": max(since, self.oldest()), "until": _END if until is None else until}
        found = self.connection.execute(sql, limits)
        return [(commit, moment, *msgspec.json.decode(known)) for commit, moment, known in found]

    # ---- where the log begins

    def oldest(self) -> int:
        """The commit after which the log begins: what was there after it is known, and what each later one changed."""
        found = self.connection.execute("SELECT value FROM \"$meta\" WHERE key = 'oldest'").fetchall()
        return int(found[0][0]) if found else 0

    def last_before(self, moment: str) -> int:
        """The last commit in the log such that it and all before it are older."""
        sql = f"SELECT min(commit_id) FROM \"$log\" WHERE {_BETWEEN} AND relation = '{_COMMIT}' AND form >= :moment"
        [[first]] = self.connection.execute(sql, {"since": self.oldest(), "until": _END, "moment": moment})
        return self.last_commit() if first is None else int(first) - 1

    def forget(self, until: int) -> None:
        """Removes what commits up to one did. The last commit stays known: numbers go on from it."""
        last = self.last_commit() * _OF_A_COMMIT
        self.connection.execute(
            f'DELETE FROM "$log" WHERE {_BETWEEN} AND id <> :last', {"since": 0, "until": until, "last": last}
        )
        self.connection.execute("INSERT OR REPLACE INTO \"$meta\" VALUES ('oldest', ?)", (str(until),))

    # ---- costs

    def costs(self) -> dict[str, float]:
        """See ``engines.costs``."""
        found = self.connection.execute("SELECT value FROM \"$meta\" WHERE key = 'costs'").fetchall()
        return msgspec.json.decode(found[0][0], type=dict[str, float]) if found else {}

    def put_costs(self, costs: dict[str, float]) -> None:
        self.connection.execute("INSERT OR REPLACE INTO \"$meta\" VALUES ('costs', ?)", (msgspec.json.encode(costs).decode(),))

    def advice(self) -> dict[str, dict[str, Any]]:
        """What ``advice`` found last, by view."""
        found = self.connection.execute("SELECT value FROM \"$meta\" WHERE key = 'advice'").fetchall()
        return msgspec.json.decode(found[0][0], type=dict[str, dict[str, Any]]) if found else {}

    def put_advice(self, advice: dict[str, dict[str, Any]]) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO \"$meta\" VALUES ('advice', ?)", (msgspec.json.encode(advice).decode(),)
        )

    # ---- relations

    def relations(self) -> dict[str, Kept]:
        rows = self.connection.execute('SELECT name, kind, rows, place, changed, snapshot FROM "$relation"')
        written = {row[0]: Kept(*row) for row in rows}
        found, last = dict(written), self.last_commit()
        since = f'SELECT relation, commit_id, inserted - deleted FROM "$log" WHERE {_BETWEEN} ORDER BY id'
        for name, commit, more in self.connection.execute(since, {"since": last - last % WRITE_EVERY, "until": last}):
            if name in found and commit > written[name].changed:
                found[name] = found[name].moved(commit, more)
        return found

    def put_relations(self, relations: Iterable[Kept]) -> None:
        rows = [(kept.kind, kept.rows, kept.place, kept.changed, kept.snapshot, kept.name) for kept in relations]
        there = 'UPDATE "$relation" SET kind = ?, rows = ?, place = ?, changed = ?, snapshot = ? WHERE name = ?'
        if rows and self.connection.executemany(there, rows).rowcount < len(rows):
            new = 'INSERT OR REPLACE INTO "$relation" (kind, rows, place, changed, snapshot, name) VALUES (?, ?, ?, ?, ?, ?)'
            self.connection.executemany(new, rows)

    def remove_relation(self, name: str) -> None:
        self.connection.execute('DELETE FROM "$relation" WHERE name = ?', (name,))


class _Transaction(translated):
    """A transaction of a catalog. A class and not a generator: every commit passes here."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog.directory)
        self._catalog = catalog

    def __enter__(self) -> None:
        try:
            self._catalog.begin()
        except BaseException as error:
            super().__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._catalog.end(well=error is None)
        except BaseException as failure:
            super().__exit__(type(failure), failure, failure.__traceback__)
            raise
        super().__exit__(kind, error, trace)


@lru_cache(1)
def _moment(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


# ---- files


def is_warehouse(directory: Path) -> bool:
    return (directory / FILE).is_file()


_Stamp = tuple[int, int, int, bool]


def _stamp(path: Path) -> _Stamp:
    """Differs when the database has changed."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, Path(f"{path}-wal").exists()


def _connect(path: Path, writable: bool) -> tuple[sqlite3.Connection, bool, _Stamp | None]:
    uri = f"file:{quote(str(path.absolute()))}?mode={'rw' if writable else 'ro'}"
    stamp = _stamp(path)
    try:
        return _connection(uri), writable, None
    except sqlite3.OperationalError as error:
        # Readers of a WAL database share a file. A directory that cannot be written has no room for it.
        if writable or stamp[-1] or result_code(error) not in UNWRITABLE:
            raise
    return _connection(f"{uri}&immutable=1"), writable, stamp


def _connection(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, cached_statements=4096, check_same_thread=False, timeout=_PATIENCE
    )
    try:
        for pragma in ("synchronous=FULL", "temp_store=FILE", "cache_size=-262144"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute('SELECT 1 FROM "$meta"').fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _write_schema(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute('INSERT INTO "$meta" VALUES (?, ?)', ("format", str(FORMAT)))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def _remove_partial(directory: Path) -> None:
    for leftover in directory.glob(f"{PARTIAL}*"):
        leftover.unlink()


def _refuse_foreign_files(directory: Path) -> None:
    """Only what an interrupted creation has left may be there."""
    names = [path.name for path in directory.iterdir() if path.name != LOCK_FILE and not path.name.startswith(PARTIAL)]
    if FILE in names:
        raise StoreError(problem("PATH_EXISTS", path=directory, hint="It is a warehouse already."))
    if names:
        raise StoreError(problem("PATH_EXISTS", path=directory, hint="It is not empty. Choose a new or empty directory."))


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
