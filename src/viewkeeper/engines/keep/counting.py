"""Views outside recursion: each row with the number of its derivations."""

from __future__ import annotations

from functools import cached_property

from viewkeeper.engines.keep.keeper import Gains, Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.plan import COUNT, SIGN, Counted, Group


class CountingKeeper:
    def __init__(self, tables: Tables, step: Counted) -> None:
        self.relations, self.tables, self.step = step.relations, tables, step
        self.touched = 0
        self.stored = Stored(tables, step.relation, COUNT)
        self.gain = tables.temporary(tables.declare(step.relation, "gain"))
        self.gains = Gains(tables, step.changes)

    def create(self) -> None:
        self.stored.create()

    def empty(self) -> None:
        self.stored.empty()

    def prepare(self) -> None:
        self.gains.prepare()

    def fill(self) -> None:
        stored, name = self.stored, self.step.relation.name
        places = ", ".join(f"c{i}" for i in range(len(self.tables.columns(self.step.relation))))
        for rule in self.step.rules:
            select = self.tables.select(rule)
            counted = f"SELECT {places}, count(*) FROM ({select.sql}) WHERE TRUE GROUP BY {places}"
            sql = f'INSERT INTO {stored.table} {counted} ON CONFLICT DO UPDATE SET "{COUNT}" = "{COUNT}" + excluded."{COUNT}"'
            self.tables.run(sql, select.parameters, name)

    def notice(self, group: Group, signs: Signs) -> None:
        self.tables.used(self.gain)
        for select in self.gains.of(group):
            sql = f"INSERT INTO {self.gain} {select.sql}"
            self.touched += self.tables.run(sql, select.parameters, self.step.relation.name).rowcount

    @cached_property
    def _net(self) -> str:
        columns = self.stored.columns
        return f'SELECT {columns}, sum("{COUNT}") AS "{COUNT}" FROM {self.gain} GROUP BY {columns} HAVING sum("{COUNT}") <> 0'

    @cached_property
    def _changes(self) -> str:
        same, columns = self.stored.same("h", "g"), self.stored.of("g")
        return (
            f'SELECT {columns}, CASE WHEN h."{COUNT}" IS NULL THEN 1 ELSE -1 END AS "{SIGN}" FROM ({self._net}) AS g'
            f' LEFT JOIN {self.stored.table} AS h ON {same} WHERE h."{COUNT}" IS NULL OR h."{COUNT}" + g."{COUNT}" = 0'
        )

    def settle(self) -> None:
        changed = self.stored.note(self._changes)
        self.tables.run(
            f'INSERT INTO {self.stored.table} ({self.stored.columns}, "{COUNT}") SELECT * FROM ({self._net}) WHERE TRUE'
            f' ON CONFLICT DO UPDATE SET "{COUNT}" = "{COUNT}" + excluded."{COUNT}"'
        )
        if changed:
            self.stored.remove()
