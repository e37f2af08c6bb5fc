"""Views outside recursion: each row with the number of its derivations."""

from __future__ import annotations

from functools import cached_property

from viewkeeper.engines.keep.changes import Gains, Row
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.plan import COUNT, SIGN, Counted, Group, shown_columns


class CountingKeeper:
    def __init__(self, tables: Tables, step: Counted) -> None:
        self.relations, self.tables, self.step = step.relations, tables, step
        self.touched = 0
        self.stored = Stored(tables, step.relation, COUNT)
        self.gains = Gains(tables, step.relation, tables.declare(step.relation, "gain"), step.changes)
        self.gain = self.gains.table

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
            self.tables.run(f"INSERT INTO {stored.table} {counted}{_ADD}", select.parameters, name)

    def notice(self, group: Group, signs: Signs) -> None:
        self.touched += self.gains.collect(group)

    def forget(self) -> None:
        self.gains.forget()
        self.stored.changes.forget()

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
        few = self.gains.few()
        if few is not None:
            self.stored.changes.add([change for row, gained in few for change in self._settle_row(row, gained)])
            return
        changed = self.stored.changes.note(self._changes)
        self.tables.run(
            f'INSERT INTO {self.stored.table} ({self.stored.columns}, "{COUNT}") SELECT * FROM ({self._net}) WHERE TRUE{_ADD}'
        )
        if changed:
            self.stored.remove()

    @cached_property
    def _of_row(self) -> tuple[str, str, str]:
        """A row's derivations: the first ones, the last ones gone, another number of them."""
        table, columns = self.stored.table, shown_columns(self.step.relation)
        same = self.tables.given(columns)
        return (
            f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))}, ?) ON CONFLICT DO NOTHING",
            f'DELETE FROM {table} WHERE {same} AND "{COUNT}" = -?',
            f'UPDATE {table} SET "{COUNT}" = "{COUNT}" + ? WHERE {same}',
        )

    def _settle_row(self, row: Row, gained: int) -> list[tuple[Row, int]]:
        """A row's first derivations or its last ones are tried first: most rows have one."""
        insert, delete, update = self._of_row
        if self.tables.run(insert if gained > 0 else delete, (*row, gained)).rowcount:
            return [(row, 1 if gained > 0 else -1)]
        self.tables.run(update, (gained, *row))
        return []


_ADD = f' ON CONFLICT DO UPDATE SET "{COUNT}" = "{COUNT}" + excluded."{COUNT}"'
