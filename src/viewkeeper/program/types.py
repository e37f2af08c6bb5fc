"""Types of columns and values.

A base type says which values there are. A named type (``.type City <: symbol``) narrows a base type by name only, and
``nullable`` adds *no value*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Kind(Enum):
    """The families of values."""

    NUMBER = "number"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    SYMBOL = "symbol"
    BOOL = "bool"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    BYTES = "bytes"


MAX_PRECISION = 18
INTEGERS = frozenset({Kind.NUMBER, Kind.UNSIGNED})
NUMERIC = INTEGERS | {Kind.FLOAT, Kind.DECIMAL}
ORDERED = frozenset(Kind) - {Kind.BOOL}


@dataclass(frozen=True, slots=True)
class Type:
    """A column's type: its kind, for decimals the digits, the declared name if it has one, and whether NULL is allowed."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    name: str | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL:
            if not (1 <= self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
                raise ValueError(
                    f"decimal({self.precision},{self.scale}) needs 1 to {MAX_PRECISION} digits, the scale among them"
                )
        elif self.precision or self.scale:
            raise ValueError(f"{self.kind.value} has no precision")

    @property
    def base(self) -> Type:
        """Without name and nullability."""
        return Type(self.kind, self.precision, self.scale)

    def optional(self, nullable: bool = True) -> Type:
        return replace(self, nullable=nullable)

    def __str__(self) -> str:
        base = f"decimal({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value
        return (self.name or base) + ("?" if self.nullable else "")


NUMBER = Type(Kind.NUMBER)
UNSIGNED = Type(Kind.UNSIGNED)
FLOAT = Type(Kind.FLOAT)
SYMBOL = Type(Kind.SYMBOL)
BOOL = Type(Kind.BOOL)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
BYTES = Type(Kind.BYTES)

BASE_TYPES: dict[str, Type] = {t.kind.value: t for t in (NUMBER, UNSIGNED, FLOAT, SYMBOL, BOOL, DATE, TIMESTAMP, BYTES)}


def decimal_type(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision, scale)
