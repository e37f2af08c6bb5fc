"""Typed access to the nodes that the grammar makes."""

from __future__ import annotations

from lark import Token, Tree

from viewkeeper.errors import Span
from viewkeeper.language import tokens

Node = Tree[Token]


def tree(node: object) -> Node:
    assert isinstance(node, Tree), node
    return node


def token(node: object) -> Token:
    assert isinstance(node, Token), node
    return node


def subtrees(node: object) -> list[Node]:
    """The children that are trees; none if an optional part is left out."""
    return [] if node is None else [child for child in tree(node).children if isinstance(child, Tree)]


def span_of(node: object) -> Span:
    """The place of a token or tree."""
    if isinstance(node, Token):
        return tokens.span_of(node)
    meta = tree(node).meta
    return Span(1, 1, 1, 1) if meta.empty else Span(meta.line, meta.column, meta.end_line, meta.end_column)
