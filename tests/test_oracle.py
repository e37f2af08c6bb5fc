"""The naive evaluator: every folder of tests/programs gives exactly its expected files, and single laws one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from tests.oracle import OracleError, Row, Value, evaluate, read_facts, write_outputs
from tests.oracle.functions import aggregate, apply, compare, number_range, substr
from tests.oracle.values import read_value, sort_key, write_value

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "programs").glob("*/program.dl"))


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_program_gives_its_expected_files(folder: Path, tmp_path: Path) -> None:
    text = (folder / "program.dl").read_text(encoding="utf-8")
    relations = evaluate(text, read_facts(text, folder / "facts"))
    printed: list[str] = []
    write_outputs(text, relations, tmp_path, printed.append)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if printed:
        found["stdout.txt"] = "".join(printed).encode()
    assert found == {path.name: path.read_bytes() for path in (folder / "expected").iterdir()}


def test_there_are_enough_programs_and_each_says_what_it_shows() -> None:
    assert len(PROGRAMS) >= 64
    for folder in PROGRAMS:
        assert (folder / "program.dl").read_text(encoding="utf-8").startswith("// "), folder.name


def one(type_: str, term: str) -> Value:
    """The value of a term in a column of a type."""
    ((value,),) = evaluate(f".decl r(x: {type_})\nr({term}).", {})["r"]
    return value


@pytest.mark.parametrize(
    ("type_", "term", "kind"),
    [
        ("number", "9223372036854775807 + 1", "overflow"),
        ("number", "-9223372036854775808 - 1", "overflow"),
        ("number", "-9223372036854775808 / -1", "overflow"),
        ("number", "-(-9223372036854775808)", "overflow"),
        ("number", "9223372036854775808", "overflow"),
        ("number", "10 ^ 19", "overflow"),
        ("number", "2 ^ 1000000000", "overflow"),
        ("number", "2 ^ -1", "bad_power"),
        ("number", "1 / 0", "division_by_zero"),
        ("number", "1 % 0", "division_by_zero"),
        ("number", "to_number(1.0e19)", "overflow"),
        ("number", 'to_number("9223372036854775808")', "overflow"),
        ("number", 'to_number("")', "bad_text"),
        ("number", 'to_number(" 1")', "bad_text"),
        ("number", 'to_number("1.0")', "bad_text"),
        ("number", 'to_number("٣")', "bad_text"),
        ("number", "range(0, 1, 0)", "bad_range"),
        ("unsigned", "1 - 2", "overflow"),
        ("unsigned", "9223372036854775807u + 1", "overflow"),
        ("unsigned", "bnot 0u", "overflow"),
        ("unsigned", "1u bshl 63u", "overflow"),
        ("unsigned", 'to_unsigned("-1")', "overflow"),
        ("unsigned", "1u / 0u", "division_by_zero"),
        ("float", "1.0e308 * 10.0", "overflow"),
        ("float", "1.0 / 0.0", "division_by_zero"),
        ("float", "10.0 ^ 400.0", "overflow"),
        ("float", "(-1.0) ^ 0.5", "overflow"),
        ("float", 'to_float("nan")', "bad_text"),
        ("float", 'to_float("1e999")', "overflow"),
        ("decimal(4,2)", "100", "overflow"),
        ("decimal(18,0)", 'decimal("999999999999999999") + 1', "overflow"),
        ("date", 'to_date("2023-02-29")', "bad_text"),
        ("date", 'to_date("2023-2-9")', "bad_text"),
        ("timestamp", 'to_timestamp("2023-02-28")', "bad_text"),
    ],
)
def test_what_does_not_fit_is_an_error(type_: str, term: str, kind: str) -> None:
    with pytest.raises(OracleError) as caught:
        one(type_, term)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("type_", "term", "value"),
    [
        ("number", "-9223372036854775808 % -1", 0),
        ("number", "-7 % 2", -1),
        ("float", "7 / 2", 3.5),
        ("number", "7 / 2", 3),
        ("decimal(9,4)", "1.25 * 1.5", Decimal("1.8750")),
        ("date", 'to_date("2024-02-29")', date(2024, 2, 29)),
        ("timestamp", 'timestamp("2024-02-29T12:30:00.25Z")', datetime(2024, 2, 29, 12, 30, 0, 250000, UTC)),
        ("bytes", 'bytes("00fF")', b"\x00\xff"),
        ("bool", "true", True),
        ("number?", "null", None),
        ("symbol", r'"a\"\\\n\t\r"', 'a"\\\n\t\r'),
    ],
)
def test_constants_and_terms(type_: str, term: str, value: Value) -> None:
    found = one(type_, term)
    assert found == value
    assert type(found) is type(value)


def rows(body: str, facts: dict[str, set[Row]]) -> set[Row]:
    """The rows of `h` from rules over `r(x: number, y: number)`."""
    return evaluate(f".decl r(x: number, y: number)\n.decl h(x: number)\n{body}", facts)["h"]


def test_facts_are_added_and_converted() -> None:
    text = ".decl f(x: float, d: decimal(5,2))\nf(0.5, 1)."
    assert evaluate(text, {"f": {(1, Decimal(2))}})["f"] == {(0.5, Decimal("1.00")), (1.0, Decimal("2.00"))}
    ((x, d),) = evaluate(".decl f(x: float, d: decimal(5,2))", {"f": {(1, Decimal(2))}})["f"]
    assert (repr(x), str(d)) == ("1.0", "2.00")


def test_errors_only_come_for_assignments_that_satisfy_all_else() -> None:
    facts: dict[str, set[Row]] = {"r": {(6, 0), (6, 3)}}
    assert rows("h(z) :- z = x / y, z > 1, r(x, y), y != 0.", facts) == {(2,)}
    assert rows("h(x / y) :- r(x, y), !r(y, _), y > 1.", facts) == {(2,)}
    assert rows("h(n) :- n = count : { r(x, y), x / y = 2, y != 0 }.", facts) == {(1,)}
    with pytest.raises(OracleError, match="division_by_zero"):
        rows("h(n) :- n = count : { r(x, y), x / y = 2 }.", facts)
    with pytest.raises(OracleError, match="division_by_zero"):
        rows("h(x) :- r(x, y), x / y = 1.", facts)


def test_overflow_of_a_sum_does_not_depend_on_the_order() -> None:
    largest = 2**63 - 1
    assert rows("h(s) :- s = sum x : { r(x, _) }.", {"r": {(largest, 1), (largest, 2), (-largest, 3)}}) == {(largest,)}
    with pytest.raises(OracleError, match="overflow"):
        rows("h(s) :- s = sum x : { r(x, _) }.", {"r": {(largest, 1), (1, 2)}})


def test_recursion_through_negation_or_an_aggregate_is_refused() -> None:
    for body in ("h(x) :- r(x, _), !h(x).", "h(n) :- n = count : { h(_) }."):
        with pytest.raises(OracleError, match="not_stratified"):
            rows(body, {})


def test_an_unbound_variable_is_refused() -> None:
    with pytest.raises(OracleError, match="unbound"):
        rows("h(x) :- r(y, _), x > y.", {"r": {(1, 2)}})


def test_null_never_joins() -> None:
    text = ".decl a(x: number?)\n.decl b(x: number?)\n.decl c(x: number?)\nb(x) :- a(x), a(x).\nc(x) :- a(x), !a(x)."
    found = evaluate(text, {"a": {(None,), (1,)}})
    assert found["b"] == {(1,)}
    assert found["c"] == {(None,)}


def test_a_wildcard_of_an_outer_literal_is_one_variable_in_both_branches() -> None:
    facts: dict[str, set[Row]] = {"r": {(1, 1), (1, 2), (5, 1)}}
    assert rows("h(n) :- n = count : { r(x, _), (x < 3 ; x < 9) }.", facts) == {(3,)}


def test_functions() -> None:
    assert substr("hello", -1, 3) == ""
    assert list(number_range([3, 0])) == [3, 2, 1]
    assert apply("bshru", [-1, 60], "number") == 15
    assert apply("^", [-1, 2**62 + 1], "number") == -1
    assert compare("<", "Z", "a")
    assert compare("<", "\uffff", "\U00010000")
    assert aggregate("sum", [1e308, 1e308, -1e308], "float", 0) == 1e308
    assert aggregate("sum", [], "decimal", 2) == Decimal("0.00")
    assert aggregate("min", [], "number", 0) is None
    assert aggregate("mean", [1, 2], "number", 0) == 1.5


@pytest.mark.parametrize(
    ("family", "value", "text"),
    [
        ("number", -5, "-5"),
        ("float", 1e16, "1e+16"),
        ("float", 0.1, "0.1"),
        ("bool", False, "false"),
        ("date", date(1, 2, 3), "0001-02-03"),
        ("timestamp", datetime(2024, 2, 29, 12, 30, tzinfo=UTC), "2024-02-29T12:30:00.000000Z"),
        ("decimal", Decimal("-0.50"), "-0.50"),
        ("bytes", b"\x00\xff", "00ff"),
        ("symbol", " é ", " é "),
    ],
)
def test_values_are_written_and_read_back(family: str, value: Value, text: str) -> None:
    assert write_value(value) == text
    assert read_value(text, family) == value


def test_rows_are_sorted_with_null_first() -> None:
    unsorted: list[Row] = [("b", 1), ("a", 10), ("a", None), ("a", 9), (None, 0)]
    assert sorted(unsorted, key=sort_key) == [(None, 0), ("a", None), ("a", 9), ("a", 10), ("b", 1)]


def test_quoted_files_are_read_and_written(tmp_path: Path) -> None:
    text = '.decl r(x: number, s: symbol)\n.input r(filename="r.csv", rfc4180=true)\n.output r(rfc4180=true)'
    (tmp_path / "r.csv").write_bytes(b'2,"a ""b"",\nc"\r\n1,plain\n')
    facts = read_facts(text, tmp_path)
    assert facts == {"r": {(2, 'a "b",\nc'), (1, "plain")}}
    write_outputs(text, evaluate(text, facts), tmp_path)
    assert (tmp_path / "r.csv").read_bytes() == b'1,plain\n2,"a ""b"",\nc"\n'
