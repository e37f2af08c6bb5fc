"""Types of columns, and the text forms of values in files and constants."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal

from .syntax import Program, TypeExpr

Value = int | float | str | date | Decimal | bytes | None
"""number and unsigned: int; bool: bool; timestamp: datetime in UTC; NULL: None. The others as their names say."""

Row = tuple[Value, ...]

BASES = {"number", "unsigned", "float", "symbol", "bool", "date", "timestamp", "decimal", "bytes"}
LARGEST = 2**63 - 1
SMALLEST = -(2**63)
DIGITS = 18
"""Decimals have at most this many digits, intermediate results too."""

EXACT = Context(prec=200)
"""Large enough that no operation on decimals is ever rounded."""

NUMBER_TEXT = re.compile(r"[+-]?[0-9]+")
FLOAT_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
DATE_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIMESTAMP_TEXT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,6})?Z")


class OracleError(Exception):
    """An evaluation error: "overflow", "division_by_zero", "bad_text", "bad_range", "bad_power", "bad_pattern"."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(frozen=True)
class Column:
    name: str
    family: str
    precision: int
    scale: int
    nullable: bool


def column(program: Program, name: str, expr: TypeExpr) -> Column:
    """Follow subtypes, aliases and unions down to the base type; a `?` on the way makes the column nullable."""
    nullable = expr.nullable
    while expr.name not in BASES:
        expr = program.types[expr.name][0]
        nullable = nullable or expr.nullable
    return Column(name, expr.name, expr.precision, expr.scale, nullable)


def columns(program: Program, relation: str) -> list[Column]:
    return [column(program, name, expr) for name, expr in program.decls[relation]]


def fit(value: Value, family: str) -> Value:
    """The value if its type can hold it; -0.0 becomes 0.0. Otherwise an overflow."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OracleError("overflow")
        return value + 0.0
    if family in ("number", "unsigned"):
        assert isinstance(value, int)
        if not (SMALLEST if family == "number" else 0) <= value <= LARGEST:
            raise OracleError("overflow")
    if isinstance(value, Decimal):
        return fit_decimal(value, DIGITS, -int(value.as_tuple().exponent))
    return value


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal:
    """The same amount with exactly `scale` digits after the point and at most `precision` in all."""
    scaled = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    if scaled != value or abs(scaled.scaleb(scale, context=EXACT)) >= 10**precision:
        raise OracleError("overflow")
    return scaled if scaled else abs(scaled)


def store(value: Value, to: Column) -> Value:
    """A value on its way into a column: ints become floats or decimals where the column is one."""
    if value is None:
        return None
    if to.family == "float":
        assert isinstance(value, int | float)
        return fit(float(value), "float")
    if to.family == "decimal":
        assert isinstance(value, int | Decimal)
        return fit_decimal(Decimal(value), to.precision, to.scale)
    return fit(value, to.family)


def read_int(text: str) -> int:
    """A whole number constant: decimal, 0x or 0b, perhaps with a minus before it."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    base = {"0x": 16, "0b": 2}.get(digits[:2].lower(), 10)
    return sign * int(digits, base)


def read_value(text: str, family: str) -> Value:
    """A text as in files (and in `date("...")` and its like) as a value of a base type."""
    if family == "symbol":
        return text
    if family == "bool" and text in ("true", "false"):
        return text == "true"
    if family in ("number", "unsigned") and NUMBER_TEXT.fullmatch(text):
        return fit(int(text), family)
    if family == "float" and FLOAT_TEXT.fullmatch(text):
        return fit(float(text), family)
    if family == "decimal" and DECIMAL_TEXT.fullmatch(text):
        return fit(Decimal(text), family)
    try:
        if family == "date" and DATE_TEXT.fullmatch(text):
            return date.fromisoformat(text)
        found = TIMESTAMP_TEXT.fullmatch(text)
        if family == "timestamp" and found:
            micros = int((found[2] or ".0")[1:].ljust(6, "0"))
            return datetime.fromisoformat(found[1]).replace(microsecond=micros, tzinfo=UTC)
        if family == "bytes" and re.fullmatch(r"([0-9a-fA-F]{2})*", text):
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise OracleError("bad_text")


def write_value(value: Value) -> str:
    """The form used in files and by `to_string`. NULL is the empty field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def sort_key(row: Row) -> tuple[tuple[bool, object], ...]:
    """Rows are sorted column by column, NULL first, symbols by the bytes of their UTF-8 form."""
    return tuple((v is not None, v.encode() if isinstance(v, str) else 0 if v is None else v) for v in row)
