"""Joins. Inner ones add literals; outer ones become relations, with a rule for rows that match and one for those that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Atom, Call, Constant, Literal, Negation, Term, Variable
from viewkeeper.program.types import NUMBER
from viewkeeper.sql.lowering.bodies import Body, Source
from viewkeeper.sql.lowering.builder import COPIES
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.laterals import is_lateral, lateral_row, lateral_rows
from viewkeeper.sql.lowering.subqueries import marker
from viewkeeper.sql.lowering.values import ONE, Lowered, null_of
from viewkeeper.sql.types import BIGINT, SqlType

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def join(queries: Queries, node: exp.Join, left: Body, select: exp.Expr | None) -> Body:
    """The body with something joined to it; ``select`` is the query that uses what is joined, None if all of it may be used."""
    side, kind = (node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper()
    method = (node.args.get("method") or "").upper()
    if method not in ("", "NATURAL") or kind in ("ASOF", "ARRAY", "STRAIGHT"):
        queries.refuse(node, " ".join(f"{method} {kind} JOIN".split()), "Use an ordinary join.")
    if is_lateral(node.this):
        if side not in ("", "LEFT") or kind not in ("", "CROSS", "INNER", "OUTER") or method or node.args.get("using"):
            queries.refuse(node, "LATERAL in this kind of join", "Use CROSS JOIN, JOIN … ON or LEFT JOIN … ON.")
        if lateral_row(queries, node, left):
            if not side and node.args.get("on") is not None:
                Expressions(queries, left).condition(node.args["on"])
            return left
        right = lateral_rows(queries, node.this, left)
    else:
        right = Body(queries.builder, left.parent)
        queries.read(node.this, right)
    using = [column.name for column in node.args.get("using") or ()]
    if method == "NATURAL":
        names = {name.lower() for name, _ in right.columns()}
        using = [name for name, _ in left.columns() if name.lower() in names]
    conditions = [_equal(name, left, right, node) for name in using]
    if node.args.get("on") is not None:
        conditions.append(node.args["on"])
    if kind in ("SEMI", "ANTI"):
        if side == "RIGHT" or method:
            queries.refuse(node, f"{method or side} {kind} JOIN", "Exchange the tables, or write ON.")
        found = _half(queries, left, right, conditions, kind == "ANTI")
        found.sources = _in_front(found.sources, using)
        return found
    if side:
        return _outer(queries, node, left, right, conditions, select, using)
    split = len(left.sources)
    left.take(right)
    for condition in conditions:
        Expressions(queries, left).condition(condition)
    left.sources = [*_in_front(left.sources[:split], using), *_hidden(left.sources[split:], using)]
    return left


def _equal(name: str, left: Body, right: Body, node: exp.Expr) -> exp.Expr:
    """The condition that USING stands for."""
    sides = []
    for body in (left, right):
        found = [s.alias for s in body.sources for n, _ in s.columns if n.lower() == name.lower() and n.lower() not in s.hidden]
        if not found:
            known = ", ".join(n for n, _ in body.columns())
            body.builder.statement.refuse(
                "SQL_COLUMN", node, column=name, where=" on both sides of the join", hint=f"There are {known}."
            )
        if len(found) > 1:
            tables, hint = " and in ".join(f'"{alias}"' for alias in found), " or ".join(f"ON {a}.{name} = …" for a in found)
            body.builder.statement.refuse("SQL_AMBIGUOUS", node, column=name, tables=tables, hint=hint)
        sides.append(exp.column(name, table=found[0]))
    return exp.EQ(this=sides[0], expression=sides[1])


def _in_front(sources: list[Source], using: list[str]) -> list[Source]:
    """The columns of USING come first, as sources of their own."""
    names = [name.lower() for name in using]
    shown = [(source, name, value) for source in sources for name, value in source.columns if name.lower() not in source.hidden]
    moved = [(name, s, n, v) for name in names for s, n, v in shown if n.lower() == name]
    first = [Source(s.alias, ((n, v),)) for _, s, n, v in moved]
    rest = [
        replace(s, columns=tuple((n, v) for n, v in s.columns if n.lower() in s.hidden or n.lower() not in names))
        for s in sources
    ]
    return [*first, *rest]


def _hidden(sources: list[Source], using: list[str]) -> list[Source]:
    """With the columns of USING, which are there once, first and hidden."""
    names = [name.lower() for name in using]
    found = []
    for source in sources:
        columns = sorted(source.columns, key=lambda c: names.index(c[0].lower()) if c[0].lower() in names else len(names))
        found.append(replace(source, columns=tuple(columns), hidden=source.hidden | frozenset(names)))
    return found


def _half(queries: Queries, left: Body, right: Body, conditions: list[exp.Expr], without: bool) -> Body:
    atom = _partner(queries, left, right, conditions)
    left.literals.append(Negation(atom) if without else atom)
    return left


def _partner(queries: Queries, outer: Body, inner: Body, conditions: list[exp.Expr]) -> Atom:
    """An atom that holds for the rows of the outer body that have a partner in the inner one."""
    inner = inner.copy()
    inner.parent = outer
    for condition in conditions:
        Expressions(queries, inner).condition(condition)
    return marker(queries, inner, outer)


def _outer(
    queries: Queries,
    node: exp.Join,
    left: Body,
    right: Body,
    conditions: list[exp.Expr],
    select: exp.Expr | None,
    using: list[str],
) -> Body:
    builder, side = queries.builder, node.args["side"].upper()
    both = left.copy()
    both.take(right.copy())
    for condition in conditions:
        Expressions(queries, both).condition(condition)
    if both.free():
        queries.refuse(select or node, "an outer join that uses columns from outside the query", "Write the condition outside.")
    needed = _needed(select, node)
    kept = [
        (s, c)
        for s, source in enumerate(both.sources)
        for c, (name, _) in enumerate(source.columns)
        if needed is None or needed & {("", name.lower()), (source.alias.lower(), name.lower())}
    ]
    split = len(left.sources)
    copies = bool(both.copies)
    # Variables that tell the rows of the relation apart and that no column is: for each the side that has it.
    columns_of_side = [_variables(left, [(s, c) for s, c in kept if s < split])]
    columns_of_side.append(_variables(right, [(s - split, c) for s, c in kept if s >= split]))
    keys = [
        (number, variable)
        for number, body in enumerate((left, right))
        for variable in dict.fromkeys(v for key in body.keys for v in key[0])
        if variable not in columns_of_side[number]
    ]

    def head(body: Body, first: int) -> list[Term]:
        """The columns of the relation out of a body that has the sources from ``first`` on; NULL for those of others."""
        terms: list[Term] = []
        for s, c in kept:
            there = first <= s < first + len(body.sources)
            type_ = both.sources[s].columns[c][1].type
            terms.append(body.sources[s - first].columns[c][1].term if there else null_of(type_).term)
        for number, variable in keys:
            there = body is both or body is (left, right)[number]
            terms.append(
                both_names.get(variable, Variable(variable))
                if body is both
                else Variable(variable)
                if there
                else nulls[variable]
            )
        if side == "FULL":  # a row of one side may be NULL in all columns, and so may be one of the other
            terms.append(Constant(0 if body is both else 1 + first, NUMBER))
        return [*terms, body.times() or ONE] if copies else terms

    both_names = {old: Variable(new) for old, new in zip(_all_keys(left, right), _all_keys(both), strict=True)}
    types = {variable: queries.type_of(Variable(variable), (left, right)[number].literals) for number, variable in keys}
    nulls = {variable: null_of(type_).term for variable, type_ in types.items()}
    bodies: list[tuple[list[Term], list[Literal]]] = [(head(both, 0), both.literals)]
    if side in ("LEFT", "FULL"):
        bodies.append((head(left, 0), [*left.literals, Negation(_partner(queries, left, right, conditions))]))
    if side in ("RIGHT", "FULL"):
        bodies.append((head(right, split), [*right.literals, Negation(_partner(queries, right, left, conditions))]))
    columns: list[tuple[str, SqlType]] = [_column(both, s, c) for s, c in kept]
    columns += [(f"key{i}", types[variable]) for i, (_, variable) in enumerate(keys)]
    if side == "FULL":
        columns.append(("side", BIGINT))
    if copies:
        columns.append((COPIES, BIGINT))
    relation = builder.derive(columns, *bodies)
    found = Body(builder, left.parent)
    variables = [found.variable(c.name) for c in relation.columns]
    found.literals.append(Atom(relation.name, tuple(variables)))
    if copies:
        found.copies.append(variables[-1])
    for s, source in enumerate(both.sources):
        columns_of_source = [
            (source.columns[c][0], Lowered(variables[i], source.columns[c][1].type, relation.columns[i].type.nullable))
            for i, (of, c) in enumerate(kept)
            if of == s
        ]
        found.sources.append(Source(source.alias, tuple(columns_of_source), source.hidden))
    places = {(number, variable): len(kept) + i for i, (number, variable) in enumerate(keys)}
    for i, (s, c) in enumerate(kept):
        body, number = (left, 0) if s < split else (right, 1)
        term = body.sources[s - split * number].columns[c][1].term
        if isinstance(term, Variable):
            places.setdefault((number, term.name), i)
    needed_keys = [(number, v) for number, body in enumerate((left, right)) for key in body.keys for v in key[0]]
    told_apart = [variables[places[key]].name for key in needed_keys]
    if side == "FULL":
        told_apart.append(variables[len(kept) + len(keys)].name)
    found.keys = [(tuple(told_apart),)]
    _merge_using(found, side, split, using)
    return found


def _variables(body: Body, kept: list[tuple[int, int]]) -> set[str]:
    """The variables that columns are."""
    terms = [body.sources[s].columns[c][1].term for s, c in kept]
    return {term.name for term in terms if isinstance(term, Variable)}


def _all_keys(*bodies: Body) -> list[str]:
    return [variable for body in bodies for key in body.keys for variable in key[0]]


def _merge_using(body: Body, side: str, split: int, using: list[str]) -> None:
    left, right = body.sources[:split], body.sources[split:]
    if not using:
        return
    if side == "LEFT":
        body.sources = [*_in_front(left, using), *_hidden(right, using)]
    elif side == "RIGHT":
        front = _in_front(right, using)
        body.sources = [*front[: len(using)], *_hidden(left, using), *front[len(using) :]]
    else:
        merged = []
        for name in using:
            sides = [_value(part, name) for part in (left, right)]
            merged.append((name, Lowered(Call("coalesce", (sides[0].term, sides[1].term)), sides[0].type, sides[1].nullable)))
        body.sources = [
            Source(f"{left[0].alias}+{right[0].alias}", tuple(merged)),
            *_hidden(left, using),
            *_hidden(right, using),
        ]


def _value(sources: list[Source], name: str) -> Lowered:
    return next(v for s in sources for n, v in s.columns if n.lower() == name.lower() and n.lower() not in s.hidden)


def _column(body: Body, source: int, column: int) -> tuple[str, SqlType]:
    name, value = body.sources[source].columns[column]
    return name, value.type


def _needed(select: exp.Expr | None, node: exp.Join) -> set[tuple[str, str]] | None:
    """Tables, if they are told, and names of columns that a query uses behind a join; None if it may use all."""
    joins: list[exp.Join] = [] if select is None else select.args.get("joins") or []
    if select is None or any(one.args.get("method") for one in joins):
        return None
    place = next(i for i, one in enumerate(joins) if one is node)
    parts = [part for name in ("where", "group", "having", "order") if (part := select.args.get(name)) is not None]
    parts += [*select.expressions, *joins[place + 1 :]]
    if any(not isinstance(s.parent, exp.Count) for part in parts for s in part.find_all(exp.Star)):
        return None
    names = {(column.table.lower(), column.name.lower()) for part in parts for column in part.find_all(exp.Column)}
    return names | {("", column.name.lower()) for one in joins[place:] for column in one.args.get("using") or ()}
