"""SQLite's SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from viewkeeper.engines.layered import Layered
from viewkeeper.engines.names import quoted, sql_name
from viewkeeper.engines.sql import Dialect, Expression, Reading
from viewkeeper.engines.sqlite_sql_functions import sqlite_call
from viewkeeper.program.ast import Relation
from viewkeeper.program.types import MAX_PRECISION, Kind, Type

STORAGE = {
    Kind.FLOAT: "REAL",
    Kind.SYMBOL: "TEXT",
    Kind.BYTES: "BLOB",
}

_FLOAT_CALLS = {
    "+": "vk_float_add", "-": "vk_float_subtract", "*": "vk_float_multiply", "/": "vk_float_divide", "^": "vk_float_power",
    "neg": "vk_float_negative",
}  # fmt: skip

# Functions of whole numbers, and those that do not depend on a type.
_TEMPLATES: dict[str, str] = {
    "+": "({0} + {1})",
    "-": "({0} - {1})",
    "*": "({0} * {1})",
    "neg": "(-{0})",
    "/": "vk_divide({0}, {1})",
    "%": "vk_remainder({0}, {1})",
    "^": "vk_power({0}, {1})",
    "band": "({0} & {1})",
    "bor": "({0} | {1})",
    "bxor": "vk_bit_xor({0}, {1})",
    "bnot": "(~{0})",
    "bshl": "({0} << ({1} & 63))",
    "bshr": "({0} >> ({1} & 63))",
    "bshru": "vk_shift_right_unsigned({0}, {1})",
    "land": "(({0} <> 0) * ({1} <> 0))",
    "lor": "(({0} <> 0) + ({1} <> 0) > 0)",
    "lxor": "(({0} <> 0) <> ({1} <> 0))",
    "lnot": "({0} = 0)",
    "strlen": "length({0})",
    "substr": "vk_substring({0}, {1}, {2})",
    "ord": "vk_identify({0})",
    "to_date": "vk_to_date({0})",
    "to_timestamp": "vk_to_timestamp({0})",
}

_TO_STRING: dict[Kind, str] = {
    Kind.NUMBER: "CAST({0} AS TEXT)",
    Kind.UNSIGNED: "CAST({0} AS TEXT)",
    Kind.FLOAT: "vk_float_to_string({0})",
    Kind.SYMBOL: "{0}",
    Kind.BOOL: "CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END",
    Kind.DATE: "vk_date_to_string({0})",
    Kind.TIMESTAMP: "vk_timestamp_to_string({0})",
    Kind.DECIMAL: "vk_decimal_to_string({0}, {scale})",
    Kind.BYTES: "vk_bytes_to_string({0})",  # hex(NULL) is a text
}

_CONVERSIONS: dict[tuple[str, Kind], str] = {
    ("to_number", Kind.SYMBOL): "vk_to_number({0})",
    ("to_number", Kind.FLOAT): "vk_float_to_number({0})",
    ("to_number", Kind.DECIMAL): "vk_decimal_to_number({0}, {scale})",
    ("to_unsigned", Kind.SYMBOL): "vk_to_unsigned({0})",
    ("to_unsigned", Kind.FLOAT): "vk_float_to_unsigned({0})",
    ("to_unsigned", Kind.NUMBER): "vk_fit_unsigned({0})",
    ("to_unsigned", Kind.DECIMAL): "vk_fit_unsigned(vk_decimal_to_number({0}, {scale}))",
    ("to_float", Kind.SYMBOL): "vk_to_float({0})",
    ("to_float", Kind.NUMBER): "CAST({0} AS REAL)",
    ("to_float", Kind.UNSIGNED): "CAST({0} AS REAL)",
    ("to_float", Kind.DECIMAL): "vk_decimal_to_float({0}, {scale})",
}


# A short term is checked in SQL, where it is written twice. A longer one is not, or terms in terms would double at every level.
_SHORT = 500


class SqliteDialect(Dialect):
    """``where`` says in which database each relation's table is: "main" or "temp"."""

    def __init__(self, where: Callable[[str], str] = lambda relation: "main", layers: Layered | None = None) -> None:
        self.where, self.layers = where, layers

    def identifier(self, name: str) -> str:
        return quoted(name)

    def table(self, relation: str) -> str:
        return f"{self.where(relation)}.{self.identifier(sql_name(relation))}"

    def source(self, relation: Relation, reading: Reading, alias: str) -> tuple[str, list[str]]:
        if reading is Reading.ALL:
            return f"{self.table(relation.name)} AS {alias}", []
        # New rows are appended, so the newest ones are a range of row numbers.
        return f"{self.table(relation.name)} AS {alias}", [f"{alias}.rowid > :delta_low", f"{alias}.rowid <= :delta_high"]

    def layered(self, relation: Relation, bound: Collection[int]) -> int | None:
        if self.layers is None or not bound or "$" in relation.name or self.where(relation.name) != "main":
            return None
        return self.layers.place(relation, bound)

    def layered_rows(self, relation: Relation, place: int, alias: str, value: str) -> str:
        assert self.layers is not None
        return self.layers.rows(relation, place, alias, value)

    def parameter(self, name: str, type_: Type) -> str:
        return f":{name}"

    def checked(self, expression: Expression) -> str:
        # Integer arithmetic that overflows gives a REAL in SQLite, and stays one.
        sql, kind = expression.sql, expression.type.kind
        if kind is Kind.FLOAT:
            return sql
        if kind is Kind.DECIMAL:
            return fit_digits(sql, MAX_PRECISION)
        if len(sql) > _SHORT:
            return f"vk_whole({sql})"
        return f"CASE typeof({sql}) WHEN 'real' THEN vk_fail('OVERFLOW') ELSE {sql} END"

    def call(self, function: str, arguments: Sequence[Expression], result: Type) -> str:
        sql = [a.sql for a in arguments]
        kind, scale = arguments[0].type.kind, arguments[0].type.scale
        if function.startswith("sql_"):
            return sqlite_call(function, arguments, result)
        match function:
            case "coalesce":
                return f"coalesce({', '.join(sql)})"
            case "min" | "max":
                return f"{function}({', '.join(sql)})" if len(sql) > 1 else sql[0]
            case "cat":
                return f"({' || '.join(sql)})"
            case "to_string":
                return _TO_STRING[kind].format(*sql, scale=scale)
            case "to_number" | "to_unsigned" | "to_float":
                return _CONVERSIONS.get((function, kind), "{0}").format(*sql, scale=scale)
            case "fit_digits":
                return fit_digits(sql[0], result.precision)
        if kind is Kind.FLOAT and function in _FLOAT_CALLS:
            return f"{_FLOAT_CALLS[function]}({', '.join(sql)})"
        if kind is Kind.UNSIGNED and function in ("-", "bnot"):
            return f"vk_fit_unsigned({_TEMPLATES[function].format(*sql)})"
        if kind is Kind.UNSIGNED and function == "bshl":
            return f"vk_shift_left_unsigned({sql[0]}, {sql[1]})"
        return _TEMPLATES[function].format(*sql)

    def test(self, predicate: str, arguments: Sequence[str]) -> str:
        if predicate == "holds":
            return f"({arguments[0]} = 1)"
        if predicate == "contains":
            part, text = arguments
            return f"(instr({text}, {part}) > 0)"
        return f"vk_match({', '.join(arguments)})"

    def aggregate(self, operation: str, target: Expression | None, result: Type) -> str:
        if operation == "count":
            return "count(*)"
        assert target is not None
        sql, kind = target.sql, target.type.kind
        # Sums of the upper and lower halves cannot overflow, and together they are exact.
        high, low = f"sum({sql} >> 32)", f"sum({sql} & 4294967295)"
        match operation:
            case "sum" if kind is Kind.FLOAT:
                return f"coalesce(vk_float_sum({sql}), 0.0)"
            case "sum":
                total = f"coalesce(vk_sum_parts({high}, {low}), 0)"
                return fit_digits(total, MAX_PRECISION) if kind is Kind.DECIMAL else total
            case "mean" if kind is Kind.FLOAT:
                return f"vk_float_mean({sql})"
            case "mean":
                return f"vk_mean_parts({high}, {low}, count({sql}) * {10**target.type.scale})"
        return f"{operation}({sql})"

    def window(self, operation: str, target: str, type_: Type | None, over: str, own: bool) -> str:
        if type_ is None:
            return f"count(*) OVER ({over})"
        sql, kind = target, type_.kind
        high, low = f"sum({sql} >> 32) OVER ({over})", f"sum({sql} & 4294967295) OVER ({over})"
        match operation:
            case "sum" | "mean" if kind is Kind.FLOAT and own:
                return f"vk_window_{operation}({sql}) OVER ({over})"
            case "sum" | "mean" if kind is Kind.FLOAT:
                packed = f"CASE WHEN {sql} IS NOT NULL THEN vk_pack(0, {sql}) END"
                return f"vk_packed_{operation}(group_concat({packed}) OVER ({over}))"
            case "sum" if kind is Kind.DECIMAL:
                return f"vk_fit_digits(vk_sum_parts({high}, {low}), {MAX_PRECISION})"
            case "sum":
                return f"vk_sum_parts({high}, {low})"
            case "mean":
                return f"vk_mean_parts({high}, {low}, count({sql}) OVER ({over}) * {10**type_.scale})"
        return f"{operation}({sql}) OVER ({over})"

    def chosen(self, operation: str, target: str, row: str, number: int, over: str) -> str:
        packed = f"vk_pack({row}, {target})"
        if operation == "nth_value":
            return f"vk_unpack_nth(group_concat({packed}) OVER ({over}), {number})"
        return f"vk_unpack({'min' if operation == 'first_value' else 'max'}({packed}) OVER ({over}))"

    def range(self, arguments: Sequence[str], alias: str) -> tuple[str, str]:
        return f"json_each(vk_range({', '.join(arguments)})) AS {alias}", f"{alias}.value"


def sum_parts(high: str, low: str, largest: int | None = None) -> str:
    """The number that two sums of parts amount to, as ``vk_sum_parts``, of columns, without a call; ``largest`` is what it may be."""
    above, below = f"{high} + ({low} >> 32)", f"{low} & 4294967295"
    number = f"(({above}) << 32) + ({below})"
    fails = f"WHEN {above} NOT BETWEEN -2147483648 AND 2147483647 THEN vk_fail('OVERFLOW')"
    if largest is not None:
        fails += f" WHEN {number} NOT BETWEEN -{largest} AND {largest} THEN vk_fail('OVERFLOW')"
    return f"CASE {fails} ELSE {number} END"


def fit_digits(sql: str, precision: int) -> str:
    if len(sql) > _SHORT:
        return f"vk_fit_digits({sql}, {precision})"
    most = 10**precision - 1
    return f"CASE WHEN {sql} NOT BETWEEN -{most} AND {most} THEN vk_fail('OVERFLOW') ELSE {sql} END"
