"""Queries → relations and rules of a Program.

``queries`` lowers SELECT, set operations and WITH to bodies, ``expressions`` and ``functions`` what stands in them, ``joins``,
``grouping``, ``subqueries`` and ``windows`` what their names say. A ``builder`` collects the relations and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.check import check
from viewkeeper.sql.lowering.builder import Builder
from viewkeeper.sql.lowering.queries import Queries, _with_names
from viewkeeper.sql.reading import Statement

__all__ = ["Order", "Query", "lower_query", "lower_view"]


@dataclass(frozen=True)
class Order:
    """A column (position) to sort by."""

    position: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Query:
    """A query as a relation of a program: its columns, then hidden ones to sort by, then the copies of a bag."""

    program: Program
    relation: Relation
    columns: tuple[str, ...]
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


def lower_view(statement: Statement, name: str, query: exp.Expr, columns: Sequence[str] | None, program: Program) -> Program:
    """The program with a view added. Raises ProgramError."""
    builder = Builder(statement, program, name)
    queries = Queries(builder)
    rows = queries.rows(query)
    rows.outputs = _with_names(rows.outputs, columns or (), query, queries)
    names = [output.lower() for output, _ in rows.outputs]
    for output in names:
        if names.count(output) > 1:
            hint = "Give one of them another name with AS."
            statement.refuse("SQL_DUPLICATE", query, what="column", name=output, hint=hint)
    queries.define(rows, name)
    found = builder.finish(builder.relations[name])
    problems = check(found)
    if problems:
        hint = "Please report it with the statement."
        statement.refuse("SQL_UNSUPPORTED", query, what=f"this query ({problems[0].message})", hint=hint)
    return found


def lower_query(statement: Statement, query: exp.Expr, program: Program) -> Query:
    """A query of its own. Raises ProgramError."""
    name = "answer?"
    builder = Builder(statement, program, name)
    queries = Queries(builder)
    ordered = query.copy()
    order, limit, offset = (ordered.args.pop(part, None) for part in ("order", "limit", "offset"))
    del order, limit, offset
    rows = queries.rows(ordered)
    shown = tuple(output for output, _ in rows.outputs)
    queries.define(rows, name)
    relation = builder.relations[name]
    return Query(builder.finish(relation), replace(relation), shown)
