"""What is constant in a statement is evaluated once when it is lowered, so that what fails is told where it stands, before there are rows.
That takes time, so of a query it is done only to find what failed.

Spark does so, too: it fails for a constant wherever it is, except where CASE and its kin may not choose it.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.errors import EvaluationError
from viewkeeper.program.ast import Atom, Call, Column, Constant, Relation, Rule, Term
from viewkeeper.program.functions import FUNCTIONS
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.types import DATE, SYMBOL
from viewkeeper.program.typing import Typer
from viewkeeper.program.values import restore
from viewkeeper.sql.failures import constant_failure

if TYPE_CHECKING:
    from viewkeeper.sql.lowering.builder import Builder


class Doubt(IntEnum):
    """Whether an expression is evaluated for every row."""

    NONE = 0
    CONNECTED = 1  # not if what stands before it in an AND or OR decides
    CHOSEN = 2  # only if a CASE, IF or COALESCE comes to it


# Functions whose first argument may be anything, and up to which doubt the others are judged without it.
_JUDGED = {
    "sql_like": Doubt.CONNECTED,
    "sql_ilike": Doubt.CONNECTED,
    "sql_rlike": Doubt.CONNECTED,
    "sql_regexp_count": Doubt.NONE,
    "sql_regexp_extract": Doubt.NONE,
    "sql_regexp_instr": Doubt.NONE,
    "sql_regexp_replace": Doubt.NONE,
    "sql_regexp_substr": Doubt.NONE,
    "sql_split_part": Doubt.NONE,
    "sql_next_day": Doubt.NONE,
}
_ANY_TEXT, _ANY_DAY = Constant("", SYMBOL), Constant(datetime.date(1970, 1, 1), DATE)


@dataclass
class Constants:
    """Evaluates what is constant in the terms of one statement."""

    builder: Builder
    # By identity, for deep terms are slow to compare: a term, and what it amounts to, or None if it is not constant.
    _known: dict[int, tuple[Term, Term | None]] = field(default_factory=dict)

    def check(self, term: Term, node: exp.Expr, doubt: Doubt) -> None:
        """Refuses a term that fails whatever the rows are."""
        careful = self.builder.careful and self.builder.statement.evaluate is not None
        if not careful or not isinstance(term, Call) or doubt is Doubt.CHOSEN:
            return
        try:
            found = self._constant(term)
            if found is None and doubt <= _JUDGED.get(term.function, -1):
                some = _ANY_DAY if term.function == "sql_next_day" else _ANY_TEXT
                self._constant(Call(term.function, (some, *term.arguments[1:])))
        except EvaluationError as error:
            raise constant_failure(error, node, self.builder.statement) from None

    def check_typed(self, term: Term, node: exp.Expr) -> None:
        """Refuses DATE '…' and TIMESTAMP '…' of a wrong text, which need not be evaluated for it."""
        if self.builder.statement.evaluate is None:
            return
        try:
            self._constant(term)
        except EvaluationError as error:
            raise constant_failure(error, node, self.builder.statement) from None

    def _constant(self, term: Term) -> Term | None:
        """What a term amounts to; None if that depends on rows."""
        if not isinstance(term, Call):
            return term if isinstance(term, Constant) else None
        if id(term) not in self._known:
            parts = [self._constant(part) if _is_eager(term) else part for part in term.arguments]
            ground = [part for part in parts if part is not None and _is_ground(part)]
            constant = self._evaluated(Call(term.function, tuple(ground))) if len(ground) == len(parts) else None
            self._known[id(term)] = (term, constant)
        return self._known[id(term)][1]

    def _evaluated(self, term: Call) -> Term:
        values = [part.value if isinstance(part, Constant) else None for part in term.arguments]
        if _is_eager(term) and not FUNCTIONS[term.function].can_fail(values):
            return term
        type_ = self.builder.type_of(term, ()).optional()
        relation = Relation("constant", (Column("value", type_),))
        typer = Typer({relation.name: relation}, Hierarchy.of(()))
        rule, _ = typer.rule(Rule(Atom(relation.name, (term,)), ()))
        assert self.builder.statement.evaluate is not None
        return Constant(restore(self.builder.statement.evaluate(rule, relation), type_), type_)


def _is_eager(term: Call) -> bool:
    """Are all arguments evaluated in any case?"""
    return FUNCTIONS[term.function].sure == -1


def _is_ground(term: Term) -> bool:
    return isinstance(term, Constant) or (isinstance(term, Call) and all(map(_is_ground, term.arguments)))
