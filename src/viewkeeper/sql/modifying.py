"""INSERT, UPDATE, DELETE and TRUNCATE: which table, which columns, and the query of the rows they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.errors import counted
from viewkeeper.program.ast import Column, Program, Relation
from viewkeeper.sql.naming import column_named, found, is_bag, only, table_named, visible
from viewkeeper.sql.reading import Statement

MODIFYING = (exp.Insert, exp.Update, exp.Delete, exp.TruncateTable, exp.Merge)


@dataclass(frozen=True)
class Insertion:
    """Rows for a table: written down, or those of a query. ``columns`` are the ones that get a value, in this order."""

    relation: Relation
    columns: tuple[Column, ...]
    values: Sequence[exp.Expr] | None
    query: exp.Expr | None
    by_name: bool

    def named(self, statement: Statement, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns that the columns of the query are for."""
        if self.by_name:
            columns = tuple(column_named(statement, statement.tree.this, name, self.relation) for name in names)
            for place, column in enumerate(columns):
                if column in columns[:place]:
                    hint = "Give one of them another name."
                    statement.refuse("SQL_DUPLICATE", statement.tree.this, what="column", name=column.name, hint=hint)
            return columns
        self.check_width(statement, statement.tree.this, len(names))
        return self.columns

    def check_width(self, statement: Statement, node: exp.Expr, width: int) -> None:
        if width != len(self.columns):
            listed = ", ".join(column.name for column in self.columns)
            statement.refuse("SQL_WIDTH", node, table=self.relation.name, columns=listed, given=counted(width, "value"))


@dataclass(frozen=True)
class Affected:
    """The rows that a statement is about. The query has the columns of the table, and behind them values for ``columns``."""

    relation: Relation
    query: exp.Expr
    columns: tuple[Column, ...] = ()
    values: tuple[exp.Expr, ...] = ()


def target(statement: Statement, table: exp.Expr, program: Program) -> Relation:
    """The table whose rows a statement changes."""
    relation = table_named(statement, table, program)
    only(statement, table, "this", "alias")
    if relation.name in program.derived:
        statement.refuse("SQL_TARGET", table, view=relation.name, what="has the rows of its query")
    if is_bag(relation) and relation.key != tuple(column.name for column in visible(relation)):
        hint = f"Declare it with key({', '.join(column.name for column in visible(relation))}), or change it in Datalog."
        statement.refuse("SQL_UNSUPPORTED", table, what="changing a bag whose key is not the row", hint=hint)
    return relation


def insertion(statement: Statement, program: Program) -> Insertion:
    tree = statement.tree
    if tree.args.get("overwrite"):
        hint = "TRUNCATE the table, then INSERT INTO it; in one script that is one transaction."
        statement.refuse("SQL_UNSUPPORTED", tree.this, what="INSERT OVERWRITE", hint=hint)
    only(statement, tree, "this", "expression", "by_name", "source", "with_")
    schema = tree.this if isinstance(tree.this, exp.Schema) else None
    relation = target(statement, tree.this if schema is None else schema.this, program)
    columns = visible(relation) if schema is None else _listed(statement, schema, relation)
    source = tree.args.get("source") or tree.args.get("expression")
    if source is None:
        statement.refuse("SQL_SYNTAX", tree.this, why="INSERT needs VALUES or a query")
    by_name = bool(tree.args.get("by_name"))
    if isinstance(source, exp.Values) and not by_name and not source.args.get("alias"):
        return Insertion(relation, columns, source.expressions, None, False)
    if isinstance(source, exp.Table):
        source = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source.copy()))
    if tree.args.get("with_") is not None:
        source = source.copy()
        source.set("with_", tree.args["with_"].copy())
    return Insertion(relation, columns, None, source, by_name)


def _listed(statement: Statement, schema: exp.Schema, relation: Relation) -> tuple[Column, ...]:
    columns: list[Column] = []
    for node in schema.expressions:
        column = column_named(statement, node, node.name, relation)
        if column in columns:
            statement.refuse("SQL_DUPLICATE", node, what="column", name=column.name, hint="Name it once.")
        columns.append(column)
    return tuple(columns)


def updated(statement: Statement, program: Program) -> Affected:
    tree = statement.tree
    only(statement, tree, "this", "expressions", "where", "with_")
    relation = target(statement, tree.this, program)
    columns: list[Column] = []
    values: list[exp.Expr] = []
    for part in tree.expressions:
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            statement.refuse("SQL_SYNTAX", part, why="SET needs column = value")
        _check_qualifier(statement, part.this, tree.this)
        column = column_named(statement, part.this, part.this.name, relation)
        if column in columns:
            statement.refuse("SQL_DUPLICATE", part.this, what="column", name=column.name, hint="Set it once.")
        columns.append(column)
        values.append(part.expression)
    query = _query(tree, tree.this, relation, [value.copy() for value in values])
    return Affected(relation, query, tuple(columns), tuple(values))


def deleted(statement: Statement, program: Program) -> Affected:
    tree = statement.tree
    only(statement, tree, "this", "where", "with_")
    relation = target(statement, tree.this, program)
    return Affected(relation, _query(tree, tree.this, relation, []))


def truncated(statement: Statement, program: Program) -> Affected:
    tree = statement.tree
    only(statement, tree, "expressions")
    if len(tree.expressions) != 1:
        statement.refuse("SQL_UNSUPPORTED", tree, what="TRUNCATE of several tables", hint="Truncate one after the other.")
    relation = target(statement, tree.expressions[0], program)
    return Affected(relation, _query(exp.Delete(), tree.expressions[0], relation, []))


def _check_qualifier(statement: Statement, column: exp.Column, table: exp.Expr) -> None:
    named = column.table
    if named and found(named, [table.alias_or_name]) is None:
        hint = f"Write {table.alias_or_name}.{column.name}, or {column.name}."
        statement.refuse("SQL_COLUMN", column, column=f"{named}.{column.name}", where="", hint=hint)


def _query(tree: exp.Expr, table: exp.Expr, relation: Relation, values: Sequence[exp.Expr]) -> exp.Expr:
    """SELECT the columns of the table, values FROM table WHERE …"""
    name = table.alias_or_name
    own = [exp.column(exp.to_identifier(c.name, quoted=True), exp.to_identifier(name, quoted=True)) for c in visible(relation)]
    select = exp.Select(expressions=[*own, *values], from_=exp.From(this=table.copy()))
    for part in ("where", "with_"):
        if tree.args.get(part) is not None:
            select.set(part, tree.args[part].copy())
    return select
