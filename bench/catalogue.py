"""Transactions of one row on the software catalogue, with views to be kept."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import viewkeeper as vk
from viewkeeper.language import parse
from viewkeeper.program.ast import Program
from viewkeeper.program.merge import without
from viewkeeper.program.strata import dependencies, reach

SOFTWARE = Path(__file__).parent.parent / "examples" / "software"
BASES = ("module", "procedure", "defined_in", "import", "depend_on")
NEW = "a new import link, any module and any procedure, and back"
KINDS = {NEW: "import", **{f"a row of `{name}`, taken out and brought back": name for name in BASES}}
# The first transactions prepare statements.
FIRST = 5

Seconds = dict[str, list[float]]
"""By kind of transaction."""


def transactions(text: str, views: Collection[str], external: bool, rounds: int) -> Seconds:
    """The seconds of transactions that change one row or change it back, with these views of a text to be kept."""
    with tempfile.TemporaryDirectory() as directory, vk.open(Path(directory) / "w", create=True, engine="embedded") as shop:
        program = only(parse("\n".join([(SOFTWARE / "software.dl").read_text("utf-8"), text])), views)
        shop.define(str(only(program, ())))
        shop.load({name: SOFTWARE / "data" / f"{name}.csv.gz" for name in BASES})
        shop.define("\n".join([str(program), *(f".external {view}" for view in views if external)]))
        there = {name: rows(shop, name) for name in BASES}
        choose, seconds = random.Random(7), {}
        for kind, base in KINDS.items():
            done = []
            for _ in range(FIRST + rounds):
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
