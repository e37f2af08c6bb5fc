"""Makes one of relations that only the rewriting knows and that are defined alike.

    p_known1(x) :- r(x, _).   q_known1(y) :- r(y, _).        both become p_known1

Many views say the same of the same relations: that a row is not known, how many there are. It is computed and kept once.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Variable,
    all_variables,
)
from viewkeeper.rewrite.terms import substitute


def share_auxiliaries(program: Program, declared: AbstractSet[str]) -> Program:
    """``declared``: relations that stay whatever they are."""
    while True:
        same = _same(program, declared)
        if not same:
            return program
        rules = [rule for rule in program.rules if rule.head.relation not in same]
        program = replace(
            program,
            relations=tuple(relation for relation in program.relations if relation.name not in same),
            rules=tuple(replace(rule, body=renamed(rule.body, same)) for rule in rules),
        )


def _same(program: Program, declared: AbstractSet[str]) -> dict[str, str]:
    """For each relation that is defined like an earlier one that one."""
    of: dict[str, list[Rule]] = {relation.name: [] for relation in program.relations if relation.name not in declared}
    for rule in program.rules:
        if rule.head.relation in of:
            of[rule.head.relation].append(rule)
    first: dict[object, str] = {}
    found: dict[str, str] = {}
    for name, rules in of.items():
        if rules:
            definition = (program.relation(name).types, frozenset(_canonical(rule, name) for rule in rules))
            if (earlier := first.setdefault(definition, name)) != name:
                found[name] = earlier
    return found


def _canonical(rule: Rule, own: str) -> Rule:
    """The rule with its variables numbered, and without the name of its relation."""
    names = {name: Variable(f"${i}") for i, name in enumerate(all_variables((rule.head, *rule.body)))}
    [head, *body] = renamed(substitute((rule.head, *rule.body), names), {own: ""})
    assert isinstance(head, Atom)
    return Rule(head, tuple(body))


def renamed(body: tuple[Literal, ...], names: dict[str, str]) -> tuple[Literal, ...]:
    """The literals with other names of relations, in aggregates, too."""

    def term(x: Term) -> Term:
        match x:
            case Aggregate():
                return replace(x, body=renamed(x.body, names))
            case Call():
                return replace(x, arguments=tuple(map(term, x.arguments)))
        return x

    def literal(x: Literal) -> Literal:
        match x:
            case Atom():
                return replace(x, relation=names.get(x.relation, x.relation))
            case Negation():
                return replace(x, atom=replace(x.atom, relation=names.get(x.atom.relation, x.atom.relation)))
            case Comparison():
                return replace(x, left=term(x.left), right=term(x.right))
        return x

    return tuple(map(literal, body))
