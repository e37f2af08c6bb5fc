"""SQL's functions of dates (days since 1970) and timestamps (microseconds) in Python."""

from __future__ import annotations

import calendar
import datetime
import math
from collections.abc import Callable, Mapping
from typing import Any

from viewkeeper.engines.scalar import Failure
from viewkeeper.program.sql_functions import UNITS
from viewkeeper.program.time_patterns import MONTH_NAMES, WEEKDAY_NAMES, BadTimePattern, reading_pattern, writing_pattern
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

_NUMBERS: dict[str, Callable[[datetime.datetime], int]] = {
    "M": lambda t: t.month,
    "L": lambda t: t.month,
    "d": lambda t: t.day,
    "D": lambda t: t.timetuple().tm_yday,
    "H": lambda t: t.hour,
    "k": lambda t: t.hour or 24,
    "K": lambda t: t.hour % 12,
    "h": lambda t: t.hour % 12 or 12,
    "m": lambda t: t.minute,
    "s": lambda t: t.second,
    "Q": lambda t: (t.month + 2) // 3,
    "q": lambda t: (t.month + 2) // 3,
}


def format_time(time: int, pattern: str) -> str:
    """The time in a pattern of Java's letters, as far as they are known here."""
    moment = EPOCH_TIME + datetime.timedelta(microseconds=time)
    try:
        parts = writing_pattern(pattern)
    except BadTimePattern as error:
        raise Failure("BAD_TEXT", function="sql_date_format", value=pattern, why=str(error)) from None
    return "".join(_formatted(moment, run[0], len(run)) if run else text for run, text in parts)


def _formatted(moment: datetime.datetime, letter: str, count: int) -> str:
    match letter:
        case "y" | "u":
            return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)
        case "M" | "L" if count > 2:
            return MONTH_NAMES[moment.month - 1][: None if count == 4 else 3]
        case "E":
            return WEEKDAY_NAMES[moment.weekday()][: None if count == 4 else 3]
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "S":
            return f"{moment.microsecond:06}000"[:count]
    return str(_NUMBERS[letter](moment)).zfill(count)


def parse_time(text: str, pattern: str) -> int:
    """The time that is written in a pattern of Java's letters."""
    why = f"not a time in the pattern {pattern!r}"
    try:
        found = reading_pattern(pattern).fullmatch(text)
        if found is not None:
            return _parsed(found.groupdict())
    except BadTimePattern as error:
        why = str(error)
    except (ValueError, OverflowError):
        pass
    raise Failure("BAD_TEXT", function="sql_parse_time", value=text, why=why)


def _parsed(parts: Mapping[str, str]) -> int:
    year = int(parts.get("y") or 1970) if "yy" not in parts else 2000 + int(parts["yy"])
    month = parts.get("M", "1")
    number = int(month) if month.isdigit() else [name[:3].lower() for name in MONTH_NAMES].index(month[:3].lower()) + 1
    hour = int(parts.get("H", "0"))
    if "h" in parts:
        if not 1 <= int(parts["h"]) <= 12:
            raise ValueError
        hour = int(parts["h"]) % 12 + (12 if parts["a"].lower() == "pm" else 0)
    day = datetime.date(year, number, int(parts.get("d", "1")))
    fraction = int(parts.get("S", "0").ljust(6, "0"))
    moment = datetime.time(hour, int(parts.get("m", "0")), int(parts.get("s", "0")), fraction)
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return _days(day) * DAY_MICROSECONDS + seconds * 1_000_000 + fraction


# ---- between two times


def months_between(one: int, other: int, rounded: int) -> float:
    """Months, and the days that are left as parts of 31."""
    dates = date_of(one // DAY_MICROSECONDS), date_of(other // DAY_MICROSECONDS)
    months = (dates[0].year - dates[1].year) * 12 + dates[0].month - dates[1].month
    ends = [calendar.monthrange(date.year, date.month)[1] == date.day for date in dates]
    if dates[0].day == dates[1].day or all(ends):
        return float(months)
    times = one % DAY_MICROSECONDS // 1_000_000, other % DAY_MICROSECONDS // 1_000_000
    seconds = (dates[0].day - dates[1].day) * 86_400 + times[0] - times[1]
    exact = months + seconds / (31 * 86_400)
    return math.floor(exact * 1e8 + 0.5) / 1e8 if rounded else exact


def months_until(start: int, end: int) -> int:
    """Whole months from one time to another."""
    (first, since), (last, until) = divmod(start, DAY_MICROSECONDS), divmod(end, DAY_MICROSECONDS)
    if last > first and until < since:
        last -= 1
    elif last < first and until > since:
        last += 1
    dates = date_of(first), date_of(last)
    days = [(date.year * 12 + date.month) * 32 + date.day for date in dates]
    months = abs(days[1] - days[0]) // 32
    return months if days[1] >= days[0] else -months


_WEEKDAYS = {name[:count].upper(): number for number, name in enumerate(WEEKDAY_NAMES) for count in (2, 3, len(name))}


def next_day(days: int, name: str) -> int:
    """The next day of a name after a date."""
    if name.upper() not in _WEEKDAYS:
        raise Failure("BAD_TEXT", function="sql_next_day", value=name, why="not a day of the week")
    return fit_days(days + 1 + (_WEEKDAYS[name.upper()] - date_of(days).weekday() - 1) % 7)


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, microseconds: int) -> int:
    full = 0 <= microseconds < 60_000_000 or microseconds == 60_000_000
    if not (0 <= hour <= 23 and 0 <= minute <= 59 and full):
        raise Failure("OVERFLOW")
    return fit_time(make_date(year, month, day) * DAY_MICROSECONDS + (hour * 60 + minute) * 60_000_000 + microseconds)


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
    "vk_sql_parse_time": (parse_time, "bigint"),
    "vk_sql_months_between": (months_between, "double"),
    "vk_sql_months_until": (months_until, "bigint"),
    "vk_sql_next_day": (next_day, "bigint"),
    "vk_sql_make_timestamp": (make_timestamp, "bigint"),
}
