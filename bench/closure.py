"""The transitive closure of Debian's package dependencies: 274,855 rows in, 3,453,579 out, 16 iterations.

Each subject runs in a process of its own: the rows are loaded first, then the closure is computed several times.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from bench.memory import PeakMemory
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.interface import Engine
from viewkeeper.language import parse
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.rewrite.passes import normalise

DATA = Path(__file__).parent / "data" / "debian" / "depends.csv.gz"
ROWS = 3_453_579
RUNS = 3
PROGRAM = """
.decl depends(package: symbol, dependency: symbol)
.decl based_on(package: symbol, dependency: symbol)
based_on(x, y) :- depends(x, y).
based_on(x, z) :- based_on(x, y), depends(y, z).
"""
# The same computation: union of sets, new rows joined with depends.
DUCKDB = """
CREATE OR REPLACE TABLE based_on AS
WITH RECURSIVE closure(x, y) AS (
    SELECT package, dependency FROM depends
    UNION
    SELECT closure.x, depends.dependency FROM closure JOIN depends ON closure.y = depends.package)
SELECT * FROM closure
"""

Run = tuple[float, int]


def duckdb() -> Iterator[Run]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.execute("CREATE TABLE depends AS SELECT * FROM read_csv(?, header = true)", [str(DATA)])
    for _ in range(RUNS):
        started = time.monotonic()
        connection.execute(DUCKDB)
        yield time.monotonic() - started, _first(connection.execute("SELECT count(*) FROM based_on").fetchone())


def embedded() -> Iterator[Run]:
    for _ in range(RUNS):
        yield _closure(EmbeddedEngine.private())


def embedded_warehouse() -> Iterator[Run]:
    """The whole of `viewkeeper load`: read the file, compute, commit durably."""
    import viewkeeper as vk

    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True) as warehouse:
            warehouse.define(PROGRAM)
            started = time.monotonic()
            commit = warehouse.load("depends", DATA, engine="embedded")
            yield time.monotonic() - started, commit.rows["based_on"]


def spark_cold() -> Iterator[Run]:
    """The first computation of a new session, its start included."""
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    started = time.monotonic()
    engine = SparkEngine(our_session(None))
    session = time.monotonic() - started
    seconds, rows = _closure(engine)
    yield session + seconds, rows


def spark() -> Iterator[Run]:
    """A session that has computed the closure twice before."""
    from viewkeeper.engines.session import our_session
    from viewkeeper.engines.spark import SparkEngine

    for run in range(RUNS + 2):
        result = _closure(SparkEngine(our_session(None)))
        if run >= 2:
            yield result


def _closure(engine: Engine) -> Run:
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
    with gzip.open(DATA, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return batch_of_rows(rows, parse(PROGRAM).relation("depends"))


def _first(row: tuple[int, ...] | None) -> int:
    assert row is not None
    return row[0]


SUBJECTS: dict[str, Callable[[], Iterator[Run]]] = {
    "duckdb": duckdb,
    "embedded": embedded,
    "embedded_warehouse": embedded_warehouse,
    "spark_cold": spark_cold,
    "spark": spark,
}


def main(subject: str) -> None:
    with PeakMemory() as peak:
        runs = list(SUBJECTS[subject]())
    print(json.dumps({"seconds": [s for s, _ in runs], "rows": runs[-1][1], "peak_mb": peak.megabytes}))


if __name__ == "__main__":
    main(sys.argv[1])
