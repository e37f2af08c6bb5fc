"""VALUES of many rows that are nothing but constants, read from the tokens: a parser for expressions takes ten times as long."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

_FEW = 20
"""So many tokens are not worth the effort."""


class _NotPlain(Exception):
    pass


def plain_rows(tokens: list[Token]) -> tuple[list[Token], list[exp.Tuple]] | None:
    """INSERT … VALUES with the first row only, and the rows behind it; None if there is anything but constants."""
    if len(tokens) < _FEW or tokens[0].token_type is not TokenType.INSERT:
        return None
    start = next((place for place, token in enumerate(tokens) if token.token_type is TokenType.VALUES), None)
    if start is None:
        return None
    first = (
        next((place for place in range(start, len(tokens)) if tokens[place].token_type is TokenType.R_PAREN), len(tokens)) + 1
    )
    if first >= len(tokens) or tokens[first].token_type is not TokenType.COMMA:
        return None
    try:
        return tokens[:first], list(_rows(tokens, first))
    except (_NotPlain, IndexError):
        return None


def _rows(tokens: list[Token], place: int) -> Iterator[exp.Tuple]:
    while place < len(tokens):
        if tokens[place].token_type is not TokenType.COMMA or tokens[place + 1].token_type is not TokenType.L_PAREN:
            raise _NotPlain
        place += 1
        values: list[exp.Expr] = []
        while tokens[place].token_type is not TokenType.R_PAREN:
            value, place = _constant(tokens, place + 1)
            values.append(value)
            if tokens[place].token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                raise _NotPlain
        place += 1
        yield exp.Tuple(expressions=values)


def _constant(tokens: list[Token], place: int) -> tuple[exp.Expr, int]:
    token = tokens[place]
    match token.token_type:
        case TokenType.STRING | TokenType.NUMBER:
            return _literal(token), place + 1
        case TokenType.NULL:
            return exp.Null().update_positions(token), place + 1
        case TokenType.TRUE | TokenType.FALSE:
            return exp.Boolean(this=token.token_type is TokenType.TRUE).update_positions(token), place + 1
        case TokenType.DASH if tokens[place + 1].token_type is TokenType.NUMBER:
            return exp.Neg(this=_literal(tokens[place + 1])), place + 2
        case TokenType.DATE if tokens[place + 1].token_type is TokenType.STRING:
            return exp.Cast(this=_literal(tokens[place + 1]), to=exp.DataType(this=exp.DataType.Type.DATE)), place + 2
    raise _NotPlain


def _literal(token: Token) -> exp.Expr:
    is_string = token.token_type is TokenType.STRING
    if not is_string and not token.text[:1].isdigit():
        raise _NotPlain
    return exp.Literal(this=token.text, is_string=is_string).update_positions(token)
