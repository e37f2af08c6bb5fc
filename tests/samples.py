"""Values of every type: the limits and pitfalls of each, then random ones. And how a program writes them down."""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

Value = int | float | str | bool | date | datetime | Decimal | bytes | None
Row = tuple[Value, ...]

LOWEST, HIGHEST = -(2**63), 2**63 - 1

NUMBERS = [
    0, 1, -1, 2, -2, 3, -7, 10, 62, 63, 64, -64, 2**31, -(2**31) - 1, 2**32, 3037000499, 3037000500, -3037000500,
    2**53 + 1, 10**18, 2**62, -(2**62), HIGHEST - 1, HIGHEST, LOWEST + 1, LOWEST,
]  # fmt: skip
FLOATS = [
    0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 0.1, -3.7, 1e16, 1e22, 123456.789, 2.0**53, 2.0**63, -(2.0**63), 9.223372036854775e18,
    math.nextafter(-(2.0**63), -math.inf), 5e-324, -5e-324, 2.2250738585072014e-308, 1e-300, 1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
]  # fmt: skip
SYMBOLS = [
    "", "a", "A", "b", "ab", "abc", " ", " a ", "0", "10", "9", "%", "_", "a%", 'say "hi"', "back\\slash", "two\nlines", "tab\t.",
    "\r", "\x01", "\x7f", "é", "e\u0301", "ß", "ẞ", "日本語", "\ud7ff", "\ue000", "\uffff", "\U00010000", "😀", "a😀é", "\U0010ffff",
    "null", "true", "x" * 300,
]  # fmt: skip
DATES = [
    date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(1969, 12, 31), date(2000, 2, 29), date(1900, 3, 1), date(1582, 10, 4),
    date(1582, 10, 15), date(1582, 10, 10), date(999, 12, 31), date(2024, 2, 29),
]  # fmt: skip
TIMESTAMPS = [
    datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1582, 10, 10, 12, 0, 0, 1, UTC), datetime(1883, 11, 18, 12, tzinfo=UTC),
    datetime(2024, 3, 31, 2, 30, tzinfo=UTC), datetime(2024, 2, 29, 12, 30, 0, 250000, UTC), datetime(999, 6, 7, 8, 9, 10, 11, UTC),
]  # fmt: skip
BYTES = [
    b"",
    b"\x00",
    b"\x00\x00",
    b"\x01",
    b"a",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\x00",
    b"ab",
    b"\xc3\xa9",
    bytes(range(256)),
]
BOOLS = [False, True]


def decimals(precision: int, scale: int) -> list[Decimal]:
    top = 10**precision - 1
    unscaled = {0, 1, -1, 7, -7, 10**scale, -(10**scale), 10**precision // 2, 3 * 10 ** (precision // 2), top - 1, top, -top}
    return [of_scale(n, scale) for n in sorted(unscaled) if abs(n) <= top]


def of_scale(unscaled: int, scale: int) -> Decimal:
    """Exactly, whatever the current context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def digits_of(type_: str) -> tuple[int, int]:
    """decimal(12,2) → 12, 2"""
    precision, scale = type_.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def limits(type_: str) -> Sequence[Value]:
    """The values of a type that are easily got wrong."""
    if type_.startswith("decimal"):
        return decimals(*digits_of(type_))
    return {
        "number": NUMBERS,
        "unsigned": [n for n in NUMBERS if n >= 0],
        "float": FLOATS,
        "symbol": SYMBOLS,
        "bool": BOOLS,
        "date": DATES,
        "timestamp": TIMESTAMPS,
        "bytes": BYTES,
    }[type_]


def any_value(type_: str, rng: random.Random) -> Value:
    """A random value of a type, from all orders of magnitude."""
    if type_.startswith("decimal"):
        precision, scale = digits_of(type_)
        return of_scale(rng.choice([1, -1]) * rng.randrange(10 ** rng.randint(0, precision)), scale)
    match type_:
        case "number":
            return max(LOWEST, min(HIGHEST, rng.choice([1, -1]) * rng.getrandbits(rng.randint(1, 63))))
        case "unsigned":
            return rng.getrandbits(rng.randint(1, 63))
        case "float":
            if rng.random() < 0.5:
                return round(rng.uniform(-1000, 1000), rng.randint(0, 6)) + 0.0
            value = struct.unpack("d", rng.randbytes(8))[0]
            return value + 0.0 if math.isfinite(value) else 0.25
        case "symbol":
            return "".join(rng.choice("abzAZ019 _-.,\"'\\\n\té日😀\U0010ffff") for _ in range(rng.randint(0, 9)))
        case "bool":
            return rng.random() < 0.5
        case "date":
            return date(1, 1, 1) + timedelta(rng.randrange(3652059))
        case "timestamp":
            return datetime(1, 1, 1, tzinfo=UTC) + timedelta(rng.randrange(3652059), rng.randrange(86400), rng.randrange(10**6))
        case "bytes":
            return rng.randbytes(rng.randint(0, 6))
    raise AssertionError(type_)


def tuples(types: Sequence[str], count: int, seed: str) -> Iterator[Row]:
    """Argument tuples: NULL in every place, the limits with each other as far as that is affordable, then ``count`` random ones."""
    rng = random.Random(seed)
    for place in range(len(types)):
        for _ in range(2):
            yield tuple(None if i == place else any_value(t, rng) for i, t in enumerate(types))
    yield (None,) * len(types)
    edges = list(itertools.product(*(limits(t) for t in types)))
    yield from edges if len(edges) <= 4 * count else rng.sample(edges, 4 * count)
    for _ in range(count):
        values = [any_value(t, rng) for t in types]
        if len(set(types)) == 1 and rng.random() < 0.2:
            values = [values[0]] * len(types)  # equal arguments are rare otherwise
        yield tuple(values)


def literal(value: Value, type_: str) -> str:
    """The value as a constant of a program."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
            value = value.replace(plain, escaped)
        return f'"{value}"'
    if isinstance(value, bytes):
        return f'bytes("{value.hex()}")'
    if isinstance(value, datetime):
        return f'timestamp("{value.replace(tzinfo=None).isoformat()}Z")'
    if isinstance(value, date):
        return f'date("{value.isoformat()}")'
    if isinstance(value, Decimal):
        return f'decimal("{value:f}")'
    if isinstance(value, float):
        mantissa, _, exponent = repr(value).partition("e")
        text = (mantissa if "." in mantissa else mantissa + ".0") + (f"e{exponent}" if exponent else "")
    else:
        text = f"{value}u" if type_ == "unsigned" else str(value)
    return f"({text})" if text.startswith("-") else text
