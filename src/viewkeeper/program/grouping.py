"""Rules that group: ``head(x, s) :- s = sum y : { body }`` has one row for each x, and so has

    head(x, s, n) :- s = sum y : { body }, n = count : { body }

Without an x the group is everything, also if that is nothing. A group without one of the values has no row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from viewkeeper.program.ast import Aggregate, Atom, Comparison, Literal, Rule, Variable, Wildcard, all_variables

EXTREMES = frozenset({"min", "max"})


def _aggregate_variables(aggregate: Aggregate) -> set[str]:
    target = () if aggregate.target is None else (Comparison("=", aggregate.target, aggregate.target),)
    return set(all_variables((*target, *aggregate.body)))


@dataclass(frozen=True)
class Grouping:
    """What a grouping rule computes: results over one body."""

    groups: tuple[str, ...]
    results: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def body(self) -> tuple[Literal, ...]:
        return self.aggregates[0].body

    def over(self, body: tuple[Literal, ...]) -> tuple[Literal, ...]:
        """The body of the rule with another body of its aggregates."""
        return equations(self.results, [replace(aggregate, body=body) for aggregate in self.aggregates])


def equations(results: Iterable[str], aggregates: Iterable[Aggregate]) -> tuple[Literal, ...]:
    return tuple(Comparison("=", Variable(name), aggregate) for name, aggregate in zip(results, aggregates, strict=True))


def grouping_of(rule: Rule) -> Grouping | None:
    """None if it is another rule."""
    results: list[str] = []
    aggregates: list[Aggregate] = []
    for literal in rule.body:
        match literal:
            case Comparison(operator="=", left=Variable() as left, right=Aggregate(over=None) as right):
                results.append(left.name)
                aggregates.append(right)
            case _:
                return None
    if not aggregates or any(aggregate.body != aggregates[0].body for aggregate in aggregates):
        return None
    if len(aggregates) > 1 and any(a.operation in EXTREMES and single_source(a) is None for a in aggregates):
        return None
    inner = set().union(*map(_aggregate_variables, aggregates))
    if inner & set(results):
        return None
    return Grouping(tuple(name for name in all_variables((rule.head,)) if name in inner), tuple(results), tuple(aggregates))


def single_source(aggregate: Aggregate) -> Atom | None:
    """The atom that is all of the aggregate's body, with different variables at its places and the target among them."""
    if len(aggregate.body) != 1 or not isinstance(aggregate.body[0], Atom):
        return None
    atom = aggregate.body[0]
    variables = [a.name for a in atom.arguments if isinstance(a, Variable)]
    plain = len(set(variables)) == len(variables) and all(isinstance(a, (Variable, Wildcard)) for a in atom.arguments)
    target = aggregate.target
    return atom if plain and isinstance(target, Variable) and target.name in variables else None
