"""Disjunction-free forms of rules and bodies."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from viewkeeper.program.ast import Either, Literal, Rule

MOST_ALTERNATIVES = 4096


def body_alternatives(body: tuple[Literal, ...]) -> list[tuple[Literal, ...]]:
    """a, (b ; c) → [a, b] and [a, c]; aggregates are left as they are."""
    choices: list[list[tuple[Literal, ...]]] = []
    for literal in body:
        if isinstance(literal, Either):
            choices.append([inner for a in literal.alternatives for inner in body_alternatives(a)])
        else:
            choices.append([(literal,)])
    return [sum(choice, ()) for choice in product(*choices)]


def count_alternatives(body: tuple[Literal, ...]) -> int:
    """How many bodies ``body_alternatives`` would give."""
    total = 1
    for literal in body:
        if isinstance(literal, Either):
            total *= sum(count_alternatives(a) for a in literal.alternatives)
    return total


def rule_alternatives(rule: Rule) -> list[Rule]:
    return [replace(rule, body=body) for body in body_alternatives(rule.body)]
