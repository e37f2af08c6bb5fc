"""A real security update of Debian 12 as one transaction over views of all four relations, against recomputing them in DuckDB."""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections.abc import Mapping
from typing import Any

from bench.debian import CLOSURE, DEPENDS, FILES, RECURSIVE, UPDATE, count, duckdb_with, recompute
from bench.maintenance import loaded
from bench.section import Goal, Run, Section, agree, goals, ms, number

RUNS = 3
PROGRAM = f"""{DEPENDS}
.decl package(name: symbol, version: symbol, section: symbol, installed_kb: number)
.decl provides(package: symbol, virtual: symbol)
.decl conflicts(package: symbol, other: symbol)
{CLOSURE}
// What a dependency can be satisfied by: a package of that name, or one that provides it.
.decl available(name: symbol)
available(n) :- package(n, _, _, _).
available(v) :- provides(_, v).

// Dependencies that nothing satisfies.
.decl missing(package: symbol, dependency: symbol)
missing(p, d) :- depends(p, d), !available(d).

// Packages and what they take on disk, by section.
.decl section_size(section: symbol, packages: number, installed_kb: number)
section_size(s, n, kb) :- section_packages(s, n), section_kb(s, kb).
.decl section_packages(section: symbol, packages: number)
section_packages(s, n) :- n = count : {{ package(_, _, s, _) }}.
.decl section_kb(section: symbol, installed_kb: number)
section_kb(s, kb) :- kb = sum k : {{ package(_, _, s, k) }}.

// Packages that conflict although one is based on the other.
.decl clash(package: symbol, other: symbol)
clash(p, q) :- conflicts(p, q), based_on(p, q).
clash(p, q) :- conflicts(p, q), based_on(q, p).
"""
VIEWS = {
    "based_on": RECURSIVE,
    "available": "SELECT name FROM package UNION SELECT virtual FROM provides",
    "missing": "SELECT DISTINCT package, dependency FROM depends WHERE dependency NOT IN (SELECT name FROM available_new)",
    "section_size": "SELECT section, count(*) AS packages, sum(installed_kb) AS installed_kb FROM package GROUP BY section",
    "clash": "SELECT c.package, c.other FROM conflicts c JOIN based_on_new b ON b.package = c.package AND b.dependency = c.other "
    "UNION SELECT c.package, c.other FROM conflicts c JOIN based_on_new b ON b.dependency = c.package AND b.package = c.other",
}


def operations() -> list[dict[str, Any]]:
    with gzip.open(UPDATE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def duckdb(run: Run) -> dict[str, Any]:
    connection = duckdb_with(*FILES)
    for name in FILES:
        connection.execute(
            f"CREATE TABLE {name}_insert AS FROM {name} LIMIT 0; CREATE TABLE {name}_delete AS FROM {name} LIMIT 0"
        )
    for one in operations():
        places = ", ".join("?" * len(one["row"]))
        connection.execute(f"INSERT INTO {one['relation']}_{one['op']} VALUES ({places})", one["row"])
    for view, query in VIEWS.items():
        connection.execute(f"CREATE TABLE {view} AS {query.replace('_new', '')}")
    seconds, changed, rows = [], {}, {}
    for _ in range(RUNS):
        connection.execute("BEGIN")
        started = time.perf_counter()
        for name in FILES:
            connection.execute(
                f"CREATE OR REPLACE TABLE {name} AS (FROM {name} EXCEPT FROM {name}_delete) UNION FROM {name}_insert"
            )
        applied = time.perf_counter() - started
        recomputed, changed = recompute(connection, VIEWS)
        seconds.append(applied + recomputed)
        rows = {view: count(connection, view) for view in VIEWS}
        connection.execute("ROLLBACK")
    return {"seconds": seconds, "changed": changed, "rows": rows}


def viewkeeper(run: Run) -> dict[str, Any]:
    with loaded(PROGRAM, *FILES) as (warehouse, load):
        seconds, changed, rows = [], {}, {}
        for _ in range(RUNS):
            started = time.perf_counter()
            commit = warehouse.commit_file(UPDATE)
            seconds.append(time.perf_counter() - started)
            changed = {name: [c.inserted_rows, c.deleted_rows] for name, c in commit.changes.items()}
            rows = {view: warehouse.show(view)[0].rows for view in VIEWS}
            with warehouse.transaction() as back:
                for one in reversed(operations()):
                    (back.delete if one["op"] == "insert" else back.insert)(one["relation"], [tuple(one["row"])])
    return {"seconds": seconds, "load": load, "changed": changed, "rows": rows}


def text(results: Mapping[str, Any]) -> list[str]:
    ours, theirs = results["viewkeeper"], results["duckdb"]
    agree("rows of the views", ours["rows"], theirs["rows"])
    agree("changes", {view: ours["changed"].get(view, [0, 0]) for view in VIEWS}, theirs["changed"])
    mine, recomputing = statistics.median(ours["seconds"]), statistics.median(theirs["seconds"])
    asked = operations()
    lines = [
        f"{len(asked):,} operations on `package`, `depends`, `provides` and `conflicts` as one transaction from a file, with these views:",
        "the closure (recursion), what is available, dependencies that nothing satisfies (negation), packages and sizes by section",
        f"(aggregates), conflicts between packages one of which is based on the other. Median of {RUNS}, each after taking the update back;",
        "reading the file is part of our time, not of DuckDB's. Both give the same rows and the same changes.",
        "",
        "| view | rows after it | came | went |",
        "| --- | ---: | ---: | ---: |",
        *(f"| `{view}` | {theirs['rows'][view]:,} | {came:,} | {went:,} |" for view, (came, went) in theirs["changed"].items()),
        "",
        "| | median | runs |",
        "| --- | ---: | --- |",
    ]
    for name, seconds in (
        ("viewkeeper, durable", ours["seconds"]),
        ("DuckDB, recomputing and differencing", theirs["seconds"]),
    ):
        lines.append(f"| {name} | {ms(statistics.median(seconds))} | {', '.join(map(number, (s * 1000 for s in seconds)))} |")
    return [*lines, "", *goals(Goal("the update: faster than recomputing", recomputing / mine, "at least", 5))]


SECTION = Section("A security update as one transaction", {"duckdb": duckdb, "viewkeeper": viewkeeper}, text)
