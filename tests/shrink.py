"""Makes a failing random program small: ``python -m tests.shrink SEED`` prints the least part of it that still fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.generator import Generated, generate

T = TypeVar("T")


def shrink(thing: T, fails: Callable[[T], bool], smaller: Callable[[T], Iterator[T]]) -> T:
    """Leaves out parts as long as the rest fails in the same way."""
    assert fails(thing), "it does not fail"
    progress = True
    while progress:
        progress = False
        for one in smaller(thing):
            if fails(one):
                thing, progress = one, True
                break
    return thing


def smaller_programs(program: Generated) -> Iterator[Generated]:
    """Without one of its rules, literals or facts."""
    for i in range(len(program.rules)):
        yield replace(program, rules=program.rules[:i] + program.rules[i + 1 :])
    for i in range(len(program.declarations)):
        yield replace(program, declarations=program.declarations[:i] + program.declarations[i + 1 :])
    for i, rule in enumerate(program.rules):
        for shorter in _shorter(rule):
            yield replace(program, rules=(*program.rules[:i], shorter, *program.rules[i + 1 :]))
    for name, rows in program.facts.items():
        yield replace(program, facts={n: r for n, r in program.facts.items() if n != name})
        for row in rows:
            yield replace(program, facts={**program.facts, name: rows - {row}})


def _shorter(rule: str) -> Iterator[str]:
    """The rule without one of its literals, those in braces included, or with one term for another."""
    head, arrow, _ = rule.partition(" :- ")
    for start, end in _parts(rule, len(head) + len(arrow)):
        if rule[start - 2 : start] == ", ":
            yield rule[: start - 2] + rule[end:]
        elif rule[end : end + 2] == ", ":
            yield rule[:start] + rule[end + 2 :]
    for start, end in _brackets(rule):
        inner = rule[start + 1 : end]
        yield rule[:start] + inner + rule[end + 1 :]
        for part in inner.split(" ; ") if " ; " in inner else ():
            yield rule[:start] + part + rule[end + 1 :]


def _parts(rule: str, begin: int) -> Iterator[tuple[int, int]]:
    """The places of what stands between commas, at every depth."""
    starts = [begin] + [i + 2 for i in range(begin, len(rule)) if rule.startswith((", ", "{ "), i)]
    for start in starts:
        depth = 0
        for i in range(start, len(rule)):
            if rule[i] in "({":
                depth += 1
            elif rule[i] in ")}":
                depth -= 1
            if depth < 0 or depth == 0 and (rule.startswith((", ", " ;", " }"), i) or i == len(rule) - 1):
                yield start, i
                break


def _brackets(rule: str) -> Iterator[tuple[int, int]]:
    open_: list[int] = []
    for i, letter in enumerate(rule):
        if letter == "(":
            open_.append(i)
        elif letter == ")" and open_:
            yield open_.pop(), i


if __name__ == "__main__":
    from tests.test_random_programs import outcome

    first = generate(int(sys.argv[1]))
    kind = outcome(first)
    print(kind)
    small = shrink(first, lambda program: outcome(program) == kind, smaller_programs)
    print(small.text)
    print({name: rows for name, rows in small.facts.items() if rows})
