"""80 integrity views over the software catalogue, of which nothing is stored: all of them kept together, against each of them alone."""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import viewkeeper as vk
from bench.section import TIMES, Goal, Run, Section, Times, goals, ms, number
from viewkeeper.language import parse
from viewkeeper.program.ast import Program
from viewkeeper.program.merge import without
from viewkeeper.program.strata import dependencies, reach

SOFTWARE = Path(__file__).parent.parent / "examples" / "software"
VIEWS = tuple(re.findall(r"^\.external (\w+)", (SOFTWARE / "integrity_external.dl").read_text(encoding="utf-8"), re.MULTILINE))
BASES = ("module", "procedure", "defined_in", "import", "depend_on")
# Import links that are inserted and taken back: for all views together, and for each alone.
TOGETHER, ALONE = 200, 40


def viewkeeper(run: Run) -> dict[str, Any]:
    return {
        "together": {how: links(VIEWS, external, TOGETHER) for how, external in (("external", True), ("stored", False))},
        "alone": {view: links([view], True, ALONE) for view in VIEWS},
    }


def links(views: Collection[str], external: bool, number: int) -> list[float]:
    """The seconds of transactions with one import link each, that comes or goes, with these views to be kept."""
    with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True, engine="embedded") as shop:
        program = only(
            parse("\n".join((SOFTWARE / name).read_text("utf-8") for name in ("software.dl", "integrity.dl"))), views
        )
        shop.define(str(only(program, ())))
        shop.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in BASES})
        shop.define("\n".join([str(program), *(f".external {view}" for view in views if external)]))
        modules = [name for [name] in shop.query("module(m)")]
        procedures = [name for [name] in shop.query("procedure(p, _, _)")]
        choose, there = random.Random(7), {tuple(row) for row in shop.query("import(m, p)")}
        # The first transactions prepare statements.
        seconds = [commit(shop, (choose.choice(modules), choose.choice(procedures)), there) for _ in range(number + 10)]
    return [one for pair in seconds[10:] for one in pair]


def commit(shop: vk.Warehouse, link: tuple[str, str], there: set[Any]) -> tuple[float, float]:
    if link in there:
        return commit(shop, (f"{link[0]}_", link[1]), there)
    started = time.perf_counter()
    shop.commit({"import": [link]})
    between = time.perf_counter()
    shop.commit(deletes={"import": [link]})
    return between - started, time.perf_counter() - between


def only(program: Program, views: Collection[str]) -> Program:
    """The program with these views and what they read."""
    needed = reach(dependencies(program), set(views)) | set(views)
    for name in sorted(program.derived - needed):
        program = without(program, name)
    return program


def text(results: Mapping[str, Any]) -> list[str]:
    measured = results["viewkeeper"]
    together = {how: Times(seconds) for how, seconds in measured["together"].items()}
    alone = {view: statistics.median(seconds) for view, seconds in measured["alone"].items()}
    means = {view: statistics.mean(seconds) for view, seconds in measured["alone"].items()}
    dearest = max(means, key=lambda view: means[view])
    middle, mean = statistics.median(alone.values()), statistics.mean(means.values())
    all_mean = statistics.mean(measured["together"]["external"])
    return [
        f"{len(VIEWS)} integrity views (`examples/software/integrity.dl`) over the software catalogue; a transaction inserts one random import link or takes it back, durable.",
        "What the views share is stored, of themselves nothing is, unless said otherwise.",
        "",
        *TIMES,
        f"| all {len(VIEWS)} together | {together['external'].cells()} |",
        f"| the same, stored | {together['stored'].cells()} |",
        "",
        f"Alone, with what it reads, a view takes {ms(middle)} (median of the medians of all {len(VIEWS)}), {ms(mean)} on average, the dearest (`{dearest}`) {ms(means[dearest])} on average.",
        "",
        *goals(
            Goal("all together, average, to one of them, average of all", all_mean / mean, "under", 6),
            Goal("all together, median, to one of them, median of all", together["external"].median / middle, "under", 6),
        ),
        "",
        f"Kept one by one they would take {number(sum(means.values()) / all_mean)} times as long as together.",
    ]


SECTION = Section("Integrity views", {"viewkeeper": viewkeeper}, text, limit=1800)
