"""Rows that a statement gives to a table, as stored values of the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from viewkeeper.errors import shortened
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.types import Type
from viewkeeper.program.values import BadValue, Stored, restore
from viewkeeper.sql.constants import Convert, Typed, assignment, constant
from viewkeeper.sql.modifying import Insertion
from viewkeeper.sql.naming import visible
from viewkeeper.sql.reading import Statement
from viewkeeper.sql.types import NULL_TYPE, SqlType, type_of_column

Row = tuple[Stored, ...]
_AT_ONCE = 50
"""So many expressions are computed by one query."""


Ask = Callable[[exp.Expr], tuple[list[Any], Any]]


def written(statement: Statement, wanted: Insertion, ask: Ask) -> list[Row]:
    """The rows of VALUES. Constants are taken as they are; ``ask`` computes what else there is."""
    layout = _Layout(statement, wanted.relation, wanted.columns)
    computed: dict[str, Typed] = {}
    rows: list[list[exp.Expr]] = []
    others: dict[str, exp.Expr] = {}
    for row in wanted.values or ():
        nodes = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
        wanted.check_width(statement, row, len(nodes))
        rows.append(nodes)
        for node in nodes:
            if not isinstance(node, (exp.Literal, exp.Null, exp.Boolean)) and constant(node) is None:
                others[node.sql("spark")] = node
    for start in range(0, len(others), _AT_ONCE):
        chunk = list(others.items())[start : start + _AT_ONCE]
        [values], query = ask(exp.Select(expressions=[node.copy() for _, node in chunk]))
        types = [type_of_column(column.type) for column in query.relation.columns]
        computed |= {text: (type_, value) for (text, _), type_, value in zip(chunk, types, values, strict=False)}
    return [layout.row([constant(node) or computed[node.sql("spark")] for node in nodes], nodes) for nodes in rows]


def assigned(
    statement: Statement,
    relation: Relation,
    columns: Sequence[Column],
    rows: Iterable[Row],
    types: Sequence[Type],
    nodes: Sequence[exp.Expr] | None = None,
) -> list[Row]:
    """The rows of a query, whose columns have these types and stand at these places of the text, as rows of a table."""
    layout = _Layout(statement, relation, columns)
    sources = [type_of_column(type_) for type_ in types]
    for place, node in enumerate(nodes or ()):
        if isinstance(node.unalias(), exp.Null):
            sources[place] = NULL_TYPE  # a column has some type, NULL has every
    for place, (column, source) in enumerate(zip(columns, sources, strict=True)):
        layout.conversion(column, source, nodes[place] if nodes is not None else statement.tree.this)
    return [layout.row(list(zip(sources, row, strict=True)), nodes) for row in rows]


class _Layout:
    """Where the values of some columns go in the rows of a table, and as what."""

    def __init__(self, statement: Statement, relation: Relation, columns: Sequence[Column]) -> None:
        self.statement, self.relation, self.columns = statement, relation, columns
        places = {column.name: place for place, column in enumerate(visible(relation))}
        self.places = [places[column.name] for column in columns]
        self.width = len(places)
        self._conversions: dict[tuple[SqlType, Type], Convert | None] = {}
        given = {column.name for column in columns}
        for column in visible(relation):
            if column.name not in given and not column.type.nullable:
                statement.refuse("SQL_NO_VALUE", statement.tree.this, column=column.name, table=relation.name)

    def row(self, values: Sequence[Typed], nodes: Sequence[exp.Expr] | None) -> Row:
        found: list[Stored] = [None] * self.width
        for number, (place, column, (type_, value)) in enumerate(zip(self.places, self.columns, values, strict=True)):
            found[place] = self._value(column, type_, value, nodes[number] if nodes is not None else self.statement.tree.this)
        return tuple(found)

    def conversion(self, column: Column, source: SqlType, node: exp.Expr) -> Convert:
        """How values of a type are stored in a column. Refuses what needs a CAST."""
        key = (source, column.type)
        if key not in self._conversions:
            self._conversions[key] = assignment(source, column.type)
        convert = self._conversions[key]
        if convert is None:
            wanted = type_of_column(column.type)
            why = f'a {source} cannot be stored in column "{column.name}", which is a {wanted}'
            self.statement.refuse("SQL_TYPE", node, why=why, hint=f"Write CAST(… AS {wanted}).")
        return convert

    def _value(self, column: Column, source: SqlType, value: Any, node: exp.Expr) -> Stored:
        if value is None:
            if not column.type.nullable:
                self.statement.refuse("SQL_NO_VALUE", node, column=column.name, table=self.relation.name)
            if source.kind is None:
                return None
        try:
            return self.conversion(column, source, node)(value)
        except BadValue as error:
            shown = node.sql("spark") if constant(node) is not None else str(restore(value, source.kept))
            why = f'the value {shortened(shown)} for column "{column.name}" {error}'
            self.statement.refuse("SQL_TYPE", node, why=why, hint=f"The column is a {type_of_column(column.type)}.")
