"""Aggregates: each group with totals, or for min and max with an index that finds the next value."""

from __future__ import annotations

from functools import cached_property

from viewkeeper.engines.embedded import column_definition
from viewkeeper.engines.keep.keeper import Gains, Signs, Stored
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.sqlite_dialect import fit_digits
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.plan import COUNT, PRESENT, Extreme, Group, Grouped
from viewkeeper.program.types import MAX_PRECISION, NUMBER, Kind

EXACT = "$exact"


class _GroupKeeper:
    """One row for each group: the columns of the group, then the value."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.relations, self.tables, self.relation = (relation,), tables, relation
        self.touched = 0
        self.groups = relation.columns[:-1]
        self.stored = Stored(tables, relation)
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

    def tell(self, value: str, source: str) -> None:
        """Notes what changes in the touched groups t, whose new value is an expression over ``source``, and brings it in."""
        old, result = self.stored.table, self.tables.name(self.relation.columns[-1].name)
        group = "".join(f"t.{self.tables.name(c.name)}, " for c in self.groups)
        fresh = f'SELECT t.*, {value} AS "$v" FROM {self.groups_touched} AS t{source}'
        changed = self.stored.note(
            f"SELECT {group}h.{result}, -1 FROM ({fresh}) AS t CROSS JOIN {old} AS h ON {self.same('h', 't')}"
            f' WHERE h.{result} IS NOT t."$v"'
        )
        changed += self.stored.note(
            f'SELECT {group}t."$v", 1 FROM ({fresh}) AS t LEFT JOIN {old} AS h ON {self.same("h", "t")}'
            f' WHERE t."$v" IS NOT NULL AND h.{result} IS NOT t."$v"'
        )
        if changed:
            self.stored.apply()


class TotalKeeper(_GroupKeeper):
    """count, sum and mean: arithmetic on what is stored for each group, exact for integers, decimals and floats."""

    def __init__(self, tables: Tables, step: Grouped) -> None:
        super().__init__(tables, step.relation)
        self.step = step
        self.gain = tables.temporary(step.gains)
        self.state = f"main.{tables.dialect.identifier(tables.dialect.state(step.relation.name))}"
        self.target = None if step.aggregate.target is None else step.gains.columns[-2]
        self.gains = Gains(tables, step.changes)

    # What is summed up for a group: name → expression over gains ($t is the target, $n how often it comes)

    @cached_property
    def sums(self) -> dict[str, str]:
        found = {"$n": 'sum("$n")'}
        if self.target is None:
            return found
        found["$m"] = 'sum(CASE WHEN "$t" IS NULL THEN 0 ELSE "$n" END)'
        if self.target.type.kind is Kind.FLOAT:
            return found | {EXACT: 'vk_exact_sum("$t", "$n")'}
        return found | {"$high": 'sum("$n" * ("$t" >> 32))', "$low": 'sum("$n" * ("$t" & 4294967295))'}

    def value(self, alias: str) -> str:
        """The result of a group."""
        n, m, high, low = (f'{alias}."${name}"' for name in ("n", "m", "high", "low"))
        result, operation = self.relation.columns[-1].type, self.step.aggregate.operation
        if operation == "count" or self.target is None:
            return n
        kind, scale = self.target.type.kind, self.target.type.scale
        if kind is Kind.FLOAT:
            return f'vk_exact_value({alias}."{EXACT}", {m if operation == "mean" else "1"})'
        if operation == "mean":
            return f"CASE WHEN {m} > 0 THEN vk_mean_parts({high}, {low}, {m} * {10**scale}) END"
        total = f"vk_sum_parts({high}, {low})"
        return fit_digits(total, MAX_PRECISION) if result.kind is Kind.DECIMAL else total

    def create(self) -> None:
        super().create()
        groups = [column_definition(c) for c in self.groups] or ["present INTEGER NOT NULL"]
        totals = [f'"{name}" {"TEXT" if name == EXACT else "INTEGER"} NOT NULL' for name in self.sums]
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
        nothing = dict.fromkeys(self.sums, "0") | {EXACT: "'0'"}
        sums = [f'coalesce({sql}, {nothing[name]}) AS "{name}"' for name, sql in self.sums.items()]
        return f"SELECT {', '.join([*chosen, *sums])} FROM ({source}){grouped}"

    def _gains(self, source: str) -> str:
        target = "" if self.target is None else f', "{self.target.name}" AS "$t"'
        group = "".join(f"{name}, " for name in self.names()) if self.groups else ""
        return f'SELECT {group}"{COUNT}" AS "$n"{target} FROM {source}'

    def fill(self) -> None:
        self.forget_totals()
        select = self.tables.select(self.step.full)
        names = [*(self.names() if self.groups else []), *([f'"{self.target.name}"'] if self.target else []), f'"{COUNT}"']
        renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate(names))
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
        self.tables.run(
            f'INSERT INTO {self.stored.table} SELECT {group}"$v" FROM (SELECT s.*, {self.value("s")} AS "$v" FROM {self.state} AS s) AS s'
            ' WHERE "$v" IS NOT NULL',
            relation=self.relation.name,
        )

    def notice(self, group: Group, signs: Signs) -> None:
        self.tables.used(self.gain)
        for select in self.gains.of(group):
            sql = f"INSERT INTO {self.gain} {select.sql}"
            self.touched += self.tables.run(sql, select.parameters, self.relation.name).rowcount

    def settle(self) -> None:
        chosen = ", ".join(self.names()) if self.groups else "1"
        self.touch(f"SELECT {chosen} FROM {self.gain} WHERE TRUE")
        added = ", ".join(
            f'"{name}" = vk_exact_add("{name}", excluded."{name}")'
            if name == EXACT
            else f'"{name}" = "{name}" + excluded."{name}"'
            for name in self.sums
        )
        self.tables.run(
            f"INSERT INTO {self.state} SELECT * FROM ({self._folded(self._gains(self.gain))}) WHERE TRUE"
            f" ON CONFLICT DO UPDATE SET {added}",
            relation=self.relation.name,
        )
        if self.groups:
            self.tables.run(
                f"DELETE FROM {self.state} WHERE rowid IN (SELECT s.rowid FROM {self.groups_touched} AS t CROSS JOIN {self.state} AS s"
                f' ON {self.same("s", "t")} WHERE s."$n" = 0)'
            )
        self.tell(
            f'CASE WHEN s."$n" IS NOT NULL THEN {self.value("s")} END', f" LEFT JOIN {self.state} AS s ON {self.same('s', 't')}"
        )


class ExtremeKeeper(_GroupKeeper):
    """min and max: the first or last value of the group in an index."""

    def __init__(self, tables: Tables, step: Extreme) -> None:
        super().__init__(tables, step.relation)
        self.step = step
        self.source = tables.relations[step.source]

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
        chosen = ", ".join(self._names("c")) or "1"
        self.touch(f"SELECT DISTINCT {chosen} FROM {self.tables.table(f'{self.step.source}$change')} AS c WHERE TRUE")

    def settle(self) -> None:
        target = f"r.{self.tables.name(self.source.columns[self.step.target].name)}"
        pairs = zip(self._names("r"), self.names("t"), strict=False)
        where = "".join(f"{a} IS {b} AND " for a, b in pairs)
        direction = "ASC" if self.step.operation == "min" else "DESC"
        first = (
            f"(SELECT {target} FROM {self.tables.table(self.source)} AS r WHERE {where}{target} IS NOT NULL"
            f" ORDER BY {target} {direction} LIMIT 1)"
        )
        self.tell(first, "")
