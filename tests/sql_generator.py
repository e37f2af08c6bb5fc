"""Random SQL: tables, materialized views over them and over each other, and transactions that change the tables.

Values are few and often NULL, so that rows meet in joins, fall into the same groups and are there several times. Arithmetic stays
small: nothing overflows, nothing is divided by zero. What is not exact, such as a mean, is an output and never an input.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]

TYPES = {
    "i": "BIGINT", "m": "DECIMAL(10,2)", "d": "DOUBLE", "s": "STRING", "t": "DATE", "z": "TIMESTAMP", "b": "BOOLEAN",
}  # fmt: skip
LITERALS = {
    "i": ["0", "1", "2", "3", "-1"],
    "m": ["0.00", "1.50", "-2.25", "10.00", "0.05"],
    "d": ["0E0", "5E-1", "-1.5E0", "2E0"],
    "s": ["''", "'a'", "'b'", "'ab'", "'B a'"],
    "t": ["DATE '2023-12-31'", "DATE '2024-02-29'", "DATE '2024-03-01'"],
    "z": ["TIMESTAMP '2024-02-29 00:00:00'", "TIMESTAMP '2024-02-29 12:30:00'", "TIMESTAMP '2024-03-01 00:00:00.5'"],
    "b": ["TRUE", "FALSE"],
}
# A kind that is only shown: values that two right answers may round differently.
SHOWN = "q"
KINDS = "iiiimmdsssttzb"
COMPARISONS = ["=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True)
class Column:
    """The first letter of its name is its kind."""

    name: str
    required: bool = False

    @property
    def kind(self) -> str:
        return self.name[0]


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        columns = [f"{c.name} {TYPES[c.kind]}{' NOT NULL' if c.required else ''}" for c in self.columns]
        return f"CREATE TABLE {self.name} ({', '.join(columns + self._key())})"

    def _key(self) -> list[str]:
        return [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []


@dataclass(frozen=True)
class View:
    name: str
    query: str
    reads: frozenset[str]

    @property
    def sql(self) -> str:
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.query}"


@dataclass(frozen=True)
class Value:
    text: str
    kind: str


@dataclass
class Scope:
    """What can be named at a place. ``plain``: there are no subqueries here."""

    values: list[Value]
    outer: Scope | None = None
    plain: bool = False

    def of(self, kind: str) -> list[Value]:
        return [value for value in self.values if value.kind == kind]


@dataclass
class Query:
    text: str
    columns: tuple[Column, ...]


@dataclass
class Generator:
    """Everything of one seed."""

    seed: int
    views: list[View] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.sources: list[Table] = []
        self.read: set[str] = set()
        self.names = 0
        self.calm = False  # values must not grow: they are stored and changed again

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, some: Sequence[Any]) -> Any:
        return self.random.choice(some)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # ---- tables

    def schema(self) -> list[Table]:
        self.tables = [self.table(number) for number in range(1, self.random.randint(2, 4) + 1)]
        self.sources = list(self.tables)
        return self.tables

    def table(self, number: int) -> Table:
        kinds = ["i", *self.random.choices(KINDS, k=self.random.randint(1, 4))]
        counts: dict[str, int] = {}
        columns = []
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
            columns.append(Column(f"{kind}{counts[kind]}", self.chance(0.25)))
        key: tuple[str, ...] = ()
        if self.chance(0.5):
            key = tuple(self.random.sample([c.name for c in columns], self.pick([1, 1, 2]))) if self.chance(0.4) else ("i1",)
            columns = [Column(c.name, c.required or c.name in key) for c in columns]
        return Table(f"r{number}", tuple(columns), key)

    # ---- views

    def view(self) -> View:
        """One more view; later ones may read it."""
        self.read = set()
        query = self.query(self.pick([0, 1, 1, 1, 2]))
        name = f"v{len(self.views) + 1}"
        view = View(name, query.text, frozenset(self.read))
        self.views.append(view)
        self.sources.append(Table(name, query.columns))
        return view

    def forget(self, view: View) -> None:
        """A view that was refused: no later one reads it."""
        self.sources = [source for source in self.sources if source.name != view.name]

    # ---- queries

    def query(self, depth: int) -> Query:
        if depth and self.chance(0.15):
            return self.with_(depth)
        makers = [self.select] * 4 + [self.grouped] * 4 + [self.windowed] * 2 + [self.combined] * 2 + [self.first] * 1
        return self.pick(makers)(depth)

    def with_(self, depth: int) -> Query:
        before = list(self.sources)
        parts = []
        for _ in range(self.pick([1, 1, 2])):
            query, name = self.query(depth - 1), self.name("w")
            parts.append(f"{name} AS ({query.text})")
            self.sources += [Table(name, query.columns)] * 2
        query = self.query(depth - 1)
        self.sources = before
        return Query(f"WITH {', '.join(parts)} {query.text}", query.columns)

    def select(self, depth: int, kinds: Sequence[str] | None = None, outer: Scope | None = None) -> Query:
        source, scope = self.from_(depth, outer)
        if kinds is None:
            kinds = [
                self.pick(scope.values).kind if self.chance(0.7) else self.pick(KINDS) for _ in range(self.random.randint(1, 4))
            ]
        outputs = [Value(self.value(kind, scope, self.pick([0, 0, 1, 2])), kind) for kind in kinds]
        distinct = "DISTINCT " if self.chance(0.15) else ""
        return self.put(distinct, outputs, f"{source}{self.where(scope, depth)}")

    def put(self, distinct: str, outputs: Sequence[Value], rest: str) -> Query:
        columns = tuple(Column(self.name(value.kind)) for value in outputs)
        items = ", ".join(f"{value.text} AS {column.name}" for value, column in zip(outputs, columns, strict=True))
        return Query(f"SELECT {distinct}{items}{rest}", columns)

    def where(self, scope: Scope, depth: int, share: float = 0.6) -> str:
        if not self.chance(share):
            return ""
        return " WHERE " + " AND ".join(self.condition(scope, depth, True) for _ in range(self.pick([1, 1, 2])))

    def combined(self, depth: int) -> Query:
        kinds = self.random.choices(KINDS, k=self.random.randint(1, 3))
        first = self.select(max(depth - 1, 0), kinds)
        text = first.text
        for _ in range(self.pick([1, 1, 2])):
            operator = self.pick(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
            other = self.select(max(depth - 1, 0), kinds).text
            text = f"{text} {operator} {f'({other})' if self.chance(0.2) else other}"
        return Query(text, first.columns)

    def first(self, depth: int) -> Query:
        query = self.pick([self.select, self.combined, self.select])(depth)
        keys = [c.name + self.pick(["", " DESC", " DESC NULLS FIRST", " NULLS LAST"]) for c in query.columns]
        self.random.shuffle(keys)
        offset = f" OFFSET {self.random.randint(1, 2)}" if self.chance(0.3) else ""
        return Query(f"{query.text} ORDER BY {', '.join(keys)} LIMIT {self.random.randint(1, 4)}{offset}", query.columns)

    # ---- FROM

    def from_(self, depth: int, outer: Scope | None = None) -> tuple[str, Scope]:
        text, alias, columns = self.source(depth)
        scope = Scope([Value(f"{alias}.{c.name}", c.kind) for c in columns if c.kind != SHOWN], outer)
        names = [c.name for c in columns]
        joins = self.pick([0, 0, 1, 1, 1, 2]) if outer is None else self.pick([0, 0, 0, 1])
        for number in range(joins):
            right, alias, columns = self.source(depth)
            seen = [Value(f"{alias}.{c.name}", c.kind) for c in columns if c.kind != SHOWN]
            shared = [c.name for c in columns if c.name in names and c.kind != SHOWN]
            kind = self.pick(
                ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"]
            )
            if kind == "CROSS JOIN":
                text = self.pick(
                    [f"{text} CROSS JOIN {right}", f"{text}, {right}"] if number == 0 else [f"{text} CROSS JOIN {right}"]
                )
                scope.values += seen
            elif shared and joins == 1 and self.chance(0.35):
                name = self.pick(shared)
                text = f"{text} {kind} {right} USING ({name})"
                scope.values = [v for v in scope.values if not v.text.endswith(f".{name}")] + [Value(name, name[0])]
                if "SEMI" not in kind and "ANTI" not in kind:
                    scope.values += [v for v in seen if not v.text.endswith(f".{name}")]
            else:
                both = Scope([*scope.values, *seen], outer, plain=True)
                text = f"{text} {kind} {right} ON {self.join_condition(scope, Scope(seen), both)}"
                if "SEMI" not in kind and "ANTI" not in kind:
                    scope.values += seen
            names += [c.name for c in columns]
        if outer is None and depth and self.chance(0.15):
            text, value = self.lateral(text, scope, depth)
            scope.values.append(value)
        # A name that only one of them has needs no table before it.
        for place, value in enumerate(scope.values):
            name = value.text.partition(".")[2]
            if name and names.count(name) == 1 and self.chance(0.3) and outer is None:
                scope.values[place] = Value(name.upper() if self.chance(0.1) else name, value.kind)
        return f" FROM {text}", scope

    def lateral(self, text: str, scope: Scope, depth: int) -> tuple[str, Value]:
        kind, alias = self.pick(KINDS), self.name("a")
        column = self.name(kind)
        query = self.inner_select(kind, scope, depth)
        joined = f"{self.pick(['JOIN', 'LEFT JOIN'])} LATERAL ({query}) AS {alias}({column}) ON TRUE"
        return f"{text} {joined}", Value(f"{alias}.{column}", kind)

    def source(self, depth: int) -> tuple[str, str, tuple[Column, ...]]:
        alias = self.name("a")
        if depth and self.chance(0.3):
            query = self.query(depth - 1)
            text, columns = f"({query.text})", query.columns
        else:
            views = [s for s in self.sources if s.name[0] != "r"]
            table = self.pick(views if views and self.chance(0.35) else self.tables)
            self.read.add(table.name)
            text, columns = table.name, table.columns
        if all(c.kind == SHOWN for c in columns):
            return self.source(depth)
        return f"{text} {self.pick(['', 'AS '])}{alias}", alias, columns

    def join_condition(self, left: Scope, right: Scope, both: Scope) -> str:
        pairs = [(a, b) for a in left.values for b in right.values if a.kind == b.kind]
        parts = []
        if pairs and self.chance(0.9):
            a, b = self.pick(pairs)
            parts.append(f"{a.text} {'<=>' if self.chance(0.1) else '='} {b.text}")
        if not parts or self.chance(0.3):
            parts.append(self.condition(both, 0))
        return " AND ".join(parts)

    # ---- GROUP BY

    def grouped(self, depth: int, outer: Scope | None = None) -> Query:
        source, scope = self.from_(depth, outer)
        rest = f"{source}{self.where(scope, depth, 0.4)}"
        many = self.pick([0, 1, 1, 2, 2, 3])
        sets = many >= 1 and self.chance(0.2)
        columns = [Value(v.text, v.kind) for v in self.random.sample(scope.values, min(many, len(scope.values)))]
        if not sets and columns and self.chance(0.3):
            kind = self.pick(KINDS)
            columns[0] = Value(self.value(kind, Scope(scope.values, plain=True), 1), kind)
            if not any(v.text in columns[0].text for v in scope.values):
                columns.pop(0)
        outputs = [column for column in columns if self.chance(0.85)]
        after = Scope(list(columns), plain=True)
        for _ in range(self.random.randint(0 if outputs else 1, 3)):
            aggregate = self.aggregate(scope)
            if aggregate.kind != SHOWN:
                after.values.append(aggregate)
                if self.chance(0.25):
                    aggregate = Value(self.value(aggregate.kind, after, 1), aggregate.kind)
            outputs.append(aggregate)
        if not sets and self.chance(0.2):
            # Over aggregates that need not be outputs. Groups of several sets may be the same row in all of this.
            outputs.append(self.window(Scope([*columns, self.comparable_aggregate(scope)], plain=True)))
        if sets:
            group, more = self.grouping_sets([c.text for c in columns])
            outputs += [Value(text, "i") for text in more]
        else:
            group = ", ".join(c.text for c in columns)
        if group:
            rest += f" GROUP BY {group}"
        if self.chance(0.3) and (group or self.chance(0.2)):
            more = [*after.values, self.comparable_aggregate(scope)]
            rest += f" HAVING {self.condition(Scope(more, plain=True), 0)}"
        distinct = "DISTINCT " if self.chance(0.08) else ""
        return self.put(distinct, outputs, rest)

    def grouping_sets(self, columns: list[str]) -> tuple[str, list[str]]:
        listed = ", ".join(columns)
        flags = [f"grouping({columns[0]})"] if self.chance(0.4) else []
        match self.pick(["rollup", "cube", "sets", "with"]):
            case "rollup":
                return f"ROLLUP ({listed})", flags
            case "cube":
                return f"CUBE ({listed})", flags
            case "with":
                return f"{listed} WITH ROLLUP", flags
        sets = [f"({', '.join(self.random.sample(columns, self.random.randint(1, len(columns))))})", f"({listed})"]
        return f"GROUPING SETS ({', '.join(sets + ['()'] * self.chance(0.5))})", flags

    def comparable_aggregate(self, scope: Scope) -> Value:
        while True:
            found = self.aggregate(scope)
            if found.kind != SHOWN:
                return found

    def aggregate(self, scope: Scope) -> Value:
        plain = Scope(scope.values, scope.outer, plain=True)
        some: Value = self.pick(scope.values)
        kind = some.kind
        text = some.text if self.chance(0.7) else self.value(kind, plain, 1)
        choices = [("count(*)", "i"), (f"count({text})", "i"), (f"count(DISTINCT {text})", "i")]
        if kind == "b":
            choices += [(f"bool_and({text})", "b"), (f"bool_or({text})", "b"), (f"count_if({text})", "i")] * 2
        choices += [(f"min({text})", kind), (f"max({text})", kind)] * 2
        if kind in "imd" and not self.calm:
            choices += [(f"sum({text})", kind)] * 4 + [(f"avg({text})", SHOWN)] * 2 + [(f"sum(DISTINCT {text})", kind)]
            deviation = self.pick(["stddev", "var_pop", "variance", "stddev_pop"])
            choices += [(f"{deviation}({text})", SHOWN), (f"avg(DISTINCT {text})", SHOWN)]
        if self.chance(0.05):
            choices = [(f"count(DISTINCT {text}, {self.pick(scope.values).text})", "i")]
        found, result = self.pick(choices)
        if self.chance(0.2):
            found += f" FILTER (WHERE {self.condition(plain, 0)})"
        return Value(found, result)

    # ---- OVER

    def windowed(self, depth: int) -> Query:
        source, scope = self.from_(depth)
        outputs = [self.pick(scope.values) for _ in range(self.random.randint(1, 3))]
        outputs += [self.window(scope) for _ in range(self.pick([1, 1, 2]))]
        self.random.shuffle(outputs)
        rest = f"{source}{self.where(scope, depth, 0.4)}"
        if self.chance(0.25):
            chosen = self.window(scope)
            rest += f" QUALIFY {chosen.text} {self.pick(COMPARISONS)} {self.value(chosen.kind.replace(SHOWN, 'd'), scope, 0)}"
        return self.put("", outputs, rest)

    def window(self, scope: Scope) -> Value:
        partition = [v.text for v in self.random.sample(scope.values, min(self.pick([0, 1, 1, 2]), len(scope.values)))]
        by = f"PARTITION BY {', '.join(partition)}" if partition else ""
        # Rows that this does not tell apart are the same.
        total = self.order([v.text for v in scope.values])
        some = self.order([self.pick(scope.values).text])
        value = self.pick(scope.values)
        text, kind = value.text, value.kind
        frame = self.pick([
            "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
        ])  # fmt: skip
        numbers = [("sum", kind), ("avg", SHOWN)] if kind in "imd" else []
        chosen = f"FILTER (WHERE {self.condition(Scope(scope.values, plain=True), 0)})" if self.chance(0.2) else ""
        ignoring = self.pick(["", "IGNORE NULLS"])
        function, result = self.pick([("count", "i"), ("min", kind), ("max", kind), *numbers, *numbers])
        return Value(
            *self.pick(
                [
                    (f"row_number() OVER ({by} {total})", "i"),
                    (f"{self.pick(['rank', 'dense_rank'])}() OVER ({by} {some})", "i"),
                    (f"percent_rank() OVER ({by} {some})", SHOWN),
                    (f"{self.pick(['lag', 'lead'])}({text}) {ignoring} OVER ({by} {total})", kind),
                    (f"{self.pick(['lag', 'lead'])}({text}, 2, {self.literal(kind)}) {ignoring} OVER ({by} {total})", kind),
                    (f"{self.pick(['first_value', 'last_value'])}({text}) {ignoring} OVER ({by} {total} {frame})", kind),
                    (f"{function}({text}) {chosen} OVER ({by})", result),
                    (f"{function}({text}) OVER ({by} {total} {frame})", result),
                    (f"{function}({text}) OVER ({by} {self.distance(scope, partition) or some})", result),
                    (f"ntile(2) OVER ({by} {total})", "i"),
                ]
            )
        )

    def distance(self, scope: Scope, partition: list[str]) -> str:
        """An order with a frame of distances in it; nothing if there is no column that has some."""
        keys = [v for kind in "imdt" for v in scope.of(kind) if v.text not in partition]
        if not keys or self.chance(0.4):
            return ""
        key = self.pick(keys)
        some = {"m": ["1.5", "2"], "t": ["30", "INTERVAL 40 DAYS"]}.get(key.kind, ["1", "3"])
        low, high = self.pick([("PRECEDING", "FOLLOWING"), ("PRECEDING", "CURRENT ROW"), ("UNBOUNDED", "PRECEDING")])
        bounds = [f"{self.pick(some[:1])} {side}" if side in ("PRECEDING", "FOLLOWING") else side for side in (low, high)]
        bounds = [f"{bound} PRECEDING" if bound == "UNBOUNDED" else bound for bound in bounds]
        return f"{self.order([key.text])} RANGE BETWEEN {' AND '.join(bounds)}"

    def order(self, texts: list[str]) -> str:
        return "ORDER BY " + ", ".join(t + self.pick(["", "", " DESC", " NULLS LAST"]) for t in texts)

    # ---- conditions

    def condition(self, scope: Scope, depth: int, positive: bool = False) -> str:
        """``positive``: unknown is as good as false here. Only there Spark's IN with a query means what the standard says."""
        if (depth or self.chance(0.3)) and not scope.plain and self.chance(0.3):
            return self.subquery_condition(scope, depth, positive)
        inner = self.random.randrange(14)
        value: Value = self.pick(scope.values)
        kind, text = value.kind, value.text
        match inner:
            case 0 | 1:
                operator = self.pick(["AND", "OR"])
                return f"({self.condition(scope, depth, positive)} {operator} {self.condition(scope, depth, positive)})"
            case 2:
                return f"NOT ({self.condition(scope, depth)})"
            case 3:
                return f"{text} IS {self.pick(['', 'NOT '])}NULL"
            case 4:
                items = [self.literal(kind) for _ in range(self.random.randint(1, 3))] + ["NULL"] * self.chance(0.15)
                return f"{text} {self.pick(['', 'NOT '])}IN ({', '.join(items)})"
            case 5:
                low, high = self.value(kind, scope, 0), self.value(kind, scope, 0)
                return f"{text} {self.pick(['', 'NOT '])}BETWEEN {low} AND {high}"
            case 6:
                texts = scope.of("s")
                if texts:
                    pattern = self.pick(["'a%'", "'%b'", "'_'", "'%'", "'a_%'", "''"])
                    return f"{self.pick(texts).text} {self.pick(['', 'NOT '])}LIKE {pattern}"
            case 7:
                flags = scope.of("b")
                if flags:
                    return self.pick(["{}", "NOT {}", "{} IS TRUE", "{} IS NOT FALSE"]).format(self.pick(flags).text)
            case 9 if self.chance(0.5):
                pairs = [(a.text, b.text) for a in scope.values for b in scope.values if a.kind == b.kind != "m"]
                (a, b), (c, d) = self.pick(pairs or [(text, text)]), self.pick(pairs or [(text, text)])
                return f"({a}, {c}) {self.pick(COMPARISONS)} ({b}, {d})"
            case 8:
                numbers = [v for k in "imd" for v in scope.of(k)]
                if numbers:
                    return f"{self.pick(numbers).text} {self.pick(COMPARISONS)} {self.pick(numbers).text}"
            case 9:
                times = [] if self.calm else scope.of("t") + scope.of("z")  # DuckDB has no such intervals
                if times:
                    between = f"{self.pick(times).text} - {self.pick(times).text}"
                    return (
                        f"{between} {self.pick(COMPARISONS)} INTERVAL {self.pick(['1 DAY', '0 DAYS', '-60 DAYS', '12 HOURS'])}"
                    )
        left = self.value(kind, scope, self.pick([0, 0, 1]))
        return f"{text if self.chance(0.6) else left} {self.pick(COMPARISONS)} {self.value(kind, scope, self.pick([0, 0, 1]))}"

    def subquery_condition(self, scope: Scope, depth: int, positive: bool) -> str:
        value: Value = self.pick(scope.values)
        match self.random.randrange(5):
            case 0 | 1:
                return f"{self.pick(['', 'NOT '])}EXISTS ({self.correlated(scope, depth)})"
            case 2 | 3 if positive:
                inner = self.inner_select(value.kind, scope, depth)
                return f"{value.text} {self.pick(['', 'NOT '])}IN ({inner})"
        return f"{value.text} {self.pick(COMPARISONS)} {self.scalar(value.kind, scope)}"

    def correlated(self, scope: Scope, depth: int) -> str:
        source, inner = self.from_(0, scope)
        rest = f"{source}{self.tie(inner, scope)}"
        if self.chance(0.2):  # one row, whatever it reads
            return f"SELECT {self.aggregate(Scope(inner.values, plain=True)).text}{rest}{self.having(inner)}"
        return f"SELECT 1 {rest}"

    def having(self, inner: Scope) -> str:
        found = self.comparable_aggregate(Scope(inner.values, plain=True))
        return f" HAVING {self.condition(Scope([found], plain=True), 0)}" if self.chance(0.5) else ""

    def inner_select(self, kind: str, scope: Scope, depth: int) -> str:
        alone = self.one_row(kind, scope) if self.chance(0.2) else None
        if alone is not None:
            return alone
        source, inner = self.from_(0, scope)
        tie = self.tie(inner, scope) if self.chance(0.5) else self.where(inner, 0)
        return f"SELECT {self.value(kind, Scope(inner.values, plain=True), self.pick([0, 0, 1]))}{source}{tie}"

    def tie(self, inner: Scope, scope: Scope) -> str:
        """A condition between the rows inside and those around them."""
        pairs = [(a, b) for a in inner.values for b in scope.values if a.kind == b.kind]
        parts = []
        if pairs:
            a, b = self.pick(pairs)
            parts.append(f"{a.text} {'=' if self.chance(0.8) else self.pick(COMPARISONS)} {b.text}")
        if pairs and self.chance(0.2):
            a, b = self.pick(pairs)
            parts.append(f"{a.text} {self.pick(COMPARISONS)} {b.text}")
        if self.chance(0.4):
            parts.append(self.condition(Scope(inner.values, plain=True), 0))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def scalar(self, kind: str, scope: Scope) -> str:
        """A query that gives one value: an aggregate, or the first value."""
        found = self.first_value(kind, scope) if self.chance(0.15) else self.one_row(kind, scope)
        return self.literal(kind) if found is None else f"({found})"

    def first_value(self, kind: str, scope: Scope) -> str | None:
        source, inner = self.from_(0, scope)
        if not inner.of(kind):
            return None
        value = self.pick(inner.of(kind)).text
        offset = " OFFSET 1" if self.chance(0.2) else ""
        return f"SELECT {value}{source}{self.tie(inner, scope)} ORDER BY {value}{self.pick(['', ' DESC'])} LIMIT 1{offset}"

    def one_row(self, kind: str, scope: Scope) -> str | None:
        """An aggregate of some kind, if chance finds one."""
        for _ in range(20):
            source, inner = self.from_(0, scope)
            found = self.aggregate(Scope(inner.values, plain=True))
            if found.kind == kind:
                tie = self.tie(inner, scope) if self.chance(0.6) else self.where(inner, 0)
                return f"SELECT {found.text}{source}{tie}{self.having(inner) if self.chance(0.2) else ''}"
        return None

    # ---- values

    def literal(self, kind: str) -> str:
        return self.pick(LITERALS[kind])

    def value(self, kind: str, scope: Scope, depth: int) -> str:
        if depth and self.chance(0.7):
            made = self.call(kind, scope, depth - 1)
            if made is not None:
                return made
        known = scope.of(kind)
        if scope.outer is not None and self.chance(0.1):
            known = scope.outer.of(kind) or known
        if known and self.chance(0.85):
            return self.pick(known).text
        return f"CAST(NULL AS {TYPES[kind]})" if self.chance(0.08) else self.literal(kind)

    def call(self, kind: str, scope: Scope, depth: int) -> str | None:
        def get(other: str = kind) -> str:
            return self.value(other, scope, depth)

        shared = [
            lambda: f"coalesce({get()}, {get()})",
            lambda: f"CASE WHEN {self.condition(scope, 0)} THEN {get()} {self.pick([f'ELSE {get()} ', ''])}END",
            lambda: f"CASE {get('i')} WHEN {self.literal('i')} THEN {get()} ELSE {get()} END",
            lambda: f"nullif({get()}, {get()})",
            lambda: f"if({self.condition(scope, 0)}, {get()}, {get()})",
            lambda: f"{self.pick(['greatest', 'least'])}({get()}, {get()})",
        ]
        if not scope.plain and self.chance(0.2):
            return self.scalar(kind, scope)
        if kind == "b" and self.chance(0.7):
            return f"({self.condition(scope, 0 if scope.plain else self.pick([0, 1]))})"
        own: dict[str, list[str]] = {
            "i": [
                f"({get()} + {get()})", f"({get()} - {get()})", f"(({get()} * {get()}) % 7)", f"({get()} % 3)", f"({get()} div 2)",
                f"abs({get()})", f"(- {get()})", f"length({get('s')})", f"year({get('t')})", f"datediff({get('t')}, {get('t')})",
                f"EXTRACT(DAY FROM {get('z')} - {get('t')})", f"try_cast({get('s')} AS BIGINT)", f"timestampdiff(MONTH, {get('t')}, {get('z')})",
            ],
            "m": [
                f"({get()} + {get()})", f"({get()} - {get()})", f"(- {get()})", f"CAST({get('i')} AS DECIMAL(10,2))",
                f"CAST({get()} * 0.5 AS DECIMAL(12,2))", f"({get()} + {get('i')})", f"round({get()}, 1)", f"abs({get()})",
            ],
            "d": [f"({get()} + {get()})", f"({get()} - {get()})", f"({get()} * 5E-1)", f"CAST({get('i')} AS DOUBLE)", f"({get('i')} / 2)"],
            "s": [
                f"upper({get()})", f"substring({get()}, 1, 1)", f"({get()} || {get()})", f"concat({get()}, {get()})",
                f"CAST({get('i')} AS STRING)", f"CAST({get('t')} AS STRING)", f"trim({get()})", f"CAST({get('b')} AS STRING)",
                f"regexp_replace({get()}, '(a)(b)?', '$2<$1>')", f"date_format({get('t')}, 'EEE d MMM')",
            ],
            "t": [f"date_add({get()}, 1)", f"CAST({get('z')} AS DATE)", f"last_day({get()})", f"({get()} + INTERVAL 1 MONTH)", f"({get()} + ({get()} - {get()}))"],
            "z": [f"CAST({get('t')} AS TIMESTAMP)", f"date_trunc('day', {get()})", f"({get()} + {get('i')} % 9 * INTERVAL 1 HOUR)"],
            "b": [],
        }  # fmt: skip
        if self.calm:
            own = {
                "i": [f"({get('i')} % 3)", f"(- {get('i')})"] if kind == "i" else [],
                "m": [],
                "d": [],
                "s": [f"upper({get('s')})"] if kind == "s" else [],
                "t": [],
                "z": [],
                "b": [],
            }
        if own[kind] and self.chance(0.6):
            return self.pick(own[kind])
        return self.pick(shared[:4] if self.calm else shared)()

    # ---- changes

    @contextmanager
    def changing(self) -> Iterator[None]:
        before, self.calm = (self.sources, self.read), True
        self.sources = list(self.tables)
        try:
            yield
        finally:
            (self.sources, self.read), self.calm = before, False

    def transaction(self, rows: Mapping[str, Sequence[Row]]) -> list[str]:
        """Statements that change the tables, which now have these rows, as texts of their values."""
        with self.changing():
            return [text for _ in range(self.pick([1, 1, 2, 3])) for text in self.change(self.pick(self.tables), rows)]

    def filling(self) -> list[str]:
        with self.changing():
            return [self.insert(table, self.random.randint(2, 7)) for table in self.tables if self.chance(0.9)]

    def change(self, table: Table, rows: Mapping[str, Sequence[Row]]) -> list[str]:
        here = list(rows[table.name])
        scope = Scope([Value(f"{table.name}.{c.name}", c.kind) for c in table.columns])
        match self.random.randrange(13):
            case 0 | 1 | 2:
                return [self.insert(table, self.random.randint(1, 4))]
            case 3 if here:  # the same rows again: duplicates, or a key that is there
                return [self.insertion(table, self.random.choices(here, k=self.pick([1, 2])))]
            case 4 if here:  # away and back
                some = self.random.sample(here, self.random.randint(1, len(here)))
                return [*dict.fromkeys(self.delete_row(table, row) for row in some), self.insertion(table, some)]
            case 5:  # empty, then filled again
                empty = self.pick([f"DELETE FROM {table.name}", f"TRUNCATE TABLE {table.name}"])
                return [empty, *([self.insertion(table, here)] if here and self.chance(0.7) else [])]
            case 6 | 7:
                return [f"DELETE FROM {table.name}{self.where(scope, 1, 1.0)}"]
            case 8:
                return [self.insert_query(table)]
            case 9:
                column = self.pick(table.key) if table.key else self.pick(table.columns).name
                change = {"i": "{} + 1", "m": "- {}", "d": "{} - 1E0", "s": "upper({})"}.get(column[0], "{}")
                return [f"UPDATE {table.name} SET {column} = {change.format(column)}{self.where(scope, 0, 0.3)}"]
            case 10:
                column = self.pick(table.columns).name
                return [f"UPDATE {table.name} SET {column} = {column}"]
        return [self.update(table, scope)]

    def update(self, table: Table, scope: Scope) -> str:
        columns = self.random.sample(table.columns, min(self.pick([1, 1, 2]), len(table.columns)))
        sets = []
        for column in columns:
            value = self.value(column.kind, scope, self.pick([0, 1]))
            sets.append(f"{column.name} = {f'coalesce({value}, {self.literal(column.kind)})' if column.required else value}")
        return f"UPDATE {table.name} SET {', '.join(sets)}{self.where(scope, 1, 0.8)}"

    def insert(self, table: Table, many: int) -> str:
        rows = [
            tuple("NULL" if not c.required and self.chance(0.25) else self.literal(c.kind) for c in table.columns)
            for _ in range(many)
        ]
        if table.key and self.chance(0.9):
            places = [i for i, c in enumerate(table.columns) if c.name in table.key]
            rows = list({tuple(row[place] for place in places): row for row in rows}.values())
        return self.insertion(table, rows)

    def insertion(self, table: Table, rows: Sequence[Row]) -> str:
        return f"INSERT INTO {table.name} VALUES {', '.join(f'({chr(44).join(row)})' for row in rows)}"

    def insert_query(self, table: Table) -> str:
        source = self.pick(self.tables)
        scope = Scope([Value(f"a.{c.name}", c.kind) for c in source.columns])
        values = []
        for column in table.columns:
            value = self.value(column.kind, scope, self.pick([0, 0, 1]))
            values.append(f"coalesce({value}, {self.literal(column.kind)})" if column.required else value)
        return f"INSERT INTO {table.name} SELECT {', '.join(values)} FROM {source.name} a{self.where(scope, 0, 0.8)}"

    def delete_row(self, table: Table, row: Row) -> str:
        tests = [f"{c.name} <=> {v}" if v != "NULL" else f"{c.name} IS NULL" for c, v in zip(table.columns, row, strict=True)]
        return f"DELETE FROM {table.name} WHERE {' AND '.join(tests)}"
