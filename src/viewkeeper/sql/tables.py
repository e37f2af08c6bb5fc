"""CREATE TABLE and ALTER TABLE … ADD COLUMN.

A table with a primary key is a relation with that key. One without may hold a row several times: it is a bag, a relation of the rows
that there are with a last column that says how often each is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count

from sqlglot import exp

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Test,
    Variable,
    Wildcard,
    all_variables,
)
from viewkeeper.program.types import MAX_PRECISION, NUMBER, Kind, Type
from viewkeeper.sql.naming import BAG, column_named, is_bag, new_name, only, table_named, visible
from viewkeeper.sql.reading import Statement
from viewkeeper.sql.types import type_of_sql

_CONSTRAINTS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.DefaultColumnConstraint: ("a DEFAULT", "Give the value in INSERT."),
    exp.ComputedColumnConstraint: ("a generated column", "Compute it in a materialized view."),
    exp.GeneratedAsIdentityColumnConstraint: ("a generated column", "Give the value in INSERT."),
    exp.CheckColumnConstraint: ("a CHECK", "A materialized view of the rows that break it tells them."),
    exp.ForeignKey: ("a FOREIGN KEY", "A materialized view of the rows without a partner tells them."),
    exp.Reference: ("a FOREIGN KEY", "A materialized view of the rows without a partner tells them."),
    exp.UniqueColumnConstraint: ("UNIQUE", "A table has one key, the PRIMARY KEY."),
}
_PROPERTIES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.TemporaryProperty: ("a temporary table", "Leave TEMPORARY out, and drop the table when it has served."),
    exp.ExternalProperty: ("an external table", "Create a table and load the file: viewkeeper load WAREHOUSE TABLE FILE."),
    exp.LocationProperty: ("a LOCATION", "The warehouse keeps the rows itself. Leave it out."),
    exp.FileFormatProperty: ("USING with a format", "The warehouse keeps the rows itself. Leave it out."),
    exp.PartitionedByProperty: ("PARTITIONED BY", "Indexes are made as views need them. Leave it out."),
    exp.LikeProperty: ("CREATE TABLE … LIKE", "Write down the columns."),
}


# ---- CREATE TABLE


def created_table(statement: Statement, program: Program) -> Program:
    """The program with the table that the statement creates."""
    tree = statement.tree
    only(statement, tree, "this", "kind", "exists", "properties", "expression", "replace")
    schema = tree.this
    if tree.args.get("expression") is not None:
        hint = "Create the table and INSERT INTO it; or CREATE MATERIALIZED VIEW, which follows its query."
        statement.refuse("SQL_UNSUPPORTED", schema, what="CREATE TABLE … AS", hint=hint)
    if tree.args.get("replace"):
        hint = "DROP TABLE first: its rows would be lost."
        statement.refuse("SQL_UNSUPPORTED", schema, what="CREATE OR REPLACE TABLE", hint=hint)
    refuse_properties(statement, tree.args.get("properties"), _PROPERTIES)
    if not isinstance(schema, exp.Schema):
        statement.refuse("SQL_UNSUPPORTED", schema, what="a table without columns", hint="Write down the columns.")
    relation = _relation(statement, schema)
    return replace(program, relations=(*program.relations, relation))


def refuse_properties(statement: Statement, properties: exp.Expr | None, known: dict[type[exp.Expr], tuple[str, str]]) -> None:
    """A comment is kept with the text of the definition; other properties would have no effect."""
    for found in properties.expressions if properties is not None else ():
        if not isinstance(found, exp.SchemaCommentProperty):
            what, hint = known.get(type(found), (f'the property "{found.name}"', "Leave it out."))
            statement.refuse("SQL_UNSUPPORTED", found, what=what, hint=hint)


def _relation(statement: Statement, schema: exp.Schema) -> Relation:
    name = new_name(statement, schema.this, "table")
    columns: list[Column] = []
    keys: list[tuple[exp.Expr, list[str]]] = []
    for part in schema.expressions:
        for constraint in part.expressions if isinstance(part, exp.Constraint) else [part]:
            match constraint:
                case exp.ColumnDef():
                    columns.append(_column(statement, constraint, keys))
                case exp.PrimaryKey():
                    only(statement, constraint, "expressions", "include")
                    keys.append((constraint, [_key_column(statement, column) for column in constraint.expressions]))
                case _:
                    refuse_constraint(statement, constraint)
    if not columns:
        statement.refuse("SQL_UNSUPPORTED", schema, what="a table without columns", hint="Write down the columns.")
    _refuse_twins(statement, schema, columns)
    if len(keys) > 1:
        statement.refuse("SQL_DUPLICATE", keys[1][0], what="PRIMARY KEY of", name=name, hint="Write PRIMARY KEY (a, b) once.")
    plain = Relation(name, tuple(columns))
    if not keys:
        copies = Column(_free("copies", [c.name for c in columns]), NUMBER)
        return Relation(name, (*columns, copies), (BAG,), tuple(c.name for c in columns))
    key = tuple(column_named(statement, keys[0][0], column, plain).name for column in keys[0][1])
    for place, column in enumerate(key):
        if column in key[:place]:
            node = keys[0][0].expressions[place]
            statement.refuse("SQL_DUPLICATE", node, what="column", name=column, hint="Name each column of the key once.")
    return replace(
        plain, columns=tuple(replace(c, type=c.type.optional(c.type.nullable and c.name not in key)) for c in columns), key=key
    )


def _key_column(statement: Statement, column: exp.Expr) -> str:
    if isinstance(column, exp.Ordered):
        column = column.this
    if not isinstance(column, (exp.Identifier, exp.Column)):
        statement.refuse("SQL_UNSUPPORTED", column, what="an expression in a PRIMARY KEY", hint="Name columns.")
    return column.name


def _column(statement: Statement, part: exp.ColumnDef, keys: list[tuple[exp.Expr, list[str]]]) -> Column:
    only(statement, part, "this", "kind", "constraints", "exists")
    nullable = True
    for constraint in part.args.get("constraints") or ():
        match constraint.kind:
            case exp.PrimaryKeyColumnConstraint():
                only(statement, constraint.kind)
                keys.append((constraint, [part.name]))
            case exp.NotNullColumnConstraint():
                nullable = bool(constraint.kind.args.get("allow_null"))
            case exp.CommentColumnConstraint():
                pass  # is kept with the text of the definition
            case other:
                refuse_constraint(statement, other, part)
    return Column(new_name(statement, part.this, "column"), _type(statement, part).optional(nullable))


def refuse_constraint(statement: Statement, constraint: exp.Expr, part: exp.Expr | None = None) -> None:
    words = constraint.key.upper().removesuffix("COLUMNCONSTRAINT")
    what, hint = _CONSTRAINTS.get(type(constraint), (f"the constraint {words}", "Leave it out."))
    statement.refuse("SQL_UNSUPPORTED", part if part is not None else constraint, what=what, hint=hint)


def _type(statement: Statement, part: exp.ColumnDef) -> Type:
    found = part.args.get("kind")
    if not isinstance(found, exp.DataType):
        statement.refuse("SQL_TYPE", part, why=f'column "{part.name}" has no type', hint="Write a type behind its name.")
    written = found.sql("spark")
    if found.this in (exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR) and found.expressions:
        hint = "Write STRING: how long a text is is not checked."
        statement.refuse("SQL_UNSUPPORTED", part, what=f"the type {written}", hint=hint)
    known = type_of_sql(found)
    if known is None:
        hint = "The types are BIGINT, DOUBLE, DECIMAL(p,s) with up to 18 digits, STRING, BOOLEAN, DATE, TIMESTAMP and BINARY."
        statement.refuse("SQL_UNSUPPORTED", part, what=f"the type {written}", hint=hint)
    if known.kind is Kind.DECIMAL and not 1 <= known.precision <= MAX_PRECISION:
        hint = f"A decimal has up to {MAX_PRECISION} digits: write DECIMAL({MAX_PRECISION},{min(known.scale, MAX_PRECISION)}), or DOUBLE."
        statement.refuse("SQL_UNSUPPORTED", part, what=f"the type {written}", hint=hint)
    if known.kind is Kind.DECIMAL and known.scale > known.precision:
        why = f"{written} has more digits behind the point than digits"
        statement.refuse("SQL_TYPE", part, why=why, hint="DECIMAL(p,s) has p digits, s of them behind the point.")
    return known.kept


def _refuse_twins(statement: Statement, schema: exp.Expr, columns: Sequence[Column], known: Iterable[Column] = ()) -> None:
    seen = {column.name.lower() for column in known}
    nodes = list(schema.find_all(exp.ColumnDef))
    for column in columns:
        if column.name.lower() in seen:
            node = [part for part in nodes if part.name.lower() == column.name.lower()][-1]
            statement.refuse("SQL_DUPLICATE", node.this, what="column", name=column.name, hint="Give it another name.")
        seen.add(column.name.lower())


def _free(name: str, used: Iterable[str]) -> str:
    taken = {other.lower() for other in used}
    return next(free for free in chain([name], (f"{name}_{n}" for n in count(2))) if free not in taken)


# ---- ALTER TABLE


def altered_table(statement: Statement, program: Program) -> Program:
    """The program in which a table has more columns. What reads the table reads what it did before."""
    tree = statement.tree
    only(statement, tree, "this", "kind", "actions")
    if tree.args.get("kind") != "TABLE":
        hint = "A view is defined anew with CREATE OR REPLACE MATERIALIZED VIEW."
        statement.refuse("SQL_UNSUPPORTED", tree.this, what=f"ALTER {tree.args.get('kind')}", hint=hint)
    relation = table_named(statement, tree.this, program)
    if relation.name in program.derived:
        statement.refuse("SQL_TARGET", tree.this, view=relation.name, what="has the columns of its query")
    added: list[Column] = []
    for action in tree.args["actions"]:
        for part in action.expressions if isinstance(action, exp.Schema) else [action]:
            added.append(_added(statement, part))
    if not added:
        statement.refuse("SQL_UNSUPPORTED", tree.this, what="ADD COLUMNS without columns", hint="Write down the columns.")
    _refuse_twins(statement, tree, added, relation.columns)
    if not is_bag(relation):
        wide = replace(relation, columns=(*relation.columns, *added))
    else:
        columns = (*visible(relation), *added)
        wide = replace(relation, columns=(*columns, relation.columns[-1]), key=tuple(c.name for c in columns))
    place, many = len(visible(relation)), len(added)
    return replace(
        program,
        relations=tuple(wide if r.name == relation.name else r for r in program.relations),
        rules=tuple(_widened(rule, relation.name, place, many) for rule in program.rules),
    )


def _added(statement: Statement, part: exp.Expr) -> Column:
    if not isinstance(part, exp.ColumnDef):
        hint = "Columns can be added: ALTER TABLE … ADD COLUMN name type."
        statement.refuse("SQL_UNSUPPORTED", part, what="this change of a table", hint=hint)
    if part.args.get("position") is not None:
        statement.refuse(
            "SQL_UNSUPPORTED", part, what="a place for a new column", hint="Leave it out: it becomes the last one."
        )
    keys: list[tuple[exp.Expr, list[str]]] = []
    column = _column(statement, part, keys)
    if keys or not column.type.nullable:
        hint = "Leave it out: the rows that are there have no value for it."
        statement.refuse("SQL_UNSUPPORTED", part, what="a new column that needs values", hint=hint)
    return column


def _widened(rule: Rule, relation: str, place: int, many: int) -> Rule:
    """The rule, in which atoms of a relation have more arguments from a place on.

    New variables, not wildcards: rows that differ in nothing else are still different rows. Those of aggregates begin with the same
    name, so that bodies that are equal stay so.
    """
    used = set(all_variables((rule.head, *rule.body)))

    def new_names(start: str) -> Iterator[str]:
        return (name for n in count(1) if (name := f"{start}{n}") not in used)

    names = new_names("added")

    def atom(found: Atom, negated: bool = False) -> Atom:
        if found.relation != relation:
            return replace(found, arguments=tuple(map(term, found.arguments)))
        more: list[Term] = [Wildcard() if negated else Variable(next(names)) for _ in range(many)]
        left, right = found.arguments[:place], found.arguments[place:]
        return replace(found, arguments=(*map(term, left), *more, *map(term, right)))

    def term(found: Term) -> Term:
        match found:
            case Call():
                return replace(found, arguments=tuple(map(term, found.arguments)))
            case Aggregate():
                return aggregate(found)
        return found

    def aggregate(found: Aggregate) -> Aggregate:
        nonlocal names
        outside, names = names, new_names("inside")
        target = None if found.target is None else term(found.target)
        body = tuple(map(literal, found.body))
        names = outside
        return replace(found, target=target, body=body)

    def literal(found: Literal) -> Literal:
        match found:
            case Atom():
                return atom(found)
            case Negation():
                return replace(found, atom=atom(found.atom, negated=True))
            case Comparison():
                return replace(found, left=term(found.left), right=term(found.right))
            case Test():
                return replace(found, arguments=tuple(map(term, found.arguments)))
            case Either():
                return replace(found, alternatives=tuple(tuple(map(literal, one)) for one in found.alternatives))
        return found

    if not rule.derives and rule.head.relation == relation:
        return _widened_fact(rule, place, many)
    return replace(
        rule, head=replace(rule.head, arguments=tuple(map(term, rule.head.arguments))), body=tuple(map(literal, rule.body))
    )


def _widened_fact(rule: Rule, place: int, many: int) -> Rule:
    arguments = rule.head.arguments
    more = (Constant(None),) * many
    return replace(rule, head=replace(rule.head, arguments=(*arguments[:place], *more, *arguments[place:])))
