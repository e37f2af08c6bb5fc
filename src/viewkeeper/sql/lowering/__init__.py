"""Queries → relations and rules of a Program.

``queries`` lowers SELECT, set operations and WITH to bodies, ``sources`` what FROM names, ``groups`` the queries with GROUP BY, ``expressions`` and
``functions`` what stands in them, ``joins``, ``grouping``, ``subqueries`` and ``windows`` what their names say. A ``builder`` collects
the relations and rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.check import check
from viewkeeper.sql.failures import ANSWER
from viewkeeper.sql.lowering.builder import Builder
from viewkeeper.sql.lowering.queries import Queries, around
from viewkeeper.sql.lowering.recursion import refuse_circles
from viewkeeper.sql.lowering.rows import with_names
from viewkeeper.sql.lowering.windows import Key, hoist_order, limit_number, placed
from viewkeeper.sql.reading import Statement

__all__ = ["ANSWER", "Key", "Query", "lower_query", "lower_view"]


@dataclass(frozen=True)
class Query:
    """A query as a relation of a program: its columns, then hidden ones to sort by, then the copies of a bag."""

    program: Program
    relation: Relation
    columns: tuple[str, ...]
    order: tuple[Key, ...] = ()
    limit: int | None = None
    offset: int = 0


def lower_view(statement: Statement, name: str, query: exp.Expr, columns: Sequence[str] | None, program: Program) -> Program:
    """The program with a view added. Raises ProgramError."""
    builder = Builder(statement, program, name, careful=True)
    queries = Queries(builder)
    rows = queries.rows(query)
    rows.outputs = with_names(rows.outputs, columns or (), query, queries.builder.statement)
    names = [output.lower() for output, _ in rows.outputs]
    for output in names:
        if names.count(output) > 1:
            hint = "Give one of them another name with AS."
            statement.refuse("SQL_DUPLICATE", query, what="column", name=output, hint=hint)
    queries.define(rows, name)
    found = builder.finish(builder.relations[name])
    problems = check(found)
    if problems:
        refuse_circles(statement, query, problems)
        hint = "Please report it with the statement."
        statement.refuse("SQL_UNSUPPORTED", query, what=f"this query ({problems[0].message})", hint=hint)
    return found


def lower_query(statement: Statement, query: exp.Expr, program: Program, careful: bool = False) -> Query:
    """A query of its own. Raises ProgramError; ``careful``: and EvaluationError for what is constant and fails."""
    name = ANSWER
    builder = Builder(statement, program, name, careful)
    queries = Queries(builder)
    if isinstance(query, exp.Subquery) and query.args.get("order"):
        query = around(query)
    if not isinstance(query, (exp.Select, exp.SetOperation)):
        rows = queries.rows(query)
        queries.define(rows, name)
        relation = builder.relations[name]
        return Query(builder.finish(relation), relation, tuple(output for output, _ in rows.outputs))
    asked = query.copy()
    order, limit, offset = (asked.args.pop(part, None) for part in ("order", "limit", "offset"))
    most, skipped = limit_number(queries, limit, "LIMIT"), limit_number(queries, offset, "OFFSET") or 0
    hidden, keys = hoist_order(queries, asked, order)
    rows = queries.rows(asked)
    queries.define(rows, name)
    relation = builder.relations[name]
    columns = tuple(output for output, _ in rows.outputs)
    keys = placed(queries, order, keys, hidden, len(columns))
    finished = builder.finish(relation)
    if any(clause.args.get("recursive") for clause in query.find_all(exp.With)):
        refuse_circles(statement, query, check(finished))
    return Query(finished, relation, columns[: len(columns) - hidden], tuple(keys), most, skipped)
