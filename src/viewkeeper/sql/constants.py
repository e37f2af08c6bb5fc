"""Constants in a text as stored values, and values of one type stored in a column of another, as Spark's ANSI mode does it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot import exp

from viewkeeper.program.types import INTEGERS, NUMERIC, Kind, Type
from viewkeeper.program.values import (
    DAY_MICROSECONDS,
    FIRST_DAY,
    INT_MAX,
    INT_MIN,
    LAST_DAY,
    BadValue,
    Stored,
    check_float,
    check_number,
    check_symbol,
    format_decimal,
    format_timestamp,
    parse_date,
    parse_timestamp,
    text_formatter,
)
from viewkeeper.sql.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE_TYPE,
    DOUBLE,
    NULL_TYPE,
    STRING,
    TIMESTAMP_TYPE,
    SqlType,
    decimal,
    type_of_sql,
)

Typed = tuple[SqlType, Any]
Convert = Callable[[Any], Stored]

_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})


# ---- constants


def constant(node: exp.Expr) -> Typed | None:
    """The type and the stored value of a plain constant; None of anything else.

    >>> import sqlglot
    >>> [str(constant(sqlglot.parse_one(text, read="spark"))[0]) for text in ("-12", "1.50", "NULL", "DATE '2024-02-29'")]
    ['BIGINT', 'DECIMAL(3,2)', 'NULL', 'DATE']
    """
    match node:
        case exp.Literal():
            return (STRING, node.this) if node.is_string else number(node.this)
        case exp.Null():
            return NULL_TYPE, None
        case exp.Boolean():
            return BOOLEAN, int(node.this)
        case exp.Neg():
            found = number(node.this.this, negative=True) if isinstance(node.this, exp.Literal) else None
            return found if found is not None and not node.this.is_string else None
        case exp.Cast():
            return _cast(node)
        case exp.RawString():
            return STRING, node.this
        case exp.HexString() if len(node.this) % 2 == 0:
            return BINARY, bytes.fromhex(node.this)
    return None


def number(text: str, negative: bool = False) -> Typed | None:
    """A number as it is written: whole, decimal, or with an exponent a double."""
    sign = -1 if negative else 1
    try:
        if "e" in text or "E" in text:
            return DOUBLE, sign * check_float(float(text))
        if "." not in text:
            value = sign * int(text)
            return (BIGINT, value) if INT_MIN <= value <= INT_MAX else (decimal(len(text), 0), value)
        whole, _, fraction = text.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        return decimal(max(1, digits), len(fraction)), sign * int(whole + fraction or "0")
    except (ValueError, BadValue):
        return None


def _cast(node: exp.Cast) -> Typed | None:
    """DATE '2024-02-29', TIMESTAMP '…', 1L, 1.5D. What else is cast is computed like any expression."""
    if not isinstance(node.this, exp.Literal):
        return None
    try:
        if node.this.is_string:
            if node.to.this is exp.DataType.Type.DATE:
                return DATE_TYPE, parse_date(node.this.this)
            if type_of_sql(node.to) == TIMESTAMP_TYPE:
                return TIMESTAMP_TYPE, parse_timestamp(node.this.this)
            return None
        found, wanted = number(node.this.this), type_of_sql(node.to)
        if found is not None and wanted in (BIGINT, DOUBLE):
            if found[0] == wanted:
                return found
            if wanted == DOUBLE:
                return DOUBLE, check_float(float(node.this.this))
    except BadValue:
        return None
    return None


# ---- assignment


def assignment(source: SqlType, target: Type) -> Convert | None:
    """How a value of one type is stored in a column; None if it needs a CAST. What it returns raises BadValue."""
    if source.kind is None:
        return lambda value: None
    convert = _conversion(source, target)
    return None if convert is None else lambda value: None if value is None else convert(value)


def _conversion(source: SqlType, target: Type) -> Convert | None:
    kind = source.kind
    if target.kind is Kind.SYMBOL:
        return check_symbol if kind is Kind.SYMBOL else _as_text(source)
    if kind in NUMERIC and target.kind in NUMERIC:
        return _numeric(source, target)
    if kind is target.kind:
        return lambda value: value
    if kind in _TIMES and target.kind in _TIMES:
        return _midnight if kind is Kind.DATE else lambda value: value // DAY_MICROSECONDS
    return None


def _midnight(days: int) -> int:
    assert FIRST_DAY <= days <= LAST_DAY
    return days * DAY_MICROSECONDS


def _numeric(source: SqlType, target: Type) -> Convert:
    if target.kind is Kind.FLOAT:
        if source.kind is Kind.DECIMAL:
            return lambda value: check_float(float(Decimal(f"{value}e-{source.scale}")))
        return lambda value: check_float(float(value))
    if target.kind in INTEGERS:
        return lambda value: check_number(_whole(value, source))
    if (source.kind, source.precision, source.scale) == (target.kind, target.precision, target.scale):
        return lambda value: value

    def rounded(value: Any) -> int:
        scaled = _scaled(value, source, target.scale)
        if abs(scaled) >= 10**target.precision:
            raise BadValue(f"does not fit DECIMAL({target.precision},{target.scale})")
        return scaled

    return rounded


def _scaled(value: Any, source: SqlType, scale: int) -> int:
    """The value times 10**scale; half is rounded away from zero."""
    if source.kind is Kind.FLOAT:
        return int((Decimal(repr(value)) * 10**scale).to_integral_value(ROUND_HALF_UP))
    lost = source.scale - scale
    if lost <= 0:
        return int(value) * int(10**-lost)
    whole = (abs(value) + 10**lost // 2) // 10**lost
    return int(whole if value >= 0 else -whole)


def _whole(value: Any, source: SqlType) -> int:
    """What is behind the point is left out."""
    if source.kind is not Kind.DECIMAL:
        return int(value)
    whole = abs(value) // 10**source.scale
    return int(whole if value >= 0 else -whole)


def _as_text(source: SqlType) -> Convert:
    match source.kind:
        case Kind.DECIMAL:
            return lambda value: format_decimal(value, source.scale)
        case Kind.TIMESTAMP:
            return lambda value: format_timestamp(value)[:-1].replace("T", " ").rstrip("0").rstrip(".")
        case Kind.FLOAT:
            return text_of_double
        case Kind.BYTES:
            return lambda value: check_symbol(bytes(value).decode("utf-8", "replace"))
    return text_formatter(source.kept)


def text_of_double(value: float) -> str:
    """As Spark writes it.

    >>> text_of_double(1.5), text_of_double(1e7), text_of_double(-0.00012)
    ('1.5', '1.0E7', '-1.2E-4')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0")
        mantissa += "0" if mantissa.endswith(".") else ""
    else:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
