"""What queries give, and relations as SQL sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewkeeper.program.ast import Relation, Term
from viewkeeper.sql.lowering.bodies import Body
from viewkeeper.sql.lowering.builder import BAG, Table
from viewkeeper.sql.lowering.values import Lowered
from viewkeeper.sql.reading import Statement
from viewkeeper.sql.types import type_of_column


@dataclass
class Rows:
    """What a query gives: for each row of the body the outputs. ``distinct``: each row once."""

    body: Body
    outputs: list[tuple[str, Lowered]]
    distinct: bool = False

    @property
    def terms(self) -> list[Term]:
        return [value.term for _, value in self.outputs]


@dataclass
class Named:
    """A query that WITH gives a name; it is lowered where it is read, once if that is in several places."""

    query: exp.Expr
    columns: tuple[str, ...]
    uses: int
    outer: dict[str, Named]
    table: Table | None = None


def table_of(relation: Relation) -> Table:
    """A relation as SQL sees it."""
    copies = BAG in relation.qualifiers
    shown = relation.columns[:-1] if copies else relation.columns
    everything = tuple(range(len(shown)))
    places = {column.name: i for i, column in enumerate(shown)}
    keys = (tuple(places[name] for name in relation.key),) if relation.key and not copies else ()
    return Table(
        relation.name,
        tuple(c.name for c in shown),
        tuple(type_of_column(c.type) for c in shown),
        tuple(c.type.nullable for c in shown),
        copies,
        (*keys, everything),
    )


def with_names(
    outputs: list[tuple[str, Lowered]], names: Sequence[str], node: exp.Expr, statement: Statement
) -> list[tuple[str, Lowered]]:
    if names and len(names) != len(outputs):
        why = f"there are {len(outputs)} columns and {len(names)} names for them"
        statement.refuse("SQL_TYPE", node, why=why, hint="Name all of them.")
    return [(name, value) for name, (_, value) in zip(names, outputs, strict=True)] if names else outputs


def output_name(node: exp.Expr) -> str:
    if isinstance(node, (exp.Alias, exp.Column)):
        return node.alias_or_name
    return re.sub(r"\W+", "_", node.sql("spark")).strip("_").lower()[:40] or "value"


def unaliased(node: exp.Expr) -> exp.Expr:
    while isinstance(node, (exp.Alias, exp.Paren)):
        node = node.this
    return node


def alias_columns(node: exp.Expr) -> tuple[str, ...]:
    """The names that ``AS x(a, b)`` gives to columns."""
    alias = node.args.get("alias")
    return tuple(c.name for c in (alias.args.get("columns") or ())) if isinstance(alias, exp.TableAlias) else ()
