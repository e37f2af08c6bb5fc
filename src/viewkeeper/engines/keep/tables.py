"""The tables of a plan in SQLite, and its rules as statements.

Stored relations are in the main database: the columns of the relation, and behind them what its keeper needs ($n, $rank).
Relations beside them (``program.plan``) are temporary tables, or the stored one seen with all its columns. One changed row of r is r$row0,
and r$row1 where a rule reads two; its values are parameters.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.layout import column_definition, identity
from viewkeeper.engines.names import ORDERED, sql_name
from viewkeeper.engines.order import Access
from viewkeeper.engines.sql import Compiler, Reading, Statement
from viewkeeper.engines.sqlite_dialect import SqliteDialect
from viewkeeper.program.ast import Column, Relation, Rule, relation_read
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.plan import ID, OPPOSITE, PRESENT, RANK, SIGN, Plan, beside

if TYPE_CHECKING:
    from viewkeeper.engines.keep.changes import Changes

Parameters = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Select:
    """A rule as a SELECT, or what of it is not the row it is asked for."""

    sql: str
    parameters: Mapping[str, Any]
    rule: Rule


class PlanDialect(SqliteDialect):
    """Knows which table a relation beside a stored one is."""

    def table(self, relation: str) -> str:
        name, _, what = relation.partition("$")
        return (
            super().table(name)
            if what == "ranked"
            else f"temp.{self.identifier(sql_name(relation))}"
            if what
            else super().table(name)
        )

    def state(self, relation: str) -> str:
        """The table of what is stored for the groups of an aggregate."""
        return f"$state of {sql_name(relation)}"

    def source(self, relation: Relation, reading: Reading, alias: str) -> tuple[str, list[str]]:
        what = relation.name.partition("$")[2]
        return ("", []) if what == "asked" or what.startswith("row") else super().source(relation, reading, alias)

    def column(self, alias: str, relation: Relation, position: int) -> str:
        name = relation.columns[position].name
        what = relation.name.partition("$")[2]
        if what.startswith("row"):
            return f":{what}_{position}"
        if name == ID and what == "ranked":
            return f"{alias}.rowid"
        if name == RANK and what == "asked":
            return ":level"  # all rows asked about have the same rank
        if name == PRESENT:
            return f"{alias}.present"
        return super().column(alias, relation, position)


class Forgetful(Protocol):
    def forget(self) -> None: ...


@dataclass
class Tables:
    """What all keepers of a plan share."""

    engine: EmbeddedEngine
    plan: Plan

    def __post_init__(self) -> None:
        self.dialect = PlanDialect(self.engine.dialect.where, self.engine.layers)
        self.relations: dict[str, Relation] = dict(self.plan.core.by_name)
        self.compiler = Compiler(self.relations, Hierarchy.of(self.plan.core.types), self.dialect)
        self.prepared: dict[str, list[str]] = {}
        self.changes: dict[str, Changes] = {}
        self._dirty: set[str] = set()
        self._cleared: set[str] = set()
        self._noted: set[Forgetful] = set()
        self._gathered: dict[str, list[Access]] | None = None
        self._ordered: set[str] = set()

    # ---- names

    def table(self, relation: Relation | str) -> str:
        return self.dialect.table(relation if isinstance(relation, str) else relation.name)

    def columns(self, relation: Relation, alias: str = "") -> list[str]:
        names = [self.name(c.name) for c in relation.columns] or ["present"]
        return [f"{alias}.{name}" if alias else name for name in names]

    def name(self, column: str) -> str:
        return "present" if column == PRESENT else self.dialect.identifier(sql_name(column))

    def same(self, left: str, right: str, columns: Sequence[Column]) -> str:
        """The condition that two rows agree in these columns; NULL equals NULL."""
        pairs = [(f"{left}.{self.name(c.name)}", f"{right}.{self.name(c.name)}", c.type) for c in columns]
        return " AND ".join(f"{identity(a, t)} = {identity(b, t)}" for a, b, t in pairs) or "TRUE"

    def given(self, columns: Sequence[Column], parameters: Sequence[str] = ()) -> str:
        """The condition that a row has the values of the statement's parameters in these columns; NULL equals NULL."""
        pairs = zip(columns, parameters or ["?"] * len(columns), strict=True)
        return (
            " AND ".join(f"{identity(self.name(c.name), c.type)} = {identity(given, c.type)}" for c, given in pairs) or "TRUE"
        )

    def identities(self, columns: Sequence[Column]) -> list[str]:
        return [identity(self.name(c.name), c.type) for c in columns]

    # ---- temporary tables

    def declare(self, relation: Relation, what: str) -> Relation:
        """A relation beside a stored one, known to the compiler."""
        found = beside(relation, what)
        self.relations[found.name] = found
        return found

    def temporary(self, relation: Relation, unique: bool = False, key: str | None = None) -> str:
        """A temporary table; ``key``: the column that is its row number."""
        self.relations[relation.name] = relation
        columns = []
        for column in relation.columns:
            definition = "present INTEGER NOT NULL" if column.name == PRESENT else column_definition(column)
            if column.name == OPPOSITE:
                definition = f'"{OPPOSITE}" INTEGER GENERATED ALWAYS AS (-"{SIGN}")'
            columns.append(definition + (" PRIMARY KEY" if column.name == key else ""))
        table = self.table(relation)
        known = [c for c in relation.columns if not c.name.startswith("$") or c.name == PRESENT] if unique else []
        listed = ", ".join(self.identities(known))
        named = any(c.type.nullable for c in known)  # what is unique is not a column then, which only an index can say
        if known and not named:
            columns.append(f"UNIQUE ({listed})")
        self.engine.run(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}) STRICT", {})
        if named:
            name = self.dialect.identifier(f"rows of {sql_name(relation.name)}")
            bare = self.dialect.identifier(sql_name(relation.name))
            self.engine.run(f"CREATE UNIQUE INDEX IF NOT EXISTS temp.{name} ON {bare} ({listed})", {})
        return table

    def used(self, *tables: str) -> None:
        """These temporary tables have rows, to be cleared when the change is done."""
        self._dirty.update(tables)

    def emptied(self, table: str) -> None:
        """What was put into a temporary table since the change began is not there any more."""
        self._dirty.discard(table)

    def noted(self, what: Forgetful) -> None:
        """Something is to be forgotten when the change is done."""
        self._noted.add(what)

    def clear_table(self, table: str) -> None:
        if table in self._dirty:
            self.engine.connection.execute(f"DELETE FROM {table}")

    def clear(self) -> None:
        for table in self._dirty:
            self.clear_table(table)
        self._cleared, self._dirty = self._dirty, set()
        for what in self._noted:
            what.forget()
        self._noted.clear()

    def taken_back(self) -> None:
        """The database is as it was before the change, and so are the tables that were cleared at its beginning."""
        self._dirty |= self._cleared

    # ---- statements

    def run(self, sql: str, parameters: Parameters = (), relation: str | None = None) -> sqlite3.Cursor:
        return self.engine.run(sql, parameters, relation)

    def fetch(self, sql: str, parameters: Parameters = (), relation: str | None = None) -> list[tuple[Any, ...]]:
        return self.engine.fetch(sql, parameters, relation)

    def try_each(self, attempts: Iterable[tuple[str, Sequence[Any]]]) -> list[int]:
        """Runs statements one after the other; returns how many rows each has changed."""
        return self.engine.try_each(attempts)

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """Runs a statement for each of many rows of parameters; returns how many rows that changed."""
        return self.engine.connection.executemany(sql, rows).rowcount

    def select(self, rule: Rule, delta: int | None = None, prefix: str = "", shown: bool = True) -> Select:
        """A rule of the plan, joined in the order of its bindings, with the indexes it needs; ``shown``: to who asks for statements."""
        first = 0 if delta is None and rule.body and "$" in _relation_of(rule.body[0]) else None
        if first == 0 and _relation_of(rule.body[0]).endswith("$ranked"):
            first = None
        statement = self.rule(rule, delta, first)
        sql, parameters = statement.sql, dict(statement.parameters)
        if prefix:
            sql = re.sub(r":(p\d+)\b", rf":{prefix}\1", sql)
            parameters = {f"{prefix}{name}": value for name, value in parameters.items()}
        if shown:
            self.prepared.setdefault(rule.head.relation.partition("$")[0], []).append(sql)
        return Select(sql, parameters, rule)

    def rule(self, rule: Rule, delta: int | None, first: int | None) -> Statement:
        """A rule that joins from its literal ``first`` on, or from ``delta``, with the indexes it needs."""
        # What starts from everything is computed once, so it is worth looking at the rows first.
        matches = cache(self._matches) if all("$" not in relation_read(literal) for literal in rule.body) else None
        statement = self.compiler.rule(rule, delta, _Sizes(self), first, matches)
        for access in statement.accesses:
            self.index(access)
        return statement

    def _matches(self, relation: str, column: int) -> float | None:
        return self.engine.indexes.rows_of_value(self.relations[relation], column)

    def index_change(self, relation: Relation) -> None:
        """An index on what changed in a relation."""
        table, columns = sql_name(f"{relation.name}$change"), ", ".join(self.columns(relation))
        name = self.dialect.identifier
        self.run(f"CREATE INDEX IF NOT EXISTS temp.{name(f'{table} by row')} ON {name(table)} ({columns})")

    def index(self, access: Access) -> None:
        """An index for a search of a stored relation, or of one that is derived on demand."""
        demands = self.plan.demands
        if demands is not None and access.relation in demands.levels:
            relation = demands.relations[access.relation]
            if relation.columns[0].name != PRESENT:
                self.engine.indexes.make(access, relation)
            return
        name, _, what = access.relation.partition("$")
        relation = self.relations[name]
        columns = tuple(i for i in access.columns if i < relation.arity)
        searched_by_id = what == "ranked" and len(relation.columns or (1,)) + 1 in access.columns
        if what in ("", "ranked") and columns and not searched_by_id:
            self._index(relation, Access(name, columns, access.computed))

    def _index(self, relation: Relation, access: Access) -> None:
        if self._gathered is None:
            self.engine.indexes.make(access, relation)
        else:
            self._gathered.setdefault(relation.name, []).append(access)

    @contextmanager
    def gathered_indexes(self) -> Iterator[None]:
        """Indexes for everything that is prepared inside are made in the end, together: some serve several statements."""
        self._gathered = {}
        try:
            yield
            gathered = self._gathered
        finally:
            self._gathered = None
        # Rules that derive on demand are prepared when they are first used: what they search for is not known here.
        demanded = (
            set() if self.plan.demands is None else {name for rule in self.plan.demands.rules for name in _stored_in(rule)}
        )
        for name in self.engine.stored & self.plan.core.by_name.keys():
            is_base = name in self.plan.bases
            self.engine.indexes.make_all(self.relations[name], gathered.get(name, []), name not in demanded, is_base)
            self._drop_ordered(name)

    def ordered_index(self, relation: Relation, places: Iterable[int]) -> None:
        """An index on just these columns, in this order; each of them once, as SQLite may not find rows where one is repeated."""
        columns = [sql_name(relation.columns[i].name) for i in dict.fromkeys(places)]
        index = f"{sql_name(relation.name)}{ORDERED}{' '.join(columns)}"
        self.index_in_order(relation, index, [self.dialect.identifier(column) for column in columns])

    def index_in_order(self, relation: Relation, index: str, terms: Sequence[str]) -> None:
        """An index that a view needs to be kept."""
        self._ordered.add(index)
        name = self.dialect.identifier
        where = self.dialect.where(relation.name)
        self.run(f"CREATE INDEX IF NOT EXISTS {where}.{name(index)} ON {name(sql_name(relation.name))} ({', '.join(terms)})")

    def _drop_ordered(self, relation: str) -> None:
        """Drops the indexes that no view needs any more."""
        where, table = self.dialect.where(relation), sql_name(relation)
        sql = "SELECT name FROM pragma_index_list(?, ?) WHERE instr(name, ?) > 0"
        for (index,) in self.run(sql, (table, where, ORDERED)).fetchall():
            if index not in self._ordered:
                self.run(f"DROP INDEX {where}.{self.dialect.identifier(index)}")

    def top(self, relation: Relation) -> int:
        [[top]] = self.engine.connection.execute(f"SELECT coalesce(max(rowid), 0) FROM {self.table(relation)}")
        return int(top)


class _Sizes(dict[str, int]):
    """About how many rows stored relations have, looked up when asked for."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self._tables = tables

    def get(self, relation: str, default: Any = None) -> Any:
        name, _, what = relation.partition("$")
        if what not in ("", "ranked"):
            demands = self._tables.plan.demands
            return None if demands is not None and relation in demands.levels else 1  # a change is small
        if name not in self:
            self[name] = self._tables.engine.size(name)
        return self[name]


def _stored_in(rule: Rule) -> set[str]:
    """The stored relations that a rule reads in any state."""
    return {relation_read(literal).partition("$")[0] for literal in rule.body}


def _relation_of(literal: Any) -> str:
    return str(getattr(literal, "relation", ""))
