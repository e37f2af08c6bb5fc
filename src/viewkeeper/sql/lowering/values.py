"""Expressions that have been lowered: a term with its type, and what can be said and made of it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

from viewkeeper.program.ast import Call, Constant, Term, Value, Variable
from viewkeeper.program.types import BOOL, NUMBER, Kind
from viewkeeper.sql.types import BOOLEAN, DOUBLE, TIMESTAMP_TYPE, SqlType, bounded, decimal

TRUE, FALSE = Constant(True, BOOL), Constant(False, BOOL)
ONE, ZERO = Constant(1, NUMBER), Constant(0, NUMBER)

_NOTHING: dict[Kind, Value] = {
    Kind.NUMBER: 0,
    Kind.FLOAT: 0.0,
    Kind.SYMBOL: "",
    Kind.BOOL: False,
    Kind.DATE: datetime.date(1970, 1, 1),
    Kind.TIMESTAMP: datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    Kind.BYTES: b"",
}


@dataclass(frozen=True)
class Lowered:
    """A term, the type SQL gives it, and whether it may be NULL."""

    term: Term
    type: SqlType
    nullable: bool = False

    @property
    def constant(self) -> Value:
        """The value of a constant; None also where it is something else."""
        return self.term.value if isinstance(self.term, Constant) else None

    @property
    def is_constant(self) -> bool:
        return isinstance(self.term, Constant)


def null_of(type_: SqlType) -> Lowered:
    return Lowered(Constant(None, type_.kept.optional()), type_, True)


def nothing_of(type_: SqlType) -> Constant:
    """Some value of the type, which stands where there is none."""
    if type_.kind is Kind.DECIMAL:
        return Constant(Decimal(0).scaleb(-type_.scale), type_.kept)
    return Constant(_NOTHING[type_.kind or Kind.NUMBER], type_.kept)


def boolean(term: Term, nullable: bool) -> Lowered:
    return Lowered(term, BOOLEAN, nullable)


def number(value: int) -> Lowered:
    return Lowered(Constant(value, NUMBER), SqlType(Kind.NUMBER, len(str(abs(value))), 0, literal=True))


def choice(condition: Term, one: Lowered, other: Lowered) -> Lowered:
    """``one`` where the condition is true, else ``other``; both have one type."""
    return Lowered(Call("sql_if", (condition, one.term, other.term)), one.type, one.nullable or other.nullable)


def is_null(value: Lowered) -> Term:
    return Call("sql_null", (value.term,)) if value.nullable else FALSE


def present(value: Lowered) -> Term:
    """The value, or where it is NULL some other value."""
    return Call("coalesce", (value.term, nothing_of(value.type))) if value.nullable else value.term


def encode(value: Lowered) -> tuple[Term, ...]:
    """A value as terms that are never NULL, so that NULL joins with NULL: the value and, if need be, whether it is NULL."""
    return (present(value), is_null(value)) if value.nullable else (value.term,)


def width_of(value: Lowered) -> int:
    return 2 if value.nullable else 1


def decode(variables: tuple[Variable, ...], value: Lowered) -> Lowered:
    """What ``encode`` made of a value, out of columns, as it was."""
    if not value.nullable:
        return Lowered(variables[0], value.type)
    return choice(variables[1], null_of(value.type), Lowered(variables[0], value.type))


def mean_of(total: Lowered, number: Lowered, of: SqlType) -> Lowered:
    """A sum of values of a type divided by their number, which is not 0."""
    if of.kind is not Kind.DECIMAL:
        return Lowered(Call("/", (convert(total, DOUBLE).term, Call("to_float", (number.term,)))), DOUBLE, total.nullable)
    precision, scale = of.digits
    result = bounded(precision + 4, scale + 4)
    return Lowered(Call("sql_average", (total.term, number.term, Constant(result.scale, NUMBER))), result, total.nullable)


# ---- one type for several values


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type that values of both have: in comparisons, CASE, COALESCE and UNION."""
    if left.kind is None or left.kind is right.kind is not Kind.DECIMAL:
        return right if left.kind is None else left if not left.literal else right
    if right.kind is None:
        return left
    kinds = {left.kind, right.kind}
    if kinds <= {Kind.NUMBER, Kind.DECIMAL}:
        (p1, s1), (p2, s2) = left.digits, right.digits
        scale = max(s1, s2)
        return decimal(min(38, max(p1 - s1, p2 - s2) + scale), scale)
    if kinds <= {Kind.NUMBER, Kind.DECIMAL, Kind.FLOAT}:
        return DOUBLE
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP_TYPE
    return None


def convert(value: Lowered, to: SqlType) -> Lowered:
    """A value in a type that it has implicitly, see ``common_type``."""
    if value.type.kind is None or value.is_constant and value.constant is None:
        return null_of(to)
    if value.type == to or (value.type.kind is to.kind and value.type.scale == to.scale):
        return Lowered(value.term, to, value.nullable)
    if value.is_constant and value.constant is not None:
        return Lowered(Constant(_constant(value.constant, to), to.kept), to)
    match value.type.kind, to.kind:
        case _, Kind.DECIMAL:
            return Lowered(Call("sql_decimal", (value.term, *_digits(to))), to, value.nullable)
        case _, Kind.FLOAT:
            return Lowered(Call("to_float", (value.term,)), to, value.nullable)
        case Kind.DATE, Kind.TIMESTAMP:
            return Lowered(Call("sql_timestamp_of", (value.term,)), to, value.nullable)
    raise AssertionError(f"{value.type} is not converted to {to} by itself")


def _digits(to: SqlType) -> tuple[Term, Term]:
    return Constant(to.kept.precision, NUMBER), Constant(to.scale, NUMBER)


def _constant(value: Value, to: SqlType) -> Value:
    match to.kind:
        case Kind.DECIMAL:
            assert isinstance(value, (int, Decimal))
            return Decimal(value).quantize(Decimal(1).scaleb(-to.scale))
        case Kind.FLOAT:
            assert isinstance(value, (int, float, Decimal))
            return float(value)
        case Kind.TIMESTAMP if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return value


def as_decimal(value: Lowered) -> Lowered:
    """A whole number or decimal as a decimal of its own digits."""
    if value.type.kind is Kind.DECIMAL:
        return value
    precision, _ = value.type.digits
    return convert(value, decimal(precision, 0))
