"""Spark's SQL, in ANSI mode."""

from __future__ import annotations

from collections.abc import Sequence

from viewkeeper.engines.names import sql_name
from viewkeeper.engines.spark_sql_functions import spark_call
from viewkeeper.engines.sql import Dialect, Expression, Reading
from viewkeeper.program.ast import Relation
from viewkeeper.program.types import MAX_PRECISION, Kind, Type

STORAGE = {Kind.FLOAT: "DOUBLE", Kind.SYMBOL: "STRING", Kind.BYTES: "BINARY"}

_TEMPLATES: dict[str, str] = {
    "+": "({0} + {1})",
    "-": "({0} - {1})",
    "*": "({0} * {1})",
    "neg": "(-{0})",
    "/": "({0} div {1})",
    "%": "({0} % {1})",
    "^": "vk_power({0}, {1})",
    "band": "({0} & {1})",
    "bor": "({0} | {1})",
    "bxor": "({0} ^ {1})",
    "bnot": "(~{0})",
    "bshl": "shiftleft({0}, CAST({1} & 63 AS INT))",
    "bshr": "shiftright({0}, CAST({1} & 63 AS INT))",
    "bshru": "shiftrightunsigned({0}, CAST({1} & 63 AS INT))",
    "land": "(CAST({0} <> 0 AS BIGINT) * CAST({1} <> 0 AS BIGINT))",
    "lor": "CAST(CAST({0} <> 0 AS BIGINT) + CAST({1} <> 0 AS BIGINT) > 0 AS BIGINT)",
    "lxor": "CAST(({0} <> 0) <> ({1} <> 0) AS BIGINT)",
    "lnot": "CAST({0} = 0 AS BIGINT)",
    "strlen": "CAST(char_length({0}) AS BIGINT)",
    "substr": (
        "CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL"
        " WHEN {1} < 0 OR {1} > char_length({0}) THEN ''"
        " WHEN {2} < 0 THEN substring({0}, CAST({1} AS INT) + 1)"
        " ELSE substring({0}, CAST({1} AS INT) + 1, CAST(least({2}, char_length({0})) AS INT)) END"
    ),
    "ord": "CAST(conv(substring(sha2({0}, 256), 1, 15), 16, 10) AS BIGINT)",
    "to_date": "vk_to_date({0})",
    "to_timestamp": "vk_to_timestamp({0})",
}

_TO_STRING: dict[Kind, str] = {
    Kind.NUMBER: "CAST({0} AS STRING)",
    Kind.UNSIGNED: "CAST({0} AS STRING)",
    Kind.FLOAT: "vk_float_to_string({0})",
    Kind.SYMBOL: "{0}",
    Kind.BOOL: "CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    Kind.DATE: "CAST(date_from_unix_date(CAST({0} AS INT)) AS STRING)",
    Kind.TIMESTAMP: "date_format(timestamp_micros({0}), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")",
    Kind.DECIMAL: "CAST(CAST(concat(CAST({0} AS STRING), 'e-{scale}') AS DECIMAL(38, {scale})) AS STRING)",
    Kind.BYTES: "lower(hex({0}))",
}

_WHOLE = r"r'\A[+-]?[0-9]+\z'"
_REAL = r"r'\A[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z'"
_TO_WHOLE = f"CASE WHEN {{0}} RLIKE {_WHOLE} THEN try_cast({{0}} AS BIGINT) END"
_TO_REAL = f"CASE WHEN {{0}} RLIKE {_REAL} AND abs(CAST({{0}} AS DOUBLE)) < double('inf') THEN CAST({{0}} AS DOUBLE) + 0.0D END"
_TRUNCATE = (
    "CASE WHEN {0} >= -9223372036854775808D AND {0} < 9223372036854775808D THEN CAST({0} AS BIGINT)"
    " WHEN {0} IS NOT NULL THEN raise_error('VK|OVERFLOW') END"
)
_UNSCALE = "({0} div {power})"

_CONVERSIONS: dict[tuple[str, Kind], str] = {
    ("to_number", Kind.FLOAT): _TRUNCATE,
    ("to_number", Kind.DECIMAL): _UNSCALE,
    ("to_float", Kind.NUMBER): "CAST({0} AS DOUBLE)",
    ("to_float", Kind.UNSIGNED): "CAST({0} AS DOUBLE)",
    ("to_float", Kind.DECIMAL): "CAST(concat(CAST({0} AS STRING), 'e-{scale}') AS DOUBLE)",
}


class SparkDialect(Dialect):
    hasty = True
    same = "<=>"

    def identifier(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def table(self, relation: str, reading: Reading) -> str:
        return self.identifier(f"{sql_name(relation)}$" if reading is Reading.DELTA else sql_name(relation))

    def source(self, relation: Relation, reading: Reading, alias: str) -> tuple[str, list[str]]:
        return f"{self.table(relation.name, reading)} AS {alias}", []

    def parameter(self, name: str, type_: Type) -> str:
        return f"CAST(:{name} AS {STORAGE.get(type_.kind, 'BIGINT')})"

    def checked(self, expression: Expression) -> str:
        # Whole numbers fail by themselves; what overflowed in floats stays infinite or NaN up to here.
        sql = expression.sql
        match expression.type.kind:
            case Kind.FLOAT:
                finite = f"abs({sql}) < double('inf')"
                return f"CASE WHEN {finite} THEN {sql} + 0.0D WHEN {sql} IS NOT NULL THEN raise_error('VK|OVERFLOW') END"
            case Kind.DECIMAL:
                return _within(sql, -(10**MAX_PRECISION) + 1, 10**MAX_PRECISION - 1)
        return sql

    def call(self, function: str, arguments: Sequence[Expression], result: Type) -> str:
        sql = [a.sql for a in arguments]
        kind, scale = arguments[0].type.kind, arguments[0].type.scale
        if function.startswith("sql_"):
            return spark_call(function, arguments, result)
        match function:
            case "coalesce":
                return f"coalesce({', '.join(sql)})"
            case "min" | "max" if len(sql) > 1:
                nulls = " OR ".join(f"{s} IS NULL" for s in sql)
                return f"CASE WHEN {nulls} THEN NULL ELSE {'least' if function == 'min' else 'greatest'}({', '.join(sql)}) END"
            case "min" | "max":
                return sql[0]
            case "cat":
                return f"concat({', '.join(sql)})"
            case "to_string":
                return _TO_STRING[kind].format(*sql, scale=scale)
            case "to_number" | "to_unsigned" | "to_float":
                return _convert(function, kind, sql[0], scale)
            case "fit_digits":
                return _within(sql[0], -(10**result.precision) + 1, 10**result.precision - 1)
        if kind is Kind.FLOAT and function in ("/", "^"):
            if function == "^":
                return f"vk_float_power({sql[0]}, {sql[1]})"
            return self.checked(Expression(f"({sql[0]} / {sql[1]})", result, chain=True))
        text = _TEMPLATES[function].format(*sql)
        if kind is Kind.UNSIGNED and function in ("-", "bnot", "bshl"):
            return _within(text, 0, None)
        return text

    def test(self, predicate: str, arguments: Sequence[str]) -> str:
        if predicate == "holds":
            return f"({arguments[0]} = 1L)"
        if predicate == "contains":
            part, text = arguments
            return f"contains({text}, {part})"
        return f"vk_match({', '.join(arguments)})"

    def aggregate(self, operation: str, target: Expression | None, result: Type) -> str:
        if operation == "count":
            return "count(*)"
        assert target is not None
        sql, kind = target.sql, target.type.kind
        total = f"sum(CAST({sql} AS DECIMAL(20, 0)))"
        match operation:
            case "sum" if kind is Kind.FLOAT:
                return f"coalesce(vk_float_sum(collect_list({sql})), 0.0D)"
            case "sum":
                whole = f"coalesce(CAST({total} AS BIGINT), 0)"
                return _within(whole, -(10**MAX_PRECISION) + 1, 10**MAX_PRECISION - 1) if kind is Kind.DECIMAL else whole
            case "mean" if kind is Kind.FLOAT:
                return f"vk_float_mean(collect_list({sql}))"
            case "mean":
                return f"vk_mean(CAST({total} AS STRING), count({sql}) * {10**target.type.scale})"
        return f"{operation}({sql})"

    def window(self, operation: str, target: str, type_: Type | None, over: str, own: bool) -> str:
        if type_ is None:
            return f"count(1) OVER ({over})"
        sql, kind = target, type_.kind
        total = f"sum(CAST({sql} AS DECIMAL(20, 0))) OVER ({over})"
        match operation:
            case "sum" | "mean" if kind is Kind.FLOAT:
                return f"vk_float_{operation}(collect_list({sql}) OVER ({over}))"
            case "sum" if kind is Kind.DECIMAL:
                return _within(f"CAST({total} AS BIGINT)", -(10**MAX_PRECISION) + 1, 10**MAX_PRECISION - 1)
            case "sum":
                return f"CAST({total} AS BIGINT)"
            case "mean":
                return f"vk_mean(CAST({total} AS STRING), count({sql}) OVER ({over}) * {10**type_.scale})"
        return f"{operation}({sql}) OVER ({over})"

    def chosen(self, operation: str, target: str, row: str, number: int, over: str) -> str:
        if operation == "nth_value":
            rows = f"array_sort(collect_list(named_struct('n', {row}, 'x', {target})) OVER ({over}))"
            return f"get({rows}, {number - 1}).x"
        return f"{'min_by' if operation == 'first_value' else 'max_by'}({target}, {row}) OVER ({over})"

    def range(self, arguments: Sequence[str], alias: str) -> tuple[str, str]:
        start, stop = arguments[:2]
        step = arguments[2] if len(arguments) == 3 else f"(CASE WHEN {start} <= {stop} THEN 1L ELSE -1L END)"
        numbers = (
            f"CASE WHEN {step} = 0 THEN raise_error('VK|BAD_RANGE')"
            f" WHEN {step} > 0 AND {start} < {stop} THEN sequence({start}, {stop} - 1, {step})"
            f" WHEN {step} < 0 AND {start} > {stop} THEN sequence({start}, {stop} + 1, {step})"
            f" ELSE CAST(array() AS ARRAY<BIGINT>) END"
        )
        return f"LATERAL explode({numbers}) AS {alias}(value)", f"{alias}.value"


def _within(sql: str, low: int | None, high: int | None) -> str:
    outside = " OR ".join(
        part for part in (f"{sql} < {low}" if low is not None else "", f"{sql} > {high}" if high is not None else "") if part
    )
    return f"CASE WHEN {outside} THEN raise_error('VK|OVERFLOW') ELSE {sql} END"


def _convert(function: str, kind: Kind, sql: str, scale: int) -> str:
    if kind is Kind.SYMBOL:
        converted = (_TO_REAL if function == "to_float" else _TO_WHOLE).format(sql)
        if function == "to_unsigned":
            converted = f"CASE WHEN {converted} >= 0 THEN {converted} END"
        failure = f"CASE WHEN {sql} IS NOT NULL THEN raise_error(concat('VK|BAD_TEXT|{function}|', {sql})) END"
        return f"coalesce({converted}, {failure})"
    template = _CONVERSIONS.get(("to_number" if function == "to_unsigned" else function, kind), "{0}")
    converted = template.format(sql, scale=scale, power=10**scale)
    return _within(converted, 0, None) if function == "to_unsigned" and kind is not Kind.BOOL else converted
