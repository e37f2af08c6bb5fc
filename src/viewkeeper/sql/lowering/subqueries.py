"""Queries inside expressions: EXISTS, IN, ANY, ALL, and those that give one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Atom, Call, Comparison, Either, Literal, Negation, Term, Test, Wildcard
from viewkeeper.sql.lowering.bodies import Body, correlate
from viewkeeper.sql.lowering.values import (
    FALSE,
    TRUE,
    Lowered,
    boolean,
    choice,
    decode,
    encode,
    is_null,
    nothing_of,
    null_of,
)
from viewkeeper.sql.types import BOOLEAN

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions
    from viewkeeper.sql.lowering.queries import Queries
    from viewkeeper.sql.lowering.rows import Rows


def exists(queries: Queries, query: exp.Expr, body: Body, negated: bool = False) -> Literal:
    """A literal that says that the query gives something for a row of the body, or that it does not."""
    atom = marker(queries, queries.rows(query, body).body, body)
    return Negation(atom) if negated else atom


def marker(queries: Queries, inner: Body, body: Body, extra: Sequence[Literal] = ()) -> Atom:
    """An atom that holds for the rows of the body for which the inner one has rows."""
    inner = inner.copy()
    inner.parent = body
    inner.literals += extra
    tie = correlate(inner, body)
    columns = [(f"c{i}", queries.type_of(term, tie.literals)) for i, term in enumerate(tie.inside)]
    relation = queries.builder.derive(columns, (tie.inside, tie.literals))
    return Atom(relation.name, tie.outside)


def _flag(body: Body, atom: Atom) -> Term:
    """Whether an atom holds, as a value."""
    flag = body.variable("found")
    body.literals.append(Either(((atom, Comparison("=", flag, TRUE)), (Negation(atom), Comparison("=", flag, FALSE)))))
    body.builder.computed[flag.name] = boolean(flag, False)
    return flag


def exists_value(queries: Queries, query: exp.Expr, body: Body) -> Lowered:
    return boolean(_flag(body, marker(queries, queries.rows(query, body).body, body)), False)


# ---- IN


def is_in(queries: Queries, node: exp.In, into: Expressions, negated: bool) -> Literal | None:
    """A literal for IN; None if NULL may make a difference, so that its value must be computed."""
    lefts, rows = _sides(queries, node, into)
    pairs = [_alike(into, left, value, node) for left, (_, value) in zip(lefts, rows.outputs, strict=True)]
    if negated and any(value.nullable for pair in pairs for value in pair):
        return None
    atom = marker(queries, rows.body, into.body, [Comparison("=", there.term, here.term) for there, here in pairs])
    return Negation(atom) if negated else atom


def in_value(queries: Queries, node: exp.In, into: Expressions) -> Lowered:
    lefts, rows = _sides(queries, node, into)
    pairs = [_alike(into, left, value, node) for left, (_, value) in zip(lefts, rows.outputs, strict=True)]
    same: Lowered | None = None
    for there, here in pairs:
        one = boolean(Call("sql_eq", (there.term, here.term)), there.nullable or here.nullable)
        same = one if same is None else boolean(Call("sql_and", (same.term, one.term)), same.nullable or one.nullable)
    assert same is not None
    equal = [Comparison("=", there.term, here.term) for there, here in pairs]
    found = boolean(_flag(into.body, marker(queries, rows.body, into.body, equal)), False)
    if not same.nullable:
        return found
    if len(pairs) > 1:
        return _unless_found(queries, rows, same, found, into)
    [(there, here)] = pairs
    unknown: Lowered = boolean(FALSE, False)
    if here.nullable:
        # A NULL in the query makes it unknown for all values.
        unknown = boolean(_flag(into.body, marker(queries, rows.body, into.body, [Test("is_null", (here.term,))])), False)
    if there.nullable:
        anything = boolean(_flag(into.body, marker(queries, rows.body, into.body)), False)
        unknown = choice(is_null(there), anything, unknown)
    return choice(found.term, boolean(TRUE, False), choice(unknown.term, null_of(BOOLEAN), boolean(FALSE, False)))


def _unless_found(queries: Queries, rows: Rows, same: Lowered, found: Lowered, into: Expressions) -> Lowered:
    """True if something was found, else unknown where a comparison was unknown."""
    unknown = _flag(into.body, marker(queries, rows.body, into.body, [Test("is_null", (same.term,))]))
    return choice(found.term, boolean(TRUE, False), choice(unknown, null_of(BOOLEAN), boolean(FALSE, False)))


def _sides(queries: Queries, node: exp.In, into: Expressions) -> tuple[list[Lowered], Rows]:
    left = node.this.this if isinstance(node.this, exp.Paren) else node.this
    lefts = [into.value(part) for part in (left.expressions if isinstance(left, exp.Tuple) else [left])]
    rows = queries.rows(node.args["query"], into.body)
    if len(lefts) != len(rows.outputs):
        why = f"IN compares {len(lefts)} values with {len(rows.outputs)} columns"
        queries.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Give the query as many columns.")
    return lefts, rows


def _alike(into: Expressions, left: Lowered, right: Lowered, node: exp.Expr) -> tuple[Lowered, Lowered]:
    one, other = into.alike([left, right], node)
    return one, other


# ---- ANY, ALL


def quantified(queries: Queries, node: exp.Expr, into: Expressions) -> Lowered:
    """``x > ANY (…)`` is true if one comparison is, and ``x > ALL (…)`` false if one is."""
    every = isinstance(node.expression, exp.All)
    query = node.expression.this
    rows = queries.rows(query, into.body)
    compared = into.compared(node, into.value(node.this), rows.outputs[0][1])
    deciding = Call("sql_not", (compared.term,)) if every else compared.term
    found = boolean(_flag(into.body, marker(queries, rows.body, into.body, [Test("holds", (deciding,))])), False)
    value = _unless_found(queries, rows, compared, found, into) if compared.nullable else found
    return boolean(Call("sql_not", (value.term,)), value.nullable) if every else value


# ---- one value


def scalar(queries: Queries, query: exp.Expr, body: Body, needed: bool) -> Lowered:
    """The value of a query that gives at most one row; NULL where it gives none.

    ``needed``: a row of the body is of no use if the value is NULL.
    """
    while isinstance(query, (exp.Subquery, exp.Paren)):
        query = query.this
    if isinstance(query, exp.Select) and len(query.expressions) != 1:
        why = f"a query that stands for a value has one column, not {len(query.expressions)}"
        queries.builder.statement.refuse("SQL_TYPE", query, why=why, hint="Name one.")
    if isinstance(query, exp.Select) and query.args.get("group") is None and _aggregates(query):
        return queries.scalar_group(query, queries.from_and_where(query, body), body, needed)
    rows = queries.rows(query, body)
    [(_, value)] = rows.outputs
    value = rows.body.known(value)
    inner = rows.body
    tie = correlate(inner, body)
    if not inner.is_unique(tie.inside):
        hint = "Use an aggregate such as max, or compare a whole key."
        queries.refuse(query, "a query that may give several rows where one value is needed", hint)
    columns = [(f"c{i}", queries.type_of(term, tie.literals)) for i, term in enumerate(tie.inside)]
    columns += [("value", value.type), *([("nothing", BOOLEAN)] if value.nullable else [])]
    relation = queries.builder.derive(columns, ([*tie.inside, *encode(value)], tie.literals))
    variables = tuple(body.variable(name) for name in ("value", "nothing"))
    if not value.nullable:
        there: tuple[Literal, ...] = (Atom(relation.name, (*tie.outside, variables[0])), Comparison("=", variables[1], FALSE))
    else:
        there = (Atom(relation.name, (*tie.outside, *variables)),)
    blanks = [Wildcard() for _ in encode(value)]
    missing: tuple[Literal, ...] = (
        Negation(Atom(relation.name, (*tie.outside, *blanks))),
        Comparison("=", variables[0], nothing_of(value.type)),
        Comparison("=", variables[1], TRUE),
    )
    body.literals.append(Either((there, missing)))
    nullable = Lowered(value.term, value.type, True)
    for variable, type_ in zip(variables, (value.type, BOOLEAN), strict=True):
        body.builder.computed[variable.name] = Lowered(variable, type_)
    return decode(variables, nullable)


def _aggregates(query: exp.Select) -> bool:
    from viewkeeper.sql.lowering.grouping import aggregates_of

    return any(aggregates_of(node) for node in query.expressions)
