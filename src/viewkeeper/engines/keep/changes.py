"""What changes in a relation: rows in Python as long as they are few, temporary tables otherwise.

A statement for a whole table costs more than some for single rows, until there are about ``FEW`` of these. Who reads a change takes
it as it likes; it is brought into the other form once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from viewkeeper.program.ast import Relation
from viewkeeper.program.plan import SIGN

if TYPE_CHECKING:
    from viewkeeper.engines.keep.tables import Parameters, Tables

FEW = 32
# Changes of this many rows are read anyhow, to be told.
_TOLD = 1000
# What few rows lead to is taken out of SQLite up to this.
MANY = 10_000
_SIGNS = {1: frozenset({1}), -1: frozenset({-1})}

Row = tuple[Any, ...]
Signed = tuple[Row, int]


def is_few(rows: int) -> bool:
    return rows <= FEW


class Changes:
    """The rows of one relation that come (1) and go (-1)."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.tables, self.relation = tables, relation
        self.table = tables.temporary(tables.declare(relation, "change"))
        columns = tables.columns(relation)
        self._columns = ", ".join([*columns, f'"{SIGN}"'])
        self._places = ", ".join("?" * (len(columns) + 1))
        self.forget()

    def forget(self) -> None:
        """Nothing is noted; the table is somebody else's business."""
        self.number = 0
        self._rows: list[Signed] | None = []
        self._in_table = self._put = False
        self._signs: set[int] = set()
        # Rows come in pairs, one that goes and one that comes, that agree in so many of their first columns; 0 if not all do.
        self.paired = 0
        # Of a base relation: is what is noted in its table already?
        self.brought_in = False

    def rolled_back(self) -> None:
        """The table is as it was when rows were noted."""
        self._in_table = self._put

    @property
    def few(self) -> bool:
        return is_few(self.number)

    @property
    def at_hand(self) -> bool:
        """Are the rows in Python, and not more than are best followed there?"""
        return self._rows is not None and self.number <= MANY // 5

    def add(self, rows: Iterable[Signed], paired: int = 0) -> None:
        """Notes rows, none of them a second time. What is noted of a relation is noted either so or by ``note``."""
        assert self._rows is not None
        self.paired = min(paired, self.paired) if self.number else paired
        self._rows += rows
        self.number = len(self._rows)
        self.tables.noted(self)

    def note(self, select: str, parameters: Parameters = (), sign: int = 0, paired: int = 0) -> int:
        """Notes the rows of a query, with the sign at the end; returns how many. ``sign``: that of all rows."""
        sql = f"INSERT INTO {self.table} ({self._columns}) {select}"
        added = self.tables.run(sql, parameters, self.relation.name).rowcount
        if added:
            self.put(added, {sign} if sign else set(), paired)
        return added

    def note_each(self, select: str, rows: Sequence[Row], sign: int) -> None:
        """The same of a query for each of these rows, whose values are its parameters: it gives the row, or nothing."""
        before, known = self.number, self._rows
        added = self.tables.run_many(f"INSERT INTO {self.table} ({self._columns}) {select}", rows) if rows else 0
        if added:
            self.put(added, {sign})
            if known is not None and len(known) == before and added == len(rows):
                self._rows = [*known, *((row, sign) for row in rows)]  # as they are in the table, so they need not be read

    def put(self, number: int, signs: AbstractSet[int] = frozenset(), paired: int = 0) -> None:
        """So many rows were put into the table, of these signs if they are known."""
        self.paired = min(paired, self.paired) if self.number else paired
        # What is not known of some rows is looked up for all.
        self._signs = self._signs | signs if signs and (self._signs or not self.number) else set()
        self.number += number
        self._rows, self._in_table, self._put = None, True, True
        self.tables.used(self.table)
        self.tables.noted(self)

    def rows(self) -> list[Signed]:
        if self._rows is None:
            found = self.tables.fetch(f"SELECT {self._columns} FROM {self.table}")
            self._rows = [(row[:-1], row[-1]) for row in found]
        return self._rows

    def in_table(self) -> str:
        """The table, with all that is noted in it."""
        if not self._in_table:
            assert self._rows is not None
            self.tables.clear_table(self.table)
            if self._rows:
                self.tables.used(self.table)
                sql = f"INSERT INTO {self.table} ({self._columns}) VALUES ({self._places})"
                self.tables.run_many(sql, [(*row, sign) for row, sign in self._rows])
            self._in_table = True
        return self.table

    def signs(self) -> frozenset[int]:
        """Whether rows come, go, or both."""
        if not self.number:
            return frozenset()
        if self.number == 1 and self._rows:
            return _SIGNS[self._rows[0][1]]
        if self._signs:
            return frozenset(self._signs)
        if self._rows is not None or self.number <= _TOLD:
            return frozenset(sign for _, sign in self.rows())
        found = self.tables.fetch(f'SELECT DISTINCT "{SIGN}" FROM {self.table}')
        return frozenset(sign for [sign] in found)
