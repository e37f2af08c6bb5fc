"""The functions that SQL is made of: both engines give exactly what Spark's own SQL gives, and fail where they must."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import pytest
from tests.conftest import MakeEngine, evaluate_text
from tests.engines import Subject
from tests.samples import Row, Value
from tests.sql_cases import CASES, FAILURES, SqlCase, SqlFailure
from tests.test_conformance import assert_fails, exactly

from viewkeeper.engines.session import our_session
from viewkeeper.program.functions import FUNCTIONS

NAMES = ("a", "b", "c")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Found = dict[tuple[int, int], Value]


# ---- the three ways to compute


def by_engine(cases: Sequence[SqlCase], make: MakeEngine) -> Found:
    """All cases of the same arguments in one rule, for speed."""
    shared: dict[tuple[Any, ...], list[int]] = {}
    for k, case in enumerate(cases):
        shared.setdefault((tuple(case.types), tuple(case.rows)), []).append(k)
    text: list[str] = []
    facts: dict[str, set[Row]] = {}
    for number, ((types, rows), members) in enumerate(shared.items()):
        columns = "".join(f", {name}: {type_}?" for name, type_ in zip(NAMES, types))
        results = "".join(f", r{k}: {cases[k].result}?" for k in members)
        terms = "".join(f", {cases[k].term}" for k in members)
        text.append(f".decl arg{number}(id: number{columns})\n.decl found{number}(id: number{results})")
        text.append(f"found{number}(id{terms}) :- arg{number}(id, {', '.join(NAMES[: len(types)])}).")
        facts[f"arg{number}"] = {(i, *row) for i, row in enumerate(rows)}
    found = evaluate_text("\n".join(text), facts, make)
    return {
        (k, row[0]): value  # type: ignore[misc]
        for number, members in enumerate(shared.values())
        for row in found[f"found{number}"]
        for k, value in zip(members, row[1:])
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
    ours = by_engine(CASES, embedded)
    assert different(CASES, ours, by_spark(CASES, our_session(spark_session)), about=True) == []
    assert different(CASES, ours, by_engine(CASES, spark_engine)) == []


def test_every_function_has_a_case() -> None:
    assert {case.function for case in CASES} == {name for name in FUNCTIONS if name.startswith("sql_")}


@pytest.mark.parametrize("case", FAILURES, ids=str)
def test_failures(case: SqlFailure, engine: Subject) -> None:
    columns = ", ".join(f"{name}: {type_}" for name, type_ in zip(NAMES, case.types))
    text = f".decl p({columns})\n.decl h(r: {case.result}?)\nh({case.term}) :- p({', '.join(NAMES[: len(case.types)])})."
    assert_fails(text, {"p": {case.row}}, case.code, engine)
