"""SQL's functions of numbers in Python. Arguments are stored values; decimals come with the powers of ten that they are moved by."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from viewkeeper.engines.scalar import Failure, finite, fit_digits, fit_number
from viewkeeper.program.sql_functions import REAL_FUNCTIONS
from viewkeeper.program.types import MAX_PRECISION

_WIDE = decimal.Context(prec=2000, rounding=decimal.ROUND_HALF_UP)
_EVEN = decimal.Context(prec=2000, rounding=decimal.ROUND_HALF_EVEN)
_MOST_PLACES = 1100  # no double has more digits after the point


def half_up(dividend: int, divisor: int) -> int:
    """The quotient, rounded to the nearest number, halves away from zero."""
    if divisor == 0:
        raise Failure("DIVISION_BY_ZERO")
    quotient, rest = divmod(abs(dividend), abs(divisor))
    quotient += 2 * rest >= abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _moved(dividend: int, divisor: int, places: int) -> int:
    """dividend * 10**places / divisor as a decimal."""
    up, down = 10 ** max(0, places), 10 ** max(0, -places)
    return fit_digits(half_up(dividend * up, divisor * down), MAX_PRECISION)


def to_decimal(value: int, places: int, precision: int) -> int:
    return fit_digits(_moved_within(value, places), precision)


def _moved_within(value: int, places: int) -> int:
    return value * 10**places if places >= 0 else half_up(value, 10**-places)


def float_to_decimal(value: float, scale: int, precision: int) -> int:
    return exact_to_decimal(Decimal(repr(value)), scale, precision)


def exact_to_decimal(value: Decimal, scale: int, precision: int) -> int:
    if value.adjusted() > MAX_PRECISION or not value:
        return fit_digits(0 if not value else 10**MAX_PRECISION, precision)
    if value.adjusted() < -2 * MAX_PRECISION:
        return 0
    return fit_digits(int(value.scaleb(scale, _WIDE).quantize(Decimal(1), context=_WIDE)), precision)


def divide(left: int, right: int, places: int) -> int:
    return _moved(left, right, places)


def multiply(left: int, right: int, places: int) -> int:
    return _moved(left * right, 1, places)


def float_remainder(left: float, right: float) -> float:
    if right == 0:
        raise Failure("DIVISION_BY_ZERO")
    return math.fmod(left, right) + 0.0


def sign(value: float) -> float:
    return float((value > 0) - (value < 0))


def round_number(value: int, places: int) -> int:
    return value if places >= 0 else fit_number(_to_tens(value, min(-places, 20)))


def _to_tens(value: int, zeros: int) -> int:
    return half_up(value, int(10**zeros)) * int(10**zeros)


def round_decimal(value: int, dropped: int, zeros: int) -> int:
    """Without so many last digits, with so many zeros instead."""
    return fit_digits(half_up(value, 10**dropped) * 10**zeros, MAX_PRECISION)


def round_float(value: float, places: int, context: decimal.Context = _WIDE) -> float:
    if places > _MOST_PLACES:
        return value
    unit = Decimal(1).scaleb(-max(places, -400), _WIDE)
    return finite(float(Decimal(repr(value)).quantize(unit, context=context))) + 0.0


def half_even(dividend: int, divisor: int) -> int:
    """The quotient, rounded to the nearest number, halves to the even one."""
    quotient, rest = divmod(abs(dividend), divisor)
    quotient += 2 * rest > divisor or (2 * rest == divisor and quotient % 2)
    return quotient if dividend >= 0 else -quotient


def bround_number(value: int, places: int) -> int:
    tens = 10 ** min(max(0, -places), 20)
    return fit_number(half_even(value, tens) * tens)


def bround_decimal(value: int, dropped: int, zeros: int) -> int:
    return fit_digits(half_even(value, 10**dropped) * 10**zeros, MAX_PRECISION)


def bround_float(value: float, places: int) -> float:
    return round_float(value, places, _EVEN)


def float_ceil(value: float) -> int:
    return fit_number(math.ceil(value))


def float_floor(value: float) -> int:
    return fit_number(math.floor(value))


def decimal_ceil(value: int, scale: int) -> int:
    return int(-(-value // 10**scale))


def decimal_floor(value: int, scale: int) -> int:
    return int(value // 10**scale)


def greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), default=None)


def attempted(function: Callable[..., Any], *codes: str) -> Callable[..., Any]:
    """A function that gives NULL where it fails with one of the codes."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Failure as failure:
            if failure.code in codes:
                return None
            raise

    return call


# ---- bits and buckets


def factorial(number: int) -> int | None:
    return math.factorial(number) if 0 <= number <= 20 else None


def bucket(value: float, low: float, high: float, count: int) -> int | None:
    """In which of so many equal ranges from low to high, which may be the other way round, a value is."""
    if count <= 0 or count == 2**63 - 1 or low == high:
        return None
    if (value < low) if low < high else (value > low):
        return 0
    if (value >= high) if low < high else (value <= high):
        return count + 1
    return int(float(count) * (value - low if low < high else low - value) / abs(high - low)) + 1


def number_in(base: str) -> Callable[[int], str]:
    """Numbers as texts in a base; negative ones with all 64 bits."""
    return lambda value: format(value % 2**64, base)


def based(text: str, old: int, new: int) -> str | None:
    """A number in one base as a text in another, which is negative if it may have a sign. What follows the digits is left out."""
    if not 2 <= old <= 36 or not 2 <= abs(new) <= 36 or not text.strip(" "):
        return None
    digits = text.strip(" ").removeprefix("-")
    number, negative = 0, text.strip(" ").startswith("-")
    for digit in digits:
        value = int(digit, 36) if digit.isascii() and digit.isalnum() else 36
        if value >= old:
            break
        number = number * old + value
    if number >= 2**64:
        raise Failure("OVERFLOW")
    if negative and new > 0:
        number = 2**64 - 1 if number >= 2**63 else -number % 2**64
    if new < 0 and number >= 2**63:
        number, negative = 2**64 - number, True
    return ("-" if negative and new < 0 else "") + _in_base(number, abs(new))


def _in_base(number: int, base: int) -> str:
    digits = ""
    while number or not digits:
        number, last = divmod(number, base)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[last] + digits
    return digits


# ---- numbers for people


def grouped(value: Decimal, places: int) -> str | None:
    """12,345.68: halves are rounded to the even digit."""
    if places < 0:
        return None
    return f"{value.quantize(Decimal(1).scaleb(-_places(places), _EVEN), context=_EVEN):,f}"


def _places(number: int) -> int:
    if number > 300:
        raise Failure("OVERFLOW")
    return number


def grouped_float(value: float, places: int) -> str | None:
    """As Java does it: a half counts as one only if it is a half exactly."""
    shown = Decimal(repr(value))
    unit = Decimal(1).scaleb(-max(0, min(places, 300)), _EVEN)
    is_half = abs(shown - shown.quantize(unit, decimal.ROUND_DOWN, _EVEN)) * 2 == unit
    return grouped(Decimal(value) if is_half else shown, places)


# ---- real functions


def real(function: Callable[..., float]) -> Callable[..., float]:
    """A function of floats that fails where there is no finite result."""

    def call(*values: float) -> float:
        try:
            return finite(function(*values))
        except (ValueError, OverflowError, ZeroDivisionError):
            raise Failure("OVERFLOW") from None

    return call


def logarithm(function: Callable[[float], float], above: float = 0.0) -> Callable[[float], float | None]:
    """A logarithm, which is NULL where there is none."""
    checked = real(function)
    return lambda value: checked(value) if value > above else None


def _log(base: float, value: float) -> float | None:
    quotient = real(lambda: math.log(value) / math.log(base))
    return quotient() if base > 0 and value > 0 else None


# Name in SQL → function and, for Spark, the type of its result.
NUMBERS: dict[str, tuple[Callable[..., Any], str]] = {
    "vk_sql_decimal": (to_decimal, "bigint"),
    "vk_sql_float_decimal": (float_to_decimal, "bigint"),
    "vk_sql_divide": (divide, "bigint"),
    "vk_sql_multiply": (multiply, "bigint"),
    "vk_sql_float_mod": (float_remainder, "double"),
    "vk_sql_abs": (lambda value: fit_number(abs(value)), "bigint"),
    "vk_sql_sign": (sign, "double"),
    "vk_sql_round_number": (round_number, "bigint"),
    "vk_sql_round_decimal": (round_decimal, "bigint"),
    "vk_sql_round_float": (round_float, "double"),
    "vk_sql_bround_number": (bround_number, "bigint"),
    "vk_sql_bround_decimal": (bround_decimal, "bigint"),
    "vk_sql_bround_float": (bround_float, "double"),
    "vk_sql_rint": (lambda value: float(round(value)) + 0.0, "double"),
    "vk_sql_try_add": (attempted(lambda left, right: fit_number(left + right), "OVERFLOW"), "bigint"),
    "vk_sql_try_subtract": (attempted(lambda left, right: fit_number(left - right), "OVERFLOW"), "bigint"),
    "vk_sql_try_multiply": (attempted(lambda left, right: fit_number(left * right), "OVERFLOW"), "bigint"),
    "vk_sql_try_decimal": (attempted(to_decimal, "OVERFLOW"), "bigint"),
    "vk_sql_try_float_decimal": (attempted(float_to_decimal, "OVERFLOW"), "bigint"),
    "vk_sql_try_to_number": (attempted(lambda value: fit_number(int(value)), "OVERFLOW"), "bigint"),
    "vk_sql_factorial": (factorial, "bigint"),
    "vk_sql_bit_count": (lambda value: (value % 2**64).bit_count(), "bigint"),
    "vk_sql_width_bucket": (bucket, "bigint"),
    "vk_sql_hex_number": (number_in("X"), "string"),
    "vk_sql_bin": (number_in("b"), "string"),
    "vk_sql_conv": (based, "string"),
    "vk_sql_format_number": (lambda value, places: grouped(Decimal(value), places), "string"),
    "vk_sql_format_decimal": (lambda value, places, scale: grouped(Decimal(value).scaleb(-scale), places), "string"),
    "vk_sql_format_float": (grouped_float, "string"),
    "vk_sql_float_ceil": (float_ceil, "bigint"),
    "vk_sql_float_floor": (float_floor, "bigint"),
    "vk_sql_decimal_ceil": (decimal_ceil, "bigint"),
    "vk_sql_decimal_floor": (decimal_floor, "bigint"),
    **{f"vk_sql_{name}": (real(getattr(math, name)), "double") for name in REAL_FUNCTIONS},
    "vk_sql_cot": (real(lambda value: 1 / math.tan(value)), "double"),
    "vk_sql_sec": (real(lambda value: 1 / math.cos(value)), "double"),
    "vk_sql_csc": (real(lambda value: 1 / math.sin(value)), "double"),
    "vk_sql_hypot": (real(math.hypot), "double"),
    "vk_sql_ln": (logarithm(math.log), "double"),
    "vk_sql_log10": (logarithm(math.log10), "double"),
    "vk_sql_log2": (logarithm(lambda value: math.log(value) / math.log(2.0)), "double"),
    "vk_sql_log1p": (logarithm(math.log1p, -1.0), "double"),
    "vk_sql_log": (_log, "double"),
    "vk_sql_power": (real(math.pow), "double"),
    "vk_sql_atan2": (real(math.atan2), "double"),
}
