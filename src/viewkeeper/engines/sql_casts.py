"""SQL's casts to and from texts in Python."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from viewkeeper.engines.scalar import Failure, finite
from viewkeeper.engines.sql_dates import fit_time, make_date, parse_time
from viewkeeper.engines.sql_numbers import attempted, exact_to_decimal
from viewkeeper.program.values import DAY_MICROSECONDS, EPOCH_TIME, INT_MAX, INT_MIN

# ---- to texts


def float_text(value: float) -> str:
    """As Java writes it: 1.0, 1.0E7, 1.0E-4."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if value == 0:
        return "0.0"
    if point > 7 or point < -2:
        return f"{minus}{figures[0]}.{figures[1:] or '0'}E{point - 1}"
    padded = "0" * max(0, 1 - point) + figures.ljust(point, "0")
    whole = max(1, point)
    return f"{minus}{padded[:whole]}.{padded[whole:] or '0'}"


def time_text(time: int) -> str:
    moment = EPOCH_TIME + datetime.timedelta(microseconds=time)
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return moment.replace(tzinfo=None, microsecond=0).isoformat(" ") + fraction


# ---- from texts

_BLANK = "".join(map(chr, range(1, 33)))
_BLANK_OR_DELETE = _BLANK + "\x7f"
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity|nan)", re.ASCII | re.IGNORECASE)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", re.ASCII)
_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_ZONE = r"\s*(Z|(?:UTC|GMT|UT)?(?:[+-](?:[0-9]{4}|[0-9]{6}|[0-9]{1,2}(?::[0-9]{1,2}(?::[0-9]{2})?)?))?)?"
_TIME = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    rf"(?:[ T]([0-9]{{1,2}})(?::([0-9]{{1,2}})(?::([0-9]{{1,2}})(?:\.([0-9]*))?{_ZONE})?)?)?)?)?",
    re.ASCII,
)
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})


def _bad(function: str, text: str, why: str) -> Failure:
    return Failure("BAD_TEXT", function=function, value=text, why=why)


def sql_text_to_number(text: str) -> int:
    found = text.strip(_BLANK_OR_DELETE)
    if not _WHOLE.fullmatch(found) or not INT_MIN <= int(found) <= INT_MAX:
        raise _bad("sql_text_to_number", text, "not a whole number of 64 bits")
    return int(found)


def sql_text_to_float(text: str) -> float:
    found = text.strip(_BLANK)
    if _NOT_FINITE.fullmatch(found):
        raise Failure("OVERFLOW")
    if not _REAL.fullmatch(found):
        raise _bad("sql_text_to_float", text, "not a number")
    return finite(float(found.rstrip("dDfF")))


def sql_text_to_decimal(text: str, precision: int = 18, scale: int = 0) -> int:
    found = text.strip(_BLANK)
    if not _DECIMAL.fullmatch(found):
        raise _bad("sql_text_to_decimal", text, "not a decimal number")
    return exact_to_decimal(Decimal(found), scale, precision)


def sql_text_to_bool(text: str) -> int:
    found = text.strip(_BLANK_OR_DELETE).lower()
    if found not in _TRUE | _FALSE:
        raise _bad("sql_text_to_bool", text, "not true or false")
    return int(found in _TRUE)


def sql_text_to_date(text: str) -> int:
    found = _DATE.fullmatch(text.strip(_BLANK_OR_DELETE))
    if not found:
        raise _bad("sql_text_to_date", text, "not a date such as 2024-02-29")
    return _date(found, "sql_text_to_date", text)


def _date(found: re.Match[str], function: str, text: str) -> int:
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise _bad(function, text, "no such day")
    if not 1 <= year <= 9999:
        raise Failure("OVERFLOW")
    try:
        return make_date(year, month, day)
    except Failure:
        raise _bad(function, text, "no such day") from None


def sql_text_to_timestamp(text: str) -> int:
    found = _TIME.fullmatch(text.strip(_BLANK_OR_DELETE))
    if not found:
        raise _bad("sql_text_to_timestamp", text, "not a time such as 2024-02-29 12:30:00")
    hour, minute, second = (int(found[i] or 0) for i in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise _bad("sql_text_to_timestamp", text, "no such time")
    zone = _zone(found[8] or "")
    if zone is None:
        raise _bad("sql_text_to_timestamp", text, "no such time zone")
    seconds = hour * 3600 + minute * 60 + second - zone
    microseconds = int((found[7] or "")[:6].ljust(6, "0"))
    return fit_time(_date(found, "sql_text_to_timestamp", text) * DAY_MICROSECONDS + seconds * 1_000_000 + microseconds)


def _zone(text: str) -> int | None:
    """Seconds east of Greenwich."""
    found = re.fullmatch(r"[A-Z]*(?:([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?)?", text)
    assert found is not None
    hours, minutes, seconds = (int(found[i] or 0) for i in (2, 3, 4))
    total = hours * 3600 + minutes * 60 + seconds
    if total > 18 * 3600 or minutes > 59 or seconds > 59:
        return None
    return -total if found[1] == "-" else total


# Name in SQL → function and, for Spark, the type of its result.
CASTS: dict[str, tuple[Callable[..., Any], str]] = {
    "vk_sql_float_text": (float_text, "string"),
    "vk_sql_time_text": (time_text, "string"),
    "vk_sql_text_to_number": (sql_text_to_number, "bigint"),
    "vk_sql_text_to_float": (sql_text_to_float, "double"),
    "vk_sql_text_to_decimal": (sql_text_to_decimal, "bigint"),
    "vk_sql_text_to_bool": (sql_text_to_bool, "bigint"),
    "vk_sql_text_to_date": (sql_text_to_date, "bigint"),
    "vk_sql_text_to_timestamp": (sql_text_to_timestamp, "bigint"),
    "vk_sql_try_text_to_number": (attempted(sql_text_to_number, "BAD_TEXT"), "bigint"),
    "vk_sql_try_text_to_float": (attempted(sql_text_to_float, "BAD_TEXT"), "double"),
    "vk_sql_try_text_to_decimal": (attempted(sql_text_to_decimal, "BAD_TEXT", "OVERFLOW"), "bigint"),
    "vk_sql_try_text_to_bool": (attempted(sql_text_to_bool, "BAD_TEXT"), "bigint"),
    # A year of more than four digits is a date in Spark, and so it fails here.
    "vk_sql_try_text_to_date": (attempted(sql_text_to_date, "BAD_TEXT"), "bigint"),
    "vk_sql_try_parse_time": (attempted(parse_time, "BAD_TEXT"), "bigint"),
    "vk_sql_try_text_to_timestamp": (attempted(sql_text_to_timestamp, "BAD_TEXT"), "bigint"),
}
