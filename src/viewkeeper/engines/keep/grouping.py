"""Aggregates: what all groups have in common, and min and max, with an index that finds the next value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from operator import gt, lt
from typing import Any

from viewkeeper.engines.keep.changes import Row
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import PRESENT, SIGN, Extreme, First, Group
from viewkeeper.program.types import NUMBER, Kind


class GroupKeeper:
    """One row for each group: the columns of the group, then its values."""

    def __init__(self, tables: Tables, relation: Relation, groups: int) -> None:
        self.relations, self.tables, self.relation = (relation,), tables, relation
        self.touched = 0
        self.groups, self.results = relation.columns[:groups], relation.columns[groups:]
        # No two rows have the same group, which is all that an index has to know, and what does not change in it.
        self.stored = Stored(tables, replace(relation, key=tuple(column.name for column in self.groups)))

    def names(self, alias: str = "") -> list[str]:
        """The columns of the group; one that is always 1 if everything is one group."""
        names = [self.tables.name(c.name) for c in self.groups] or ["present"]
        return [f"{alias}.{name}" if alias else name for name in names]

    def same(self, left: str, right: str) -> str:
        return self.tables.same(left, right, self.groups)

    def create(self) -> None:
        self.stored.create()

    def empty(self) -> None:
        self.stored.empty()

    def make_touched(self) -> None:
        """A table of the groups that a change touches."""
        columns = self.groups or (Column(PRESENT, NUMBER),)
        self.groups_touched = self.tables.temporary(Relation(f"{self.relation.name}$touched", columns), unique=True)

    def touch(self, select: str) -> None:
        self.tables.used(self.groups_touched)
        self.touched += self.tables.run(f"INSERT INTO {self.groups_touched} {select} ON CONFLICT DO NOTHING").rowcount

    def tell(self, values: list[str], source: str) -> None:
        """Notes what changes in the touched groups t, whose new values are expressions over ``source``, and brings it in."""
        results = [self.tables.name(c.name) for c in self.results]
        new = [f'"$v{i}"' for i in range(len(values))]
        group = "".join(f"t.{self.tables.name(c.name)}, " for c in self.groups)
        chosen = ", ".join(f"{value} AS {name}" for value, name in zip(values, new, strict=True))
        fresh = f"SELECT t.*, {chosen} FROM {self.groups_touched} AS t{source}"
        there = " AND ".join(f"t.{name} IS NOT NULL" for name in new)
        # A group without one of the values has no row.
        same = " AND ".join([there, *(f"h.{old} IS t.{name}" for old, name in zip(results, new, strict=True))])
        changed = self.stored.changes.note(
            f"SELECT {group}{', '.join(f'h.{old}' for old in results)}, -1 FROM ({fresh}) AS t"
            f" CROSS JOIN {self.stored.table} AS h ON {self.same('h', 't')} WHERE NOT ({same})"
        )
        changed += self.stored.changes.note(
            f"SELECT {group}{', '.join(f't.{name}' for name in new)}, 1 FROM ({fresh}) AS t"
            f" LEFT JOIN {self.stored.table} AS h ON {self.same('h', 't')} WHERE {there} AND NOT ({same})"
        )
        if changed:
            self._apply()

    def _apply(self) -> None:
        """Brings in the changes: a group's row stays where it is, and the index with it, if there is one before and after."""
        results = ", ".join(f"{name} = c.{name}" for name in (self.tables.name(c.name) for c in self.results))
        table, change, columns = self.stored.table, self.stored.change, self.stored.columns
        self.tables.run(f'UPDATE {table} AS h SET {results} FROM {change} AS c WHERE c."{SIGN}" = 1 AND {self.same("h", "c")}')
        self.stored.remove()  # those that are not there any more; others are not what they were
        self.tables.run(
            f'INSERT INTO {table} ({columns}) SELECT {columns} FROM {change} WHERE "{SIGN}" = 1 ON CONFLICT DO NOTHING'
        )

    @cached_property
    def of_group(self) -> tuple[str, str, str, str]:
        """The row of a group: what it is, and a new one, other values, none."""
        table, results = self.stored.table, [self.tables.name(c.name) for c in self.results]
        places = ", ".join("?" * len(self.relation.columns))
        return (
            f"SELECT rowid, {', '.join(results)} FROM {table} WHERE {self.tables.given(self.groups)}",
            f"INSERT INTO {table} VALUES ({places})",
            f"UPDATE {table} SET {', '.join(f'{result} = ?' for result in results)} WHERE rowid = ?",
            f"DELETE FROM {table} WHERE rowid = ?",
        )

    def row_of(self, group: Row) -> Row | None:
        """The row of a group, its number and values. A group without columns is ()."""
        found = self.tables.fetch(self.of_group[0], group)
        return found[0] if found else None

    def tell_group(self, group: Row, found: Row | None, values: Row) -> None:
        """Notes what changes in one group, whose row was found, and brings it in. One without a value has no row."""
        _, insert, update, delete = self.of_group
        old = None if found is None else found[1:]
        new = None if None in values else values
        if old == new:
            return
        if found is None:
            self.tables.run(insert, (*group, *values))
        elif new is None:
            self.tables.run(delete, found[:1])
        else:
            self.tables.run(update, (*new, found[0]))
        rows = [((*group, *row), sign) for row, sign in ((old, -1), (new, 1)) if row is not None]
        self.stored.changes.add(rows, paired=len(group) if len(rows) == 2 else 0)


class Lookup:
    """The first or last value of a group in an index of what it is taken from."""

    def __init__(self, tables: Tables, first: First) -> None:
        self._tables, self.first = tables, first
        self.source = tables.relations[first.source]
        self.target = f"r.{tables.name(self.source.columns[first.target].name)}"

    def make_index(self) -> None:
        self._tables.ordered_index(self.source, (*self.first.groups, self.first.target))

    def groups(self, alias: str) -> list[str]:
        return [f"{alias}.{self._tables.name(self.source.columns[i].name)}" for i in self.first.groups]

    def sql(self, given: list[str]) -> str:
        """The least or greatest value of a group whose columns are equal to these."""
        where = "".join(f"{a} IS {b} AND " for a, b in zip(self.groups("r"), given, strict=False))
        direction = "ASC" if self.first.operation == "min" else "DESC"
        return (
            f"SELECT {self.target} FROM {self._tables.table(self.source)} AS r WHERE {where}{self.target} IS NOT NULL"
            f" ORDER BY {self.target} {direction} LIMIT 1"
        )


class ExtremeKeeper(GroupKeeper):
    """min and max alone."""

    def __init__(self, tables: Tables, step: Extreme) -> None:
        super().__init__(tables, step.relation, len(step.first.groups))
        self.step, self.first, self.lookup = step, step.first, Lookup(tables, step.first)
        # What came and went in each group that is touched, as long as it is little.
        self._groups: dict[Row, list[tuple[Any, int]]] = {}
        # What is read from SQLite may differ from what was given to it: 0.0 and -0.0 are equal.
        self._is_float = self.lookup.source.columns[step.first.target].type.kind is Kind.FLOAT
        self.hold: Callable[[], None] = lambda: None
        """Called before anything is looked up."""
        self._in_table = False
        self.make_touched()

    def prepare(self) -> None:
        self.lookup.make_index()

    def fill(self) -> None:
        groups = self.lookup.groups("r")
        grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
        value = f"{self.first.operation}({self.lookup.target})"
        chosen = ", ".join([*groups, value])
        self.tables.run(
            f"INSERT INTO {self.stored.table} SELECT {chosen} FROM {self.tables.table(self.first.source)} AS r{grouped}"
            f" HAVING {value} IS NOT NULL"
        )

    def notice(self, group: Group, signs: Signs) -> None:
        changes = self.tables.changes[self.first.source]
        self.tables.noted(self)
        if changes.few and not self._in_table:
            for row, sign in changes.rows():
                group_of_row = tuple([row[i] for i in self.first.groups])
                self._groups.setdefault(group_of_row, []).append((row[self.first.target], sign))
            return
        self._in_table = True
        chosen = ", ".join(self.lookup.groups("c")) or "1"
        self.touch(f"SELECT DISTINCT {chosen} FROM {changes.in_table()} AS c WHERE TRUE")

    def forget(self) -> None:
        self._groups, self._in_table = {}, False
        self.stored.changes.forget()

    @cached_property
    def _first_of_one(self) -> str:
        return self.lookup.sql(["?"] * len(self.groups))

    def settle(self) -> None:
        if self._in_table:
            self.hold()
            self.tell([f"({self.lookup.sql(self.names('t'))})"], "")
            return
        for group, changed in self._groups.items():
            self.touched += 1
            found = self.row_of(group)
            self.tell_group(group, found, (self._first(group, None if found is None else found[1], changed),))

    def _first(self, group: Row, old: Any, changed: list[tuple[Any, int]]) -> Any:
        """The value that is first now, None if there is none. It is looked up only if the one that was may have gone."""
        is_inner = gt if self.first.operation == "min" else lt
        outer = [(value, sign) for value, sign in changed if value is not None and (old is None or not is_inner(value, old))]
        if not outer:
            return old
        if self._is_float or any(sign < 0 for _, sign in outer):
            self.hold()
            found = self.tables.fetch(self._first_of_one, group)
            return found[0][0] if found else None
        return (min if self.first.operation == "min" else max)(value for value, _ in outer)
