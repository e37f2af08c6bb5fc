"""Where functions fail and where not: never for what other conditions exclude, always otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.conftest import evaluate_text
from tests.engines import Subject, in_batches
from tests.samples import Row
from tests.test_conformance import assert_fails

LATE = {
    "a comparison guards": "h(x) :- r(x, y), y != 0, x / y > 2.",
    "whatever the order": "h(x) :- x / y > 2, r(x, y), y != 0.",
    "an equation": "h(x) :- r(x, y), z = x / y, z > 2, y != 0.",
    "an equation of NULL": "h(x) :- n(x, y), z = x / y, z > 2, y != 0.",
    "in the head": "h(x + 0 * (x / y)) :- r(x, y), y != 0, x > 5.",
    "in an atom": "h(x) :- r(x, y), y != 0, s(10 / y), x > 5.",
    "in a negation": "h(x) :- r(x, y), !s(10 / y - 4), s(z), y > z, x > 5.",
    "in an aggregate": "h(x) :- r(x, _), 3 = sum x / y : { r(x, y), y != 0 }, x > 5.",
    "in the condition of an aggregate": "h(x) :- r(x, _), 1 = count : { r(x, y), x / y > 2, y != 0 }.",
    "in a range": "h(x) :- r(x, y), 4 = range(0, 10 / y), y != 0.",
    "the step of a range": "h(x) :- r(x, y), 4 = range(x - 2, 0, -y), y != 0.",
    "a test guards": 'h(to_number(t)) :- w(t), to_number(t) > 5, match("[0-9]+", t).',
    "a negated test guards": 'h(n) :- n = to_number(t), n > 5, w(t), !contains("a", t).',
    "a comparison that could overflow guards": "h(x) :- r(x, y), x / y > 2, y + 1 > 1.",
    "an earlier comparison that could fail guards": "h(x) :- r(x, y), y / 1 > 0, x / y > 2.",
    "coalesce takes what it needs": "h(x) :- r(x, y), coalesce(x, x / (y - y)) > 5.",
}

FAILING = {
    "though the value is not used": "h(x) :- r(x, y), z = x / y.",
    "though only another unused value needs it": "h(x) :- r(x, y), z = x / y, v = z + 1.",
    "though the negated relation is empty": "h(x) :- r(x, y), !s(x / y).",
    "though nothing is added": "h(n) :- n = count : { r(x, y), z = x / y }.",
    "though the head has no columns": "f() :- r(x, y), z = x / y.",
    "in the head": "h(x / y) :- r(x, y).",
    "in a comparison": "h(x) :- r(x, y), x / y > 100.",
    "in an argument": "h(x) :- r(x, y), r(_, x / y).",
    "in a target": "h(m) :- m = max x / y : { r(x, y) }.",
    "where coalesce needs it": "h(coalesce(v, x / y)) :- r(x, y), n(v).",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "late" in metafunc.fixturenames:
        in_batches(metafunc, "late", list(LATE))


def test_a_failure_that_other_conditions_exclude_is_none(late: Sequence[str], subject: Subject) -> None:
    text = [
        ".decl r(x: number, y: number)",
        ".decl n(x: number?, y: number?)",
        ".decl s(z: number)",
        ".decl w(t: symbol)",
        ".decl found(why: symbol, x: number)",
        *(LATE[why].replace("h(", f'found("{why}", ', 1) for why in late),
    ]
    facts: dict[str, set[Row]] = {
        "r": {(6, 2), (3, 0), (5, 5)},
        "n": {(6, 2), (3, 0), (5, 5), (None, 0), (None, 1), (1, None)},
        "s": {(0,), (5,)},
        "w": {("6",), ("a",), ("2",)},
    }
    assert evaluate_text("\n".join(text), facts, subject.make)["found"] == {(why, 6) for why in late}


@pytest.mark.parametrize("rule", FAILING.values(), ids=FAILING.keys())
def test_a_failure_is_not_overlooked(rule: str, engine: Subject) -> None:
    text = f"""
        .decl r(x: number, y: number)
        .decl n(v: number?)
        .decl s(z: number)
        .decl h(x: number)
        .decl f()
        {rule}
    """
    assert_fails(text, {"r": {(6, 2), (3, 0)}, "n": {(None,)}}, "DIVISION_BY_ZERO", engine)


def test_long_terms_and_chains_of_equations_stay_small(engine: Subject) -> None:
    nested = "x"
    for _ in range(30):
        nested = f"({nested} + 1) / 1"
    equations = ", ".join(f"x{i + 1} = (x{i} + x{i}) / 2 + 1 - 1" for i in range(6))
    text = f"""
        .decl r(x: number)
        .decl deep, chain(y: number)
        deep({nested}) :- r(x).
        chain(x6) :- r(x0), {equations}.
    """
    found = evaluate_text(text, {"r": {(1,), (5,)}}, engine.make)
    assert found["deep"] == {(31,), (35,)}
    assert found["chain"] == {(1,), (5,)}
