"""What a change costs, by each way of bringing it in: an estimate, corrected by what changes of that size took before.

A change of ``rows`` base rows in a warehouse that holds ``held`` rows is expected to take

    (start + per_row · rows + per_held · held) · correction

seconds. The three numbers are those of one machine with two cores (docs/decisions/0010-costs.md). The correction is measured on the
machine at hand, for this warehouse and its views, for each order of magnitude of ``rows``; it is 1 until a way was taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

# The last measurement counts for so much of the correction.
_WEIGHT = 0.3
# Corrections that have changed by less (as logarithms) need not be written down.
_WORTH = 0.25

EMBEDDED, ANEW, SPARK = "embedded", "anew", "spark"
WAYS = {
    EMBEDDED: "embedded",
    ANEW: "embedded, everything computed anew",
    SPARK: "Spark",
}


@dataclass(frozen=True)
class Task:
    """``first``: rows come to relations that have none, so that views are computed rather than maintained."""

    rows: int
    held: int
    first: bool = False
    cores: int = 2
    session: bool = False

    @property
    def kind(self) -> str:
        return "first" if self.first else "change"

    def expected(self, way: str) -> float:
        start, per_row, per_held = _FIRST[way] if self.first else _CHANGE[way]
        seconds = start + per_row * self.rows + per_held * self.held
        if way == SPARK:
            seconds = start + (seconds - start) * 2 / max(1, self.cores) + (0 if self.session else _SESSION)
        return seconds


# start, for each row to change, for each row held
_CHANGE = {EMBEDDED: (5e-4, 6e-5, 0.0), ANEW: (5e-3, 4e-6, 8e-6), SPARK: (6.0, 2e-5, 8e-6)}
_FIRST = {EMBEDDED: (5e-4, 3e-5, 0.0), SPARK: (6.0, 3e-5, 0.0)}
_SESSION = 6.0


class Costs:
    """``known``: the corrections, as logarithms, by way, kind and magnitude: {"spark change 4": 0.3}."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known = dict(known)
        self._written = dict(known)

    def estimate(self, way: str, task: Task) -> float:
        return task.expected(way) * math.exp(self._correction(way, task))

    def _correction(self, way: str, task: Task) -> float:
        """Of the nearest order of magnitude that was measured."""
        prefix, magnitude = f"{way} {task.kind} ", _magnitude(task.rows)
        found = {int(key.removeprefix(prefix)): value for key, value in self.known.items() if key.startswith(prefix)}
        if not found:
            return 0.0
        return found[min(found, key=lambda other: (abs(other - magnitude), other))]

    def measured(self, way: str, task: Task, seconds: float) -> bool:
        """Learns how long a change took; returns whether the corrections are worth writing down."""
        key = f"{way} {task.kind} {_magnitude(task.rows)}"
        ratio = math.log(max(seconds, 1e-6) / task.expected(way))
        old = self.known.get(key)
        self.known[key] = ratio if old is None else old + _WEIGHT * (ratio - old)
        return key not in self._written or abs(self.known[key] - self._written[key]) > _WORTH

    def written(self) -> dict[str, float]:
        """The corrections, to be kept."""
        self._written = dict(self.known)
        return {key: round(value, 3) for key, value in sorted(self.known.items())}


def _magnitude(rows: int) -> int:
    """
    >>> [_magnitude(rows) for rows in (0, 1, 9, 10, 999, 1000)]
    [0, 0, 0, 1, 2, 3]
    """
    return len(str(max(1, rows))) - 1
