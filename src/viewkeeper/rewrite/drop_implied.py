"""Drops an atom that a group of an aggregate implies.

    t(s, n) :- r(s, _), t_count1(s, n).
    t_count1(s, n) :- n = count : { r(s, _) }.         becomes

    t(s, n) :- t_count1(s, n).

There is a group only where there is a row. With the atom, a change of the count would be joined with all rows of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from viewkeeper.program.ast import Atom, Constant, Literal, Program, Rule, Term, Variable, Wildcard, all_variables
from viewkeeper.program.grouping import grouping_of


def drop_implied(program: Program) -> Program:
    groupings = {rule.head.relation: rule for rule in program.rules if grouping_of(rule) is not None}
    return replace(program, rules=tuple(_without_implied(rule, groupings, program) for rule in program.rules))


def _without_implied(rule: Rule, groupings: Mapping[str, Rule], program: Program) -> Rule:
    if grouping_of(rule) is not None:
        return rule
    implied = [atom for literal in rule.body for atom in _implied(literal, groupings, program)]
    if not implied:
        return rule
    uses = Counter(name for part in (rule.head, *rule.body) for name in all_variables((part,)))
    body = [
        literal
        for literal in rule.body
        if not (
            isinstance(literal, Atom) and literal.relation not in groupings and any(_follows(literal, a, uses) for a in implied)
        )
    ]
    return replace(rule, body=tuple(body))


def _implied(literal: Literal, groupings: Mapping[str, Rule], program: Program) -> Iterator[Atom]:
    """The atoms that are true of some row where the literal, a group of an aggregate, is; what is not known of the row is a `_`."""
    if not isinstance(literal, Atom) or literal.relation not in groupings:
        return
    rule = groupings[literal.relation]
    grouping = grouping_of(rule)
    assert grouping is not None
    known: dict[str, Term] = {}
    for head, given, column in zip(
        rule.head.arguments, literal.arguments, program.relation(literal.relation).columns, strict=True
    ):
        if isinstance(head, Variable) and head.name in grouping.groups:
            if column.type.nullable:
                return  # NULL is a group, but equals nothing
            known[head.name] = given
    if not known:
        return  # without groups there is a count of nothing
    for inner in grouping.body:
        if isinstance(inner, Atom):
            yield Atom(inner.relation, tuple(_seen(argument, known) for argument in inner.arguments))


def _seen(argument: Term, known: Mapping[str, Term]) -> Term:
    if isinstance(argument, Variable):
        return known.get(argument.name, Wildcard())
    return argument if isinstance(argument, Constant) else Wildcard()


def _follows(atom: Atom, implied: Atom, uses: Mapping[str, int]) -> bool:
    """Does the atom say nothing more?"""
    if atom.relation != implied.relation:
        return False
    return all(
        isinstance(wanted, Wildcard)
        or (isinstance(wanted, Variable) and uses[wanted.name] == atom.arguments.count(wanted) == 1)
        or (wanted == given and not isinstance(given, Wildcard))
        for wanted, given in zip(atom.arguments, implied.arguments, strict=True)
    )
