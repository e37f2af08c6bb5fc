"""Tokens → statements, with every syntax error of the text.

1. A statement ends where the next token cannot belong to it.
2. After an error, reading goes on behind the next full stop or at the next directive, so that one mistake is told once.
3. A directive that is not supported takes along what belongs to it: its line, and whatever brackets open in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedInput

from viewkeeper.errors import Problem, problem
from viewkeeper.language import syntax_errors
from viewkeeper.language.tokens import UNREADABLE, column_of, grammar, tokenise, unreadable
from viewkeeper.language.trees import Node, span_of

# How deep terms and conditions may be nested, so that every walk over them is safe. An aggregate weighs more: it has a body.
MOST_NESTED = 100
_AGGREGATE_WEIGHT = 10

_END = "$END"
_COLUMN_TOKENS = ("IDENT", "QUALIFIER", "AGGREGATE", "COMMA")
_CONSTANTS = ("true", "false", "null")


@dataclass
class Reading:
    """What was read of a text: its statements, its problems, and the names of declarations that could not be read."""

    statements: list[Node] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)


def read_program(text: str) -> Reading:
    """The statements of a program."""
    tokens = tokenise(text)
    reading = Reading()
    position = 0
    while position < len(tokens):
        start = position
        tree, position, found = _statement(tokens, start)
        if tree is not None:
            reading.statements.append(tree)
        if found is not None:
            reading.problems.append(found)
            reading.broken |= syntax_errors.declared_names(tokens[start:position])
    return reading


def read_body(text: str) -> tuple[Node | None, list[Problem]]:
    """A body on its own: ``reach("a", X), X != "b"``; a full stop at the end is allowed."""
    tokens = tokenise(text)
    if tokens and tokens[-1].type == "DOT":
        tokens.pop()
    bad = [unreadable(token) for token in tokens if token.type in UNREADABLE]
    if bad:
        return None, bad
    tree, position = _feed(tokens, 0, "disjunction")
    if tree is None or position < len(tokens):
        expected = _expected(tokens[:position], "disjunction")
        return None, [syntax_errors.unexpected_in_query(tokens, position, expected)]
    deep = _too_deep(tree)
    return (tree, []) if deep is None else (None, [deep])


def _statement(tokens: list[Token], start: int) -> tuple[Node | None, int, Problem | None]:
    """One statement from here on: its tree or what is wrong with it, and the position behind it."""
    first = tokens[start]
    if first.type in UNREADABLE:
        return None, start + 1, unreadable(first)
    if first.type in syntax_errors.REFUSED:
        return Tree("unsupported", [first]), syntax_errors.behind_construct(tokens, start), None
    tree, position = _feed(tokens, start, "statement")
    if tree is None:
        expected = _expected(tokens[start:position], "statement")
        found, position = syntax_errors.recover(tokens, start, position, expected)
        return None, position, found
    deep = _too_deep(tree)
    return (tree if deep is None else None), position, deep


def _feed(tokens: list[Token], start: int, rule: str) -> tuple[Node | None, int]:
    """The longest statement from here on and the position behind it; or None and the position where it goes wrong."""
    parser = _interactive(rule)
    position = start
    try:
        while position < len(tokens):
            choices = parser.choices()
            if _END in choices and _is_key(tokens, start, position):
                tokens[position] = Token.new_borrow_pos("KEY", tokens[position], tokens[position])
            if _END in choices and (tokens[position].type not in choices or _is_relation(tokens, position)):
                break
            parser.feed_token(tokens[position])
            position += 1
        return parser.feed_eof(tokens[position - 1] if position else None), position
    except UnexpectedInput:
        return None, position


def _is_relation(tokens: Sequence[Token], position: int) -> bool:
    """Is a word such as ``output`` behind a declaration the name of a relation rather than a qualifier?"""
    return tokens[position].type == "QUALIFIER" and _type_at(tokens, position + 1) == "LPAR"


def _is_key(tokens: Sequence[Token], start: int, position: int) -> bool:
    """Is this ``key(…)`` of the declaration that starts there, and no clause ``key(…) :- …`` or ``key(…).`` of a relation named so?

    Where it is neither, on the line of the declaration or indented it was meant to be the former.
    """
    if tokens[start].type != "_DECL" or tokens[position] != "key" or _type_at(tokens, position + 1) != "LPAR":
        return False
    columns = takewhile(lambda token: token.type != "RPAR", (tokens[at] for at in range(position + 2, len(tokens))))
    names = all(token.type in _COLUMN_TOKENS and token not in _CONSTANTS for token in columns)
    beside = tokens[position].line == tokens[position - 1].end_line or column_of(tokens[position]) > column_of(tokens[start])
    match _type_at(tokens, _behind_heads(tokens, position)):
        case "IF":
            return False
        case "DOT":
            # A fact has no variables, so the full stop is one too many.
            return beside and names and _type_at(tokens, position + 2) != "RPAR"
    return beside or names


def _behind_heads(tokens: Sequence[Token], position: int) -> int:
    """The position behind ``a(…), b(…)``."""
    position = syntax_errors.behind_brackets(tokens, position + 1, syntax_errors.DIRECTIVES)
    while _type_at(tokens, position) == "COMMA" and _type_at(tokens, position + 2) == "LPAR":
        position = syntax_errors.behind_brackets(tokens, position + 2, syntax_errors.DIRECTIVES)
    return position


def _type_at(tokens: Sequence[Token], position: int) -> str | None:
    return tokens[position].type if position < len(tokens) else None


def _expected(tokens: Sequence[Token], rule: str) -> set[str]:
    """The types of the tokens that could follow."""
    parser = _interactive(rule)
    for token in tokens:
        parser.feed_token(token)
    accepted: set[str] = parser.accepts()
    return accepted


def _interactive(rule: str) -> Any:
    return grammar().parse_interactive(start=rule)


def _too_deep(tree: Node) -> Problem | None:
    """The first place that is nested too deep. A chain a + b + c nests to the left, one level for each sign."""
    todo: list[tuple[Node, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        inner = depth + _weight(node)
        if inner > MOST_NESTED:
            return problem("TOO_DEEP", span_of(node), most=MOST_NESTED)
        todo += [(child, inner) for child in reversed(node.children) if isinstance(child, Tree)]
    return None


def _weight(node: Node) -> int:
    match node.data:
        case "parentheses" | "call" | "aggregate_call" | "prefix" | "power" | "negation":
            return 1
        case "aggregate" | "window":
            return _AGGREGATE_WEIGHT
        case "term" | "xor" | "conj" | "bits_or" | "bits_xor" | "bits_and" | "shift" | "sum" | "product":
            return len(node.children) // 2
    return 0
