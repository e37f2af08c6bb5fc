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


def round_float(value: float, places: int) -> float:
    if places > _MOST_PLACES:
        return value
    unit = Decimal(1).scaleb(-max(places, -400), _WIDE)
    return finite(float(Decimal(repr(value)).quantize(unit, context=_WIDE)))


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
    "vk_sql_float_ceil": (float_ceil, "bigint"),
    "vk_sql_float_floor": (float_floor, "bigint"),
    "vk_sql_decimal_ceil": (decimal_ceil, "bigint"),
    "vk_sql_decimal_floor": (decimal_floor, "bigint"),
    **{f"vk_sql_{name}": (real(getattr(math, name)), "double") for name in REAL_FUNCTIONS},
    "vk_sql_ln": (logarithm(math.log), "double"),
    "vk_sql_log10": (logarithm(math.log10), "double"),
    "vk_sql_log2": (logarithm(lambda value: math.log(value) / math.log(2.0)), "double"),
    "vk_sql_log1p": (logarithm(math.log1p, -1.0), "double"),
    "vk_sql_log": (_log, "double"),
    "vk_sql_power": (real(math.pow), "double"),
    "vk_sql_atan2": (real(math.atan2), "double"),
}
