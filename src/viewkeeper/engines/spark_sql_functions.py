"""SQL's functions as Spark's SQL over stored values: its own where both engines can have the same results, else Python."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.engines.sql import Expression
from viewkeeper.engines.sqlite_sql_functions import COMPARISONS, FORMS_OF_NUMBERS, chosen, moved, rounding, try_decimal
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.program.types import MAX_PRECISION, Kind, Type
from viewkeeper.program.values import DAY_MICROSECONDS, FIRST_DAY, LAST_DAY

_FIRST_TIME, _LAST_TIME = FIRST_DAY * DAY_MICROSECONDS, (LAST_DAY + 1) * DAY_MICROSECONDS - 1
_ESCAPES = frozenset("\\!#$&*+,-./:;<=>?@^|~")

_TEMPLATES: dict[str, str] = {
    "sql_not": "CAST(NOT ({0} <> 0) AS BIGINT)",
    "sql_null": "CAST({0} IS NULL AS BIGINT)",
    "sql_mod": "({0} % {1})",
    "sql_abs": "abs({0})",
    "sql_sign": "signum(CAST({0} AS DOUBLE))",
    "sql_text_to_number": "CAST({0} AS BIGINT)",
    "sql_to_bool": "CAST({0} <> 0 AS BIGINT)",
    "sql_date_of": "CAST(unix_date(CAST({real} AS DATE)) AS BIGINT)",
    "sql_timestamp_of": "({0} * 86400000000L)",
    "sql_year": "CAST(year({real}) AS BIGINT)",
    "sql_month": "CAST(month({real}) AS BIGINT)",
    "sql_day": "CAST(day({real}) AS BIGINT)",
    "sql_quarter": "CAST(quarter({real}) AS BIGINT)",
    "sql_day_of_week": "CAST(dayofweek({real}) AS BIGINT)",
    "sql_weekday": "CAST(weekday({real}) AS BIGINT)",
    "sql_day_of_year": "CAST(dayofyear({real}) AS BIGINT)",
    "sql_week_of_year": "CAST(weekofyear({real}) AS BIGINT)",
    "sql_hour": "CAST(hour({real}) AS BIGINT)",
    "sql_minute": "CAST(minute({real}) AS BIGINT)",
    "sql_second": "CAST(second({real}) AS BIGINT)",
    "sql_date_diff": "({0} - {1})",
    "sql_timestamp_diff": "({0} - {1})",
    "sql_last_day": "CAST(unix_date(last_day({real})) AS BIGINT)",
    "sql_trunc": "CAST(unix_date(trunc({real}, {1})) AS BIGINT)",
    "sql_date_trunc": "unix_micros(date_trunc({0}, timestamp_micros({1})))",
    "sql_length": "CAST(char_length({0}) AS BIGINT)",
    "sql_instr": "CAST(instr({0}, {1}) AS BIGINT)",
    "sql_contains": "CAST(contains({0}, {1}) AS BIGINT)",
    "sql_starts_with": "CAST(startswith({0}, {1}) AS BIGINT)",
    "sql_ends_with": "CAST(endswith({0}, {1}) AS BIGINT)",
    "sql_ascii": "CAST(ascii({0}) AS BIGINT)",
    "sql_chr": "vk_sql_chr({0})",
    "sql_left": "left({0}, CAST({1} AS INT))",
    "sql_right": "right({0}, CAST({1} AS INT))",
    "sql_repeat": "repeat({0}, CAST({1} AS INT))",
    "sql_split_part": "vk_sql_split_part({0}, {1}, {2})",
    "sql_locate": "vk_sql_locate({0}, {1}, {2})",
    "sql_sha2": "sha2({0}, CAST({1} AS INT))",
    "sql_initcap": "vk_sql_initcap({0})",
    "sql_rlike": "vk_sql_rlike({0}, {1})",
}

# Called by the same name with the same arguments.
_OWN = frozenset(
    f"sql_{name}" for name in ("greatest", "least", "upper", "lower", "reverse", "md5", "replace", "translate", "concat_ws")
)

_OF_KINDS: dict[tuple[str, Kind], str] = {
    ("sql_mod", Kind.FLOAT): "({0} % {1} + 0.0D)",
    ("sql_round", Kind.FLOAT): "vk_sql_round_float({0}, {1})",
    ("sql_bround", Kind.NUMBER): "vk_sql_bround_number({0}, {1})",
    ("sql_bround", Kind.FLOAT): "vk_sql_bround_float({0}, {1})",
    **FORMS_OF_NUMBERS,
    ("sql_ceil", Kind.NUMBER): "{0}",
    ("sql_ceil", Kind.FLOAT): "vk_sql_float_ceil({0})",
    ("sql_ceil", Kind.DECIMAL): "CAST(ceil({real}) AS BIGINT)",
    ("sql_floor", Kind.NUMBER): "{0}",
    ("sql_floor", Kind.FLOAT): "vk_sql_float_floor({0})",
    ("sql_floor", Kind.DECIMAL): "CAST(floor({real}) AS BIGINT)",
    ("sql_string", Kind.NUMBER): "CAST({0} AS STRING)",
    ("sql_string", Kind.UNSIGNED): "CAST({0} AS STRING)",
    ("sql_string", Kind.FLOAT): "vk_sql_float_text({0})",
    ("sql_string", Kind.SYMBOL): "{0}",
    ("sql_string", Kind.BOOL): "CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    ("sql_string", Kind.DATE): "CAST({real} AS STRING)",
    ("sql_string", Kind.TIMESTAMP): "CAST({real} AS STRING)",
    ("sql_string", Kind.DECIMAL): "CAST({real} AS STRING)",
    ("sql_date_format", Kind.DATE): "vk_sql_date_format({0} * 86400000000L, {1})",
}


def spark_call(function: str, arguments: Sequence[Expression], result: Type) -> str:
    sql = [a.sql for a in arguments]
    first = arguments[0].type
    match function:
        case "sql_and" | "sql_or":
            return _bool(f" {function[4:].upper()} ".join(f"({s} <> 0)" for s in sql))
        case "sql_if":
            return chosen([f"{s} = 1L" if i % 2 == 0 and i < len(sql) - 1 else s for i, s in enumerate(sql)])
        case "sql_in":
            return _bool(f"{sql[0]} IN ({', '.join(sql[1:])})")
        case "sql_same":
            return _bool(" <=> ".join(_at_one_scale(arguments)))
        case "sql_substring" | "sql_lpad" | "sql_rpad":
            return f"{function[4:]}({', '.join([sql[0], *map(_as_int, arguments[1:])])})"
        case "sql_trim" | "sql_ltrim" | "sql_rtrim" if len(sql) == 2:
            side = {"sql_trim": "BOTH", "sql_ltrim": "LEADING", "sql_rtrim": "TRAILING"}[function]
            return f"trim({side} {sql[1]} FROM {sql[0]})"
        case "sql_trim" | "sql_ltrim" | "sql_rtrim":
            return f"{function[4:]}({sql[0]})"
        case "sql_like" | "sql_ilike":
            return _like(function, arguments)
        case "sql_text_to_decimal" | "sql_try_text_to_decimal":
            return f"vk_{function}({sql[0]}, {result.precision}L, {result.scale}L)"
        case "sql_try_decimal":
            return try_decimal(arguments, result)
        case "sql_date_add":
            return _within(f"{sql[0]} + {sql[1]}", FIRST_DAY, LAST_DAY)
        case "sql_timestamp_add":
            return _within(f"{sql[0]} + {sql[1]}", _FIRST_TIME, _LAST_TIME)
        case "sql_add_months" if first.kind is Kind.DATE:
            return _within(
                f"CAST(unix_date(add_months({_real(arguments[0])}, CAST({sql[1]} AS INT))) AS BIGINT)", FIRST_DAY, LAST_DAY
            )
        case "sql_add_months":
            later = f"timestamp_micros({sql[0]}) + make_ym_interval(0, CAST({sql[1]} AS INT))"
            return _within(f"unix_micros({later})", _FIRST_TIME, _LAST_TIME)
        case "sql_decimal" if first.kind is Kind.FLOAT:
            return f"vk_sql_float_decimal({sql[0]}, {result.scale}L, {result.precision}L)"
        case "sql_decimal":
            return _scaled(sql[0], result.scale - first.scale, result.precision)
        case "sql_multiply":
            product = " * ".join(f"CAST({s} AS DECIMAL({MAX_PRECISION}, 0))" for s in sql[:2])
            return _scaled(product, result.scale - first.scale - arguments[1].type.scale, MAX_PRECISION)
        case "sql_divide" | "sql_average":
            return moved(function, arguments, result)
        case "sql_round" if first.kind is not Kind.FLOAT:
            return _rounded(arguments)
        case "sql_bround" if first.kind is Kind.DECIMAL:
            dropped, zeros = rounding(arguments)
            return f"vk_sql_bround_decimal({sql[0]}, {dropped}, {zeros})" if dropped > 0 else sql[0]
        case "sql_round" | "sql_bround" if len(sql) == 1:
            sql.append("0L")
    if function in _OWN:
        return f"{function[4:]}({', '.join(sql)})"
    if function in COMPARISONS:
        return _bool(f" {COMPARISONS[function]} ".join(_at_one_scale(arguments)))
    template = _OF_KINDS.get((function, first.kind)) or _TEMPLATES.get(function) or f"vk_{function}({', '.join(sql)})"
    return template.format(*sql, real=_real(arguments[0]), scale=first.scale)


def _bool(condition: str) -> str:
    return f"CAST({condition} AS BIGINT)"


def _real(argument: Expression) -> str:
    """A stored value as Spark has it."""
    match argument.type.kind:
        case Kind.DATE:
            return f"date_from_unix_date(CAST({argument.sql} AS INT))"
        case Kind.TIMESTAMP:
            return f"timestamp_micros({argument.sql})"
        case Kind.DECIMAL:
            scale = argument.type.scale
            return f"CAST(concat(CAST({argument.sql} AS STRING), 'e-{scale}') AS DECIMAL({MAX_PRECISION}, {scale}))"
    return argument.sql


def _as_int(argument: Expression) -> str:
    return f"CAST({argument.sql} AS INT)" if argument.type.kind is Kind.NUMBER else argument.sql


def _within(sql: str, low: int, high: int) -> str:
    """A value that fails outside its range; written once, or terms in terms would double at every level."""
    check = f"CASE WHEN v BETWEEN {low}L AND {high}L THEN v WHEN v IS NOT NULL THEN raise_error('VK|OVERFLOW') END"
    return f"transform(array({sql}), v -> {check})[0]"


def _like(function: str, arguments: Sequence[Expression]) -> str:
    """Spark's own wants the escape as a constant of one letter, and in Spark a bad pattern has no failure of ours."""
    escape = arguments[2].value if len(arguments) == 3 else "\\"
    if FUNCTIONS[function].can_fail([a.value for a in arguments]) or escape not in _ESCAPES:
        return f"vk_{function}({', '.join(a.sql for a in arguments)})"
    quoted = "\\\\" if escape == "\\" else escape
    return _bool(f"{arguments[0].sql} {function[4:]} {arguments[1].sql} ESCAPE '{quoted}'")


def _scaled(sql: str, places: int, precision: int) -> str:
    """A whole number moved by so many digits and rounded, halves away from zero; it fails if it has more digits than allowed."""
    return f"CAST(CAST(concat(CAST({sql} AS STRING), 'e{places}') AS DECIMAL({precision}, 0)) AS BIGINT)"


def _rounded(arguments: Sequence[Expression]) -> str:
    value = arguments[0]
    dropped, zeros = rounding(arguments)
    if dropped <= 0:
        return value.sql
    digits = MAX_PRECISION if value.type.kind is Kind.DECIMAL else 19
    tens = (
        f"CAST(concat(CAST(CAST(concat(CAST({value.sql} AS STRING), 'e-{dropped}') AS DECIMAL(38, 0)) AS STRING), 'e{zeros}')"
    )
    return f"CAST({tens} AS DECIMAL({digits}, 0)) AS BIGINT)"


def _at_one_scale(arguments: Sequence[Expression]) -> list[str]:
    """Decimals in units of the smaller one; 36 digits always fit."""
    scale = max(a.type.scale for a in arguments)
    wide = [f"CAST({a.sql} AS DECIMAL({MAX_PRECISION}, 0)) * {10 ** (scale - a.type.scale)}BD" for a in arguments]
    return [a.sql if a.type.scale == scale else w for a, w in zip(arguments, wide, strict=True)]
