"""LATERAL: queries in FROM that use columns of what is joined before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Test
from viewkeeper.sql.lowering.bodies import Body, Source
from viewkeeper.sql.lowering.rows import Rows, alias_columns, output_name, with_names
from viewkeeper.sql.lowering.subqueries import aggregates_alone

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def is_lateral(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery) and not node.args.get("view")


def lateral_row(queries: Queries, node: exp.Join, left: Body) -> bool:
    """Joins the one row of aggregates, which each row before has, whatever they find; False if it is another query."""
    query, side = node.this.this.this, node.args.get("side")
    select = aggregates_alone(queries, query)
    if select is None:
        return False
    on = node.args.get("on")
    if side and not (on is None or isinstance(on, exp.Boolean) and on.this):
        queries.refuse(on, "a LEFT JOIN of aggregates with a condition", "Write it in the query behind LATERAL.")
    if side and select.args.get("having") is not None:
        queries.refuse(select.args["having"], "HAVING in a LEFT JOIN of aggregates", "Ask in the query around it.")
    row = queries.one_row(query, left)
    assert row is not None
    values = list(zip(map(output_name, select.expressions), row.values, strict=True))
    named = with_names(values, alias_columns(node.this), node, queries.builder.statement)
    if row.test is not None:
        left.literals.append(Test("holds", (row.test.term,)))
    left.sources.append(Source(node.this.alias, tuple(named)))
    return True


def lateral_rows(queries: Queries, node: exp.Lateral, left: Body) -> Body:
    """What the query gives for each row before it."""
    rows: Rows = queries.rows(node.this.this, left)
    if rows.distinct and rows.body.free():
        queries.refuse(node, "DISTINCT in a query behind LATERAL", "Group by what it gives.")
    right = Body(queries.builder, left)
    if rows.distinct:
        right.read(queries.define(rows), node.alias)
    else:
        right.take(rows.body)
        right.sources = [Source(node.alias, tuple((name, rows.body.known(value)) for name, value in rows.outputs))]
    named = with_names(list(right.sources[0].columns), alias_columns(node), node, queries.builder.statement)
    right.sources = [Source(node.alias, tuple(named))]
    return right
