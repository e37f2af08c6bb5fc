"""Plays random SQL: views on a warehouse beside Spark's answers to their queries, tables beside those that DuckDB changes.

python -m tests.sql_playing FROM TO [--spark] [--transactions N]   plays many seeds and tells what differs
python -m tests.sql_playing SEED                                   prints the script of one
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import sqlglot
from tests.sql_generator import Generator, Row, Table, View
from tests.tpch.compare import difference

import viewkeeper as vk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What stddev may be off by: it is kept from sums of squares.
TOLERANCE = 1e-6
REFUSED_BY_SPARK = ("AnalysisException", "ParseException", "UnsupportedOperationException")


@dataclass
class Asked:
    """How many views there were, and how many of them were not compared because one side refused them."""

    views: int = 0
    refused: list[str] = field(default_factory=list)
    spark_refused: list[str] = field(default_factory=list)
    compared: int = 0
    violations: int = 0
    transactions: int = 0

    def add(self, other: Asked) -> None:
        self.views += other.views
        self.refused += other.refused
        self.spark_refused += other.spark_refused
        self.compared += other.compared
        self.violations += other.violations
        self.transactions += other.transactions


@dataclass
class Player:
    """One seed, on a warehouse of its own."""

    seed: int
    directory: Path
    spark: SparkSession | None = None
    engine: str | None = "embedded"
    views: int = 4

    def __post_init__(self) -> None:
        self.generator = Generator(self.seed)
        self.asked = Asked()
        self.script: list[str] = []
        self.duckdb = duckdb.connect()
        self.duckdb.execute("SET threads = 1")

    def play(self, transactions: int) -> Asked:
        with vk.open(self.directory / f"seed{self.seed}", create=True, spark=self.spark) as self.house:
            try:
                self.define()
                for number in range(transactions):
                    statements = self.generator.transaction(self.rows_as_text()) if number else self.generator.filling()
                    self.transact(statements)
                    self.check()
            except AssertionError as error:
                raise AssertionError(f"seed {self.seed}: {error}\n" + ";\n".join(self.script)) from None
            finally:
                self.duckdb.close()
        return self.asked

    def define(self) -> None:
        for table in self.generator.schema():
            self.house.sql(self.tell(table.sql))
            columns = ", ".join(f"{c.name} {_duckdb_type(c.kind)}" for c in table.columns)
            self.duckdb.execute(f"CREATE TABLE {table.name} ({columns})")
        self.defined: list[View] = []
        for _ in range(self.views):
            view = self.generator.view()
            self.last = self.house.program
            self.asked.views += 1
            try:
                self.house.sql(view.sql, engine=self.engine)
            except vk.ViewkeeperError as error:
                self.asked.refused.append(f"seed {self.seed}: {error}")
                self.generator.forget(view)
            except Exception as error:
                self.tell(view.sql)
                raise AssertionError(f"{view.name} fails: {error!r}") from error
            else:
                self.tell(view.sql)
                self.defined.append(view)

    def given(self, script: str, queries: Sequence[str]) -> None:
        """These tables and views instead of random ones."""
        self.house.sql(script)
        names = [relation.name for relation in self.house.program.relations]
        self.generator.tables = [Table(name, ()) for name in names]
        self.defined = [View(f"v{number}", query, frozenset()) for number, query in enumerate(queries)]
        for view in self.defined:
            self.house.sql(view.sql)

    def tell(self, text: str) -> str:
        self.script.append(text)
        return text

    # ---- changes

    def transact(self, statements: list[str]) -> None:
        for statement in statements:
            self.tell(statement)
        violated = self.change_duckdb(statements)
        self.asked.transactions += 1
        self.asked.violations += bool(violated)
        try:
            self.house.sql(";\n".join(statements), engine=self.engine)
        except Exception as error:
            if not violated or not isinstance(error, vk.ViewkeeperError):
                raise AssertionError(f"the last transaction fails: {error!r} {error}") from error
        else:
            assert not violated, f"the last transaction should fail: {violated}"
        for table in self.generator.tables:
            ours, theirs = Counter(self.rows(table)), Counter(self.duckdb.table(table.name).fetchall())
            assert ours == theirs, f"{table.name}: {ours - theirs} too many, {theirs - ours} missing"

    def change_duckdb(self, statements: list[str]) -> str:
        """Changes DuckDB's tables; tells which key or NOT NULL is violated, and then changes nothing."""
        self.duckdb.execute("BEGIN")
        for statement in statements:
            text = sqlglot.transpile(statement, read="spark", write="duckdb")[0]
            self.duckdb.execute(text)
            for table in self.generator.tables:
                violated = self.violated(table)
                if violated:
                    self.duckdb.execute("ROLLBACK")
                    return f"{violated} by {statement}"
        self.duckdb.execute("COMMIT")
        return ""

    def violated(self, table: Table) -> str:
        for column in table.columns:
            if column.required and self.duckdb.sql(f"FROM {table.name} WHERE {column.name} IS NULL").fetchall():
                return f"{table.name}.{column.name}"
        if (
            table.key
            and self.duckdb.sql(f"SELECT 1 FROM {table.name} GROUP BY {', '.join(table.key)} HAVING count(*) > 1").fetchall()
        ):
            return f"the key of {table.name}"
        return ""

    def rows(self, table: Table) -> list[Row]:
        return [tuple(_naive(value) for value in row) for row in self.answer(table.name)]

    def rows_as_text(self) -> dict[str, list[Row]]:
        return {
            table.name: [
                tuple(_literal(value, column.kind) for value, column in zip(row, table.columns, strict=True))
                for row in self.rows(table)
            ]
            for table in self.generator.tables
        }

    # ---- answers

    def answer(self, name: str) -> vk.Answer:
        found = self.house.sql(f"SELECT * FROM {name}")[0].answer
        assert found is not None
        return found

    def check(self) -> None:
        wrong = [one.view for one in self.house.verify(engine="embedded") if not one.right]
        assert not wrong, f"not what a computation from the rows gives: {', '.join(wrong)}"
        if self.spark is not None:
            self.check_spark(self.spark)

    def check_spark(self, spark: SparkSession) -> None:
        for table in self.generator.tables:
            self.show_spark(spark, table.name, self.answer(table.name).to_arrow())
        unknown: set[str] = set()
        for view in self.defined:
            if view.reads & unknown:
                unknown.add(view.name)
                continue
            try:
                theirs = spark.sql(view.query).toArrow()
            except Exception as error:
                if type(error).__name__ not in REFUSED_BY_SPARK:
                    raise AssertionError(f"Spark fails on {view.name}: {str(error)[:1500]}") from None
                self.asked.spark_refused.append(f"seed {self.seed}: {view.query}\n{str(error)[:300]}")
                unknown.add(view.name)
                continue
            ours = self.answer(view.name).to_arrow()
            found = difference(ours, theirs, TOLERANCE)
            self.asked.compared += 1
            assert not found, f"{view.name}: {found}"
            self.show_spark(spark, view.name, theirs)

    def show_spark(self, spark: SparkSession, name: str, rows: pa.Table) -> None:
        spark.createDataFrame(rows).createOrReplaceTempView(name)


def spark_beside(spark: SparkSession) -> SparkSession:
    """A session for tiny queries: planning is what they cost."""
    session = spark.newSession()
    settings = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.leafNodeDefaultParallelism": "1",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


def _duckdb_type(kind: str) -> str:
    from tests.sql_generator import TYPES

    return {"STRING": "VARCHAR"}.get(TYPES[kind], TYPES[kind])


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def _literal(value: Any, kind: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            return f"{value!r}E0"
        case int() | Decimal():
            return str(value)
        case datetime.datetime():
            return f"TIMESTAMP '{value}'"
        case datetime.date():
            return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int, nargs="?")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--transactions", type=int, default=4)
    arguments = parser.parse_args()
    spark = None
    if arguments.spark:
        from viewkeeper.engines.session import local_session

        spark = spark_beside(local_session())
    total = Asked()
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(arguments.first, (arguments.last or arguments.first) + 1):
            player = Player(seed, Path(directory), spark)
            try:
                player.play(arguments.transactions)
            except AssertionError as error:
                print(f"==== {error}", flush=True)
            except Exception as error:
                print(f"==== seed {seed}: {error!r}\n" + ";\n".join(player.script), flush=True)
            else:
                if arguments.last is None:
                    print(";\n".join(player.script))
            total.add(player.asked)
    print(
        f"---- {total.views} views, {len(total.refused)} refused, {len(total.spark_refused)} refused by Spark, {total.compared} compared,"
    )
    print(f"     {total.transactions} transactions, {total.violations} violations")
    for text in total.refused + total.spark_refused:
        print("---- refused:", text)


if __name__ == "__main__":
    main()
