"""Changes inside literals that several passes make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Either,
    Literal,
    Negation,
    Over,
    Term,
    Test,
    Variable,
    Wildcard,
)
from viewkeeper.rewrite.fresh import Names


def map_terms(literal: Literal, change: Callable[[Term], Term]) -> Literal:
    """The literal with its direct terms changed."""
    match literal:
        case Atom() | Test():
            return replace(literal, arguments=tuple(change(a) for a in literal.arguments))
        case Negation():
            return replace(literal, atom=replace(literal.atom, arguments=tuple(change(a) for a in literal.atom.arguments)))
        case Comparison():
            return replace(literal, left=change(literal.left), right=change(literal.right))
        case _:
            return literal


def name_wildcards(body: tuple[Literal, ...], names: Names) -> tuple[Literal, ...]:
    """The body with a variable for every ``_`` of its atoms."""

    def named(literal: Literal) -> Literal:
        if isinstance(literal, Either):
            return replace(literal, alternatives=tuple(tuple(map(named, alternative)) for alternative in literal.alternatives))
        if not isinstance(literal, Atom):
            return literal
        return map_terms(literal, lambda term: Variable(names.fresh("any")) if isinstance(term, Wildcard) else term)

    return tuple(named(literal) for literal in body)


def substitute(literals: Iterable[Literal], terms: Mapping[str, Term]) -> tuple[Literal, ...]:
    """The literals with terms for variables, in aggregates, too."""

    def literal(x: Literal) -> Literal:
        if isinstance(x, Either):
            return replace(x, alternatives=tuple(substitute(a, terms) for a in x.alternatives))
        return map_terms(x, lambda term: substitute_in(term, terms))

    return tuple(map(literal, literals))


def _renamed(over: Over | None, terms: Mapping[str, Term]) -> Over | None:
    def variable(v: Variable) -> Variable:
        term = terms.get(v.name, v)
        assert isinstance(term, Variable), "windows are over variables"
        return term

    if over is None:
        return None
    order = tuple(replace(key, variable=variable(key.variable)) for key in over.order)
    return replace(over, partition=tuple(map(variable, over.partition)), order=order)


def substitute_in(term: Term, terms: Mapping[str, Term]) -> Term:
    """The term with terms for variables, in aggregates, too."""
    match term:
        case Variable():
            return terms.get(term.name, term)
        case Call():
            return replace(term, arguments=tuple(substitute_in(a, terms) for a in term.arguments))
        case Aggregate():
            target = None if term.target is None else substitute_in(term.target, terms)
            return replace(term, target=target, body=substitute(term.body, terms), over=_renamed(term.over, terms))
    return term
