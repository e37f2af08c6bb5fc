"""SQL's functions as SQLite's SQL: its own where they give the same, else Python. Every argument is written once, or terms in
terms would double at every level; and once is how often it is evaluated, if it is needed at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from viewkeeper.engines.scalar import Failure
from viewkeeper.engines.sql import Expression
from viewkeeper.engines.sql_dates import PARTS
from viewkeeper.engines.sql_texts import glob_pattern
from viewkeeper.program.types import Kind, Type

# SQLite refuses patterns of 50,000 bytes; from here on a pattern is better read once.
_LONGEST_PATTERN = 1_000
COMPARISONS = {"sql_eq": "=", "sql_ne": "<>", "sql_lt": "<", "sql_le": "<=", "sql_gt": ">", "sql_ge": ">="}

# Functions that are Python's on both engines.
FORMS_OF_NUMBERS: dict[tuple[str, Kind], str] = {
    ("sql_hex", Kind.NUMBER): "vk_sql_hex_number({0})",
    ("sql_format_number", Kind.FLOAT): "vk_sql_format_float({0}, {1})",
    ("sql_format_number", Kind.DECIMAL): "vk_sql_format_decimal({0}, {1}, {scale})",
}

_TEMPLATES: dict[str, str] = {
    "sql_not": "(NOT {0})",
    "sql_null": "({0} IS NULL)",
    "sql_mod": "vk_remainder({0}, {1})",
    "sql_to_bool": "({0} <> 0)",
    "sql_timestamp_of": "({0} * 86400000000)",
    "sql_date_add": "vk_sql_fit_days({0} + {1})",
    "sql_date_diff": "({0} - {1})",
    "sql_timestamp_add": "vk_sql_fit_time({0} + {1})",
    "sql_timestamp_diff": "({0} - {1})",
    "sql_length": "length({0})",
    "sql_instr": "instr({0}, {1})",
    "sql_contains": "(instr({0}, {1}) > 0)",
}

# For some kinds of the first argument there are functions of their own.
_OF_KINDS: dict[tuple[str, Kind], str] = {
    ("sql_mod", Kind.FLOAT): "vk_sql_float_mod({0}, {1})",
    ("sql_abs", Kind.FLOAT): "abs({0})",
    ("sql_abs", Kind.DECIMAL): "abs({0})",
    ("sql_round", Kind.NUMBER): "vk_sql_round_number({0}, {1})",
    ("sql_round", Kind.FLOAT): "vk_sql_round_float({0}, {1})",
    ("sql_bround", Kind.NUMBER): "vk_sql_bround_number({0}, {1})",
    ("sql_bround", Kind.FLOAT): "vk_sql_bround_float({0}, {1})",
    **FORMS_OF_NUMBERS,
    ("sql_ceil", Kind.NUMBER): "{0}",
    ("sql_ceil", Kind.FLOAT): "vk_sql_float_ceil({0})",
    ("sql_ceil", Kind.DECIMAL): "vk_sql_decimal_ceil({0}, {scale})",
    ("sql_floor", Kind.NUMBER): "{0}",
    ("sql_floor", Kind.FLOAT): "vk_sql_float_floor({0})",
    ("sql_floor", Kind.DECIMAL): "vk_sql_decimal_floor({0}, {scale})",
    ("sql_string", Kind.NUMBER): "CAST({0} AS TEXT)",
    ("sql_string", Kind.UNSIGNED): "CAST({0} AS TEXT)",
    ("sql_string", Kind.FLOAT): "vk_sql_float_text({0})",
    ("sql_string", Kind.SYMBOL): "{0}",
    ("sql_string", Kind.BOOL): "CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    ("sql_string", Kind.DATE): "vk_date_to_string({0})",
    ("sql_string", Kind.TIMESTAMP): "vk_sql_time_text({0})",
    ("sql_string", Kind.DECIMAL): "vk_decimal_to_string({0}, {scale})",
    ("sql_add_months", Kind.TIMESTAMP): "vk_sql_time_add_months({0}, {1})",
    ("sql_date_format", Kind.DATE): "vk_sql_date_format({0} * 86400000000, {1})",
    **{(f"sql_{name}", Kind.TIMESTAMP): f"vk_sql_time_{name}({{0}})" for name in PARTS},
}


def sqlite_call(function: str, arguments: Sequence[Expression], result: Type) -> str:
    sql = [a.sql for a in arguments]
    first = arguments[0].type
    match function:
        case "sql_and":
            return reduce(_and, arguments).sql
        case "sql_or":
            return reduce(_or, arguments).sql
        case "sql_if":
            return chosen(sql)
        case "sql_like" if (pattern := _constant_pattern(arguments)) is not None:
            return f"({sql[0]} GLOB {pattern})"
        case "sql_substring" if all(_is_small(a.value, least) for a, least in zip(arguments[1:], (1, 0), strict=False)):
            return f"substr({', '.join(sql)})"
        case "sql_in":
            return f"({sql[0]} IN ({', '.join(sql[1:])}))"
        case "sql_same":
            return "({} IS {})".format(*_at_one_scale(arguments))
        case "sql_decimal" if first.kind is Kind.FLOAT:
            return f"vk_sql_float_decimal({sql[0]}, {result.scale}, {result.precision})"
        case "sql_decimal":
            return f"vk_sql_decimal({sql[0]}, {result.scale - first.scale}, {result.precision})"
        case "sql_try_decimal":
            return try_decimal(arguments, result)
        case "sql_divide" | "sql_multiply" | "sql_average":
            return moved(function, arguments, result)
        case "sql_text_to_decimal" | "sql_try_text_to_decimal":
            return f"vk_{function}({sql[0]}, {result.precision}, {result.scale})"
        case "sql_trim" | "sql_ltrim" | "sql_rtrim":
            return f"{function[4:]}({', '.join(sql)})"
        case "sql_round" | "sql_bround" if first.kind is Kind.DECIMAL:
            dropped, zeros = rounding(arguments)
            return f"vk_{function}_decimal({sql[0]}, {dropped}, {zeros})" if dropped > 0 else sql[0]
    if function in COMPARISONS:
        return f" {COMPARISONS[function]} ".join(_at_one_scale(arguments)).join("()")
    if function in ("sql_round", "sql_bround") and len(sql) == 1:
        sql.append("0")
    template = _OF_KINDS.get((function, first.kind)) or _TEMPLATES.get(function) or f"vk_{function}({', '.join(sql)})"
    return template.format(*sql, scale=first.scale)


def _constant_pattern(arguments: Sequence[Expression]) -> str | None:
    """The pattern of a LIKE for GLOB, if it is known and right."""
    texts = [argument.value for argument in arguments[1:] if isinstance(argument.value, str)]
    if len(texts) < len(arguments) - 1 or sum(map(len, texts)) > _LONGEST_PATTERN:
        return None
    try:
        pattern = glob_pattern(*texts)
    except Failure:
        return None  # told where it is evaluated
    return "'" + pattern.replace("'", "''") + "'"


def _is_small(value: object, least: int) -> bool:
    """Is it a known place or length that means the same to all?"""
    return isinstance(value, int) and least <= value < 1 << 31


def chosen(sql: Sequence[str]) -> str:
    branches = [f"WHEN {c} THEN {v}" for c, v in zip(sql[::2], sql[1::2], strict=False)]
    return f"CASE {' '.join(branches)} ELSE {sql[-1]} END"


def moved(function: str, arguments: Sequence[Expression], result: Type) -> str:
    """The exact result of a division or multiplication, moved by so many digits, rounded."""
    left, right = arguments[0], arguments[1]
    name = "vk_sql_multiply" if function == "sql_multiply" else "vk_sql_divide"
    over = -right.type.scale if function == "sql_multiply" else right.type.scale
    return f"{name}({left.sql}, {right.sql}, {result.scale - left.type.scale + over})"


def try_decimal(arguments: Sequence[Expression], result: Type) -> str:
    """A decimal of so many digits, or NULL."""
    first = arguments[0]
    if first.type.kind is Kind.FLOAT:
        return f"vk_sql_try_float_decimal({first.sql}, {result.scale}, {result.precision})"
    return f"vk_sql_try_decimal({first.sql}, {result.scale - first.type.scale}, {result.precision})"


def rounding(arguments: Sequence[Expression]) -> tuple[int, int]:
    """How many digits a rounding drops (none if that is not positive), and how many zeros it puts in their place."""
    value = arguments[1].value if len(arguments) == 2 else 0
    assert isinstance(value, int)
    places = max(-40, min(40, value))
    return arguments[0].type.scale - places, max(0, -places)


def _at_one_scale(arguments: Sequence[Expression]) -> list[str]:
    """Decimals in units of the smaller one. What does not fit an integer is a float then, and larger than all there are."""
    scale = max(a.type.scale for a in arguments)
    return [a.sql if a.type.scale == scale else f"{a.sql} * {10 ** (scale - a.type.scale)}" for a in arguments]


def _and(left: Expression, right: Expression) -> Expression:
    return _lazily(left, right, "AND", decides=0)


def _or(left: Expression, right: Expression) -> Expression:
    return _lazily(left, right, "OR", decides=1)


def _lazily(left: Expression, right: Expression, sign: str, decides: int) -> Expression:
    """SQLite evaluates both sides of AND and OR. Where the right one can fail it must not if the left one decides."""
    if not right.risk:
        sql = f"({left.sql} {sign} {right.sql})"
    elif not left.nullable:
        sql = f"CASE {left.sql} WHEN {decides} THEN {decides} ELSE {right.sql} END"
    elif len(left.sql) <= len(right.sql):
        sql = f"CASE {left.sql} WHEN {decides} THEN {decides} ELSE ({left.sql} {sign} {right.sql}) END"
    else:
        # The shorter side is the one that is written twice.
        unknown = f"CASE {right.sql} WHEN {decides} THEN {decides} END"
        sql = f"CASE {left.sql} WHEN {decides} THEN {decides} WHEN {1 - decides} THEN {right.sql} ELSE {unknown} END"
    return Expression(sql, left.type, risk=max(left.risk, right.risk), nullable=left.nullable or right.nullable)
