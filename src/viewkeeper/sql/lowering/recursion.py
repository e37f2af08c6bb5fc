"""WITH RECURSIVE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import Problem
from viewkeeper.sql.lowering.builder import Table
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.grouping import aggregates_of
from viewkeeper.sql.lowering.rows import Named, table_of, with_names
from viewkeeper.sql.reading import Statement

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def recursive(queries: Queries, name: str, named: Named, query: exp.Expr) -> Table:
    """A query that reads itself: its relation is declared by the part that does not, and the other one adds to it."""
    union = named.query
    if not isinstance(union, exp.Union):
        queries.refuse(union, "recursion without UNION", "Write a query that starts, UNION, and one that reads the result.")
    if not union.args.get("distinct") and not _reads_once(query, name, union):
        hint = "Write UNION, or read it with SELECT DISTINCT: a view that depends on itself holds each row once."
        queries.refuse(union, "recursion with UNION ALL", hint)
    before = queries.named
    queries.named = named.outer
    try:
        start = queries.rows(union.this)
        start.outputs = with_names(start.outputs, named.columns, union, queries.builder.statement)
        columns = [(n, v.type) for n, v in start.outputs]
        nullable = [start.body.known(v).nullable for _, v in start.outputs]
        state = (list(queries.builder.inner), list(queries.builder.rules), dict(queries.builder.relations))
        while True:
            declared = [(n, t.kept.optional(may)) for (n, t), may in zip(columns, nullable, strict=True)]
            relation = queries.builder.relation(declared)
            table = replace(table_of(relation), columns=tuple(n for n, _ in columns), types=tuple(t for _, t in columns))
            queries.named = {**named.outer, name: Named(union, (), 2, named.outer, table)}
            step = queries.rows(union.expression)
            if len(step.outputs) != len(columns):
                why = f"the queries have {len(columns)} and {len(step.outputs)} columns"
                queries.builder.statement.refuse("SQL_TYPE", union.expression, why=why, hint="Give them the same number.")
            values = [step.body.known(v) for _, v in step.outputs]
            more = [a or b.nullable for a, b in zip(nullable, values, strict=True)]
            if more == nullable:
                break
            nullable = more
            queries.builder.inner, queries.builder.rules, queries.builder.relations = (
                list(state[0]),
                list(state[1]),
                dict(state[2]),
            )
            queries.builder.forget_types()
        into = Expressions(queries, step.body)
        terms = [
            into.cast_to(v, t, union.expression).term if v.type.kind is not t.kind or v.type.scale != t.scale else v.term
            for v, (_, t) in zip(values, columns, strict=True)
        ]
        queries.builder.rule(relation, start.terms, start.body.literals)
        queries.builder.rule(relation, terms, step.body.literals)
        return table
    finally:
        queries.named = before


_CIRCLES = ("NEGATION_CYCLE", "AGGREGATE_CYCLE", "AGGREGATE_DOMAIN")


def refuse_circles(statement: Statement, query: exp.Expr, problems: Sequence[Problem]) -> None:
    """Refuses a recursion through something that is not only more rows when there are more rows to read."""
    if not any(found.code in _CIRCLES for found in problems):
        return
    hint = "Read it there with plain joins, IN and EXISTS only; what is left goes into the query behind WITH RECURSIVE."
    for cte in query.find_all(exp.CTE):
        name = cte.alias.lower()
        for table in cte.this.find_all(exp.Table):
            around = _circle(table, cte) if table.name.lower() == name else None
            if around is not None:
                what = f'a recursive query that reads itself, "{cte.alias}", {around}'
                statement.refuse("SQL_UNSUPPORTED", table, what=what, hint=hint)
    what = "a recursive query that reads itself behind NOT or an aggregate"
    statement.refuse("SQL_UNSUPPORTED", query, what=what, hint=hint)


def _circle(table: exp.Expr, cte: exp.Expr) -> str | None:
    """What stands around a table in a query that must not."""
    node = table
    while node.parent is not None and node is not cte:
        node, inner = node.parent, node
        match node:
            case exp.Not() | exp.All():
                return "behind NOT" if isinstance(node, exp.Not) else "behind ALL"
            case exp.Except() if node.expression is inner:
                return "behind EXCEPT"
            case exp.Select() if any(_is_outer(one) for one in node.args.get("joins") or ()):
                return "in an outer join"
            case exp.Select() if node.args.get("group") or any(map(aggregates_of, node.expressions)):
                return "in an aggregate"
            case exp.Select() if node.find(exp.Window) is not None or node.args.get("limit"):
                return "in a window" if not node.args.get("limit") else "with LIMIT"
    return None


def _is_outer(join: exp.Expr) -> bool:
    return bool(join.args.get("side")) or str(join.args.get("kind")).upper() == "ANTI"


def _reads_once(query: exp.Expr, name: str, union: exp.Union) -> bool:
    """Is the recursive query read only where duplicates do not matter?"""
    inside = {id(t) for t in union.find_all(exp.Table)}
    readers = [t for t in query.find_all(exp.Table) if t.name.lower() == name and id(t) not in inside]
    selects = [t.find_ancestor(exp.Select) for t in readers]
    return all(s is not None and s.args.get("distinct") is not None for s in selects)
