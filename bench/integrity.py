"""80 integrity views over the software catalogue, external and stored: all of them kept together, against each of them alone."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Any

from bench import alike
from bench.catalogue import KINDS, NEW, SOFTWARE, Seconds, transactions
from bench.section import Goal, Run, Section, Times, goals, ms, number
from viewkeeper.language import parse
from viewkeeper.program.strata import dependencies, reach

VIEWS = tuple(re.findall(r"^\.external (\w+)", (SOFTWARE / "integrity_external.dl").read_text(encoding="utf-8"), re.MULTILINE))
# How often a transaction of each kind is made and undone: for all views together, and for each alone.
TOGETHER, ALONE = 200, 20


def viewkeeper(run: Run) -> dict[str, Any]:
    text = (SOFTWARE / "integrity.dl").read_text("utf-8")
    return {
        how: {
            "together": transactions(text, VIEWS, how == "external", TOGETHER),
            "alone": {view: transactions(text, [view], how == "external", ALONE) for view in VIEWS},
        }
        for how in ("external", "stored")
    }


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
            *(Goal(f"{kind}: all together to the dearest one", together[kind] / most[kind], "under", 6) for kind in KINDS),
            *(Goal(f"{kind}: all together to the average one", together[kind] / means[kind], "under", 6) for kind in KINDS),
        ),
        "",
        f"The average falls with each view that has nothing to do: what {_reading('mod_dep')} of the {len(VIEWS)} views read (`mod_dep`), kept once for all of them, is "
        f"{number(len(VIEWS) / _reading('mod_dep'))} times its part of the average, and what one of them reads (`weight`) {len(VIEWS)} times.",
        "",
        f"Kept one by one they would take {number(sum(statistics.mean(one[NEW]) for one in alone.values()) / together[NEW])} times as long "
        "as together, for new links.",
        "",
        *alike.text(results["alike"]),
    ]


def _reading(relation: str) -> int:
    """How many of the views depend on a relation."""
    graph = dependencies(parse("\n".join((SOFTWARE / name).read_text("utf-8") for name in ("software.dl", "integrity.dl"))))
    return sum(relation in reach(graph, {view}) for view in VIEWS)


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


SECTION = Section("Integrity views", {"viewkeeper": viewkeeper, "alike": alike.alike}, text, limit=1800)
