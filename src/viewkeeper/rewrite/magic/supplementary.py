"""The third and fourth stage: what the first literals of a body have in common gets a relation of its own, and asks for the next.

p(x, y) :- p$m_bf(x), e(x, z), p$old(z, y).        becomes

p$sup1(x, z) :- p$m_bf(x), e(x, z).                supplementary predicates
p$m_bf(z) :- p$sup1(x, z).                         magic rules
p(x, y) :- p$sup1(x, z), p$old(z, y).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.program.ast import Atom, Literal, Relation, Rule, Test, Variable, all_variables
from viewkeeper.rewrite.magic.adorn import Adorned, Asked
from viewkeeper.rewrite.magic.names import ONE, magic

Declare = Callable[[Sequence[str], tuple[Literal, ...]], str]
"""Declares a relation with these variables of a body as columns, and returns its name."""


@dataclass(frozen=True)
class Supplemented:
    """A rule, the rules of its supplementary relations, and what is asked for with which of them there."""

    rule: Rule
    supplementary: tuple[Rule, ...]
    asked: tuple[tuple[Asked, Atom], ...]


def supplement(adorned: Adorned, declare: Declare, whole: bool = False) -> Supplemented:
    """``whole``: everything is asked for at once, whatever the first literals have in common."""
    rules: list[Rule] = []
    asked: list[tuple[Asked, Atom]] = []
    prefix: list[Literal] = []
    for place, literal in enumerate(adorned.body):
        if place in adorned.asked:
            rest = (adorned.head, *adorned.body[place:])
            first = prefix[0]
            if not whole and len(prefix) > 1 or not isinstance(first, Atom):
                needed = all_variables(rest)
                names = [name for name in all_variables(tuple(prefix)) if name in needed]
                first = Atom(declare(names, tuple(prefix)), tuple(map(Variable, names)) or (ONE,))
                rules.append(Rule(first, tuple(prefix)))
                prefix = [first]
            asked.append((adorned.asked[place], first))
        prefix.append(literal)
    return Supplemented(Rule(adorned.head, tuple(prefix)), tuple(rules), tuple(asked))


def magic_rules(supplemented: Supplemented, relations: Mapping[str, Relation]) -> list[Rule]:
    """What the literals ask for, with what is joined before them. NULL equals nothing, and is not asked for."""
    rules = []
    for asked, trigger in supplemented.asked:
        nullable = {
            argument
            for argument, column in zip(trigger.arguments, relations[trigger.relation].columns, strict=True)
            if column.type.nullable and isinstance(argument, Variable)
        }
        known = [Test("is_null", (argument,), negated=True) for argument in asked.arguments if argument in nullable]
        head = Atom(magic(asked.view, asked.adornment, asked.state), asked.arguments or (ONE,))
        rules.append(Rule(head, (trigger, *dict.fromkeys(known))))
    return rules
