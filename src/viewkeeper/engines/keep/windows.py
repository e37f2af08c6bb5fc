"""Windows: partitions with a changed row are computed again and compared with what is stored of them.

1. A changed row of the source touches its partition, unless only the first rows of partitions are kept and it comes behind the last.
2. Touched partitions are searched by an index on their columns, in the order of the window, and computed.
3. What is new among their rows came, what is stored of them and not among these went.
"""

from __future__ import annotations

from functools import cached_property

from viewkeeper.engines.keep import changes
from viewkeeper.engines.keep.changes import Row
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.names import ORDERED, sql_name
from viewkeeper.engines.order import Access
from viewkeeper.engines.windows import sorting
from viewkeeper.program.ast import Column, Order, Relation, Variable
from viewkeeper.program.plan import PRESENT, Group, Windowed
from viewkeeper.program.types import NUMBER
from viewkeeper.program.windows import over_of, windowing_of


class WindowKeeper:
    def __init__(self, tables: Tables, step: Windowed) -> None:
        windowing = windowing_of(step.rule)
        assert windowing is not None
        self.relations, self.tables, self.step, self.windowing = step.relations, tables, step, windowing
        self.relation, self.source = step.relation, tables.relations[step.source]
        self.touched = 0
        self.stored = Stored(tables, step.relation)
        self.partition = tuple(self.source.columns[i] for i in step.partition)
        name = step.relation.name
        self.partitions = tables.temporary(
            Relation(f"{name}$touched", self.partition or (Column(PRESENT, NUMBER),)), unique=True
        )
        self.fresh = tables.temporary(Relation(f"{name}$fresh", step.relation.columns), unique=True)
        self.heads = [a.name for a in step.rule.head.arguments if isinstance(a, Variable)]
        # Rows that differ in a column that is left out may be the same.
        self.distinct = "" if set(windowing.columns) <= {*self.heads} else "DISTINCT "
        self.forget()

    def create(self) -> None:
        self.stored.create()

    def empty(self) -> None:
        self.stored.empty()

    # ---- statements

    @cached_property
    def order(self) -> tuple[Order, ...]:
        return self.windowing.total(over_of(self.windowing.windows[0]))

    @property
    def index(self) -> str:
        """The name of the index that finds the rows of a partition in order."""
        by = " ".join(sql_name(c.name) for c in self.partition)
        places = dict(zip(self.windowing.columns, self.source.columns, strict=True))
        order = sorting(self.order, lambda name: sql_name(places[name].name), lambda name: places[name].type.nullable)
        return f"{sql_name(self.source.name)} by {by or 'all'}{ORDERED}{' '.join(order).lower()}"

    @cached_property
    def is_indexed(self) -> bool:
        """Where everything is one partition, and all of it wanted, there is nothing to be searched."""
        return bool(self.partition) or self.windowing.is_top

    def prepare(self) -> None:
        if self.is_indexed:
            terms = [self.tables.name(c.name) for c in self.partition] + self._sorting("")
            self.tables.index_in_order(self.source, self.index, terms)
        for places in (self.step.places, (*self.step.places, *self._number)):
            if places:
                self.tables.index(Access(self.relation.name, places))
        self.tables.prepared.setdefault(self.relation.name, []).append(self._of_one)

    def _sorting(self, alias: str) -> list[str]:
        places = dict(zip(self.windowing.columns, self.source.columns, strict=True))
        return sorting(
            self.order, lambda name: f"{alias}{self.tables.name(places[name].name)}", lambda name: places[name].type.nullable
        )

    def _in_partition(self, alias: str, given: str) -> str:
        """The condition that a row of the source is in a partition: of parameters, or of a row of the touched ones."""
        names = [self.tables.name(c.name) for c in self.partition]
        return " AND ".join(f"{alias}.{name} IS {given if given == '?' else f'{given}.{name}'}" for name in names)

    @cached_property
    def _of_one(self) -> str:
        """The rows of a partition, as they are to be."""
        return self.tables.compiler.windows(self.step.rule, self._in_partition("t0", "?"), single=True).sql

    @cached_property
    def _of_many(self) -> str:
        """The rows of all partitions that are touched."""
        if not self.partition:
            return self._of_one
        where = self._in_partition("t0", "k")
        if self.windowing.is_top:
            limit = min(self.windowing.limits.values())
            rows = self.tables.engine.row_names(self.source.name)
            where = (
                f"({', '.join(f't0.{name}' for name in rows)}) IN (SELECT {', '.join(f'x.{name}' for name in rows)} FROM {self.tables.table(self.source)} AS x WHERE {self._in_partition('x', 'k')}"
                f" ORDER BY {', '.join(self._sorting('x.'))} LIMIT {limit})"
            )
        return self.tables.compiler.windows(self.step.rule, where, beside=f"{self.partitions} AS k").sql

    def _stored_in(self, given: str) -> str:
        pairs = zip(self.step.places, self.partition, strict=True)
        sides = [
            (f"h.{self.tables.name(self.relation.columns[place].name)}", f"{given}.{self.tables.name(c.name)}")
            for place, c in pairs
        ]
        return " AND ".join(f"{left} IS {'?' if given == '?' else right}" for left, right in sides) or "TRUE"

    # ---- first computation

    def fill(self) -> None:
        select = self.tables.select(self.step.rule)
        self.tables.run(
            f"INSERT INTO {self.stored.table} SELECT {self.distinct}* FROM ({select.sql})",
            select.parameters,
            self.relation.name,
        )

    # ---- 1: what is touched

    def notice(self, group: Group, signs: Signs) -> None:
        changed = self.tables.changes[self.step.source]
        if changed.few and not self._in_table:
            for row, _ in changed.rows():
                self._changed.setdefault(tuple(row[i] for i in self.step.partition), []).append(row)
            self.tables.noted(self)
            return
        self.use_tables()
        if self.partition:
            chosen = ", ".join(f"c.{self.tables.name(c.name)}" for c in self.partition)
            touched = f"SELECT DISTINCT {chosen} FROM {changed.in_table()} AS c WHERE TRUE ON CONFLICT DO NOTHING"
            self.touched += self.tables.run(f"INSERT INTO {self.partitions} {touched}").rowcount

    def use_tables(self) -> None:
        """Touched partitions are told in a table from here on; where there is just one, it is in it."""
        self._in_table = True
        self.tables.used(self.partitions, self.fresh)
        self.tables.noted(self)
        if not self.partition:
            self.touched += self.tables.run(f"INSERT INTO {self.partitions} VALUES (1) ON CONFLICT DO NOTHING").rowcount

    def forget(self) -> None:
        self._changed: dict[Row, list[Row]] = {}
        self._in_table = False
        self.stored.changes.forget()

    @cached_property
    def _number(self) -> tuple[int, ...]:
        """Where the number of a row is, if only the first ones are kept."""
        return (self.heads.index(self.windowing.results[0]),) if self.windowing.is_top else ()

    @cached_property
    def _last(self) -> str:
        """The last row that is kept of a partition in which there may be more, with the columns of the source."""
        columns = [self.tables.name(self.relation.columns[self.heads.index(name)].name) for name in self.windowing.columns]
        number = self.tables.name(self.relation.columns[self._number[0]].name)
        limit = min(self.windowing.limits.values())
        return (
            f"SELECT {', '.join(columns)} FROM {self.stored.table} AS h WHERE {self._stored_in('?')} AND h.{number} = {limit}"
        )

    def _are_behind(self, partition: Row, rows: list[Row]) -> bool:
        """Do all the rows come behind the last one that is kept?"""
        last = self.tables.fetch(self._last, partition) if self.windowing.is_top else []
        return bool(last) and all(self._is_before(last[0], row) for row in rows)

    def _is_before(self, one: Row, other: Row) -> bool:
        for key in self.order:
            place = self.windowing.columns.index(key.variable.name)
            left, right = one[place], other[place]
            if left == right:
                continue
            if left is None or right is None:
                return (left is None) == key.nulls_first
            return bool(left > right) if key.descending else bool(left < right)
        return False

    # ---- 2 and 3

    def settle(self) -> None:
        differences = None if self._in_table else self._differences()
        if differences is None:
            self._settle_tables()
            return
        insert, delete = self._of_row
        for row, sign in differences:
            self.tables.run(insert if sign == 1 else delete, row)
        self.stored.changes.add(differences)

    @cached_property
    def _of_row(self) -> tuple[str, str]:
        columns = self.relation.columns
        return (
            f"INSERT INTO {self.stored.table} VALUES ({', '.join('?' * len(columns))})",
            f"DELETE FROM {self.stored.table} WHERE {self.tables.given(columns)}",
        )

    def _differences(self) -> list[tuple[Row, int]] | None:
        """What goes from touched partitions, then what comes to them; None if there is so much in them that it is left to SQLite."""
        went: list[tuple[Row, int]] = []
        came: list[tuple[Row, int]] = []
        stored = f"SELECT {self.stored.of('h')} FROM {self.stored.table} AS h WHERE {self._stored_in('?')}"
        for partition, rows in self._changed.items():
            if self._are_behind(partition, rows):
                continue
            self.touched += 1
            new = self.tables.fetch(f"{self._of_one} LIMIT {changes.MANY + 1}", partition, self.relation.name)
            if len(new) > changes.MANY:
                return None
            old, fresh = self.tables.fetch(stored, partition, self.relation.name), dict.fromkeys(new)
            went += [(row, -1) for row in old if row not in fresh]
            came += [(row, 1) for row in fresh.keys() - set(old)]
        return went + came

    def _settle_tables(self) -> None:
        if not self._in_table:
            self.use_tables()
            places = ", ".join("?" * len(self.partition))
            if self.partition:
                self.tables.run_many(f"INSERT INTO {self.partitions} VALUES ({places})", self._changed)
        self.tables.run(f"INSERT INTO {self.fresh} SELECT {self.distinct}* FROM ({self._of_many})", relation=self.relation.name)
        self.compare()

    def compare(self) -> None:
        """Notes how touched partitions differ from the fresh rows, which are all of theirs, and brings it in."""
        same = self.stored.same
        changed = self.stored.changes.note(
            f"SELECT {self.stored.of('h')}, -1 FROM {self.partitions} AS k CROSS JOIN {self.stored.table} AS h ON {self._stored_in('k')}"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self.fresh} AS f WHERE {same('f', 'h')})"
        )
        changed += self.stored.changes.note(
            f"SELECT {self.stored.of('f')}, 1 FROM {self.fresh} AS f"
            f" WHERE NOT EXISTS (SELECT 1 FROM {self.stored.table} AS h WHERE {same('h', 'f')})"
        )
        if changed:
            self.stored.apply()
