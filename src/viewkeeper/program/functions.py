"""What functions there are, what types they take and give, and which of them can fail.

How each engine computes them is the engine's business; ``partial`` says that a value may make the function fail with a
coded error, so that engines guard it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viewkeeper.program.types import (
    DATE,
    FLOAT,
    INTEGERS,
    MAX_PRECISION,
    NUMBER,
    NUMERIC,
    ORDERED,
    SYMBOL,
    TIMESTAMP,
    UNSIGNED,
    Kind,
    Type,
    decimal_type,
)

Typing = Callable[[Sequence[Type]], Type | None]


@dataclass(frozen=True)
class Function:
    """A function: ``typing`` gives the result's type or None where the arguments do not fit.

    ``alike`` is the number of leading arguments that must share one type (-1: all), so that open constants among them adopt it.
    ``takes`` are the types of the arguments where there is only one choice.
    """

    name: str
    arity: tuple[int, int]
    typing: Typing
    accepts: str
    alike: int = -1
    partial: bool = True
    takes: tuple[Type, ...] = ()


def comparable(left: Type, right: Type) -> bool:
    """May values of the two types be compared or joined as they are stored?"""
    return left.kind is right.kind and left.scale == right.scale


def _same(kinds: frozenset[Kind]) -> Typing:
    def typing(types: Sequence[Type]) -> Type | None:
        first = types[0]
        fits = first.kind in kinds and all(comparable(first, t) for t in types)
        return first.base if fits else None

    return typing


def _sum(types: Sequence[Type]) -> Type | None:
    if all(t.kind is Kind.DECIMAL for t in types):
        return decimal_type(MAX_PRECISION, max(t.scale for t in types))
    return _same(INTEGERS | {Kind.FLOAT})(types)


def _product(types: Sequence[Type]) -> Type | None:
    if all(t.kind is Kind.DECIMAL for t in types):
        scale = sum(t.scale for t in types)
        return decimal_type(MAX_PRECISION, scale) if scale <= MAX_PRECISION else None
    return _same(INTEGERS | {Kind.FLOAT})(types)


def _rescale(types: Sequence[Type]) -> Type | None:
    # The new scale is the second argument's value; typing.py knows it and sets the result.
    return types[0] if types[0].kind is Kind.DECIMAL else None


def _convert(kinds: frozenset[Kind], result: Type) -> Typing:
    return lambda types: result if types[0].kind in kinds else None


def _fixed(name: str, takes: tuple[Type, ...], result: Type, accepts: str, partial: bool) -> Function:
    def typing(types: Sequence[Type]) -> Type | None:
        return result if [t.kind for t in types] == [t.kind for t in takes] else None

    return Function(name, (len(takes), len(takes)), typing, accepts, partial=partial, takes=takes)


_TEXT_OR_NUMERIC = NUMERIC | {Kind.SYMBOL, Kind.BOOL}
_WHOLE = "number or unsigned"
_ARITHMETIC = "number, unsigned, float or decimal"
_MANY = 10_000


def _functions() -> list[Function]:
    whole, real = _same(INTEGERS), _same(INTEGERS | {Kind.FLOAT})
    bits = [
        Function(name, (2, 2), whole, _WHOLE, partial=False)
        for name in ("band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")
    ]
    return [
        *bits,
        Function("bnot", (1, 1), whole, _WHOLE),
        Function("lnot", (1, 1), whole, _WHOLE, partial=False),
        Function("+", (2, 2), _sum, _ARITHMETIC),
        Function("-", (2, 2), _sum, _ARITHMETIC),
        Function("*", (2, 2), _product, f"{_ARITHMETIC} (with at most {MAX_PRECISION} digits after the point)"),
        Function("neg", (1, 1), _same(NUMERIC - {Kind.UNSIGNED}), "number, float or decimal"),
        Function("/", (2, 2), real, "number, unsigned or float"),
        Function("%", (2, 2), whole, _WHOLE),
        Function("^", (2, 2), real, "number, unsigned or float"),
        Function("min", (1, _MANY), _same(ORDERED), "values of one ordered type", partial=False),
        Function("max", (1, _MANY), _same(ORDERED), "values of one ordered type", partial=False),
        Function("cat", (1, _MANY), _same(frozenset({Kind.SYMBOL})), "symbols", partial=False),
        _fixed("strlen", (SYMBOL,), NUMBER, "a symbol", partial=False),
        _fixed("substr", (SYMBOL, NUMBER, NUMBER), SYMBOL, "a symbol and two numbers", partial=False),
        _fixed("ord", (SYMBOL,), NUMBER, "a symbol", partial=False),
        Function("to_number", (1, 1), _convert(_TEXT_OR_NUMERIC, NUMBER), "a symbol, bool or number of any kind", 0),
        Function("to_unsigned", (1, 1), _convert(_TEXT_OR_NUMERIC, UNSIGNED), "a symbol, bool or number of any kind", 0),
        Function("to_float", (1, 1), _convert(NUMERIC | {Kind.SYMBOL}, FLOAT), "a symbol or number of any kind", 0),
        Function("to_string", (1, 1), _convert(frozenset(Kind), SYMBOL), "any value", 0, partial=False),
        _fixed("to_date", (SYMBOL,), DATE, "a symbol", partial=True),
        _fixed("to_timestamp", (SYMBOL,), TIMESTAMP, "a symbol", partial=True),
        Function("range", (2, 3), whole, _WHOLE),
        Function("coalesce", (2, 2), _same(frozenset(Kind)), "two values of one type", partial=False),
        # The two below are inserted where decimals change their digits; they can be written, too.
        Function("rescale", (2, 2), _rescale, "a decimal and a number of digits", 0),
        Function("fit_digits", (2, 2), _rescale, "a decimal and a number of digits", 0),
    ]


FUNCTIONS: dict[str, Function] = {function.name: function for function in _functions()}

TESTS: dict[str, int] = {"match": 2, "contains": 2, "is_null": 1}
AGGREGATES = ("count", "sum", "min", "max", "mean")

# count and sum have a value for no rows at all.
DEFAULTED = frozenset({"count", "sum"})


def aggregate_type(operation: str, target: Type | None) -> Type | None:
    """The type of an aggregate's result, or None where the target does not fit."""
    if operation == "count":
        return NUMBER
    assert target is not None
    match operation:
        case "sum" if target.kind is Kind.DECIMAL:
            return decimal_type(MAX_PRECISION, target.scale)
        case "sum" if target.kind in NUMERIC:
            return target.base
        case "mean" if target.kind in NUMERIC:
            return FLOAT
        case "min" | "max" if target.kind in ORDERED:
            return target.optional(False)
    return None
