"""80 external views that differ in a constant only, kept together, against one of them: what sharing alone does.

They are views of the paper on rederivation on demand, each for other names and sizes.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.catalogue import KINDS, SOFTWARE, Seconds, transactions
from bench.section import Goal, Run, goals, ms, number

VIEWS = 80
# How often a transaction of each kind is made and undone, and how many of the views are measured alone.
ROUNDS, ALONE = 100, 8
IMPORTED = """
.decl imported(module: symbol, procedure: symbol)
imported(m, p) :- import(m, p).
imported(m, p) :- mod_dep(m, n), import(n, p).
"""


@dataclass(frozen=True)
class Shape:
    """A view with a constant to be put in, and what it reads."""

    what: str
    body: str
    constants: Sequence[object]
    below: str = ""

    def text(self, numbers: Sequence[int]) -> str:
        views = (
            f".decl v{i}(module: symbol, procedure: symbol)\nv{i}(m, p) :- {self.body.format(self.constants[i])}."
            for i in numbers
        )
        return "\n".join([self.below, *views])


def shapes() -> list[Shape]:
    """The most frequent names and beginnings of names, and the smallest sizes."""
    with gzip.open(SOFTWARE / "data" / "procedure.csv.gz", "rt", encoding="utf-8", newline="") as file:
        names = Counter(row["short_name"] for row in csv.DictReader(file))
    prefixes = Counter[str]()
    for name, times in names.items():
        prefixes[name[:4]] += times
    common = [[one for one, _ in counted.most_common(VIEWS)] for counted in (prefixes, names)]
    return [
        Shape(
            "procedures with a name prefix that a module imports",
            'import(m, p), procedure(p, s, _), substr(s, 0, 4) = "{}"',
            common[0],
        ),
        Shape(
            "procedures of less than so many lines that a module imports",
            "import(m, p), procedure(p, _, l), l < {}",
            range(3, 3 + VIEWS),
        ),
        Shape(
            "procedures with a name that a module imports directly or indirectly",
            'imported(m, p), procedure(p, "{}", _)',
            common[1],
            IMPORTED,
        ),
    ]


def alike(run: Run) -> list[dict[str, Any]]:
    return [
        {
            "together": _transactions(shape, range(VIEWS)),
            "alone": [_transactions(shape, [i]) for i in range(VIEWS // ALONE // 2, VIEWS, VIEWS // ALONE)],
        }
        for shape in shapes()
    ]


def _transactions(shape: Shape, numbers: Sequence[int]) -> Seconds:
    return transactions(shape.text(numbers), [f"v{i}" for i in numbers], external=True, rounds=ROUNDS)


def text(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    lines, wanted = ["| views | transaction | all together | one of them | times |", "| --- | --- | ---: | ---: | ---: |"], []
    for shape, one in zip(shapes(), measured, strict=True):
        ratios = []
        for kind in KINDS:
            together = statistics.mean(one["together"][kind])
            alone = statistics.mean(statistics.mean(seconds[kind]) for seconds in one["alone"])
            ratios.append(together / alone)
            lines.append(f"| {shape.what} | {kind} | {ms(together)} | {ms(alone)} | {number(ratios[-1])} |")
        wanted.append(Goal(f"{VIEWS} views: {shape.what}: all together to one, the worst kind", max(ratios), "under", 6))
    return [
        f"{VIEWS} external views that differ in a constant only, all of them together and {ALONE} of them alone; averages:",
        "",
        *lines,
        "",
        *goals(*wanted),
    ]
