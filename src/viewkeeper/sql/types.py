"""Types of SQL columns and expressions, as Spark has them, and the types of programs they are kept as.

All whole numbers are BIGINT for us. A decimal may have 38 digits here, as in Spark, which decides the digits of results;
what is kept has at most 18, and values that need more fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

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

MAX_DIGITS = 38


@dataclass(frozen=True)
class SqlType:
    """``kind`` is None for NULL itself, which is of every type; ``literal``: digits of a whole number written in the text."""

    kind: Kind | None
    precision: int = 0
    scale: int = 0
    literal: bool = False

    @property
    def kept(self) -> Type:
        """The type of a column that holds it."""
        match self.kind:
            case None:
                return NUMBER
            case Kind.DECIMAL:
                return decimal_type(min(max(self.precision, self.scale), MAX_PRECISION), self.scale)
        return _KEPT[self.kind]

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale as an operand of decimal arithmetic."""
        if self.kind is Kind.DECIMAL:
            return self.precision, self.scale
        return (max(1, self.precision), 0) if self.literal else (20, 0)

    def __str__(self) -> str:
        match self.kind:
            case None:
                return "NULL"
            case Kind.DECIMAL:
                return f"DECIMAL({self.precision},{self.scale})"
        return _NAMES[self.kind]


NULL_TYPE = SqlType(None)
BOOLEAN = SqlType(Kind.BOOL)
BIGINT = SqlType(Kind.NUMBER)
DOUBLE = SqlType(Kind.FLOAT)
STRING = SqlType(Kind.SYMBOL)
DATE_TYPE = SqlType(Kind.DATE)
TIMESTAMP_TYPE = SqlType(Kind.TIMESTAMP)
BINARY = SqlType(Kind.BYTES)

_KEPT = {
    Kind.NUMBER: NUMBER, Kind.UNSIGNED: NUMBER, Kind.FLOAT: FLOAT, Kind.SYMBOL: SYMBOL, Kind.BOOL: BOOL, Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP, Kind.BYTES: BYTES,
}  # fmt: skip
_NAMES = {
    Kind.NUMBER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.SYMBOL: "STRING", Kind.BOOL: "BOOLEAN", Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP", Kind.BYTES: "BINARY",
}  # fmt: skip

_D = exp.DataType.Type
_OF_SQL = {
    _D.TINYINT: BIGINT, _D.SMALLINT: BIGINT, _D.INT: BIGINT, _D.BIGINT: BIGINT, _D.FLOAT: DOUBLE, _D.DOUBLE: DOUBLE,
    _D.TEXT: STRING, _D.VARCHAR: STRING, _D.CHAR: STRING, _D.BOOLEAN: BOOLEAN, _D.DATE: DATE_TYPE,
    _D.TIMESTAMP: TIMESTAMP_TYPE, _D.TIMESTAMPTZ: TIMESTAMP_TYPE, _D.TIMESTAMPLTZ: TIMESTAMP_TYPE, _D.BINARY: BINARY,
    _D.VARBINARY: BINARY,
}  # fmt: skip


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType(Kind.DECIMAL, precision, scale)


def bounded(precision: int, scale: int) -> SqlType:
    """A decimal result of arithmetic: with more than 38 digits it loses some behind the point, but not below 6."""
    if precision <= MAX_DIGITS:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_DIGITS, max(MAX_DIGITS - whole, min(scale, 6)))


def type_of_sql(found: exp.DataType) -> SqlType | None:
    """The type that a text names; None if there is none."""
    if found.this is _D.DECIMAL:
        digits = [int(parameter.this.this) for parameter in found.expressions]
        return decimal(*(digits + [10, 0][len(digits) :])[:2]) if len(digits) <= 2 else None
    return _OF_SQL.get(found.this)


def type_of_column(kept: Type) -> SqlType:
    """The type of a stored column."""
    if kept.kind is Kind.DECIMAL:
        return decimal(kept.precision, kept.scale)
    return SqlType(Kind.NUMBER) if kept.kind is Kind.UNSIGNED else SqlType(kept.kind)
