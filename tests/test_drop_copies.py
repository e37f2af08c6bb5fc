"""A view that copies the groups of an aggregate is kept as their relation, unless it does more."""

from __future__ import annotations

import pytest

from viewkeeper.language import parse
from viewkeeper.program.plan import Counted, Grouped
from viewkeeper.program.printing import print_rule
from viewkeeper.writer import plan_of

DECLARED = """
.decl r(a: number, b: number)
.decl maybe(a: number, b: number?)
.decl t(a: number, n: number, m: number)
"""


def kept(text: str, view: str = "t") -> tuple[str, list[str]]:
    """How the view is kept, and the relations beside it and the base relations."""
    plan = plan_of(parse(DECLARED + text))
    [step] = [step for step in plan.steps if view in {relation.name for relation in step.relations}]
    others = [r.name for one in plan.steps for r in one.relations if r.name not in (view, "r", "maybe", "t")]
    return type(step).__name__, others


@pytest.mark.parametrize(
    "rule",
    [
        "t(a, n, m) :- r(a, _), n = count : { r(a, _) }, m = max x : { r(a, x) }.",
        "t(a, n, m) :- m = max x : { r(a, x) }, n = count : { r(a, x) }.",
        "t(a, n, m) :- r(a, _), m = sum x : { r(a, x) }, n = min x : { r(a, x) }.",
        "t(a, n, m) :- r(a, _), m = sum x * 2 : { r(a, x) }, n = sum x : { r(a, x) }.",
    ],
)
def test_a_copy_is_the_relation_of_the_groups(rule: str) -> None:
    assert kept(rule) == (Grouped.__name__, [])


@pytest.mark.parametrize(
    ("rule", "others"),
    [
        # A value before the group, or one of them computed, twice or left out:
        (".decl u(n: number, a: number) u(n, a) :- r(a, _), n = count : { r(a, _) }.", ["u_count1"]),
        (".decl u(a: number, n: number) u(a, n + 1) :- r(a, _), n = count : { r(a, _) }.", ["u_count1"]),
        (".decl u(a: number, n: number) u(a, n) :- r(a, _), n = count : { r(a, _) }, n > 1.", ["u_count1"]),
        (".decl u(a: number, n: number) u(a, a) :- r(a, _), 3 = count : { r(a, _) }.", ["u_count1"]),
        # Where there is nothing there is a count:
        (".decl u(a: number, n: number) u(a, n) :- maybe(a, _), n = count : { r(a, _) }.", ["u_count1", "u_known1"]),
        # Another type:
        (".decl u(a: number?, n: number) u(a, n) :- r(a, _), n = count : { r(a, _) }.", ["u_count1"]),
    ],
)
def test_what_does_more_stays(rule: str, others: list[str]) -> None:
    assert kept(rule, "u") == (Counted.__name__, others)


def test_groups_that_others_read_stay() -> None:
    text = """
.decl u(a: number, n: number) u(a, n) :- r(a, _), n = count : { r(a, _) }.
.decl v(a: number, n: number) v(a, n) :- maybe(a, n), r(a, _), n = count : { r(a, _) }."""
    assert kept(text, "u")[0] == Counted.__name__


def test_values_that_may_be_missing_are_kept_by_themselves() -> None:
    """A maximum of nothing but NULL is none, a count of it is a number."""
    how, others = kept("t(a, n, m) :- maybe(a, _), n = count : { maybe(a, _) }, m = max x : { maybe(a, x) }.")
    assert (how, others) == (Counted.__name__, ["t_count1", "t_max1"])


def test_an_external_view_does_not_change() -> None:
    plan = plan_of(parse(DECLARED + ".external t t(a, n, m) :- r(a, _), n = count : { r(a, _) }, m = max x : { r(a, x) }."))
    assert {r.name for step in plan.steps for r in step.relations} == {"maybe", "r", "t", "t_group1"}


def test_values_are_in_the_order_of_the_view() -> None:
    plan = plan_of(parse(DECLARED + "t(a, n, m) :- r(a, _), m = sum x : { r(a, x) }, n = min x : { r(a, x) }."))
    [rule] = plan.core.rules
    assert print_rule(rule) == "t(a, n, m) :- n = min v1 : { r(a, v1) }, m = sum v1 : { r(a, v1) }."
