"""SQL's functions as Spark's SQL over stored values: its own where both engines can have the same results, else Python."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.engines.sql import Expression
from viewkeeper.engines.sqlite_sql_functions import COMPARISONS, chosen, moved, rounding
from viewkeeper.program.types import MAX_PRECISION, Kind, Type

_TEMPLATES: dict[str, str] = {
    "sql_not": "CAST(NOT ({0} <> 0) AS BIGINT)",
    "sql_null": "CAST({0} IS NULL AS BIGINT)",
    "sql_mod": "({0} % {1})",
    "sql_abs": "abs({0})",
    "sql_sign": "signum(CAST({0} AS DOUBLE))",
}

_OF_KINDS: dict[tuple[str, Kind], str] = {
    ("sql_mod", Kind.FLOAT): "({0} % {1} + 0.0D)",
    ("sql_round", Kind.FLOAT): "vk_sql_round_float({0}, {1})",
    ("sql_ceil", Kind.NUMBER): "{0}",
    ("sql_ceil", Kind.FLOAT): "vk_sql_float_ceil({0})",
    ("sql_ceil", Kind.DECIMAL): "CAST(ceil({real}) AS BIGINT)",
    ("sql_floor", Kind.NUMBER): "{0}",
    ("sql_floor", Kind.FLOAT): "vk_sql_float_floor({0})",
    ("sql_floor", Kind.DECIMAL): "CAST(floor({real}) AS BIGINT)",
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
        case "sql_greatest" | "sql_least":
            return f"{function[4:]}({', '.join(sql)})"
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
        case "sql_round" if len(sql) == 1:
            return f"vk_sql_round_float({sql[0]}, 0L)"
    if function in COMPARISONS:
        return _bool(f" {COMPARISONS[function]} ".join(_at_one_scale(arguments)))
    template = _OF_KINDS.get((function, first.kind)) or _TEMPLATES.get(function) or f"vk_{function}({', '.join(sql)})"
    return template.format(*sql, real=_real(arguments[0]))


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
