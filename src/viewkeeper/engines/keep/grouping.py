"""Aggregates: each group with totals, or for min and max with an index that finds the next value."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from operator import gt, lt
from typing import Any

from viewkeeper.engines.embedded import column_definition
from viewkeeper.engines.keep.changes import Gains, Row
from viewkeeper.engines.keep.keeper import Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.scalar import ExactSum
from viewkeeper.engines.sqlite_dialect import sum_parts
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import COUNT, PRESENT, SIGN, Extreme, Group, Grouped
from viewkeeper.program.types import MAX_PRECISION, NUMBER, Kind, Type

EXACT = "$exact"


class _GroupKeeper:
    """One row for each group: the columns of the group, then its values."""

    def __init__(self, tables: Tables, relation: Relation, groups: int) -> None:
        self.relations, self.tables, self.relation = (relation,), tables, relation
        self.touched = 0
        self.groups, self.results = relation.columns[:groups], relation.columns[groups:]
        # No two rows have the same group, which is all that an index has to know, and what does not change in it.
        self.stored = Stored(tables, replace(relation, key=tuple(column.name for column in self.groups)))
        self.groups_touched = tables.temporary(
            Relation(f"{relation.name}$touched", self.groups or (Column(PRESENT, NUMBER),)), unique=True
        )

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
    def _of_group(self) -> tuple[str, str, str, str]:
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
        found = self.tables.fetch(self._of_group[0], group)
        return found[0] if found else None

    def tell_group(self, group: Row, found: Row | None, values: Row) -> None:
        """Notes what changes in one group, whose row was found, and brings it in. One without a value has no row."""
        _, insert, update, delete = self._of_group
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
        self.stored.changes.add([((*group, *row), sign) for row, sign in ((old, -1), (new, 1)) if row is not None])


class TotalKeeper(_GroupKeeper):
    """count, sum and mean: arithmetic on what is stored for each group, exact for integers, decimals and floats."""

    def __init__(self, tables: Tables, step: Grouped) -> None:
        super().__init__(tables, step.relation, len(step.groups))
        self.step = step
        self.state = f"main.{tables.dialect.identifier(tables.dialect.state(step.relation.name))}"
        self.targets = step.gains.columns[len(step.groups) : -1]
        self.gains = Gains(tables, step.relation, step.gains, step.changes)
        self.gain = self.gains.table

    # What is summed up for a group: name → expression over gains ($t0, $t1 … are the targets, $n how often they come)

    @cached_property
    def sums(self) -> dict[str, str]:
        found = {"$n": 'sum("$n")'}
        for i, target in enumerate(self.targets):
            found[f"$m{i}"] = f'sum(CASE WHEN "$t{i}" IS NULL THEN 0 ELSE "$n" END)'
            if target.type.kind is Kind.FLOAT:
                found[f"{EXACT}{i}"] = f'vk_exact_sum("$t{i}", "$n")'
            else:
                found[f"$high{i}"] = f'sum("$n" * ("$t{i}" >> 32))'
                found[f"$low{i}"] = f'sum("$n" * ("$t{i}" & 4294967295))'
        return found

    def values(self, alias: str) -> list[str]:
        """The results of a group."""
        aggregates = zip(self.step.aggregates, self.step.targets, self.results, strict=True)
        return [self._value(alias, a.operation, target, result.type) for a, target, result in aggregates]

    def _value(self, alias: str, operation: str, place: int | None, result: Type) -> str:
        if operation == "count" or place is None:
            return f'{alias}."$n"'
        m, high, low = (f'{alias}."${name}{place}"' for name in ("m", "high", "low"))
        kind, scale = self.targets[place].type.kind, self.targets[place].type.scale
        if kind is Kind.FLOAT:
            return f'vk_exact_value({alias}."{EXACT}{place}", {m if operation == "mean" else "1"})'
        if operation == "mean":
            return f"CASE WHEN {m} > 0 THEN vk_mean_parts({high}, {low}, {m} * {10**scale}) END"
        return sum_parts(high, low, 10**MAX_PRECISION - 1 if result.kind is Kind.DECIMAL else None)

    def create(self) -> None:
        super().create()
        groups = [column_definition(c) for c in self.groups] or ["present INTEGER NOT NULL"]
        totals = [f'"{name}" {"TEXT" if name.startswith(EXACT) else "INTEGER"} NOT NULL' for name in self.sums]
        self.tables.run(f"CREATE TABLE IF NOT EXISTS {self.state} ({', '.join(groups + totals)}) STRICT")
        bare = self.state.removeprefix("main.")
        index = self.tables.dialect.identifier(f"groups of {bare[1:-1]}")
        listed = ", ".join(self.tables.identities(self.groups)) or "present"
        self.tables.run(f"CREATE UNIQUE INDEX IF NOT EXISTS main.{index} ON {bare} ({listed})")

    def empty(self) -> None:
        super().empty()
        self.tables.run(f"DELETE FROM {self.state}")

    def prepare(self) -> None:
        self.gains.prepare()

    def _folded(self, source: str) -> str:
        """Gains added up by group; without columns to group by there is one group, also of nothing."""
        grouped = f" GROUP BY {', '.join(self.names())}" if self.groups else ""
        chosen = self.names() if self.groups else ["1"]
        nothing = {name: "'0'" if name.startswith(EXACT) else "0" for name in self.sums}
        sums = [f'coalesce({sql}, {nothing[name]}) AS "{name}"' for name, sql in self.sums.items()]
        return f"SELECT {', '.join([*chosen, *sums])} FROM ({source}){grouped}"

    def _gains(self, source: str) -> str:
        targets = "".join(f', "{target.name}" AS "$t{i}"' for i, target in enumerate(self.targets))
        group = "".join(f"{name}, " for name in self.names()) if self.groups else ""
        return f'SELECT {group}"{COUNT}" AS "$n"{targets} FROM {source}'

    def _gain_names(self) -> list[str]:
        return [*(self.names() if self.groups else []), *(f'"{target.name}"' for target in self.targets), f'"{COUNT}"']

    def fill(self) -> None:
        self.forget_totals()
        select = self.tables.select(self.step.full)
        renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate(self._gain_names()))
        source = f"(SELECT {renamed} FROM ({select.sql}))"
        self.tables.run(f"INSERT INTO {self.state} {self._folded(self._gains(source))}", select.parameters, self.relation.name)
        self.evaluate_totals()

    def forget_totals(self) -> None:
        """Where everything is one group there are totals of nothing, too."""
        if not self.groups:
            self.tables.run(f"DELETE FROM {self.state}")

    def evaluate_totals(self) -> None:
        """The rows, which are not there yet, of the groups whose totals are."""
        group = "".join(f"s.{name}, " for name in self.names()) if self.groups else ""
        values = {f'"$v{i}"': sql for i, sql in enumerate(self.values("s"))}
        chosen = ", ".join(f"{sql} AS {name}" for name, sql in values.items())
        self.tables.run(
            f"INSERT INTO {self.stored.table} SELECT {group}{', '.join(values)} FROM (SELECT s.*, {chosen} FROM {self.state} AS s) AS s"
            f" WHERE {' AND '.join(f'{name} IS NOT NULL' for name in values)}",
            relation=self.relation.name,
        )

    def notice(self, group: Group, signs: Signs) -> None:
        self.touched += self.gains.collect(group)

    def forget(self) -> None:
        self.gains.forget()
        self.stored.changes.forget()

    @cached_property
    def _added(self) -> str:
        added = ", ".join(
            f'"{name}" = vk_exact_add("{name}", excluded."{name}")'
            if name.startswith(EXACT)
            else f'"{name}" = "{name}" + excluded."{name}"'
            for name in self.sums
        )
        return f" WHERE TRUE ON CONFLICT DO UPDATE SET {added}"

    def settle(self) -> None:
        few = self.gains.few()
        if few is not None:
            self._settle_rows(few)
            return
        chosen = ", ".join(self.names()) if self.groups else "1"
        self.touch(f"SELECT {chosen} FROM {self.gain} WHERE TRUE")
        self.tables.run(
            f"INSERT INTO {self.state} SELECT * FROM ({self._folded(self._gains(self.gain))}){self._added}",
            relation=self.relation.name,
        )
        if self.groups:
            self.tables.run(
                f"DELETE FROM {self.state} WHERE rowid IN (SELECT s.rowid FROM {self.groups_touched} AS t CROSS JOIN {self.state} AS s"
                f' ON {self.same("s", "t")} WHERE s."$n" = 0)'
            )
        values = [f'CASE WHEN s."$n" IS NOT NULL THEN {value} END' for value in self.values("s")]
        self.tell(values, f" LEFT JOIN {self.state} AS s ON {self.same('s', 't')}")

    @cached_property
    def _of_state(self) -> tuple[str, str, str]:
        """A group's totals: something added, which gives the values; the first ones; none."""
        table = self.state.removeprefix("main.")
        values = [f'CASE WHEN "$n" <> 0 THEN {value} END' if self.groups else value for value in self.values(table)]
        told = f' RETURNING rowid, "$n", {", ".join(values)}'
        added = ", ".join(
            f'"{name}" = vk_exact_add("{name}", ?)' if name.startswith(EXACT) else f'"{name}" = "{name}" + ?'
            for name in self.sums
        )
        places = ", ".join("?" * (max(1, len(self.groups)) + len(self.sums)))
        return (
            f"UPDATE {self.state} SET {added} WHERE {self.tables.given(self.groups)}{told}",
            f"INSERT INTO {self.state} VALUES ({places}){told}",
            f"DELETE FROM {self.state} WHERE rowid = ?",
        )

    def _settle_rows(self, gains: list[tuple[Row, int]]) -> None:
        add, insert, delete = self._of_state
        width, name = len(self.groups), self.relation.name
        by_group: dict[Row, list[tuple[Row, int]]] = {}
        for row, gained in gains:
            by_group.setdefault(row[:width], []).append((row[width:], gained))
        for group, rows in by_group.items():
            self.touched += 1
            sums = self._sums_of(rows)
            found = self.tables.fetch(add, (*sums, *group), name) or self.tables.fetch(insert, (*(group or (1,)), *sums), name)
            [(rowid, number, *values)] = found
            if number == 0 and self.groups:
                self.tables.run(delete, (rowid,))
            self.tell_group(group, self.row_of(group), tuple(values))

    def _sums_of(self, gains: list[tuple[Row, int]]) -> list[int | str]:
        """``sums`` of few rows of targets, each with how often it comes."""
        found: list[int | str] = [sum(number for _, number in gains)]
        for i, target in enumerate(self.targets):
            there = [(row[i], number) for row, number in gains if row[i] is not None]
            found.append(sum(number for _, number in there))
            if target.type.kind is Kind.FLOAT:
                exact = ExactSum()
                for value, number in there:
                    exact.step(value, number)
                found.append(exact.finalize())
            else:
                found.append(sum(number * (value >> 32) for value, number in there))
                found.append(sum(number * (value & 0xFFFFFFFF) for value, number in there))
        return found


class ExtremeKeeper(_GroupKeeper):
    """min and max: the first or last value of the group in an index."""

    def __init__(self, tables: Tables, step: Extreme) -> None:
        super().__init__(tables, step.relation, len(step.groups))
        self.step = step
        self.source = tables.relations[step.source]
        # What came and went in each group that is touched, as long as it is little.
        self._groups: dict[Row, list[Any]] = {}
        self._in_table = False

    def prepare(self) -> None:
        self.tables.ordered_index(self.source, (*self.step.groups, self.step.target))

    def _names(self, alias: str) -> list[str]:
        return [f"{alias}.{self.tables.name(self.source.columns[i].name)}" for i in self.step.groups]

    def fill(self) -> None:
        target = f"r.{self.tables.name(self.source.columns[self.step.target].name)}"
        groups = self._names("r")
        grouped = f" GROUP BY {', '.join(groups)}" if groups else ""
        value = f"{self.step.operation}({target})"
        chosen = ", ".join([*groups, value])
        self.tables.run(
            f"INSERT INTO {self.stored.table} SELECT {chosen} FROM {self.tables.table(self.source)} AS r{grouped}"
            f" HAVING {value} IS NOT NULL"
        )

    def notice(self, group: Group, signs: Signs) -> None:
        changes = self.tables.changes[self.step.source]
        if changes.few and not self._in_table:
            for row, _ in changes.rows():
                self._groups.setdefault(tuple([row[i] for i in self.step.groups]), []).append(row[self.step.target])
            self.tables.noted(self)
            return
        self._in_table = True
        chosen = ", ".join(self._names("c")) or "1"
        self.touch(f"SELECT DISTINCT {chosen} FROM {changes.in_table()} AS c WHERE TRUE")

    def forget(self) -> None:
        self._groups, self._in_table = {}, False
        self.stored.changes.forget()

    def _first(self, given: list[str]) -> str:
        """The least or greatest value of a group whose columns are equal to these."""
        target = f"r.{self.tables.name(self.source.columns[self.step.target].name)}"
        where = "".join(f"{a} IS {b} AND " for a, b in zip(self._names("r"), given, strict=False))
        direction = "ASC" if self.step.operation == "min" else "DESC"
        return (
            f"SELECT {target} FROM {self.tables.table(self.source)} AS r WHERE {where}{target} IS NOT NULL"
            f" ORDER BY {target} {direction} LIMIT 1"
        )

    @cached_property
    def _first_of_one(self) -> str:
        return self._first(["?"] * len(self.groups))

    def settle(self) -> None:
        if self._in_table:
            self.tell([f"({self._first(self.names('t'))})"], "")
            return
        is_inner = gt if self.step.operation == "min" else lt
        for group, values in self._groups.items():
            self.touched += 1
            found = self.row_of(group)
            if found is not None and all(value is None or is_inner(value, found[1]) for value in values):
                continue  # neither the value that is first nor one before it
            first = self.tables.fetch(self._first_of_one, group)
            self.tell_group(group, found, first[0] if first else (None,))
