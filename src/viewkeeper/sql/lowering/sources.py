"""FROM: tables, views, named queries, queries in parentheses and VALUES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import closest
from viewkeeper.program.ast import Literal, Term, Truth
from viewkeeper.sql.lowering.bodies import Body, Source
from viewkeeper.sql.lowering.builder import Table
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.joins import join
from viewkeeper.sql.lowering.rows import Named, Rows, alias_columns, table_of, with_names
from viewkeeper.sql.lowering.values import number
from viewkeeper.sql.naming import clause, first_of
from viewkeeper.sql.reading import function_name
from viewkeeper.sql.types import BIGINT

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def read(queries: Queries, node: exp.Expr, body: Body) -> None:
    """Joins what FROM names."""
    match node:
        case exp.Table():
            _read_table(queries, node, body)
        case exp.Subquery(this=exp.Table() | exp.Subquery(args={"joins": [_, *_]})):
            _read_joined(queries, node, body)
        case exp.Subquery():
            _read_rows(queries, queries.rows(node.this, body.parent), node.alias, alias_columns(node), body, node)
        case exp.Values():
            _read_rows(queries, values(queries, node, body.parent), node.alias, alias_columns(node), body, node)
        case _:
            queries.refuse(node, f"{node.key.upper()} in FROM", "FROM names tables, views and queries in parentheses.")


def _read_joined(queries: Queries, node: exp.Subquery, body: Body) -> None:
    """Joins what is joined in parentheses; with a name it is one table."""
    inner = Body(queries.builder, body.parent)
    read(queries, node.this, inner)
    for more in node.this.args.get("joins") or ():
        inner = join(queries, more, inner, None)
    if not node.alias:
        body.take(inner)
        return
    _read_rows(queries, Rows(inner, list(inner.columns())), node.alias, alias_columns(node), body, node)


def _read_table(queries: Queries, node: exp.Table, body: Body) -> None:
    if not isinstance(node.this, exp.Identifier):
        hint = "FROM names tables, views and queries in parentheses; VALUES (1), (2) lists rows."
        queries.refuse(node, f"{function_name(node.this, queries.builder.statement.source)}(…) in FROM", hint)
    for part in ("pivots", "sample", "hints", "when", "version", "laterals"):
        if node.args.get(part):
            first = first_of(node.args[part])
            queries.refuse(first or node, _called(part, first), "Leave it out.")
    alias = node.alias or node.name
    named = None if node.db else queries.named.get(node.name.lower())
    if named is not None:
        _read_named(queries, named, alias, alias_columns(node), body, node)
        return
    body.read(_table(queries, node), alias)
    body.sources[-1] = _renamed(body.sources[-1], alias_columns(node), node, queries)


def _called(part: str, first: exp.Expr | None) -> str:
    """What a part of a table in FROM is called in SQL."""
    if isinstance(first, exp.Version):
        return f"{first.name} AS OF"
    return clause("unpivot" if first is not None and first.args.get("unpivot") else part)


def _read_named(queries: Queries, named: Named, alias: str, columns: Sequence[str], body: Body, node: exp.Expr) -> None:
    before = queries.named
    if named.table is None:
        queries.named = named.outer
        try:
            rows = queries.rows(named.query)
        finally:
            queries.named = before
        rows.outputs = with_names(rows.outputs, named.columns, node, queries.builder.statement)
        if named.uses < 2:
            _read_rows(queries, rows, alias, columns, body, node)
            return
        named.table = queries.define(rows)
    body.read(named.table, alias)
    body.sources[-1] = _renamed(body.sources[-1], columns, node, queries)


def _read_rows(queries: Queries, rows: Rows, alias: str, columns: Sequence[str], body: Body, node: exp.Expr) -> None:
    if rows.body.free():
        queries.refuse(node, "a query in FROM that uses columns from outside it", "Write the condition outside.")
    if rows.distinct:
        body.read(queries.define(rows), alias)
        body.sources[-1] = _renamed(body.sources[-1], columns, node, queries)
        return
    inner = rows.body
    outputs = with_names([(name, inner.known(value)) for name, value in rows.outputs], columns, node, queries.builder.statement)
    inner.sources = [Source(alias, tuple(outputs))]
    body.take(inner)


def _table(queries: Queries, node: exp.Table) -> Table:
    relations = queries.builder.program.by_name
    name = node.name
    if node.db or node.catalog:
        queries.refuse(node, "a name with a dot", "A warehouse has one schema: write the table's name alone.")
    found = name if name in relations else next((r for r in relations if r.lower() == name.lower()), None)
    if found is None:
        known = [*relations, *queries.named]
        hint = closest(name, known) or (f"There are {', '.join(known)}." if known else "Make one with CREATE TABLE.")
        queries.builder.statement.refuse("SQL_TABLE", node, table=name, hint=hint)
    return table_of(relations[found])


def values(queries: Queries, node: exp.Values, parent: Body | None) -> Rows:
    expressions = Expressions(queries, Body(queries.builder, parent))
    lists = [
        [expressions.value(e) for e in (row.expressions if isinstance(row, exp.Tuple) else [row])] for row in node.expressions
    ]
    if len({len(row) for row in lists}) != 1:
        queries.builder.statement.refuse(
            "SQL_TYPE", node, why="the rows have different numbers of values", hint="Give each the same."
        )
    columns = [expressions.alike(list(column), node) for column in zip(*lists, strict=True)]
    bodies: list[tuple[list[Term], list[Literal]]] = [
        ([number(i).term, *(column[i].term for column in columns)], [Truth(True)]) for i in range(len(lists))
    ]
    names = [(f"col{i + 1}", column[0].type) for i, column in enumerate(columns)]
    relation = queries.builder.derive([("row", BIGINT), *names], *bodies)
    body = Body(queries.builder, parent)
    body.read(table_of(relation), "values")
    body.keys = [((body.sources[0].columns[0][1].term.name,),)]  # type: ignore[union-attr]
    body.sources = [Source("values", body.sources[0].columns[1:])]
    return Rows(body, list(body.sources[0].columns))


def _renamed(source: Source, names: Sequence[str], node: exp.Expr, queries: Queries) -> Source:
    return replace(source, columns=tuple(with_names(list(source.columns), names, node, queries.builder.statement)))
