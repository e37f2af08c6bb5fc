"""Does a one-row transaction take longer when there is more data? Views of the same shape over more and more rows."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import viewkeeper as vk
from bench.maintenance import commits
from bench.section import TIMES, Goal, Run, Section, Times, goals

SIZES = (10_000, 100_000, 1_000_000)
LARGE = 10_000_000
CHANGES = 200
CHAIN = 4
SECTIONS = 50
CHAINS = """
.decl link(a: number, b: number)
.decl reach(a: number, b: number)
reach(x, y) :- link(x, y).
reach(x, y) :- link(x, z), reach(z, y).
"""
TOTALS = """
.decl package(name: number, section: number, installed_kb: number)
.decl depends(package: number, dependency: number)
.decl needed(section: number, package: number, dependency: number, installed_kb: number)
needed(s, p, d, kb) :- depends(p, d), package(p, s, _), package(d, _, kb).
.decl totals(section: number, packages: number, total: number, largest: number)
totals(s, n, t, m) :- needed(s, _, _, _), n = count : { needed(s, _, _, _) }, t = sum kb : { needed(s, _, _, kb) },
    m = max kb : { needed(s, _, _, kb) }.
"""


def chains(rows: int) -> dict[str, pa.Table]:
    """Separate chains of four links: the closure has ten rows for each four."""
    starts = [link + link // CHAIN for link in range(rows)]
    return {"link": pa.table({"a": starts, "b": [start + 1 for start in starts]})}


def packages(rows: int) -> dict[str, pa.Table]:
    """A package for every four dependencies, in fifty sections."""
    choose = random.Random(rows)
    number = rows // 5
    depends = {(choose.randrange(number), choose.randrange(number)) for _ in range(rows - number)}
    a, b = zip(*sorted(depends), strict=True)
    sections = [choose.randrange(SECTIONS) for _ in range(number)]
    sizes = [choose.randrange(100_000) for _ in range(number)]
    return {
        "package": pa.table({"name": range(number), "section": sections, "installed_kb": sizes}),
        "depends": pa.table({"package": a, "dependency": b}),
    }


SHAPES = {"closure": (CHAINS, chains, "link", "reach"), "join and aggregates": (TOTALS, packages, "depends", "totals")}


def viewkeeper(run: Run) -> list[dict[str, Any]]:
    found = []
    for shape, (program, make, relation, view) in SHAPES.items():
        for size in (*SIZES, LARGE) if run.large else SIZES:
            data = make(size)
            choose = random.Random(size)
            rows = [
                tuple(row.values())
                for row in data[relation].take(choose.sample(range(len(data[relation])), CHANGES)).to_pylist()
            ]
            with (
                tempfile.TemporaryDirectory() as directory,
                vk.open(Path(directory) / "w", create=True, engine="embedded") as warehouse,
            ):
                warehouse.define(program)
                started = time.perf_counter()
                loaded = warehouse.load(data)
                load = time.perf_counter() - started
                changes = [(op, relation, row) for row in rows for op in ("delete", "insert")]
                # The first ones prepare statements.
                commits(warehouse, changes[:20], view)
                seconds = [taken for taken, _ in commits(warehouse, changes, view)]
                everything = sum(loaded.rows.values())
            found.append({"shape": shape, "size": size, "rows": everything, "load": load, "seconds": seconds})
    return found


def text(results: Mapping[str, Any]) -> list[str]:
    measured = results["viewkeeper"]
    largest = max(one["size"] for one in measured)
    lines = [
        f"{CHANGES} random rows deleted and inserted again, each by a durable commit of its own. The closure is that of separate chains of {CHAIN}",
        f"links; the join is that of the section before, over {SECTIONS} sections.",
        f"10,000,000 rows {'were measured too' if largest == LARGE else 'are measured only with `--large`, which was not given'}.",
        "",
        TIMES[0].replace("| |", "| view | base rows | all rows | load |", 1),
        TIMES[1].replace("| --- |", "| --- | ---: | ---: | ---: |", 1),
    ]
    for one in measured:
        lines.append(
            f"| {one['shape']} | {one['size']:,} | {one['rows']:,} | {one['load']:.1f} s | {Times(one['seconds']).cells()} |"
        )
    wanted = []
    for shape in SHAPES:
        first, *_, last = [one for one in measured if one["shape"] == shape]
        growth = Times(last["seconds"]).median / Times(first["seconds"]).median
        wanted.append(Goal(f"{shape}: median for {last['size']:,} rows against {first['size']:,}", growth, "under", 2))
    return [*lines, "", *goals(*wanted)]


SECTION = Section("Growth", {"viewkeeper": viewkeeper}, text, limit=3600)
