"""Deletes where they are hard: in a dense graph, and in rings with chords, where nearly every row has another proof."""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import viewkeeper as vk
from bench.debian import RECURSIVE, count, recompute
from bench.maintenance import commits
from bench.section import TIMES, Run, Section, Times, agree, ms, number

DELETES = 100
RECOMPUTED = 3
PROGRAM = """
.decl depends(package: number, dependency: number)
.decl based_on(package: number, dependency: number)
based_on(x, y) :- depends(x, y).
based_on(x, y) :- depends(x, z), based_on(z, y).
"""

Edge = tuple[int, int]


def dense(nodes: int = 200, edges: int = 4_000) -> list[Edge]:
    choose = random.Random(1)
    found: set[Edge] = set()
    while len(found) < edges:
        a, b = choose.randrange(nodes), choose.randrange(nodes)
        if a != b:
            found.add((a, b))
    return sorted(found)


def rings(number: int = 50, size: int = 100, chords: int = 20) -> list[Edge]:
    choose = random.Random(2)
    found: set[Edge] = set()
    for ring in range(number):
        first = ring * size
        found |= {(first + i, first + (i + 1) % size) for i in range(size)}
        found |= {(first + choose.randrange(size), first + choose.randrange(size)) for _ in range(chords)}
    return sorted(found)


GRAPHS = {
    "dense: 200 nodes, 4,000 edges": dense,
    "50 rings of 100 nodes with 20 chords each": rings,
}


def deleted(edges: list[Edge]) -> list[Edge]:
    return random.Random(3).sample(edges, DELETES)


def duckdb(run: Run) -> dict[str, Any]:
    import duckdb

    found = {}
    for graph, make in GRAPHS.items():
        edges = make()
        connection = duckdb.connect()
        connection.execute("SET threads = 2")
        connection.execute("CREATE TABLE depends (package BIGINT, dependency BIGINT)")
        connection.executemany("INSERT INTO depends VALUES (?, ?)", edges)
        connection.execute(f"CREATE TABLE based_on AS {RECURSIVE}")
        rows = count(connection, "based_on")
        seconds, changed = [], []
        for edge in deleted(edges)[:RECOMPUTED]:
            connection.execute("DELETE FROM depends WHERE package = ? AND dependency = ?", edge)
            taken, difference = recompute(connection, {"based_on": RECURSIVE})
            seconds.append(taken)
            changed.append(sum(difference["based_on"]))
            connection.execute("INSERT INTO depends VALUES (?, ?)", edge)
            connection.execute(f"CREATE OR REPLACE TABLE based_on AS {RECURSIVE}")
        found[graph] = {"seconds": seconds, "changed": changed, "rows": rows}
    return found


def viewkeeper(run: Run) -> dict[str, Any]:
    found = {}
    for graph, make in GRAPHS.items():
        edges = make()
        with (
            tempfile.TemporaryDirectory() as directory,
            vk.open(Path(directory) / "w", create=True, engine="embedded") as warehouse,
        ):
            warehouse.define(PROGRAM)
            rows = warehouse.load("depends", edges).rows["based_on"]
            changes = [(op, "depends", edge) for edge in deleted(edges) for op in ("delete", "insert")]
            found[graph] = {"rows": rows, "done": commits(warehouse, changes, "based_on")}
    return found


def text(results: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{DELETES} random edges deleted and inserted again, one at a time, durably. Recomputing: DuckDB, in memory, with the difference both ways,",
        f"median of {RECOMPUTED}. Changed: rows of the closure, the largest number in the line.",
        "",
        TIMES[0].replace("| |", "| graph | rows of the closure | |", 1) + " changed | recomputing | times faster, median |",
        TIMES[1].replace("| --- |", "| --- | ---: | --- |", 1) + " ---: | ---: | ---: |",
    ]
    for graph, ours in results["viewkeeper"].items():
        theirs = results["duckdb"][graph]
        agree("rows", ours["rows"], theirs["rows"])
        agree("changes", [changed for _, changed in ours["done"][: 2 * RECOMPUTED : 2]], theirs["changed"])
        recomputing = statistics.median(theirs["seconds"])
        for kind, done in (("deleted", ours["done"][::2]), ("inserted again", ours["done"][1::2])):
            times = Times([seconds for seconds, _ in done])
            lines.append(
                f"| {graph} | {ours['rows']:,} | {kind} | {times.cells()} | {max(changed for _, changed in done):,} "
                f"| {ms(recomputing)} | {number(recomputing / times.median)} |"
            )
    return lines


SECTION = Section("Dense and cyclic graphs", {"duckdb": duckdb, "viewkeeper": viewkeeper}, text)
