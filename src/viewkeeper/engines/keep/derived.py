"""The rows of one relation that is derived on demand: in Python as long as they are few, in a temporary table where SQLite joins with them.

Rows are numbered as they come, in both places alike, so what is new is a range of numbers. They are brought to the other place when
somebody asks for them there, and only those that are not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.engines.keep.changes import MANY, Row
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Relation
from viewkeeper.program.types import Kind


class Derived:
    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.name, self._tables = relation.name, tables
        self.table = tables.temporary(relation, unique=True)
        self.columns = ", ".join(tables.columns(relation))
        places = ", ".join("?" * len(relation.columns))
        self._insert = f"INSERT INTO {self.table} ({self.columns}) VALUES ({places})"
        # A table makes 0 of such a column 0.0.
        self._floats = [i for i, column in enumerate(relation.columns) if column.type.kind is Kind.FLOAT]
        self.forget()

    def forget(self) -> None:
        """There are no rows; the table is emptied by ``Tables.clear``."""
        self.number = 0
        self._rows: list[Row] | None = []
        self._known: set[Row] = set()
        self._in_table = 0

    @property
    def is_small(self) -> bool:
        """Can the rows be had in Python?"""
        return self._rows is not None or self.number <= MANY

    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        if self._rows is None:
            self._rows = self._tables.fetch(f"SELECT {self.columns} FROM {self.table} ORDER BY rowid")
            self._known = set(self._rows)
        return self._rows

    def known(self) -> set[Row]:
        self.rows()
        return self._known

    def add(self, rows: Iterable[Row]) -> int:
        """Adds rows; returns how many of them are new."""
        if not self.is_small:
            return self._add_to_table(rows)
        before, there, known = self.number, self.rows(), self._known
        for row in rows:
            if self._floats:
                row = self._with_floats(row)
            if row not in known:
                known.add(row)
                there.append(row)
        self.number = len(there)
        return self.number - before

    def _with_floats(self, row: Row) -> Row:
        values = list(row)
        for i in self._floats:
            if values[i] is not None:
                values[i] = float(values[i])
        return tuple(values)

    def _add_to_table(self, rows: Iterable[Row]) -> int:
        sql, run = f"{self._insert} ON CONFLICT DO NOTHING", self._tables.run
        added = sum(run(sql, row).rowcount for row in rows)
        self.number = self._in_table = self.number + added
        return added

    def in_table(self) -> str:
        """The table, with all rows in it."""
        if self._in_table < self.number:
            assert self._rows is not None
            self._tables.used(self.table)
            new = self._rows[self._in_table :]
            if len(new) == 1:
                self._tables.run(self._insert, new[0])
            else:
                self._tables.run_many(self._insert, new)
            self._in_table = self.number
        return self.table

    def added_in_table(self, number: int) -> None:
        """So many rows were put into the table, behind all others."""
        if number:
            self._tables.used(self.table)
            self.number = self._in_table = self.number + number
            self._rows, self._known = None, set()
