"""SQL's functions of dates (days since 1970) and timestamps (microseconds) in Python."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from typing import Any

from viewkeeper.engines.scalar import Failure
from viewkeeper.program.sql_functions import UNITS
from viewkeeper.program.values import DAY_MICROSECONDS, EPOCH, EPOCH_TIME, FIRST_DAY, LAST_DAY

_MICROSECONDS = {
    "DAY": DAY_MICROSECONDS, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip


def fit_days(days: int) -> int:
    if not FIRST_DAY <= days <= LAST_DAY:
        raise Failure("OVERFLOW")
    return days


def fit_time(microseconds: int) -> int:
    fit_days(microseconds // DAY_MICROSECONDS)
    return microseconds


def date_of(days: int) -> datetime.date:
    return EPOCH + datetime.timedelta(days)


def _days(date: datetime.date) -> int:
    return (date - EPOCH).days


PARTS: dict[str, Callable[[datetime.date], int]] = {
    "year": lambda date: date.year,
    "month": lambda date: date.month,
    "day": lambda date: date.day,
    "quarter": lambda date: (date.month + 2) // 3,
    "day_of_week": lambda date: date.isoweekday() % 7 + 1,
    "weekday": lambda date: date.weekday(),
    "day_of_year": lambda date: date.timetuple().tm_yday,
    "week_of_year": lambda date: date.isocalendar().week,
}


def part(name: str) -> Callable[[int], int]:
    find = PARTS[name]
    return lambda days: find(date_of(days))


def time_part(name: str) -> Callable[[int], int]:
    find = PARTS[name]
    return lambda time: find(date_of(time // DAY_MICROSECONDS))


def make_date(year: int, month: int, day: int) -> int:
    try:
        return _days(datetime.date(year, month, day))
    except (ValueError, OverflowError):
        raise Failure("OVERFLOW") from None


def add_months(days: int, months: int) -> int:
    """The same day of another month, or its last one if it has fewer."""
    date = date_of(days)
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise Failure("OVERFLOW")
    return make_date(year, month + 1, min(date.day, calendar.monthrange(year, month + 1)[1]))


def time_add_months(time: int, months: int) -> int:
    days, rest = divmod(time, DAY_MICROSECONDS)
    return add_months(days, months) * DAY_MICROSECONDS + rest


def last_day(days: int) -> int:
    date = date_of(days)
    return _days(date.replace(day=calendar.monthrange(date.year, date.month)[1]))


def truncate(days: int, unit: str) -> int:
    date = date_of(days)
    match UNITS[unit.upper()]:
        case "YEAR":
            return _days(date.replace(month=1, day=1))
        case "QUARTER":
            return _days(date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1))
        case "MONTH":
            return _days(date.replace(day=1))
    return days - date.weekday()


def time_truncate(unit: str, time: int) -> int:
    size = _MICROSECONDS.get(UNITS[unit.upper()])
    if size is not None:
        return time // size * size
    return truncate(time // DAY_MICROSECONDS, unit) * DAY_MICROSECONDS


# ---- texts of times

_TOKENS = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|(.)", re.DOTALL)
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# Letter → the number it stands for, and how many of them there may be.
_NUMBERS: dict[str, tuple[Callable[[datetime.datetime], int], int]] = {
    "d": (lambda t: t.day, 2),
    "D": (lambda t: t.timetuple().tm_yday, 3),
    "H": (lambda t: t.hour, 2),
    "k": (lambda t: t.hour or 24, 2),
    "K": (lambda t: t.hour % 12, 2),
    "h": (lambda t: t.hour % 12 or 12, 2),
    "m": (lambda t: t.minute, 2),
    "s": (lambda t: t.second, 2),
}


def format_time(time: int, pattern: str) -> str:
    """The time in a pattern of Java's letters, as far as they are known here."""
    moment = EPOCH_TIME + datetime.timedelta(microseconds=time)
    parts = []
    for quoted, run, letter, other in _TOKENS.findall(pattern):
        if run:
            parts.append(_formatted(moment, letter, len(run), pattern))
        elif other == "'" or other in ("[", "]", "{", "}", "#"):
            raise _unknown(pattern, other)
        else:
            parts.append(other or quoted.replace("''", "'") or "'")
    return "".join(parts)


def _formatted(moment: datetime.datetime, letter: str, count: int, pattern: str) -> str:
    match letter:
        case "y" | "u" if count == 2:
            return f"{moment.year % 100:02}"
        case "y" | "u" if count <= 6:
            return str(moment.year).zfill(count)
        case "M" | "L" if count == 3:
            return _MONTHS[moment.month - 1][:3]
        case "M" | "L" if count == 4:
            return _MONTHS[moment.month - 1]
        case "M" | "L" if count < 3:
            return str(moment.month).zfill(count)
        case "E" if count < 4:
            return _WEEKDAYS[moment.weekday()][:3]
        case "E" if count == 4:
            return _WEEKDAYS[moment.weekday()]
        case "a" if count == 1:
            return "AM" if moment.hour < 12 else "PM"
        case "S" if count <= 9:
            return f"{moment.microsecond:06}000"[:count]
        case "Q" | "q" if count < 3:
            return str((moment.month + 2) // 3).zfill(count)
    if letter in _NUMBERS and count <= _NUMBERS[letter][1]:
        return str(_NUMBERS[letter][0](moment)).zfill(count)
    raise _unknown(pattern, letter * count)


def _unknown(pattern: str, part: str) -> Failure:
    return Failure("BAD_TEXT", function="sql_date_format", value=pattern, why=f"{part!r} is not known in patterns of times")


# Name in SQL → function and, for Spark, the type of its result.
DATES: dict[str, tuple[Callable[..., Any], str]] = {
    **{f"vk_sql_{name}": (part(name), "bigint") for name in PARTS},
    **{f"vk_sql_time_{name}": (time_part(name), "bigint") for name in PARTS},
    "vk_sql_hour": (lambda time: time // _MICROSECONDS["HOUR"] % 24, "bigint"),
    "vk_sql_minute": (lambda time: time // _MICROSECONDS["MINUTE"] % 60, "bigint"),
    "vk_sql_second": (lambda time: time // _MICROSECONDS["SECOND"] % 60, "bigint"),
    "vk_sql_date_of": (lambda time: time // DAY_MICROSECONDS, "bigint"),
    "vk_sql_fit_days": (fit_days, "bigint"),
    "vk_sql_fit_time": (fit_time, "bigint"),
    "vk_sql_make_date": (make_date, "bigint"),
    "vk_sql_add_months": (add_months, "bigint"),
    "vk_sql_time_add_months": (time_add_months, "bigint"),
    "vk_sql_last_day": (last_day, "bigint"),
    "vk_sql_trunc": (truncate, "bigint"),
    "vk_sql_date_trunc": (time_truncate, "bigint"),
    "vk_sql_date_format": (format_time, "string"),
}
