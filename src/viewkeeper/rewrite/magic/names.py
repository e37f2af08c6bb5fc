"""The relations of programs that derive on demand, named with a ``$``, which no relation of a program can contain:

    p$m_bf(x)   for which x rows p(x, _) are asked for: the first column is bound, the second free
    p$old       the rows of p that were asked for
    p$n_bf(x)   the same after a change, with p$now
    p$sup1(…)   what the first literals of a rule have in common
    p$body(…)   what the body of an aggregate or the source of a window has for the groups asked for

Of stored relations r, r$old are the rows before the change that is followed, if one is.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Relation,
    Rule,
    Term,
    Variable,
)
from viewkeeper.program.plan import shown_columns
from viewkeeper.program.types import NUMBER

ONE = Constant(1, NUMBER)


def beside(relation: Relation, what: str) -> Relation:
    """Another relation with the columns of this one. One without columns has one that is always 1."""
    return Relation(f"{relation.name}${what}", shown_columns(relation))


def magic(relation: str, adornment: str, state: str = "old") -> str:
    return f"{relation}${'m' if state == 'old' else 'n'}_{adornment}"


def arguments_of(atom: Atom) -> tuple[Term, ...]:
    return atom.arguments or (ONE,)


def row_of(relation: Relation) -> tuple[Term, ...]:
    """A variable for each column."""
    return tuple(Variable(column.name) for column in relation.columns) or (ONE,)


def readable_rule(rule: Rule) -> Rule:
    """The rule as people write it."""

    def literal(x: Literal) -> Literal:
        match x:
            case Atom():
                return replace(x, relation=readable(x.relation))
            case Negation():
                return replace(x, atom=replace(x.atom, relation=readable(x.atom.relation)))
            case Comparison(right=Aggregate() as right):
                return replace(x, right=replace(right, body=tuple(map(literal, right.body))))
        return x

    return replace(rule, head=replace(rule.head, relation=readable(rule.head.relation)), body=tuple(map(literal, rule.body)))


def readable(name: str) -> str:
    """The name as people write it.

    >>> readable("closure$m_bf"), readable("closure$old"), readable("closure$plus")
    ('m_closure_bf', 'closure', 'closure_plus')
    """
    relation, _, what = name.partition("$")
    if what.startswith("m_"):
        return f"m_{relation}_{what.removeprefix('m_')}"
    return relation if what in ("", "old") else f"{relation}_{what}"
