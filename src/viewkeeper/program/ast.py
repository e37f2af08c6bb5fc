"""The one representation of programs: frozen, compared by value, places in the text left out of the comparison.

Every language is read into it, every technique is a function from Program to Program, and every engine runs it.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from viewkeeper.errors import Span
from viewkeeper.program.types import Type

Value: TypeAlias = int | float | str | bool | datetime.date | datetime.datetime | decimal.Decimal | bytes | None


def _span() -> Span | None:
    return field(default=None, compare=False, repr=False)


# ---- terms


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Wildcard:
    """``_``: any value, each time another one."""

    span: Span | None = _span()


@dataclass(frozen=True)
class Constant:
    """A value; ``type`` is None as long as a plain ``1`` or ``1.5`` may still become another numeric type."""

    value: Value
    type: Type | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        # 1 == 1.0 == True in Python; programs keep them apart.
        object.__setattr__(self, "_tag", type(self.value).__name__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return (self._tag, self.value, self.type) == (other._tag, other.value, other.type)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self._tag, self.value, self.type))  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator applied to terms: ``Call("+", (x, y))``, ``Call("cat", (s, t))``."""

    function: str
    arguments: tuple[Term, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Order:
    """``x desc nulls first``."""

    variable: Variable
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """``rows -2 0``, ``range unbounded 0``: from ``low`` to ``high``, counted from the row itself; None is unbounded."""

    unit: str
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Over:
    """``over (p; x desc; 10)``: what makes an aggregate a window, computed for each row of its body's atom.

    ``limit``: only the first rows of each partition. ``number``: how many rows lag and lead go, and which value nth_value takes.
    """

    partition: tuple[Variable, ...] = ()
    order: tuple[Order, ...] = ()
    frame: Frame | None = None
    limit: int | None = None
    number: int | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``sum y : { body }``; count has no target. With ``over`` it is a window (``program.windows``)."""

    operation: str
    target: Term | None
    body: tuple[Literal, ...]
    over: Over | None = None
    span: Span | None = _span()


Term: TypeAlias = Variable | Wildcard | Constant | Call | Aggregate


# ---- literals


@dataclass(frozen=True, slots=True)
class Atom:
    relation: str
    arguments: tuple[Term, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Negation:
    """``!r(x)``; with ``same`` the row itself is not there, and NULL is the same as NULL."""

    atom: Atom
    span: Span | None = _span()
    same: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: Term
    right: Term
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Test:
    """``match(p, s)``, ``contains(p, s)``, ``is_null(x)``, or one of them negated."""

    predicate: str
    arguments: tuple[Term, ...]
    negated: bool = False
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Truth:
    """The literals ``true`` and ``false``."""

    value: bool
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Either:
    """``(a, b ; c)``: one of the alternatives holds."""

    alternatives: tuple[tuple[Literal, ...], ...]
    span: Span | None = _span()


Literal: TypeAlias = Atom | Negation | Comparison | Test | Truth | Either


# ---- programs


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body.``; without a body it is a fact."""

    head: Atom
    body: tuple[Literal, ...] = ()
    span: Span | None = _span()

    @property
    def derives(self) -> bool:
        """Is its head a view because of it: has it a body, or an aggregate in its head?"""
        return bool(self.body) or any(aggregates_in(self.head))


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Relation:
    """A declared relation: base if no rule has it as head, else a view.

    ``key`` are columns in which no two rows agree; without any there is no key.
    """

    name: str
    columns: tuple[Column, ...]
    qualifiers: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    span: Span | None = _span()
    key_span: Span | None = _span()

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.columns)


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """``.type name <: base`` (form "subtype"), ``.type name = base`` ("alias") or ``.type name = a | b`` ("union")."""

    name: str
    form: str
    parts: tuple[str, ...]
    type: Type
    span: Span | None = _span()


UNSTORED = ("external", "virtual")
"""Directives of views of which nothing is stored."""


@dataclass(frozen=True, slots=True)
class Directive:
    """``.input``, ``.output``, ``.printsize``, ``.external``, ``.virtual`` or ``.integrity`` of one relation."""

    kind: str
    relation: str
    parameters: tuple[tuple[str, str], ...] = ()
    span: Span | None = _span()

    def get(self, name: str, default: str) -> str:
        return dict(self.parameters).get(name, default)


REJECT = "reject"
LEVELS = (REJECT, "warn", "note")


@dataclass(frozen=True, slots=True)
class Integrity:
    """What happens when a row comes to an integrity view, and a message about such a row in which {column} is its value."""

    level: str
    message: str = ""


NAMED_IN_MESSAGE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Program:
    """Declarations and rules. ``str(program)`` is text that parses back to an equal program.

    ``inner`` are relations that a view is computed by and that nobody else knows: `view?1`, `view?2` …
    """

    types: tuple[TypeDeclaration, ...] = ()
    relations: tuple[Relation, ...] = ()
    directives: tuple[Directive, ...] = ()
    rules: tuple[Rule, ...] = ()
    pragmas: tuple[tuple[str, ...], ...] = ()
    inner: tuple[Relation, ...] = ()

    def relation(self, name: str) -> Relation:
        return self.by_name[name]

    @cached_property
    def by_name(self) -> dict[str, Relation]:
        return {relation.name: relation for relation in self.relations}

    @cached_property
    def derived(self) -> frozenset[str]:
        """Relations that have a rule with a body, or with an aggregate in its head: views."""
        known = self.by_name
        return frozenset(rule.head.relation for rule in self.rules if rule.derives and rule.head.relation in known)

    @cached_property
    def external(self) -> frozenset[str]:
        """Views of which nothing is stored, those declared so or virtual, and those that depend on each other with one of them."""
        return self.together_with(self._declared("external") | self._declared("virtual"))

    @cached_property
    def virtual(self) -> frozenset[str]:
        """Views of which nothing is told either, declared so, unless they depend on each other with one that is told. Violations are told."""
        told = self._declared("external") | self._declared("integrity")
        return self.together_with(self._declared("virtual")) - self.together_with(told)

    def _declared(self, kind: str) -> frozenset[str]:
        return frozenset(directive.relation for directive in self.directives if directive.kind == kind) & self.derived

    def together_with(self, named: AbstractSet[str]) -> frozenset[str]:
        """These relations, and those that depend on each other with one of them."""
        if not named:
            return frozenset()
        from viewkeeper.program.strata import components, dependencies

        together = [component for component in components(dependencies(self)) if named & set(component)]
        return frozenset(name for component in together for name in component if name in self.by_name)

    @cached_property
    def integrity(self) -> dict[str, Integrity]:
        """Views whose rows are violations, and how they are taken."""
        declared = {d.relation: d for d in self.directives if d.kind == "integrity" and d.relation in self.derived}
        return {view: Integrity(d.get("level", REJECT), d.get("message", "")) for view, d in sorted(declared.items())}

    def inner_of(self, views: AbstractSet[str]) -> frozenset[str]:
        """The inner relations of these views."""
        return frozenset(relation.name for relation in self.inner if owner_of(relation.name) in views)

    @property
    def revealed(self) -> Program:
        """With the inner relations among all others."""
        return replace(self, relations=(*self.relations, *self.inner), inner=()) if self.inner else self

    def __str__(self) -> str:
        from viewkeeper.program.printing import print_program

        return print_program(self)


def owner_of(inner: str) -> str:
    """The view that an inner relation belongs to.

    >>> owner_of("revenue?2")
    'revenue'
    """
    return inner.rpartition("?")[0]


# ---- walking


def subterms(term: Term) -> Iterator[Term]:
    """The term and everything in it, the bodies of aggregates excepted."""
    yield term
    match term:
        case Call():
            for argument in term.arguments:
                yield from subterms(argument)
        case Aggregate(target=target) if target is not None:
            yield from subterms(target)


def constants_of(call: Call) -> list[Value]:
    """The values of the arguments that are constants, None of the others."""
    return [argument.value if isinstance(argument, Constant) else None for argument in call.arguments]


def relation_read(literal: Literal) -> str:
    """The relation of an atom or a negation, "" of another literal."""
    match literal:
        case Atom():
            return literal.relation
        case Negation():
            return literal.atom.relation
    return ""


def literal_terms(literal: Literal) -> tuple[Term, ...]:
    """The terms directly in a literal."""
    match literal:
        case Atom() | Test():
            return literal.arguments
        case Negation():
            return literal.atom.arguments
        case Comparison():
            return (literal.left, literal.right)
        case _:
            return ()


def aggregates_in(literal: Literal) -> Iterator[Aggregate]:
    """The aggregates directly in a literal's terms, not those nested in other aggregates or alternatives."""
    for term in literal_terms(literal):
        yield from aggregates_of(term)


def aggregates_of(term: Term) -> Iterator[Aggregate]:
    match term:
        case Aggregate():
            yield term
        case Call():
            for argument in term.arguments:
                yield from aggregates_of(argument)


def variables_of(term: Term) -> Iterator[Variable]:
    """The variables of a term outside the aggregates in it."""
    match term:
        case Variable():
            yield term
        case Call():
            for argument in term.arguments:
                yield from variables_of(argument)


def all_variables(literals: tuple[Literal, ...]) -> dict[str, Variable]:
    """Every variable anywhere in the literals, aggregates included, by name, in order of first occurrence."""
    found: dict[str, Variable] = {}

    def visit_term(term: Term) -> None:
        match term:
            case Variable():
                found.setdefault(term.name, term)
            case Call():
                for argument in term.arguments:
                    visit_term(argument)
            case Aggregate():
                if term.target is not None:
                    visit_term(term.target)
                for literal in term.body:
                    visit(literal)

    def visit(literal: Literal) -> None:
        for term in literal_terms(literal):
            visit_term(term)
        if isinstance(literal, Either):
            for alternative in literal.alternatives:
                for inner in alternative:
                    visit(inner)

    for literal in literals:
        visit(literal)
    return found


def atoms_in(literals: tuple[Literal, ...]) -> Iterator[tuple[Atom, str]]:
    """Every atom of a body with how it is used: "positive", "negation" or "aggregate"."""
    for literal in literals:
        match literal:
            case Atom():
                yield literal, "positive"
            case Negation():
                yield literal.atom, "negation"
            case Either():
                for alternative in literal.alternatives:
                    yield from atoms_in(alternative)
        for aggregate in aggregates_in(literal):
            for atom, use in atoms_in(aggregate.body):
                yield atom, "negation" if use == "negation" else "aggregate"
            if aggregate.target is not None:
                for nested in aggregates_of(aggregate.target):
                    for atom, _ in atoms_in(nested.body):
                        yield atom, "aggregate"
