"""The table of the paper on rederivation on demand, over the software catalogue: a new import link, for four views."""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import viewkeeper as vk
from bench.catalogue import BASES, SOFTWARE, only
from bench.section import Goal, Run, Section, agree, goals, ms, number
from viewkeeper.language import parse

LINKS = 100
RECOMPUTED = 5
IMPORTED = """
.decl imported(module: symbol, procedure: symbol)
imported(m, p) :- import(m, p).
imported(m, p) :- mod_dep(m, n), import(n, p).
"""


@dataclass(frozen=True)
class View:
    """One of the paper's: its rules, what it measured for it, in seconds, and what we want to reach."""

    what: str
    rules: str
    recomputed: float
    incremental: float
    goal: int


VIEWS = (
    View(
        "the modules that a module is based on, with all procedures imported directly or indirectly",
        f"{IMPORTED}.decl v(module: symbol, on: symbol, procedure: symbol)\nv(m, n, p) :- imported(m, p), defined_in(p, n), m != n.",
        25,
        4.5,
        20,
    ),
    View(
        "procedures with a name prefix (`get_`) that a module imports",
        '.decl v(module: symbol, procedure: symbol)\nv(m, p) :- import(m, p), procedure(p, s, _), substr(s, 0, 4) = "get_".',
        0.3,
        0.25,
        3,
    ),
    View(
        "procedures of less than 10 lines that a module imports",
        ".decl v(module: symbol, procedure: symbol)\nv(m, p) :- import(m, p), procedure(p, _, l), l < 10.",
        4.5,
        0.3,
        3,
    ),
    View(
        "procedures with a name (`wraps`) that a module imports directly or indirectly",
        f'{IMPORTED}.decl v(module: symbol, procedure: symbol)\nv(m, p) :- imported(m, p), procedure(p, "wraps", _).',
        4.4,
        0.5,
        20,
    ),
)


def viewkeeper(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "stored": maintained(view, external=False),
            "external": maintained(view, external=True),
            "recomputed": recomputed(view),
        }
        for view in VIEWS
    ]


def opened(view: View, external: bool, directory: str) -> vk.Warehouse:
    """The catalogue with one of the views, and only what it reads."""
    shop = vk.open(Path(directory) / "w", create=True, engine="embedded")
    text = "\n".join([(SOFTWARE / "software.dl").read_text("utf-8"), view.rules])
    program = only(parse(text), ["v"])
    shop.define(str(only(program, ())))
    shop.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in BASES})
    views = re.findall(r"^\.decl (\w+)", str(program), re.MULTILINE)
    shop.define("\n".join([str(program), *(f".external {name}" for name in views if external and name not in BASES)]))
    return shop


def maintained(view: View, external: bool) -> dict[str, Any]:
    """The seconds of transactions with a new import link each; it is taken back before the next."""
    with tempfile.TemporaryDirectory() as directory, opened(view, external, directory) as shop:
        modules = [name for [name] in shop.query("module(m)")]
        procedures = [name for [name] in shop.query("procedure(p, _, _)")]
        choose, there = random.Random(7), {tuple(row) for row in shop.query("import(m, p)")}
        seconds, told = [], []
        while len(seconds) < LINKS + 10:  # the first transactions prepare statements
            link = (choose.choice(modules), choose.choice(procedures))
            if link in there:
                continue
            started = time.perf_counter()
            commit = shop.commit({"import": [link]})
            seconds.append(time.perf_counter() - started)
            told.append(commit.changes["v"].inserted_rows if "v" in commit.changes else 0)
            shop.commit(deletes={"import": [link]})
    return {"seconds": seconds[10:], "told": told[10:]}


def recomputed(view: View) -> dict[str, list[float]]:
    """The seconds to derive all rows from the base relations: of everything that the view reads, or on demand, as a question is answered."""
    seconds: dict[str, list[float]] = {"all": [], "asked": []}
    with tempfile.TemporaryDirectory() as directory, opened(view, True, directory) as shop:
        for _ in range(RECOMPUTED):
            started = time.perf_counter()
            answer = shop.query("v(x, y, z)" if "on:" in view.rules else "v(x, y)")
            seconds["asked"].append(time.perf_counter() - started)
            started = time.perf_counter()
            with shop._reading() as state:
                rows = sum(batch.num_rows for batch in state.rows(state.program.relation("v")))
            seconds["all"].append(time.perf_counter() - started)
            agree(f"rows of view {view.what}", len(answer), rows)
    return seconds


def text(results: Mapping[str, Any]) -> list[str]:
    rows, wanted = [], []
    for place, (view, measured) in enumerate(zip(VIEWS, results["viewkeeper"], strict=True), 1):
        again, asked = (statistics.median(measured["recomputed"][how]) for how in ("all", "asked"))
        stored, external = (statistics.median(measured[how]["seconds"]) for how in ("stored", "external"))
        mean = statistics.mean(measured["external"]["seconds"])
        told = statistics.mean(measured["external"]["told"])
        rows.append(
            f"| {place} | {view.what} | {ms(again)} | {ms(asked)} | {ms(stored)} | {ms(external)} | {ms(mean)} | {told:.0f} | {number(again / external)} |"
            f" {number(view.recomputed / view.incremental)} |"
        )
        wanted += [
            Goal(f"view {place}: recomputed to external, median", again / external, "at least", view.goal),
            Goal(f"view {place}: asked for anew to external, median", asked / external, "at least", view.goal),
        ]
    return [
        "The software catalogue (570 modules, 5,467 procedures); a transaction inserts one random import link, durable; each view for all modules,",
        "with nothing but base rows stored (external), or with the view and everything it reads stored. Recomputed: all rows of it and of what it reads derived, as when it is defined; asked for anew: derived on demand,",
        "as a question is answered; both without comparing with what was before.",
        "",
        "| | view | recomputed | asked for anew | stored | external | external, mean | rows told, mean | recomputed ÷ external | the paper's |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        *goals(*wanted),
    ]


SECTION = Section("The paper's table", {"viewkeeper": viewkeeper}, text, limit=1800)
