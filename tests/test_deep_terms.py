"""Terms as deep as the language allows, wherever a term can stand, give what the naive evaluator says."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import pytest
from tests.conftest import evaluate_text
from tests.engines import ENGINES, Subject
from tests.oracle import evaluate as evaluate_naively
from tests.samples import Row

from viewkeeper.language import parse
from viewkeeper.rewrite.passes import normalise

# One level more around a term, with small values only.
LEVELS: dict[str, list[Callable[[str], str]]] = {
    "number": [
        lambda t: f"({t} + 1)",
        lambda t: f"(y - {t})",
        lambda t: f"min({t}, x, 50)",
        lambda t: f"max(-50, {t})",
        lambda t: f"({t} % 17 * 3)",
        lambda t: f"({t} / 2)",
        lambda t: f"strlen(to_string({t}))",
        lambda t: f"coalesce({t}, 1)",
        lambda t: f"(-{t})",
        lambda t: f"(7 bxor {t} band 63)",
    ],
    "symbol": [
        lambda t: f'cat({t}, "a")',
        lambda t: f"substr({t}, 0, 4)",
        lambda t: f'min({t}, "zz")',
        lambda t: f"to_string(strlen({t}))",
    ],
    "decimal(18,2)": [
        lambda t: f"({t} + 1)",
        lambda t: f"(2.25 - {t})",
        lambda t: f"min({t}, 9)",
        lambda t: f"max({t}, -9.5)",
        lambda t: f"(-{t})",
        lambda t: f"coalesce({t}, 1.5)",
    ],
    "unsigned": [
        lambda t: f"({t} + 1u)",
        lambda t: f"({t} / 2u)",
        lambda t: f"({t} % 7u)",
        lambda t: f"max({t}, 1u) - 1u",
        lambda t: f"to_unsigned(to_string({t}))",
    ],
}


def deep(type_: str, depth: int, rng: random.Random, start: str = "x") -> str:
    term = start
    for _ in range(depth):
        term = rng.choice(LEVELS[type_])(term)
    return term if not term.startswith("max(") else f"({term})"


@pytest.mark.parametrize(
    ("type_", "subject"), [pytest.param(t, e, id=f"{e.name}-{t}") for e in ENGINES for t in e.deep], indirect=["subject"]
)
def test_deep_terms(type_: str, subject: Subject) -> None:
    rng = random.Random(f"deep {type_}")
    depth = 22
    chain = ", ".join(f"z{i + 1} = {deep(type_, 4, rng, f'z{i}')}" for i in range(8))
    terms = [deep(type_, depth, rng) for _ in range(8)]
    text = f"""
        .decl r(id: number, x: {type_}?, y: {type_})
        .decl h(how: symbol, id: number, v: {type_}?)
        .decl n(how: symbol, id: number, n: number)
        h("head", i, {terms[0]}) :- r(i, x, y).
        h("equation", i, z) :- r(i, x, y), z = {terms[1]}.
        h("chain", i, z8) :- r(i, z0, y), x = y, {chain}.
        h("comparison", i, x) :- r(i, x, y), {terms[2]} <= {terms[3]}.
        h("argument", i, y) :- r(i, x, y), r(_, {terms[4]}, _).
        h("negation", i, y) :- r(i, x, y), !r(_, {terms[4]}, _), {terms[5]} != y.
        n("count", i, c) :- r(i, _, y), c = count : {{ r(_, x, _), {terms[6]} >= y }}.
        h("target", 0, m) :- m = max {terms[7]} : {{ r(i, x, y) }}.
        h("each", i, m) :- r(i, _, _), m = min {terms[7]} : {{ r(_, x, y), r(i, _, y) }}.
        h("again", j, {terms[0]}) :- h(_, i, x), r(i, _, y), r(j, x, _).
    """
    values: dict[str, Row] = {
        "number": (None, 0, 1, 5, -3, 40),
        "symbol": (None, "", "a", "zzz", "é😀"),
        "decimal(18,2)": (None, *(Decimal(t) for t in ("0.00", "1.50", "-2.25", "9.99"))),
        "unsigned": (None, 0, 1, 3, 9),
    }
    known = values[type_]
    facts: dict[str, set[Row]] = {"r": {(i, v, known[1 + i % (len(known) - 1)]) for i, v in enumerate((*known, *known[1:]))}}
    assert any("_step" in relation.name for relation in normalise(parse(text)).relations), "not deep enough for a test"
    found = evaluate_text(text, facts, subject.make)
    expected = evaluate_naively(text, facts)
    assert {name: found[name] for name in ("h", "n")} == {name: expected[name] for name in ("h", "n")}
