"""Which variables may be NULL: what the check refuses for columns without `?` is what can happen, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.conftest import evaluate_text
from tests.engines import Subject, in_batches
from tests.samples import Row

from viewkeeper.errors import ProgramError
from viewkeeper.language import parse

STILL_NULL: dict[str, tuple[str, set[Row]]] = {
    "a comparison with coalesce": ("h(x) :- r(x), coalesce(x, 1) > 0.", {(None,), (5,)}),
    "a test with coalesce": ("h(x) :- r(x), !is_null(coalesce(x, 1)).", {(None,), (5,)}),
    "an argument with coalesce": ("h(x) :- r(x), s(coalesce(x, 1)).", {(None,)}),
    "an equation with coalesce": ("h(x) :- r(x), y = coalesce(x, 1), s(y).", {(None,)}),
    "a negation": ("h(x) :- r(x), !s(x).", {(None,), (5,)}),
    "is_null": ("h(x) :- r(x), is_null(x).", {(None,)}),
    "an aggregate": ("h(x) :- r(x), 0 = count : { s(x) }.", {(None,), (5,)}),
    "an aggregate for each x": ("h(x) :- r(x), 1 = count : { s(y), y < coalesce(x, 7) }.", {(None,), (5,)}),
    "a sum for each x": ("h(x) :- r(x), 8 = sum y + coalesce(x, 7) : { s(y) }.", {(None,)}),
    "a minimum for each x": ("h(x) :- r(x), 7 = min coalesce(x, 7) : { s(_) }.", {(None,)}),
}

NEVER_NULL = {
    "a comparison": "h(x) :- r(x), x > 0.",
    "a comparison of a function": "h(x) :- r(x), x + 1 > 0.",
    "an inequality": "h(x) :- r(x), x != 0.",
    "a join": "h(x) :- r(x), r(x).",
    "an equation": "h(x) :- r(x), y = x.",
    "not is_null": "h(x) :- r(x), !is_null(x + 1).",
    "a test": 'h(x) :- r(x), match(".*", to_string(x)).',
    "an argument": "h(x) :- r(x), !s(x), r(x + 0).",
    "coalesce of nothing else": "h(x) :- r(x), coalesce(x, x + 1) > 0.",
}

FACTS: dict[str, set[Row]] = {"r": {(None,), (5,)}, "s": {(1,)}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, cases in (("still", STILL_NULL), ("never", NEVER_NULL)):
        if argument in metafunc.fixturenames:
            in_batches(metafunc, argument, list(cases))


def program(rules: dict[str, str], column: str) -> str:
    head = f".decl found(why: symbol, x: {column})"
    declarations = [".decl r(x: number?)", ".decl s(y: number)", head]
    return "\n".join([*declarations, *(rule.replace("h(", f'found("{why}", ', 1) for why, rule in rules.items())])


def test_what_leaves_null_in_a_variable(still: Sequence[str], subject: Subject) -> None:
    rules = {why: STILL_NULL[why][0] for why in still}
    found = evaluate_text(program(rules, "number?"), FACTS, subject.make)["found"]
    assert found == {(why, *row) for why in still for row in STILL_NULL[why][1]}


def test_what_excludes_null_from_a_variable(never: Sequence[str], subject: Subject) -> None:
    found = evaluate_text(program({why: NEVER_NULL[why] for why in never}, "number"), FACTS, subject.make)["found"]
    assert found == {(why, 5) for why in never}


@pytest.mark.parametrize("why", STILL_NULL)
def test_null_is_kept_out_of_columns_without_it(why: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(program({why: STILL_NULL[why][0]}, "number"))
    assert caught.value.code == "NULL_COLUMN"
