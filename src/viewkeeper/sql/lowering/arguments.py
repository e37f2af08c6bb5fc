"""Arguments of functions: of how many and of which types they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from viewkeeper.errors import counted
from viewkeeper.program.ast import Call
from viewkeeper.program.signatures import MANY
from viewkeeper.program.types import Kind
from viewkeeper.sql.lowering.values import Lowered, convert, null_of
from viewkeeper.sql.reading import Statement, function_name
from viewkeeper.sql.types import DATE_TYPE, DOUBLE, STRING, TIMESTAMP_TYPE, SqlType

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.expressions import Expressions

KNOWN = "docs/sql.md lists the functions."


def refuse_number(node: exp.Expr, given: int, least: int, most: int, into: Expressions) -> NoReturn:
    if most is MANY:
        number = f"{least} or more arguments"
    else:
        number = f"{least} or {counted(most, 'argument')}" if least < most else counted(most, "argument")
    why = f"takes {number}, not {given}"
    into.statement.refuse("SQL_FUNCTION", node, function=function_name(node, into.statement.source), why=why, hint=KNOWN)


def refuse_others(node: exp.Expr, parts: tuple[str, ...], statement: Statement) -> None:
    """Refuses arguments that sqlglot knows of another dialect."""
    for name, value in node.args.items():
        if name not in parts and isinstance(value, (exp.Expr, list)) and value:
            why = "has an argument that it does not take"
            statement.refuse("SQL_FUNCTION", node, function=function_name(node, statement.source), why=why, hint=KNOWN)


def refuse_missing(node: exp.Expr, needed: tuple[str, ...], statement: Statement) -> None:
    """Refuses a function without all the arguments it needs."""
    required = (*needed, *(name for name, is_needed in node.arg_types.items() if is_needed))
    if any(node.args.get(name) is None for name in required):
        function = node.parent if isinstance(node, exp.TsOrDsToDate) and node.parent is not None else node
        name = function_name(function, statement.source)
        statement.refuse("SQL_FUNCTION", function, function=name, why="needs more arguments", hint=KNOWN)


def argument(value: Lowered, wanted: SqlType, node: exp.Expr, into: Expressions) -> Lowered:
    """A value where a function takes values of one type."""
    if value.type.kind is None:
        return null_of(wanted)
    if value.type.kind is wanted.kind:
        return value
    if value.type.kind is Kind.SYMBOL and value.is_constant:
        value = into.read_text(value, wanted.kind)
    match value.type.kind, wanted.kind:
        case Kind.NUMBER | Kind.DECIMAL, Kind.FLOAT:
            return convert(value, DOUBLE)
        case Kind.DATE, Kind.TIMESTAMP:
            return convert(value, TIMESTAMP_TYPE)
        case Kind.TIMESTAMP, Kind.DATE:
            return Lowered(Call("sql_date_of", (value.term,)), DATE_TYPE, value.nullable)
        case Kind.SYMBOL, Kind.DATE | Kind.TIMESTAMP:
            return into.cast_to(value, wanted, node)
        case one, Kind.SYMBOL if one is not Kind.BYTES:
            return Lowered(Call("sql_string", (value.term,)), STRING, value.nullable)
        case one, other if one is other:
            return value
    why = f"a value of type {wanted} is needed here, not {value.type}"
    into.statement.refuse("SQL_TYPE", node, why=why, hint=f"Use CAST(… AS {wanted}).")
