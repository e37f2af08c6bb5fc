"""The order in which a body's atoms are joined, and the columns that are bound when each is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewkeeper.program.ast import Atom, Comparison, Constant, Literal, Negation, Relation, Variable, Wildcard, variables_of
from viewkeeper.program.safety import bound_variables

# A relation that is empty now may be of any size when the statement is used again.
_UNKNOWN = 1 << 62


@dataclass(frozen=True)
class Access:
    """A relation is searched by these columns (positions)."""

    relation: str
    columns: tuple[int, ...]


def join_order(
    body: tuple[Literal, ...], first: int | None, sizes: Mapping[str, int], relations: Mapping[str, Relation]
) -> list[int]:
    """Positions of the positive atoms: the changed literal first, then where its bindings lead, small relations before large."""
    waiting = [i for i, literal in enumerate(body) if isinstance(literal, Atom)]
    order: list[int] = []
    bound: set[str] = set()
    fixed = bound_variables([x for x in body if isinstance(x, Comparison)], set(), set())
    while waiting:
        if first is not None and not order:
            chosen = first
        else:
            chosen = max(
                waiting,
                key=lambda i: (
                    *_score(_atom(body[i]), bound, fixed, relations),
                    -(sizes.get(_atom(body[i]).relation) or _UNKNOWN),
                    -i,
                ),
            )
        waiting.remove(chosen)
        order.append(chosen)
        reached = [body[i] for i in order] + [x for x in body if isinstance(x, Comparison)]
        bound = bound_variables(reached, set(), set())
    return order


def accesses(body: tuple[Literal, ...], order: list[int]) -> list[Access]:
    """How each atom and negation is searched, given the join order."""
    found = []
    comparisons = [x for x in body if isinstance(x, Comparison)]
    for place, position in enumerate(order):
        bound = bound_variables([*(body[i] for i in order[:place]), *comparisons], set(), set())
        found.append(_access(_atom(body[position]), bound))
    everything = bound_variables(body, set(), set())
    found += [_access(literal.atom, everything) for literal in body if isinstance(literal, Negation)]
    return [access for access in found if access.columns]


def _access(atom: Atom, bound: set[str]) -> Access:
    columns = tuple(
        i for i, a in enumerate(atom.arguments) if not isinstance(a, Wildcard) and {v.name for v in variables_of(a)} <= bound
    )
    return Access(atom.relation, columns)


def _score(atom: Atom, bound: set[str], fixed: set[str], relations: Mapping[str, Relation]) -> tuple[bool, int]:
    """Is one row at most searched for, by a key; and how many columns are bound: by what is joined already, or by a constant only."""
    score = 0
    known = set()
    relation = relations.get(atom.relation)
    for place, argument in enumerate(atom.arguments):
        match argument:
            case Constant():
                score += 1
            case Variable() if argument.name in bound:
                score += 1 if argument.name in fixed else 2
            case _:
                continue
        if relation is not None and place < relation.arity:
            known.add(relation.columns[place].name)
    return relation is not None and bool(relation.key) and known >= set(relation.key), score


def _atom(literal: Literal) -> Atom:
    assert isinstance(literal, Atom)
    return literal
