"""The functions that SQL is made of: both engines give exactly what Spark's own SQL gives, and fail where they must."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from tests.conftest import MakeEngine, evaluate_text
from tests.samples import Row, Value
from tests.sql_cases import CASES, FAILURES, SqlCase, SqlFailure
from tests.test_conformance import assert_fails, exactly, relation_for

from viewkeeper.engines.session import our_session
from viewkeeper.errors import ProgramError
from viewkeeper.language import parse
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.rewrite.passes import normalise
from tests.engines import Subject

NAMES = ("a", "b", "c")
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Found = dict[tuple[int, int], Value]


# ---- the three ways to compute


def program_of(cases: Sequence[SqlCase]) -> str:
    lines = [f".decl {relation_for(t)}(k: number, id: number, r: {t}?)" for t in dict.fromkeys(case.result for case in cases)]
    for k, case in enumerate(cases):
        columns = "".join(f", {name}: {type_}?" for name, type_ in zip(NAMES, case.types))
        arguments = ", ".join(NAMES[: len(case.types)])
        lines.append(f".decl arg{k}(id: number{columns})")
        lines.append(f"{relation_for(case.result)}({k}, id, {case.term}) :- arg{k}(id, {arguments}).")
    return "\n".join(lines)


def by_engine(cases: Sequence[SqlCase], make: MakeEngine) -> Found:
    facts: dict[str, set[Row]] = {f"arg{k}": {(i, *row) for i, row in enumerate(c.rows)} for k, c in enumerate(cases)}
    found = evaluate_text(program_of(cases), facts, make)
    return {(k, id_): value for t in {c.result for c in cases} for k, id_, value in found[relation_for(t)]}  # type: ignore[misc]


FROM_TEXT = {
    "symbol": "{0}",
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


def by_spark(cases: Sequence[SqlCase], session: Any) -> Found:
    """With Spark's own functions, of real dates, decimals and so on; one query for each type of result."""
    found: Found = {}
    for result in dict.fromkeys(case.result for case in cases):
        parts = []
        for k, case in enumerate(cases):
            if case.result == result:
                rows = [(i, *map(as_text, row)) for i, row in enumerate(case.rows)]
                names = NAMES[: len(case.types)]
                schema = ", ".join(["id bigint", *(f"{name} string" for name in names)])
                session.createDataFrame(rows, schema).createOrReplaceTempView(f"case{k}")
                real = ", ".join(
                    FROM_TEXT.get(t, f"CAST({{0}} AS {t})").format(name) + f" AS {name}" for t, name in zip(case.types, names)
                )
                value = STORED.get(result, f"CAST({{0}} AS {result})" if result.startswith("decimal") else "{0}").format(
                    case.native
                )
                parts.append(f"SELECT {k} AS k, id, {value} AS v FROM (SELECT id, {real} FROM case{k})")
        for k, id_, value in session.sql(" UNION ALL ".join(parts)).collect():
            found[k, id_] = restored(value, result)
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
