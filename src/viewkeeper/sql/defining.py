"""Statements that define something: from the program before to the program after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from viewkeeper.program.ast import Directive, Program, Relation
from viewkeeper.program.merge import without, without_spans
from viewkeeper.program.printing import print_relation
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.sql.integrity import altered_view, read_integrity
from viewkeeper.sql.naming import found, is_bag, new_name, only, plain_name, visible
from viewkeeper.sql.reading import Statement, raise_problem, read_script
from viewkeeper.sql.tables import altered_table, created_table, refuse_properties
from viewkeeper.sql.types import type_of_column

_PROPERTIES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.ExternalProperty: ("EXTERNAL", "A view without MATERIALIZED is external: nothing of it is stored."),
    exp.TemporaryProperty: ("a temporary view", "Leave TEMPORARY out, and drop the view when it has served."),
    exp.PartitionedByProperty: ("PARTITIONED BY", "Indexes are made as they are needed. Leave it out."),
}
_TIMELY = ("REFRESH", "SCHEDULE", "TRIGGER")


_CREATE_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:MATERIALIZED\s+)?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?[\w`.]+(?![\w`.])\s*(?:\([^)]*\)\s*)?(?!AS\b)(\w+)",
    re.IGNORECASE,
)


def refuse_definition(statement: Statement) -> NoReturn:
    """Refuses a CREATE, ALTER or DROP that sqlglot keeps as a text."""
    found = _CREATE_VIEW.match(statement.text)
    if found is None:
        words = " ".join(statement.text.split()[:3])
        hint = "docs/sql.md tells how tables and views are defined."
        raise_problem("SQL_UNSUPPORTED", statement.place(), statement.source, what=f"this form of {words}", hint=hint)
    hint = "Leave it out: a view is right after every commit." if found[1].upper() in _TIMELY else "Leave it out."
    what = f"{found[1].upper()} in the definition of a view"
    raise_problem("SQL_UNSUPPORTED", statement.place(*found.span(1)), statement.source, what=what, hint=hint)


def folded(text: str, name: str, program: Program) -> Program:
    """The program after a definition that was made once already."""
    [statement] = read_script(text, name)
    return defined(statement, program)


def defined(statement: Statement, program: Program) -> Program:
    """The program after CREATE or ALTER; the same one if IF NOT EXISTS finds it there. Raises ProgramError."""
    tree = statement.tree
    if isinstance(tree, exp.Alter) and tree.args.get("kind") == "VIEW":
        return without_spans(altered_view(statement, program))
    if isinstance(tree, exp.Alter):
        return without_spans(altered_table(statement, program))
    if not isinstance(tree, exp.Create) or tree.args.get("kind") not in ("TABLE", "VIEW"):
        hint = "What can be created are tables and materialized views."
        statement.refuse("SQL_UNSUPPORTED", tree.this, what=f"CREATE {tree.args.get('kind')}", hint=hint)
    wanted, table = tree.args["kind"], tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    new_name(statement, table, "table" if wanted == "TABLE" else "view")
    known = found(plain_name(statement, table), program.by_name)
    if known is not None and tree.args.get("exists"):
        return program
    if known is not None and not (tree.args.get("replace") and wanted == "VIEW" and known in program.derived):
        what = "view" if known in program.derived else "table"
        statement.refuse("SQL_EXISTS", table, what=what, name=known)
    if wanted == "TABLE":
        return without_spans(created_table(statement, program))
    return without_spans(_view(statement, table, known, program))


def name_defined(statement: Statement, program: Program) -> str:
    """The relation that CREATE or ALTER is about, as it is spelled in the program."""
    tree = statement.tree
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    return found(table.name, program.by_name) or table.name


# ---- views


def _view(statement: Statement, table: exp.Expr, known: str | None, program: Program) -> Program:
    tree = statement.tree
    only(statement, tree, "this", "kind", "exists", "properties", "expression", "replace")
    properties = tree.args.get("properties") or exp.Properties()
    integrity, others = read_integrity(statement, properties.expressions)
    external = not any(isinstance(p, exp.MaterializedProperty) for p in others)
    others = [p for p in others if not isinstance(p, exp.MaterializedProperty)]
    refuse_properties(statement, exp.Properties(expressions=[p.copy() for p in others]), _PROPERTIES)
    if tree.args.get("expression") is None:
        statement.refuse("SQL_SYNTAX", table, why="a view needs a query: AS SELECT …")
    from viewkeeper.sql.lowering import lower_view

    columns, query = _columns(statement, tree.this), tree.args["expression"]
    if known is None:
        after = lower_view(statement, table.name, query, columns, program)
        return integrity.applied(statement, _stored(after, table.name, external), table.name)
    above = _above(known, program)
    _refuse_circle(statement, query, known, above)
    base = program
    for name in (*above, known):
        base = without(base, name)
    lowered = lower_view(statement, known, query, columns, base)
    if above and _shape(lowered.relation(known)) != _shape(program.relation(known)):
        new, old = lowered.relation(known), program.relation(known)
        columns = _written(new, old), _written(old, new)
        if columns[0] == columns[1]:  # Datalog has more types
            columns = print_relation(new), print_relation(old)
        why = f"would have other columns, {' instead of '.join(columns)}, and is read by {', '.join(sorted(above))}"
        hint = "Drop what reads it first, and define that again behind it."
        statement.refuse("SQL_REPLACED", table, view=known, why=why, hint=hint)
    return integrity.applied(statement, _stored(_replaced(known, program, lowered), known, external), known)


def _stored(program: Program, view: str, external: bool) -> Program:
    """Nothing is stored of a view that is not materialized."""
    return replace(program, directives=(*program.directives, Directive("external", view))) if external else program


def _above(name: str, program: Program) -> set[str]:
    """The views that depend on one."""
    graph = dependencies(program)
    return {other for other in program.derived - {name} if name in reach(graph, {other})}


def _refuse_circle(statement: Statement, query: exp.Expr, name: str, above: set[str]) -> None:
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        known = found(table.name, above | {name})
        if known is not None and table.name.lower() not in own:
            why = "would read itself" if known == name else f'would read "{known}", which reads it'
            hint = "Read tables, or views that do not depend on it. WITH RECURSIVE is for queries that read themselves."
            statement.refuse("SQL_REPLACED", table, view=name, why=why, hint=hint)


def _replaced(name: str, program: Program, lowered: Program) -> Program:
    """The program with a view as it is in another one."""
    rest, own = without(program, name), {name, *lowered.inner_of({name})}
    return replace(
        rest,
        relations=(*rest.relations, lowered.relation(name)),
        inner=(*rest.inner, *(relation for relation in lowered.inner if relation.name in own)),
        rules=(*rest.rules, *(rule for rule in lowered.rules if rule.head.relation in own)),
    )


def _shape(relation: Relation) -> object:
    return relation.columns, relation.qualifiers


def _written(relation: Relation, other: Relation) -> str:
    """The columns as CREATE TABLE would have them, and whether rows may repeat if those of the other may not."""
    columns = (f"{c.name} {type_of_column(c.type)}{'' if c.type.nullable else ' NOT NULL'}" for c in visible(relation))
    repeat = " with rows that may repeat" if is_bag(relation) and not is_bag(other) else ""
    return f"({', '.join(columns)}){repeat}"


def _columns(statement: Statement, target: exp.Expr) -> Sequence[str] | None:
    if not isinstance(target, exp.Schema):
        return None
    names: list[str] = []
    for part in target.expressions:
        if isinstance(part, exp.ColumnDef):
            only(statement, part, "this", "constraints")
            for constraint in part.args.get("constraints") or ():
                if not isinstance(constraint.kind, exp.CommentColumnConstraint):
                    hint = "Name the columns only."
                    statement.refuse("SQL_UNSUPPORTED", part, what="a constraint of a view's column", hint=hint)
        name = new_name(statement, part if isinstance(part, exp.Identifier) else part.this, "column")
        if name.lower() in (other.lower() for other in names):
            statement.refuse("SQL_DUPLICATE", part, what="column", name=name, hint="Give it another name.")
        names.append(name)
    return names
