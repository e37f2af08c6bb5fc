"""count, sum and mean: arithmetic on what is stored for each group, exact for integers, decimals and floats.

A group is there as long as it has derivations, and then each aggregate has a value. So what is stored stands in the group's own row,
behind its values: one row to find and to change. Two things are otherwise, and have a table of their own for what is stored: a mean of
values all of which may be NULL, and one group of everything, which is there also without a derivation.

Minima and maxima of the same rows are values of the group, too. Nothing is stored for them: they are looked up in an index.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from viewkeeper.engines.keep.changes import Row
from viewkeeper.engines.keep.gains import Gains
from viewkeeper.engines.keep.grouping import GroupKeeper, Lookup
from viewkeeper.engines.keep.keeper import Signs
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.layout import column_definition
from viewkeeper.engines.scalar import ExactSum
from viewkeeper.engines.sqlite_dialect import sum_parts
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import COUNT, ID, First, Group, Grouped
from viewkeeper.program.types import MAX_PRECISION, NUMBER, SYMBOL, Kind, Type

EXACT = "$exact"


def total_keeper(tables: Tables, step: Grouped) -> TotalKeeper:
    """Who keeps the totals of a step."""
    targets = step.gains.columns[len(step.groups) : -1]
    may_be_missing = any(
        aggregate.operation == "mean" and place is not None and targets[place].type.nullable
        for aggregate, place in zip(step.aggregates, step.targets, strict=True)
    )
    may_be_missing |= any(_reads_null(tables, first) for first in step.firsts if first is not None)
    return TotalsApart(tables, step) if may_be_missing or not step.groups else TotalsWithin(tables, step)


def _reads_null(tables: Tables, first: First) -> bool:
    return tables.relations[first.source].columns[first.target].type.nullable


class TotalKeeper(GroupKeeper, ABC):
    """``state``: a table of groups and their totals, into which they are computed at first."""

    state: str

    def __init__(self, tables: Tables, step: Grouped) -> None:
        super().__init__(tables, step.relation, len(step.groups))
        self.step = step
        self._gained = step.gains.columns[len(step.groups) : -1]
        # Those that are summed up.
        self.targets = self._gained[: len({place for place in step.targets if place is not None})]
        self.gains = Gains(tables, step.relation, step.gains, step.changes, stays=True)
        self.gain = self.gains.table
        self.lookups = [None if first is None else Lookup(tables, first) for first in step.firsts]

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

    def storage(self) -> dict[str, str]:
        return {name: "TEXT" if name.startswith(EXACT) else "INTEGER" for name in self.sums}

    def added(self, to: str, more: str) -> dict[str, str]:
        """Each total with something added to it; ``{}`` in both stands for its name."""
        return {
            name: f"vk_exact_add({to}, {more})".replace("{}", f'"{name}"')
            if name.startswith(EXACT)
            else f"{to} + {more}".replace("{}", f'"{name}"')
            for name in self.sums
        }

    def values(self, alias: str) -> list[str]:
        """The results of a group."""
        aggregates = zip(self.step.aggregates, self.step.targets, self.lookups, self.results, strict=True)
        return [
            self._value(alias, aggregate.operation, target, result.type)
            if lookup is None
            else f"({lookup.sql(self.names(alias) if self.groups else [])})"
            for aggregate, target, lookup, result in aggregates
        ]

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

    def prepare(self) -> None:
        self.gains.prepare()
        self.make_indexes()

    def make_indexes(self) -> None:
        """Those in which minima and maxima are looked up."""
        for lookup in self.lookups:
            if lookup is not None:
                lookup.make_index()

    def folded(self, source: str) -> str:
        """Gains added up by group; without columns to group by there is one group, also of nothing."""
        grouped = f" GROUP BY {', '.join(self.names())}" if self.groups else ""
        chosen = self.names() if self.groups else ["1"]
        sums = [f'coalesce({sql}, {_nothing(name)}) AS "{name}"' for name, sql in self.sums.items()]
        return f"SELECT {', '.join([*chosen, *sums])} FROM ({source}){grouped}"

    def of_gains(self, source: str) -> str:
        targets = "".join(f', "{target.name}" AS "$t{i}"' for i, target in enumerate(self.targets))
        group = "".join(f"{name}, " for name in self.names()) if self.groups else ""
        return f'SELECT {group}"{COUNT}" AS "$n"{targets} FROM {source}'

    def _gain_names(self) -> list[str]:
        return [*(self.names() if self.groups else []), *(f'"{target.name}"' for target in self._gained), f'"{COUNT}"']

    def fill(self) -> None:
        self.make_indexes()
        self.forget_totals()
        select = self.tables.select(self.step.full)
        renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate(self._gain_names()))
        source = f"(SELECT {renamed} FROM ({select.sql}))"
        self.tables.run(f"INSERT INTO {self.state} {self.folded(self.of_gains(source))}", select.parameters, self.relation.name)
        self.evaluate_totals()

    def forget_totals(self) -> None:
        """Nothing may be in the way of totals that are computed at first."""

    @abstractmethod
    def evaluate_totals(self) -> None:
        """The rows, which are not there yet, of the groups whose totals are."""

    def notice(self, group: Group, signs: Signs) -> None:
        self.touched += self.gains.collect(group)

    def forget(self) -> None:
        self.gains.forget()
        self.stored.changes.forget()

    def settle(self) -> None:
        few = self.gains.few()
        if few is None:
            self.settle_table()
            return
        width = len(self.groups)
        by_group: dict[Row, list[tuple[Row, int]]] = {}
        for row, gained in few:
            by_group.setdefault(row[:width], []).append((row[width:], gained))
        for group, rows in by_group.items():
            self.touched += 1
            self.settle_group(group, self._sums_of(rows))

    @abstractmethod
    def settle_table(self) -> None:
        """Brings in the gains that are in their table."""

    @abstractmethod
    def settle_group(self, group: Row, sums: list[int | str]) -> None:
        """Brings in what a group gains in all."""

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


class TotalsWithin(TotalKeeper):
    """Totals in the group's own row."""

    def __init__(self, tables: Tables, step: Grouped) -> None:
        super().__init__(tables, step)
        totals = tuple(Column(name, SYMBOL if storage == "TEXT" else NUMBER) for name, storage in self.storage().items())
        name, old = self.relation.name, tuple(Column(f"$o{i}", c.type.optional()) for i, c in enumerate(self.results))
        new = tuple(Column(f"$v{i}", c.type.optional()) for i, c in enumerate(self.results))
        self.state = tables.temporary(Relation(f"{name}$totals", (*self.groups, *totals)))
        # Groups that gain something, with the number of their row and its values before and after.
        number = Column(ID, NUMBER.optional())
        self._next = tables.temporary(Relation(f"{name}$next", (*self.groups, number, *old, *totals, *new)))
        self._columns = ", ".join([*self.names(), *(tables.name(c.name) for c in self.results), *(f'"{n}"' for n in self.sums)])

    def create(self) -> None:
        self.tables.engine.create_table(self.stored.relation, self.storage())

    def evaluate_totals(self) -> None:
        values, sums = ", ".join(self.values("s")), ", ".join(f's."{name}"' for name in self.sums)
        self.tables.run(
            f"INSERT INTO {self.stored.table} ({self._columns}) SELECT {', '.join(self.names('s'))}, {values}, {sums} FROM {self.state} AS s",
            relation=self.relation.name,
        )
        self.tables.run(f"DELETE FROM {self.state}")

    def settle_table(self) -> None:
        self.tables.used(self.state, self._next)
        name = self.relation.name
        self.tables.run(f"INSERT INTO {self.state} {self.folded(self.of_gains(self.gain))}", relation=name)
        self.touched += self.tables.run(self._gaining, relation=name).rowcount
        update, delete, insert = self._brought_in
        self.tables.run(update)
        regrouped = self.tables.run(delete).rowcount + self.tables.run(insert).rowcount
        for rows, sign in zip(self._different, (-1, 1), strict=True):
            self.stored.changes.note(rows, sign=sign, paired=0 if regrouped else len(self.groups))

    @cached_property
    def _gaining(self) -> str:
        """What becomes of the groups that gain something."""
        sums = [
            sql.replace(f'h."{name}"', f'coalesce(h."{name}", {_nothing(name)})') + f' AS "{name}"'
            for name, sql in self.added("h.{}", "t.{}").items()
        ]
        old = [f'h.{self.tables.name(c.name)} AS "$o{i}"' for i, c in enumerate(self.results)]
        joined = (
            f'SELECT {", ".join(self.names("t"))}, h.rowid AS "{ID}", {", ".join(old)}, {", ".join(sums)}'
            f" FROM {self.state} AS t LEFT JOIN {self.stored.table} AS h ON {self.same('h', 't')}"
        )
        values = ", ".join(f'CASE WHEN s."$n" <> 0 THEN {value} END' for value in self.values("s"))
        return f"INSERT INTO {self._next} SELECT s.*, {values} FROM ({joined}) AS s"

    @cached_property
    def _different(self) -> tuple[str, str]:
        """Which rows go, and which come. A group that is left without derivations goes."""
        group, width = "".join(f"{name}, " for name in self.names("t")), range(len(self.results))
        old, new = ("".join(f't."${which}{i}", ' for i in width) for which in "ov")
        same = " AND ".join(f't."$o{i}" IS t."$v{i}"' for i in width)
        return (
            f'SELECT {group}{old}-1 FROM {self._next} AS t WHERE t."{ID}" IS NOT NULL AND (t."$n" = 0 OR NOT ({same}))',
            f'SELECT {group}{new}1 FROM {self._next} AS t WHERE t."$n" <> 0 AND (t."{ID}" IS NULL OR NOT ({same}))',
        )

    @cached_property
    def _brought_in(self) -> tuple[str, str, str]:
        table, following = self.stored.table, self._next
        results = [f'{self.tables.name(c.name)} = t."$v{i}"' for i, c in enumerate(self.results)]
        updated = ", ".join([*results, *(f'"{name}" = t."{name}"' for name in self.sums)])
        values = [*(f't."$v{i}"' for i in range(len(self.results))), *(f't."{name}"' for name in self.sums)]
        return (
            f'UPDATE {table} AS h SET {updated} FROM {following} AS t WHERE h.rowid = t."{ID}" AND t."$n" <> 0',
            f'DELETE FROM {table} WHERE rowid IN (SELECT t."{ID}" FROM {following} AS t WHERE t."$n" = 0)',
            f"INSERT INTO {table} ({self._columns}) SELECT {', '.join([*self.names('t'), *values])} FROM {following} AS t"
            f' WHERE t."{ID}" IS NULL AND t."$n" <> 0',
        )

    @cached_property
    def _of_totals(self) -> tuple[str, str, str, str]:
        """A group's row: what it is and becomes when something is added; it becomes that; a new one; it goes."""
        table, results = self.stored.table, [self.tables.name(c.name) for c in self.results]
        old = [f'{result} AS "$o{i}"' for i, result in enumerate(results)]
        sums = [f'{sql} AS "{name}"' for name, sql in self.added("{}", "?").items()]
        inner = ", ".join([f'rowid AS "{ID}"', *self.names(), *old, *sums])
        totals = [f's."{name}"' for name in self.sums]
        values = [f'CASE WHEN s."$n" <> 0 THEN {value} END' for value in self.values("s")]
        told = ", ".join([f's."{ID}"', *(f's."$o{i}"' for i in range(len(results))), *values, *totals])
        given = ", ".join([*(f"? AS {name}" for name in self.names()), *(f'? AS "{name}"' for name in self.sums)])
        updated = ", ".join(f"{name} = ?" for name in (*results, *(f'"{name}"' for name in self.sums)))
        return (
            f"SELECT {told} FROM (SELECT {inner} FROM {table} WHERE {self.tables.given(self.groups)}) AS s",
            f"UPDATE {table} SET {updated} WHERE rowid = ?",
            f"INSERT INTO {table} ({self._columns}) SELECT {', '.join([*self.names('s'), *self.values('s'), *totals])}"
            f" FROM (SELECT {given}) AS s RETURNING {', '.join(_returned(c, n) for c, n in zip(self.results, results, strict=True))}",
            f"DELETE FROM {table} WHERE rowid = ?",
        )

    def settle_group(self, group: Row, sums: list[int | str]) -> None:
        look, update, insert, delete = self._of_totals
        name, width, changes = self.relation.name, len(self.results), self.stored.changes
        found = self.tables.fetch(look, (*sums, *group), name)
        if not found:
            [new] = self.tables.fetch(insert, (*group, *sums), name)
            changes.add([((*group, *new), 1)])
            return
        [(rowid, *row)] = found
        old, fresh = tuple(row[:width]), tuple(row[width : 2 * width])
        if row[2 * width] == 0:
            self.tables.run(delete, (rowid,))
            changes.add([((*group, *old), -1)])
            return
        self.tables.run(update, (*(old if old == fresh else fresh), *row[2 * width :], rowid))
        if old != fresh:
            changes.add([((*group, *old), -1), ((*group, *fresh), 1)], paired=len(group))


class TotalsApart(TotalKeeper):
    """Totals in a table of their own: a group may have some, but no row."""

    def __init__(self, tables: Tables, step: Grouped) -> None:
        super().__init__(tables, step)
        self.state = f"main.{tables.dialect.identifier(tables.dialect.state(step.relation.name))}"
        self.make_touched()

    def create(self) -> None:
        super().create()
        groups = [column_definition(c) for c in self.groups] or ["present INTEGER NOT NULL"]
        totals = [f'"{name}" {storage} NOT NULL' for name, storage in self.storage().items()]
        self.tables.run(f"CREATE TABLE IF NOT EXISTS {self.state} ({', '.join(groups + totals)}) STRICT")
        bare = self.state.removeprefix("main.")
        index = self.tables.dialect.identifier(f"groups of {bare[1:-1]}")
        listed = ", ".join(self.tables.identities(self.groups)) or "present"
        self.tables.run(f"CREATE UNIQUE INDEX IF NOT EXISTS main.{index} ON {bare} ({listed})")

    def empty(self) -> None:
        super().empty()
        self.tables.run(f"DELETE FROM {self.state}")

    def forget_totals(self) -> None:
        # Where everything is one group there are totals of nothing, too.
        if not self.groups:
            self.tables.run(f"DELETE FROM {self.state}")

    def evaluate_totals(self) -> None:
        group = "".join(f"s.{name}, " for name in self.names()) if self.groups else ""
        values = {f'"$v{i}"': sql for i, sql in enumerate(self.values("s"))}
        chosen = ", ".join(f"{sql} AS {name}" for name, sql in values.items())
        self.tables.run(
            f"INSERT INTO {self.stored.table} SELECT {group}{', '.join(values)} FROM (SELECT s.*, {chosen} FROM {self.state} AS s) AS s"
            f" WHERE {' AND '.join(f'{name} IS NOT NULL' for name in values)}",
            relation=self.relation.name,
        )

    def settle_table(self) -> None:
        chosen = ", ".join(self.names()) if self.groups else "1"
        self.touch(f"SELECT {chosen} FROM {self.gain} WHERE TRUE")
        added = ", ".join(f'"{name}" = {sql}' for name, sql in self.added("{}", "excluded.{}").items())
        self.tables.run(
            f"INSERT INTO {self.state} SELECT * FROM ({self.folded(self.of_gains(self.gain))}) WHERE TRUE ON CONFLICT DO UPDATE SET {added}",
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
        told = f' RETURNING +rowid, +"$n", {", ".join(f"+({value})" for value in values)}'
        added = ", ".join(f'"{name}" = {sql}' for name, sql in self.added("{}", "?").items())
        places = ", ".join("?" * (max(1, len(self.groups)) + len(self.sums)))
        return (
            f"UPDATE {self.state} SET {added} WHERE {self.tables.given(self.groups)}{told}",
            f"INSERT INTO {self.state} VALUES ({places}){told}",
            f"DELETE FROM {self.state} WHERE rowid = ?",
        )

    def settle_group(self, group: Row, sums: list[int | str]) -> None:
        add, insert, delete = self._of_state
        fetch, name = self.tables.fetch, self.relation.name
        found = fetch(add, (*sums, *group), name) or fetch(insert, (*(group or (1,)), *sums), name)
        [(rowid, number, *values)] = found
        if number == 0 and self.groups:
            self.tables.run(delete, (rowid,))
        self.tell_group(group, self.row_of(group), tuple(values))


def _returned(column: Column, name: str) -> str:
    """A column behind RETURNING, where SQLite takes the first column's type for that of all: a whole number beside a float came back as a float."""
    return f"CAST({name} AS REAL)" if column.type.kind is Kind.FLOAT else f"+{name}"


def _nothing(total: str) -> str:
    """What a total is of no rows."""
    return "'0'" if total.startswith(EXACT) else "0"
