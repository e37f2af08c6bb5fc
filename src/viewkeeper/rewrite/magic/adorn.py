"""The second stage: bodies in the order in which bindings reach their literals, and which columns are bound there.

A body is joined from its trigger on, the literal that starts it: first what is stored and reached by a binding, then what is derived
on demand. A negation that is derived waits until all its columns are bound, and a condition that can fail until everything is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.program.ast import (
    Atom,
    Call,
    Comparison,
    Constant,
    Literal,
    Negation,
    Relation,
    Term,
    Test,
    Variable,
    constants_of,
    literal_terms,
    relation_read,
    subterms,
    variables_of,
)
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.program.safety import bound_variables

Demanded = Callable[[str], tuple[str, str] | None]
"""The view whose rows have to be asked for before a relation is read, if it is one of those, and in which state."""
Pattern = Callable[[str, str], str]
"""How a view is asked for, given how it could be."""


@dataclass(frozen=True)
class Asked:
    """A literal whose relation is derived on demand: of which view, in which state, and the pattern of its bound (b) and free (f) columns."""

    view: str
    state: str
    adornment: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True)
class Adorned:
    """A rule whose body is joined from left to right; ``asked``: by position, what is derived on demand."""

    head: Atom
    body: tuple[Literal, ...]
    asked: Mapping[int, Asked]


def adorn(
    head: Atom,
    trigger: Sequence[Literal],
    body: Sequence[Literal],
    demanded: Demanded,
    bindable: Callable[[str], Collection[int]],
    pattern: Pattern = lambda view, adornment: adornment,
) -> Adorned:
    """``bindable``: the columns of a view by which its rows can be asked for."""
    ordered = [*trigger, *_order(trigger, body, demanded)]
    asked: dict[int, Asked] = {}
    for place, literal in enumerate(ordered):
        found = demanded(relation_read(literal)) if place >= len(trigger) else None
        if found is None:
            continue
        view, state = found
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        bound = _bound(ordered[:place])
        places = bindable(view)
        marks = pattern(
            view, "".join("b" if i in places and _is_bound(a, bound) else "f" for i, a in enumerate(atom.arguments))
        )
        arguments = tuple(a for a, mark in zip(atom.arguments, marks, strict=True) if mark == "b")
        asked[place] = Asked(view, state, marks, arguments)
    return Adorned(head, tuple(ordered), asked)


def _order(trigger: Sequence[Literal], body: Sequence[Literal], demanded: Demanded) -> list[Literal]:
    waiting, order = list(body), list[Literal]()
    while waiting:
        bound = _bound([*trigger, *order])
        chosen = max(range(len(waiting)), key=lambda i: (*_eagerness(waiting[i], bound, demanded), -i))
        order.append(waiting.pop(chosen))
    return order


def _eagerness(literal: Literal, bound: set[str], demanded: Demanded) -> tuple[int, int]:
    """How soon a literal shall be joined, given what is bound."""
    if isinstance(literal, Atom):
        if any(v.name not in bound for a in literal.arguments if isinstance(a, Call) for v in variables_of(a)):
            return (0, 0)
        reached = sum(_is_bound(a, bound) for a in literal.arguments)
        if demanded(literal.relation) is None:
            return (5, reached) if reached else (2, 0)
        return (3, reached) if reached else (1, 0)
    ready = all(v.name in bound for v in _variables(literal)) or _binds(literal, bound)
    if not ready or _can_fail(literal):
        return (-1, int(ready))
    return (4, 0) if isinstance(literal, Negation) and demanded(literal.atom.relation) else (6, 0)


def _bound(literals: Sequence[Literal]) -> set[str]:
    return bound_variables([x for x in literals if not _can_fail(x)], set(), set())


def _binds(literal: Literal, bound: set[str]) -> bool:
    return isinstance(literal, Comparison) and bool(bound_variables((literal,), bound, set()) - bound)


def _variables(literal: Literal) -> list[Variable]:
    return [v for term in literal_terms(literal) for v in variables_of(term)]


def _is_bound(term: Term, bound: set[str]) -> bool:
    return isinstance(term, Constant) or isinstance(term, Variable) and term.name in bound


def _can_fail(literal: Literal) -> bool:
    calls = [part for term in literal_terms(literal) for part in subterms(term) if isinstance(part, Call)]
    unknown = isinstance(literal, Test) and literal.predicate == "match" and not isinstance(literal.arguments[0], Constant)
    return unknown or any(FUNCTIONS[call.function].can_fail(constants_of(call)) for call in calls)


def bindable_columns(relation: Relation) -> tuple[int, ...]:
    """Columns by which rows can be asked for: NULL equals nothing."""
    return tuple(i for i, column in enumerate(relation.columns) if not column.type.nullable)
