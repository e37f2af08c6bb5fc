"""Windows → SQL, the same for both engines but for what their dialects say.

    SELECT columns AS g0 …, windows AS v0 … FROM source

Where just the first rows are wanted of the one partition there is, no others are read: ORDER BY … LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewkeeper.program.ast import Aggregate, Constant, Frame, Order, Relation, Variable
from viewkeeper.program.types import Type
from viewkeeper.program.windows import CHOSEN, COUNTED, FRAMED, SHARES, SHIFTED, Windowing, over_of

if TYPE_CHECKING:
    from viewkeeper.engines.sql import Dialect

_WHOLE = Frame("rows", None, None)


@dataclass(frozen=True)
class Windows:
    """The windows of one rule over the rows t0 of a relation; ``types`` are those of the rule's variables."""

    dialect: Dialect
    relation: Relation
    windowing: Windowing
    types: Mapping[str, Type]
    alias: str = "t0"

    def select(self, source: str, where: str, single: bool) -> str:
        windowing = self.windowing
        condition = f" WHERE {where}" if where else ""
        if windowing.is_top and (single or not windowing.partition):
            order = ", ".join(sorting(windowing.total(over_of(windowing.windows[0])), self._column, self._is_nullable))
            limit = min(windowing.limits.values())
            by = f" ORDER BY {order}" if order else ""  # of one row there is no order
            source, condition = f"(SELECT * FROM {source}{condition}{by} LIMIT {limit}) AS w0", ""
            return replace(self, alias="w0")._selected(source, condition)
        return self._selected(source, condition)

    def _selected(self, source: str, condition: str) -> str:
        windowing, outer = self.windowing, self
        numbers = {
            i: f"row_number() OVER ({self._over(windowing.total(over_of(window)))}) AS n{i}"
            for i, window in enumerate(windowing.windows)
            if self._goes_by_number(window)
        }
        if numbers:
            source = f"(SELECT {self.alias}.*, {', '.join(numbers.values())} FROM {source}{condition}) AS n0"
            condition, outer = "", replace(self, alias="n0")
        columns = [f"{outer._column(name)} AS g{i}" for i, name in enumerate(windowing.columns)]
        values = [f"{outer._value(window, f'n0.n{i}')} AS v{i}" for i, window in enumerate(windowing.windows)]
        return f"SELECT {', '.join([*columns, *values])} FROM {source}{condition}"

    def _column(self, name: str) -> str:
        return self.dialect.column(self.alias, self.relation, self.windowing.columns.index(name))

    def _is_nullable(self, name: str) -> bool:
        return self.relation.columns[self.windowing.columns.index(name)].type.nullable

    # ---- values

    def _value(self, window: Aggregate, number: str) -> str:
        over, target, operation = over_of(window), window.target, window.operation
        column = self._column(target.name) if isinstance(target, Variable) else ""
        framed = self._framed(window)
        match operation:
            case "ntile":
                assert isinstance(target, Constant) and isinstance(target.value, int)
                return f"CAST(ntile({target.value}) OVER ({framed}) AS BIGINT)"
            case _ if operation in COUNTED:
                return f"CAST({operation}() OVER ({framed}) AS BIGINT)"
            case _ if operation in SHARES:
                return f"{operation}() OVER ({framed})"
            case _ if operation in SHIFTED:
                return f"{operation}({column}, {1 if over.number is None else over.number}) OVER ({framed})"
            case _ if self._goes_by_number(window):
                return self.dialect.chosen(operation, column, number, over.number or 1, framed)
            case "nth_value":
                return f"nth_value({column}, {over.number}) OVER ({framed})"
            case _ if operation in CHOSEN:
                return f"{operation}({column}) OVER ({framed})"
        type_ = self.types[target.name] if isinstance(target, Variable) else None
        frame = self._frame(window)
        own = (frame.low is None or frame.low <= 0) and (frame.high is None or frame.high >= 0)
        return self.dialect.window(operation, column, type_, framed, own)

    def _framed(self, window: Aggregate) -> str:
        """What stands behind OVER."""
        over, frame = over_of(window), self._frame(window)
        if window.operation not in FRAMED:
            order = self.windowing.total(over) if self.windowing.is_one_by_one(window) else self.windowing.order(over)
            # Spark wants an order of what depends on it, even if all rows are equal.
            return self._over(order) if order else f"{self._over(order)} ORDER BY 1".strip()
        if window.operation in CHOSEN and not self._goes_by_number(window):
            frame = frame if frame.unit == "rows" or not self.windowing.has_peers(over) else _WHOLE
            return self._over(self.windowing.total(over), frame)
        return self._over(self.windowing.total(over) if frame.unit == "rows" else self.windowing.order(over), frame)

    def _frame(self, window: Aggregate) -> Frame:
        """The frame that is meant: up to the row and those equal to it in the order, or without an order all."""
        over = over_of(window)
        frame = over.frame or Frame("range", None, 0)
        unordered = frame.unit == "range" and not self.windowing.order(over)
        return _WHOLE if unordered else frame

    def _goes_by_number(self, window: Aggregate) -> bool:
        """Must a value be chosen among rows that are equal in the order, at a place that only they decide?"""
        if window.operation not in CHOSEN or not self.windowing.has_peers(over_of(window)):
            return False
        frame = self._frame(window)
        first = frame.low is None and (frame.high is None or frame.high >= 0)
        last = frame.high is None and (frame.low is None or frame.low <= 0)
        known = {"first_value": first, "last_value": last, "nth_value": first and last}
        return frame.unit == "range" and not known[window.operation]

    # ---- partition, order, frame

    def _over(self, order: Sequence[Order], frame: Frame | None = None) -> str:
        parts = []
        if self.windowing.partition:
            parts.append(f"PARTITION BY {', '.join(map(self._column, self.windowing.partition))}")
        if order:
            parts.append(f"ORDER BY {', '.join(map(self._key, order))}")
        if frame is not None:
            scale = self.types[order[0].variable.name].scale if frame.unit == "range" else 0
            low, high = _bound(frame.low, "PRECEDING", scale), _bound(frame.high, "FOLLOWING", scale)
            parts.append(f"{frame.unit.upper()} BETWEEN {low} AND {high}")
        return " ".join(parts)

    def _key(self, key: Order) -> str:
        nulls = f" NULLS {'FIRST' if key.nulls_first else 'LAST'}" if self._is_nullable(key.variable.name) else ""
        return f"{self._column(key.variable.name)}{' DESC' if key.descending else ''}{nulls}"


def sorting(order: Sequence[Order], column: Callable[[str], str], is_nullable: Callable[[str], bool]) -> list[str]:
    """An order as terms that an index can have: one more where NULL is not where SQLite has it by itself."""
    found: list[str] = []
    for key in order:
        sql = column(key.variable.name)
        if key.nulls_first == key.descending and is_nullable(key.variable.name):
            found.append(f"({sql} IS NULL){' DESC' if key.nulls_first else ''}")
        found.append(f"{sql}{' DESC' if key.descending else ''}")
    return found


def limited(windowing: Windowing) -> str:
    """The condition that a row g is within the limits."""
    limits = [f"g.v{i} <= {windowing.limits[name]}" for i, name in enumerate(windowing.results) if name in windowing.limits]
    return " AND ".join(limits) or "TRUE"


def _bound(bound: int | None, unbounded: str, scale: int) -> str:
    if bound is None:
        return f"UNBOUNDED {unbounded}"
    if bound == 0:
        return "CURRENT ROW"
    return f"{abs(bound) * 10**scale} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"
