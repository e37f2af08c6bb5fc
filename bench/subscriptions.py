"""What a subscription with bound arguments costs: its own part of a view, or more with everything else that there is?"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import viewkeeper as vk
from bench.growth import CHAIN, CHAINS, SIZES, chains
from bench.section import TIMES, Goal, Run, Section, Times, goals

SUBSCRIBERS = 100
CHANGES = 100
PROGRAM = f"""{CHAINS}
.virtual reach
.decl watched(x: number)
.decl known(x: number, y: number) external
known(x, y) :- watched(x), reach(x, y).
"""
ASKED, TOLD, WATCHED, OTHER = (
    "`ask`: the first answer",
    "what a commit changed in an answer, told by `ask`",
    f"a commit that changes one of {SUBSCRIBERS} watched parts",
    f"a commit beside {SUBSCRIBERS} watched parts",
)


def viewkeeper(run: Run) -> list[dict[str, Any]]:
    found = []
    for size in SIZES:
        data = chains(size)
        choose = random.Random(size)
        starts = [(CHAIN + 1) * number for number in choose.sample(range(size // CHAIN), SUBSCRIBERS + 2 * CHANGES)]
        watched, others = starts[:SUBSCRIBERS], starts[SUBSCRIBERS:]
        with (
            tempfile.TemporaryDirectory() as directory,
            vk.open(Path(directory) / "w", create=True, engine="embedded") as warehouse,
        ):
            warehouse.define(PROGRAM)
            warehouse.load(data)
            warehouse.commit({"watched": [(start,) for start in watched]})
            seconds: dict[str, list[float]] = {what: [] for what in (ASKED, TOLD, WATCHED, OTHER)}
            for start in others[:CHANGES]:
                _changed(warehouse, start, 0, seconds[OTHER])
                taken, held = timed(lambda start=start: warehouse.ask(f"reach({start}, X)"))  # type: ignore[misc]
                seconds[ASKED].append(taken)
                for op in ("deletes", "inserts"):
                    warehouse.commit(**{op: {"link": [(start + 1, start + 2)]}})
                    taken, told = timed(lambda held=held: list(held.changes()))  # type: ignore[misc]
                    seconds[TOLD].append(taken)
                    assert sum(changed.inserted_rows + changed.deleted_rows for _, changed in told) == CHAIN - 1
            for start in watched[:CHANGES]:
                _changed(warehouse, start, CHAIN - 1, seconds[WATCHED])
        found += [{"size": size, "what": what, "seconds": taken} for what, taken in seconds.items()]
    return found


def _changed(warehouse: vk.Warehouse, start: int, rows: int, seconds: list[float]) -> None:
    """Takes a link out of a chain and puts it back; so many rows of what is watched go and come."""
    for op in ("deletes", "inserts"):
        taken, commit = timed(lambda op=op: warehouse.commit(**{op: {"link": [(start + 1, start + 2)]}}))  # type: ignore[misc]
        seconds.append(taken)
        known = commit.changes.get("known")
        assert (known.inserted_rows + known.deleted_rows if known else 0) == rows


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def text(results: Mapping[str, Any]) -> list[str]:
    measured = results["viewkeeper"]
    lines = [
        f"The closure of separate chains of {CHAIN} links is virtual: nothing of it is stored, and nobody is told all of it. A part is what is reached",
        f"from one node, {CHAIN} rows. Either `ask` gives it and then what each commit changed in it, or its node is in a relation that an external view",
        f"joins with the closure, {SUBSCRIBERS} of them. Links are taken out and put back by durable commits, and nothing is there of what is asked for but the links.",
        "",
        TIMES[0].replace("| |", "| links | |", 1),
        TIMES[1].replace("| --- |", "| ---: | --- |", 1),
    ]
    lines += [f"| {one['size']:,} | {one['what']} | {Times(one['seconds']).cells()} |" for one in measured]
    medians = {(one["size"], one["what"]): Times(one["seconds"]).median for one in measured}
    wanted = [
        Goal(f"{what}: median for {SIZES[-1]:,} links against {SIZES[0]:,}", medians[SIZES[-1], what] / first, "under", 2)
        for (size, what), first in medians.items()
        if size == SIZES[0]
    ]
    return [*lines, "", *goals(*wanted)]


SECTION = Section("Subscriptions with bound arguments", {"viewkeeper": viewkeeper}, text)
