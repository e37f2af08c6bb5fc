"""What all keepers have in common: a stored relation, its changes, and how these are brought in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import Protocol

from viewkeeper.engines.keep.changes import Changes, Row, is_few
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import SIGN, Group, shown_columns
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
        """Relations that are read have changed, and their changes are noted."""

    def settle(self) -> None:
        """All that is read is as it will be: brings in what follows from it, and notes it as changes."""

    def forget(self) -> None:
        """What was noticed or noted since the change began to be brought in was taken back."""


class Stored:
    """One stored relation and its changes."""

    def __init__(self, tables: Tables, relation: Relation, *more: str, numbered: bool = True) -> None:
        """``numbered``: its rows need numbers."""
        self.tables, self.relation, self.more, self._numbered = tables, relation, more, numbered
        self.table = tables.table(relation)
        self.columns = ", ".join(tables.columns(relation))
        self.changes = tables.changes[relation.name] = Changes(tables, relation)
        self.change = self.changes.table
        self.of, self.same = cache(self._of), cache(self._same)

    def create(self) -> None:
        self.tables.engine.create_table(self.relation, dict.fromkeys(self.more, "INTEGER"), self._numbered)

    @cached_property
    def row_names(self) -> list[str]:
        """The columns by which SQLite knows its rows, once there is a table."""
        return self.tables.engine.row_names(self.relation.name)

    def empty(self) -> None:
        self.tables.run(f"DELETE FROM {self.table}")

    def _of(self, alias: str) -> str:
        return ", ".join(self.tables.columns(self.relation, alias))

    def _same(self, left: str, right: str) -> str:
        return self.tables.same(left, right, shown_columns(self.relation))

    def is_empty(self) -> bool:
        return not self.tables.fetch(f"SELECT 1 FROM {self.table} LIMIT 1")

    def all_came(self) -> None:
        """Notes every row as one that came."""
        self.changes.note(f"SELECT {self.columns}, 1 FROM {self.table}")

    def apply(self) -> None:
        """Brings in the changes, where nothing but the rows themselves is stored."""
        self.remove()
        self.tables.run(
            f'INSERT INTO {self.table} ({self.columns}) SELECT {self.columns} FROM {self.change} WHERE "{SIGN}" = 1'
        )

    def remove(self) -> None:
        """Removes the rows that go."""
        self.tables.run(
            f"DELETE FROM {self.table} WHERE ({', '.join(self.row_names)}) IN"
            f" (SELECT {', '.join(f'h.{name}' for name in self.row_names)} FROM {self.change} AS c CROSS JOIN {self.table} AS h"
            f' WHERE c."{SIGN}" = -1 AND {self.same("h", "c")})'
        )


class BaseKeeper:
    """A relation that is changed from outside: its changes are noted before the work starts."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.relations: tuple[Relation, ...] = (relation,)
        self.touched = 0
        self.stored = stored = Stored(tables, relation, numbered=False)
        columns = (*tables.relations[f"{relation.name}$change"].columns[:-2], Column(WANTED, NUMBER))
        self.wanted = tables.temporary(Relation(f"{relation.name}$wanted", columns), unique=True)
        places = ", ".join("?" * len(shown_columns(relation)))
        same = tables.given(shown_columns(relation))
        self._there = f"SELECT 1 FROM {stored.table} WHERE {same}"
        self._delete = f"DELETE FROM {stored.table} WHERE {same}"
        self._insert = f"INSERT INTO {stored.table} ({stored.columns}) VALUES ({places})"
        self._add = f"{self._insert} ON CONFLICT DO NOTHING"
        numbered = [f"?{i + 1}" for i in range(len(shown_columns(relation)))]
        there = f"EXISTS (SELECT 1 FROM {stored.table} WHERE {tables.given(shown_columns(relation), numbered)})"
        self._chosen = {
            sign: f"SELECT {', '.join(numbered)}, {sign} WHERE {not_}{there}" for sign, not_ in ((1, "NOT "), (-1, ""))
        }

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
        changes = self.stored.changes
        if changes.brought_in:
            return
        if not changes.few:
            changes.in_table()
            self.stored.apply()
            return
        for sql, wanted in ((self._delete, -1), (self._insert, 1)):
            for row, sign in changes.rows():
                if sign == wanted:
                    self.stored.tables.run(sql, row)

    def forget(self) -> None:
        self.stored.changes.rolled_back()

    def want(self, rows: Iterable[Row], present: bool) -> None:
        """Rows that shall be there afterwards, or shall not. What is wanted first of a row counts."""
        self.stored.tables.used(self.wanted)
        places = ", ".join("?" * len(shown_columns(self.relations[0])))
        sql = f"INSERT INTO {self.wanted} VALUES ({places}, {int(present)}) ON CONFLICT DO NOTHING"
        self.stored.tables.run_many(sql, rows)

    def net(self) -> frozenset[int]:
        """Notes what must change so that what is wanted holds; returns whether rows come, go, or both."""
        stored = self.stored
        there = f"EXISTS (SELECT 1 FROM {stored.table} AS h WHERE {stored.same('h', 'w')})"
        for sign, condition in ((1, f'w."{WANTED}" = 1 AND NOT {there}'), (-1, f'w."{WANTED}" = 0 AND {there}')):
            stored.changes.note(f"SELECT {stored.of('w')}, {sign} FROM {self.wanted} AS w WHERE {condition}")
        return stored.changes.signs()

    def net_of(self, wanted: Mapping[Row, bool], alone: bool = False) -> frozenset[int]:
        """The same of rows that are known to be different: whether each shall be there. ``alone``: nothing else changes."""
        tables, changes = self.stored.tables, self.stored.changes
        if not is_few(len(wanted)):
            for sign, present in ((1, True), (-1, False)):
                changes.note_each(self._chosen[sign], [row for row, wish in wanted.items() if wish is present], sign)
            return changes.signs()
        if alone and (not self.relations[0].key or sum(wanted.values()) <= 1):
            self._bring_in(wanted)
        else:
            there = ((row, wish, bool(tables.fetch(self._there, row))) for row, wish in wanted.items())
            changes.add([(row, 1 if wish else -1) for row, wish, found in there if found is not wish])
        return changes.signs()

    def _bring_in(self, wanted: Mapping[Row, bool]) -> None:
        """Notes what changes, and brings it in without waiting for its turn: trying tells whether a row is there.

        A row that does not come because another one has its key is noted all the same; its turn is when that is refused.
        """
        tables, changes = self.stored.tables, self.stored.changes
        went = [(row, -1) for row, wish in wanted.items() if not wish and tables.run(self._delete, row).rowcount]
        came = [(row, 1) for row, wish in wanted.items() if wish and tables.run(self._add, row).rowcount]
        changes.brought_in = True
        if self.relations[0].key and not came:
            came = [(row, 1) for row, wish in wanted.items() if wish and not tables.fetch(self._there, row)]
            changes.brought_in = not came
        changes.add([*went, *came])

    def came(self) -> int:
        """How many rows are noted as coming."""
        [[rows]] = self.stored.tables.run(f'SELECT count(*) FROM {self.stored.changes.in_table()} WHERE "{SIGN}" = 1')
        return int(rows)

    def broken_keys(self, limit: int) -> list[Row]:
        """Rows with a key that another row has, too, as far as one of them shall come; rows of one key together."""
        stored, relation = self.stored, self.relations[0]
        stored.changes.in_table()
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
        return tables.fetch(f"SELECT * FROM ({rows}) ORDER BY {order} LIMIT {limit}")

    def rows_with_key(self, key: Row) -> list[Row]:
        """The rows that have a key; there is at most one."""
        stored, relation = self.stored, self.relations[0]
        columns = {c.name: c for c in relation.columns}
        same = stored.tables.given([columns[name] for name in relation.key])
        return stored.tables.fetch(f"SELECT {stored.columns} FROM {stored.table} WHERE {same}", key)
