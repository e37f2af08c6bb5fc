"""TPC-H: the views kept of the 22 queries are DuckDB's answers after every change, and Spark's when all is done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.tpch.compare import difference, duckdb_answers, spark_answers, view
from tests.tpch.data import Model, arguments, generate, stream
from tests.tpch.schema import CREATE_TABLES, CREATE_VIEWS, QUERIES, TABLES

import viewkeeper as vk

SCALE = 0.01


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return generate(tmp_path_factory.getbasetemp(), SCALE)


def test_a_difference_is_found(files: Mapping[str, Path]) -> None:
    answers = duckdb_answers(files)
    for name, answer in answers.items():
        assert difference(answer, answer.take(list(reversed(range(len(answer)))))) == ""
        assert "missing" in difference(answer.slice(1), answer)
        assert "too many" in difference(pa.concat_tables([answer, answer.slice(0, 1)]), answer), name


def test_the_model_is_what_its_transactions_make(files: Mapping[str, Path]) -> None:
    """Each transaction names rows that are there, or are not, and together they leave what the model has."""
    model = Model(files)
    rows = {name: {current.key_of(row): row for row in rows_of(current.base)} for name, current in model.tables.items()}
    for transaction in stream(model):
        for relation, op, changed in transaction:
            held, current = rows[relation], model.tables[relation]
            for row in changed:
                key = current.key_of(row)
                assert (key in held) == (op != "insert")
                if op == "delete":
                    assert held.pop(key) == row
                else:
                    held[key] = row
    assert {name: set(held.values()) for name, held in rows.items()} == {
        name: set(rows_of(model.table(name))) for name in TABLES
    }


def test_maintained_views_equal_duckdb(files: Mapping[str, Path], tmp_path: Path) -> None:
    model = Model(files)
    with vk.open(tmp_path / "w", create=True, engine="embedded") as warehouse:
        warehouse.sql(CREATE_TABLES)
        warehouse.load(dict(files))
        warehouse.sql(CREATE_VIEWS)
        check(warehouse, duckdb_answers(files))
        for transaction in stream(model):
            warehouse.commit(**arguments(transaction))
            check(warehouse, duckdb_answers({name: model.table(name) for name in TABLES}))


def test_spark_answers_as_duckdb_after_all_transactions(
    files: Mapping[str, Path], tmp_path: Path, spark_session: SparkSession
) -> None:
    """It takes a quarter of a minute each time, so Spark is asked once; DuckDB has the answers of the views kept by then."""
    model = Model(files)
    assert list(stream(model))
    tables = {name: model.table(name) for name in TABLES}
    expected = duckdb_answers(tables)
    answers = spark_answers(spark_session, written(tables, tmp_path))
    assert {name: difference(answers[name], answer) for name, answer in expected.items()} == dict.fromkeys(QUERIES, "")


def check(warehouse: vk.Warehouse, answers: Mapping[str, pa.Table]) -> None:
    found = {name: difference(view(warehouse, name), answer) for name, answer in answers.items()}
    assert found == dict.fromkeys(QUERIES, "")


def written(tables: Mapping[str, pa.Table], directory: Path) -> dict[str, Path]:
    """The tables as files, for Spark."""
    files = {name: directory / f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        pq.write_table(table, files[name])
    return files


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
