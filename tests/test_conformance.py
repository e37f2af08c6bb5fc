"""Function by function: both engines give exactly what docs/language.md says, at the limits of every type, for NULL, and in failure.

Each function is tried with many arguments in one program, in every place where a term can stand.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from tests.conftest import evaluate_text
from tests.engines import Subject, in_batches
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

from viewkeeper.errors import EvaluationError
from viewkeeper.program.functions import AGGREGATES, FUNCTIONS, TESTS

# What an engine does not do as the language says: (engine, test as pytest names it) → why. An entry that is not needed any more fails.
GAPS: dict[tuple[str, str], str] = {}

NAMES = ("a", "b", "c")
Facts = dict[str, set[Row]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, cases in (("cases", CASES), ("columns", INTO_COLUMNS), ("types", EVERY_TYPE)):
        if argument in metafunc.fixturenames:
            in_batches(metafunc, argument, cases)


@pytest.fixture(autouse=True)
def _gap(request: pytest.FixtureRequest) -> None:
    for (engine, test), reason in GAPS.items():
        if request.node.name == test and f"[{engine}-" in test:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def exactly(rows: Iterable[Row]) -> set[tuple[str, ...]]:
    """Rows such that 1, 1.0 and true, or 1.0 and 1.00 are different."""
    return {tuple(f"{type(value).__name__} {value!r}" for value in row) for row in rows}


def assert_fails(text: str, facts: Facts, code: str, engine: Subject) -> None:
    """The program must stop with the condition."""
    try:
        found = evaluate_text(text, facts, engine.make)
    except EvaluationError as error:
        assert error.code == code, f"{facts or text}: {error}"  # noqa: PT017
    else:
        pytest.fail(f"{facts or text}: {found} instead of {code}")


def relation_for(type_: str) -> str:
    """The name of the relation that collects results of a type."""
    return "found_" + "".join(letter if letter.isalnum() else "_" for letter in type_)


# ---- functions


@dataclass
class Prepared:
    """A case with its arguments: those that have a value, by number, and those that fail, by code."""

    case: Case
    number: int
    known: dict[int, tuple[Row, Value]] = field(default_factory=dict)
    failing: dict[str, list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, number: int, values: int) -> Prepared:
        prepared = cls(case, number)
        for id_, row in enumerate(dict.fromkeys([*tuples(case.types, values, str(case)), *case.more])):
            try:
                prepared.known[id_] = row, case.value(row)
            except Fails as error:
                prepared.failing.setdefault(error.code, []).append(row)
        return prepared

    def declarations(self, optional: str = "?") -> str:
        columns = "".join(f", {name}: {type_}{optional}" for name, type_ in zip(NAMES, self.case.types))
        return f".decl arg{self.number}(id: number{columns})\n.decl want{self.number}(id: number, r: {self.case.result}?)"

    def facts(self) -> Facts:
        return {
            f"arg{self.number}": {(id_, *row) for id_, (row, _) in self.known.items()},
            f"want{self.number}": {(id_, value) for id_, (_, value) in self.known.items()},
        }

    def rules(self, places: Sequence[str]) -> tuple[list[str], set[Row]]:
        """The term in every place, and the rows that must come out."""
        case, k = self.case, self.number
        row, want = f"arg{k}(id, {', '.join(NAMES[: len(case.types)])})", f"want{k}"
        results: set[Row] = {(id_, value) for id_, (_, value) in self.known.items()}
        present: set[Row] = {(id_, value) for id_, value in results if value is not None}
        bodies = {
            "head": (f"{case.term}) :- {row}.", results),
            "equation": (f"r) :- r = {case.term}, {row}.", present),
            "comparison": (f"r) :- {row}, {want}(id, r), {case.term} = r.", present),
            "atom": (f"r) :- {row}, {want}(id, r), {want}(id, {case.term}).", present),
            "negation": (f"r) :- {row}, {want}(id, r), !{want}(id, {case.term}).", results - present),
            "aggregate": (f"r) :- arg{k}(id, {', '.join('_' * len(case.types))}), r = min {case.term} : {{ {row} }}.", present),
        }
        if case.result == "bool":
            del bodies["aggregate"]
        head = f"{relation_for(case.result)}({k}, "
        rules = [f'{head}"{place}", id, {body}' for place, (body, _) in bodies.items() if place in places]
        expected = {(k, place, *row) for place, (_, rows) in bodies.items() if place in places for row in rows}
        if "constants" in places:
            for id_ in random.Random(str(case)).sample(sorted(self.known), min(40, len(self.known))):
                arguments, value = self.known[id_]
                rules.append(f'{head}"constants", {id_}, {written(case, arguments)}).')
                expected.add((k, "constants", id_, value))
        return rules, expected


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


def conform(cases: Sequence[Case], engine: Subject, places: Sequence[str]) -> None:
    """All arguments that must succeed, at once."""
    prepared = [Prepared.of(case, number, engine.budget.values) for number, case in enumerate(cases)]
    text = [
        f".decl {relation_for(t)}(case: number, place: symbol, id: number, r: {t}?)" for t in {case.result for case in cases}
    ]
    facts: Facts = {}
    expected: dict[str, set[Row]] = {}
    for one in prepared:
        rules, rows = one.rules(places)
        text += [one.declarations(), *rules]
        facts |= one.facts()
        expected.setdefault(relation_for(one.case.result), set()).update(rows)
    found = evaluate_text("\n".join(text), facts, engine.make)
    for name, rows in expected.items():
        for number, place, id_, *value in sorted(exactly(rows) ^ exactly(found[name])):
            one = prepared[int(number.split()[1])]
            pytest.fail(f"{one.case} ({place}): {one.known[int(id_.split()[1])]} or {value}")


def test_functions(cases: Sequence[Case], subject: Subject) -> None:
    conform(cases, subject, subject.budget.places)


def test_decimals_go_into_columns(columns: Sequence[Case], subject: Subject) -> None:
    conform(columns, subject, ["head", "constants"])


@pytest.mark.parametrize("case", [*CASES, *INTO_COLUMNS], ids=lambda case: f"{case} to {case.result}")
def test_failing_functions(case: Case, engine: Subject) -> None:
    """Arguments that must fail, one by one."""
    prepared = Prepared.of(case, 0, engine.budget.values)
    head = f".decl {relation_for(case.result)}(case: number, place: symbol, id: number, r: {case.result})"
    text = "\n".join([head, prepared.declarations(optional=""), *prepared.rules(["head"])[0]])
    rng = random.Random(str(case))
    for code, rows in prepared.failing.items():
        chosen = [row for row in rows if row in case.more][: 4 * (engine.budget.failures - 1)]
        for row in [*chosen, *rng.sample(rows, min(engine.budget.failures, len(rows)))]:
            assert_fails(text, {"arg0": {(1, *row)}}, code, engine)


def test_every_function_has_a_case() -> None:
    internal = {"rescale", "fit_digits"}
    of_sql = {name for name in FUNCTIONS if name.startswith("sql_")}  # see test_sql_functions.py
    assert {case.function for case in CASES} | {"range"} == set(FUNCTIONS) - internal - of_sql
    assert set(TESTS) == {"match", "contains", "is_null", "holds"}
    assert set(AGGREGATES) == {"count", "sum", "min", "max", "mean"}


# ---- comparisons and joins

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


def compare(operator: str, left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    x, y = order(left), order(right)
    return bool({"=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[operator])


def test_comparisons(types: Sequence[str], subject: Subject) -> None:
    text = [".decl found(type: symbol, how: symbol, id: number)"]
    facts: Facts = {}
    expected: set[Row] = set()
    for k, type_ in enumerate(types):
        rows = dict(enumerate(dict.fromkeys(tuples((type_, type_), subject.budget.values, f"compare {type_}"))))
        constant = next(b for _, b in rows.values() if b is not None)
        text.append(f".decl arg{k}(id: number, a: {type_}?, b: {type_}?)")
        facts[f"arg{k}"] = {(id_, *row) for id_, row in rows.items()}
        for operator in COMPARISONS:
            text.append(f'found("{type_}", "{operator}", id) :- arg{k}(id, a, b), a {operator} b.')
            text.append(
                f'found("{type_}", "{operator} constant", id) :- arg{k}(id, a, _), a {operator} {literal(constant, type_)}.'
            )
            expected |= {(type_, operator, id_) for id_, (a, b) in rows.items() if compare(operator, a, b)}
            expected |= {(type_, f"{operator} constant", id_) for id_, (a, _) in rows.items() if compare(operator, a, constant)}
    assert evaluate_text("\n".join(text), facts, subject.make)["found"] == expected


def test_joins(types: Sequence[str], subject: Subject) -> None:
    text = [".decl found(type: symbol, how: symbol, x: number, y: number)"]
    facts: Facts = {}
    expected: set[Row] = set()
    values: dict[str, set[Row]] = {}
    for k, type_ in enumerate(types):
        rng = random.Random(f"join {type_}")
        pool: list[Value] = [a for a, _ in tuples((type_, type_), 20, f"join {type_}")]
        left: set[Row] = {(i, rng.choice(pool)) for i in range(60)} | {(99, None)}
        right: set[Row] = {(i, rng.choice(pool)) for i in range(60)} | {(99, None)}
        facts |= {f"l{k}": left, f"r{k}": right}
        name = f"{relation_for(type_)}_values"
        text.append(f"""
            .decl l{k}, r{k}(id: number, v: {type_}?)
            .decl {name}(how: symbol, v: {type_}?)
            found("{type_}", "both", x, y) :- l{k}(x, v), r{k}(y, v).
            found("{type_}", "only", x, 0) :- l{k}(x, v), !r{k}(_, v).
            found("{type_}", "twice", x, y) :- l{k}(x, v), l{k}(y, w), v = w, x != y.
            {name}("without", v) :- l{k}(_, v), !r{k}(_, v).
            {name}("values", v) :- l{k}(_, v).
            {name}("values", v) :- r{k}(_, v).
        """)
        inside = {v for _, v in right if v is not None}
        expected |= {(type_, "both", x, y) for x, v in left for y, w in right if v is not None and v == w}
        expected |= {(type_, "only", x, 0) for x, v in left if v not in inside}
        expected |= {(type_, "twice", x, y) for x, v in left for y, w in left if v is not None and v == w and x != y}
        values[name] = {("without", v) for _, v in left if v not in inside} | {("values", v) for _, v in left | right}
    found = evaluate_text("\n".join(text), facts, subject.make)
    assert found["found"] == expected
    for name, rows in values.items():
        assert exactly(found[name]) == exactly(rows), name


@pytest.mark.parametrize(("left", "right"), [(2, 0), (0, 18), (4, 9)])
def test_decimals_of_different_scale_compare_exactly(left: int, right: int, engine: Subject) -> None:
    types = (f"decimal(18,{left})", f"decimal(18,{right})")
    rows = dict(enumerate(dict.fromkeys(tuples(types, engine.budget.values, f"scales {types}"))))
    same = [
        (of_scale(n * 10**left, left), of_scale(n * 10**right, right))
        for n in (0, 1, -3)
        if 10 ** (right + 1) <= 10**18 or n == 0
    ]
    rows |= {len(rows) + i: row for i, row in enumerate(same)}
    text = [f".decl arg(id: number, a: {types[0]}?, b: {types[1]}?)", ".decl found(how: symbol, id: number)"]
    text += [f'found("{operator}", id) :- arg(id, a, b), a {operator} b.' for operator in COMPARISONS]
    found = evaluate_text("\n".join(text), {"arg": {(id_, *row) for id_, row in rows.items()}}, engine.make)
    assert found["found"] == {(op, id_) for op in COMPARISONS for id_, (a, b) in rows.items() if compare(op, a, b)}


# ---- tests


def test_is_null(types: Sequence[str], subject: Subject) -> None:
    text = [".decl found(type: symbol, how: symbol, id: number)"]
    facts: Facts = {}
    expected: set[Row] = set()
    for k, type_ in enumerate(types):
        rows = dict(enumerate(dict.fromkeys(tuples((type_,), 10, f"null {type_}"))))
        facts[f"arg{k}"] = {(id_, *row) for id_, row in rows.items()}
        text.append(f"""
            .decl arg{k}(id: number, a: {type_}?)
            .decl kept{k}(id: number, a: {type_})
            found("{type_}", "null", id) :- arg{k}(id, a), is_null(a).
            found("{type_}", "null text", id) :- arg{k}(id, a), is_null(to_string(a)).
            found("{type_}", "filled", id) :- arg{k}(id, a), !is_null(a).
            kept{k}(id, a) :- arg{k}(id, a), !is_null(a).
        """)
        expected |= {(type_, how, id_) for id_, (a,) in rows.items() if a is None for how in ("null", "null text")}
        expected |= {(type_, "filled", id_) for id_, (a,) in rows.items() if a is not None}
    found = evaluate_text("\n".join(text), facts, subject.make)
    assert found["found"] == expected
    for k in range(len(types)):
        assert exactly(found[f"kept{k}"]) == exactly((id_, a) for id_, a in facts[f"arg{k}"] if a is not None)


def test_match_and_contains(engine: Subject) -> None:
    rng = random.Random("match")
    words = [*SYMBOLS, *(str(any_value("symbol", rng)) for _ in range(50))]
    nulls: list[Row] = [(None, "a"), ("a", None), (None, None)]
    part: dict[int, Row] = dict(enumerate([*((p, w) for p in SYMBOLS for w in words), *((w[1:3], w) for w in words), *nulls]))
    pattern: dict[int, Row] = dict(enumerate([*((p, t) for p in PATTERNS if not is_bad(p) for t in PATTERN_TEXTS), *nulls]))
    text = """
        .decl part, pattern(id: number, a: symbol?, b: symbol?)
        .decl found(how: symbol, id: number)
        found("inside", id) :- part(id, a, b), contains(a, b).
        found("outside", id) :- part(id, a, b), !contains(a, b).
        found("whole", id) :- pattern(id, a, b), match(a, b).
        found("otherwise", id) :- pattern(id, a, b), !match(a, b).
        found("fixed", id) :- pattern(id, _, b), match("[a-z]+", b), contains("b", b).
    """
    facts = {"part": {(id_, *row) for id_, row in part.items()}, "pattern": {(id_, *row) for id_, row in pattern.items()}}
    found = evaluate_text(text, facts, engine.make)["found"]
    expected: set[Row] = set()
    for id_, (a, b) in part.items():
        if a is not None and b is not None:
            expected.add(("inside" if str(a) in str(b) else "outside", id_))
    for id_, (a, b) in pattern.items():
        if a is not None and b is not None:
            expected.add(("whole" if matches(str(a), str(b)) else "otherwise", id_))
        if b is not None and matches("[a-z]+", str(b)) and "b" in str(b):
            expected.add(("fixed", id_))
    assert found == expected


def is_bad(pattern: str) -> bool:
    try:
        matches(pattern, "")
    except Fails:
        return True
    return False


def test_a_pattern_that_is_none_fails(engine: Subject) -> None:
    bad = [pattern for pattern in PATTERNS if is_bad(pattern)]
    assert len(bad) > 4
    for pattern in bad[: engine.budget.failures]:
        text = ".decl p(a: symbol, b: symbol)\n.decl h(b: symbol)\nh(b) :- p(a, b), match(a, b)."
        assert_fails(text, {"p": {(pattern, "a")}}, "BAD_TEXT", engine)
        assert_fails(text.replace("match(a, b)", "!match(a, b)"), {"p": {(pattern, "a")}}, "BAD_TEXT", engine)


# ---- range


@pytest.mark.parametrize("type_", ["number", "unsigned"])
def test_range(type_: str, engine: Subject) -> None:
    small = range(0 if type_ == "unsigned" else -4, 5)
    ends = [(a, b) for a in small for b in small] + [(HIGHEST - 2, HIGHEST), (HIGHEST, HIGHEST - 3), (HIGHEST, HIGHEST)]
    stepped = [(a, b, c) for a in small for b in small for c in small if c]
    stepped += [(a, a + 7 * 10**17, 2 * 10**17) for a in (0, 10**18)] + [(HIGHEST - 5, HIGHEST, 3), (0, HIGHEST, HIGHEST)]
    if type_ == "number":
        ends += [(LOWEST, LOWEST + 2), (LOWEST + 2, LOWEST)]
        stepped += [(LOWEST, HIGHEST, 2**62), (HIGHEST, LOWEST, -(2**62)), (LOWEST + 5, LOWEST, -3)]
    text = f"""
        .decl two, near(id: number, a: {type_}?, b: {type_}?)
        .decl three(id: number, a: {type_}?, b: {type_}?, c: {type_}?)
        .decl found(how: symbol, id: number, x: {type_})
        found("two", id, x) :- two(id, a, b), x = range(a, b).
        found("three", id, x) :- x = range(a, b, c), three(id, a, b, c).
        found("in head", id, range(a, b)) :- two(id, a, b).
        found("inside", id, b) :- near(id, a, b), b = range(a, 3).
    """
    two, three = dict(enumerate(ends)), dict(enumerate(stepped))
    near = {id_: (a, b) for id_, (a, b) in two.items() if abs(a) < 10}
    facts: Facts = {
        "two": {(id_, *row) for id_, row in two.items()} | {(98, None, 1), (99, 1, None)},
        "three": {(id_, *row) for id_, row in three.items()} | {(997, None, 1, 1), (998, 1, None, 1), (999, 1, 2, None)},
        "near": {(id_, *row) for id_, row in near.items()} | {(98, None, 1), (99, 1, None)},
    }
    expected: set[Row] = {
        (how, i, x) for how in ("two", "in head") for i, (a, b) in two.items() for x in range(a, b, 1 if a <= b else -1)
    }
    expected |= {("three", id_, x) for id_, (a, b, c) in three.items() for x in range(a, b, c)}
    expected |= {("inside", id_, b) for id_, (a, b) in near.items() if b in range(a, 3, 1 if a <= 3 else -1)}
    assert evaluate_text(text, facts, engine.make)["found"] == expected


def test_a_range_with_step_0_fails(engine: Subject) -> None:
    text = ".decl p(a: number, b: number, c: number)\n.decl h(x: number)\nh(x) :- p(a, b, c), x = range(a, b, c)."
    for row in [(0, 5, 0), (5, 0, 0), (1, 1, 0)][: engine.budget.failures]:
        assert_fails(text, {"p": {row}}, "BAD_RANGE", engine)


# ---- aggregates

SUMMED = ("number", "unsigned", "float", "decimal(18,2)", "decimal(18,0)", "decimal(5,5)")


def operations(type_: str) -> list[str]:
    return ["count", *(["sum", "mean"] if type_ in SUMMED else []), *(["min", "max"] if type_ in ORDERED else [])]


def result_type(operation: str, type_: str) -> str:
    if operation == "sum" and type_.startswith("decimal"):
        return f"decimal(18,{digits_of(type_)[1]})"
    return {"count": "number", "mean": "float"}.get(operation, type_)


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
    if type_ == "float":
        try:
            total = float(exact)
        except OverflowError:
            raise Fails("OVERFLOW") from None
        return total if operation == "sum" else total / len(known)
    if type_.startswith("decimal"):
        scale = digits_of(type_)[1]
        return fit(of_scale(int(exact * 10**scale), scale), f"decimal(18,{scale})")
    return fit(int(exact), type_)


def groups(type_: str) -> list[list[Value]]:
    """Values to aggregate: none, only NULLs, single ones, equal ones, the limits, many."""
    rng = random.Random(f"groups {type_}")
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
            [1e308] * 3, [1e-320, 3e-323], [top] * 9 + [-top] * 8, [top] * 5 + [5e-324] + [-top] * 5,
        ]  # fmt: skip
    if type_ == "number":
        found += [
            [HIGHEST, HIGHEST, -HIGHEST],
            [LOWEST, LOWEST, HIGHEST, 2],
            [HIGHEST, 1, -1],
            [LOWEST, -1],
            [HIGHEST] * 3 + [LOWEST] * 3,
        ]
        found += [[2**53, 1], [2**53, 1, 2], [1, 2], [1, 1, 2], [-1, -2]]
    return found


def failing_groups(operation: str, type_: str) -> list[int]:
    return [g for g, values in enumerate(groups(type_)) if not has_value(operation, values, type_)]


def has_value(operation: str, values: Sequence[Value], type_: str) -> bool:
    try:
        aggregate(operation, values, type_)
    except Fails:
        return False
    return True


def aggregates_of(type_: str, operation: str, k: int, forms: Sequence[str]) -> list[str]:
    """Rules with the aggregate in several forms; ``ok`` are the groups that have a value."""
    target = "" if operation == "count" else " v"
    result = f'{operation}{target} : {{ ok("{operation} {type_}", g), arg{k}(_, g, v) }}'
    name = f'{relation_for(result_type(operation, type_))}("{operation} {type_}",'
    rules = {
        "grouped": f'{name} "grouped", g, r) :- r = {result}.',
        "each": f'{name} "each", g, r) :- ok("{operation} {type_}", g), r = {result}.',
        "in head": f'{name} "in head", g, {result}) :- ok("{operation} {type_}", g).',
        "of nothing": f'{name} "of nothing", 0, r) :- r = {operation}{target} : {{ arg{k}(id, _, v), id < 0 }}.',
    }
    return [rules[form] for form in forms]


def test_aggregates(types: Sequence[str], subject: Subject) -> None:
    forms = ("grouped", "of nothing", *(("each", "in head") if "aggregate" in subject.budget.places else ()))
    results = {result_type(operation, type_) for type_ in types for operation in operations(type_)}
    text = [".decl ok(what: symbol, g: number)"]
    text += [f".decl {relation_for(result)}(what: symbol, how: symbol, g: number, r: {result})" for result in results]
    facts: Facts = {"ok": set()}
    expected: dict[str, set[Row]] = {relation_for(result): set() for result in results}
    for k, type_ in enumerate(types):
        text.append(f".decl arg{k}(id: number, g: number, v: {type_}?)")
        facts[f"arg{k}"] = {
            (1000 * g + i, g, value) for g, values in enumerate(groups(type_)) for i, value in enumerate(values)
        }
        for operation in operations(type_):
            what = f"{operation} {type_}"
            text += aggregates_of(type_, operation, k, forms)
            rows = expected[relation_for(result_type(operation, type_))]
            nothing = aggregate(operation, [], type_)
            rows |= {(what, "of nothing", 0, nothing)} if nothing is not None else set()
            for g, values in enumerate(groups(type_)):
                if has_value(operation, values, type_):
                    facts["ok"].add((what, g))
                    value = aggregate(operation, values, type_)
                    found_in = [how for how in forms if how in ("each", "in head") or how == "grouped" and values]
                    rows |= {(what, how, g, value) for how in found_in if value is not None}
    found = evaluate_text("\n".join(text), facts, subject.make)
    for name, rows in expected.items():
        assert exactly(found[name]) == exactly(rows), name


@pytest.mark.parametrize(("operation", "type_"), [(o, t) for t in SUMMED for o in operations(t) if failing_groups(o, t)])
def test_sums_that_do_not_fit_fail(operation: str, type_: str, engine: Subject) -> None:
    result = result_type(operation, type_)
    text = "\n".join([
        ".decl ok(what: symbol, g: number)",
        f".decl arg0(id: number, g: number, v: {type_}?)",
        f".decl {relation_for(result)}(what: symbol, how: symbol, g: number, r: {result})",
        *aggregates_of(type_, operation, 0, ["grouped"]),
    ])  # fmt: skip
    for g in failing_groups(operation, type_)[: 4 * engine.budget.failures if engine.budget.failures > 1 else 1]:
        rows: set[Row] = {(i, 1, value) for i, value in enumerate(groups(type_)[g])}
        assert_fails(text, {"ok": {(f"{operation} {type_}", 1)}, "arg0": rows}, "OVERFLOW", engine)
