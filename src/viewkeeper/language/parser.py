"""Text → statements, with every syntax error of the text.

A statement ends where the next token cannot belong to it. After an error, reading goes on behind the next full stop or at the next
directive.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput

from viewkeeper.errors import Problem, Span, problem

Node = Tree[Token]
_DIRECTIVES = frozenset({"_DECL", "TYPE", "IO", "_PRAGMA", "_PLAN", "UNSUPPORTED"})
_END = "$END"

# What people call the tokens.
_NAMES = {
    "IDENT": "a name", "NUMBER": "a number", "UNSIGNED": "a number", "FLOAT": "a number", "STRING": "a text",
    "DOT": "'.'", "COMMA": "','", "RPAR": "')'", "LPAR": "'('", "RBRACE": "'}'", "LBRACE": "'{'", "RSQB": "']'", "COLON": "':'",
    "SEMICOLON": "';'", "COMPARISON": "a comparison", "BANG": "'!'", "VBAR": "'|'", _END: "the end",
}  # fmt: skip


@cache
def _lark(start: str) -> Lark:
    grammar = files("viewkeeper.language").joinpath("datalog.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", start=start, propagate_positions=True, maybe_placeholders=True)


def statements(text: str) -> tuple[list[Node], list[Problem]]:
    """The statements of a program, and what could not be read."""
    problems: list[Problem] = []
    tokens = list(_tokens(text, problems))
    found: list[Node] = []
    position = 0
    while position < len(tokens):
        tree, position, error = _statement(tokens, position)
        if tree is not None:
            found.append(tree)
        if error is not None:
            problems.append(error)
    return found, problems


def query_body(text: str) -> tuple[Node | None, list[Problem]]:
    """A body on its own: ``reach("a", X), X != "b"``; a full stop at the end is allowed."""
    problems: list[Problem] = []
    tokens = list(_tokens(text, problems))
    if tokens and tokens[-1].type == "DOT":
        tokens.pop()
    parser = _lark("disjunction").parse_interactive()
    tree: Node | None = None
    try:
        for token in tokens:
            parser.feed_token(token)
        tree = parser.feed_eof(tokens[-1] if tokens else None)
    except UnexpectedInput:
        token = parser_token(parser, tokens)
        problems.append(_unexpected(token, parser.accepts(), tokens))
    return tree, problems


def parser_token(parser: object, tokens: list[Token]) -> Token | None:
    """The token at which a fresh parse of the tokens fails; None at the end."""
    again = _lark("disjunction").parse_interactive()
    for token in tokens:
        try:
            again.feed_token(token)
        except UnexpectedInput:
            return token
    return None


def _statement(tokens: list[Token], position: int) -> tuple[Node | None, int, Problem | None]:
    """One statement from here on: its tree, the position behind it, the error if there is one."""
    parser = _lark("statement").parse_interactive()
    start = position
    while position < len(tokens):
        token = tokens[position]
        if token.type not in parser.choices() and _END in parser.choices():
            break
        expected = parser.accepts() if token.type not in parser.choices() else set()
        try:
            parser.feed_token(token)
        except UnexpectedInput:
            expected = expected or parser.accepts()
            return None, _resume(tokens, start, position), _unexpected(token, expected, tokens)
        position += 1
    try:
        return parser.feed_eof(tokens[position - 1]), position, None
    except UnexpectedInput:
        return None, len(tokens), _unexpected(None, parser.accepts(), tokens)


def _resume(tokens: list[Token], start: int, position: int) -> int:
    if tokens[position].type in _DIRECTIVES and position > start:
        return position
    while position < len(tokens):
        position += 1
        if tokens[position - 1].type == "DOT":
            return position
        if position < len(tokens) and tokens[position].type in _DIRECTIVES:
            return position
    return position


def _unexpected(token: Token | None, expected: set[str], tokens: list[Token]) -> Problem:
    wanted = sorted({_NAMES[name] for name in expected if name in _NAMES})
    wish = f"Expected {', '.join(wanted[:-1]) + ' or ' if len(wanted) > 1 else ''}{wanted[-1]} here." if wanted else ""
    if token is None:
        last = span_of(tokens[-1]) if tokens else Span(1, 1, 1, 1)
        end = Span(last.end_line, last.end_column, last.end_line, last.end_column + 1)
        return problem("SYNTAX", end, found="the end of the text", wish=wish)
    return problem("SYNTAX", span_of(token), found=f"'{token}'", wish=wish)


def _tokens(text: str, problems: list[Problem]) -> Iterator[Token]:
    """The tokens; characters that start none are reported and skipped."""
    skipped = text
    while True:
        tokens: list[Token] = []
        try:
            for token in _lark("statement").lex(skipped):
                tokens.append(token)
            yield from tokens
            return
        except UnexpectedCharacters as error:
            at = error.pos_in_stream
            assert at is not None
            end = at + 1
            if skipped[at] == '"':
                found, wish = "an unclosed text", 'Close it with " on the same line.'
                newline = skipped.find("\n", at)
                end = newline if newline >= 0 else len(skipped)
            elif skipped.startswith("/*", at):
                found, wish, end = "an unclosed comment", "Close it with */.", len(skipped)
            else:
                found, wish = f"'{skipped[at]}'", "No part of a program starts with this character."
            width = 1 if end - at == 1 else min(end, skipped.find("\n", at) if "\n" in skipped[at:end] else end) - at
            problems.append(
                problem("SYNTAX", Span(error.line, error.column, error.line, error.column + width), found=found, wish=wish)
            )
            blank = "".join(c if c == "\n" else " " for c in skipped[at:end])
            skipped = skipped[:at] + blank + skipped[end:]


def span_of(node: Token | Node) -> Span:
    """The place of a token or tree."""
    if isinstance(node, Token):
        assert node.line and node.column and node.end_line and node.end_column
        return Span(node.line, node.column, node.end_line, node.end_column)
    meta = node.meta
    if meta.empty:
        return Span(1, 1, 1, 1)
    return Span(meta.line, meta.column, meta.end_line, meta.end_column)
