"""Windows, as dumb as possible: every value is looked for among all rows of the partition.

Rows that are equal in the order come in the order of their other columns, from the left, NULL first.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from . import functions
from .syntax import Agg, Atom, Const, Over, Var
from .values import OracleError, Row, Value

Env = dict[str, Any]


def windows(aggs: dict[str, Agg], rows: set[Row], family: Any, scale: Any) -> list[Env]:
    """An assignment for each row of the atom that is within the limits: its columns and the values of the windows.

    A value that cannot be computed is an OracleError. ``family`` and ``scale`` say of a term of which type it is.
    """
    first = next(iter(aggs.values()))
    [[atom]] = first.body
    assert isinstance(atom, Atom)
    names = [a.name for a in atom.args if isinstance(a, Var)]
    result = []
    for row in rows:
        env: Env = dict(zip(names, row, strict=True))
        for name, agg in aggs.items():
            assert agg.over is not None
            every = [dict(zip(names, other, strict=True)) for other in rows]
            part = [other for other in every if all(other[v] == env[v] for v in agg.over.partition)]
            try:
                env[name] = Window(agg, agg.over, names, part, {v: env[v] for v in names}).value(family, scale)
            except OracleError as error:
                env[name] = error
        limits = [(env[name], agg.over.limit) for name, agg in aggs.items() if agg.over and agg.over.limit is not None]
        if all(value <= limit for value, limit in limits):
            result.append(env)
    return result


class Window:
    """One window for one row."""

    def __init__(self, agg: Agg, over: Over, names: list[str], part: list[Env], row: Env) -> None:
        self.agg, self.over, self.names, self.part, self.row = agg, over, names, part, row

    def order(self, a: Env, b: Env, total: bool) -> int:
        """-1 if a comes before b, 1 if behind it, 0 if neither."""
        keys = list(self.over.order)
        if total:
            keys += [(name, False, True) for name in self.names]
        for name, descending, nulls_first in keys:
            x, y = a[name], b[name]
            if x == y:
                continue
            if x is None or y is None:
                return -1 if (x is None) == nulls_first else 1
            smaller = functions.order(x) < functions.order(y)
            return 1 if smaller == descending else -1
        return 0

    def before(self, a: Env, total: bool) -> int:
        """How many rows come before one."""
        return sum(self.order(b, a, total) < 0 for b in self.part)

    def at(self, place: int) -> Env | None:
        """The row with so many before it."""
        return next((row for row in self.part if self.before(row, True) == place), None)

    def value(self, family: Any, scale: Any) -> Value:
        op, target, row, size = self.agg.op, self.agg.target, self.row, len(self.part)
        place = self.before(row, True)
        match op:
            case "row_number":
                return place + 1
            case "rank":
                return self.before(row, False) + 1
            case "dense_rank":
                return 1 + sum(
                    self.order(a, row, False) < 0 and not any(self.order(b, a, False) == 0 for b in self.part[:i])
                    for i, a in enumerate(self.part)
                )
            case "percent_rank":
                return self.before(row, False) / (size - 1) if size > 1 else 0.0
            case "cume_dist":
                return sum(self.order(a, row, False) <= 0 for a in self.part) / size
            case "ntile":
                assert isinstance(target, Const)
                return self.tile(place, size, int(target.text))
        if op == "count" and target is None:
            return len(self.frame())
        assert isinstance(target, Var)
        if op in ("lag", "lead"):
            distance = 1 if self.over.number is None else self.over.number
            return self.of(self.at(place + distance if op == "lead" else place - distance), target)
        frame = sorted(self.frame(), key=lambda a: self.before(a, True))
        if op in ("first_value", "last_value", "nth_value"):
            index = {"first_value": 0, "last_value": len(frame) - 1}.get(op, (self.over.number or 0) - 1)
            return self.of(frame[index] if 0 <= index < len(frame) else None, target)
        values = [a[target.name] for a in frame if a[target.name] is not None]
        if op == "count":
            return len(values)
        return functions.aggregate(op, values, family(target), scale(target) or 0) if values else None

    def of(self, row: Env | None, target: Var) -> Value:
        found: Value = None if row is None else row[target.name]
        return found

    def tile(self, place: int, size: int, parts: int) -> int:
        """The first parts have one row more if it does not come out even."""
        sizes = [size // parts + (i < size % parts) for i in range(parts)]
        return next(i for i in range(parts) if place < sum(sizes[: i + 1])) + 1

    def frame(self) -> list[Env]:
        unit, low, high = self.over.frame or ("range", None, 0)
        if unit == "rows":
            place = self.before(self.row, True)
            return [
                a
                for a in self.part
                if (low is None or self.before(a, True) >= place + low)
                and (high is None or self.before(a, True) <= place + high)
            ]
        return [a for a in self.part if self.beyond(a, low, 1) and self.beyond(a, high, -1)]

    def beyond(self, a: Env, bound: int | None, side: int) -> bool:
        """Is a not before the lower bound (side 1), or not behind the upper (-1)?"""
        if bound is None:
            return True
        compared = side * self.order(a, self.row, False)
        if bound == 0:
            return compared >= 0
        ((name, descending, _),) = self.over.order
        x, y = a[name], self.row[name]
        if x is None or y is None:
            return compared >= 0
        sign = -1 if descending else 1
        return bool(side * sign * compare(x, moved(y, sign * bound)) >= 0)


def compare(x: Any, y: Any) -> int:
    return (x > y) - (x < y)


def moved(value: Any, by: int) -> Any:
    if isinstance(value, datetime):
        return value + timedelta(microseconds=by)
    return value + timedelta(days=by) if isinstance(value, date) else value + by
