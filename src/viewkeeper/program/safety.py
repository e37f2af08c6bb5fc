"""Which variables a body binds, and the report of those it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from viewkeeper.errors import Problem, problem
from viewkeeper.program.alternatives import body_alternatives
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Either,
    Literal,
    Negation,
    Rule,
    Term,
    Test,
    Variable,
    Wildcard,
    aggregates_in,
    aggregates_of,
    all_variables,
    literal_terms,
    subterms,
    variables_of,
)
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.strata import reach
from viewkeeper.program.windows import has_windows, window_problems, windowing_of


def scope_variables(literals: Iterable[Literal]) -> set[str]:
    """Variables of the literals outside their aggregates."""
    found: set[str] = set()
    for literal in literals:
        found |= {v.name for term in literal_terms(literal) for v in variables_of(term)}
        if isinstance(literal, Either):
            for alternative in literal.alternatives:
                found |= scope_variables(alternative)
    return found


def inner_variables(aggregate: Aggregate) -> set[str]:
    """Variables of the aggregate, those of aggregates nested in it included."""
    target = () if aggregate.target is None else (Comparison("=", aggregate.target, aggregate.target),)
    return set(all_variables((*target, *aggregate.body)))


def bound_variables(body: Iterable[Literal], given: set[str], visible: set[str]) -> set[str]:
    """Variables that a disjunction-free body binds, starting from ``given``.

    ``visible`` are the variables of the scope: an aggregate can be computed once those of them it uses are bound.
    """
    bound = set(given)

    def ready(term: Term) -> bool:
        needed = {v.name for v in variables_of(term)}
        for aggregate in aggregates_of(term):
            needed |= inner_variables(aggregate) & visible
        return needed <= bound and not any(isinstance(part, Wildcard) for part in subterms(term))

    before = -1
    while before != len(bound):
        before = len(bound)
        for literal in body:
            match literal:
                case Atom():
                    bound |= {a.name for a in literal.arguments if isinstance(a, Variable)}
                case Comparison(operator="="):
                    for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                        if isinstance(side, Variable) and ready(other):
                            bound.add(side.name)
    return bound


def check_rule(rule: Rule, variables: AbstractSet[str] = frozenset()) -> list[Problem]:
    """What keeps a disjunction-free rule from being evaluated; ``variables`` are those of the body it is an alternative of."""
    elsewhere = variables - set(all_variables(rule.body))
    if has_windows(rule):
        windowing = windowing_of(rule)
        bound = (
            ()
            if windowing is None
            else _check_body((windowing.source,), (rule.head,), {*windowing.results}, set(), None, elsewhere)
        )
        return [*window_problems(rule), *bound]
    grouped = grouping_of(rule)
    if grouped is None:
        return _check_body(rule.body, (rule.head,), set(), set(), None, elsewhere)
    problems: list[Problem] = []
    for aggregate in grouped.aggregates:
        for body in body_alternatives(aggregate.body):
            problems += _check_body(body, (rule.head,), set(grouped.results), set(), aggregate.target, elsewhere)
    return problems


def _check_body(
    body: tuple[Literal, ...],
    head: tuple[Atom, ...],
    given: set[str],
    outer: set[str],
    target: Term | None,
    elsewhere: AbstractSet[str] = frozenset(),
) -> list[Problem]:
    visible = scope_variables(body) | scope_variables(head) | outer
    if target is not None:
        visible |= {v.name for v in variables_of(target)}
    bound = bound_variables(body, given, visible)
    problems = [problem("WILDCARD_PLACE", wildcard.span) for wildcard in _misplaced(body, head, target)]
    aggregates = list(_aggregates(body, head, target))
    inside = {name for aggregate in aggregates for name in inner_variables(aggregate)}
    unbound: dict[str, tuple[Variable, str]] = {}
    for variable, why in _uses(body, head, target, elsewhere):
        if variable.name not in bound:
            unbound.setdefault(variable.name, (variable, _LOCAL if variable.name in inside else why))
    problems += [
        problem("UNBOUND_VARIABLE", variable.span, variable=variable.name, why=why) for variable, why in _causes(unbound, body)
    ]
    for aggregate in aggregates:
        inner_given = inner_variables(aggregate) & visible
        for inner in body_alternatives(aggregate.body):
            problems += _check_body(inner, (), inner_given, visible, aggregate.target)
    return problems


_EQUATED = "it is equated only with something that is not bound itself"
_LOCAL = "an aggregate binds nothing outside its braces"


def _causes(unbound: dict[str, tuple[Variable, str]], body: Iterable[Literal]) -> Iterator[tuple[Variable, str]]:
    """The unbound variables without those that only follow from others: of ``x = y, y = z + 1`` only z."""
    needs: dict[str, set[str]] = {}
    wild: set[str] = set()  # equated with a term that has a misplaced _, which is told
    for literal in body:
        if isinstance(literal, Comparison) and literal.operator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, Variable) and side.name in unbound and unbound[side.name][1] != _LOCAL:
                    needs.setdefault(side.name, set()).update(all_variables((Comparison("=", other, other),)).keys() & unbound)
                    if any(isinstance(part, Wildcard) for part in subterms(other)):
                        wild.add(side.name)
    told = {name for name in unbound if name not in needs} | wild
    for name, (variable, why) in unbound.items():
        if name not in needs:
            yield variable, why
        elif not reach(needs, {name}) & told:
            told.add(name)
            yield variable, _EQUATED


def _aggregates(body: Iterable[Literal], head: tuple[Atom, ...], target: Term | None) -> Iterator[Aggregate]:
    for literal in (*body, *head):
        yield from aggregates_in(literal)
    if target is not None:
        yield from aggregates_of(target)


def _uses(
    body: Iterable[Literal], head: tuple[Atom, ...], target: Term | None, elsewhere: AbstractSet[str]
) -> Iterator[tuple[Variable, str]]:
    """Where variables are needed, with the reason to give if they are not bound. The first use of a variable counts."""
    for literal in body:
        match literal:
            case Negation():
                for variable in _variables(literal):
                    yield variable, "it occurs in a negation, which binds nothing"
            case Atom() | Comparison(operator="="):
                for variable in _variables(literal):
                    yield variable, "it occurs only inside a term"
            case Comparison() | Test():
                for variable in _variables(literal):
                    yield variable, "it occurs in a comparison or test, which binds nothing"
    if target is not None:
        for variable in variables_of(target):
            yield variable, "the aggregate's body does not bind it"
    for atom in head:
        for variable in _variables(atom):
            other = variable.name in elsewhere
            yield variable, "one of the alternatives does not bind it" if other else "it occurs only in the head"


def _variables(literal: Literal) -> Iterator[Variable]:
    for term in literal_terms(literal):
        yield from variables_of(term)


def _misplaced(body: Iterable[Literal], head: tuple[Atom, ...], target: Term | None) -> Iterator[Wildcard]:
    """``_`` where a value is needed: anywhere but as an argument of its own in a body atom."""
    for literal in body:
        plain = isinstance(literal, (Atom, Negation))
        for term in literal_terms(literal):
            if not (plain and isinstance(term, Wildcard)):
                yield from (part for part in subterms(term) if isinstance(part, Wildcard))
    for atom in head:
        for term in atom.arguments:
            yield from (part for part in subterms(term) if isinstance(part, Wildcard))
    if target is not None:
        yield from (part for part in subterms(target) if isinstance(part, Wildcard))


def is_constant_fact(rule: Rule) -> bool:
    """A fact whose arguments are plain constants."""
    return not rule.body and all(isinstance(a, Constant) for a in rule.head.arguments)
