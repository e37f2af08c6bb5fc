"""What a change costs, by each way of bringing it in: an estimate, corrected by what changes of that size took before.

A change of ``rows`` base rows in a warehouse that holds ``held`` rows is expected to take

    (start + per_row · rows + per_held · held) · correction

seconds. The three numbers are those of one machine with two cores (docs/decisions/0010-costs.md). The correction is measured on the
machine at hand, for this warehouse and its views, for each order of magnitude of ``rows``. Until a way was taken it is 1, or more
where maintaining these views turned out to be more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

# The last measurement counts for so much of the correction.
_WEIGHT = 0.3
# Corrections that have changed by less (as logarithms: a factor of 2) need not be written down.
_WORTH = 0.7

EMBEDDED, ANEW, SPARK, SPARK_ANEW = "embedded", "anew", "spark", "spark anew"
WAYS = {
    EMBEDDED: "embedded",
    ANEW: "embedded with views computed anew",
    SPARK: "Spark",
    SPARK_ANEW: "Spark with views computed anew",
}
FIRST, INSERT, DELETE = "first", "insert", "delete"

# start, for each row to change, for each row held
_EXPECTED: dict[str, dict[str, tuple[float, float, float]]] = {
    FIRST: {EMBEDDED: (5e-4, 4e-5, 0.0), SPARK: (6.0, 8e-5, 0.0)},
    INSERT: {
        EMBEDDED: (5e-4, 4.5e-5, 0.0),
        ANEW: (5e-3, 1.5e-5, 4e-6),
        SPARK: (6.5, 3e-4, 1.5e-6),
        SPARK_ANEW: (6.0, 1e-5, 5e-6),
    },
    DELETE: {
        EMBEDDED: (5e-4, 8.5e-5, 0.0),
        ANEW: (5e-3, 1.5e-5, 4e-6),
        SPARK: (6.5, 1.5e-3, 1.5e-6),
        SPARK_ANEW: (6.0, 1e-5, 5e-6),
    },
}
_SESSION = 6.0
# From so many rows on views may be computed anew.
MANY = 100


class Task(NamedTuple):
    """A change. ``kind``: rows come to relations that have none ("first", views are computed), more rows come than go, or more go.

    ``exact``: the number of rows is known, not guessed from the size of a file.
    """

    kind: str
    rows: int
    held: int
    cores: int = 2
    session: bool = False
    exact: bool = True

    @property
    def ways(self) -> list[str]:
        """Views are maintained if few rows change, whatever it costs."""
        return list(_EXPECTED[self.kind]) if self.rows >= MANY else [EMBEDDED, SPARK]

    def expected(self, way: str) -> float:
        start, per_row, per_held = _EXPECTED[self.kind][way]
        work = per_row * self.rows + per_held * self.held
        if not way.startswith(SPARK):
            return start + work
        # Twice the cores do not do twice the work.
        return start + work * 4 / (2 + max(2, self.cores)) + (0 if self.session else _SESSION)


class Costs:
    """``known``: the corrections, as logarithms, by way, kind and magnitude: {"spark insert 4": 0.3}."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self.known = dict(known)
        self._written = dict(known)

    def estimate(self, way: str, task: Task) -> float:
        return task.expected(way) * math.exp(self._correction(way, task))

    def _correction(self, way: str, task: Task) -> float:
        """Of the nearest order of magnitude that was measured.

        Views that are more work to maintain than expected are more work to compute, too, until that is known better.
        """
        prefix, magnitude = f"{way} {task.kind} ", _magnitude(task.rows)
        found = {int(key.removeprefix(prefix)): value for key, value in self.known.items() if key.startswith(prefix)}
        if found:
            return found[min(found, key=lambda other: (abs(other - magnitude), other))]
        return 0.0 if way == EMBEDDED else max(0.0, self._correction(EMBEDDED, task))

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
