"""Values at the door: which ones a type has, their text, and how they are stored.

Both engines compute on the same four kinds of stored values: 64-bit integers, doubles, text and bytes.

| type | stored as |
| --- | --- |
| number, unsigned, bool (0, 1) | integer |
| date | integer: days since 1970-01-01 |
| timestamp | integer: microseconds since 1970-01-01 UTC |
| decimal(p,s) | integer: the value times 10**s |
| float / symbol / bytes | double / text / bytes |
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from viewkeeper.program.ast import Value
from viewkeeper.program.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    MAX_PRECISION,
    NUMBER,
    SYMBOL,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)

Stored = int | float | str | bytes | None

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
EPOCH = datetime.date(1970, 1, 1)
EPOCH_TIME = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
FIRST_DAY = (datetime.date.min - EPOCH).days
LAST_DAY = (datetime.date.max - EPOCH).days
MICROSECOND = datetime.timedelta(microseconds=1)
DAY_MICROSECONDS = 86_400_000_000

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?", re.ASCII
)


class BadValue(ValueError):
    """A value that a type does not have; the text says why."""


def type_of_value(value: Value) -> Type:
    """The base type of a Python value."""
    match value:
        case bool():
            return BOOL
        case int():
            return NUMBER
        case float():
            return FLOAT
        case str():
            return SYMBOL
        case bytes():
            return BYTES
        case datetime.datetime():
            return TIMESTAMP
        case datetime.date():
            return DATE
        case Decimal():
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            scale = max(0, -exponent)
            precision = max(1, scale, len(digits) + max(0, exponent))
            if precision > MAX_PRECISION:
                raise BadValue(f"more than {MAX_PRECISION} digits")
            return decimal_type(precision, scale)
    return NUMBER.optional()


# ---- text


def parse_number(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise BadValue("not a whole number")
    return check_number(int(text))


def check_number(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise BadValue("does not fit 64 bits")
    return value


def parse_unsigned(text: str) -> int:
    return check_unsigned(parse_number(text))


def check_unsigned(value: int) -> int:
    if not 0 <= value <= INT_MAX:
        raise BadValue("is negative" if value < 0 else "does not fit 63 bits")
    return value


def parse_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise BadValue("not a number")
    return check_float(float(text))


def check_float(value: float) -> float:
    if not math.isfinite(value):
        raise BadValue("not a finite number")
    return value + 0.0  # -0.0 becomes 0.0


def check_symbol(text: str) -> str:
    if "\x00" in text:
        raise BadValue("contains the character U+0000")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadValue("is not valid Unicode") from None
    return text


def parse_bool(text: str) -> int:
    if text not in ("true", "false"):
        raise BadValue("not true or false")
    return int(text == "true")


def parse_date(text: str) -> int:
    if not _DATE.fullmatch(text):
        raise BadValue("not a date such as 2024-02-29")
    try:
        return (datetime.date.fromisoformat(text) - EPOCH).days
    except ValueError:
        raise BadValue("no such day") from None


def parse_timestamp(text: str) -> int:
    if _DATE.fullmatch(text):
        return parse_date(text) * DAY_MICROSECONDS
    if not _TIME.fullmatch(text):
        raise BadValue("not a timestamp such as 2024-02-29T12:30:00Z")
    try:
        moment = datetime.datetime.fromisoformat(text)
        return store_timestamp(moment)
    except (ValueError, OverflowError):
        raise BadValue("no such time") from None


def parse_decimal(text: str, precision: int, scale: int) -> int:
    if not _DECIMAL.fullmatch(text):
        raise BadValue("not a decimal number")
    return store_decimal(Decimal(text), precision, scale)


def parse_bytes(text: str) -> bytes:
    try:
        if text.strip() != text or not text.isascii():
            raise ValueError
        return bytes.fromhex(text)
    except ValueError:
        raise BadValue("not hexadecimal bytes") from None


def text_parser(type_: Type) -> Callable[[str], Stored]:
    """From the text of files and of ``to_…`` functions to the stored value; raises BadValue."""
    match type_.kind:
        case Kind.DECIMAL:
            return lambda text: parse_decimal(text, type_.precision, type_.scale)
        case kind:
            return _PARSERS[kind]


_PARSERS: dict[Kind, Callable[[str], Stored]] = {
    Kind.NUMBER: parse_number,
    Kind.UNSIGNED: parse_unsigned,
    Kind.FLOAT: parse_float,
    Kind.SYMBOL: check_symbol,
    Kind.BOOL: parse_bool,
    Kind.DATE: parse_date,
    Kind.TIMESTAMP: parse_timestamp,
    Kind.BYTES: parse_bytes,
}


def format_date(days: int) -> str:
    return (EPOCH + datetime.timedelta(days)).isoformat()


def format_timestamp(microseconds: int) -> str:
    return (EPOCH_TIME + datetime.timedelta(microseconds=microseconds)).strftime("%04Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def format_decimal(scaled: int, scale: int) -> str:
    return format(Decimal(scaled).scaleb(-scale), "f")


def text_formatter(type_: Type) -> Callable[[Stored], str]:
    """From the stored value to its text; NULL is the empty text."""
    form: Callable[[Any], str]
    match type_.kind:
        case Kind.BOOL:
            form = _format_bool
        case Kind.DATE:
            form = format_date
        case Kind.TIMESTAMP:
            form = format_timestamp
        case Kind.DECIMAL:
            scale = type_.scale
            form = lambda value: format_decimal(value, scale)  # noqa: E731
        case Kind.FLOAT:
            form = repr
        case Kind.BYTES:
            form = bytes.hex
        case _:
            form = str
    return _or_empty(form)


def _or_empty(form: Callable[[Any], str]) -> Callable[[Stored], str]:
    return lambda value: "" if value is None else form(value)


def _format_bool(value: int) -> str:
    return "true" if value else "false"


# ---- Python values


def store_timestamp(moment: datetime.datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    stored = (moment - EPOCH_TIME) // MICROSECOND
    if not FIRST_DAY * DAY_MICROSECONDS <= stored < (LAST_DAY + 1) * DAY_MICROSECONDS:
        raise BadValue("no such time")
    return stored


def store_decimal(value: Decimal, precision: int, scale: int) -> int:
    try:
        scaled = value.scaleb(scale)
        whole = int(scaled)
    except (InvalidOperation, ValueError, OverflowError):
        raise BadValue("not a finite number") from None
    if scaled != whole:
        raise BadValue(f"has more than {scale} digits after the point")
    if abs(whole) >= 10**precision:
        raise BadValue(f"has more than {precision} digits")
    return whole


def store_decimals(values: Sequence[Decimal], precision: int, scale: int) -> list[int]:
    """The same of many, without saying which does not fit."""
    try:
        scaled = [value.scaleb(scale) for value in values]
        whole = [int(value) for value in scaled]
    except (InvalidOperation, ValueError, OverflowError):
        raise BadValue("not finite numbers") from None
    if scaled != whole or max(map(abs, whole)) >= 10**precision:
        raise BadValue("with too many digits")
    return whole


def store_date(day: datetime.date) -> int:
    return (day - EPOCH).days


def store_dates(days: Sequence[datetime.date]) -> list[int]:
    first = EPOCH.toordinal()
    return [day.toordinal() - first for day in days]


def plain_check(type_: Type) -> tuple[type, Callable[[Any], Stored]] | None:
    """The Python class that values of the type usually have, and how one of just this class is stored."""
    match type_.kind:
        case Kind.NUMBER:
            return int, check_number
        case Kind.UNSIGNED:
            return int, check_unsigned
        case Kind.FLOAT:
            return float, check_float
        case Kind.SYMBOL:
            return str, check_symbol
        case Kind.DATE:
            return datetime.date, store_date
        case Kind.DECIMAL:
            return Decimal, partial(store_decimal, precision=type_.precision, scale=type_.scale)
    return None


def store(value: object, type_: Type) -> Stored:
    """A Python value in stored form; raises BadValue where the type does not have it."""
    if value is None:
        if type_.nullable:
            return None
        raise BadValue("no value (NULL) in a column without `?`")
    kind = type_.kind
    if kind is Kind.BOOL:
        if isinstance(value, bool):
            return int(value)
    elif isinstance(value, bool):
        pass
    elif kind is Kind.NUMBER and isinstance(value, int):
        return check_number(value)
    elif kind is Kind.UNSIGNED and isinstance(value, int):
        return check_unsigned(value)
    elif kind is Kind.FLOAT and isinstance(value, (int, float)):
        return check_float(float(value))
    elif kind is Kind.SYMBOL and isinstance(value, str):
        return check_symbol(value)
    elif kind is Kind.BYTES and isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    elif kind is Kind.TIMESTAMP and isinstance(value, datetime.datetime):
        return store_timestamp(value)
    elif kind is Kind.DATE and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return store_date(value)
    elif kind is Kind.DECIMAL and isinstance(value, (int, Decimal)):
        return store_decimal(Decimal(value), type_.precision, type_.scale)
    raise BadValue(f"is of type {type(value).__name__}, not {type_}")


def restore(stored: Stored, type_: Type) -> Value:
    """The Python value of a stored one."""
    if stored is None:
        return None
    match type_.kind:
        case Kind.BOOL:
            return bool(stored)
        case Kind.DATE:
            assert isinstance(stored, int)
            return EPOCH + datetime.timedelta(stored)
        case Kind.TIMESTAMP:
            assert isinstance(stored, int)
            return EPOCH_TIME + datetime.timedelta(microseconds=stored)
        case Kind.DECIMAL:
            assert isinstance(stored, int)
            return Decimal(stored).scaleb(-type_.scale)
    return stored
