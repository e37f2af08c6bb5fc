"""Integrity views in SQL: the properties ``integrity`` and ``integrity.message`` of a view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from viewkeeper.errors import ProgramError
from viewkeeper.program.ast import LEVELS, Program
from viewkeeper.program.check import message_problems
from viewkeeper.program.merge import with_integrity
from viewkeeper.sql.naming import only, table_named
from viewkeeper.sql.reading import Statement, place_of

LEVEL, MESSAGE, NONE = "integrity", "integrity.message", "none"


@dataclass(frozen=True)
class Properties:
    """What a statement says about the integrity of a view, and the part of it that says it."""

    level: str | None = None
    message: str | None = None
    node: exp.Expr | None = None

    def applied(self, statement: Statement, program: Program, view: str) -> Program:
        """The program with a view taken like that; the same one if nothing is said."""
        if self.node is None:
            return program
        known = program.integrity.get(view)
        level = self.level or (None if known is None else known.level)
        if level is None:
            why = f"a message is for integrity views, and {view} is none"
            statement.refuse("SQL_SYNTAX", self.node, why=f"{why}: give '{LEVEL}' = 'reject', 'warn' or 'note' too")
        problems = list(message_problems(program.relation(view), self.message or "", place_of(self.node, statement.source)))
        if problems:
            raise ProgramError(replace(one, source=statement.source) for one in problems)
        return with_integrity(program, view, None if level == NONE else level, self.message)


def read_integrity(statement: Statement, properties: Iterable[exp.Expr]) -> tuple[Properties, list[exp.Expr]]:
    """What the properties of a view say about its integrity, and all others."""
    found, others = Properties(), []
    for one in properties:
        name = _name(one).lower()
        if name == LEVEL:
            found = replace(found, level=_level(statement, one), node=one)
        elif name == MESSAGE:
            found = replace(found, message=one.args["value"].name, node=one)
        else:
            others.append(one)
    return found, others


def altered_view(statement: Statement, program: Program) -> Program:
    """ALTER VIEW … SET TBLPROPERTIES: the program in which a view is taken otherwise."""
    tree = statement.tree
    only(statement, tree, "this", "kind", "actions")
    relation = table_named(statement, tree.this, program)
    if relation.name not in program.derived:
        statement.refuse("SQL_OTHER_KIND", tree.this, name=relation.name, what="table", other=f"ALTER TABLE {relation.name}")
    found = Properties()
    for action in tree.args["actions"]:
        wanted = action.expressions if isinstance(action, exp.AlterSet) else []
        if len(wanted) != 1 or not isinstance(wanted[0], exp.Properties):
            hint = "Its level can be set: ALTER VIEW v SET TBLPROPERTIES ('integrity' = 'reject'). For the rest CREATE OR REPLACE it."
            statement.refuse("SQL_UNSUPPORTED", tree.this, what="this change of a view", hint=hint)
        found, others = read_integrity(statement, wanted[0].expressions)
        for other in others:
            hint = f"There are '{LEVEL}' and '{MESSAGE}'."
            statement.refuse("SQL_UNSUPPORTED", other, what=f'the property "{_name(other)}"', hint=hint)
    return found.applied(statement, program, relation.name)


def _name(property_: exp.Expr) -> str:
    """The name of a property, which is written as a text or as names with dots between them."""
    if type(property_) is not exp.Property:  # there are kinds of it without a name
        return ""
    name = property_.this
    return ".".join(part.name for part in name.find_all(exp.Identifier)) if isinstance(name, exp.Dot) else str(name.name)


def _level(statement: Statement, property_: exp.Expr) -> str:
    level = str(property_.args["value"].name).lower()
    if level not in (*LEVELS, NONE):
        statement.refuse("BAD_PARAMETER", property_, value=level, parameter=LEVEL, wanted="reject, warn, note or none")
    return level
