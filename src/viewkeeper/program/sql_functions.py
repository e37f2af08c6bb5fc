"""The functions that SQL is made of, as Spark has them in ANSI mode with its clocks in UTC.

Where Spark answers with an infinite number or NaN, or with a year that has not four digits, these fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from viewkeeper.errors import shortened
from viewkeeper.program.java_patterns import BadPattern, java_pattern
from viewkeeper.program.signatures import MANY, CanFail, Function, Nulls, Typing, chosen_from, comparable, convert, fixed, same
from viewkeeper.program.types import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    MAX_PRECISION,
    NUMBER,
    NUMERIC,
    SYMBOL,
    TIMESTAMP,
    Kind,
    Type,
    decimal_type,
)

_ANY = frozenset(Kind)
_SIGNED = NUMERIC - {Kind.UNSIGNED}
_DAYS = frozenset({Kind.DATE, Kind.TIMESTAMP})
_TEXTS = frozenset({Kind.SYMBOL, Kind.BYTES})

# The units of sql_trunc and sql_date_trunc, in capital letters → what they mean.
UNITS: dict[str, str] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MON", "MM"), "MONTH"),
    "WEEK": "WEEK",
    **dict.fromkeys(("DAY", "DD"), "DAY"),
    **{unit: unit for unit in ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")},
}
DATE_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK"})

# Functions that refuse texts, as they are written in SQL, and what to do.
CAST_KINDS = {
    "sql_text_to_number": Kind.NUMBER, "sql_text_to_float": Kind.FLOAT, "sql_text_to_decimal": Kind.DECIMAL,
    "sql_text_to_bool": Kind.BOOL, "sql_text_to_date": Kind.DATE, "sql_text_to_timestamp": Kind.TIMESTAMP,
}  # fmt: skip
_CAST_NAMES = {Kind.NUMBER: "BIGINT", Kind.FLOAT: "DOUBLE", Kind.BOOL: "BOOLEAN"}
_PATTERNS = {
    "sql_rlike": ("RLIKE '{}'", r"Correct the pattern: a sign such as ( that stands for itself is written '\\('."),
    "sql_regexp": ("the pattern '{}'", r"Correct the pattern: a sign such as ( that stands for itself is written '\\('."),
    "sql_regexp_replace": ("the replacement '{}'", r"$1 is what the first group of the pattern has matched."),
    "sql_next_day": ("next_day(…, '{}')", "Write Monday, Mon or MO."),
    "sql_parse_time": ("the text '{}'", "Convert only what can be read, or correct the pattern."),
    "sql_like": ("LIKE '{}'", r"Write \\ before _, % or \\ in a pattern, or choose another sign with ESCAPE."),
    "sql_date_format": (
        "date_format(…, '{}')",
        "Correct the pattern: letters that stand for themselves are in quotation marks.",
    ),
}


def spelled(function: str, text: str) -> dict[str, object]:
    """What a message about a function of SQL that refuses a text is made of; nothing of other functions.

    >>> spelled("sql_text_to_date", "2024-02-30")["what"]
    "CAST('2024-02-30' AS DATE)"
    """
    if function in _PATTERNS:
        form, hint = _PATTERNS[function]
        return {"in_sql": True, "what": form.format(shortened(text)), "hint": hint}
    if function not in CAST_KINDS:
        return {}
    kind = CAST_KINDS[function]
    type_ = _CAST_NAMES.get(kind, kind.name)
    hint = f"Convert only what can be: CASE WHEN s RLIKE '…' THEN CAST(s AS {type_}) END is NULL for all else."
    return {"in_sql": True, "what": f"CAST('{shortened(text)}' AS {type_})", "hint": hint}


# ---- types


def _bools(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return BOOL if all(t.kind is Kind.BOOL for t in types) else None


def _compared(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return BOOL if types[0].kind is types[1].kind else None


def _listed(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return BOOL if all(comparable(types[0], t) for t in types) else None


def _chosen(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    if len(types) % 2 == 0 or any(t.kind is not Kind.BOOL for t in types[:-1:2]):
        return None
    values = [types[i] for i in chosen_from(len(types))]
    return _widest(values) if all(comparable(values[0], t) for t in values) else None


def _chosen_places(count: int) -> Sequence[Type | None]:
    return [BOOL if i % 2 == 0 and i < count - 1 else None for i in range(count)]


def _widest(types: Sequence[Type]) -> Type:
    """Of decimals of one scale the one with the most digits."""
    return max(types, key=lambda t: t.precision).base


def _greatest(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return _widest(types) if all(comparable(types[0], t) for t in types) else None


def _digits(precision: object, scale: object) -> Type | None:
    """The decimal type with as many digits as two constants say."""
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    return decimal_type(precision, scale) if 1 <= precision <= MAX_PRECISION and 0 <= scale <= precision else None


def _to_decimal(kinds: frozenset[Kind]) -> Typing:
    return lambda types, constants: _digits(*constants[1:]) if types[0].kind in kinds else None


def _decimals(*kinds: Kind) -> Typing:
    """Arguments of the kinds, then the scale of the decimal that results."""

    def typing(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
        fits = all(t.kind is kind for t, kind in zip(types, kinds, strict=False))
        return _digits(MAX_PRECISION, constants[-1]) if fits else None

    return typing


def _round(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
    places = constants[1] if len(constants) == 2 else 0
    if types[0].kind not in _SIGNED or not isinstance(places, int):
        return None
    return _whole(types[0], places) if types[0].kind is Kind.DECIMAL else types[0].base


def _whole(type_: Type, places: int = 0) -> Type:
    return decimal_type(MAX_PRECISION, max(0, min(type_.scale, places)))


def _formatted(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return SYMBOL if types[0].kind in _SIGNED and types[1].kind is Kind.NUMBER else None


def _ceil(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    match types[0].kind:
        case Kind.DECIMAL:
            return _whole(types[0])
        case Kind.NUMBER | Kind.FLOAT:
            return NUMBER
    return None


def _moved(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return types[0].base if types[0].kind in _DAYS and types[1].kind is Kind.NUMBER else None


def _truncated(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
    unit = UNITS.get(str(constants[1]).upper())
    return DATE if types[0].kind is Kind.DATE and unit in DATE_UNITS else None


def _time_truncated(types: Sequence[Type], constants: Sequence[object]) -> Type | None:
    return TIMESTAMP if types[1].kind is Kind.TIMESTAMP and str(constants[0]).upper() in UNITS else None


def _joined(types: Sequence[Type], _: Sequence[object]) -> Type | None:
    return SYMBOL if all(t.kind is Kind.SYMBOL for t in types) else None


# ---- constants with which functions do not fail


def _counts(*places: int) -> CanFail:
    """Places and lengths have 32 bits."""

    def can_fail(constants: Sequence[object]) -> bool:
        counts = [constants[place] for place in places if place < len(constants)]
        return not all(isinstance(count, int) and -(2**31) <= count < 2**31 for count in counts)

    return can_fail


def _like_fails(constants: Sequence[object]) -> bool:
    """In a pattern of LIKE only %, _ and itself may stand behind the escape."""
    pattern, escape = constants[1], constants[2] if len(constants) == 3 else "\\"
    if not isinstance(pattern, str) or not isinstance(escape, str) or len(escape) != 1:
        return True
    mark = re.escape(escape)
    return re.fullmatch(f"([^{mark}]|{mark}[%_{mark}])*", pattern, re.DOTALL) is None


def _pattern_fails(constants: Sequence[object]) -> bool:
    try:
        return not (isinstance(constants[1], str) and java_pattern(constants[1]))
    except BadPattern:
        return True


def _index_fails(constants: Sequence[object]) -> bool:
    return constants[2] == 0 or _counts(2)(constants)


# ---- functions


def _logic() -> list[Function]:
    lazy = [
        Function(n, (2, MANY), _bools, "bools", partial=False, takes=lambda k: [BOOL] * k, nulls=Nulls.SOME, sure=1)
        for n in ("sql_and", "sql_or")
    ]
    comparisons = [
        Function(f"sql_{n}", (2, 2), _compared, "two values of one type", partial=False)
        for n in ("eq", "ne", "lt", "le", "gt", "ge")
    ]
    return [
        *lazy,
        *comparisons,
        fixed("sql_not", (BOOL,), BOOL, "a bool"),
        Function("sql_same", (2, 2), _compared, "two values of one type", partial=False, nulls=Nulls.NEVER),
        Function("sql_in", (2, MANY), _listed, "values of one type", partial=False, nulls=Nulls.SOME),
        Function("sql_null", (1, 1), convert(_ANY, BOOL), "any value", 0, partial=False, nulls=Nulls.NEVER),
        Function(
            "sql_if", (3, MANY), _chosen, "bools, each with a value, and a last value, all values of one type",
            partial=False, takes=_chosen_places, nulls=Nulls.CHOSEN, sure=1,
        ),
    ]  # fmt: skip


REAL_FUNCTIONS = (
    "sqrt",
    "cbrt",
    "exp",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "degrees",
    "radians",
)
_FURTHER_REAL = ("cot", "sec", "csc")
_LOGARITHMS = ("ln", "log10", "log2", "log1p")


def _numbers() -> list[Function]:
    signed, numeric = same(_SIGNED), "number, float or decimal"
    two = "decimals and a number of digits"
    return [
        Function(
            "sql_decimal", (3, 3), _to_decimal(NUMERIC | {Kind.BOOL}), "a number of any kind and two numbers of digits", 0
        ),
        Function("sql_divide", (3, 3), _decimals(Kind.DECIMAL, Kind.DECIMAL), two, 2),
        Function("sql_multiply", (3, 3), _decimals(Kind.DECIMAL, Kind.DECIMAL), two, 2),
        Function("sql_average", (3, 3), _decimals(Kind.DECIMAL, Kind.NUMBER), "a decimal and two numbers", 1),
        Function("sql_mod", (2, 2), same(NUMERIC), f"{numeric} or unsigned"),
        Function("sql_abs", (1, 1), signed, numeric),
        Function("sql_sign", (1, 1), convert(_SIGNED, FLOAT), numeric, partial=False),
        Function("sql_round", (1, 2), _round, f"{numeric}, and a constant number of digits", 1),
        Function("sql_ceil", (1, 1), _ceil, numeric),
        Function("sql_floor", (1, 1), _ceil, numeric),
        Function("sql_greatest", (2, MANY), _greatest, "values of one type", partial=False, nulls=Nulls.ALL),
        Function("sql_least", (2, MANY), _greatest, "values of one type", partial=False, nulls=Nulls.ALL),
        *(fixed(f"sql_{n}", (FLOAT,), FLOAT, "a float", partial=True) for n in (*REAL_FUNCTIONS, *_FURTHER_REAL)),
        *(fixed(f"sql_{n}", (FLOAT,), FLOAT, "a float", partial=True, nulls=Nulls.PARTIAL) for n in _LOGARITHMS),
        fixed("sql_log", (FLOAT, FLOAT), FLOAT, "two floats", partial=True, nulls=Nulls.PARTIAL),
        fixed("sql_power", (FLOAT, FLOAT), FLOAT, "two floats", partial=True),
        fixed("sql_atan2", (FLOAT, FLOAT), FLOAT, "two floats"),
        fixed("sql_hypot", (FLOAT, FLOAT), FLOAT, "two floats", partial=True),
        fixed("sql_rint", (FLOAT,), FLOAT, "a float"),
        Function("sql_bround", (1, 2), _round, f"{numeric}, and a constant number of digits", 1),
        *(
            fixed(f"sql_try_{n}", (NUMBER, NUMBER), NUMBER, "two numbers", nulls=Nulls.PARTIAL)
            for n in ("add", "subtract", "multiply")
        ),
        fixed("sql_factorial", (NUMBER,), NUMBER, "a number", nulls=Nulls.PARTIAL),
        fixed("sql_bit_count", (NUMBER,), NUMBER, "a number"),
        fixed("sql_width_bucket", (FLOAT, FLOAT, FLOAT, NUMBER), NUMBER, "three floats and a number", nulls=Nulls.PARTIAL),
        fixed("sql_bin", (NUMBER,), SYMBOL, "a number"),
        fixed("sql_conv", (SYMBOL, NUMBER, NUMBER), SYMBOL, "a symbol and two numbers", partial=True, nulls=Nulls.PARTIAL),
        Function(
            "sql_format_number", (2, 2), _formatted, f"{numeric}, and a number of digits", 0,
            takes=lambda count: [None, NUMBER], nulls=Nulls.PARTIAL,
        ),
    ]  # fmt: skip


def _casts() -> list[Function]:
    results = {"number": NUMBER, "float": FLOAT, "date": DATE, "timestamp": TIMESTAMP, "bool": BOOL}
    return [
        Function("sql_string", (1, 1), convert(_ANY - {Kind.BYTES}, SYMBOL), "any value but bytes", 0, partial=False),
        *(fixed(f"sql_text_to_{n}", (SYMBOL,), result, "a symbol", partial=True) for n, result in results.items()),
        Function(
            "sql_text_to_decimal", (3, 3), _to_decimal(frozenset({Kind.SYMBOL})), "a symbol and two numbers of digits", 0,
        ),
        *(
            fixed(f"sql_try_text_to_{n}", (SYMBOL,), result, "a symbol", partial=n in ("float", "date", "timestamp"), nulls=Nulls.PARTIAL)
            for n, result in results.items()
        ),
        Function(
            "sql_try_text_to_decimal", (3, 3), _to_decimal(frozenset({Kind.SYMBOL})), "a symbol and two numbers of digits", 0,
            partial=False, nulls=Nulls.PARTIAL,
        ),
        Function(
            "sql_try_decimal", (3, 3), _to_decimal(NUMERIC), "a number of any kind and two numbers of digits", 0,
            partial=False, nulls=Nulls.PARTIAL,
        ),
        fixed("sql_try_to_number", (FLOAT,), NUMBER, "a float", nulls=Nulls.PARTIAL),
        Function("sql_to_bool", (1, 1), convert(NUMERIC, BOOL), "a number of any kind", 0, partial=False),
        fixed("sql_date_of", (TIMESTAMP,), DATE, "a timestamp"),
        fixed("sql_timestamp_of", (DATE,), TIMESTAMP, "a date"),
    ]  # fmt: skip


def _dates() -> list[Function]:
    of_days = ("year", "month", "day", "quarter", "day_of_week", "weekday", "day_of_year", "week_of_year")
    either = "a date or timestamp"
    return [
        *(Function(f"sql_{n}", (1, 1), convert(_DAYS, NUMBER), either, partial=False) for n in of_days),
        *(fixed(f"sql_{n}", (TIMESTAMP,), NUMBER, "a timestamp") for n in ("hour", "minute", "second")),
        fixed("sql_date_add", (DATE, NUMBER), DATE, "a date and a number", partial=True),
        fixed("sql_date_diff", (DATE, DATE), NUMBER, "two dates"),
        Function("sql_add_months", (2, 2), _moved, f"{either} and a number", 1),
        fixed("sql_timestamp_add", (TIMESTAMP, NUMBER), TIMESTAMP, "a timestamp and a number", partial=True),
        fixed("sql_timestamp_diff", (TIMESTAMP, TIMESTAMP), NUMBER, "two timestamps"),
        fixed("sql_last_day", (DATE,), DATE, "a date"),
        Function("sql_trunc", (2, 2), _truncated, "a date and a constant unit: year, quarter, month or week", partial=False, takes=(DATE, SYMBOL)),
        Function(
            "sql_date_trunc", (2, 2), _time_truncated, "a constant unit from year to microsecond, and a timestamp",
            partial=False, takes=(SYMBOL, TIMESTAMP),
        ),
        fixed("sql_make_date", (NUMBER, NUMBER, NUMBER), DATE, "three numbers", partial=True),
        fixed("sql_make_timestamp", (NUMBER,) * 6, TIMESTAMP, "six numbers", partial=True),
        fixed("sql_months_between", (TIMESTAMP, TIMESTAMP, BOOL), FLOAT, "two timestamps and a bool"),
        fixed("sql_months_until", (TIMESTAMP, TIMESTAMP), NUMBER, "two timestamps"),
        fixed("sql_next_day", (DATE, SYMBOL), DATE, "a date and a symbol", partial=True),
        fixed("sql_parse_time", (SYMBOL, SYMBOL), TIMESTAMP, "two symbols", partial=True),
        fixed("sql_try_parse_time", (SYMBOL, SYMBOL), TIMESTAMP, "two symbols", nulls=Nulls.PARTIAL),
        Function(
            "sql_date_format", (2, 2), lambda types, _: SYMBOL if types[0].kind in _DAYS and types[1].kind is Kind.SYMBOL else None,
            f"{either} and a symbol", takes=lambda count: [None, SYMBOL],
        ),
    ]  # fmt: skip


def _texts() -> list[Function]:
    text, number = SYMBOL, NUMBER
    one, two = "a symbol", "two symbols"
    return [
        *(fixed(f"sql_{n}", (text,), text, one) for n in ("upper", "lower", "reverse", "initcap", "md5", "sha1", "soundex")),
        *(fixed(f"sql_{n}", (text,), number, one) for n in ("length", "ascii", "crc32")),
        Function("sql_octet_length", (1, 1), convert(_TEXTS, number), "a symbol or bytes", 0, partial=False),
        Function("sql_hex", (1, 1), convert(_TEXTS | {Kind.NUMBER}, text), "a number, a symbol or bytes", 0, partial=False),
        fixed("sql_unhex", (text,), BYTES, one, nulls=Nulls.PARTIAL),
        *(fixed(f"sql_{n}", (text, text), number, two) for n in ("levenshtein", "find_in_set")),
        fixed("sql_overlay", (text, text, number, number), text, "two symbols and one or two numbers", partial=True, least=3),
        fixed("sql_substring_index", (text, text, number), text, "two symbols and a number", _counts(2)),
        fixed("sql_regexp_extract", (text, text, number), text, "two symbols and a number", partial=True),
        fixed("sql_regexp_replace", (text, text, text), text, "three symbols", partial=True),
        *(fixed(f"sql_regexp_{n}", (text, text), number, two, _pattern_fails) for n in ("count", "instr")),
        fixed("sql_regexp_substr", (text, text), text, two, _pattern_fails, nulls=Nulls.PARTIAL),
        fixed("sql_substring", (text, number, number), text, "a symbol and one or two numbers", _counts(1, 2), least=2),
        *(fixed(f"sql_{n}", (text, text), text, "one or two symbols", least=1) for n in ("trim", "ltrim", "rtrim")),
        *(fixed(f"sql_{n}", (text, text, text), text, "three symbols") for n in ("replace", "translate")),
        *(
            fixed(f"sql_{n}", (text, number, text), text, "a symbol, a number, a symbol", _counts(1), least=2)
            for n in ("lpad", "rpad")
        ),
        fixed("sql_instr", (text, text), number, two),
        fixed("sql_locate", (text, text, number), number, "two symbols and a number", _counts(2)),
        *(fixed(f"sql_{n}", (text, number), text, "a symbol and a number", _counts(1)) for n in ("left", "right")),
        fixed("sql_repeat", (text, number), text, "a symbol and a number", _counts(1)),
        fixed("sql_split_part", (text, text, number), text, "two symbols and a number", _index_fails),
        *(fixed(f"sql_{n}", (text, text, text), BOOL, "two or three symbols", _like_fails, least=2) for n in ("like", "ilike")),
        *(fixed(f"sql_{n}", (text, text), BOOL, two) for n in ("starts_with", "ends_with", "contains")),
        fixed("sql_rlike", (text, text), BOOL, two, _pattern_fails),
        Function(
            "sql_concat_ws", (1, MANY), _joined, "symbols", partial=False, takes=lambda k: [SYMBOL] * k, nulls=Nulls.FIRST
        ),
        fixed("sql_chr", (number,), text, "a number", partial=True),
        fixed("sql_sha2", (text, number), text, "a symbol and a number", nulls=Nulls.PARTIAL),
    ]


SQL_FUNCTIONS: tuple[Function, ...] = (*_logic(), *_numbers(), *_casts(), *_dates(), *_texts())
