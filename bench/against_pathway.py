"""The same one-row changes in viewkeeper and in Pathway: the closure, and a join with aggregates.

Pathway needs an older Arrow than we do, so it has an environment of its own, ``.venv-pathway``, which `make bench` sets up.
Where that did not work, the section says so and has no numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.debian import CLOSURE, DEPENDS, FILES, Change, Row, duckdb_with, stream
from bench.maintenance import commits, loaded
from bench.section import TIMES, Goal, Run, Section, Times, agree, goals, ms, number

ROOT = Path(__file__).parent.parent
CHANGES = 1_000
# Rows that hold a maximum, and how often each is deleted and inserted again.
MAXIMA, ROUNDS = 50, 20
LIMIT = 600
# The join is measured so often, by turns: both take about as long, and one run says little.
TURNS = 3
TOTALS = f"""{DEPENDS}
.decl package(name: symbol, version: symbol, section: symbol, installed_kb: number)
.decl needed(section: symbol, package: symbol, dependency: symbol, installed_kb: number)
needed(s, p, d, kb) :- depends(p, d), package(p, _, s, _), package(d, _, _, kb).
.decl totals(section: symbol, packages: number, total: number, largest: number)
totals(s, n, t, m) :- needed(s, _, _, _), n = count : {{ needed(s, _, _, _) }}, t = sum kb : {{ needed(s, _, _, kb) }},
    m = max kb : {{ needed(s, _, _, kb) }}.
"""
LARGEST = """
SELECT d.package, d.dependency FROM depends d JOIN package p ON p.name = d.package JOIN package n ON n.name = d.dependency
QUALIFY row_number() OVER (PARTITION BY p.section ORDER BY n.installed_kb DESC, d.package, d.dependency) = 1
ORDER BY d.package, d.dependency
"""


def changes_of(view: str) -> dict[str, list[Change]]:
    """The stream, in parts. For the totals also the rows that hold the maximum of a section, deleted and inserted again."""
    parts = stream(CHANGES)
    if view == "totals":
        heaviest: list[Row] = duckdb_with("depends", "package").execute(LARGEST).fetchall()[:MAXIMA]
        parts["maxima"] = [(op, "depends", row) for row in heaviest * ROUNDS for op in ("delete", "insert")]
    return parts


def files_of(view: str) -> dict[str, str]:
    return {name: str(FILES[name]) for name in (["depends"] if view == "closure" else ["depends", "package"])}


def viewkeeper(view: str, durable: bool = True) -> Callable[[Run], dict[str, Any]]:
    program, name = (DEPENDS + CLOSURE, "based_on") if view == "closure" else (TOTALS, "totals")

    def subject(run: Run) -> dict[str, Any]:
        with loaded(program, *files_of(view), durable=durable) as (warehouse, load):
            [before] = warehouse.show(name)
            done = {part: commits(warehouse, changes, name) for part, changes in changes_of(view).items()}
        return {"load": load, "rows": before.rows, "parts": done}

    return subject


def pathway(view: str) -> Callable[[Run], dict[str, Any]]:
    def subject(run: Run) -> dict[str, Any]:
        python = interpreter()
        if python is None:
            return {"unavailable": "it is not installed here (`make bench` tries to, in `.venv-pathway`)"}
        parts = changes_of(view)
        with tempfile.TemporaryDirectory() as directory:
            given, found = Path(directory) / "stream.json", Path(directory) / "found.json"
            flat = [change for changes in parts.values() for change in changes]
            rows = next(result["rows"] for name, result in run.earlier.items() if name.startswith(f"viewkeeper {view}"))
            given.write_text(json.dumps({"files": files_of(view), "rows": rows, "changes": flat}))
            command = [python, "-P", str(ROOT / "bench" / "pathway_stream.py"), view, str(given), str(found)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                return {"unavailable": f"it did not get through in {LIMIT} s"}
            if not found.exists():
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                return {"unavailable": f"it ended with {done.returncode}: {last[:200]}"}
            result = json.loads(found.read_text())
        pairs = result["done"]
        cut: dict[str, list[tuple[float, int]]] = {}
        for part, changes in parts.items():
            cut[part], pairs = pairs[: len(changes)], pairs[len(changes) :]
        return {"parts": cut, **{key: result[key] for key in ("load", "rows", "memory_mb", "version")}}

    return subject


def interpreter() -> str | None:
    """One that has Pathway: that of its environment, or this one."""
    for python in (os.environ.get("PATHWAY_PYTHON"), str(ROOT / ".venv-pathway" / "bin" / "python"), sys.executable):
        if python and Path(python).exists():
            check = subprocess.run([python, "-c", "import pathway.internals, psutil"], capture_output=True)
            if check.returncode == 0:
                return python
    return None


MAXIMA_DELETED = "the row with a section's maximum deleted"
KINDS = {
    "rows of depends deleted": ("there", 0),
    "inserted again": ("there", 1),
    "new rows inserted": ("new", 0),
    MAXIMA_DELETED: ("maxima", 0),
}
# pg_ivm was measured once, on another day, and is not part of this run.
QUOTED = "For comparison, not measured here: PostgreSQL's pg_ivm took 0.86 ms (22 ms where the maximum goes) in an earlier measurement."
WHY = "Where the time of such a commit goes: [decision 0009](decisions/0009-maintenance.md). Pathway writes nothing to a disk."


def times(result: Mapping[str, Any], kind: str) -> Times:
    part, start = KINDS[kind]
    return Times([seconds for seconds, _ in result["parts"][part][start::2]])


def table(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [*TIMES]
    for kind, (part, _) in KINDS.items():
        for name, result in results.items():
            if part in result.get("parts", ()):
                lines.append(f"| {kind}: {name} | {times(result, kind).cells()} |")
    return lines


def together(result: Mapping[str, Any]) -> Times:
    """All that is counted, but for the rows with a maximum."""
    return Times([s for kind, (part, _) in KINDS.items() if part != "maxima" for s in times(result, kind).seconds])


def loading(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    if "unavailable" in theirs:
        return f"**Pathway was not measured**: {theirs['unavailable']}."
    agree("rows", ours["rows"], theirs["rows"])
    for part, done in theirs["parts"].items():
        agree(f"changes ({part})", [changed for _, changed in ours["parts"][part]], [changed for _, changed in done])
    return (
        f"Pathway {theirs['version']} took {theirs['load']:.0f} s for the first load and {theirs['memory_mb']:,} MB in the end, "
        f"viewkeeper {ours['load']:.0f} s for the load. Pathway's changes are in memory, ours are durable. Both changed the same numbers of rows."
    )


def turns(results: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [results[f"{name}, turn {turn}"] for turn in range(1, TURNS + 1)]


def joined(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """All runs of a subject as one, with its changes one after the other; the first that is missing, if one is."""
    missing = [run for run in runs if "unavailable" in run]
    if missing:
        return missing[0]
    parts = {part: [one for run in runs for one in run["parts"][part]] for part in runs[0]["parts"]}
    return {**runs[0], "parts": parts}


def medians(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """How far the turns differ."""

    def told(run: Mapping[str, Any]) -> str:
        return f"{ms(together(run).median)} and {ms(times(run, MAXIMA_DELETED).median)}"

    each = "; ".join(f"{told(one)} to {told(other)}" for one, other in zip(ours, theirs, strict=True))
    return f"Medians of each turn, all changes and maxima deleted, ours to Pathway's: {each}."


def not_waiting(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The comparison in which neither waits for a disk, whose moods decide the other one."""
    all_ = together(theirs).median / together(ours).median
    maxima = times(theirs, MAXIMA_DELETED).median / times(ours, MAXIMA_DELETED).median
    return f"Where we do not wait for it either, we are {number(all_)} times as fast, and {number(maxima)} times where the maximum goes."


def text(results: Mapping[str, Any]) -> list[str]:
    closure, their_closure = results["viewkeeper closure"], results["pathway closure"]
    our_turns, their_turns = turns(results, "viewkeeper totals"), turns(results, "pathway totals")
    totals, their_totals = joined(our_turns), joined(their_turns)
    lines = [
        "The same one-row changes of `depends`, one after the other. Pathway's time is from sending a row until the view's output has it, ours is that of a plain `commit`.",
        "",
        "The closure:",
        "",
        *table({"viewkeeper": closure, "Pathway": their_closure}),
        "",
        loading(closure, their_closure),
        "",
        f"Section → count, sum and maximum of the installed size over `depends` ⋈ `package` ⋈ `package`, {TURNS} times by turns:",
        "",
        *table(
            {
                "viewkeeper": totals,
                "viewkeeper, not durable": results["viewkeeper totals, not durable"],
                "Pathway": their_totals,
            }
        ),
        "",
        loading(totals, their_totals),
        *([medians(our_turns, their_turns)] if "parts" in their_totals else []),
        "",
        QUOTED,
        "",
        WHY,
        *([not_waiting(results["viewkeeper totals, not durable"], their_totals)] if "parts" in their_totals else []),
    ]
    wanted = []
    if "parts" in their_closure:
        mine, other = together(closure), together(their_closure)
        wanted += [
            Goal("closure, median: faster than Pathway", other.median / mine.median, "at least", 3),
            Goal("closure, p99: faster than Pathway", other.p99 / mine.p99, "at least", 3),
        ]
    if "parts" in their_totals:
        mine, other = together(totals), together(their_totals)
        ratio = times(their_totals, MAXIMA_DELETED).median / times(totals, MAXIMA_DELETED).median
        wanted += [
            Goal("join and aggregates, median: faster than Pathway", other.median / mine.median, "at least", 1),
            Goal("the maximum deleted, median: faster than Pathway", ratio, "at least", 1),
        ]
    return [*lines, "", *goals(*wanted)] if wanted else lines


BOTH = {"viewkeeper": viewkeeper, "pathway": pathway}
SECTION = Section(
    "Against Pathway",
    {f"{name} closure": subject("closure") for name, subject in BOTH.items()}
    | {f"{name} totals, turn {turn}": subject("totals") for turn in range(1, TURNS + 1) for name, subject in BOTH.items()}
    | {"viewkeeper totals, not durable": viewkeeper("totals", durable=False)},
    text,
)
