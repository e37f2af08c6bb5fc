"""What all keepers have in common: a stored relation, the table of its changes, and how these are brought in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Relation
from viewkeeper.program.plan import SIGN, Group, shown_columns

Signs = Mapping[str, frozenset[int]]
"""Of relations that have changed: whether rows came (1), went (-1), or both."""


class Keeper(Protocol):
    """Keeps the relations of one step of a plan."""

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

    def create(self) -> None:
        self.tables.engine.create_table(self.relation, self.more)

    def empty(self) -> None:
        self.tables.run(f"DELETE FROM {self.table}")

    def of(self, alias: str) -> str:
        return ", ".join(self.tables.columns(self.relation, alias))

    def same(self, left: str, right: str) -> str:
        return self.tables.same(left, right, shown_columns(self.relation))

    def signs(self) -> frozenset[int]:
        rows = self.tables.run(f'SELECT DISTINCT "{SIGN}" FROM {self.change}').fetchall()
        return frozenset(sign for [sign] in rows)

    def note(self, select: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Adds the rows of a query, with the sign at the end, to the changes; returns how many."""
        self.tables.used(self.change)
        sql = f'INSERT INTO {self.change} ({self.columns}, "{SIGN}") {select}'
        return self.tables.run(sql, parameters, self.relation.name).rowcount

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


class BaseKeeper:
    """A relation that is changed from outside: its table of changes is filled before the work starts."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.relations: tuple[Relation, ...] = (relation,)
        self.stored = Stored(tables, relation)

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
