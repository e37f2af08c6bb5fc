"""Function by function: both engines give exactly what docs/language.md says, at the limits of every type, for NULL, and in failure.

Each function is tried with many arguments in one program, in every place where a term can stand.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from tests.conftest import evaluate_text
from tests.engines import Subject
from tests.expected import (
    CASES,
    EVERY_TYPE,
    INTO_COLUMNS,
    ORDERED,
    PATTERN_TEXTS,
    PATTERNS,
    Case,
    Fails,
    fit,
    greatest,
    least,
    matches,
    order,
)
from tests.samples import HIGHEST, LOWEST, SYMBOLS, Row, Value, any_value, digits_of, limits, literal, of_scale, tuples

from viewkeeper.errors import EvaluationError, ProgramError
from viewkeeper.language import parse
from viewkeeper.program.functions import AGGREGATES, FUNCTIONS, TESTS

# What an engine does not do as the language says: (engine, test) → why. An entry that is not needed any more fails.
GAPS: dict[tuple[str, str], str] = {}

NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _gap(request: pytest.FixtureRequest, engine: Subject) -> None:
    reason = GAPS.get((engine.name, request.node.name.replace(f"{engine.name}-", "").replace(f"-{engine.name}", "")))
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def exactly(rows: Iterable[Row]) -> set[tuple[str, ...]]:
    """Rows such that 1, 1.0 and true, or 1.0 and 1.00 are different."""
    return {tuple(f"{type(value).__name__} {value!r}" for value in row) for row in rows}


def fails(text: str, facts: dict[str, set[Row]], code: str, engine: Subject) -> None:
    """The program must stop with the condition."""
    try:
        found = evaluate_text(text, facts, engine.make)
    except EvaluationError as error:
        assert error.code == code, f"{facts or text}: {error}"
    else:
        pytest.fail(f"{facts or text}: {found} instead of {code}")


# ---- functions


def declared(case: Case, argument_types: str) -> list[str]:
    optional = "" if argument_types == "plain" else "?"
    columns = "".join(f", {name}: {type_}{optional}" for name, type_ in zip(NAMES, case.types))
    return [f".decl arg(id: number{columns})", f".decl head(id: number, r: {case.result}?)", f".decl want(id: number, r: {case.result}?)"]


def in_every_place(case: Case, known: dict[int, tuple[Row, Value]], places: Sequence[str]) -> tuple[str, dict[str, set[Row]]]:
    """A program that computes the term in all places, and what its relations must hold."""
    row = f"arg(id, {', '.join(NAMES[: len(case.types)])})"
    text = declared(case, "optional")
    expected: dict[str, set[Row]] = {}
    results: set[Row] = {(id_, value) for id_, (_, value) in known.items()}
    present: set[Row] = {(id_, value) for id_, value in results if value is not None}
    rules = {
        "head": (f"head(id, {case.term}) :- {row}.", results),
        "equation": (f"equation(id, r) :- r = {case.term}, {row}.", present),
        "comparison": (f"comparison(id, r) :- {row}, want(id, r), {case.term} = r.", present),
        "atom": (f"atom(id, r) :- {row}, want(id, r), want(id, {case.term}).", present),
        "negation": (f"negation(id, r) :- {row}, want(id, r), !want(id, {case.term}).", results - present),
    }
    if case.result != "bool":
        rules["aggregate"] = (f"aggregate(id, r) :- arg(id, {', '.join('_' * len(case.types))}), r = min {case.term} : {{ {row} }}.", present)
    for place, (rule, rows) in rules.items():
        if place in places:
            text += [f".decl {place}(id: number, r: {case.result}?)"] if place != "head" else []
            text.append(rule)
            expected[place] = rows
    if "constants" in places:
        chosen = random.Random(str(case)).sample(sorted(known), min(40, len(known)))
        text.append(f".decl constants(id: number, r: {case.result}?)")
        text += [f"constants({id_}, {written(case, known[id_][0])})." for id_ in chosen]
        expected["constants"] = {(id_, known[id_][1]) for id_ in chosen}
    return "\n".join(text), expected


def written(case: Case, arguments: Row) -> str:
    """The term with constants in it."""
    words = {name: literal(value, type_) for name, value, type_ in zip(NAMES, arguments, case.types)}
    return "".join(words.get(part, part) for part in tokens(case.term))


def tokens(term: str) -> list[str]:
    found: list[str] = []
    for letter in term:
        if found and letter.isalnum() | (letter == "_") and found[-1][-1].isalnum() | (found[-1][-1] == "_"):
            found[-1] += letter
        else:
            found.append(letter)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_function(case: Case, engine: Subject) -> None:
    conforms(case, engine, engine.budget.places)


@pytest.mark.parametrize("case", INTO_COLUMNS, ids=lambda case: f"{case} into {case.result}")
def test_decimals_go_into_columns(case: Case, engine: Subject) -> None:
    conforms(case, engine, ["head", "constants"])


def conforms(case: Case, engine: Subject, places: Sequence[str]) -> None:
    """All arguments that must succeed at once, and some of those that must fail one by one."""
    arguments = list(dict.fromkeys([*tuples(case.types, engine.budget.values, str(case)), *case.more]))
    known: dict[int, tuple[Row, Value]] = {}
    failing: dict[str, list[Row]] = {}
    for id_, row in enumerate(arguments):
        try:
            known[id_] = row, case.value(row)
        except Fails as error:
            failing.setdefault(error.code, []).append(row)
    text, expected = in_every_place(case, known, places)
    facts: dict[str, set[Row]] = {
        "arg": {(id_, *row) for id_, (row, _) in known.items()},
        "want": {(id_, value) for id_, (_, value) in known.items()},
    }
    found = evaluate_text(text, facts, engine.make)
    for place, rows in expected.items():
        wrong = exactly(rows) ^ exactly(found[place])
        inputs = {row[0]: arguments[int(row[0].split()[1])] for row in wrong}
        assert not wrong, f"{place}: {sorted(wrong)[:6]} {list(inputs.items())[:3]}"
    body = f"arg(id, {', '.join(NAMES[: len(case.types)])})"
    text = "\n".join([*declared(case, "plain"), f"head(id, {case.term}) :- {body}."])
    rng = random.Random(str(case))
    for code, some in failing.items():
        chosen = [row for row in some if row in case.more][: 4 * engine.budget.failures]
        chosen += rng.sample(some, min(engine.budget.failures, len(some)))
        for row in chosen if engine.budget.failures > 1 else chosen[:1]:
            fails(text, {"arg": {(1, *row)}}, code, engine)


def test_every_function_has_a_case(engine: Subject) -> None:
    internal = {"rescale", "fit_digits"}
    assert {case.function for case in CASES} | {"range"} == set(FUNCTIONS) - internal
    assert set(TESTS) == {"match", "contains", "is_null"}
    assert set(AGGREGATES) == {"count", "sum", "min", "max", "mean"}


# ---- comparisons and joins

COMPARISONS = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def compare(operator: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    x, y = order(left), order(right)
    return bool({"=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[operator])


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_comparisons(type_: str, engine: Subject) -> None:
    rows = dict(enumerate(dict.fromkeys(tuples((type_, type_), engine.budget.values, f"compare {type_}"))))
    constant = next(b for _, b in rows.values() if b is not None)
    text = [f".decl arg(id: number, a: {type_}?, b: {type_}?)"]
    expected: dict[str, set[Row]] = {}
    for operator, name in COMPARISONS.items():
        text += [f".decl {name}, {name}_constant(id: number)", f"{name}(id) :- arg(id, a, b), a {operator} b."]
        text += [f"{name}_constant(id) :- arg(id, a, _), a {operator} {literal(constant, type_)}."]
        expected[name] = {(id_,) for id_, (a, b) in rows.items() if compare(operator, a, b)}
        expected[f"{name}_constant"] = {(id_,) for id_, (a, _) in rows.items() if compare(operator, a, constant)}
    found = evaluate_text("\n".join(text), {"arg": {(id_, *row) for id_, row in rows.items()}}, engine.make)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_joins(type_: str, engine: Subject) -> None:
    rng = random.Random(f"join {type_}")
    pool: list[Value] = [a for a, _ in tuples((type_, type_), 20, f"join {type_}")]
    left: set[Row] = {(i, rng.choice(pool)) for i in range(60)} | {(99, None)}
    right: set[Row] = {(i, rng.choice(pool)) for i in range(60)} | {(99, None)}
    text = f"""
        .decl l, r(id: number, v: {type_}?)
        .decl both(x: number, y: number)
        .decl only, twice(x: number)
        .decl without, values(v: {type_}?)
        both(x, y) :- l(x, v), r(y, v).
        only(x) :- l(x, v), !r(_, v).
        without(v) :- l(_, v), !r(_, v).
        values(v) :- l(_, v). values(v) :- r(_, v).
        twice(x) :- l(x, v), l(y, w), v = w, x != y.
    """
    found = evaluate_text(text, {"l": left, "r": right}, engine.make)
    inside = {v for _, v in right if v is not None}
    assert found["both"] == {(x, y) for x, v in left for y, w in right if v is not None and v == w}
    assert found["only"] == {(x,) for x, v in left if v not in inside}
    assert exactly(found["without"]) == exactly({(v,) for _, v in left if v not in inside})
    assert exactly(found["values"]) == exactly({(v,) for _, v in left | right})
    assert found["twice"] == {(x,) for x, v in left for y, w in left if v is not None and v == w and x != y}


@pytest.mark.parametrize(("left", "right"), [(2, 0), (0, 18), (4, 9)])
def test_decimals_of_different_scale_compare_exactly(left: int, right: int, engine: Subject) -> None:
    types = (f"decimal(18,{left})", f"decimal(18,{right})")
    rows = dict(enumerate(dict.fromkeys(tuples(types, engine.budget.values, f"scales {types}"))))
    same = [(of_scale(n * 10**left, left), of_scale(n * 10**right, right)) for n in (0, 1, -3) if 10 ** (right + 1) <= 10**18 or n == 0]
    rows |= {len(rows) + i: row for i, row in enumerate(same)}
    text = [f".decl arg(id: number, a: {types[0]}?, b: {types[1]}?)"]
    for operator, name in COMPARISONS.items():
        text += [f".decl {name}(id: number)", f"{name}(id) :- arg(id, a, b), a {operator} b."]
    found = evaluate_text("\n".join(text), {"arg": {(id_, *row) for id_, row in rows.items()}}, engine.make)
    for operator, name in COMPARISONS.items():
        assert found[name] == {(id_,) for id_, (a, b) in rows.items() if compare(operator, a, b)}, operator


# ---- tests


@pytest.mark.parametrize("type_", EVERY_TYPE)
def test_is_null(type_: str, engine: Subject) -> None:
    rows = dict(enumerate(dict.fromkeys(tuples((type_,), 10, f"null {type_}"))))
    text = f"""
        .decl arg(id: number, a: {type_}?)
        .decl null_, filled, text(id: number)
        .decl kept(id: number, a: {type_})
        null_(id) :- arg(id, a), is_null(a).
        filled(id) :- arg(id, a), !is_null(a).
        kept(id, a) :- arg(id, a), !is_null(a).
        text(id) :- arg(id, a), is_null(to_string(a)).
    """
    found = evaluate_text(text, {"arg": {(id_, *row) for id_, row in rows.items()}}, engine.make)
    assert found["null_"] == found["text"] == {(id_,) for id_, (a,) in rows.items() if a is None}
    assert found["filled"] == {(id_,) for id_, (a,) in rows.items() if a is not None}
    assert exactly(found["kept"]) == exactly((id_, a) for id_, (a,) in rows.items() if a is not None)


def test_match_and_contains(engine: Subject) -> None:
    rng = random.Random("match")
    words = [*SYMBOLS, *(str(any_value("symbol", rng)) for _ in range(50))]
    parts = [(part, text) for part in SYMBOLS for text in words] + [(w[1:3], w) for w in words]
    patterns = [(p, text) for p in PATTERNS for text in PATTERN_TEXTS]
    good = [(p, text) for p, text in patterns if not _is_bad(p)]
    nulls: list[Row] = [(None, "a"), ("a", None), (None, None)]
    text = """
        .decl part, pattern(id: number, a: symbol?, b: symbol?)
        .decl inside, outside, whole, otherwise, fixed(id: number)
        inside(id) :- part(id, a, b), contains(a, b).
        outside(id) :- part(id, a, b), !contains(a, b).
        whole(id) :- pattern(id, a, b), match(a, b).
        otherwise(id) :- pattern(id, a, b), !match(a, b).
        fixed(id) :- pattern(id, _, b), match("[a-z]+", b), contains("b", b).
    """
    part = dict(enumerate([*parts, *nulls]))
    pattern = dict(enumerate([*good, *nulls]))
    facts: dict[str, set[Row]] = {
        "part": {(id_, *row) for id_, row in part.items()},
        "pattern": {(id_, *row) for id_, row in pattern.items()},
    }
    found = evaluate_text(text, facts, engine.make)
    known = {id_: (str(a), str(b)) for id_, (a, b) in part.items() if a is not None and b is not None}
    assert found["inside"] == {(id_,) for id_, (a, b) in known.items() if a in b}
    assert found["outside"] == {(id_,) for id_, (a, b) in known.items() if a not in b}
    known = {id_: (str(a), str(b)) for id_, (a, b) in pattern.items() if a is not None and b is not None}
    assert found["whole"] == {(id_,) for id_, (a, b) in known.items() if matches(a, b)}
    assert found["otherwise"] == {(id_,) for id_, (a, b) in known.items() if not matches(a, b)}
    texts = {id_: str(b) for id_, (_, b) in pattern.items() if b is not None}
    assert found["fixed"] == {(id_,) for id_, b in texts.items() if matches("[a-z]+", b) and "b" in b}


def _is_bad(pattern: str) -> bool:
    try:
        return matches(pattern, "") is None
    except Fails:
        return True


def test_a_pattern_that_is_none_fails(engine: Subject) -> None:
    bad = [pattern for pattern in PATTERNS if _is_bad(pattern)]
    assert len(bad) > 4
    for pattern in bad if engine.budget.failures > 1 else bad[:1]:
        text = ".decl p(a: symbol, b: symbol)\n.decl h(b: symbol)\nh(b) :- p(a, b), match(a, b)."
        fails(text, {"p": {(pattern, "a")}}, "BAD_TEXT", engine)
        fails(text.replace("match(a, b)", "!match(a, b)"), {"p": {(pattern, "a")}}, "BAD_TEXT", engine)


# ---- range


@pytest.mark.parametrize("type_", ["number", "unsigned"])
def test_range(type_: str, engine: Subject) -> None:
    small = range(0 if type_ == "unsigned" else -4, 5)
    ends = [(a, b) for a in small for b in small] + [(HIGHEST - 2, HIGHEST), (HIGHEST, HIGHEST - 3), (HIGHEST, HIGHEST)]
    if type_ == "number":
        ends += [(LOWEST, LOWEST + 2), (LOWEST + 2, LOWEST)]
    stepped = [(a, b, c) for a in small for b in small for c in small if c]
    stepped += [(a, a + 7 * 10**17, 2 * 10**17) for a in (0, 10**18)] + [(HIGHEST - 5, HIGHEST, 3), (0, HIGHEST, HIGHEST)]
    if type_ == "number":
        stepped += [(LOWEST, HIGHEST, 2**62), (HIGHEST, LOWEST, -(2**62)), (LOWEST + 5, LOWEST, -3)]
    nulls = [(None, 1), (1, None)]
    text = f"""
        .decl two, near(id: number, a: {type_}?, b: {type_}?)
        .decl three(id: number, a: {type_}?, b: {type_}?, c: {type_}?)
        .decl from_two, from_three, in_head(id: number, x: {type_})
        .decl inside(id: number)
        from_two(id, x) :- two(id, a, b), x = range(a, b).
        from_three(id, x) :- x = range(a, b, c), three(id, a, b, c).
        in_head(id, range(a, b)) :- two(id, a, b).
        inside(id) :- near(id, a, b), b = range(a, 3).
    """
    two, three = dict(enumerate([*ends, *nulls])), dict(enumerate([*stepped, (None, 1, 1), (1, None, 1), (1, 2, None)]))
    near = {id_: (a, b) for id_, (a, b) in two.items() if a is not None and b is not None and abs(a) < 10}
    facts: dict[str, set[Row]] = {"two": {(i, *r) for i, r in two.items()}, "three": {(i, *r) for i, r in three.items()}}
    facts["near"] = {(i, *r) for i, r in near.items()} | {(98, None, 1), (99, 1, None)}
    found = evaluate_text(text, facts, engine.make)
    numbers = {(id_, x) for id_, (a, b) in two.items() if a is not None and b is not None for x in range(a, b, 1 if a <= b else -1)}
    assert found["from_two"] == found["in_head"] == numbers
    assert found["from_three"] == {(id_, x) for id_, (a, b, c) in three.items() if a is not None and b is not None and c for x in range(a, b, c)}
    assert found["inside"] == {(id_,) for id_, (a, b) in near.items() if b in range(a, 3, 1 if a <= 3 else -1)}


def test_a_range_with_step_0_fails(engine: Subject) -> None:
    text = ".decl p(a: number, b: number, c: number)\n.decl h(x: number)\nh(x) :- p(a, b, c), x = range(a, b, c)."
    for row in [(0, 5, 0), (5, 0, 0), (1, 1, 0)] if engine.budget.failures > 1 else [(0, 5, 0)]:
        fails(text, {"p": {row}}, "BAD_RANGE", engine)
    late = text.replace("c).", "c), c != 0.")
    assert evaluate_text(late, {"p": {(0, 2, 0), (5, 6, 1)}}, engine.make)["h"] == {(5,)}


# ---- aggregates

SUMMED = ("number", "unsigned", "float", "decimal(18,2)", "decimal(18,0)", "decimal(5,5)")


def aggregate(operation: str, values: Sequence[Any], type_: str) -> Value:
    """Of the values that are not NULL; None if there is no result."""
    known = [value for value in values if value is not None]
    if operation == "count":
        return len(values)
    if operation in ("min", "max"):
        return None if not known else least(*known) if operation == "min" else greatest(*known)
    exact = sum(map(Fraction, known), Fraction(0))
    if operation == "mean" and not known:
        return None
    if operation == "mean" and type_ != "float":
        return float(exact / len(known))
    if operation == "mean" or type_ == "float":
        try:
            total = float(exact)
        except OverflowError:
            raise Fails("OVERFLOW") from None
        return total if operation == "sum" else total / len(known)
    if type_.startswith("decimal"):
        scale = digits_of(type_)[1]
        return fit(of_scale(int(exact * 10**scale), scale), f"decimal(18,{scale})")
    return fit(int(exact), type_)


def groups(type_: str, rng: random.Random) -> list[list[Value]]:
    """Values to aggregate: none, only NULLs, single ones, equal ones, the limits, many."""
    edges = list(limits(type_))
    found: list[list[Value]] = [[], [None], [None, None, None]]
    found += [[edge] for edge in edges] + [[edge, edge, None] for edge in edges]
    found += [rng.choices(edges, k=rng.randint(2, 5)) for _ in range(60)]
    found += [[any_value(type_, rng) for _ in range(rng.randint(1, 30))] for _ in range(60)]
    if type_ == "float":
        top = 1.7976931348623157e308
        found += [
            [0.1] * 10, [0.1] * 3, [1e16, 1.0, -1e16], [1e100, 1.0, -1e100], [top, top, -top], [top, top, -top, -top, 5e-324], [top, -top],
            [5e-324] * 3, [1.0, 2.0**-53], [1.0, 2.0**-53, 2.0**-106], [2.0**53, -0.5, -(2.0**-20)], [top, 2.0**969], [top, 2.0**970],
            [1e308] * 3, [1e-320, 3e-323],
        ]  # fmt: skip
    if type_ == "number":
        found += [[HIGHEST, HIGHEST, -HIGHEST], [LOWEST, LOWEST, HIGHEST, 2], [HIGHEST, 1, -1], [LOWEST, -1], [HIGHEST] * 3 + [LOWEST] * 3]
        found += [[2**53, 1], [2**53, 1, 2], [1, 2], [1, 1, 2], [-1, -2]]
    return found


@pytest.mark.parametrize(
    ("operation", "type_"),
    [(operation, t) for operation in AGGREGATES for t in (SUMMED if operation in ("sum", "mean") else EVERY_TYPE if operation == "count" else ORDERED)],
)
def test_aggregate(operation: str, type_: str, engine: Subject) -> None:
    rng = random.Random(f"{operation} {type_}")
    known: dict[int, tuple[list[Value], Value]] = {}
    failing: list[list[Value]] = []
    for number, values in enumerate(groups(type_, rng)):
        try:
            known[number] = values, aggregate(operation, values, type_)
        except Fails as error:
            assert error.code == "OVERFLOW"
            failing.append(values)
    scale = f"decimal(18,{digits_of(type_)[1]})" if type_.startswith("decimal") else type_
    result = {"count": "number", "mean": "float", "sum": scale}.get(operation, type_)
    target = "" if operation == "count" else " v"
    text = f"""
        .decl grp(g: number)
        .decl arg(id: number, g: number, v: {type_}?)
        .decl each, grouped, in_head(g: number, r: {result})
        .decl none(r: {result})
        each(g, r) :- grp(g), r = {operation}{target} : {{ arg(_, g, v) }}.
        grouped(g, r) :- r = {operation}{target} : {{ arg(_, g, v) }}.
        in_head(g, {operation}{target} : {{ arg(_, g, v) }}) :- grp(g).
        none(r) :- r = {operation}{target} : {{ arg(id, _, v), id < 0 }}.
    """
    facts: dict[str, set[Row]] = {"grp": {(g,) for g in known}, "arg": set()}
    facts["arg"] = {(1000 * g + i, g, value) for g, (values, _) in known.items() for i, value in enumerate(values)}
    found = evaluate_text(text, facts, engine.make)
    expected: set[Row] = {(g, result) for g, (_, result) in known.items() if result is not None}
    assert exactly(found["each"]) == exactly(expected)
    assert exactly(found["in_head"]) == exactly(expected)
    assert exactly(found["grouped"]) == exactly((g, result) for g, result in expected if known[int(str(g))][0])
    nothing = aggregate(operation, [], type_)
    assert exactly(found["none"]) == exactly([] if nothing is None else [(nothing,)])
    for values in failing[: 4 * engine.budget.failures] if engine.budget.failures > 1 else failing[:1]:
        rows: set[Row] = {(i, 1, value) for i, value in enumerate(values)}
        fails(text, {"grp": {(1,)}, "arg": rows}, "OVERFLOW", engine)


# ---- when a failure is one

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


@pytest.mark.parametrize("rule", LATE.values(), ids=LATE.keys())
def test_a_failure_that_other_conditions_exclude_is_none(rule: str, engine: Subject) -> None:
    text = f"""
        .decl r(x: number, y: number)
        .decl n(x: number?, y: number?)
        .decl s(z: number)
        .decl w(t: symbol)
        .decl h(x: number)
        {rule}
    """
    facts: dict[str, set[Row]] = {
        "r": {(6, 2), (3, 0), (5, 5)},
        "n": {(6, 2), (3, 0), (5, 5), (None, 0), (None, 1), (1, None)},
        "s": {(0,), (5,)},
        "w": {("6",), ("a",), ("2",)},
    }
    assert evaluate_text(text, facts, engine.make)["h"] == {(6,)}


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
    fails(text, {"r": {(6, 2), (3, 0)}, "n": {(None,)}}, "DIVISION_BY_ZERO", engine)


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


# ---- NULL and columns without `?`

STILL_NULL = {
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


@pytest.mark.parametrize(("rule", "expected"), STILL_NULL.values(), ids=STILL_NULL.keys())
def test_what_leaves_null_in_a_variable(rule: str, expected: set[Row], engine: Subject) -> None:
    text = f".decl r(x: number?)\n.decl s(y: number)\n.decl h(x: number?)\n{rule}"
    assert evaluate_text(text, {"r": {(None,), (5,)}, "s": {(1,)}}, engine.make)["h"] == expected
    with pytest.raises(ProgramError) as caught:
        parse(text.replace("h(x: number?)", "h(x: number)"))
    assert caught.value.code == "NULL_COLUMN"


NEVER_NULL = {
    "a comparison": "h(x) :- r(x), x > 0.",
    "a comparison of a function": "h(x) :- r(x), x + 1 > 0.",
    "an inequality": "h(x) :- r(x), x != 0.",
    "a join": "h(x) :- r(x), r(x).",
    "an equation": "h(x) :- r(x), x = y, s(y). h(x) :- r(x), y = x.",
    "not is_null": "h(x) :- r(x), !is_null(x + 1).",
    "a test": 'h(x) :- r(x), match(".*", to_string(x)).',
    "an argument": "h(x) :- r(x), !s(x), r(x + 0).",
}


@pytest.mark.parametrize("rule", NEVER_NULL.values(), ids=NEVER_NULL.keys())
def test_what_excludes_null_from_a_variable(rule: str, engine: Subject) -> None:
    text = f".decl r(x: number?)\n.decl s(y: number)\n.decl h(x: number)\n{rule}"
    assert evaluate_text(text, {"r": {(None,), (5,)}, "s": {(1,)}}, engine.make)["h"] == {(5,)}
