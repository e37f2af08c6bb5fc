"""Names in SQL: capital letters do not count, unless two names differ in nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

from sqlglot import exp

from viewkeeper.errors import closest
from viewkeeper.program.ast import Column, Program, Relation
from viewkeeper.sql.reading import Statement

BAG = "bag"
_NAME = re.compile(r"(?!\d)\w+")


def found(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: spelled exactly so, or with other capital letters.

    >>> found("Sales", ["sales", "items"]), found("b", ["B", "b"]), found("c", [])
    ('sales', 'b', None)
    """
    names = list(known)
    return name if name in names else next((other for other in names if other.lower() == name.lower()), None)


def is_bag(relation: Relation) -> bool:
    """May it hold a row several times? Then its last column says how often."""
    return BAG in relation.qualifiers


def visible(relation: Relation) -> tuple[Column, ...]:
    """The columns that people know."""
    return relation.columns[:-1] if is_bag(relation) else relation.columns


def table_named(statement: Statement, table: exp.Expr, program: Program) -> Relation:
    """The table or view that a part of a statement names."""
    name = plain_name(statement, table)
    known = found(name, program.by_name)
    if known is None:
        unknown_table(statement, table, name, program)
    return program.relation(known)


def unknown_table(statement: Statement, node: exp.Expr, name: str, program: Program) -> NoReturn:
    names = sorted(program.by_name)
    listed = f"There are {', '.join(names[:10])}{' …' if len(names) > 10 else ''}." if names else "There is none yet."
    statement.refuse("SQL_TABLE", node, table=name, hint=closest(name, names) or listed)


def column_named(statement: Statement, node: exp.Expr, name: str, relation: Relation) -> Column:
    """The column of a table that a part of a statement names."""
    columns = {column.name: column for column in visible(relation)}
    known = found(name, columns)
    if known is None:
        hint = closest(name, columns) or f"Its columns are {', '.join(columns)}."
        statement.refuse("SQL_COLUMN", node, column=name, where=f' in "{relation.name}"', hint=hint)
    return columns[known]


def plain_name(statement: Statement, table: exp.Expr) -> str:
    """The name of a table that is named without a schema or catalog in front."""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        statement.refuse("SQL_UNSUPPORTED", table, what="this in place of a table", hint="Name a table.")
    if table.args.get("db") is not None:
        hint = f"Name it {table.name}: a warehouse is one schema."
        statement.refuse("SQL_UNSUPPORTED", table, what="a table in a schema", hint=hint)
    return table.name


def new_name(statement: Statement, name: exp.Expr, what: str) -> str:
    """A name that is given to something new."""
    if not _NAME.fullmatch(name.name):
        hint = "Use letters, digits and underscores, with no digit first."
        statement.refuse("SQL_UNSUPPORTED", name, what=f'a {what} of the name "{name.name}"', hint=hint)
    return name.name


def only(statement: Statement, node: exp.Expr, *known: str) -> None:
    """Refuses what a part of a statement says beside what is known here: nothing is overlooked."""
    for name, value in node.args.items():
        if value and name not in known:
            what = f"{clause(name)} in {_NODES.get(node.key, node.key.upper())}"
            statement.refuse("SQL_UNSUPPORTED", first_of(value) or node, what=what, hint="Leave it out.")


# Parts of statements that sqlglot names otherwise than SQL.
_CLAUSES = {
    "cluster": "CLUSTER BY", "connect": "CONNECT BY", "distribute": "DISTRIBUTE BY", "hints": "a hint", "into": "INTO",
    "joins": "JOIN", "laterals": "LATERAL VIEW", "match": "MATCH_RECOGNIZE", "pivots": "PIVOT", "sample": "TABLESAMPLE", "sort": "SORT BY",
    "tables": "a table before FROM", "version": "VERSION AS OF", "when": "TIMESTAMP AS OF", "with_": "WITH",
}  # fmt: skip
_NODES = {
    "columndef": "a column", "primarykey": "PRIMARY KEY", "primarykeycolumnconstraint": "PRIMARY KEY", "table": "the name of a table",
    "truncatetable": "TRUNCATE",
}  # fmt: skip


def clause(part: str) -> str:
    """A part of sqlglot's trees as it is called in SQL.

    >>> clause("laterals"), clause("order"), clause("on_conflict")
    ('LATERAL VIEW', 'ORDER', 'ON CONFLICT')
    """
    return _CLAUSES.get(part, part.strip("_").replace("_", " ").upper())


def first_of(value: object) -> exp.Expr | None:
    """Where a part of a statement begins."""
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, exp.Expr) else None
