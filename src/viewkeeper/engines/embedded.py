"""SQLite as an engine: in process, indexed, durable where the caller's connection is.

A relation is a table of stored values with an index that makes its rows unique. New rows are appended, so a delta is a range of
row numbers and needs no copy. Of stored relations with few columns that nobody reads by ranges, the index is the table.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from viewkeeper.engines.indexing import Indexing
from viewkeeper.engines.interface import Derivation
from viewkeeper.engines.layered import Layered
from viewkeeper.engines.layout import column_definition, identity, is_narrow, unique_columns, unique_name
from viewkeeper.engines.names import sql_name
from viewkeeper.engines.scalar import (
    SCALARS,
    ExactSum,
    Failure,
    WindowMean,
    WindowSum,
    evaluation_error,
    float_mean,
    float_sum,
    numbers_json,
    pack,
    strict,
)
from viewkeeper.engines.selectivity import SMALLEST
from viewkeeper.engines.sql import Compiler, Statement
from viewkeeper.engines.sql_scalars import LENIENT_SCALARS, SQL_SCALARS
from viewkeeper.engines.sqlite_dialect import SqliteDialect
from viewkeeper.program.arrow import batch_of_rows, rows_of_batch
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.patience import overdue
from viewkeeper.program.types import NUMBER

T = TypeVar("T")
BATCH = 50_000
_CHECK_EVERY = 200_000  # virtual machine instructions between two looks for Ctrl-C


class _Failed(threading.local):
    """What a function of ours failed by in the statement that this thread executes, which SQLite does not tell. Several engines may
    use a connection: its functions are those of the last one."""

    by: BaseException | None = None


_failed = _Failed()


class EmbeddedEngine:
    """Runs core programs in a SQLite database.

    Relations in ``stored`` live in the main database, where they outlast the engine; all others are temporary.
    The caller owns the connection and its transactions. ``may_change`` False: nothing in the main database is created.
    """

    name = "embedded"

    def __init__(self, connection: sqlite3.Connection, stored: Iterable[str] = (), may_change: bool = True) -> None:
        self.connection = connection
        self.stored = frozenset(stored)
        self.may_change = may_change
        self.layers, self.indexes = Layered(connection), Indexing(self)
        self.dialect = SqliteDialect(lambda relation: "main" if relation in self.stored else "temp", self.layers)
        self._relations: dict[str, Relation] = {}
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self.told: Callable[[str], int] = lambda relation: 0
        """How many rows a stored relation has as far as the caller knows; 0 where it does not."""
        self._filled: dict[str, int] = {}
        self._statements: dict[Derivation, Statement] = {}
        self.register()

    @classmethod
    def private(cls) -> EmbeddedEngine:
        """An engine with a database of its own that is gone when it is closed; large ones spill to disk."""
        connection = sqlite3.connect("", isolation_level=None, cached_statements=512)
        for pragma in ("synchronous=OFF", "journal_mode=OFF", "temp_store=FILE", "cache_size=-262144"):
            connection.execute(f"PRAGMA {pragma}")
        return cls(connection)

    # ---- tables

    def prepare(self, core: Program) -> None:
        for relation in core.relations:
            if relation.name not in self._relations:
                self._relations[relation.name] = relation
                if self.may_change or relation.name not in self.stored:
                    self.create_table(relation)
        self._core = core
        self._compiler = Compiler(self._relations, Hierarchy.of(core.types), self.dialect)
        self._statements.clear()

    def create_table(self, relation: Relation, more: Mapping[str, str] = {}, numbered: bool = True) -> None:
        """The relation's table, if it is not there yet; ``more``: columns that are not part of a row's identity, and their types.

        ``numbered``: somebody reads ranges of its row numbers. Else a narrow one is stored once, in the order of what makes rows unique.
        """
        name = self.dialect.identifier
        columns = [column_definition(c) for c in relation.columns] or ["present INTEGER NOT NULL"]
        columns += [f"{name(column)} {storage} NOT NULL" for column, storage in more.items()]
        # NULL equals nothing in a UNIQUE index, but two rows with NULL in the same place are one row to us.
        unique = ", ".join(self._unique(relation))
        where = self.dialect.where(relation.name)
        kind = "STRICT"
        if not numbered and is_narrow(relation):
            columns.append(f"PRIMARY KEY ({unique})")
            kind = "STRICT, WITHOUT ROWID"
        self.run(f"CREATE TABLE IF NOT EXISTS {self.dialect.table(relation.name)} ({', '.join(columns)}) {kind}")
        known = self.key_names(relation.name)
        if not known or known != [sql_name(relation.columns[i].name) for i in unique_columns(relation)]:
            self.run(
                f"CREATE UNIQUE INDEX IF NOT EXISTS {where}.{name(unique_name(relation))}"
                f" ON {name(sql_name(relation.name))} ({unique})"
            )

    def _unique(self, relation: Relation) -> list[str]:
        """What no two rows have in common: the key, or where there is none everything."""
        columns = [relation.columns[i] for i in unique_columns(relation)]
        return [identity(self.dialect.identifier(sql_name(c.name)), c.type) for c in columns] or ["present"]

    def key_names(self, relation: str) -> list[str]:
        """The columns by which a table is stored; none if that is by row numbers."""
        sql = "SELECT name FROM pragma_table_info(?, ?) WHERE pk > 0 ORDER BY pk"
        where = self.dialect.where(relation)
        return [name for [name] in self.connection.execute(sql, (sql_name(relation), where))]

    def row_names(self, relation: str) -> list[str]:
        """The columns by which SQLite knows the rows of a table: their number, unless it is stored without."""
        return [self.dialect.identifier(name) for name in self.key_names(relation)] or ["rowid"]

    def size(self, relation: str) -> int:
        """About how many rows a relation has: the number of its last one, or counted as far as that takes no time."""
        if not self.key_names(relation):
            return self._top(relation)
        [[rows]] = self.run(f"SELECT count(*) FROM (SELECT 1 FROM {self.dialect.table(relation)} LIMIT {SMALLEST})")
        return int(rows) if rows < SMALLEST else max(rows, self.told(relation), self._filled.get(relation, 0))

    def filled(self, relation: str, rows: int) -> None:
        """So many rows were put into a relation."""
        self._filled[relation] = self._filled.get(relation, 0) + rows

    def clear(self, relation: str) -> None:
        """Removes all rows."""
        self.run(f"DELETE FROM {self.dialect.table(relation)}")
        self._rows.pop(relation, None)

    def drop_temporary(self) -> None:
        """Removes the relations that are not stored."""
        for relation in self._relations.keys() - self.stored:
            self.run(f"DROP TABLE IF EXISTS {self.dialect.table(relation)}")

    def drop_all_temporary(self) -> None:
        """Removes every temporary table of the connection."""
        tables = self.run("SELECT name FROM temp.sqlite_master WHERE type = 'table'").fetchall()
        for [name] in tables:
            self.run(f"DROP TABLE temp.{self.dialect.identifier(name)}")

    def insert(self, relation: str, rows: Iterable[pa.RecordBatch]) -> int:
        return self.insert_into(self._relations[relation], rows)

    def insert_into(self, declared: Relation, rows: Iterable[pa.RecordBatch]) -> int:
        relation, width = declared.name, max(1, declared.arity)
        values = f"INSERT INTO {self.dialect.table(relation)} VALUES ({', '.join('?' * width)})"
        sql = f"{values} ON CONFLICT ({', '.join(self._unique(declared))}) DO {self._again(declared)}"
        added = 0
        for batch in rows:
            added += self._guard(partial(self.connection.executemany, sql, rows_of_batch(batch, width))).rowcount
        self._rows.pop(relation, None)
        self.filled(relation, added)
        return added

    def _again(self, relation: Relation) -> str:
        """The same row again is no conflict; another one with the same key is: no row is without a number, or without a key."""
        others = [self.dialect.identifier(sql_name(c.name)) for c in relation.columns if c.name not in relation.key]
        if not relation.key or not others:
            return "NOTHING"
        return f"UPDATE SET {self.row_names(relation.name)[0]} = NULL WHERE {' OR '.join(f'{column} IS NOT excluded.{column}' for column in others)}"

    def insert_rows(self, relation: Relation, rows: Iterable[tuple[Any, ...]]) -> None:
        """Adds rows of stored values that are not there yet."""
        sql = f"INSERT INTO {self.dialect.table(relation.name)} VALUES ({', '.join('?' * max(1, relation.arity))})"
        self._guard(partial(self.connection.executemany, sql, rows))
        self._rows.pop(relation.name, None)

    def delete(self, relation: Relation, rows: Iterable[tuple[Any, ...]]) -> None:
        """Removes rows of stored values."""
        columns = [(self.dialect.identifier(sql_name(c.name)), c.type) for c in relation.columns] or [("present", NUMBER)]
        same = " AND ".join(f"{identity(column, type_)} = {identity('?', type_)}" for column, type_ in columns)
        self._guard(partial(self.connection.executemany, f"DELETE FROM {self.dialect.table(relation.name)} WHERE {same}", rows))
        self._rows.pop(relation.name, None)

    def count(self, relation: str) -> int:
        if relation not in self._rows:
            [[self._rows[relation]]] = self.run(f"SELECT count(*) FROM {self.dialect.table(relation)}")
        return self._rows[relation]

    def read(self, relation: Relation, ordered: bool = False) -> Iterator[pa.RecordBatch]:
        order = ", ".join(str(i + 1) for i in range(relation.arity))
        by = f" ORDER BY {order}" if ordered and order else ""
        columns = ", ".join(self.dialect.identifier(sql_name(c.name)) for c in relation.columns) or "present"
        cursor = self.run(f"SELECT {columns} FROM {self.dialect.table(relation.name)}{by}")
        while rows := self._guard(lambda: cursor.fetchmany(BATCH)):
            yield batch_of_rows(rows, relation)

    def close(self) -> None:
        self.connection.close()

    # ---- evaluation

    def begin(self, relations: Sequence[str], since: Mapping[str, int] | None = None) -> None:
        if since is None:
            self._low |= dict.fromkeys(relations, 0)
            return
        for relation in (*relations, *since):
            self._high[relation] = self._top(relation)
            self._low[relation] = since.get(relation, self._high[relation])

    def mark(self, relation: str) -> int:
        return self._top(relation)

    def step(self, derivations: Mapping[str, Sequence[Derivation]]) -> dict[str, int]:
        added: dict[str, int] = {}
        tops = {relation: self._top(relation) for relation in derivations}
        for relation, rules in derivations.items():
            added[relation] = sum(self._derive(relation, derivation) for derivation in rules)
            self._rows[relation] = self.count(relation) + added[relation]
        for relation in derivations:
            # The first step's delta is everything; later ones' what they added.
            self._low[relation] = tops[relation] if relation in self._high else 0
            self._high[relation] = self._top(relation)
        return added

    def end(self, relations: Sequence[str]) -> None:
        for relation in relations:
            self._low.pop(relation, None)
            self._high.pop(relation, None)

    def _derive(self, relation: str, derivation: Derivation) -> int:
        statement = self._statements.get(derivation)
        if statement is None:
            sizes = {name: self.count(name) for name in self._relations}
            statement = self._compiler.rule(derivation.rule, derivation.delta, sizes)
            for access in statement.accesses:
                self.indexes.make(access, self._relations[access.relation])
            self._statements[derivation] = statement
        parameters: dict[str, Any] = dict(statement.parameters)
        if derivation.delta is not None:
            literal = derivation.rule.body[derivation.delta]
            parameters["delta_low"] = self._low[literal.relation]  # type: ignore[union-attr]
            parameters["delta_high"] = self._high[literal.relation]  # type: ignore[union-attr]
        # SQLite would read ON as part of a join without the WHERE.
        select = statement.sql if " WHERE " in statement.sql else f"{statement.sql} WHERE TRUE"
        sql = f"INSERT INTO {self.dialect.table(relation)} {select} ON CONFLICT DO NOTHING"
        return self._guard(lambda: self.connection.execute(sql, parameters), relation).rowcount

    def select(self, statement: Statement, row: int | None = None, latest: Iterable[str] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a compiled rule, as they are asked for. ``row`` is the number of the one row that is its delta.

        ``latest``: each row begins with the highest row number among its atoms of these relations, and the rows are in that order.
        What a recursion derived early has low numbers, unless the rows came from elsewhere.
        """
        sql = statement.sql
        numbers = [f"{alias}.rowid" for alias, (relation, _) in statement.aliases.items() if relation in latest]
        if latest:
            number = f"max({', '.join(numbers)})" if len(numbers) > 1 else "".join(numbers) or "0"
            sql = f"SELECT {number} AS latest, {sql.removeprefix('SELECT ')} ORDER BY latest"
        parameters: dict[str, Any] = dict(statement.parameters)
        if row is not None:
            parameters |= {"delta_low": row - 1, "delta_high": row}
        cursor = self._guard(lambda: self.connection.execute(sql, parameters))
        while (found := self._guard(cursor.fetchone)) is not None:
            yield found

    def _top(self, relation: str) -> int:
        [[top]] = self.run(f"SELECT coalesce(max(rowid), 0) FROM {self.dialect.table(relation)}")
        return int(top)

    # ---- errors and interruption

    def register(self) -> None:
        """Makes our functions known to SQLite, and lets Ctrl-C through to long statements."""
        for name, (function, arity) in SCALARS.items():
            self.connection.create_function(name, arity, self._failing(strict(function)), deterministic=True)
        for name, (function, _) in SQL_SCALARS.items():
            self.connection.create_function(name, -1, self._failing(strict(function)), deterministic=True)
        for name, function in LENIENT_SCALARS.items():
            self.connection.create_function(name, -1, self._failing(function), deterministic=True)
        for arity in (2, 3):
            self.connection.create_function("vk_range", arity, self._failing(numbers_json), deterministic=True)
        for name, finish in (("vk_float_sum", float_sum), ("vk_float_mean", float_mean)):
            self.connection.create_aggregate(name, 1, self._collector(finish))
        self.connection.create_aggregate("vk_exact_sum", 2, ExactSum)  # type: ignore[arg-type]
        self.connection.create_function("vk_pack", 2, pack, deterministic=True)
        for name, window in (("vk_window_sum", WindowSum), ("vk_window_mean", WindowMean)):
            self.connection.create_window_function(name, 1, self._window(window))
        self.connection.set_progress_handler(self._look_for_interrupt, _CHECK_EVERY)

    def _failing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as failure:
                _failed.by = failure
                raise

        return call

    def _collector(self, finish: Callable[[list[float]], float]) -> type:
        engine = self

        class Collect:
            def __init__(self) -> None:
                self.values: list[float] = []

            def step(self, value: float | None) -> None:
                if value is not None:
                    self.values.append(value)

            def finalize(self) -> float | None:
                return engine._failing(finish)(self.values) if self.values else None

        return Collect

    def _window(self, window: type) -> type:
        engine = self

        class Window(window):  # type: ignore[misc]
            def value(self) -> Any:
                return engine._failing(super().value)()

            def finalize(self) -> Any:
                return self.value()

        return Window

    def _look_for_interrupt(self) -> int:
        # Python runs signal handlers when it enters a function. What they raise makes SQLite stop with "interrupted".
        late = overdue()
        if late is None:
            return 0
        _failed.by = late
        return 1

    def run(self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = (), relation: str | None = None) -> sqlite3.Cursor:
        """Executes a statement; what fails in it is told as a failure of the relation."""
        _failed.by = None
        try:
            return self.connection.execute(sql, parameters)
        except sqlite3.Error as error:
            raise self._meaning(error, relation) from None

    def fetch(
        self, sql: str, parameters: Mapping[str, Any] | Sequence[Any] = (), relation: str | None = None
    ) -> list[tuple[Any, ...]]:
        """All rows of a query; what fails in any of them is told as a failure of the relation."""
        _failed.by = None
        try:
            return self.connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._meaning(error, relation) from None

    def try_each(self, attempts: Iterable[tuple[str, Sequence[Any]]]) -> list[int]:
        """Executes statements one after the other; returns how many rows each has changed. One cursor for all is cheaper."""
        _failed.by = None
        cursor = self.connection.cursor()
        try:
            return [cursor.execute(sql, parameters).rowcount for sql, parameters in attempts]
        except sqlite3.Error as error:
            raise self._meaning(error, None) from None

    def _guard(self, action: Callable[[], T], relation: str | None = None) -> T:
        """Turns a failure inside SQLite into the error it stands for."""
        _failed.by = None
        try:
            return action()
        except sqlite3.Error as error:
            raise self._meaning(error, relation) from None

    def _meaning(self, error: sqlite3.Error, relation: str | None) -> BaseException:
        failure = _failed.by
        if isinstance(failure, Failure):
            return evaluation_error(failure, relation)
        if failure is not None or str(error) == "interrupted":
            return failure or KeyboardInterrupt()
        if "integer overflow" in str(error):
            return evaluation_error(Failure("OVERFLOW"), relation)
        return error
