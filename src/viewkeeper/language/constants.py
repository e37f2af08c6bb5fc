"""Constants: numbers, texts with their escapes, and ``date("…")`` and its like."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from lark import Token

from viewkeeper.errors import Span, shortened
from viewkeeper.language.complaints import Complaints
from viewkeeper.language.tokens import span_of
from viewkeeper.program.ast import Constant, Term, Value
from viewkeeper.program.types import DATE, TIMESTAMP, UNSIGNED
from viewkeeper.program.values import (
    INT_MAX,
    INT_MIN,
    BadValue,
    check_float,
    check_symbol,
    parse_bytes,
    parse_date,
    parse_timestamp,
    restore,
    type_of_value,
)

CONSTANT_CALLS = ("date", "timestamp", "decimal", "bytes")

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", re.ASCII)
# More digits than any float has, and fewer than Python refuses to read.
_MOST_DIGITS = 300


def whole_number(number: Token, complaints: Complaints) -> Constant:
    """``42``, ``0xff``, ``0b101``, with ``u`` for unsigned ones."""
    digits, span = number.removesuffix("u"), span_of(number)
    if len(digits) > _MOST_DIGITS:
        low, kind = (0, "unsigned") if number.endswith("u") else (INT_MIN, "number")
        raise complaints.wrong("CONSTANT_RANGE", span, value=shortened(number), type=kind, low=low, high=INT_MAX)
    value = int(digits, 0) if digits[:2].lower() in ("0x", "0b") else int(digits)
    return Constant(value, UNSIGNED if number.endswith("u") else None, span)


def float_number(number: Token, complaints: Complaints) -> Constant:
    try:
        return Constant(check_float(float(number)), None, span_of(number))
    except BadValue as error:
        raise complaints.wrong("CONSTANT_TEXT", span_of(number), kind="float", text=shortened(number), why=str(error)) from None


def unquote(text: Token, complaints: Complaints) -> str:
    """The text between the quotes, its escapes replaced."""
    span = span_of(text)
    for escape in _ESCAPE.finditer(text):
        if escape[1] not in _ESCAPES:
            at = span.column + escape.start()
            raise complaints.wrong("ESCAPE", Span(span.line, at, span.line, at + 2), escape=escape[0])
    try:
        return check_symbol(_ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], text[1:-1]))
    except BadValue as error:
        raise complaints.wrong("CONSTANT_TEXT", span, kind="symbol", text=shortened(text[1:-1]), why=f"it {error}") from None


def constant_call(kind: str, arguments: tuple[Term, ...], span: Span, complaints: Complaints) -> Constant:
    """``date("2024-02-29")``, ``decimal("1.50")`` …"""
    match arguments:
        case (Constant(value=str() as text) as argument,):
            try:
                value = _value(kind, text)
                return Constant(value, type_of_value(value), span)
            except BadValue as error:
                place = argument.span or span
                called = "byte string" if kind == "bytes" else kind
                raise complaints.wrong("CONSTANT_TEXT", place, kind=called, text=shortened(text), why=str(error)) from None
    other = f"to_{kind}" if kind in ("date", "timestamp") else ""
    instead = f"; to convert other values use {other}" if other else ""
    raise complaints.wrong("CONSTANT_CALL", span, kind=kind, instead=instead)


def _value(kind: str, text: str) -> Value:
    match kind:
        case "date":
            return restore(parse_date(text), DATE)
        case "timestamp":
            return restore(parse_timestamp(text), TIMESTAMP)
        case "bytes":
            return parse_bytes(text)
    if not _DECIMAL.fullmatch(text):
        raise BadValue("not a decimal number")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise BadValue("not a decimal number") from None
