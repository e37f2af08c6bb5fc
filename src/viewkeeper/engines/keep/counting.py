"""Views outside recursion: each row with the number of its derivations."""

from __future__ import annotations

from functools import cached_property

from viewkeeper.engines.keep.changes import Row, Signed
from viewkeeper.engines.keep.gains import Gains
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import COUNT, ID, OLD, Counted, Group, shown_columns
from viewkeeper.program.types import NUMBER


class CountingKeeper:
    def __init__(self, tables: Tables, step: Counted) -> None:
        self.relations, self.tables, self.step = step.relations, tables, step
        self.touched = 0
        self.stored = Stored(tables, step.relation, COUNT, numbered=False)
        self.gains = Gains(tables, step.relation, tables.declare(step.relation, "gain"), step.changes)
        self.gain = self.gains.table
        # What each row gains in all, with the number of the row (any, if it has none) and its derivations before, if it was there.
        numbers = (Column(COUNT, NUMBER), Column(ID, NUMBER.optional()), Column(OLD, NUMBER.optional()))
        self._net = tables.temporary(Relation(f"{step.relation.name}$net", (*shown_columns(step.relation), *numbers)))

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
            rows = self.tables.run(f"INSERT INTO {stored.table} {counted}{_ADD}", select.parameters, name).rowcount
            self.tables.engine.filled(name, rows)

    def notice(self, group: Group, signs: Signs) -> None:
        self.touched += self.gains.collect(group)

    def forget(self) -> None:
        self.gains.forget()
        self.stored.changes.forget()

    @cached_property
    def _numbered(self) -> bool:
        return self.stored.row_names == ["rowid"]

    @cached_property
    def _netting(self) -> str:
        columns, number = self.stored.columns, "h.rowid" if self._numbered else f'h."{COUNT}"'
        net = f'SELECT {columns}, sum("{COUNT}") AS "{COUNT}" FROM {self.gain} GROUP BY {columns} HAVING sum("{COUNT}") <> 0'
        return (
            f'INSERT INTO {self._net} SELECT g.*, {number}, h."{COUNT}" FROM ({net}) AS g'
            f" LEFT JOIN {self.stored.table} AS h ON {self.stored.same('h', 'g')}"
        )

    @cached_property
    def _of_net(self) -> tuple[str, str, str, str]:
        """Which rows come and go, and how that is brought in; other numbers of derivations."""
        table, columns, gone = self.stored.table, self.stored.columns, f'"{OLD}" + "{COUNT}" = 0'
        rows, same = (f'"{ID}"', f'h.rowid = t."{ID}"') if self._numbered else (columns, self.stored.same("h", "t"))
        return (
            f'SELECT {columns}, CASE WHEN "{ID}" IS NULL THEN 1 ELSE -1 END FROM {self._net} WHERE "{ID}" IS NULL OR {gone}',
            f"DELETE FROM {table} WHERE ({', '.join(self.stored.row_names)}) IN (SELECT {rows} FROM {self._net} WHERE {gone})",
            f'INSERT INTO {table} ({columns}, "{COUNT}") SELECT {columns}, "{COUNT}" FROM {self._net} WHERE "{ID}" IS NULL',
            f'UPDATE {table} AS h SET "{COUNT}" = t."{OLD}" + t."{COUNT}" FROM {self._net} AS t'
            f' WHERE {same} AND t."{OLD}" + t."{COUNT}" <> 0',
        )

    def settle(self) -> None:
        few = self.gains.few()
        if few is not None:
            if few:
                self.stored.changes.add(self._settle_rows(few))
            return
        self.tables.used(self._net)
        changes, delete, insert, update = self._of_net
        rows = self.tables.run(self._netting).rowcount
        changed = self.stored.changes.note(changes) if rows else 0
        for sql in [delete, insert] if changed else []:
            self.tables.run(sql)
        if rows > changed:
            self.tables.run(update)

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

    def _settle_rows(self, gains: list[tuple[Row, int]]) -> list[Signed]:
        """A row's first derivations or its last ones are tried first: most rows have one. Returns the rows that come and go."""
        insert, delete, update = self._of_row
        attempts = [(insert if gained > 0 else delete, (*row, gained)) for row, gained in gains]
        found, others = list[Signed](), list[Row]()
        for (row, gained), done in zip(gains, self.tables.try_each(attempts), strict=True):
            if done:
                found.append((row, 1 if gained > 0 else -1))
            else:
                others.append((gained, *row))
        if others:
            self.tables.run_many(update, others)
        return found


_ADD = f' ON CONFLICT DO UPDATE SET "{COUNT}" = "{COUNT}" + excluded."{COUNT}"'
