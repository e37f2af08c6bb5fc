"""Answers of DuckDB and of Spark to the 22 queries, and the comparison of two answers as bags of rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.tpch.schema import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import viewkeeper as vk

Row = tuple[Any, ...]
# Digits that a rounded decimal has at least.
ROUNDED = 6


def duckdb_with(tables: Mapping[str, pa.Table | Path], threads: int = 2) -> Any:
    """DuckDB in memory with these tables, from Arrow or Parquet."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    for name, source in tables.items():
        if isinstance(source, Path):
            connection.execute(f"CREATE TABLE {name} AS FROM read_parquet(?)", [str(source)])
        else:
            connection.register("arrow_table", source)
            connection.execute(f"CREATE TABLE {name} AS FROM arrow_table")
            connection.unregister("arrow_table")
    return connection


def duckdb_answers(tables: Mapping[str, pa.Table | Path]) -> dict[str, pa.Table]:
    connection = duckdb_with(tables)
    try:
        return {name: connection.sql(query).to_arrow_table() for name, query in QUERIES.items()}
    finally:
        connection.close()


def spark_with(spark: SparkSession, files: Mapping[str, Path]) -> SparkSession:
    """A session beside the given one in which the files are the tables."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, file in files.items():
        session.read.parquet(str(file)).createOrReplaceTempView(name)
    return session


def spark_answers(spark: SparkSession, files: Mapping[str, Path]) -> dict[str, pa.Table]:
    session = spark_with(spark, files)
    # For tables this small, planning again between stages takes longer than the stages.
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return {name: session.sql(query).toArrow() for name, query in QUERIES.items()}


def view(warehouse: vk.Warehouse, name: str) -> pa.Table:
    """What a warehouse holds of a view, the rows of a bag as often as they are there."""
    relation = warehouse.program.relation(name)
    names = [column.name for column in relation.columns]
    variables = ", ".join(f"v{place}" for place in range(len(names)))
    table = warehouse.query(f"{name}({variables})").to_arrow().rename_columns(names)
    return expanded(table) if "bag" in relation.qualifiers else table


def expanded(table: pa.Table) -> pa.Table:
    """A bag kept as rows and, in its last column, how often each is there: as the rows themselves."""
    copies = table.column(table.num_columns - 1).to_pylist()
    places = [place for place, times in enumerate(copies) for _ in range(times)]
    return table.select(range(table.num_columns - 1)).take(pa.array(places, pa.int64()))


def difference(ours: pa.Table, theirs: pa.Table, tolerance: float = 0.0) -> str:
    """What differs between two answers; nothing if they are the same bag of rows.

    Everything is compared exactly except what one of them has as a float or rounded to fewer digits, six at least.
    ``tolerance``: what two floats may differ by near zero.

    >>> from decimal import Decimal
    >>> exact = pa.table({"a": [Decimal("0.333333")], "b": ["x"]})
    >>> difference(exact, pa.table({"a": [1 / 3], "b": ["x"]}))
    ''
    >>> difference(exact, pa.table({"a": [Decimal("0.333334")], "b": ["x"]}))
    "1 rows too many, such as (Decimal('0.333333'), 'x'); 1 rows missing, such as (Decimal('0.333334'), 'x')"
    """
    if ours.column_names != theirs.column_names:
        return f"columns {ours.column_names} instead of {theirs.column_names}"
    near = {
        i: close for i in range(ours.num_columns) if (close := _nearness(ours.field(i).type, theirs.field(i).type, tolerance))
    }
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, table in enumerate((ours, theirs)):
        for row in _rows(table):
            groups[tuple(value for i, value in enumerate(row) if i not in near)][side].append(row)
    surplus: list[Row] = []
    missing: list[Row] = []
    for mine, others in groups.values():
        for some, rest in ((surplus, _left_over(mine, others, near)), (missing, _left_over(others, mine, near))):
            some += rest
    told = [_told("too many", surplus), _told("missing", missing)]
    return "; ".join(text for text in told if text)


Close = Callable[[Any, Any], bool]


def _nearness(ours: pa.DataType, theirs: pa.DataType, tolerance: float) -> Close | None:
    """How values of these types may differ; None if not at all."""
    if pa.types.is_floating(ours) or pa.types.is_floating(theirs):
        both = pa.types.is_floating(ours) and pa.types.is_floating(theirs)
        absolute = tolerance if both else 10.0**-ROUNDED
        return lambda a, b: math.isclose(a, b, rel_tol=1e-9, abs_tol=absolute)
    if pa.types.is_decimal(ours) and pa.types.is_decimal(theirs):
        scale = min(ours.scale, theirs.scale)
        if ours.scale != theirs.scale and scale >= ROUNDED:
            return lambda a, b: bool(abs(a - b).scaleb(scale) <= 1)
    return None


def _rows(table: pa.Table) -> Iterable[Row]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _left_over(mine: list[Row], others: list[Row], near: Mapping[int, Close]) -> list[Row]:
    """Rows of mine that have no partner of their own among the others, exact columns being the same in all of them."""
    if not near:
        return list((Counter(mine) - Counter(others)).elements())
    free, rest = list(others), []
    for row in mine:
        partner = next((other for other in free if all(_close(row[i], other[i], near[i]) for i in near)), None)
        if partner is None:
            rest.append(row)
        else:
            free.remove(partner)
    return rest


def _close(one: Any, other: Any, close: Close) -> bool:
    if one is None or other is None:
        return one is other
    return close(one, other)


def _told(what: str, rows: list[Row]) -> str:
    return f"{len(rows)} rows {what}, such as {rows[0]}" if rows else ""
