"""The packages of Debian 12: files, rows and the closure of their dependencies, here and in DuckDB."""

from __future__ import annotations

import csv
import gzip
import random
import time
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "debian"
FILES = {name: DATA / f"{name}.csv.gz" for name in ("depends", "package", "provides", "conflicts")}
UPDATE = DATA / "security-update.jsonl.gz"
DEPENDS = ".decl depends(package: symbol, dependency: symbol)\n"
CLOSURE = """
.decl based_on(package: symbol, dependency: symbol)
based_on(x, y) :- depends(x, y).
based_on(x, y) :- depends(x, z), based_on(z, y).
"""
# The same computation: union of sets, new rows joined with depends.
RECURSIVE = """
    WITH RECURSIVE closure(package, dependency) AS (
        SELECT package, dependency FROM depends
        UNION
        SELECT closure.package, depends.dependency FROM closure JOIN depends ON closure.dependency = depends.package)
    SELECT * FROM closure
"""

Row = tuple[Any, ...]


def rows_of(name: str) -> list[Row]:
    with gzip.open(FILES[name], "rt", encoding="utf-8", newline="") as file:
        rows = [tuple(row) for row in csv.reader(file)][1:]
    return [(*row[:3], int(row[3])) for row in rows] if name == "package" else rows


def duckdb_with(*names: str) -> Any:
    """DuckDB in memory, the relations loaded."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for name in names:
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv(?, header = true)", [str(FILES[name])])
    return connection


def count(connection: Any, table: str) -> int:
    [[rows]] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    return int(rows)


def recompute(connection: Any, views: dict[str, str]) -> tuple[float, dict[str, list[int]]]:
    """What one does without maintenance: each view computed anew beside the old one, then the difference both ways.

    The time, and for each view how many rows came and went. The new state takes the place of the old.
    """
    started = time.perf_counter()
    for view, query in views.items():
        connection.execute(f"CREATE OR REPLACE TABLE {view}_new AS {query}")
        connection.execute(f"CREATE OR REPLACE TABLE {view}_came AS SELECT * FROM {view}_new EXCEPT SELECT * FROM {view}")
        connection.execute(f"CREATE OR REPLACE TABLE {view}_went AS SELECT * FROM {view} EXCEPT SELECT * FROM {view}_new")
    for view in views:
        connection.execute(f"DROP TABLE {view}")
        connection.execute(f"ALTER TABLE {view}_new RENAME TO {view}")
    seconds = time.perf_counter() - started
    return seconds, {view: [count(connection, f"{view}_came"), count(connection, f"{view}_went")] for view in views}


Change = tuple[str, str, Row]


def stream(changes: int, seed: int = 1) -> dict[str, list[Change]]:
    """One-row changes of depends: random rows deleted and inserted again, new rows inserted and deleted again."""
    rows = rows_of("depends")
    choose = random.Random(seed)
    known, packages = set(rows), sorted({package for row in rows for package in row})
    new: list[Row] = []
    while len(new) < changes:
        row = (choose.choice(packages), choose.choice(packages))
        if row[0] != row[1] and row not in known:
            known.add(row)
            new.append(row)
    there = choose.sample(rows, changes)
    return {
        "there": [(op, "depends", row) for row in there for op in ("delete", "insert")],
        "new": [(op, "depends", row) for row in new for op in ("insert", "delete")],
    }
