"""``over (p; x desc nulls first; rows -2 0)``: the words in it are names, which are told apart here."""

from __future__ import annotations

from lark import Token

from viewkeeper.language.complaints import Complaints
from viewkeeper.language.tokens import quoted
from viewkeeper.language.trees import Node, span_of, token, tree
from viewkeeper.program.ast import Frame, Order, Over, Variable

_ORDER = 'Write the order as "x", "x desc", "x nulls last" or "x desc nulls first".'
_EXTENT = 'Write a number of rows, "rows -2 0" or "range unbounded 0".'


def over(node: Node, number: Token | None, complaints: Complaints) -> Over:
    """``number`` is the one behind the value, as in ``lag x 2``."""
    _, partition, order, extent = node.children
    names = [] if partition is None else [token(name) for name in tree(partition).children]
    keys = [] if order is None else [_key(tree(key), complaints) for key in tree(order).children]
    limit = frame = None
    if extent is not None and tree(extent).data == "limit":
        limit = int(token(tree(extent).children[0]), 0)
    elif extent is not None:
        frame = _frame(tree(extent), complaints)
    variables = tuple(Variable(str(name), span_of(name)) for name in names)
    return Over(variables, tuple(keys), frame, limit, None if number is None else int(number, 0), span_of(node))


def _key(node: Node, complaints: Complaints) -> Order:
    name, *words = [token(child) for child in node.children]
    said = [str(word) for word in words]
    descending = said[:1] == ["desc"]
    if said[:1] in (["asc"], ["desc"]):
        said = said[1:]
    if said not in ([], ["nulls", "first"], ["nulls", "last"]):
        raise complaints.wrong("SYNTAX", span_of(words[0]), found=quoted(str(words[0])), wish=_ORDER)
    nulls_first = said[1] == "first" if said else not descending
    return Order(Variable(str(name), span_of(name)), descending, nulls_first)


def _frame(node: Node, complaints: Complaints) -> Frame:
    unit, low, high = node.children
    if unit not in ("rows", "range"):
        raise complaints.wrong("SYNTAX", span_of(unit), found=quoted(str(unit)), wish=_EXTENT)
    return Frame(str(unit), _bound(tree(low), complaints), _bound(tree(high), complaints))


def _bound(node: Node, complaints: Complaints) -> int | None:
    if node.data == "bound":
        minus, number = node.children
        return int(token(number), 0) * (1 if minus is None else -1)
    [name] = node.children
    if name != "unbounded":
        raise complaints.wrong("SYNTAX", span_of(name), found=quoted(str(name)), wish=_EXTENT)
    return None
