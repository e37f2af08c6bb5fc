"""Statements of SQL that tell what is there: SHOW, DESCRIBE, EXPLAIN, REFRESH."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.answer import Answer
from viewkeeper.explain import explain
from viewkeeper.outcomes import Result
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.printing import print_relation, print_rule
from viewkeeper.program.windows import Windowing, windowing_of
from viewkeeper.sql.naming import found, is_bag, only, table_named, unknown_table, visible
from viewkeeper.sql.reading import Statement
from viewkeeper.sql.types import type_of_column

if TYPE_CHECKING:
    from viewkeeper.explain import Explained
    from viewkeeper.state import State

SHOWING = (exp.Command, exp.Describe, exp.Refresh)
_KNOWN = (
    "There are SHOW TABLES, SHOW VIEWS, SHOW COLUMNS IN t, SHOW CREATE TABLE t, DESCRIBE t, EXPLAIN MATERIALIZED VIEW v and"
    " REFRESH MATERIALIZED VIEW v."
)
_LIST = re.compile(r"(TABLES|(?:MATERIALIZED )?VIEWS)(?: LIKE)?(?: ['\"](.*)['\"])?", re.IGNORECASE)
_COLUMNS = re.compile(r"COLUMNS (?:IN|FROM) (\S+)", re.IGNORECASE)
_CREATE = re.compile(r"CREATE (?:TABLE|(?:MATERIALIZED )?VIEW) (\S+)", re.IGNORECASE)
_EXPLAIN = re.compile(r"(?:MATERIALIZED )?VIEW (\S+)", re.IGNORECASE)


def shown(statement: Statement, state: State, kind: str) -> Result:
    """What one of these statements tells."""
    tree, program = statement.tree, state.program
    match tree:
        case exp.Describe():
            only(statement, tree, "this", "kind", "style")
            if not isinstance(tree.this, exp.Table):
                _refuse(statement)
            return _described(statement, kind, table_named(statement, tree.this, program))
        case exp.Refresh():
            relation = table_named(statement, tree.this, program)
            if relation.name not in program.derived:
                return Result(statement.text, kind, message=f"{relation.name} is a table: there is nothing to refresh")
            return Result(statement.text, kind, message=f"{relation.name} is always up to date")
    words = " ".join(str(tree.expression.this if isinstance(tree.expression, exp.Literal) else "").split())
    if tree.name.upper() == "SHOW":
        if match := _LIST.fullmatch(words):
            return _listed(statement, kind, program, match[1].upper() != "TABLES", match[2] or "*")
        if match := _COLUMNS.fullmatch(words):
            relation = _named(statement, match[1], program)
            return _answer(statement, kind, {"column": [column.name for column in visible(relation)]})
        if match := _CREATE.fullmatch(words):
            relation = _named(statement, match[1], program)
            return Result(statement.text, kind, message=_definition(relation, state))
    if tree.name.upper() == "EXPLAIN" and (match := _EXPLAIN.fullmatch(words)):
        relation = _named(statement, match[1], program)
        if relation.name not in program.derived:
            statement.refuse("SQL_OTHER_KIND", None, name=relation.name, what="table", other=f"DESCRIBE {relation.name}")
        return Result(statement.text, kind, message=explanation(explain(program, state.kept, relation.name), program))
    return _refuse(statement)


def _refuse(statement: Statement) -> NoReturn:
    words = " ".join(statement.text.split()[:3])
    statement.refuse("SQL_UNSUPPORTED", None, what=words, hint=_KNOWN)


def _named(statement: Statement, name: str, program: Program) -> Relation:
    known = found(name.strip("`"), program.by_name)
    if known is None:
        unknown_table(statement, statement.tree, name, program)
    return program.relation(known)


def _answer(statement: Statement, kind: str, columns: dict[str, Sequence[str]]) -> Result:
    import pyarrow as pa

    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    return Result(statement.text, kind, answer=Answer(table, tuple(columns)))


def _listed(statement: Statement, kind: str, program: Program, views: bool, pattern: str) -> Result:
    relations = [
        relation
        for relation in sorted(program.relations, key=lambda r: r.name)
        if (relation.name in program.derived) is views
        and any(fnmatchcase(relation.name.lower(), part.lower()) for part in pattern.split("|"))
    ]
    columns = [", ".join(f"{c.name} {type_of_column(c.type)}" for c in visible(r)) for r in relations]
    return _answer(statement, kind, {"name": [r.name for r in relations], "columns": columns})


def _described(statement: Statement, kind: str, relation: Relation) -> Result:
    columns = visible(relation)
    key = () if is_bag(relation) else relation.key
    return _answer(
        statement,
        kind,
        {
            "column": [column.name for column in columns],
            "type": [str(type_of_column(column.type)) for column in columns],
            "null": ["yes" if column.type.nullable else "no" for column in columns],
            "key": ["primary key" if column.name in key else "" for column in columns],
        },
    )


def _definition(relation: Relation, state: State) -> str:
    """The statements that made a relation what it is; of one that SQL did not define its declaration and rules."""
    texts: list[str] = []
    for definition in state.catalog.definitions():
        if definition.name == relation.name and definition.kind == "sql":
            if definition.text.lstrip()[:6].upper() == "CREATE":
                texts = []
            texts.append(f"{definition.text};")
        elif definition.name == relation.name and definition.kind == "drop":
            texts = []
    if texts:
        return "\n".join(texts)
    rules = (print_rule(rule) for rule in state.program.rules if rule.head.relation == relation.name)
    return "\n".join([print_relation(relation), *rules])


def explanation(explained: Explained, program: Program) -> str:
    """How a view is kept, and what would make that cheaper."""
    anew = [part for part in explained.parts if part.strategy == "recomputation"]
    if not anew:
        lines = [f"{explained.view} is kept from changes alone"]
    elif len(anew) == len(explained.parts):
        lines = [f"{explained.view} is computed anew whenever what it reads changes"]
    else:
        lines = [f"{explained.view} is kept from changes, except for what is computed anew"]
    for part in explained.parts:
        lines.append(f"  {part.relation}: {part.strategy} ({part.why})")
        lines += [f"    index {index}" for index in part.indexes]
    advice = [f"without what makes a recomputation necessary: {part.relation}, {part.why}" for part in anew]
    if is_bag(program.relation(explained.view)):
        advice.append(
            "with a key of the tables it reads among its columns: then no row is there twice, and copies need not be counted"
        )
    if any(_is_over_everything(windowing) for windowing in _windows(explained, program)):
        advice.append("with PARTITION BY: a window over everything is computed whole at every change")
    return "\n".join([*lines, *(f"It would be cheaper {text}." for text in advice)])


def _windows(explained: Explained, program: Program) -> Iterator[Windowing]:
    relations = {part.relation for part in explained.parts}
    for rule in program.rules:
        if rule.head.relation in relations and (windowing := windowing_of(rule)) is not None:
            yield windowing


def _is_over_everything(windowing: Windowing) -> bool:
    return any(w.over is not None and not w.over.partition and w.over.limit is None for w in windowing.windows)
