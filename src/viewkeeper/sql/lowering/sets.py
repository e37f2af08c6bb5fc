"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Atom, Call, Comparison, Either, Literal, Negation, Relation, Term, Wildcard
from viewkeeper.sql.lowering.bodies import Body, Source
from viewkeeper.sql.lowering.builder import COPIES
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.rows import Rows, table_of
from viewkeeper.sql.lowering.values import ONE, ZERO, encode, number
from viewkeeper.sql.types import BIGINT, BOOLEAN, SqlType

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def combined(queries: Queries, query: exp.SetOperation, parent: Body | None) -> Rows:
    left, right = queries.rows(query.this, parent), queries.rows(query.expression, parent)
    if query.args.get("by_name"):
        queries.refuse(query, "BY NAME", "Write the columns in one order.")
    if len(left.outputs) != len(right.outputs):
        why = f"the queries have {len(left.outputs)} and {len(right.outputs)} columns"
        queries.builder.statement.refuse("SQL_TYPE", query.expression, why=why, hint="Give them the same number.")
    for place, ((name, one), (_, other)) in enumerate(zip(list(left.outputs), list(right.outputs), strict=True)):
        values = Expressions(queries, left.body).alike([left.body.known(one), right.body.known(other)], query)
        left.outputs[place], right.outputs[place] = (name, values[0]), (name, values[1])
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        return _union(queries, [left, right]) if distinct else union_all(queries, [left, right])
    if distinct:
        return _set_difference(queries, left, right, isinstance(query, exp.Except))
    return _bag_difference(queries, left, right, isinstance(query, exp.Except))


def _union(queries: Queries, branches: Sequence[Rows]) -> Rows:
    _check_closed(queries, branches)
    columns = [(name, value.type) for name, value in branches[0].outputs]
    relation = queries.builder.derive(columns, *((b.terms, b.body.literals) for b in branches))
    return _reading(queries, relation, columns)


def union_all(queries: Queries, branches: Sequence[Rows]) -> Rows:
    """With a column that says which branch a row is of, so that there can be several."""
    _check_closed(queries, branches)
    columns = [(name, value.type) for name, value in branches[0].outputs]
    bodies: list[tuple[list[Term], list[Literal]]] = []
    single = True
    for place, rows in enumerate(branches):
        times: Term = ONE
        if rows.distinct or not rows.body.is_unique(rows.terms):
            table = queries.define(rows)
            rows = Rows(Body(queries.builder), [])
            rows.outputs = list(rows.body.read(table, "branch").columns)
            times = rows.body.times() or ONE
            single = single and not table.copies
        bodies.append(([number(place).term, *rows.terms, times], rows.body.literals))
    if single:
        bodies = [(terms[:-1], literals) for terms, literals in bodies]
    more = [] if single else [(COPIES, BIGINT)]
    relation = queries.builder.derive([("branch", BIGINT), *columns, *more], *bodies)
    if not single:
        relation = queries.mark_bag(relation)
    body = Body(queries.builder)
    source = body.read(table_of(relation), "union")
    outputs = [(n, replace(v, type=t)) for (_, v), (n, t) in zip(source.columns[1:], columns, strict=True)]
    body.sources = [Source("union", tuple(outputs))]
    return Rows(body, outputs)


def _set_difference(queries: Queries, left: Rows, right: Rows, without: bool) -> Rows:
    _check_closed(queries, [left, right])
    nullable = _nullable(left, right)
    columns, terms = _encoded(right, nullable)
    relation = queries.builder.derive(columns, (terms, right.body.literals))
    atom = Atom(relation.name, tuple(_encoded(left, nullable)[1]))
    left.body.literals.append(Negation(atom) if without else atom)
    return Rows(left.body, left.outputs, distinct=True)


def _encoded(rows: Rows, nullable: Sequence[bool]) -> tuple[list[tuple[str, SqlType]], list[Term]]:
    """Columns, and terms for them, in which NULL equals NULL."""
    columns: list[tuple[str, SqlType]] = []
    terms: list[Term] = []
    for (name, value), may_be in zip(rows.outputs, nullable, strict=True):
        terms += encode(replace(value, nullable=may_be))
        columns += [(name, value.type), *([(f"no_{name}", BOOLEAN)] if may_be else [])]
    return columns, terms


def _nullable(left: Rows, right: Rows) -> list[bool]:
    """Where a row of either may have NULL."""
    return [one.nullable or other.nullable for (_, one), (_, other) in zip(left.outputs, right.outputs, strict=True)]


def _bag_difference(queries: Queries, left: Rows, right: Rows, without: bool) -> Rows:
    _check_closed(queries, [left, right])
    nullable = _nullable(left, right)
    mine, theirs = (_read_again(queries, rows) for rows in (left, right))
    body, copies = mine.body, mine.body.times() or ONE
    columns, head = _encoded(theirs, nullable)
    counted = ([*head, theirs.body.times() or ONE], theirs.body.literals)
    relation = queries.builder.derive([*columns, ("times", BIGINT)], counted)
    terms, times = _encoded(mine, nullable)[1], body.variable("times")
    there = Atom(relation.name, (*terms, times))
    if without:
        absent = Negation(Atom(relation.name, (*terms, Wildcard())))
        body.literals.append(Either(((there,), (absent, Comparison("=", times, ZERO)))))
        body.literals.append(Comparison(">", copies, times))
        body.copies = [Call("-", (copies, times))]
    else:
        body.literals.append(there)
        body.copies = [Call("min", (copies, times))]
    return mine


def _read_again(queries: Queries, rows: Rows) -> Rows:
    """A query as a relation that is read."""
    body = Body(queries.builder)
    return Rows(body, list(body.read(queries.define(rows), "rows").columns))


def _check_closed(queries: Queries, branches: Sequence[Rows]) -> None:
    for rows in branches:
        if rows.body.free():
            queries.refuse(
                None, "UNION, INTERSECT or EXCEPT of queries that use columns from outside", "Write the condition outside."
            )


def _reading(queries: Queries, relation: Relation, columns: Sequence[tuple[str, SqlType]]) -> Rows:
    body = Body(queries.builder)
    source = body.read(table_of(relation), "union")
    outputs = [(n, replace(v, type=t)) for (_, v), (n, t) in zip(source.columns, columns, strict=True)]
    body.sources = [Source("union", tuple(outputs))]
    return Rows(body, outputs)
