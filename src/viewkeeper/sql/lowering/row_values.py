"""Values in parentheses that are compared as rows: ``(a, b) = (1, 2)``, ``(a, b) IN ((1, 10), (2, 20))``, ``(a, b) < (1, 2)``.

As in Spark they are compared like structs, in which NULL is a value like others, before all of them: such a comparison is never NULL itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.sql.reading import Statement

_Row = Sequence[exp.Expr]


def compared_by_values(statement: Statement, node: exp.Expr) -> exp.Expr | None:
    """A comparison of rows as one of their values; None if it is another expression."""
    match node:
        case exp.In() if _is_row(node.this) and node.expressions and not node.args.get("query"):
            return exp.or_(*(_same(*_sides(statement, node, node.this, other)) for other in node.expressions), copy=False)
        case exp.Between() if _is_row(node.this):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"])
            return exp.and_(low, exp.LTE(this=node.this, expression=node.args["high"]), copy=False)
        case exp.EQ() | exp.NullSafeEQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if _is_compared(node):
            return _comparison(node, *_sides(statement, node, node.this, node.expression))
    return None


def _comparison(node: exp.Expr, left: _Row, right: _Row) -> exp.Expr:
    match node:
        case exp.EQ() | exp.NullSafeEQ():
            return _same(left, right)
        case exp.NEQ():
            return exp.not_(_same(left, right), copy=False)
        case exp.LT():
            return _before(left, right)
        case exp.GT():
            return _before(right, left)
        case exp.LTE():
            return exp.not_(_before(right, left), copy=False)
    return exp.not_(_before(left, right), copy=False)


def _is_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Tuple)


def _is_compared(node: exp.Expr) -> bool:
    return _is_row(node.this) and not isinstance(node.expression, (exp.Any, exp.All, exp.Query)) or _is_row(node.expression)


def _sides(statement: Statement, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> tuple[_Row, _Row]:
    sizes = [len(side.expressions) if _is_row(side) else 1 for side in (left, right)]
    if sizes[0] != sizes[1] or not _is_row(left):
        why = f"rows of {sizes[0]} and {sizes[1]} values cannot be compared"
        statement.refuse("SQL_TYPE", node, why=why, hint="Compare as many values with as many.")
    return left.expressions, right.expressions


def _same(left: _Row, right: _Row) -> exp.Expr:
    pairs = (exp.NullSafeEQ(this=one.copy(), expression=other.copy()) for one, other in zip(left, right, strict=True))
    return exp.paren(exp.and_(*pairs, copy=False), copy=False)


def _before(left: _Row, right: _Row) -> exp.Expr:
    """Does a row come before another: by its first values, or where these are the same by the next?"""
    one, other = left[0], right[0]
    smaller = exp.Coalesce(this=exp.LT(this=one.copy(), expression=other.copy()), expressions=[exp.false()])
    missing = exp.and_(_is_null(one), exp.not_(_is_null(other), copy=False), copy=False)
    first = exp.or_(smaller, missing, copy=False)
    if len(left) == 1:
        return exp.paren(first, copy=False)
    rest = exp.and_(_same(left[:1], right[:1]), _before(left[1:], right[1:]), copy=False)
    return exp.paren(exp.or_(first, rest, copy=False), copy=False)


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node.copy(), expression=exp.null())
