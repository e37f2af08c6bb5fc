"""The tree that the parser builds.

Nodes are compared by identity, so that a dictionary can hold a fact about one occurrence of a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

WILDCARD = "_#"
"""Every `_` becomes a variable of its own whose name starts with this."""


@dataclass(frozen=True, eq=False)
class Var:
    name: str


@dataclass(frozen=True, eq=False)
class Const:
    """A constant as written. Family "int" and "real" take the type of their place, as does "null"."""

    family: str
    text: str


@dataclass(frozen=True, eq=False)
class Call:
    """A function or an operator; unary minus is "neg"."""

    op: str
    args: tuple[Term, ...]


@dataclass(frozen=True)
class Over:
    """What makes an aggregate a window. `order` has names with whether they descend and whether NULL is first."""

    partition: tuple[str, ...]
    order: tuple[tuple[str, bool, bool], ...]
    frame: tuple[str, int | None, int | None] | None
    limit: int | None
    number: int | None


@dataclass(frozen=True, eq=False)
class Agg:
    """An aggregate. `body` is a disjunction of conjunctions; `outer` are its variables that are bound outside."""

    op: str
    target: Term | None
    body: tuple[tuple[Literal, ...], ...]
    id: int
    outer: frozenset[str] = frozenset()
    over: Over | None = None


@dataclass(frozen=True, eq=False)
class Atom:
    relation: str
    args: tuple[Term, ...]
    positive: bool = True


@dataclass(frozen=True, eq=False)
class Compare:
    op: str
    left: Term
    right: Term


@dataclass(frozen=True, eq=False)
class Test:
    """`match`, `contains` or `is_null`."""

    __test__ = False
    name: str
    args: tuple[Term, ...]
    positive: bool = True


@dataclass(frozen=True, eq=False)
class Truth:
    value: bool


@dataclass(frozen=True, eq=False)
class Range:
    """`var` is each number of the range in turn. Made from `range(...)` terms by scopes.py."""

    var: Var
    args: tuple[Term, ...]


Term = Var | Const | Call | Agg
Literal = Atom | Compare | Test | Truth | Range


@dataclass(frozen=True, eq=False)
class Clause:
    """Heads and a body in disjunctive normal form; a fact has one empty conjunction."""

    heads: tuple[Atom, ...]
    body: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True)
class TypeExpr:
    """`name?` or `decimal(precision,scale)?`."""

    name: str
    precision: int = 18
    scale: int = 0
    nullable: bool = False


@dataclass(frozen=True)
class Directive:
    kind: str
    relation: str
    params: dict[str, str]


@dataclass
class Program:
    types: dict[str, list[TypeExpr]] = field(default_factory=dict)
    decls: dict[str, list[tuple[str, TypeExpr]]] = field(default_factory=dict)
    directives: list[Directive] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)


def literal_terms(literal: Literal) -> tuple[Term, ...]:
    """The terms directly in a literal."""
    match literal:
        case Atom() | Test():
            return literal.args
        case Compare():
            return (literal.left, literal.right)
        case Range():
            return (literal.var, *literal.args)
        case Truth():
            return ()


def own_vars(term: Term) -> set[str]:
    """The variables of a term, without those that are only inside an aggregate."""
    match term:
        case Var():
            return {term.name}
        case Call():
            return set().union(*(own_vars(a) for a in term.args))
        case _:
            return set()


def deep_vars(term: Term) -> set[str]:
    """The variables of a term and of the aggregates in it."""
    match term:
        case Agg():
            terms = [t for conj in term.body for lit in conj for t in literal_terms(lit)]
            terms += [term.target] if term.target is not None else []
            return set().union(*(deep_vars(t) for t in terms))
        case Call():
            return set().union(*(deep_vars(a) for a in term.args))
        case _:
            return own_vars(term)


def needed_vars(term: Term) -> set[str]:
    """The variables whose values a term needs: its own, and those that its aggregates take from outside."""
    match term:
        case Agg():
            return set(term.outer)
        case Call():
            return set().union(*(needed_vars(a) for a in term.args))
        case _:
            return own_vars(term)


def aggregates(term: Term) -> list[Agg]:
    """The outermost aggregates of a term."""
    match term:
        case Agg():
            return [term]
        case Call():
            return [agg for a in term.args for agg in aggregates(a)]
        case _:
            return []
