"""An atom that a group of an aggregate implies is dropped before views are maintained, and only such an atom."""

from __future__ import annotations

import pytest

from viewkeeper.language import parse
from viewkeeper.program.ast import relation_read
from viewkeeper.rewrite.drop_implied import drop_implied
from viewkeeper.rewrite.passes import normalise

DECLARED = """
.decl r(a: number, b: number)
.decl q(a: number)
.decl maybe(a: number?, b: number)
.decl t(a: number?, n: number)
"""


def read_by(rule: str) -> list[list[str]]:
    """The relations that each rule for t reads in the end, but for those of the aggregates."""
    program = drop_implied(normalise(parse(DECLARED + rule)))
    rules = [rule for rule in program.rules if rule.head.relation == "t"]
    return [sorted(name for x in rule.body if (name := relation_read(x)) in ("r", "q", "maybe")) for rule in rules]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("t(a, n) :- r(a, _), n = count : { r(a, _) }.", []),
        ("t(a, n) :- r(a, b), n = sum x : { r(a, x) }.", []),
        ("t(a, n) :- r(a, 3), n = max x : { r(a, x), r(a, 3) }.", []),
        # It says more:
        ("t(a, n) :- r(a, 3), n = max x : { r(a, x) }.", ["r"]),
        ("t(a, n) :- r(a, a), n = max x : { r(a, x) }.", ["r"]),
        ("t(a, n) :- q(a), r(b, b), n = max x : { r(a, x) }.", ["q", "r"]),
        ("t(a, n) :- r(a, b), b > 1, n = max x : { r(a, x) }.", ["r"]),
        ("t(a, n) :- r(_, a), n = max x : { r(a, x) }.", ["r"]),
        ("t(a, n) :- r(a + 1, _), q(a), n = max x : { r(a + 1, x) }.", ["q", "r"]),
        ("t(a, n) :- r(a, b), n = sum x * b : { r(a, x) }.", ["r"]),
        # There is a count of nothing:
        ("t(1, n) :- r(_, _), n = count : { r(_, _) }.", ["r"]),
        # NULL is a group, but no row of the atom's is equal to it:
        ("t(a, n) :- maybe(a, _), n = max x : { maybe(a, x) }.", ["maybe"]),
    ],
)
def test_what_is_left_of_a_body(rule: str, left: list[str]) -> None:
    assert {tuple(found) for found in read_by(rule)} == {tuple(left)}
