"""Transactions of one row to a hundred thousand on each engine, and on the one that `auto` takes."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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


def measured(*engines: str) -> Callable[[Run], dict[str, Any]]:
    """Several engines by turns, each with a warehouse of its own: what a machine does besides is then the same for all of them."""

    def subject(run: Run) -> dict[str, Any]:
        sizes = (*SIZES, LARGE) if run.large else SIZES
        data = dependencies(BASE * sizes[-1])
        with tempfile.TemporaryDirectory() as directory, ExitStack() as opened:
            warehouses = {
                engine: opened.enter_context(vk.open(Path(directory) / engine, create=True, engine="auto"))
                for engine in engines
            }
            for warehouse in warehouses.values():
                warehouse.define(PROGRAM, engine="embedded")
                warehouse.load("depends", data, engine="embedded")
            found: dict[str, dict[str, Any]] = {engine: {} for engine in engines}
            failed = None
            spent = time.perf_counter()
            try:
                # A session starts, statements are prepared.
                for engine, warehouse in warehouses.items():
                    both(warehouse, data.slice(0, 1), engine)
                # The largest first: if time runs out, it is where the engines differ anyway.
                for size in reversed(sizes):
                    if time.perf_counter() - spent > ENOUGH * len(engines):
                        break
                    for engine, done in repeated(warehouses, data, size).items():
                        found[engine][str(size)] = done
            # Whatever an engine cannot do is told in the report; the others are still measured.
            except Exception as error:
                failed = f"{type(error).__name__}: {error}".splitlines()[0]
            rows = {engine: warehouse.show("based_on")[0].rows for engine, warehouse in warehouses.items()}
        return {
            engine: {"sizes": found[engine], "failed": failed, "base": len(data), "rows": rows[engine]} for engine in engines
        }

    return subject


def repeated(warehouses: Mapping[str, vk.Warehouse], data: pa.Table, size: int) -> dict[str, dict[str, Any]]:
    choose = random.Random(size)
    seconds: dict[str, list[float]] = {engine: [] for engine in warehouses}
    taken: dict[str, set[str]] = {engine: set() for engine in warehouses}
    while not (done := seconds[next(iter(warehouses))]) or (len(done) < 40 and sum(done) < SPENT):
        rows = data.take(sorted(choose.sample(range(len(data)), size)))
        for engine, warehouse in warehouses.items():
            for taken_seconds, taken_engine in both(warehouse, rows, engine):
                seconds[engine].append(taken_seconds)
                taken[engine].add(taken_engine)
    return {engine: {"seconds": seconds[engine], "taken": sorted(taken[engine])} for engine in warehouses}


def both(warehouse: vk.Warehouse, rows: pa.Table, engine: str) -> list[tuple[float, str]]:
    """The rows deleted and inserted again: the time of each and the engine that did it."""
    done = []
    for change in ({"deletes": {"depends": rows}}, {"inserts": {"depends": rows}}):
        started = time.perf_counter()
        commit = warehouse.commit(**change, engine=engine)
        done.append((time.perf_counter() - started, commit.engine))
    return done


def text(subjects: Mapping[str, Any]) -> list[str]:
    of = {engine: result for subject in subjects.values() for engine, result in subject.items()}
    results = {engine: of[engine] for engine in ENGINES}
    measured = {engine: result["sizes"] for engine, result in results.items()}
    base = results["embedded"]["base"]
    for engine, result in results.items():
        agree(f"rows of {engine}", result["rows"], results["embedded"]["rows"])
    sizes = sorted({size for found in measured.values() for size in found}, key=int)
    large = "were measured too" if str(LARGE) in sizes else "are measured only with `--large`, which was not given"
    lines = [
        f"Random rows of {base:,} deleted as one transaction and inserted again as one; the views are a closure of {results['embedded']['rows']:,} rows and",
        "a count. Seconds of a transaction, median of both kinds; `embedded` and `auto` by turns. Transactions of 1,000,000 rows "
        + large
        + ".",
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


SECTION = Section(
    "Transactions of many rows", {"by turns": measured("embedded", "auto"), "spark": measured("spark")}, text, limit=3600
)
