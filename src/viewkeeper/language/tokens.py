"""Text → tokens. What is no token becomes one of the types in ``UNREADABLE``, and ``unreadable`` says what is wrong with it."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path

from lark import Lark, Token

from viewkeeper.errors import Problem, Span, problem, shortened
from viewkeeper.program.windows import WINDOWS

UNREADABLE = frozenset({"UNCLOSED_TEXT", "UNCLOSED_COMMENT", "MALFORMED_NUMBER", "OTHER_COMMENT", "OTHER_SIGN", "STRAY"})

# Signs of other languages.
_MEANT = {
    "==": 'Equality is written "=".', "≠": 'It is written "!=".', "≤": 'It is written "<=".', "≥": 'It is written ">=".',
    ":=": 'A rule is written with ":-", equality with "=".', "->": "A rule is written head :- body.",
    "=>": "A rule is written head :- body.", "&": '"And" is written ",".', "&&": '"And" is written ",".',
    "||": '"Or" is written ";".', "\\+": 'Negation is written "!".', "~": 'Negation is written "!".',
    "¬": 'Negation is written "!".', "'": 'Texts are written in double quotes: "…".',
    "“": 'Texts are written in straight quotes: "…".', "”": 'Texts are written in straight quotes: "…".',
}  # fmt: skip


@cache
def grammar() -> Lark:
    """The parser of one statement, or of one body on its own."""
    text = files("viewkeeper.language").joinpath("datalog.lark").read_text(encoding="utf-8")
    return Lark(
        text,
        parser="lalr",
        lexer="basic",
        start=["statement", "disjunction"],
        propagate_positions=True,
        maybe_placeholders=True,
        cache=_tables(),
    )


def _tables() -> str | bool:
    """Where the parser's tables are kept, which take a quarter of a second to make: beside the compiled modules, as safe as they."""
    if sys.dont_write_bytecode:
        return False
    return str(Path(cache_from_source(__file__)).with_suffix(".lark"))


def tokenise(text: str) -> list[Token]:
    """All tokens of the text, comments and white space left out."""
    found: list[Token] = []
    for token in grammar().lex(text):
        if found and found[-1].type == "DOT" and _makes_directive(found, token):
            token = _joined(found.pop(), token)
        found.append(token)
    return _with_windows(found)


def _with_windows(tokens: list[Token]) -> list[Token]:
    """``rank`` and its like are windows in front of ``: {``, with a value between or not, and ``over`` is no name behind braces."""
    types = [token.type for token in tokens] + [""] * 4
    position = 0
    while position < len(tokens):
        token, start = tokens[position], position
        if types[position] == "IDENT" and token == "over" and types[position - 1] == "RBRACE" and types[position + 1] == "LPAR":
            tokens[position] = Token.new_borrow_pos("OVER", token, token)
        elif types[position] == "IDENT" and token in WINDOWS:
            behind = position + 1 + (types[position + 1] in ("IDENT", "QUALIFIER"))
            behind += types[behind] == "NUMBER"
            if types[behind : behind + 2] == ["COLON", "LBRACE"]:
                tokens[position] = Token.new_borrow_pos("WINDOW", token, token)
                position = behind
        position = max(position, start) + 1
    return tokens


def _makes_directive(found: list[Token], word: Token) -> bool:
    """Does the word touch a full stop that begins a line?"""
    dot = found[-1]
    begins = len(found) == 1 or found[-2].end_line != dot.line
    return begins and word.type in ("IDENT", "QUALIFIER", "AGGREGATE") and word.start_pos == dot.end_pos


def _joined(dot: Token, word: Token) -> Token:
    end = (word.end_line, word.end_column, word.end_pos)
    return Token("UNKNOWN_DIRECTIVE", dot + word, dot.start_pos, dot.line, dot.column, *end)


def span_of(token: Token) -> Span:
    """The place of a token."""
    place = (token.line, token.column, token.end_line, token.end_column)
    return Span(*(number or 1 for number in place))


def column_of(token: Token) -> int:
    assert token.column is not None
    return token.column


def unreadable(token: Token) -> Problem:
    """What is wrong with a token of a type in ``UNREADABLE``."""
    span, text = span_of(token), str(token)
    match token.type:
        case "UNCLOSED_TEXT":
            return problem("UNCLOSED_TEXT", span)
        case "UNCLOSED_COMMENT":
            return problem("UNCLOSED_COMMENT", Span(span.line, span.column, span.line, span.column + 2))
        case "MALFORMED_NUMBER":
            return problem("CONSTANT_TEXT", span, text=shortened(text), kind="number", why=_why_no_number(text))
        case "OTHER_COMMENT":
            return problem("SYNTAX", span, found='"#"', wish="Comments start with //.")
    sign = _MEANT.get(text) or _MEANT.get(text[0])
    if sign is not None:
        return problem("SYNTAX", span, found=quoted(text), wish=sign)
    shown = f'"{text}"' if text.isprintable() else f"U+{ord(text):04X}"
    return problem("STRAY_CHARACTER", span, character=shown)


def quoted(text: str) -> str:
    """A piece of a program in a message."""
    return shortened(text) if '"' in text else f'"{shortened(text)}"'


def _why_no_number(text: str) -> str:
    mantissa, e, exponent = text.lower().partition("e")
    if e and mantissa.isdigit() and exponent.isdigit():
        return f"a float needs a decimal point, as in {mantissa}.0e{exponent}"
    if text[:2].lower() in ("0x", "0b"):
        return f"these are no {'hexadecimal' if text[1] in 'xX' else 'binary'} digits"
    if text.replace("_", "").replace(".", "").isdigit():
        return "digits are written without _" if "_" in text else "a number has one decimal point"
    return "a name cannot start with a digit"
