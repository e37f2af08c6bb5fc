"""What all keepers have in common: a stored relation, the table of its changes, and how these are brought in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Protocol

from viewkeeper.engines.embedded import identity
from viewkeeper.engines.keep.tables import Select, Tables
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import SIGN, Group, Rules, shown_columns
from viewkeeper.program.types import NUMBER

WANTED = "$wanted"

Signs = Mapping[str, frozenset[int]]
"""Of relations that have changed: whether rows came (1), went (-1), or both."""


class TooLarge(Exception):
    """A view has more rows than the catalog shall hold."""

    def __init__(self, relation: str) -> None:
        self.relation = relation


class Keeper(Protocol):
    """Keeps the relations of one step of a plan."""

    touched: int
    """How many rows or derivations the change under way has led to so far, in the end changed or not."""

    @property
    def relations(self) -> tuple[Relation, ...]: ...

    def create(self) -> None:
        """The stored tables, where they are not there yet."""

    def prepare(self) -> None:
        """All statements, with the indexes that they need."""

    def fill(self) -> None:
        """Computes the relations, which are empty, from what they read."""

    def empty(self) -> None:
        """Removes all rows."""

    def notice(self, group: Group, signs: Signs) -> None:
        """Relations that are read have changed, and the changes are in their tables."""

    def settle(self) -> None:
        """All that is read is as it will be: brings in what follows from it, and tells it in the tables of changes."""


class Stored:
    """One stored relation with the table of its changes."""

    def __init__(self, tables: Tables, relation: Relation, *more: str) -> None:
        self.tables, self.relation, self.more = tables, relation, more
        self.table = tables.table(relation)
        self.columns = ", ".join(tables.columns(relation))
        self.change = tables.temporary(tables.declare(relation, "change"))
        self.of, self.same = cache(self._of), cache(self._same)

    def create(self) -> None:
        self.tables.engine.create_table(self.relation, self.more)

    def empty(self) -> None:
        self.tables.run(f"DELETE FROM {self.table}")

    def _of(self, alias: str) -> str:
        return ", ".join(self.tables.columns(self.relation, alias))

    def _same(self, left: str, right: str) -> str:
        return self.tables.same(left, right, shown_columns(self.relation))

    def signs(self) -> frozenset[int]:
        rows = self.tables.run(f'SELECT DISTINCT "{SIGN}" FROM {self.change}').fetchall()
        return frozenset(sign for [sign] in rows)

    def note(self, select: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Adds the rows of a query, with the sign at the end, to the changes; returns how many."""
        self.tables.used(self.change)
        sql = f'INSERT INTO {self.change} ({self.columns}, "{SIGN}") {select}'
        return self.tables.run(sql, parameters, self.relation.name).rowcount

    def is_empty(self) -> bool:
        return not self.tables.run(f"SELECT 1 FROM {self.table} LIMIT 1").fetchall()

    def all_came(self) -> None:
        """Notes every row as one that came."""
        self.note(f"SELECT {self.columns}, 1 FROM {self.table}")

    def apply(self) -> None:
        """Brings in the changes, where nothing but the rows themselves is stored."""
        self.remove()
        self.tables.run(
            f'INSERT INTO {self.table} ({self.columns}) SELECT {self.columns} FROM {self.change} WHERE "{SIGN}" = 1'
        )

    def remove(self) -> None:
        """Removes the rows that go."""
        self.tables.run(
            f"DELETE FROM {self.table} WHERE rowid IN (SELECT h.rowid FROM {self.change} AS c CROSS JOIN {self.table} AS h"
            f' WHERE c."{SIGN}" = -1 AND {self.same("h", "c")})'
        )


class Gains:
    """The rules that tell what a view gains from a change of what it reads, as statements."""

    def __init__(self, tables: Tables, changes: Rules) -> None:
        self._tables, self._changes = tables, changes
        self._selects: dict[Group, list[Select]] = {}

    def prepare(self) -> None:
        for group in self._changes:
            self.of(group)

    def of(self, group: Group) -> list[Select]:
        if group not in self._selects:
            self._selects[group] = [self._tables.select(rule) for rule in self._changes[group]]
        return self._selects[group]


class BaseKeeper:
    """A relation that is changed from outside: its table of changes is filled before the work starts."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.relations: tuple[Relation, ...] = (relation,)
        self.touched = 0
        self.stored = Stored(tables, relation)
        columns = (*tables.relations[f"{relation.name}$change"].columns[:-2], Column(WANTED, NUMBER))
        self.wanted = tables.temporary(Relation(f"{relation.name}$wanted", columns), unique=True)

    def create(self) -> None:
        self.stored.create()

    def prepare(self) -> None:
        pass

    def fill(self) -> None:
        pass

    def empty(self) -> None:
        pass

    def notice(self, group: Group, signs: Signs) -> None:
        raise AssertionError("reads nothing")

    def settle(self) -> None:
        self.stored.apply()

    def want(self, rows: Iterable[tuple[Any, ...]], present: bool) -> None:
        """Rows that shall be there afterwards, or shall not. What is wanted first of a row counts."""
        self.stored.tables.used(self.wanted)
        places = ", ".join("?" * len(self.stored.tables.columns(self.relations[0])))
        sql = f"INSERT INTO {self.wanted} VALUES ({places}, {int(present)}) ON CONFLICT DO NOTHING"
        self.stored.tables.engine.connection.executemany(sql, rows)

    def net(self) -> frozenset[int]:
        """Notes what must change so that what is wanted holds; returns whether rows come, go, or both."""
        stored = self.stored
        there = f"EXISTS (SELECT 1 FROM {stored.table} AS h WHERE {stored.same('h', 'w')})"
        signs = [
            sign
            for sign, condition in ((1, f'w."{WANTED}" = 1 AND NOT {there}'), (-1, f'w."{WANTED}" = 0 AND {there}'))
            if stored.note(f"SELECT {stored.of('w')}, {sign} FROM {self.wanted} AS w WHERE {condition}")
        ]
        return frozenset(signs)

    def came(self) -> int:
        """How many rows are noted as coming."""
        [[rows]] = self.stored.tables.run(f'SELECT count(*) FROM {self.stored.change} WHERE "{SIGN}" = 1')
        return int(rows)

    def broken_keys(self, limit: int) -> list[tuple[Any, ...]]:
        """Rows with a key that another row has, too, as far as one of them shall come; rows of one key together."""
        stored, relation = self.stored, self.relations[0]
        tables, types = stored.tables, {c.name: c for c in relation.columns}
        key = [types[name] for name in relation.key]
        stays = (
            f"{stored.table} AS h WHERE {tables.same('h', 'c', key)} AND NOT EXISTS"
            f' (SELECT 1 FROM {stored.change} AS d WHERE d."{SIGN}" = -1 AND {stored.same("d", "h")})'
        )
        again = (
            f'SELECT 1 FROM {stored.change} AS d WHERE d."{SIGN}" = 1 AND d.rowid <> c.rowid AND {tables.same("d", "c", key)}'
        )
        comes = f'{stored.change} AS c WHERE c."{SIGN}" = 1'
        rows = (
            f"SELECT {stored.of('c')} FROM {comes} AND (EXISTS (SELECT 1 FROM {stays}) OR EXISTS ({again}))"
            f' UNION SELECT {stored.of("h")} FROM {stored.change} AS c CROSS JOIN {stays} AND c."{SIGN}" = 1'
        )
        order = ", ".join(tables.name(name) for name in relation.key)
        return tables.run(f"SELECT * FROM ({rows}) ORDER BY {order} LIMIT {limit}").fetchall()

    def rows_with_key(self, key: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The rows that have a key; there is at most one."""
        stored, relation = self.stored, self.relations[0]
        types = {c.name: c.type for c in relation.columns}
        same = " AND ".join(
            f"{identity(stored.tables.name(name), types[name])} = {identity(f':k{i}', types[name])}"
            for i, name in enumerate(relation.key)
        )
        sql = f"SELECT {stored.columns} FROM {stored.table} WHERE {same}"
        return stored.tables.run(sql, {f"k{i}": value for i, value in enumerate(key)}).fetchall()
