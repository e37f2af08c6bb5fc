"""The frame of a window: how many rows, or which distances in the values of the order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.program.ast import Call, Constant, Frame
from viewkeeper.program.types import Kind
from viewkeeper.sql.lowering.expressions import MOST_DIGITS
from viewkeeper.sql.lowering.intervals import DAY, constant_interval
from viewkeeper.sql.lowering.values import Lowered
from viewkeeper.sql.types import BIGINT, decimal

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.queries import Queries


def distances(queries: Queries, spec: exp.Expr, keys: Sequence[Lowered]) -> Frame:
    """The frame that a window has; distances of RANGE are in the smallest units of the order's type, such as hundredths."""
    unit = str(spec.args.get("kind") or "ROWS").lower()
    if unit not in ("rows", "range"):
        queries.refuse(spec, f"a window of {unit.upper()}", "Use ROWS or RANGE.")
    if spec.args.get("exclude"):
        queries.refuse(spec, "EXCLUDE in a window", "Leave it out.")
    sides = [
        (spec.args.get("start"), spec.args.get("start_side")),
        (spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side")),
    ]
    key = keys[0] if unit == "range" and keys else None
    low, high = (_bound(queries, bound, str(side).upper(), spec, key) for bound, side in sides)
    if low is not None and high is not None and low > high:
        queries.builder.statement.refuse(
            "SQL_TYPE", spec, why="the frame ends before it starts", hint="Write the lower bound first."
        )
    return Frame(unit, low, high)


def _bound(queries: Queries, bound: object, side: str, spec: exp.Expr, key: Lowered | None) -> int | None:
    if isinstance(bound, str):
        return None if bound.upper() == "UNBOUNDED" else 0
    sign = -1 if side == "PRECEDING" else 1
    if isinstance(bound, exp.Neg):
        sign, bound = -sign, bound.this
    if isinstance(bound, exp.Interval) and key is not None:
        return sign * _of_interval(queries, bound, key)
    if not isinstance(bound, exp.Literal) or bound.is_string or not re.fullmatch(r"[0-9]*\.?[0-9]*", bound.name):
        queries.refuse(
            bound if isinstance(bound, exp.Expr) else spec, "a window whose bounds are not numbers", "Write numbers."
        )
    return sign * _of_number(queries, bound, key)


def _of_number(queries: Queries, bound: exp.Expr, key: Lowered | None) -> int:
    number = Decimal(bound.name)
    kind = None if key is None else key.type.kind
    if kind is Kind.DECIMAL and key is not None:
        number = number.scaleb(key.type.scale)
    if number == number.to_integral_value() and kind in (None, Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE):
        return int(number)
    if kind is Kind.FLOAT:
        queries.refuse(bound, "a distance between floats that is not a whole number", "Order by a DECIMAL, or use ROWS.")
    _refuse(queries, bound, f"{bound.name} is no distance", key)


def _of_interval(queries: Queries, bound: exp.Interval, key: Lowered) -> int:
    interval = constant_interval(bound, queries.builder.statement)
    if interval.of_months:
        queries.refuse(bound, "a distance of months or years", "Use days: INTERVAL 30 DAYS.")
    microseconds = interval.amount.constant
    assert isinstance(microseconds, int)
    if key.type.kind is Kind.TIMESTAMP:
        return microseconds
    if key.type.kind is Kind.DATE and interval.end == "DAY":
        return microseconds // DAY
    _refuse(queries, bound, "this interval is no distance", key)


def in_units(queries: Queries, key: Lowered, spec: exp.Expr) -> Lowered:
    """A decimal as a whole number of its smallest units, for distances that are no whole numbers."""
    precision, scale = key.type.digits
    if precision + scale > MOST_DIGITS:
        queries.refuse(
            spec, f"a distance that is not a whole number between values of type {key.type}", "CAST them to fewer digits."
        )
    power = decimal(scale + 1, 0)
    units = Call("*", (key.term, Constant(Decimal(10**scale), power.kept)))
    return Lowered(Call("to_number", (units,)), BIGINT, key.nullable)


def _refuse(queries: Queries, bound: exp.Expr, what: str, key: Lowered | None) -> NoReturn:
    why = f"{what} between values of type {key.type}" if key is not None else f"{bound.name} is no number of rows"
    queries.builder.statement.refuse(
        "SQL_TYPE", bound, why=why, hint="Numbers are measured in numbers, dates in days, timestamps in intervals."
    )
