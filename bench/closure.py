"""The transitive closure of Debian's package dependencies: 274,855 rows in, 3,453,579 out, 16 iterations.

Each subject runs in a process of its own: the rows are loaded first, then the closure is computed several times.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.debian import DEPENDS, FILES, RECURSIVE, count, duckdb_with, rows_of
from bench.memory import PeakMemory
from bench.section import Run, Section, agree
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.language import parse
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.rewrite.passes import normalise

RUNS = 3
PROGRAM = f"""{DEPENDS}
.decl based_on(package: symbol, dependency: symbol)
based_on(x, y) :- depends(x, y).
based_on(x, z) :- based_on(x, y), depends(y, z).
"""
NAMES = {
    "duckdb": "DuckDB, `WITH RECURSIVE … UNION`, in memory",
    "embedded": "embedded engine",
    "embedded_warehouse": "embedded: read the file, compute, commit durably (`viewkeeper load`)",
    "spark_cold": "Spark, session start and first computation",
    "spark": "Spark, warm session",
}
# What we set out to reach: times of DuckDB's seconds, and memory.
GOALS = {"embedded": 12, "spark": 15}
MEMORY_GOAL = 4096

Computed = tuple[float, int]


def duckdb() -> Iterator[Computed]:
    connection = duckdb_with("depends")
    for _ in range(RUNS):
        started = time.monotonic()
        connection.execute(f"CREATE OR REPLACE TABLE based_on AS {RECURSIVE}")
        yield time.monotonic() - started, count(connection, "based_on")


def embedded() -> Iterator[Computed]:
    for _ in range(RUNS):
        yield _closure(EmbeddedEngine.private())


def embedded_warehouse() -> Iterator[Computed]:
    """The whole of `viewkeeper load`: read the file, compute, commit durably."""
    import viewkeeper as vk

    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True) as warehouse:
            warehouse.define(PROGRAM)
            started = time.monotonic()
            commit = warehouse.load("depends", FILES["depends"], engine="embedded")
            yield time.monotonic() - started, commit.rows["based_on"]


def spark_cold() -> Iterator[Computed]:
    """The first computation of a new session, its start included."""
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    started = time.monotonic()
    engine = SparkEngine(our_session(None))
    session = time.monotonic() - started
    seconds, rows = _closure(engine)
    yield session + seconds, rows


def spark() -> Iterator[Computed]:
    """A session that has computed the closure twice before."""
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    for run in range(RUNS + 2):
        result = _closure(SparkEngine(our_session(None)))
        if run >= 2:
            yield result


def _closure(engine: Engine) -> Computed:
    core = normalise(parse(PROGRAM))
    engine.prepare(core)
    engine.insert("depends", [_rows()])
    started = time.monotonic()
    evaluate(core, engine)
    seconds = time.monotonic() - started
    rows = engine.count("based_on")
    engine.close()
    return seconds, rows


def _rows() -> pa.RecordBatch:
    return batch_of_rows(rows_of("depends"), parse(PROGRAM).relation("depends"))


def measured(computing: Callable[[], Iterator[Computed]]) -> Callable[[Run], dict[str, Any]]:
    def subject(run: Run) -> dict[str, Any]:
        with PeakMemory() as peak:
            runs = list(computing())
        return {"seconds": [seconds for seconds, _ in runs], "rows": runs[-1][1], "peak_mb": peak.megabytes}

    return subject


def text(results: Mapping[str, Any]) -> list[str]:
    reference = statistics.median(results["duckdb"]["seconds"])
    lines = [
        f"274,855 rows of text in, {results['duckdb']['rows']:,} out, 16 iterations. Rows are loaded before the clock starts, except where",
        "it is said. Median of the runs; peak memory is that of all processes of a subject together, loading included.",
        "",
        "| | seconds | runs | times DuckDB | goal | peak memory | goal |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for subject, result in results.items():
        agree("rows", result["rows"], results["duckdb"]["rows"])
        median, peak, goal = statistics.median(result["seconds"]), result["peak_mb"], GOALS.get(subject)
        ratio = median / reference
        reached = "" if goal is None else f"≤ {goal}: {'reached' if ratio <= goal else '**missed**'}"
        memory = "" if goal is None else f"< {MEMORY_GOAL:,} MB: {'reached' if peak < MEMORY_GOAL else '**missed**'}"
        runs = ", ".join(f"{seconds:.1f}" for seconds in result["seconds"])
        lines.append(f"| {NAMES[subject]} | {median:.1f} | {runs} | {ratio:.1f} | {reached} | {peak:,} MB | {memory} |")
    return [
        *lines,
        "",
        "Why it is so, and what was tried: decisions [0003](decisions/0003-sqlite-tables.md) and "
        "[0005](decisions/0005-spark-fixpoint.md).",
    ]


SECTION = Section(
    "Closure of Debian's package dependencies",
    {
        "duckdb": measured(duckdb),
        "embedded": measured(embedded),
        "embedded_warehouse": measured(embedded_warehouse),
        "spark_cold": measured(spark_cold),
        "spark": measured(spark),
    },
    text,
)
