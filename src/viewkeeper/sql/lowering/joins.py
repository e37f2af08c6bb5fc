"""Joins. Inner ones add literals; outer ones become relations, with a rule for rows that match and one for those that do not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.program.ast import Atom, Call, Literal, Negation, Term, Variable
from viewkeeper.sql.lowering.bodies import Body, Source, correlate
from viewkeeper.sql.lowering.builder import COPIES
from viewkeeper.sql.lowering.expressions import Expressions
from viewkeeper.sql.lowering.values import ONE, Lowered, null_of
from viewkeeper.sql.types import BIGINT, SqlType

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def join(queries: Queries, node: exp.Join, left: Body, select: exp.Select) -> Body:
    """The body with something joined to it."""
    side, kind = (node.args.get("side") or "").upper(), (node.args.get("kind") or "").upper()
    method = (node.args.get("method") or "").upper()
    if method not in ("", "NATURAL") or kind in ("ASOF", "ARRAY", "STRAIGHT"):
        queries.refuse(node, f"{method} {kind} JOIN".strip(), "Use an ordinary join.")
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
        return _half(queries, left, right, conditions, kind == "ANTI")
    if side:
        return _outer(queries, side, left, right, conditions, select, using)
    left.take(right)
    for condition in conditions:
        Expressions(queries, left).condition(condition)
    _hide(left, len(left.sources) - len(right.sources), using)
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
        sides.append(exp.column(name, table=found[0]))
    return exp.EQ(this=sides[0], expression=sides[1])


def _hide(body: Body, first: int, using: list[str]) -> None:
    """Columns of USING are there once."""
    hidden = frozenset(name.lower() for name in using)
    body.sources[first:] = [replace(source, hidden=source.hidden | hidden) for source in body.sources[first:]]


def _half(queries: Queries, left: Body, right: Body, conditions: list[exp.Expr], without: bool) -> Body:
    atom = _marker(queries, left, right, conditions)
    left.literals.append(Negation(atom) if without else atom)
    return left


def _marker(queries: Queries, outer: Body, inner: Body, conditions: list[exp.Expr]) -> Atom:
    """An atom that holds for the rows of the outer body that have a partner in the inner one."""
    inner = inner.copy()
    inner.parent = outer
    for condition in conditions:
        Expressions(queries, inner).condition(condition)
    tie = correlate(inner, outer)
    columns = [(f"c{i}", queries.type_of(term, tie.literals)) for i, term in enumerate(tie.inside)]
    relation = queries.builder.derive(columns, (tie.inside, tie.literals))
    return Atom(relation.name, tie.outside)


def _outer(
    queries: Queries, side: str, left: Body, right: Body, conditions: list[exp.Expr], select: exp.Select, using: list[str]
) -> Body:
    builder = queries.builder
    if left.free() or right.free():
        queries.refuse(select, "an outer join that uses columns from outside the query", "Write the condition outside.")
    both = left.copy()
    both.take(right.copy())
    for condition in conditions:
        Expressions(queries, both).condition(condition)
    needed = _needed(select)
    kept = [
        (s, c)
        for s, source in enumerate(both.sources)
        for c, (name, _) in enumerate(source.columns)
        if needed is None or name.lower() in needed or name in using
    ]
    split = len(left.sources)
    copies = bool(both.copies)

    def head(body: Body, first: int, keys: list[list[Term] | None]) -> list[Term]:
        """The columns of the relation out of a body that has the sources from ``first`` on; NULL for those of others."""
        terms: list[Term] = []
        for s, c in kept:
            type_ = both.sources[s].columns[c][1].type
            there = first <= s < first + len(body.sources)
            terms.append(body.sources[s - first].columns[c][1].term if there else null_of(type_).term)
        for number, key in enumerate(keys):
            terms += key if key is not None else [null_of(t).term for t in key_types[number]]
        return [*terms, body.times() or ONE] if copies else terms

    def key_terms(body: Body) -> list[list[Term] | None]:
        return [[Variable(v) for v in key[0]] for key in body.keys]

    key_types = [[_type(queries, both, v) for v in key[0]] for key in both.keys]
    none_left: list[list[Term] | None] = [None] * len(left.keys)
    none_right: list[list[Term] | None] = [None] * len(right.keys)
    bodies: list[tuple[list[Term], list[Literal]]] = [(head(both, 0, key_terms(both)), both.literals)]
    if side in ("LEFT", "FULL"):
        lonely = Negation(_marker(queries, left, right, conditions))
        bodies.append((head(left, 0, [*key_terms(left), *none_right]), [*left.literals, lonely]))
    if side in ("RIGHT", "FULL"):
        lonely = Negation(_marker(queries, right, left, conditions))
        bodies.append((head(right, split, [*none_left, *key_terms(right)]), [*right.literals, lonely]))
    columns: list[tuple[str, SqlType]] = [_column(both, s, c) for s, c in kept]
    columns += [(f"key{i}", t) for i, t in enumerate(t for types in key_types for t in types)]
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
    width = len(kept)
    found.keys = [(tuple(v.name for v in variables[width : len(variables) - copies]),)]
    _merge_using(found, side, split, using)
    return found


def _merge_using(body: Body, side: str, split: int, using: list[str]) -> None:
    if side != "FULL" or not using:
        sources = range(split) if side == "RIGHT" else range(split, len(body.sources))
        hidden = frozenset(name.lower() for name in using)
        for s in sources:
            body.sources[s] = replace(body.sources[s], hidden=body.sources[s].hidden | hidden)
        return
    merged = []
    for name in using:
        sides = [
            next(v for source in part for n, v in source.columns if n.lower() == name.lower())
            for part in (body.sources[:split], body.sources[split:])
        ]
        merged.append((name, Lowered(Call("coalesce", (sides[0].term, sides[1].term)), sides[0].type, sides[1].nullable)))
    _hide(body, 0, using)
    body.sources.insert(0, Source("", tuple(merged)))


def _column(body: Body, source: int, column: int) -> tuple[str, SqlType]:
    name, value = body.sources[source].columns[column]
    return name, value.type


def _type(queries: Queries, body: Body, variable: str) -> SqlType:
    return queries.type_of(Variable(variable), body.literals)


def _needed(select: exp.Select) -> set[str] | None:
    """The names of columns that a query uses; None if it may use all."""
    stars = [s for s in select.find_all(exp.Star) if not isinstance(s.parent, exp.Count)]
    return None if stars else {column.name.lower() for column in select.find_all(exp.Column)}
