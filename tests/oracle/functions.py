"""Functions, comparisons, tests and aggregates on values. NULL is handled by the caller, where not said otherwise."""

from __future__ import annotations

import hashlib
import math
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .values import EXACT, FLOAT_TEXT, NUMBER_TEXT, OracleError, Value, fit, read_int, read_value, write_value

__all__ = ["OracleError", "aggregate", "apply", "compare", "constant", "number_range", "test"]


def constant(family: str, text: str, place: str) -> Value:
    """A constant of the program, as a value of the type that its place needs."""
    if family == "null":
        return None
    if family == "int":
        number = read_int(text)
        if place == "float":
            return fit(float(number), "float")
        return fit(Decimal(number), "decimal") if place == "decimal" else fit(number, place)
    if family == "real":
        return fit(Decimal(text), "decimal") if place == "decimal" else fit(float(text), "float")
    if family == "unsigned":
        return fit(read_int(text), "unsigned")
    return read_value(text, family)


def apply(op: str, args: list[Any], family: str) -> Value:
    """A function or operator whose result is of the given family; no argument is NULL."""
    if op in TEXT_FUNCTIONS:
        result: Value = TEXT_FUNCTIONS[op](*args)
        return result
    if op == "to_string":
        return write_value(args[0])
    if op in ("to_number", "to_unsigned"):
        return fit(to_int(args[0]), family)
    if op == "to_float":
        return to_float(args[0])
    if op in ("min", "max"):
        return least(args) if op == "min" else greatest(args)
    if op in ("land", "lor", "lxor", "lnot"):
        return logic(op, [x != 0 for x in args])
    if op.startswith("b"):
        return fit(bits(op, args), family)
    if family == "decimal":
        return fit(decimal_arithmetic(op, args), family)
    if family == "float":
        return fit(float_arithmetic(op, args), family)
    return fit(whole_arithmetic(op, args), family)


def whole_arithmetic(op: str, args: list[int]) -> int:
    """number and unsigned: exact, division towards zero, the remainder has the sign of x."""
    if op == "neg":
        return -args[0]
    x, y = args
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/" | "%":
            if y == 0:
                raise OracleError("division_by_zero")
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return quotient if op == "/" else x - quotient * y
        case "^":
            if y < 0:
                raise OracleError("bad_power")
            if abs(x) > 1 and y > 64:
                raise OracleError("overflow")
            # 0, 1 and -1 have huge exponents, but only their parity and being zero count.
            return int(x**y) if y <= 64 else int(x ** (2 + y % 2))
    raise AssertionError(op)


def float_arithmetic(op: str, args: list[float]) -> float:
    if op == "neg":
        return -args[0]
    x, y = args
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            if y == 0.0:
                raise OracleError("division_by_zero")
            return x / y
        case "^":
            try:
                return math.pow(x, y)
            except (OverflowError, ValueError):
                raise OracleError("overflow") from None
    raise AssertionError(op)


def decimal_arithmetic(op: str, args: list[Decimal]) -> Decimal:
    """Exact. Python keeps the larger scale in a sum and adds the scales in a product, as the language does."""
    match op:
        case "neg":
            return EXACT.subtract(Decimal(0), args[0])
        case "+":
            return EXACT.add(*args)
        case "-":
            return EXACT.subtract(*args)
        case "*":
            return EXACT.multiply(*args)
    raise AssertionError(op)


def bits(op: str, args: list[int]) -> int:
    """On the bits of the 64-bit two's complement; the result is read as a signed number again."""
    x = args[0]
    if op == "bnot":
        return ~x
    y = args[1]
    shift = y & 63
    match op:
        case "band":
            return x & y
        case "bor":
            return x | y
        case "bxor":
            return x ^ y
        case "bshr":
            return x >> shift
        case "bshl":
            return signed(x << shift)
        case "bshru":
            return signed((x % 2**64) >> shift)
    raise AssertionError(op)


def signed(pattern: int) -> int:
    low = pattern % 2**64
    return low - 2**64 if low >= 2**63 else low


def logic(op: str, args: list[bool]) -> int:
    """Every number but 0 is true; the result is 1 or 0."""
    match op:
        case "land":
            return int(args[0] and args[1])
        case "lor":
            return int(args[0] or args[1])
        case "lxor":
            return int(args[0] != args[1])
    return int(not args[0])


def to_int(x: str | float | Decimal) -> int:
    """Texts: an optional sign and digits. bool: 1 or 0. Floats and decimals: rounded towards zero."""
    if isinstance(x, str):
        if not NUMBER_TEXT.fullmatch(x):
            raise OracleError("bad_text")
        return int(x)
    return math.trunc(x)


def to_float(x: str | float | Decimal) -> Value:
    if isinstance(x, str) and not FLOAT_TEXT.fullmatch(x):
        raise OracleError("bad_text")
    return fit(float(x), "float")


def substr(s: str, start: int, n: int) -> str:
    """From 0; a start outside the text gives the empty text; a negative n means the rest."""
    if not 0 <= start < len(s):
        return ""
    return s[start:] if n < 0 else s[start : start + n]


def ordinal(s: str) -> int:
    """The first 60 bits of the SHA-256 of the UTF-8 form."""
    return int.from_bytes(hashlib.sha256(s.encode()).digest()[:8], "big") >> 4


TEXT_FUNCTIONS: dict[str, Any] = {
    "cat": lambda *parts: "".join(parts),
    "strlen": len,
    "substr": substr,
    "ord": ordinal,
    "to_date": lambda s: read_value(s, "date"),
    "to_timestamp": lambda s: read_value(s, "timestamp"),
}


def order(value: Any) -> Any:
    """Symbols compare by the bytes of their UTF-8 form; everything else as in Python."""
    return value.encode() if isinstance(value, str) else value


def least(values: list[Any]) -> Value:
    result: str | int | float | date | Decimal | bytes = min(values, key=order)
    return result


def greatest(values: list[Any]) -> Value:
    result: str | int | float | date | Decimal | bytes = max(values, key=order)
    return result


def compare(op: str, left: Any, right: Any) -> bool:
    """Neither side is NULL."""
    x, y = order(left), order(right)
    results = {"=": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
    return bool(results[op])


def test(name: str, args: list[Any]) -> bool:
    """`match(pattern, text)`, `contains(part, text)` and `holds(b)`; no argument is NULL."""
    if name == "holds":
        return bool(args[0])
    if name == "contains":
        return args[0] in args[1]
    try:
        return re.fullmatch(args[0], args[1]) is not None
    except re.error:
        raise OracleError("bad_pattern") from None


def number_range(args: list[int]) -> range:
    """Up to, not including, the end; downwards if the step is negative, or not given and the end is smaller."""
    start, end = args[0], args[1]
    step = args[2] if len(args) == 3 else (-1 if end < start else 1)
    if step == 0:
        raise OracleError("bad_range")
    return range(start, end, step)


def aggregate(op: str, values: list[Any], family: str, scale: int) -> Value:
    """sum, min, max or mean of the values that are not NULL. None means that there is no value."""
    if (op == "sum" and family == "float") or (op == "mean" and values):
        exact = sum((Fraction(v) for v in values), Fraction(0))
        try:
            total = float(exact)
        except OverflowError:
            raise OracleError("overflow") from None
        if op == "mean" and family != "float":
            return fit(float(exact / len(values)), "float")
        return fit(total, "float") if op == "sum" else fit(total / len(values), "float")
    if op == "sum" and family == "decimal":
        result = Decimal(0).scaleb(-scale)
        for value in values:
            result = EXACT.add(result, value)
        return fit(result, family)
    if op == "sum":
        return fit(sum(values), family)
    if not values:
        return None
    return least(values) if op == "min" else greatest(values)
