"""80 integrity views over the software catalogue, external and stored: all of them kept together, against each of them alone."""

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
from bench.section import Goal, Run, Section, Times, goals, ms, number
from viewkeeper.language import parse
from viewkeeper.program.ast import Program
from viewkeeper.program.merge import without
from viewkeeper.program.strata import dependencies, reach

SOFTWARE = Path(__file__).parent.parent / "examples" / "software"
VIEWS = tuple(re.findall(r"^\.external (\w+)", (SOFTWARE / "integrity_external.dl").read_text(encoding="utf-8"), re.MULTILINE))
BASES = ("module", "procedure", "defined_in", "import", "depend_on")
NEW = "a new import link, any module and any procedure, and back"
KINDS = {NEW: "import", **{f"a row of `{name}`, taken out and brought back": name for name in BASES}}
# How often a transaction of each kind is made and undone: for all views together, and for each alone.
TOGETHER, ALONE = 200, 20
# The first transactions prepare statements.
FIRST = 5

Seconds = dict[str, list[float]]
"""By kind of transaction."""


def viewkeeper(run: Run) -> dict[str, Any]:
    return {
        how: {
            "together": transactions(VIEWS, how == "external", TOGETHER),
            "alone": {view: transactions([view], how == "external", ALONE) for view in VIEWS},
        }
        for how in ("external", "stored")
    }


def transactions(views: Collection[str], external: bool, number: int) -> Seconds:
    """The seconds of transactions that change one row or change it back, with these views to be kept."""
    with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True, engine="embedded") as shop:
        program = only(
            parse("\n".join((SOFTWARE / name).read_text("utf-8") for name in ("software.dl", "integrity.dl"))), views
        )
        shop.define(str(only(program, ())))
        shop.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in BASES})
        shop.define("\n".join([str(program), *(f".external {view}" for view in views if external)]))
        there = {name: rows(shop, name) for name in BASES}
        choose, seconds = random.Random(7), {}
        for kind, base in KINDS.items():
            done = []
            for _ in range(FIRST + number):
                row = new_link(choose, there) if kind == NEW else choose.choice(there[base])
                done.append(there_and_back(shop, base, row, first="insert" if kind == NEW else "delete"))
            seconds[kind] = [one for pair in done[FIRST:] for one in pair]
    return seconds


def rows(shop: vk.Warehouse, relation: str) -> list[tuple[Any, ...]]:
    [shown] = shop.show(relation)
    return sorted(shop.query(f"{relation}({', '.join(f'x{i}' for i in range(shown.relation.arity))})"))


def new_link(choose: random.Random, there: Mapping[str, list[tuple[Any, ...]]]) -> tuple[str, str]:
    known = {*there["import"]}
    while True:
        link = (choose.choice(there["module"])[0], choose.choice(there["procedure"])[0])
        if link not in known:
            return link


def there_and_back(shop: vk.Warehouse, relation: str, row: tuple[Any, ...], first: str) -> tuple[float, float]:
    change = [{"inserts": {relation: [row]}}, {"deletes": {relation: [row]}}]
    started = time.perf_counter()
    shop.commit(**change[first == "delete"])
    between = time.perf_counter()
    shop.commit(**change[first == "insert"])
    return between - started, time.perf_counter() - between


def only(program: Program, views: Collection[str]) -> Program:
    """The program with these views and what they read."""
    needed = reach(dependencies(program), set(views)) | set(views)
    for name in sorted(program.derived - needed):
        program = without(program, name)
    return program


def text(results: Mapping[str, Any]) -> list[str]:
    external, stored = results["viewkeeper"]["external"], results["viewkeeper"]["stored"]
    alone: dict[str, Seconds] = external["alone"]
    means = _means(alone)
    dearest = {kind: max(alone, key=lambda view, kind=kind: statistics.mean(alone[view][kind])) for kind in KINDS}
    most = {kind: statistics.mean(alone[view][kind]) for kind, view in dearest.items()}
    together = {kind: statistics.mean(external["together"][kind]) for kind in KINDS}
    return [
        f"{len(VIEWS)} integrity views (`examples/software/integrity.dl`) over the software catalogue; a transaction changes one row, durable.",
        "What the views share is stored. Alone is the median of the medians, and the average, of all views, each kept alone with what it",
        "reads; many of them have nothing to do with most transactions.",
        "",
        "Nothing of the views themselves is stored:",
        "",
        *_table(external),
        "",
        "They are stored, too:",
        "",
        *_table(stored),
        "",
        "Which one of them all together are compared with decides what comes out. The dearest one alone, on average, and how many times the average of all alone that is (nothing stored): all together",
        "cannot take less, whatever they share.",
        "",
        "| transaction | the dearest | average | times the average of all | all together, times the dearest |",
        "| --- | --- | ---: | ---: | ---: |",
        *(
            f"| {kind} | `{dearest[kind]}` | {ms(most[kind])} | {number(most[kind] / means[kind])} | {number(together[kind] / most[kind])} |"
            for kind in KINDS
        ),
        "",
        *goals(
            *(
                Goal(f"{kind}: all together to one of them, averages", together[kind] / means[kind], "under", 6)
                for kind in KINDS
            )
        ),
        "",
        f"Kept one by one they would take {number(sum(statistics.mean(one[NEW]) for one in alone.values()) / together[NEW])} times as long "
        "as together, for new links.",
    ]


def _means(alone: Mapping[str, Seconds]) -> dict[str, float]:
    return {kind: statistics.mean(statistics.mean(one[kind]) for one in alone.values()) for kind in KINDS}


def _table(measured: Mapping[str, Any]) -> list[str]:
    means = _means(measured["alone"])
    lines = [
        "| transaction | all together: median | average | p99 | alone: median | average | times, medians | averages |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in KINDS:
        times, mean = Times(measured["together"][kind]), means[kind]
        median = statistics.median(statistics.median(one[kind]) for one in measured["alone"].values())
        average = statistics.mean(times.seconds)
        cells = [ms(times.median), ms(average), ms(times.p99), ms(median), ms(mean)]
        lines.append(f"| {kind} | {' | '.join(cells)} | {number(times.median / median)} | {number(average / mean)} |")
    return lines


SECTION = Section("Integrity views", {"viewkeeper": viewkeeper}, text, limit=1800)
