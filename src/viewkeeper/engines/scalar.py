"""Functions in Python: the embedded engine calls them, and Spark calls those that its own functions cannot match exactly.

Arguments are stored values. A function of NULL is NULL (``strict``).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from viewkeeper.errors import EvaluationError, problem
from viewkeeper.program.sql_functions import spelled
from viewkeeper.program.values import (
    INT_MAX,
    INT_MIN,
    BadValue,
    format_date,
    format_decimal,
    format_timestamp,
    parse_date,
    parse_float,
    parse_number,
    parse_timestamp,
    parse_unsigned,
)


class Failure(Exception):
    """A function failed for these values; ``code`` is the condition."""

    def __init__(self, code: str, **parameters: Any) -> None:
        super().__init__(code, parameters)
        self.code, self.parameters = code, parameters


def evaluation_error(failure: Failure, relation: str | None) -> EvaluationError:
    where = f'a rule of "{relation}"' if relation else "the query"
    parameters = {"where": where, "relation": relation, **failure.parameters}
    # Only SQL has functions of these names, which nobody knows: in its words they are others.
    parameters |= spelled(parameters.get("function", ""), parameters.get("value", ""))
    return EvaluationError(problem(failure.code, **parameters))


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL in, NULL out."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return None if None in arguments else function(*arguments)

    return wrapper


def fail(code: str) -> None:
    raise Failure(code)


# ---- whole numbers


def fit_number(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise Failure("OVERFLOW")
    return value


def fit_unsigned(value: int) -> int:
    if not 0 <= value <= INT_MAX:
        raise Failure("OVERFLOW")
    return value


def whole(value: float) -> int:
    """The result of integer arithmetic in SQLite, which is a float if it was too large on the way."""
    if not isinstance(value, int):
        raise Failure("OVERFLOW")
    return value


def fit_digits(scaled: float, precision: int) -> int:
    found = whole(scaled)
    if abs(found) >= 10**precision:
        raise Failure("OVERFLOW")
    return found


def divide(left: int, right: int) -> int:
    if right == 0:
        raise Failure("DIVISION_BY_ZERO")
    quotient = abs(left) // abs(right)
    return fit_number(quotient if (left < 0) == (right < 0) else -quotient)


def remainder(left: int, right: int) -> int:
    if right == 0:
        raise Failure("DIVISION_BY_ZERO")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def power(base: int, exponent: int) -> int:
    if exponent < 0 or (exponent > 64 and base not in (-1, 0, 1)):
        raise Failure("OVERFLOW")
    if base == -1:
        return -1 if exponent % 2 else 1
    return fit_number(base**exponent if exponent <= 64 or base == 0 else base)


def bit_xor(left: int, right: int) -> int:
    return left ^ right


def shift_right_unsigned(value: int, places: int) -> int:
    shifted = (value & (2**64 - 1)) >> (places & 63)
    return shifted - 2**64 if shifted > INT_MAX else shifted


def shift_left_unsigned(value: int, places: int) -> int:
    return fit_unsigned((value << (places & 63)) & (2**64 - 1))


def numbers(start: int, stop: int, step: int | None = None) -> range:
    if step == 0:
        raise Failure("BAD_RANGE")
    return range(start, stop, step if step is not None else (1 if start <= stop else -1))


def numbers_json(*arguments: int | None) -> str:
    return "[]" if None in arguments else json.dumps(list(numbers(*arguments)))  # type: ignore[arg-type]


# ---- floats


def finite(value: float) -> float:
    if not math.isfinite(value):
        raise Failure("OVERFLOW")
    return value + 0.0  # -0.0 becomes 0.0


def float_divide(left: float, right: float) -> float:
    if right == 0:
        raise Failure("DIVISION_BY_ZERO")
    return finite(left / right)


def float_power(base: float, exponent: float) -> float:
    try:
        return finite(math.pow(base, exponent))
    except (OverflowError, ValueError):
        raise Failure("OVERFLOW") from None


def float_operation(operation: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda left, right: finite(operation(left, right))


def float_sum(values: Sequence[float]) -> float:
    """The correctly rounded sum, whatever the order."""
    try:
        return finite(math.fsum(values))
    except OverflowError:
        pass
    # fsum gives up where the sum overflows on the way; fractions do not.
    try:
        return finite(float(sum(map(Fraction, values))))
    except OverflowError:
        raise Failure("OVERFLOW") from None


def float_mean(values: Sequence[float]) -> float:
    return finite(float_sum(values) / len(values))


def mean(total: int, divisor: int) -> float:
    """The correctly rounded quotient of two integers."""
    return finite(total / divisor)


# ---- text


def substring(text: str, start: int, length: int) -> str:
    if start < 0 or start > len(text):
        return ""
    return text[start:] if length < 0 else text[start : start + length]


def identify(text: str) -> int:
    """60 bits of SHA-256."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


@functools.lru_cache(maxsize=256)
def compiled(pattern: str, function: str) -> re.Pattern[str]:
    """A regular expression, or the failure of a function that was given none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise Failure("BAD_TEXT", function=function, value=pattern, why=f"not a regular expression: {error}") from None


def matches(pattern: str, text: str) -> bool:
    return compiled(pattern, "match").fullmatch(text) is not None


def parsing(function: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A conversion from text that fails with the reason."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except BadValue as error:
            raise Failure("BAD_TEXT", function=function, value=text, why=str(error)) from None

    return convert


def float_to_number(value: float) -> int:
    return fit_number(int(value))


def float_to_unsigned(value: float) -> int:
    return fit_unsigned(int(value))


def decimal_to_number(scaled: int, scale: int) -> int:
    return divide(scaled, 10**scale)


def decimal_to_float(scaled: int, scale: int) -> float:
    return float(scaled / 10**scale)


to_number = parsing("to_number", parse_number)
to_unsigned = parsing("to_unsigned", parse_unsigned)
to_float = parsing("to_float", parse_float)
to_date = parsing("to_date", parse_date)
to_timestamp = parsing("to_timestamp", parse_timestamp)

# ---- exact sums of floats: whole multiples of the smallest float, as hexadecimal text

_SMALLEST = 1074  # binary places


class ExactSum:
    """Adds up floats, each taken so many times."""

    def __init__(self) -> None:
        self.total = 0

    def step(self, value: float | None, times: int, /) -> None:
        if value is not None:
            numerator, denominator = value.as_integer_ratio()
            self.total += times * (numerator << _SMALLEST) // denominator

    def finalize(self) -> str:
        return f"{self.total:x}"


def exact_total(values: list[float]) -> str:
    total = ExactSum()
    for value in values:
        total.step(value, 1)
    return total.finalize()


def exact_add(left: str, right: str) -> str:
    return f"{int(left, 16) + int(right, 16):x}"


def exact_value(total: str, divisor: int) -> float | None:
    """The sum, rounded once, divided; None if nothing was added up to divide."""
    if not divisor:
        return None
    try:
        return finite((int(total, 16) / (1 << _SMALLEST)) / divisor)
    except OverflowError:
        raise Failure("OVERFLOW") from None


# ---- windows


class WindowSum:
    """The correctly rounded sum of floats, which come and go; None of nothing.

    Python's sqlite3 crashes where a value is asked for before the first row came: only for frames that hold the row itself.
    """

    def __init__(self) -> None:
        self._sum, self._rows = ExactSum(), 0

    def step(self, value: float | None, /) -> None:
        self._sum.step(value, 1)
        self._rows += value is not None

    def inverse(self, value: float | None, /) -> None:
        self._sum.step(value, -1)
        self._rows -= value is not None

    def value(self) -> float | None:
        return exact_value(self._sum.finalize(), 1 if self._rows else 0)


class WindowMean(WindowSum):
    def value(self) -> float | None:
        return exact_value(self._sum.finalize(), self._rows)


def pack(number: int, value: Any) -> str:
    """A value as a text that is ordered by a number: the least of some such texts is that of the lowest number."""
    match value:
        case None:
            kind, text = "n", ""
        case float():
            kind, text = "f", value.hex()
        case str():
            kind, text = "t", value.encode().hex()
        case bytes():
            kind, text = "b", value.hex()
        case _:
            kind, text = "i", str(value)
    return f"{number:020}{kind}{text}"


def unpack(packed: str) -> Any:
    """
    >>> [unpack(pack(7, value)) for value in (None, 0.1, "a,b", b"x", -1)]
    [None, 0.1, 'a,b', b'x', -1]
    """
    kind, text = packed[20], packed[21:]
    match kind:
        case "f":
            return float.fromhex(text)
        case "t":
            return bytes.fromhex(text).decode()
        case "b":
            return bytes.fromhex(text)
        case "i":
            return int(text)
    return None


def unpack_nth(packed: str, place: int) -> Any:
    """Of several, with commas between them, the one with the lowest number (1), the second lowest (2) …"""
    texts = sorted(packed.split(","))
    return unpack(texts[place - 1]) if place <= len(texts) else None


def packed_floats(packed: str) -> list[float]:
    return [unpack(text) for text in packed.split(",")]


# Name in SQL → function and number of arguments (-1: any), for the embedded engine.
SCALARS: dict[str, tuple[Callable[..., Any], int]] = {
    "vk_divide": (divide, 2),
    "vk_remainder": (remainder, 2),
    "vk_power": (power, 2),
    "vk_whole": (whole, 1),
    "vk_fit_unsigned": (fit_unsigned, 1),
    "vk_fit_digits": (fit_digits, 2),
    "vk_bit_xor": (bit_xor, 2),
    "vk_shift_right_unsigned": (shift_right_unsigned, 2),
    "vk_shift_left_unsigned": (shift_left_unsigned, 2),
    "vk_float_add": (float_operation(operator.add), 2),
    "vk_float_subtract": (float_operation(operator.sub), 2),
    "vk_float_multiply": (float_operation(operator.mul), 2),
    "vk_float_divide": (float_divide, 2),
    "vk_float_power": (float_power, 2),
    "vk_float_negative": (lambda value: 0.0 - value, 1),
    "vk_substring": (substring, 3),
    "vk_identify": (identify, 1),
    "vk_match": (matches, 2),
    "vk_to_number": (to_number, 1),
    "vk_to_unsigned": (to_unsigned, 1),
    "vk_to_float": (to_float, 1),
    "vk_to_date": (to_date, 1),
    "vk_to_timestamp": (to_timestamp, 1),
    "vk_float_to_number": (float_to_number, 1),
    "vk_float_to_unsigned": (float_to_unsigned, 1),
    "vk_decimal_to_number": (decimal_to_number, 2),
    "vk_decimal_to_float": (decimal_to_float, 2),
    "vk_decimal_to_string": (format_decimal, 2),
    "vk_float_to_string": (repr, 1),
    "vk_date_to_string": (format_date, 1),
    "vk_timestamp_to_string": (format_timestamp, 1),
    "vk_bytes_to_string": (bytes.hex, 1),
    "vk_sum_parts": (lambda high, low: fit_number((high << 32) + low), 2),
    "vk_mean_parts": (lambda high, low, divisor: mean((high << 32) + low, divisor), 3),
    "vk_exact_add": (exact_add, 2),
    "vk_exact_value": (exact_value, 2),
    "vk_unpack": (unpack, 1),
    "vk_unpack_nth": (unpack_nth, 2),
    "vk_packed_sum": (lambda packed: float_sum(packed_floats(packed)), 1),
    "vk_packed_mean": (lambda packed: float_mean(packed_floats(packed)), 1),
    "vk_fail": (fail, 1),
}
