"""Queries inside expressions: EXISTS, IN, ANY, ALL, and those that give one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Atom, Call, Comparison, Either, Literal, Negation, Term, Test, Truth, Wildcard
from viewkeeper.sql.lowering.bodies import Body, correlate
from viewkeeper.sql.lowering.grouping import aggregates_of
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
from viewkeeper.sql.lowering.windows import has_windows, limit_number
from viewkeeper.sql.types import BOOLEAN

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions
    from viewkeeper.sql.lowering.queries import Queries
    from viewkeeper.sql.lowering.rows import Rows


# ---- one row


@dataclass(frozen=True)
class OneRow:
    """What a query gives for each row around it: these values, if the test holds. So it does where it finds nothing to aggregate."""

    values: Sequence[Lowered]
    test: Lowered | None

    def if_there(self, value: Lowered, other: Lowered) -> Lowered:
        return value if self.test is None else choice(self.test.term, value, other)


def aggregates_alone(queries: Queries, query: exp.Expr) -> exp.Select | None:
    """The query, if it has aggregates and no GROUP BY: it gives one row, or none if HAVING says so. None if it is another query."""
    while isinstance(query, (exp.Subquery, exp.Paren)) and not any(
        query.args.get(part) for part in ("limit", "order", "offset")
    ):
        query = query.this
    if not isinstance(query, exp.Select) or query.args.get("group") is not None:
        return None
    if query.args.get("having") is None and not any(map(aggregates_of, query.expressions)):
        return None
    if has_windows(query) or query.args.get("qualify") is not None:
        return None
    found = query.copy()
    limit, offset = found.args.pop("limit", None), found.args.pop("offset", None)
    if limit_number(queries, limit, "LIMIT") == 0 or limit_number(queries, offset, "OFFSET"):
        found.set("having", exp.Having(this=exp.false()))
    return found


# ---- EXISTS


def exists(queries: Queries, query: exp.Expr, body: Body, negated: bool = False) -> Literal | None:
    """A literal that says that the query gives something for a row of the body, or that it does not; None if a value must say it."""
    if aggregates_alone(queries, query) is not None:
        return None
    atom = marker(queries, queries.rows(_without_limit(queries, query), body).body, body)
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
    alone = aggregates_alone(queries, query)
    if alone is not None and alone.args.get("having") is None:
        queries.rows(alone, body)  # only to see what is wrong in it: there is a row in any case
        return boolean(TRUE, False)
    row = queries.one_row(query, body)
    if row is not None:
        return row.if_there(boolean(TRUE, False), boolean(FALSE, False))
    return boolean(_flag(body, marker(queries, queries.rows(_without_limit(queries, query), body).body, body)), False)


def _without_limit(queries: Queries, query: exp.Expr) -> exp.Expr:
    """The query without a LIMIT that leaves a row where there are some."""
    limit = query.args.get("limit")
    if limit is None or query.args.get("offset") is not None or limit_number(queries, limit, "LIMIT") == 0:
        return query
    found = query.copy()
    found.set("limit", None)
    return found


# ---- IN


def is_in(queries: Queries, node: exp.In, into: Expressions, negated: bool) -> Literal | None:
    """A literal for IN; None if NULL may make a difference, so that its value must be computed."""
    if aggregates_alone(queries, node.args["query"]) is not None:
        return None if negated else _is_in_row(queries, node, into)
    lefts, rows = _sides(queries, node, into)
    pairs = _pairs(queries, node, into, lefts, [value for _, value in rows.outputs])
    if negated and any(value.nullable for pair in pairs for value in pair):
        return None
    atom = marker(queries, rows.body, into.body, [Comparison("=", there.term, here.term) for there, here in pairs])
    return Negation(atom) if negated else atom


def _is_in_row(queries: Queries, node: exp.In, into: Expressions) -> Literal:
    """IN for the one row of aggregates: equations with its values."""
    lefts = _lefts(node, into)
    row = queries.one_row(node.args["query"], into.body, needed=True)
    assert row is not None
    literals = [_equal(there, here) for there, here in _pairs(queries, node, into, lefts, row.values)]
    if row.test is not None:
        literals.append(Test("holds", (row.test.term,)))
    into.body.literals += literals[:-1]
    return literals[-1]


def _equal(left: Lowered, right: Lowered) -> Literal:
    nothing = any(value.is_constant and value.constant is None for value in (left, right))
    return Truth(False) if nothing else Comparison("=", left.term, right.term)


def in_value(queries: Queries, node: exp.In, into: Expressions) -> Lowered:
    lefts = _lefts(node, into)
    row = queries.one_row(node.args["query"], into.body)
    if row is not None:
        return row.if_there(_same(_pairs(queries, node, into, lefts, row.values)), boolean(FALSE, False))
    rows = queries.rows(node.args["query"], into.body)
    pairs = _pairs(queries, node, into, lefts, [value for _, value in rows.outputs])
    same = _same(pairs)
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


def _same(pairs: Sequence[tuple[Lowered, Lowered]]) -> Lowered:
    """Whether the values of all pairs are equal, as far as NULL lets it be told."""
    same: Lowered | None = None
    for there, here in pairs:
        one = boolean(Call("sql_eq", (there.term, here.term)), there.nullable or here.nullable)
        same = one if same is None else boolean(Call("sql_and", (same.term, one.term)), same.nullable or one.nullable)
    assert same is not None
    return same


def _sides(queries: Queries, node: exp.In, into: Expressions) -> tuple[list[Lowered], Rows]:
    return _lefts(node, into), queries.rows(node.args["query"], into.body)


def _lefts(node: exp.In, into: Expressions) -> list[Lowered]:
    left = node.this.this if isinstance(node.this, exp.Paren) else node.this
    return [into.value(part) for part in (left.expressions if isinstance(left, exp.Tuple) else [left])]


def _pairs(
    queries: Queries, node: exp.In, into: Expressions, lefts: Sequence[Lowered], rights: Sequence[Lowered]
) -> list[tuple[Lowered, Lowered]]:
    """What is compared with what, each in one type."""
    if len(lefts) != len(rights):
        why = f"IN compares {len(lefts)} values with {len(rights)} columns"
        queries.builder.statement.refuse("SQL_TYPE", node, why=why, hint="Give the query as many columns.")
    alike = (into.alike([left, right], node) for left, right in zip(lefts, rights, strict=True))
    return [(one, other) for one, other in alike]


# ---- ANY, ALL


def quantified(queries: Queries, node: exp.Expr, into: Expressions) -> Lowered:
    """``x > ANY (…)`` is true if one comparison is, and ``x > ALL (…)`` false if one is."""
    every = isinstance(node.expression, exp.All)
    query = node.expression.this
    row = queries.one_row(query, into.body)
    if row is not None:
        value = _only(queries, query, row.values)
        return row.if_there(into.compared(node, into.value(node.this), value), boolean(TRUE if every else FALSE, False))
    rows = queries.rows(query, into.body)
    compared = into.compared(node, into.value(node.this), _only(queries, query, [value for _, value in rows.outputs]))
    deciding = Call("sql_not", (compared.term,)) if every else compared.term
    found = boolean(_flag(into.body, marker(queries, rows.body, into.body, [Test("holds", (deciding,))])), False)
    value = _unless_found(queries, rows, compared, found, into) if compared.nullable else found
    return boolean(Call("sql_not", (value.term,)), value.nullable) if every else value


# ---- one value


def scalar(queries: Queries, query: exp.Expr, body: Body, needed: bool) -> Lowered:
    """The value of a query that gives at most one row; NULL where it gives none.

    ``needed``: a row of the body is of no use if the value is NULL.
    """
    row = queries.one_row(query, body, needed)
    if row is not None:
        value = _only(queries, query, row.values)
        return row.if_there(value, null_of(value.type))
    rows = queries.rows(query, body)
    value = _only(queries, query, [value for _, value in rows.outputs])
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


def _only(queries: Queries, query: exp.Expr, values: Sequence[Lowered]) -> Lowered:
    if len(values) != 1:
        why = f"a query that stands for a value has one column, not {len(values)}"
        queries.builder.statement.refuse("SQL_TYPE", query, why=why, hint="Name one.")
    return values[0]
