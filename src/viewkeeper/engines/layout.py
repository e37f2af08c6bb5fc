"""How relations are laid out as tables of SQLite: columns, and what makes a row unique."""

from __future__ import annotations

from viewkeeper.engines.names import quoted, sql_name
from viewkeeper.engines.sqlite_dialect import STORAGE
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.types import Kind, Type

_NARROW = 4  # columns


def column_definition(column: Column) -> str:
    return f"{quoted(sql_name(column.name))} {STORAGE.get(column.type.kind, 'INTEGER')}{'' if column.type.nullable else ' NOT NULL'}"


def unique_columns(relation: Relation) -> tuple[int, ...]:
    """The columns (positions) in which no two rows agree."""
    places = {column.name: i for i, column in enumerate(relation.columns)}
    return tuple(places[name] for name in relation.key) or tuple(range(relation.arity))


def has_few_columns(relation: Relation) -> bool:
    return relation.arity <= _NARROW


def is_narrow(relation: Relation) -> bool:
    """Has it few columns, of which only those that make rows unique may be long?"""
    unique = unique_columns(relation)
    others = [c for i, c in enumerate(relation.columns) if i not in unique]
    few = relation.arity > 0 and has_few_columns(relation) and not may_be_null(relation)
    return few and not any(c.type.kind in (Kind.SYMBOL, Kind.BYTES) for c in others)


def may_be_null(relation: Relation) -> bool:
    """May one of the columns be NULL in which no two rows agree?"""
    return any(relation.columns[i].type.nullable for i in unique_columns(relation))


def unique_name(relation: Relation) -> str:
    """The index that makes rows unique."""
    return f"{'key of' if relation.key else 'rows of'} {sql_name(relation.name)}"


def leading_column(relation: Relation) -> int | None:
    return next(iter(unique_columns(relation)), None)


def identity(column: str, type_: Type) -> str:
    """What two rows that are the same have in common in a column: NULL becomes a value of another storage class."""
    if not type_.nullable:
        return column
    other = "''" if type_.kind is Kind.BYTES else "x''"
    return f"ifnull({column}, {other})"
