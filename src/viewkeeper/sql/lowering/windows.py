"""Window functions, and ORDER BY … LIMIT inside a view: relations that are kept partition by partition.

    SELECT a, rank() OVER (PARTITION BY g ORDER BY x) FROM …

becomes a relation of the rows that the windows look at, and one with their values beside each row:

    v?1(a, g, x, key) :- ….
    v?2(a, g, x, key, r) :- r = rank : { v?1(a, g, x, key) } over (g; x).

Windows with other partitions follow one after the other, each over the relation of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Frame,
    Literal,
    Order,
    Over,
    Relation,
    Rule,
    Term,
    Variable,
    all_variables,
    variables_of,
)
from viewkeeper.program.types import NUMBER, Kind
from viewkeeper.rewrite.terms import substitute_in
from viewkeeper.sql.lowering.bodies import Body, Correlation, Source, correlate
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import refuse_no_argument
from viewkeeper.sql.lowering.rows import Rows
from viewkeeper.sql.lowering.values import ONE, ZERO, Lowered, choice, mean_of, null_of
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT, DOUBLE, SqlType, bounded

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

_RANKS: dict[str, tuple[str, SqlType]] = {
    "row_number": ("row_number", BIGINT), "rank": ("rank", BIGINT), "dense_rank": ("dense_rank", BIGINT),
    "percent_rank": ("percent_rank", DOUBLE), "cume_dist": ("cume_dist", DOUBLE),
}  # fmt: skip


# ---- ORDER BY and LIMIT


@dataclass(frozen=True)
class Key:
    """An output (position) to sort by."""

    position: int
    descending: bool
    nulls_first: bool


def hoist_order(queries: Queries, query: exp.Expr, order: exp.Expr | None) -> tuple[int, list[Key]]:
    """Makes what a query is sorted by outputs of its own, behind the others: how many they are, and the places of all of it.

    The places of such outputs are counted from the end: what * stands for is not known yet. See ``placed``.
    """
    keys: list[Key] = []
    hidden = 0
    for ordered in order.expressions if order is not None else ():
        node = ordered.this
        place = 0 if _is_all(order) else _output(query, node)
        if place is None and isinstance(query, exp.Select) and query.args.get("distinct") is None:
            query.append("expressions", exp.alias_(_with_outputs(query, node), f"order{hidden + 1}"))
            hidden += 1
            place = -hidden
        if place is None:
            queries.refuse(ordered, "ORDER BY something that is no output, here", "Select it, too.")
        keys.append(Key(place, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))))
    return hidden, keys


def placed(queries: Queries, order: exp.Expr | None, keys: list[Key], hidden: int, outputs: int) -> list[Key]:
    """The keys, whose places are now those among all outputs."""
    if _is_all(order):
        return [replace(keys[0], position=place) for place in range(outputs)]
    for ordered, key in zip(order.expressions if order is not None else (), keys, strict=True):
        if key.position >= outputs - hidden:
            queries.refuse(ordered, f"ORDER BY {key.position + 1}, of {outputs - hidden} outputs,", "Name a column.")
    first = outputs - hidden - 1
    return [replace(key, position=first - key.position if key.position < 0 else key.position) for key in keys]


def _is_all(order: exp.Expr | None) -> bool:
    """``ORDER BY ALL``: by the outputs, from the left."""
    match order.expressions if order is not None else []:
        case [exp.Ordered(this=exp.Var() as only)]:
            return only.name.upper() == "ALL"
    return False


def _output(query: exp.Expr, node: exp.Expr) -> int | None:
    """The output that ORDER BY names; None if it is an expression of its own, or * makes the places unknown."""
    first = query
    while isinstance(first, (exp.SetOperation, exp.Subquery)):
        first = first.this
    outputs = first.expressions
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) >= 1:
        return int(node.name) - 1
    if any(output.is_star for output in outputs):
        return None
    for place, output in enumerate(outputs):
        if isinstance(node, exp.Column) and not node.table and output.alias_or_name.lower() == node.name.lower():
            return place
        if (output.this if isinstance(output, exp.Alias) else output) == node:
            return place
    return None


def _with_outputs(query: exp.Select, node: exp.Expr) -> exp.Expr:
    """What a query is sorted by, with what its outputs are in the place of their names."""
    found = node.copy()
    named = {output.alias.lower(): output.this for output in query.expressions if isinstance(output, exp.Alias)}
    for column in list(found.find_all(exp.Column)):
        inside = column.find_ancestor(exp.AggFunc, exp.Window, exp.Query)  # there names are those of FROM
        if inside is None and not column.table and column.name.lower() in named:
            column.replace(exp.paren(named[column.name.lower()].copy(), copy=False))
    return found


def limited(queries: Queries, query: exp.Expr, lower: Callable[[exp.Expr], Rows]) -> Rows:
    """The first rows of a query with LIMIT. Rows that ORDER BY does not tell apart are in the order of their columns."""
    asked = query.copy()
    order, limit, offset = (asked.args.pop(part, None) for part in ("order", "limit", "offset"))
    hidden, keys = hoist_order(queries, asked, order)
    most, skipped = limit_number(queries, limit, "LIMIT"), limit_number(queries, offset, "OFFSET") or 0
    rows = lower(asked)
    keys = placed(queries, order, keys, hidden, len(rows.outputs))
    if rows.distinct:
        table = queries.define(rows)
        rows.body, rows.distinct = Body(queries.builder), False
        rows.outputs = list(rows.body.read(table, "rows").columns)
    values = [value for _, value in rows.outputs]
    window = _Windows(queries, rows.body, query)
    columns = [window.column(value) for value in values]
    sorting = tuple(Order(columns[k.position], k.descending, k.nulls_first) for k in keys)
    number = window.add("row_number", None, (), Over((), sorting, None, None if most is None else most + skipped), BIGINT)
    body = window.finish(values)
    [(_, place)] = [(name, value) for name, value in body.sources[0].columns if name == number.name]
    outputs = [(name, value) for (name, _), (_, value) in zip(rows.outputs, body.sources[0].columns, strict=False)]
    if skipped:
        body.literals.append(Comparison(">", place.term, Constant(skipped, NUMBER)))
    if most is not None and most <= 1:
        body.keys = [(tuple(v.name for v in window.ties),)]
    return Rows(body, outputs[: len(outputs) - hidden] if hidden else outputs)


def limit_number(queries: Queries, node: exp.Expr | None, what: str) -> int | None:
    """The number of LIMIT or OFFSET."""
    if node is None:
        return None
    value = node.expression
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        queries.refuse(node, f"{what} that is not a number", "Write a number.")
    return int(value.name)


# ---- OVER


def has_windows(select: exp.Select) -> bool:
    return any(True for node in select.expressions for _ in node.find_all(exp.Window))


def windowed(
    queries: Queries,
    select: exp.Select,
    body: Body,
    before: Callable[[exp.Expr], Lowered | None] | None = None,
    grouped: Body | None = None,
) -> Rows:
    """A query whose outputs have window functions; ``before`` knows what aggregates of ``grouped`` stand for."""
    plain = Expressions(queries, body, before)
    window = _Windows(queries, body, select)

    def special(node: exp.Expr) -> Lowered | None:
        if isinstance(node, exp.Window):
            return _Function(window, plain, node).value()
        return before(node) if before is not None else None

    for node in select.expressions:
        _refuse_looked_up(queries, node)
    outputs = queries.outputs(select, Expressions(queries, body, special), grouped or body)
    after = window.finish([value for _, value in outputs])
    found = [(name, value) for (name, _), (_, value) in zip(outputs, after.sources[0].columns, strict=False)]
    return Rows(after, found)


def _refuse_looked_up(queries: Queries, node: exp.Expr) -> None:
    """Queries are asked for each row before windows are computed."""
    for asking in node.find_all(exp.In, exp.Any, exp.All):
        asked = asking.this if isinstance(asking, exp.In) and asking.args.get("query") else asking.parent and asking.parent.this
        if isinstance(asked, exp.Expr) and asked is not asking and asked.find(exp.Window):
            hint = "Compute the window in a query in FROM, and ask around it."
            queries.refuse(asked, "a window function whose value is looked for in a query", hint)


@dataclass
class _Windows:
    """The relations of the windows over one body.

    A body that uses columns of a query around it has rows for each row there. ``ties`` tell for which, and are part of every partition.
    """

    queries: Queries
    body: Body
    node: exp.Expr
    outside: tuple[Term, ...] = ()
    ties: tuple[Variable, ...] = ()
    columns: dict[Term, tuple[Variable, SqlType, Term]] = field(default_factory=dict)
    results: dict[tuple[object, ...], tuple[Variable, SqlType]] = field(default_factory=dict)
    windows: list[tuple[Variable, Aggregate]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def column(self, value: Lowered) -> Variable:
        """A column of the rows that windows look at."""
        term = value.term
        if isinstance(term, Variable) and any(term == variable for variable, _ in self.windows):
            return term
        if term not in self.columns:
            variable = term if isinstance(term, Variable) and term.name in self.body.own else self.queries.builder.variable("w")
            self.columns[term] = (variable, value.type, term)
        return self.columns[term][0]

    def add(self, operation: str, target: Term | None, partition: Sequence[Variable], over: Over, type_: SqlType) -> Variable:
        """The variable for the values of a window."""
        over = replace(over, partition=tuple(partition))
        key = (operation, target, over)
        if key not in self.results:
            variable = self.queries.builder.variable(operation)
            self.results[key] = (variable, type_)
            self.windows.append((variable, Aggregate(operation, target, (), over)))
        return self.results[key][0]

    def _close(self) -> None:
        """Makes what ties a body to the query around it columns."""
        around = self.body.parent
        if around is None:
            return
        if self.body.free():
            self._tie(correlate(self.body, around, counted=True))
        for _, _, term in self.columns.values():
            if not {v.name for v in variables_of(term)} <= self.body.own:
                what = "a window or LIMIT over columns of the query around it"
                self.queries.refuse(self.node, what, "Compare them with columns of the query itself, and use those.")

    def _tie(self, tie: Correlation) -> None:
        self.body = self.body.copy()
        self.body.literals = list(tie.literals)
        self.body.own |= set(all_variables(tie.literals))
        inside = {there.name: here for there, here in zip(tie.outside, tie.inside, strict=True) if isinstance(there, Variable)}
        self.columns = {old: (v, type_, substitute_in(term, inside)) for old, (v, type_, term) in self.columns.items()}
        self.outside = tie.outside
        self.ties = tuple(self.column(Lowered(term, self.queries.type_of(term, tie.literals))) for term in tie.inside)
        self.windows = [(variable, _partitioned(aggregate, self.ties)) for variable, aggregate in self.windows]

    def finish(self, outputs: Sequence[Lowered]) -> Body:
        """A body with the outputs as columns, in order, and behind them the windows' values."""
        self._close()
        builder, body = self.queries.builder, self.body
        computed = {variable.name for variable, _ in self.windows}
        for value in outputs:
            for name in all_variables((Comparison("=", value.term, ZERO),)):
                if name not in computed and name in body.own:
                    self._variable(name)
        self.keys = list(dict.fromkeys(v for key in body.keys for v in key[0]))
        for name in self.keys:
            self._variable(name)
        literals = list(body.literals)
        times = body.times()
        if times is not None:
            copy = builder.variable("copy")
            literals.append(Comparison("=", copy, Call("range", (ZERO, times))))
            self.columns[copy] = (copy, BIGINT, copy)
            self.keys.append(copy.name)
        relation, variables = self._rows(literals)
        width = len(variables)
        types = {v.name: t for v, t in self.results.values()}
        nullable = {v.name: c.type.nullable for v, c in zip(variables, relation.columns, strict=True)}
        for partition in dict.fromkeys(a.over.partition for _, a in self.windows if a.over):
            chosen = [(v, a) for v, a in self.windows if a.over and a.over.partition == partition]
            atom = Atom(relation.name, tuple(variables))
            declared = [(v.name, c.type) for v, c in zip(variables, relation.columns, strict=True)]
            declared += [(v.name, types[v.name].kept.optional(may_be_null(a))) for v, a in chosen]
            relation = builder.relation(declared)
            variables += [v for v, _ in chosen]
            nullable |= {v.name: may_be_null(a) for v, a in chosen}
            equations = tuple(Comparison("=", v, replace(a, body=(atom,))) for v, a in chosen)
            builder.rules.append(Rule(Atom(relation.name, tuple(variables)), equations))
        return self._reading(relation.name, variables, nullable, types, outputs, width)

    def _rows(self, literals: list[Literal]) -> tuple[Relation, list[Variable]]:
        """The relation of the rows that windows look at, with its columns' variables; if there is one already, that."""
        builder, columns = self.queries.builder, list(self.columns.values())
        match literals:
            case [Atom() as atom] if {term for _, _, term in columns} <= set(atom.arguments):
                return builder.relations[atom.relation], [v for v in atom.arguments if isinstance(v, Variable)]
        if not columns:
            columns = [(builder.variable("one"), BIGINT, ONE)]
        relation = builder.derive([(v.name, t) for v, t, _ in columns], ([term for _, _, term in columns], literals))
        return relation, [v for v, _, _ in columns]

    def _variable(self, name: str) -> None:
        """A variable of the body as a column."""
        type_ = self.queries.type_of(Variable(name), self.body.literals)
        self.column(Lowered(Variable(name), type_))

    def _reading(
        self,
        relation: str,
        variables: list[Variable],
        nullable: dict[str, bool],
        types: dict[str, SqlType],
        outputs: Sequence[Lowered],
        width: int,
    ) -> Body:
        after = Body(self.queries.builder, self.body.parent)
        new = {v.name: after.variable(v.name) for v in variables}
        after.literals.append(Atom(relation, tuple(new.values())))
        ties = [new[v.name] for v in self.ties]
        after.literals += [Comparison("=", there, here) for there, here in zip(self.outside, ties, strict=True)]
        self.ties = tuple(ties)
        key = [*ties, *(new[v] for v in self.keys)]
        after.keys = [(tuple(v.name for v in key), tuple(new[v.name].name for v in variables[:width]))]
        mapping: dict[str, Term] = dict(new)
        columns = [("", replace(value, term=substitute_in(value.term, mapping))) for value in outputs]
        columns += [(v.name, Lowered(new[v.name], types[v.name], nullable[v.name])) for v, _ in self.windows]
        after.sources = [Source("", tuple(columns))]
        return after


def _partitioned(aggregate: Aggregate, by: Sequence[Variable]) -> Aggregate:
    """In smaller partitions."""
    assert aggregate.over is not None
    return replace(aggregate, over=replace(aggregate.over, partition=tuple(dict.fromkeys((*by, *aggregate.over.partition)))))


def may_be_null(aggregate: Aggregate) -> bool:
    return aggregate.operation in ("lag", "lead", "first_value", "last_value", "nth_value", "sum", "min", "max", "mean")


@dataclass
class _Function:
    """One window function."""

    windows: _Windows
    expressions: Expressions
    node: exp.Window

    def value(self) -> Lowered:
        node, queries = self.node, self.windows.queries
        if isinstance(node.this, (exp.IgnoreNulls, exp.Filter)) or node.args.get("alias"):
            queries.refuse(node, "this window", "Write the window out, without FILTER and IGNORE NULLS.")
        function = node.this.this if isinstance(node.this, exp.RespectNulls) else node.this
        self.partition = [self._column(part) for part in node.args.get("partition_by") or ()]
        order = node.args.get("order")
        self.order = tuple(
            Order(self._column(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for o in (order.expressions if order is not None else ())
        )
        name = function.name.lower() if isinstance(function, exp.Anonymous) else function.key
        name = {"rownumber": "row_number", "denserank": "dense_rank", "percentrank": "percent_rank", "cumedist": "cume_dist",
                "firstvalue": "first_value", "lastvalue": "last_value", "nthvalue": "nth_value", "first": "first_value",
                "last": "last_value"}.get(name, name)  # fmt: skip
        if name in _RANKS:
            operation, type_ = _RANKS[name]
            return Lowered(self._add(operation, None, type_, framed=False), type_)
        match name:
            case "ntile":
                return self._ntile(function)
            case "lag" | "lead":
                return self._shifted(name, function)
            case "first_value" | "last_value" | "nth_value":
                return self._picked(name, function)
            case "count" | "sum" | "avg" | "min" | "max":
                return self._total(name, function)
        hint = (
            "There are row_number, rank, dense_rank, ntile, lag, lead, first_value, last_value, count, sum, avg, min and max."
        )
        name = function_name(function, queries.builder.statement.source)
        queries.builder.statement.refuse("SQL_FUNCTION", node, function=name, why="is no window function here", hint=hint)

    # ---- parts

    def _column(self, node: exp.Expr) -> Variable:
        return self.windows.column(self._orderable(self.expressions.value(node)))

    def _orderable(self, value: Lowered) -> Lowered:
        if value.type.kind is Kind.BOOL:
            return Lowered(Call("to_number", (value.term,)), BIGINT, value.nullable)
        return value

    def _add(
        self, operation: str, target: Lowered | None, type_: SqlType, framed: bool = True, number: int | None = None,
        ordered: bool = True,
    ) -> Variable:  # fmt: skip
        frame = self._frame() if framed else None
        over = Over((), self.order if ordered else (), frame, None, number)
        column = None if target is None else self.windows.column(target)
        return self.windows.add(operation, column, self.partition, over, type_)

    def _frame(self) -> Frame | None:
        spec = self.node.args.get("spec")
        if spec is None:
            return None
        unit = str(spec.args.get("kind") or "ROWS").lower()
        low = self._bound(spec.args.get("start"), spec.args.get("start_side"))
        high = self._bound(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"))
        if unit not in ("rows", "range") or (unit == "range" and {low, high} - {0, None}):
            self.windows.queries.refuse(spec, f"a window of {unit.upper()} with numbers", "Use ROWS.")
        return Frame(unit, low, high)

    def _bound(self, bound: object, side: object) -> int | None:
        if isinstance(bound, str):
            return None if bound.upper() == "UNBOUNDED" else 0
        if isinstance(bound, exp.Literal) and bound.name.isdigit():
            return -int(bound.name) if str(side).upper() == "PRECEDING" else int(bound.name)
        self.windows.queries.refuse(self.node, "a window whose bounds are not numbers", "Write numbers.")

    def _constant(self, node: exp.Expr | None, default: int, least: int | None = None) -> int:
        if node is None:
            return default
        value = self.expressions.value(node).constant
        if not isinstance(value, int):
            self.windows.queries.refuse(self.node, "a window function with a computed number", "Write the number.")
        if least is not None and value < least:
            statement = self.windows.queries.builder.statement
            name, hint = function_name(self.node.this, statement.source), f"Write {least} or more."
            statement.refuse("SQL_TYPE", node, why=f"{name} counts from {least}, and {value} is less", hint=hint)
        return value

    # ---- functions

    def _ntile(self, function: exp.Expr) -> Lowered:
        count = self._constant(function.this if not isinstance(function, exp.Anonymous) else function.expressions[0], 1, 1)
        over = Over((), self.order)
        return Lowered(self.windows.add("ntile", Constant(count, NUMBER), self.partition, over, BIGINT), BIGINT)

    def _shifted(self, name: str, function: exp.Expr) -> Lowered:
        value = self.expressions.value(function.this)
        offset = self._constant(function.args.get("offset"), 1)
        if offset < 0:
            name, offset = ("lead" if name == "lag" else "lag"), -offset
        found = Lowered(self._add(name, value, value.type, framed=False, number=offset), value.type, True)
        default = function.args.get("default")
        if default is None:
            return found
        found, other = self.expressions.alike([found, self.expressions.value(default)], self.node)
        number = self._add("row_number", None, BIGINT, framed=False)
        place: Term = number
        if name == "lead":
            total = self.windows.add("count", None, self.partition, Over(), BIGINT)
            place = Call("+", (Call("-", (total, number)), ONE))
        return choice(Call("sql_le", (place, Constant(offset, NUMBER))), other, found)

    def _picked(self, name: str, function: exp.Expr) -> Lowered:
        value = self.expressions.value(function.this if not isinstance(function, exp.Anonymous) else function.expressions[0])
        number = self._constant(function.args.get("offset"), 1, 1) if name == "nth_value" else None
        return Lowered(self._add(name, value, value.type, number=number), value.type, True)

    def _total(self, name: str, function: exp.Expr) -> Lowered:
        refuse_no_argument(self.windows.queries, function)
        argument = function.this
        if isinstance(argument, exp.Distinct):
            self.windows.queries.refuse(self.node, "DISTINCT in a window", "Leave it out.")
        if name == "count" and isinstance(argument, (exp.Star, exp.Literal)):
            return Lowered(self._add("count", None, BIGINT), BIGINT)
        value = self.expressions.value(argument)
        if name == "count":
            return self._number(value)
        if name in ("min", "max"):
            return Lowered(self._add(name, self._orderable(value), value.type), value.type, True)
        if value.type.kind not in (Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT):
            why = f"there is no sum or mean of values of type {value.type}"
            self.windows.queries.builder.statement.refuse("SQL_TYPE", self.node, why=why, hint="Use CAST.")
        precision, scale = value.type.digits
        result = bounded(precision + 10, scale) if value.type.kind is Kind.DECIMAL else replace(value.type, literal=False)
        total = Lowered(self._add("sum", value, result), result, True)
        if name == "sum":
            return total
        number = self._number(value)
        mean = mean_of(total, number, value.type)
        return choice(Call("sql_eq", (number.term, ZERO)), null_of(mean.type), mean)

    def _number(self, value: Lowered) -> Lowered:
        """How many values there are."""
        return Lowered(self._add("count", value if value.nullable else None, BIGINT), BIGINT)
