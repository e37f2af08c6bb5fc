"""Transactions of one row to a hundred thousand on each engine, and on the one that `auto` takes."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from bench.section import Goal, Run, Section, agree, goals, number

SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
LARGE = 1_000_000
# Twice the largest transaction, so that no transaction empties the relation.
BASE = 2
ENGINES = ("embedded", "spark", "auto")
# Packages that may depend on each other, and dependencies of each.
GROUP, EACH = 40, 4
# A size is repeated until this many seconds are spent; after the second limit, the sizes that are left are left out.
SPENT, ENOUGH = 5.0, 1500.0
PROGRAM = """
.decl depends(package: number, dependency: number)
.decl based_on(package: number, dependency: number)
based_on(x, y) :- depends(x, y).
based_on(x, y) :- depends(x, z), based_on(z, y).
.decl needed_by(dependency: number, packages: number)
needed_by(d, n) :- n = count : { depends(_, d) }.
"""


def dependencies(rows: int) -> pa.Table:
    """Groups of packages, each depending on some that come before it, as far as there are."""
    choose = random.Random(rows)
    package: list[int] = []
    dependency: list[int] = []
    first = 0
    while len(package) < rows:
        for one in range(1, GROUP):
            for other in choose.sample(range(one), min(one, EACH)):
                package.append(first + one)
                dependency.append(first + other)
        first += GROUP
    return pa.table({"package": package[:rows], "dependency": dependency[:rows]})


def measured(engine: str) -> Callable[[Run], dict[str, Any]]:
    def subject(run: Run) -> dict[str, Any]:
        sizes = (*SIZES, LARGE) if run.large else SIZES
        data = dependencies(BASE * sizes[-1])
        with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True) as warehouse:
            warehouse.define(PROGRAM, engine="embedded")
            warehouse.load("depends", data, engine="embedded")
            found: dict[str, Any] = {}
            failed = None
            spent = time.perf_counter()
            try:
                # A session starts, statements are prepared.
                both(warehouse, data.slice(0, 1), engine)
                # The largest first: if time runs out, it is where the engines differ anyway.
                for size in reversed(sizes):
                    if time.perf_counter() - spent > ENOUGH:
                        break
                    found[str(size)] = repeated(warehouse, data, size, engine)
            # Whatever an engine cannot do is told in the report; the others are still measured.
            except Exception as error:
                failed = f"{type(error).__name__}: {error}".splitlines()[0]
            [shown] = warehouse.show("based_on")
        return {"sizes": found, "failed": failed, "base": len(data), "rows": shown.rows}

    return subject


def repeated(warehouse: vk.Warehouse, data: pa.Table, size: int, engine: str) -> dict[str, Any]:
    choose = random.Random(size)
    seconds: list[float] = []
    taken: set[str] = set()
    while len(seconds) < 2 or (len(seconds) < 40 and sum(seconds) < SPENT):
        rows = data.take(sorted(choose.sample(range(len(data)), size)))
        for taken_seconds, taken_engine in both(warehouse, rows, engine):
            seconds.append(taken_seconds)
            taken.add(taken_engine)
    return {"seconds": seconds, "taken": sorted(taken)}


def both(warehouse: vk.Warehouse, rows: pa.Table, engine: str) -> list[tuple[float, str]]:
    """The rows deleted and inserted again: the time of each and the engine that did it."""
    done = []
    for change in ({"deletes": {"depends": rows}}, {"inserts": {"depends": rows}}):
        started = time.perf_counter()
        commit = warehouse.commit(**change, engine=engine)
        done.append((time.perf_counter() - started, commit.engine))
    return done


def text(results: Mapping[str, Any]) -> list[str]:
    measured = {engine: result["sizes"] for engine, result in results.items()}
    base = results["embedded"]["base"]
    for engine, result in results.items():
        agree(f"rows of {engine}", result["rows"], results["embedded"]["rows"])
    sizes = sorted({size for found in measured.values() for size in found}, key=int)
    large = "were measured too" if str(LARGE) in sizes else "are measured only with `--large`, which was not given"
    lines = [
        f"Random rows of {base:,} deleted as one transaction and inserted again as one; the views are a closure of {results['embedded']['rows']:,} rows and",
        "a count. Seconds of a transaction, median of both kinds. Transactions of 1,000,000 rows " + large + ".",
        *(
            f"**{engine} failed** after {len(r['sizes'])} sizes: `{r['failed']}`."
            for engine, r in results.items()
            if r["failed"]
        ),
        "",
        "| rows | " + " | ".join(measured) + " | auto took | auto, times the better |",
        "| ---: | " + " | ".join("---:" for _ in measured) + " | --- | ---: |",
    ]
    worst = []
    for size in sizes:
        medians = {engine: statistics.median(found[size]["seconds"]) for engine, found in measured.items() if size in found}
        ratio = None
        if len(medians) == len(ENGINES):
            ratio = medians["auto"] / min(medians["embedded"], medians["spark"])
            worst.append(ratio)
        cells = [f"{medians[engine]:.4f}" if engine in medians else "not measured" for engine in measured]
        took = ", ".join(measured["auto"][size]["taken"]) if size in measured.get("auto", {}) else ""
        lines.append(f"| {int(size):,} | {' | '.join(cells)} | {took} | {number(ratio) if ratio else ''} |")
    if any(size not in found for found in measured.values() for size in sizes):
        lines += ["", f"Not measured, unless it failed: the larger sizes had taken more than {ENOUGH:.0f} s together."]
    if worst:
        name = f"auto against the better engine, the worst of {len(worst)} sizes measured on both"
        lines += ["", *goals(Goal(name, max(worst), "at most", 1.3))]
    return lines


SECTION = Section("Transactions of many rows", {engine: measured(engine) for engine in ENGINES}, text, limit=3600)
