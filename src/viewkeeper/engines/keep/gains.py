"""What views gain from changes, and lose: derivations with how often they come.

They are added up in Python: most cancel each other, or are few, and a view that is told takes them out of SQLite anyhow. A group's totals are
needed only in SQLite, so more than some stay there, in a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.engines.keep import changes
from viewkeeper.engines.keep.by_row import ByRow
from viewkeeper.engines.keep.changes import Row
from viewkeeper.engines.keep.tables import Select, Tables
from viewkeeper.program.ast import Relation
from viewkeeper.program.plan import Group, Rules


class Gains:
    """Derivations that a view gains or, negative, loses: the rules that tell them, and what they have told so far."""

    def __init__(self, tables: Tables, of: Relation, gains: Relation, rules: Rules, stays: bool = False) -> None:
        """``stays``: more than some are better left in SQLite."""
        self._tables, self._of, self._rules, self._stays = tables, of, rules, stays
        self.table = tables.temporary(gains)
        self._places = ", ".join("?" * len(gains.columns))
        self._selects: dict[Group, list[Select]] = {}
        self._by_row: dict[Group, list[ByRow]] = {}
        self.forget()

    def forget(self) -> None:
        self.rows: dict[Row, int] = {}
        self.in_table = False

    def prepare(self) -> None:
        for group in self._rules:
            self._whole(group)
            self._single(group)

    def _whole(self, group: Group) -> list[Select]:
        if group not in self._selects:
            self._selects[group] = [self._tables.select(rule) for rule in self._rules[group]]
        return self._selects[group]

    def _single(self, group: Group) -> list[ByRow]:
        if group not in self._by_row:
            self._by_row[group] = [ByRow(self._tables, rule) for rule in self._rules[group]]
        return self._by_row[group]

    def collect(self, group: Group) -> int:
        """Adds what a change of these relations brings; returns how many derivations were found for it."""
        found: list[Row] = []
        asked = [number for number, statement in enumerate(self._single(group)) if not statement.is_told(found)]
        touched = 0
        if asked and not self._take(group, asked, found):
            touched = self._leave(group, asked)
        if found:
            gained = self.rows
            for row in found:
                gained[row[:-1]] = gained.get(row[:-1], 0) + row[-1]
        return touched + len(found)

    def _take(self, group: Group, asked: Sequence[int], found: list[Row]) -> bool:
        """Takes out of SQLite what some of the rules tell; False if that is much, and better left there."""
        single, known = self._single(group), len(found)
        if sum(single[number].executions() for number in asked) <= changes.FEW:
            limit = 4 * changes.FEW if self._stays else changes.MANY
            taken = all(single[number].add_results(self._of.name, found, limit) for number in asked)
        else:
            self._bring_to_tables(group)
            taken = not self._stays and all(self._add_results(self._whole(group)[number], found) for number in asked)
        if not taken:
            del found[known:]
        return taken

    def _add_results(self, select: Select, found: list[Row]) -> bool:
        limit = changes.MANY // 5
        rows = self._tables.fetch(f"{select.sql} LIMIT {limit + 1}", select.parameters, self._of.name)
        found += rows
        return len(rows) <= limit

    def _leave(self, group: Group, asked: Sequence[int]) -> int:
        """Puts what some of the rules tell into the table; returns how many rows that are."""
        self._bring_to_tables(group)
        self.use_table()
        touched = 0
        for number in asked:
            select = self._whole(group)[number]
            touched += self._tables.run(f"INSERT INTO {self.table} {select.sql}", select.parameters, self._of.name).rowcount
        return touched

    def _bring_to_tables(self, group: Group) -> None:
        for name in group:
            self._tables.changes[name].in_table()

    def use_table(self) -> None:
        self.in_table = True
        self._tables.used(self.table)
        self._tables.noted(self)

    def few(self) -> list[tuple[Row, int]] | None:
        """What is gained or lost in the end; None if that is better left in SQLite, and in the table then."""
        if not self.in_table and (not self._stays or changes.is_few(len(self.rows))):
            net = [(row, number) for row, number in self.rows.items() if number]
            self.rows = {}
            return net
        self.use_table()
        self._tables.run_many(
            f"INSERT INTO {self.table} VALUES ({self._places})", [(*row, number) for row, number in self.rows.items() if number]
        )
        self.rows = {}
        return None
