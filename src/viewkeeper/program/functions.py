"""What functions there are, what types they take and give, and which of them can fail.

How each engine computes them is the engine's business; ``partial`` says that a value may make the function fail with a
coded error, so that engines guard it.
"""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.program.ast import (
    Call,
    Either,
    Literal,
    Rule,
    Term,
    Test,
    aggregates_in,
    constants_of,
    literal_terms,
    subterms,
)
from viewkeeper.program.signatures import MANY, Function, Nulls, comparable, convert, fixed, same
from viewkeeper.program.sql_functions import SQL_FUNCTIONS
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

__all__ = [
    "AGGREGATES",
    "DEFAULTED",
    "FUNCTIONS",
    "TESTS",
    "Function",
    "aggregate_type",
    "can_fail",
    "comparable",
    "rule_can_fail",
]


def _sum(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    if all(t.kind is Kind.DECIMAL for t in types):
        return decimal_type(MAX_PRECISION, max(t.scale for t in types))
    return same(INTEGERS | {Kind.FLOAT})(types, ())


def _product(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    if all(t.kind is Kind.DECIMAL for t in types):
        scale = sum(t.scale for t in types)
        return decimal_type(MAX_PRECISION, scale) if scale <= MAX_PRECISION else None
    return same(INTEGERS | {Kind.FLOAT})(types, ())


def _rescale(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
    digits = _digits(types, constants)
    return None if digits is None or digits < types[0].scale else decimal_type(MAX_PRECISION, digits)


def _fit_digits(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
    digits = _digits(types, constants)
    return None if not digits or digits < types[0].scale else decimal_type(digits, types[0].scale)


def _digits(types: Sequence[Type], constants: Sequence[object]) -> int | None:
    """The number of digits that stands behind a decimal."""
    digits = constants[1] if types[0].kind is Kind.DECIMAL and types[1].kind is Kind.NUMBER else None
    return digits if isinstance(digits, int) and 0 <= digits <= MAX_PRECISION else None


_TEXT_OR_NUMERIC = NUMERIC | {Kind.SYMBOL, Kind.BOOL}
_WHOLE = "number or unsigned"
_ARITHMETIC = "number, unsigned, float or decimal"


def _functions() -> list[Function]:
    whole, real = same(INTEGERS), same(INTEGERS | {Kind.FLOAT})
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
        Function("neg", (1, 1), same(NUMERIC - {Kind.UNSIGNED}), "number, float or decimal"),
        Function("/", (2, 2), real, "number, unsigned or float"),
        Function("%", (2, 2), whole, _WHOLE),
        Function("^", (2, 2), real, "number, unsigned or float"),
        Function("min", (1, MANY), same(ORDERED), "values of one ordered type", partial=False),
        Function("max", (1, MANY), same(ORDERED), "values of one ordered type", partial=False),
        Function("cat", (1, MANY), same(frozenset({Kind.SYMBOL})), "symbols", partial=False),
        fixed("strlen", (SYMBOL,), NUMBER, "a symbol", partial=False),
        fixed("substr", (SYMBOL, NUMBER, NUMBER), SYMBOL, "a symbol and two numbers", partial=False),
        fixed("ord", (SYMBOL,), NUMBER, "a symbol", partial=False),
        Function("to_number", (1, 1), convert(_TEXT_OR_NUMERIC, NUMBER), "a symbol, bool or number of any kind", 0),
        Function("to_unsigned", (1, 1), convert(_TEXT_OR_NUMERIC, UNSIGNED), "a symbol, bool or number of any kind", 0),
        Function("to_float", (1, 1), convert(NUMERIC | {Kind.SYMBOL}, FLOAT), "a symbol or number of any kind", 0),
        Function("to_string", (1, 1), convert(frozenset(Kind), SYMBOL), "any value", 0, partial=False),
        fixed("to_date", (SYMBOL,), DATE, "a symbol", partial=True),
        fixed("to_timestamp", (SYMBOL,), TIMESTAMP, "a symbol", partial=True),
        Function("range", (2, 3), whole, _WHOLE, nulls=Nulls.NOTHING),
        Function("coalesce", (2, MANY), same(frozenset(Kind)), "values of one type", partial=False, nulls=Nulls.ALL, sure=1),
        # The two below are inserted where decimals change their digits; they can be written, too.
        Function("rescale", (2, 2), _rescale, "a decimal and a number of digits", 0),
        Function("fit_digits", (2, 2), _fit_digits, "a decimal and a number of digits", 0),
    ]


FUNCTIONS: dict[str, Function] = {function.name: function for function in (*_functions(), *SQL_FUNCTIONS)}

TESTS: dict[str, int] = {"match": 2, "contains": 2, "is_null": 1, "holds": 1}
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


def can_fail(term: Term) -> bool:
    """Is there a function in the term that some values make fail?"""
    return any(isinstance(part, Call) and FUNCTIONS[part.function].can_fail(constants_of(part)) for part in subterms(term))


def rule_can_fail(rule: Rule) -> bool:
    """Can evaluating the rule fail, whatever is done with its results?"""
    return any(map(_literal_can_fail, (rule.head, *rule.body)))


def _literal_can_fail(literal: Literal) -> bool:
    match literal:
        case Test(predicate="match"):  # not every text is a pattern
            return True
        case Either():
            return any(_literal_can_fail(one) for body in literal.alternatives for one in body)
    inner = (one for aggregate in aggregates_in(literal) for one in aggregate.body)
    return any(map(can_fail, literal_terms(literal))) or any(map(_literal_can_fail, inner))
