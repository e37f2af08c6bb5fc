"""What goes over the wire: values, columns, errors and events, for the server and for its clients.

| type | Python | JSON |
| --- | --- | --- |
| number, unsigned, symbol, bool, no value | int, str, bool, None | as they are |
| float | float | a number; "NaN", "Infinity", "-Infinity" |
| decimal(p,s) | Decimal | text with all digits: "1.50" |
| date | date | "2026-01-31" |
| timestamp | datetime in UTC | "2026-01-31T12:00:00.000000Z" |
| bytes | bytes | hexadecimal text |

A type is told by its printed name: ``decimal(10,2)?``. Nothing is imported here but msgspec, so that a client is small.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import msgspec

Value: TypeAlias = int | float | str | bool | datetime.date | datetime.datetime | Decimal | bytes | None
Coder: TypeAlias = Callable[[Any], Any]

SNAPSHOT, RESET, CHANGE, HINT, HEARTBEAT, END = "snapshot", "reset", "change", "hint", "heartbeat", "end"
"""The events of a subscription."""


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column: its name, the printed name of its base type, whether it is part of the key, and the declared name of its type."""

    name: str
    type: str
    key: bool
    named: str | None = None


class Place(msgspec.Struct, frozen=True):
    """Where in a text a problem is; lines and columns count from 1."""

    source: str
    line: int | None = None
    column: int | None = None


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong. ``rendered`` is the text that the command line prints."""

    code: str
    message: str
    hint: str
    place: Place | None = None
    rendered: str | None = None


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every error answers. ``kind`` names its class: program, evaluation, data, store or engine."""

    code: str
    message: str
    hint: str
    kind: str
    problems: tuple[ProblemBody, ...]
    violations: dict[str, ViolationBody] | None = None


class ViolationBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rows that came to an integrity view; ``messages`` has the view's message filled in for each row."""

    level: str
    message: str
    rows: list[list[Any]]
    columns: tuple[Column, ...]
    messages: list[str] | None = None


class Envelope(msgspec.Struct, frozen=True):
    """The body of every answer that is not 2xx."""

    error: ErrorBody


# ---- values


def kind_of(type_name: str) -> str:
    """The family of a printed type.

    >>> kind_of("decimal(10,2)?"), kind_of("symbol?"), kind_of("date")
    ('decimal', 'symbol', 'date')
    """
    return type_name.removesuffix("?").partition("(")[0]


def encode(value: Value, type_name: str) -> Any:
    """A Python value as JSON has it.

    >>> encode(Decimal("1.50"), "decimal(10,2)"), encode(b"\\x00\\xff", "bytes"), encode(float("nan"), "float"), encode(None, "date?")
    ('1.50', '00ff', 'NaN', None)
    >>> encode(datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC), "timestamp")
    '2026-01-31T12:00:00.000000Z'
    """
    coder = _ENCODERS.get(kind_of(type_name))
    return value if coder is None or value is None else coder(value)


def decode(value: Any, type_name: str) -> Value:
    """The Python value of what JSON has; raises ValueError where it is none of the type.

    >>> decode("1.50", "decimal(10,2)"), decode("00ff", "bytes"), decode("-Infinity", "float"), decode(None, "number?")
    (Decimal('1.50'), b'\\x00\\xff', -inf, None)
    >>> decode("2026-01-31", "date"), decode(3, "float")
    (datetime.date(2026, 1, 31), 3.0)
    >>> decode("many", "number")
    Traceback (most recent call last):
    ValueError: 'many' is no number
    """
    if value is None:
        return None
    kind = kind_of(type_name)
    try:
        return _DECODERS[kind](value)  # type: ignore[no-any-return]
    except (ValueError, TypeError, KeyError, InvalidOperation):
        raise ValueError(f"{value!r} is no {kind}") from None


def encode_row(row: Sequence[Value], types: Sequence[str]) -> list[Any]:
    """A row as JSON has it.

    >>> encode_row(("bash", 1, datetime.date(2026, 1, 31)), ["symbol", "number?", "date"])
    ['bash', 1, '2026-01-31']
    """
    return [encode(value, type_name) for value, type_name in zip(row, types, strict=True)]


def decode_row(row: Sequence[Any], types: Sequence[str]) -> tuple[Value, ...]:
    """The Python values of a row.

    >>> decode_row(["bash", None, "2026-01-31"], ["symbol", "number?", "date"])
    ('bash', None, datetime.date(2026, 1, 31))
    """
    return tuple(decode(value, type_name) for value, type_name in zip(row, types, strict=True))


def encode_rows(rows: Iterable[Sequence[Value]], types: Sequence[str]) -> list[list[Any]]:
    """Many rows as JSON has them; columns that are the same there cost nothing.

    >>> encode_rows([("a", Decimal(1)), ("b", None)], ["symbol", "decimal(3,0)?"])
    [['a', '1'], ['b', None]]
    """
    changed = [(place, _ENCODERS[kind_of(name)]) for place, name in enumerate(types) if kind_of(name) in _ENCODERS]
    found = [list(row) for row in rows]
    for place, coder in changed:
        for row in found:
            if row[place] is not None:
                row[place] = coder(row[place])
    return found


def decode_rows(rows: Iterable[Sequence[Any]], types: Sequence[str]) -> list[tuple[Value, ...]]:
    """The Python values of many rows.

    >>> decode_rows([["a", "1"], ["b", None]], ["symbol", "decimal(3,0)?"])
    [('a', Decimal('1')), ('b', None)]
    >>> decode_rows([["a", "x"]], ["symbol", "number"])
    Traceback (most recent call last):
    ValueError: 'x' is no number
    """
    coders = [_DECODERS[kind_of(name)] for name in types]
    found: list[tuple[Value, ...]] = []
    try:
        for row in rows:
            found.append(tuple([None if value is None else coder(value) for coder, value in zip(coders, row, strict=True)]))
    except (ValueError, TypeError, InvalidOperation):
        decode_row(row, types)  # says what is wrong
        raise
    return found


def _encode_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _encode_timestamp(value: datetime.datetime) -> str:
    moment = value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_ENCODERS: dict[str, Coder] = {
    "float": _encode_float,
    "decimal": lambda value: format(value, "f"),
    "date": datetime.date.isoformat,
    "timestamp": _encode_timestamp,
    "bytes": bytes.hex,
}


def _same(*classes: type) -> Coder:
    def check(value: Any) -> Any:
        if type(value) not in classes:
            raise TypeError
        return value

    return check


def _decode_float(value: Any) -> float:
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity") or isinstance(value, bool):
        raise ValueError
    return float(value)


def _decode_decimal(value: Any) -> Decimal:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise TypeError
    found = Decimal(value)
    if not found.is_finite():
        raise ValueError
    return found


_DECODERS: dict[str, Coder] = {
    "number": _same(int),
    "unsigned": _same(int),
    "symbol": _same(str),
    "bool": _same(bool),
    "float": _decode_float,
    "decimal": _decode_decimal,
    "date": lambda value: datetime.date.fromisoformat(value),
    "timestamp": lambda value: datetime.datetime.fromisoformat(value).astimezone(datetime.UTC),
    "bytes": bytes.fromhex,
}


# ---- events


def event(name: str, data: bytes, number: int | None = None) -> bytes:
    """One Server-Sent Event; ``data`` is JSON, which has no line breaks.

    >>> event("heartbeat", b'{"commit":7}', 7)
    b'event: heartbeat\\nid: 7\\ndata: {"commit":7}\\n\\n'
    """
    place = b"" if number is None else b"id: %d\n" % number
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), place, data)
