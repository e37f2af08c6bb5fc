"""Adding declarations and rules to a program that exists already."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, TypeVar

from viewkeeper.errors import Problem, problem
from viewkeeper.program.ast import UNSTORED, Directive, Program, Relation, TypeDeclaration, owner_of
from viewkeeper.program.printing import print_relation, print_type

T = TypeVar("T")


def merge(base: Program, more: Program) -> tuple[Program, list[Problem]]:
    """Both programs as one. What is repeated unchanged counts once; what is repeated differently is a conflict.

    Places in the text of ``base`` are dropped: they mean nothing in the text of ``more``.
    """
    base = without_spans(base)
    problems: list[Problem] = []
    types = {t.name: t for t in base.types}
    for declaration in more.types:
        old_type = types.get(declaration.name)
        if old_type is not None and old_type != declaration:
            problems.append(_conflict("type", declaration, print_type(old_type), print_type(declaration)))
    relations = base.by_name
    for relation in more.relations:
        old = relations.get(relation.name)
        # Declarations of one wording that differ do so because of their types, and that has been told.
        if old is not None and print_relation(old) != print_relation(relation):
            problems.append(_conflict("relation", relation, print_relation(old), print_relation(relation)))
    old_rules = set(base.rules)
    return (
        _together(
            Program(
                base.types + tuple(t for t in more.types if t.name not in types),
                base.relations + tuple(r for r in more.relations if r.name not in relations),
                _directives(base, more),
                base.rules + tuple(r for r in more.rules if r not in old_rules),
                base.pragmas + tuple(p for p in more.pragmas if p not in base.pragmas),
                base.inner + tuple(r for r in more.inner if r.name not in {i.name for i in base.inner}),
            ),
            more,
        ),
        problems,
    )


def _directives(base: Program, more: Program) -> tuple[Directive, ...]:
    """Those of both. Where a view is kept, and how an integrity view is taken, can be said anew: what is said last counts."""
    last = {(_said_once(d), d.relation): d for d in (*base.directives, *more.directives) if _said_once(d) is not None}
    return tuple(
        dict.fromkeys(d for d in (*base.directives, *more.directives) if last.get((_said_once(d), d.relation), d) == d)
    )


def _together(program: Program, more: Program) -> Program:
    """Views that depend on each other are kept alike: where one of them is kept is said anew for all of them."""
    said = {d.relation: d.kind for d in more.directives if d.kind in UNSTORED}
    others = program.together_with(said.keys()) - said.keys()
    if not others:
        return program
    kinds = {other: kind for view, kind in said.items() for other in program.together_with({view}) & others}
    return replace(
        program,
        directives=tuple(
            replace(d, kind=kinds[d.relation]) if d.kind in UNSTORED and d.relation in others else d for d in program.directives
        ),
    )


def _said_once(directive: Directive) -> str | None:
    """What a directive says of a relation that no other directive may say as well."""
    if directive.kind in UNSTORED:
        return "storage"
    return "integrity" if directive.kind == "integrity" else None


def _conflict(what: str, declared: Relation | TypeDeclaration, old: str, new: str) -> Problem:
    return problem("CONFLICTING_DEFINITION", declared.span, what=what, name=declared.name, old=old, new=new)


def without_spans(node: T) -> T:
    """The same, with all places in the text removed."""
    found: Any = node
    if isinstance(node, tuple):
        found = tuple(without_spans(part) for part in node)
    elif isinstance(node, Program) or hasattr(node, "span"):
        parts: Any = node
        fields = [f.name for f in dataclasses.fields(parts)]
        found = dataclasses.replace(
            parts, **{f: None if f in ("span", "key_span") else without_spans(getattr(parts, f)) for f in fields}
        )
    result: T = found
    return result


def with_storage(program: Program, view: str, external: bool) -> Program:
    """With a view stored, or external."""
    others = tuple(d for d in program.directives if d.kind not in UNSTORED or d.relation != view)
    return replace(program, directives=(*others, Directive("external", view)) if external else others)


def with_integrity(program: Program, view: str, level: str | None, message: str | None = None) -> Program:
    """With a view of which each row is a violation, or with None one that is no such view. It keeps the message it has, unless there is another."""
    others = tuple(d for d in program.directives if (d.kind, d.relation) != ("integrity", view))
    if level is None:
        return replace(program, directives=others)
    known = program.integrity.get(view)
    said = message if message is not None else known.message if known is not None else ""
    parameters = (("level", level), *([("message", said)] if said else []))
    return replace(program, directives=(*others, Directive("integrity", view, parameters)))


def without(program: Program, name: str) -> Program:
    """Without the relation and what belongs to it, or if there is none of that name without the type."""
    if name not in program.by_name:
        return replace(program, types=tuple(t for t in program.types if t.name != name))
    return replace(
        program,
        relations=tuple(r for r in program.relations if r.name != name),
        directives=tuple(d for d in program.directives if d.relation != name),
        rules=tuple(r for r in program.rules if r.head.relation not in {name, *program.inner_of({name})}),
        inner=tuple(r for r in program.inner if owner_of(r.name) != name),
    )
