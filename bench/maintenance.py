"""The closure of Debian's dependencies kept up to date, one row of depends at a time, against recomputing it in DuckDB."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import viewkeeper as vk
from bench.debian import CLOSURE, DEPENDS, FILES, RECURSIVE, Change, count, duckdb_with, recompute, stream
from bench.memory import PeakMemory
from bench.section import TIMES, Goal, Run, Section, Times, agree, goals, number

CHANGES = 1_000
# The rows with the most packages above them, and how many are recomputed in DuckDB.
HEAVIEST = 30
RECOMPUTED = 3
SMALL = 1_000


def duckdb(run: Run) -> dict[str, Any]:
    """The first rows of the stream deleted, each time with the closure recomputed and compared."""
    connection = duckdb_with("depends")
    connection.execute(f"CREATE TABLE based_on AS {RECURSIVE}")
    rows = count(connection, "based_on")
    heaviest = connection.execute(
        "SELECT package, dependency FROM depends LEFT JOIN (SELECT dependency AS package, count(*) AS above FROM based_on GROUP BY ALL) "
        f"USING (package) ORDER BY coalesce(above, 0) DESC, package, dependency LIMIT {HEAVIEST}"
    ).fetchall()
    seconds, changed = [], []
    for _, _, row in stream(CHANGES)["there"][: 2 * RECOMPUTED : 2]:
        connection.execute("DELETE FROM depends WHERE package = ? AND dependency = ?", row)
        taken, difference = recompute(connection, {"based_on": RECURSIVE})
        seconds.append(taken)
        changed.append(sum(difference["based_on"]))
        connection.execute("INSERT INTO depends VALUES (?, ?)", row)
        connection.execute(f"CREATE OR REPLACE TABLE based_on AS {RECURSIVE}")
    return {"seconds": seconds, "changed": changed, "rows": rows, "heaviest": heaviest, "integers": integers(connection)}


def integers(connection: Any) -> list[float]:
    """The same with a number for each name, made before the clock starts: what DuckDB can do at best."""
    connection.execute(
        "CREATE TABLE named AS SELECT name, row_number() OVER () AS id FROM "
        "(SELECT package AS name FROM depends UNION SELECT dependency FROM depends)"
    )
    connection.execute(
        "CREATE OR REPLACE TABLE depends AS SELECT p.id AS package, d.id AS dependency "
        "FROM depends JOIN named p ON p.name = package JOIN named d ON d.name = dependency"
    )
    connection.execute(f"CREATE OR REPLACE TABLE based_on AS {RECURSIVE}")
    return [recompute(connection, {"based_on": RECURSIVE})[0] for _ in range(RECOMPUTED)]


def viewkeeper(run: Run) -> dict[str, Any]:
    changes = stream(CHANGES)
    heaviest = [(op, "depends", tuple(row)) for row in run.earlier["duckdb"]["heaviest"] for op in ("delete", "insert")]
    with PeakMemory() as whole, loaded(DEPENDS + CLOSURE, "depends") as (warehouse, load), PeakMemory() as kept:
        result = {
            "load": load,
            "there": commits(warehouse, changes["there"], "based_on"),
            "new": commits(warehouse, changes["new"], "based_on"),
            "heaviest": commits(warehouse, heaviest, "based_on"),
        }
        [shown] = warehouse.show("based_on")
    return {**result, "rows": shown.rows, "peak_mb": whole.megabytes, "kept_mb": kept.megabytes}


@contextmanager
def loaded(program: str, *names: str, durable: bool = True) -> Any:
    """A warehouse with the program and these relations of Debian, and how long loading took."""
    with (
        tempfile.TemporaryDirectory() as directory,
        vk.open(Path(directory) / "w", create=True, engine="embedded", durable=durable) as warehouse,
    ):
        warehouse.define(program)
        started = time.perf_counter()
        warehouse.load({name: FILES[name] for name in names})
        yield warehouse, time.perf_counter() - started


def commits(warehouse: vk.Warehouse, changes: Iterable[Change], view: str) -> list[tuple[float, int]]:
    """Each change as a durable commit: the time, and how many rows of the view it changed."""
    done = []
    for op, relation, row in changes:
        started = time.perf_counter()
        if op == "insert":
            commit = warehouse.commit(inserts={relation: [row]})
        else:
            commit = warehouse.commit(deletes={relation: [row]})
        seconds = time.perf_counter() - started
        changed = commit.changes.get(view)
        done.append((seconds, changed.inserted_rows + changed.deleted_rows if changed else 0))
    return done


def text(results: Mapping[str, Any]) -> list[str]:
    ours, theirs = results["viewkeeper"], results["duckdb"]
    agree("rows", ours["rows"], theirs["rows"])
    agree("changes", [changed for _, changed in ours["there"][: 2 * RECOMPUTED : 2]], theirs["changed"])
    recomputing, integers = statistics.median(theirs["seconds"]), statistics.median(theirs["integers"])
    kinds = {
        "rows of depends deleted": ours["there"][::2],
        "inserted again": ours["there"][1::2],
        "new rows inserted": ours["new"][::2],
    }
    heavy = {f"the {HEAVIEST} rows with the most packages above them, deleted": ours["heaviest"][::2],
             "inserted again ": ours["heaviest"][1::2]}  # fmt: skip
    counted = [one for done in kinds.values() for one in done]
    small = Times([seconds for seconds, changed in counted if changed < SMALL])
    lines = [
        f"`based_on` has {ours['rows']:,} rows. Each change is one row of `depends`, committed durably by `Warehouse.commit` on a warehouse",
        "that is opened once; rows are drawn at random. New rows are deleted again, which is not counted.",
        f"Recomputing the closure in DuckDB and differencing it both ways takes {number(recomputing)} s in the same run, median of "
        f"{len(theirs['seconds'])}; it is in memory and not durable.",
        f"The first load takes {ours['load']:.0f} s. Changed: rows of `based_on`, the largest number in the line.",
        "",
        TIMES[0] + " times faster than recomputing: median | p99 | changed |",
        TIMES[1] + " ---: | ---: | ---: |",
    ]
    for name, done in {**kinds, f"of all these, those that change fewer than {SMALL:,} rows": None, **heavy}.items():
        times = small if done is None else Times([seconds for seconds, _ in done])
        largest = SMALL - 1 if done is None else max(changed for _, changed in done)
        ratios = f"{number(recomputing / times.median)} | {number(recomputing / times.p99)}"
        lines.append(
            f"| {name.strip()} | {times.cells()} | {ratios} | {'<' if done is None else ''}{largest + (done is None):,} |"
        )
    heavier = [recomputing / Times([seconds for seconds, _ in done]).median for done in heavy.values()]
    return [
        *lines,
        "",
        *goals(
            Goal(
                "changes of fewer than 1,000 rows, median: faster than recomputing", recomputing / small.median, "at least", 800
            ),
            Goal("changes of fewer than 1,000 rows, p99: faster than recomputing", recomputing / small.p99, "at least", 100),
            Goal("the heaviest rows deleted, median: faster than recomputing", heavier[0], "at least", 5),
            Goal("the heaviest rows inserted again, median: faster than recomputing", heavier[1], "at least", 5),
            Goal("resident memory throughout, loading included", ours["peak_mb"], "under", 1024, "MB"),
        ),
        "",
        f"After loading, resident memory stayed under {ours['kept_mb'] + 1:,} MB. The goals are against DuckDB on the same rows of text. On whole numbers",
        f"instead of names, which one would have to make and keep oneself, it recomputes in {number(integers)} s: small changes are then "
        f"{number(integers / small.median)} times (median) and {number(integers / small.p99)} times (p99) faster.",
    ]


SECTION = Section("One-row changes of the closure", {"duckdb": duckdb, "viewkeeper": viewkeeper}, text)
