"""The functions that SQL is made of: both engines give exactly what Spark's own SQL gives, and fail where they must."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.conftest import MakeEngine, evaluate_text
from tests.engines import Subject
from tests.samples import Row, Value
from tests.sql_cases import CASES, FAILURES, SqlCase, SqlFailure
from tests.test_conformance import assert_fails, exactly

from viewkeeper.engines.scalar import Failure
from viewkeeper.engines.session import our_session
from viewkeeper.engines.sql_dates import parse_time
from viewkeeper.errors import ProgramError
from viewkeeper.language import parse
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.program.java_patterns import BadPattern, java_pattern
from viewkeeper.rewrite.passes import normalise

NAMES = ("a", "b", "c")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Found = dict[tuple[int, int], Value]


# ---- the three ways to compute


def by_engine(cases: Sequence[SqlCase], make: MakeEngine, lazily: bool) -> Found:
    """Each case in a rule of its own, or ``lazily`` all cases of some types in one, each evaluated for its own arguments only."""
    groups: dict[object, list[int]] = {}
    for k, case in enumerate(cases):
        groups.setdefault(tuple(case.types) if lazily else k, []).append(k)
    text: list[str] = []
    facts: dict[str, set[Row]] = {}
    for number, members in enumerate(groups.values()):
        types = cases[members[0]].types
        columns = "".join(f", {name}: {type_}?" for name, type_ in zip(NAMES, types))
        results = "".join(f", r{k}: {cases[k].result}?" for k in members)
        terms = "".join(f", {f'sql_if(sql_eq(k, {k}), {cases[k].term}, null)' if lazily else cases[k].term}" for k in members)
        text.append(f".decl arg{number}(k: number, id: number{columns})\n.decl found{number}(k: number, id: number{results})")
        text.append(f"found{number}(k, id{terms}) :- arg{number}(k, id, {', '.join(NAMES[: len(types)])}).")
        facts[f"arg{number}"] = {(k, i, *row) for k in members for i, row in enumerate(cases[k].rows)}
    evaluated = evaluate_text("\n".join(text), facts, make)
    return {
        (k, id_): row[members.index(k)]  # type: ignore[misc, index, arg-type]
        for number, members in enumerate(groups.values())
        for k, id_, *row in evaluated[f"found{number}"]
    }


FROM_TEXT = {
    "symbol": "{0}",
    "unsigned": "bigint({0})",
    "number": "bigint({0})",
    "float": "double({0})",
    "bool": "boolean({0})",
    "date": "date({0})",
    "timestamp": "timestamp({0})",
    "bytes": "unhex({0})",
}
STORED = {"bool": "boolean({0})", "date": "unix_date({0})", "timestamp": "unix_micros({0})", "number": "bigint({0})"}


def as_text(value: Value) -> str | None:
    match value:
        case None | str():
            return value
        case bytes():
            return value.hex()
        case float():
            return repr(value)
        case datetime.datetime():
            return value.isoformat().replace("+00:00", "Z")
    return str(value).lower()


def quoted(text: str | None) -> str:
    return "NULL" if text is None else "'" + "".join(f"\\U{ord(letter):08x}" for letter in text) + "'"


def by_spark(cases: Sequence[SqlCase], session: Any) -> Found:
    """With Spark's own functions, of real dates, decimals and so on. The rows are constants, so this takes no job."""
    found: Found = {}
    for k, case in enumerate(cases):
        names = NAMES[: len(case.types)]
        rows = ", ".join(f"({i}, {', '.join(quoted(as_text(v)) for v in row)})" for i, row in enumerate(case.rows))
        real = ", ".join(
            FROM_TEXT.get(t, f"CAST({{0}} AS {t})").format(f"CAST({name} AS STRING)") + f" AS {name}"
            for t, name in zip(case.types, names)
        )
        form = STORED.get(case.result, f"CAST({{0}} AS {case.result})" if case.result.startswith("decimal") else "{0}")
        source = f"(SELECT id, {real} FROM VALUES {rows} AS t(id, {', '.join(names)}))"
        for id_, value in session.sql(f"SELECT id, {form.format(case.native)} AS v FROM {source}").collect():
            found[k, id_] = restored(value, case.result)
    return found


def restored(value: Any, type_: str) -> Value:
    match type_:
        case _ if value is None:
            return None
        case "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(value)
        case "timestamp":
            return EPOCH + datetime.timedelta(microseconds=value)
        case "bytes":
            return bytes(value)
        case "float":
            return float(value) + 0.0
    return value  # type: ignore[no-any-return]


def different(cases: Sequence[SqlCase], left: Found, right: Found, about: bool = False) -> list[str]:
    told = []
    for k, case in enumerate(cases):
        for i, row in enumerate(case.rows):
            x, y = left[k, i], right[k, i]
            close = about and case.about and isinstance(x, float) and isinstance(y, float) and math.isclose(x, y, rel_tol=1e-14)
            if not close and exactly([(x,)]) != exactly([(y,)]):
                told.append(f"{case}: {row} → {x!r}, {y!r}")
    return told


def test_functions_are_those_of_spark(spark_engine: MakeEngine, embedded: MakeEngine, spark_session: Any) -> None:
    ours = by_engine(CASES, embedded, lazily=False)
    assert different(CASES, ours, by_spark(CASES, our_session(spark_session)), about=True) == []
    assert different(CASES, ours, by_engine(CASES, spark_engine, lazily=True)) == []
    assert different(CASES, ours, by_engine(CASES, embedded, lazily=True)) == []


def test_every_function_has_a_case() -> None:
    assert {case.function for case in CASES} == {name for name in FUNCTIONS if name.startswith("sql_")}


@pytest.mark.parametrize("case", FAILURES, ids=str)
def test_failures(case: SqlFailure, engine: Subject) -> None:
    columns = ", ".join(f"{name}: {type_}" for name, type_ in zip(NAMES, case.types))
    text = f".decl p({columns})\n.decl h(r: {case.result}?)\nh({case.term}) :- p({', '.join(NAMES[: len(case.types)])})."
    assert_fails(text, {"p": {case.row}}, case.code, engine)


@pytest.mark.parametrize(
    "pattern",
    [
        "[a&&b]",
        "[[a]b]",
        "\\p{L}",
        "(?m)^a",
        "(?x) a",
        "a{,2}",
        "(?P<n>a)",
        "(?#a)",
        "\\h",
        "\\G",
        "[]a]",
        "[a",
        "\\",
        "(",
        "*a",
    ],
)
def test_patterns_that_java_reads_differently_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        java_pattern(pattern)


@pytest.mark.parametrize("text", ["2024-02-30", "2024-2-1", " 2024-02-01", "12024-01-01", "0000-01-01", "2024-13-01", ""])
def test_texts_that_do_not_fit_a_pattern_of_times(text: str) -> None:
    with pytest.raises(Failure):
        parse_time(text, "yyyy-MM-dd")


# ---- tests, NULL, and what is not evaluated


def test_holds(engine: Subject) -> None:
    text = """
        .decl r(id: number, b: bool?, x: number?)
        .decl found(how: symbol, id: number)
        .decl known(x: number)
        found("holds", id) :- r(id, b, _), holds(b).
        found("!holds", id) :- r(id, b, _), !holds(b).
        found("compared", id) :- r(id, _, x), holds(sql_gt(x, 1)).
        found("guarded", id) :- r(id, _, x), holds(sql_ne(x, 0)), holds(sql_gt(10 / x, 4)).
        found("always", id) :- r(id, _, _), holds(true).
        known(x) :- r(_, _, x), holds(sql_lt(x, 9)).
    """
    rows: set[Row] = {(1, True, 0), (2, False, 2), (3, None, None), (4, True, 1)}
    found = evaluate_text(text, {"r": rows}, engine.make)
    assert found["found"] == {
        ("holds", 1), ("holds", 4), ("!holds", 2), ("compared", 2), ("guarded", 2), ("guarded", 4), *(("always", i) for i in (1, 2, 3, 4)),
    }  # fmt: skip
    assert found["known"] == {(0,), (2,), (1,)}


def test_holds_wants_a_bool() -> None:
    with pytest.raises(ProgramError) as caught:
        parse(".decl r(x: number)\n.decl h(x: number)\nh(x) :- r(x), holds(x).")
    assert caught.value.code == "TYPE_FUNCTION"


# A term of b: bool?, n: number?, f: float and y: number, and whether it may be NULL.
NULLABLE = {
    "sql_and(b, true)": True, "sql_same(b, true)": False, "sql_null(n)": False, "sql_if(b, y, 0)": False, "sql_if(true, y, n)": True,
    "sql_if(b, n, 0)": True, "sql_greatest(n, y)": False, "sql_greatest(n, n)": True, "sql_ln(f)": True, "sql_sqrt(f)": False,
    "coalesce(n, n, y)": False, "sql_eq(n, y)": True, "sql_eq(y, y)": False, 'sql_concat_ws(",", sql_string(n))': False,
    "sql_in(y, n, 1)": True, "sql_sha2(sql_string(y), 256)": True,
}  # fmt: skip


@pytest.mark.parametrize("term", NULLABLE)
def test_which_terms_may_be_null(term: str) -> None:
    kind = {"sql_if": "number", "sql_greatest": "number", "coalesce": "number", "sql_ln": "float", "sql_sqrt": "float"}
    kind |= {"sql_concat_ws": "symbol", "sql_sha2": "symbol"}
    text = ".decl r(b: bool?, n: number?, f: float, y: number)\n.decl h(v: {}{})\nh({}) :- r(b, n, f, y)."
    type_ = kind.get(term.partition("(")[0], "bool")
    parse(text.format(type_, "?", term))
    if NULLABLE[term]:
        with pytest.raises(ProgramError) as caught:
            parse(text.format(type_, "", term))
        assert caught.value.code == "NULL_COLUMN"
    else:
        parse(text.format(type_, "", term))


# ---- branches that are not taken, in terms that are too deep for one expression

Meaning = Callable[[int | None], Any]


class Branching:
    """Random terms of x that would divide by zero if everything in them were evaluated, each with its meaning."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> tuple[str, Meaning]:
        if depth <= 0:
            return ("x", lambda x: x) if self.random.random() < 0.7 else ("2", lambda x: 2)
        (a, value), (b, other) = self.number(depth - 1), self.number(self.random.randrange(max(1, depth - 1)))
        match self.random.randrange(6):
            case 0:
                return f"(({a}) + 1)", lambda x: None if value(x) is None else value(x) + 1
            case 1:
                c, condition = self.condition(depth - 2)
                return f"sql_if({c}, {a}, {b})", lambda x: value(x) if condition(x) else other(x)
            case 2:
                term = f"sql_if(sql_eq(coalesce({b}, 0), 0), 0, ({a}) / ({b}))"
                return term, lambda x: quotient(value(x), other(x)) if other(x) else 0
            case 3:
                term = f"coalesce(sql_if(sql_eq({b}, 0), 7, null), sql_abs({a}) / ({b}))"
                return term, lambda x: 7 if other(x) == 0 else quotient(None if value(x) is None else abs(value(x)), other(x))
            case 4:
                c, condition = self.condition(depth - 2)
                term = f"sql_if({c}, {b}, sql_not({c}), {a}, -1)"
                return term, lambda x: other(x) if condition(x) else value(x) if condition(x) is False else -1
        return f"sql_greatest({a}, -50)", lambda x: -50 if value(x) is None else max(-50, value(x))

    def condition(self, depth: int) -> tuple[str, Meaning]:
        (a, value), (b, other) = self.number(depth - 1), self.number(self.random.randrange(max(1, depth - 1)))

        def more(x: int | None) -> bool | None:
            found = quotient(value(x), other(x))
            return None if found is None else found > 1

        match self.random.randrange(3):
            case 0:
                return f"sql_eq({a}, {b})", lambda x: None if None in (value(x), other(x)) else value(x) == other(x)
            case 1:
                return f"sql_and(sql_ne({b}, 0), sql_gt(({a}) / ({b}), 1))", lambda x: False if other(x) == 0 else more(x)
        return f"sql_or(sql_eq({b}, 0), sql_gt(({a}) / ({b}), 1))", lambda x: True if other(x) == 0 else more(x)


def quotient(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else int(left / right)


def test_branches_that_are_not_taken_are_not_evaluated(engine: Subject) -> None:
    rows: set[Row] = {(None,), (0,), (1,), (2,), (-3,), (10,)}
    deep = 0
    for seed in range(60 if engine.name == "embedded" else 6):
        term, meaning = Branching(seed).number(4 + seed % 18)
        if len(term) > 3000:
            continue
        text = f"""
            .decl r(x: number?)
            .decl h(x: number?, v: number?)
            .decl g(x: number?)
            h(x, {term}) :- r(x).
            g(x) :- r(x), holds(sql_gt({term}, 2)).
        """
        deep += len(normalise(parse(text)).relations) > 3
        found = evaluate_text(text, {"r": rows}, engine.make)
        expected = {(x, meaning(x)) for [x] in rows}  # type: ignore[arg-type]
        assert found["h"] == expected, seed
        assert found["g"] == {(x,) for x, value in expected if value is not None and value > 2}, seed
    assert deep > 1


def test_python_is_not_called_for_branches_that_are_not_taken(engine: Subject) -> None:
    """Spark would call Python functions for every row."""
    text = """
        .decl r(x: float?)
        .decl h(x: float?, v: float?)
        .decl g(x: float?, v: bool?)
        h(x, sql_if(sql_gt(x, 0.5), sql_sqrt(1.0 / (x - 0.25)), sql_eq(x, 0.25), 0.0, x)) :- r(x).
        h(x, coalesce(sql_if(sql_lt(x, 0.0), 1.0, null), sql_sqrt(x))) :- r(x).
        g(x, sql_and(sql_ge(x, 0.0), sql_gt(sql_sqrt(x), 1.0))) :- r(x).
        g(x, sql_or(sql_lt(x, 0.0), sql_lt(sql_sqrt(x), 1.0))) :- r(x).
    """
    found = evaluate_text(text, {"r": {(0.25,), (1.25,), (-4.0,), (None,)}}, engine.make)
    assert found["h"] == {
        (0.25, 0.0),
        (0.25, 0.5),
        (1.25, 1.0),
        (1.25, math.sqrt(1.25)),
        (-4.0, -4.0),
        (-4.0, 1.0),
        (None, None),
    }
    assert found["g"] == {(0.25, False), (0.25, True), (1.25, True), (1.25, False), (-4.0, False), (-4.0, True), (None, None)}


def test_a_head_fails_only_for_rows_that_deep_conditions_leave(engine: Subject) -> None:
    deep = "x"
    for _ in range(30):
        deep = f"sql_abs({deep})"
    text = f".decl r(x: number)\n.decl h(x: number)\nh(10 / {deep}) :- r(x), {deep} != 0."
    assert evaluate_text(text, {"r": {(0,), (-5,)}}, engine.make)["h"] == {(2,)}


def test_a_long_case_is_one_expression(embedded: MakeEngine) -> None:
    branches = ", ".join(f"sql_eq(x, {i}), {100 + i}" for i in range(200))
    listed = ", ".join(map(str, range(500)))
    text = f"""
        .decl r(x: number)
        .decl h(v: number)
        h(sql_if({branches}, -1)) :- r(x), holds(sql_in(x, {listed})).
    """
    assert len(normalise(parse(text)).relations) == 2
    assert evaluate_text(text, {"r": {(150,), (400,), (900,)}}, embedded)["h"] == {(250,), (-1,)}


@pytest.mark.parametrize("term", [case.term for case in CASES if case.function in ("sql_if", "sql_decimal", "sql_trunc")])
def test_printed_terms_are_the_same(term: str) -> None:
    case = next(case for case in CASES if case.term == term)
    columns = ", ".join(f"{name}: {type_}?" for name, type_ in zip(NAMES, case.types))
    text = f".decl r({columns})\n.decl h(v: {case.result}?)\nh({term}) :- r({', '.join(NAMES[: len(case.types)])})."
    program = parse(text)
    assert parse(str(program)) == program
