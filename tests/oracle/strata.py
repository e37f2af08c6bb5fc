"""Which rules must be finished before which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .scopes import Rule, rules
from .syntax import Atom, Literal, Program, Test, aggregates, literal_terms
from .values import OracleError


def strata(program: Program) -> list[list[Rule]]:
    """A rule's stratum is at least that of what it uses, and above what it uses negated or in an aggregate."""
    all_rules = [rule for clause in program.clauses for rule in rules(clause)]
    level = dict.fromkeys(program.decls, 0)
    changed = True
    while changed:
        changed = False
        for rule in all_rules:
            need = max(
                [level[name] + strict for name, strict in uses((*rule.body, *(Test("", h.args) for h in rule.heads)))]
                + [level[h.relation] for h in rule.heads],
            )
            for head in rule.heads:
                if level[head.relation] < need:
                    level[head.relation], changed = need, True
            if need > len(level):
                raise OracleError("not_stratified")
    result: list[list[Rule]] = [[] for _ in range(len(level) + 2)]
    for rule in all_rules:
        result[level[rule.heads[0].relation]].append(rule)
    return result


def uses(body: Iterable[Literal], inside: bool = False) -> Iterator[tuple[str, bool]]:
    """The relations in a body, with True where they must be complete before the rule can be evaluated."""
    for literal in body:
        if isinstance(literal, Atom):
            yield literal.relation, inside or not literal.positive
        for term in literal_terms(literal):
            for agg in aggregates(term):
                for conj in agg.body:
                    yield from uses((*conj, *([Test("", (agg.target,))] if agg.target else [])), True)
