"""Intervals: lengths of time that are no columns. They are added to dates, compared, and asked for their parts."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.program.ast import Call, Constant, Term
from viewkeeper.program.types import DATE, NUMBER, Kind, decimal_type
from viewkeeper.sql.lowering.values import Lowered, convert
from viewkeeper.sql.types import BIGINT, DATE_TYPE, TIMESTAMP_TYPE, decimal

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions
    from viewkeeper.sql.reading import Statement

DAY = 86_400_000_000
MICROSECONDS = {
    "WEEK": 7 * DAY, "DAY": DAY, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}  # fmt: skip
MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
TIMES = (Kind.DATE, Kind.TIMESTAMP)
SECONDS = decimal(8, 6)

_ENDS = {**dict.fromkeys(MICROSECONDS, "SECOND"), "WEEK": "DAY", "DAY": "DAY", "HOUR": "HOUR", "MINUTE": "MINUTE"}
_ENDS |= {"YEAR": "YEAR", "QUARTER": "MONTH", "MONTH": "MONTH"}
_FINENESS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_HINT = "Write whole numbers and units, as in INTERVAL 3 MONTHS or INTERVAL 1 DAY 2 HOURS; n * INTERVAL 1 DAY is of n days."


@dataclass(frozen=True)
class Interval:
    """So many months, or so many microseconds. ``end`` is the smallest unit that Spark's type of it has."""

    amount: Lowered
    end: str

    @property
    def of_months(self) -> bool:
        return self.end in ("YEAR", "MONTH")

    def times(self, factor: int) -> Interval:
        return replace(self, amount=_times(self.amount, factor))


def _times(amount: Lowered, factor: int) -> Lowered:
    if isinstance(amount.constant, int):
        return Lowered(Constant(amount.constant * factor, NUMBER), BIGINT)
    if factor == 1:
        return amount
    return Lowered(Call("*", (amount.term, Constant(factor, NUMBER))), BIGINT, amount.nullable)


def _sum(left: Lowered, right: Lowered) -> Lowered:
    if isinstance(left.constant, int) and isinstance(right.constant, int):
        return Lowered(Constant(left.constant + right.constant, NUMBER), BIGINT)
    return Lowered(Call("+", (left.term, right.term)), BIGINT, left.nullable or right.nullable)


def _refuse(node: exp.Expr, statement: Statement, what: str = "this interval", hint: str = _HINT) -> NoReturn:
    statement.refuse("SQL_UNSUPPORTED", node, what=what, hint=hint)


# ---- constants


def constant_interval(node: exp.Interval, statement: Statement) -> Interval:
    """INTERVAL 3 DAYS, INTERVAL '1 day 2 hours', INTERVAL '1 02:03' DAY TO MINUTE."""
    unit = node.args.get("unit")
    text = f"-{node.this.this.name}" if isinstance(node.this, exp.Neg) else node.this.name
    if not isinstance(node.this, (exp.Literal, exp.Neg)):
        _refuse(node, statement, "an interval of a computed number", "Multiply: n * INTERVAL 1 DAY.")
    if isinstance(unit, exp.IntervalSpan):
        parts = _spanned(text.strip(), unit.this.name.upper(), unit.expression.name.upper())
    elif unit is None:
        parts = re.findall(r"([+-]?[0-9]+(?:\.[0-9]+)?)\s+([A-Za-z]+)", text)
        if " ".join(f"{amount} {name}" for amount, name in parts) != " ".join(text.split()):
            parts = []
    else:
        parts = [(text.strip(), unit.name)]
    found = [_of_unit(amount, name.upper().removesuffix("S"), node, statement) for amount, name in parts]
    if not found:
        _refuse(node, statement)
    total = found[0]
    for part in found[1:]:
        total = added(total, part, node, statement)
    span = unit.expression.name.upper() if isinstance(unit, exp.IntervalSpan) else total.end
    return _checked(replace(total, end=span), node, statement)


def _of_unit(amount: str, unit: str, node: exp.Expr, statement: Statement) -> Interval:
    size = MONTHS.get(unit) or MICROSECONDS.get(unit)
    whole = re.fullmatch(r"[+-]?[0-9]+", amount)
    if size is None or not (whole or (unit == "SECOND" and re.fullmatch(r"[+-]?[0-9]+\.[0-9]{1,6}", amount))):
        _refuse(node, statement)
    return Interval(Lowered(Constant(int(Decimal(amount) * size), NUMBER), BIGINT), _ENDS[unit])


def _checked(found: Interval, node: exp.Expr, statement: Statement) -> Interval:
    bits = 31 if found.of_months else 63
    if isinstance(found.amount.constant, int) and not -(2**bits) < found.amount.constant < 2**bits:
        statement.refuse("SQL_TYPE", node, why="the interval is too long", hint="Write a smaller number.")
    return found


_SPANS = {
    ("YEAR", "MONTH"): r"(?P<YEAR>\d+)-(?P<MONTH>\d|1[01])",
    ("DAY", "HOUR"): r"(?P<DAY>\d+) (?P<HOUR>[01]?\d|2[0-3])",
    ("DAY", "MINUTE"): r"(?P<DAY>\d+) (?P<HOUR>[01]?\d|2[0-3]):(?P<MINUTE>[0-5]?\d)",
    ("DAY", "SECOND"): r"(?P<DAY>\d+) (?P<HOUR>[01]?\d|2[0-3]):(?P<MINUTE>[0-5]?\d):(?P<SECOND>[0-5]?\d(\.\d{1,6})?)",
    ("HOUR", "MINUTE"): r"(?P<HOUR>\d+):(?P<MINUTE>[0-5]?\d)",
    ("HOUR", "SECOND"): r"(?P<HOUR>\d+):(?P<MINUTE>[0-5]?\d):(?P<SECOND>[0-5]?\d(\.\d{1,6})?)",
    ("MINUTE", "SECOND"): r"(?P<MINUTE>\d+):(?P<SECOND>[0-5]?\d(\.\d{1,6})?)",
}


def _spanned(text: str, start: str, end: str) -> list[tuple[str, str]]:
    """The numbers in '1 02:03' DAY TO MINUTE, with their units; none if they do not fit."""
    pattern = _SPANS.get((start, end))
    sign = text[:1] if text[:1] in ("+", "-") else ""
    found = re.fullmatch(pattern, text.removeprefix(sign), re.ASCII) if pattern is not None else None
    return [(f"{sign}{amount}", unit) for unit, amount in found.groupdict().items()] if found is not None else []


_MADE: dict[str, tuple[tuple[str, ...], str]] = {
    "make_dt_interval": (("DAY", "HOUR", "MINUTE", "SECOND"), "SECOND"),
    "make_ym_interval": (("YEAR", "MONTH"), "MONTH"),
}


def made_interval(node: exp.Anonymous, into: Expressions) -> Interval | None:
    """make_dt_interval and make_ym_interval of whole numbers; None of other functions."""
    units, end = _MADE.get(node.name.lower(), ((), ""))
    if not units:
        return None
    if len(node.expressions) > len(units):
        _refuse(node, into.statement, f"{node.name} with so many arguments", f"Its arguments are {', '.join(units).lower()}.")
    total = Lowered(Constant(0, NUMBER), BIGINT)
    for part, unit in zip(node.expressions, units, strict=False):
        value = into.value(part)
        if value.type.kind is not Kind.NUMBER:
            _refuse(part, into.statement, f"{node.name} of a {value.type}", "Use CAST(… AS BIGINT).")
        total = _sum(total, _times(value, MONTHS.get(unit) or MICROSECONDS[unit]))
    return _checked(Interval(total, end), node, into.statement)


# ---- arithmetic


def combined(
    node: exp.Expr, left: Lowered | Interval, right: Lowered | Interval, into: Expressions
) -> Lowered | Interval | None:
    """Sums, differences and products in which there are intervals; None if there are none."""
    if isinstance(node, exp.Sub) and isinstance(left, Lowered) and isinstance(right, Lowered):
        left, right = _read(left, right, into), _read(right, left, into)
    match node, left, right:
        case exp.Sub(), Lowered(), Lowered() if left.type.kind in TIMES and right.type.kind in TIMES:
            return between(left, right)
        case _, Lowered(), Lowered():
            return None
        case exp.Add() | exp.Sub(), Interval(), Interval():
            return added(left, right.times(-1 if isinstance(node, exp.Sub) else 1), node, into.statement)
        case exp.Add() | exp.Sub(), Lowered(), Interval():
            return shifted(left, right.times(-1 if isinstance(node, exp.Sub) else 1), node, into)
        case exp.Add(), Interval(), Lowered():
            return shifted(right, left, node, into)
        case exp.Mul(), Lowered() as factor, Interval() as interval:
            return _product(interval, factor, node, into)
        case exp.Mul(), Interval() as interval, Lowered() as factor:
            return _product(interval, factor, node, into)
    _refuse(
        node,
        into.statement,
        "this arithmetic with an interval",
        "Intervals are added, subtracted and multiplied by whole numbers.",
    )


def _read(value: Lowered, beside: Lowered, into: Expressions) -> Lowered:
    """A constant text from which a date or timestamp is subtracted, or the other way round, is one, too."""
    is_text = value.type.kind is Kind.SYMBOL and value.is_constant and beside.type.kind in TIMES
    return into.read_text(value, beside.type.kind) if is_text else value


def between(left: Lowered, right: Lowered) -> Interval:
    nullable = left.nullable or right.nullable
    if left.type.kind is right.type.kind is Kind.DATE:
        days = Lowered(Call("sql_date_diff", (left.term, right.term)), BIGINT, nullable)
        return Interval(_times(days, DAY), "DAY")
    times = [convert(value, TIMESTAMP_TYPE).term for value in (left, right)]
    return Interval(Lowered(Call("sql_timestamp_diff", tuple(times)), BIGINT, nullable), "SECOND")


def added(left: Interval, right: Interval, node: exp.Expr, statement: Statement) -> Interval:
    if left.of_months != right.of_months:
        _refuse(node, statement, "an interval of months and of days or less", "Add one after the other to the date.")
    found = Interval(_sum(left.amount, right.amount), max(left.end, right.end, key=_FINENESS.index))
    return _checked(found, node, statement)


def _product(interval: Interval, factor: Lowered, node: exp.Expr, into: Expressions) -> Interval:
    if factor.type.kind is not Kind.NUMBER:
        _refuse(node, into.statement, f"an interval multiplied by a {factor.type}", "Multiply it by a whole number.")
    end = "MONTH" if interval.of_months else "SECOND"
    if isinstance(interval.amount.constant, int):
        return _checked(Interval(_times(factor, interval.amount.constant), end), node, into.statement)
    nullable = interval.amount.nullable or factor.nullable
    return Interval(Lowered(Call("*", (interval.amount.term, factor.term)), BIGINT, nullable), end)


def shifted(value: Lowered, by: Interval, node: exp.Expr, into: Expressions) -> Lowered:
    """A date or a timestamp and an interval."""
    if value.type.kind not in TIMES:
        why = f"an interval cannot be added to a value of type {value.type}"
        into.statement.refuse("SQL_TYPE", node, why=why, hint="Add it to a date or a timestamp: DATE '2024-02-29'.")
    if type(value.constant) is datetime.date and isinstance(by.amount.constant, int) and by.end in ("YEAR", "MONTH", "DAY"):
        return Lowered(Constant(_later(value.constant, by, by.amount.constant, node, into), DATE), DATE_TYPE)
    nullable = value.nullable or by.amount.nullable
    if by.of_months:
        return Lowered(Call("sql_add_months", (value.term, by.amount.term)), value.type, nullable)
    if value.type.kind is Kind.DATE and by.end == "DAY":
        return Lowered(Call("sql_date_add", (value.term, _divided(by.amount, DAY))), DATE_TYPE, nullable)
    value = convert(value, TIMESTAMP_TYPE)
    return Lowered(Call("sql_timestamp_add", (value.term, by.amount.term)), TIMESTAMP_TYPE, nullable)


def _later(day: datetime.date, by: Interval, amount: int, node: exp.Expr, into: Expressions) -> datetime.date:
    try:
        if not by.of_months:
            return day + datetime.timedelta(amount // DAY)
        year, month = divmod(day.year * 12 + day.month - 1 + amount, 12)
        return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
    except (OverflowError, ValueError):
        into.statement.refuse("SQL_TYPE", node, why="there is no such day", hint="Years go from 1 to 9999.")


# ---- what is made of them


def compared(
    left: Lowered | Interval, right: Lowered | Interval, node: exp.Expr, into: Expressions
) -> Sequence[Lowered] | None:
    """What is compared where two intervals are; None if there is none."""
    if isinstance(left, Lowered) and isinstance(right, Lowered):
        return None
    if isinstance(left, Interval) and isinstance(right, Interval) and left.of_months == right.of_months:
        return left.amount, right.amount
    why = "an interval can be compared with another of months, or another of days and less, only"
    into.statement.refuse("SQL_TYPE", node, why=why, hint="datediff gives the number of days between two dates.")


def whole_number(interval: Interval) -> Lowered:
    """CAST(… AS BIGINT): how many of its smallest unit it has."""
    size = MONTHS.get(interval.end) or MICROSECONDS[interval.end]
    return Lowered(_divided(interval.amount, size), BIGINT, interval.amount.nullable)


def part_of(interval: Interval, field: str) -> Lowered | None:
    """EXTRACT of a field; None if it has no such field."""
    find = (_OF_MONTHS if interval.of_months else _OF_TIME).get(field.removesuffix("S"))
    return find(interval.amount) if find is not None else None


def _divided(amount: Lowered, by: int) -> Term:
    """The quotient, cut off behind the point."""
    if isinstance(amount.constant, int):
        whole = abs(amount.constant) // by
        return Constant(whole if amount.constant >= 0 else -whole, NUMBER)
    return Call("/", (amount.term, Constant(by, NUMBER)))


def _rest(amount: Lowered, by: int) -> Lowered:
    return Lowered(Call("%", (amount.term, Constant(by, NUMBER))), BIGINT, amount.nullable)


def seconds(microseconds: Lowered) -> Lowered:
    """A number of microseconds as seconds with their fractions."""
    whole = Call("sql_decimal", (microseconds.term, Constant(18, NUMBER), Constant(0, NUMBER)))
    million = Constant(Decimal(1_000_000), decimal_type(7, 0))
    return Lowered(Call("sql_divide", (whole, million, Constant(6, NUMBER))), SECONDS, microseconds.nullable)


def _field(within: int, size: int) -> Callable[[Lowered], Lowered]:
    def find(amount: Lowered) -> Lowered:
        rest = _rest(amount, within) if within else amount
        return Lowered(_divided(rest, size), BIGINT, amount.nullable)

    return find


_OF_MONTHS: dict[str, Callable[[Lowered], Lowered]] = {"YEAR": _field(0, 12), "MONTH": lambda amount: _rest(amount, 12)}
_OF_TIME: dict[str, Callable[[Lowered], Lowered]] = {
    "DAY": _field(0, DAY),
    "HOUR": _field(DAY, MICROSECONDS["HOUR"]),
    "MINUTE": _field(MICROSECONDS["HOUR"], MICROSECONDS["MINUTE"]),
    "SECOND": lambda amount: seconds(_rest(amount, MICROSECONDS["MINUTE"])),
}
