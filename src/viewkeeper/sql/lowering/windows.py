"""Windows, and ORDER BY … LIMIT inside a view: relations that are kept partition by partition.

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
    Either,
    Literal,
    Negation,
    Order,
    Over,
    Relation,
    Rule,
    Term,
    Test,
    Variable,
    Wildcard,
    all_variables,
    variables_of,
)
from viewkeeper.program.types import NUMBER
from viewkeeper.rewrite.terms import substitute_in
from viewkeeper.sql.lowering.bodies import Body, Correlation, Source, correlate
from viewkeeper.sql.lowering.rows import Rows
from viewkeeper.sql.lowering.values import FALSE, ONE, TRUE, ZERO, Lowered, decode, encode, nothing_of, present
from viewkeeper.sql.types import BIGINT, BOOLEAN, SqlType

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries

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
    window = Windows(queries, rows.body, query)
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
    if isinstance(node, exp.Fetch):
        queries.refuse(node, "FETCH", "Write LIMIT.")
    value = node.expression
    if isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return None
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        queries.refuse(node, f"{what} that is not a number", "Write a number.")
    return int(value.name)


# ---- OVER


def has_windows(select: exp.Select) -> bool:
    return any(True for node in select.expressions for _ in node.find_all(exp.Window))


@dataclass
class Windows:
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
    lookups: list[_LookUp] = field(default_factory=list)

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

    def look_up(
        self, node: exp.Expr, value: Lowered, partition: tuple[Variable, ...], running: Variable, place: Term
    ) -> tuple[Lowered, Variable]:
        """The value of the partition up to which ``running`` counts so many as ``place`` says, or NULL; and whether there is none."""
        found, nothing = (self.queries.builder.variable(name) for name in ("value", "nothing"))
        self.lookups.append(_LookUp(node, found, nothing, self.column(value), value.type, partition, running, place))
        return decode((found, nothing), replace(value, nullable=True)), nothing

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
                variables = [v for v in atom.arguments if isinstance(v, Variable)]
                if len(set(variables)) == len(atom.arguments):
                    return builder.relations[atom.relation], variables
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
        for lookup in self.lookups:
            mapping |= self._looked_up(lookup, Atom(relation, tuple(variables)), after, mapping, nullable)
        columns = [("", replace(value, term=substitute_in(value.term, mapping))) for value in outputs]
        columns += [(v.name, Lowered(new[v.name], types[v.name], nullable[v.name])) for v, _ in self.windows]
        after.sources = [Source("", tuple(columns))]
        return after

    def _looked_up(
        self, lookup: _LookUp, atom: Atom, after: Body, mapping: dict[str, Term], nullable: dict[str, bool]
    ) -> dict[str, Term]:
        """Joins a relation of the values of each partition, by their numbers; gives the variables for what is looked up."""
        if self.ties:
            self.queries.refuse(lookup.node, "IGNORE NULLS in a correlated subquery", "Compute it in a query in FROM.")
        types = {variable.name: type_ for variable, type_, _ in self.columns.values()}
        parts = [Lowered(v, types[v.name], nullable[v.name]) for v in lookup.partition]
        value = Lowered(lookup.target, lookup.type, True)
        terms = [*(term for part in parts for term in encode(part)), lookup.running, present(value)]
        columns = [
            (f"part{i}", t) for i, part in enumerate(parts) for t in ((part.type, BOOLEAN) if part.nullable else (part.type,))
        ]
        there: list[Literal] = [atom, Test("is_null", (lookup.target,), negated=True)]
        relation = self.queries.builder.derive([*columns, ("place", BIGINT), ("value", lookup.type)], (terms, there))
        place, found, nothing = (after.variable(name) for name in ("place", "value", "nothing"))
        after.literals.append(Comparison("=", place, substitute_in(lookup.place, mapping)))
        key = [substitute_in(term, mapping) for term in terms[:-2]]
        known = (Atom(relation.name, (*key, place, found)), Comparison("=", nothing, FALSE))
        missing = (
            Negation(Atom(relation.name, (*key, place, Wildcard()))),
            Comparison("=", found, nothing_of(lookup.type)),
            Comparison("=", nothing, TRUE),
        )
        after.literals.append(Either((known, missing)))
        return {lookup.value.name: found, lookup.nothing.name: nothing}


@dataclass(frozen=True)
class _LookUp:
    """A value of the partition that is found by its number: NULL does not count."""

    node: exp.Expr
    value: Variable
    nothing: Variable
    target: Variable
    type: SqlType
    partition: tuple[Variable, ...]
    running: Variable
    place: Term


def _partitioned(aggregate: Aggregate, by: Sequence[Variable]) -> Aggregate:
    """In smaller partitions."""
    assert aggregate.over is not None
    return replace(aggregate, over=replace(aggregate.over, partition=tuple(dict.fromkeys((*by, *aggregate.over.partition)))))


def may_be_null(aggregate: Aggregate) -> bool:
    return aggregate.operation in ("lag", "lead", "first_value", "last_value", "nth_value", "sum", "min", "max", "mean")
