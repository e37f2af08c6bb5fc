"""Failures of values in the words of SQL, with the place in the statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqlglot import exp

from viewkeeper.errors import EvaluationError, Problem, shortened
from viewkeeper.program.ast import owner_of
from viewkeeper.program.sql_functions import CAST_KINDS
from viewkeeper.program.types import Kind
from viewkeeper.sql.reading import Statement, place_of, written_at
from viewkeeper.sql.types import type_of_sql

ANSWER = "answer?"
"""The relation of a query."""

_DIVIDING = (exp.Div, exp.IntDiv, exp.Mod)
_MATCHING = {"sql_rlike": (exp.RegexpLike,), "sql_like": (exp.Like, exp.ILike), "sql_regexp_replace": (exp.RegexpReplace,)}
_READING = {"to_date": Kind.DATE, "to_timestamp": Kind.TIMESTAMP}


def constant_failure(error: EvaluationError, node: exp.Expr, statement: Statement) -> EvaluationError:
    """The failure of a constant part of a statement."""
    [found] = error.problems
    where = shortened(written_at(node, statement.source))
    parameters = {**found.parameters, "in_sql": True, "where": where}
    if found.code == "BAD_TEXT":
        parameters["what"] = where
        if found.parameters["function"] in CAST_KINDS:
            parameters["hint"] = "Correct the text."
    span = place_of(node, statement.source) or place_of(statement.tree, statement.source)
    return EvaluationError(replace(found, parameters=parameters, span=span, source=statement.source))


@contextmanager
def telling(statement: Statement | None = None, own: str = ANSWER, again: Callable[[], object] | None = None) -> Iterator[None]:
    """Tells failures in the words of SQL, those of the relation ``own`` with their place in the statement.

    ``again`` looks at the statement once more, carefully: if something constant has failed, it tells where.
    """
    try:
        yield
    except EvaluationError as error:
        if again is not None and all(_is_of(found, own) for found in error.problems):
            again()
        raise EvaluationError(_told(found, statement, own) for found in error.problems) from None


def _is_of(found: Problem, own: str) -> bool:
    relation = str(found.parameters.get("relation") or own)
    return found.span is None and own in (relation, owner_of(relation))


def _told(found: Problem, statement: Statement | None, own: str) -> Problem:
    if found.span is not None:
        return found
    relation = str(found.parameters.get("relation") or own)
    where = "the query" if relation.startswith(ANSWER) else f'the view "{owner_of(relation) or relation}"'
    parameters = {**found.parameters, "where": where}
    if found.code != "BAD_TEXT":
        parameters["in_sql"] = True
    elif parameters.get("in_sql") and not relation.startswith(ANSWER):
        parameters["what"] = f"{parameters['what']} in {where}"
    if statement is None or not _is_of(found, own):
        return replace(found, parameters=parameters)
    span = place_of(_culprit(found, statement.tree), statement.source)
    return replace(found, parameters=parameters, span=span, source=statement.source)


def _culprit(found: Problem, tree: exp.Expr) -> exp.Expr:
    """The only part of a statement that can have failed, or all of it."""
    suspects = [node for node in tree.walk() if _can_fail(node, found)]
    return suspects[0] if len(suspects) == 1 else tree


def _can_fail(node: exp.Expr, found: Problem) -> bool:
    if found.code == "DIVISION_BY_ZERO":
        return isinstance(node, _DIVIDING)
    function = str(found.parameters.get("function"))
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
        return name in _READING if function == "sql_parse_time" else CAST_KINDS.get(function) is _READING.get(name, function)
    if function in CAST_KINDS and isinstance(node, exp.Cast):
        return _kind(node) is CAST_KINDS[function]
    return isinstance(node, _MATCHING.get(function, ()))


def _kind(node: exp.Cast) -> Kind | None:
    wanted = type_of_sql(node.to)
    return None if wanted is None else wanted.kind
