"""The order in which a body's atoms are joined, and the columns that are bound when each is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log2, sqrt

from viewkeeper.program.ast import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Relation,
    Test,
    Variable,
    Wildcard,
    all_variables,
    variables_of,
)
from viewkeeper.program.safety import bound_variables

# A relation that is empty now may be of any size when the statement is used again.
_UNKNOWN = 1 << 62
_WORST = 63
# What a row costs that is next to the one before it, and one that is anywhere, against one that is searched for by its key; and how many
# rows fulfil a condition.
_TOGETHER, _SCATTERED = 0.1, 3.0
_SELECTED = 0.3

Matches = Callable[[str, int], float | None]
"""About how many rows of a relation share a value of a column; None if nobody has looked, as there are few."""


@dataclass(frozen=True)
class Access:
    """A relation is searched by these columns (positions); ``computed``: those of them whose values only comparisons tell."""

    relation: str
    columns: tuple[int, ...]
    computed: tuple[int, ...] = ()


def join_order(
    body: tuple[Literal, ...],
    first: int | None,
    sizes: Mapping[str, int],
    relations: Mapping[str, Relation],
    matches: Matches | None = None,
) -> list[int]:
    """Positions of the positive atoms: the changed literal first, then where its bindings lead, small relations before large.

    Of those that are looked up by a key the ones come first that may turn out not to fit: the others need not be looked up then.
    With ``matches``, a search that finds many rows comes after one that finds few: all customers of a nation after the lines of a supplier.
    And where nothing says with which to begin, it is what is expected to be cheapest.
    """
    if matches is None or first is not None:
        return _from(body, first, sizes, relations, matches)
    orders = [_from(body, start, sizes, relations, matches) for start in (None, *_atoms(body))]
    return min(orders, key=lambda order: _cost(body, order, sizes, relations, matches))


def _from(
    body: tuple[Literal, ...],
    first: int | None,
    sizes: Mapping[str, int],
    relations: Mapping[str, Relation],
    matches: Matches | None,
) -> list[int]:
    waiting = _atoms(body)
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
                    -_magnitude(_atom(body[i]), bound, relations, matches),
                    *_score(body, i, bound, fixed, relations),
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
        before = [body[i] for i in order[:place]]
        access = _access(_atom(body[position]), bound_variables([*before, *comparisons], set(), set()))
        joined = _access(_atom(body[position]), bound_variables(before, set(), set()))
        found.append(replace(access, computed=tuple(i for i in access.columns if i not in joined.columns)))
    everything = bound_variables(body, set(), set())
    found += [_access(literal.atom, everything) for literal in body if isinstance(literal, Negation)]
    return [access for access in found if access.columns]


def _access(atom: Atom, bound: set[str]) -> Access:
    columns = tuple(
        i for i, a in enumerate(atom.arguments) if not isinstance(a, Wildcard) and {v.name for v in variables_of(a)} <= bound
    )
    return Access(atom.relation, columns)


def _score(
    body: tuple[Literal, ...], position: int, bound: set[str], fixed: set[str], relations: Mapping[str, Relation]
) -> tuple[bool, bool, int, bool]:
    """Is one row at most searched for, by a key, and may it not fit; how many columns are bound: by what is joined already, or by a
    constant only; is one of them part of a key? Rows that share a part of their key are fewer than those that share something else."""
    atom, score = _atom(body[position]), 0
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
    key = set() if relation is None else {*relation.key}
    unique = bool(key) and known >= key
    return unique, unique and (known > key or _decides(body, atom, bound)), score, not key or not known.isdisjoint(key)


def _magnitude(atom: Atom, bound: set[str], relations: Mapping[str, Relation], matches: Matches | None) -> int:
    """Of the number of rows that one search finds, as far as that is known; worst is no search at all."""
    if matches is None:
        return 0
    access = _access(atom, bound)
    return int(log2(_found(access, relations[atom.relation], matches, 1.0))) if access.columns else _WORST


def _found(access: Access, relation: Relation, matches: Matches, unknown: float) -> float:
    """About how many rows a search finds."""
    if relation.key and {*relation.key} <= {relation.columns[i].name for i in access.columns}:
        return 1.0
    known = [rows for i in access.columns if (rows := matches(access.relation, i)) is not None]
    return max(1.0, min(known, default=unknown))


def _cost(
    body: tuple[Literal, ...], order: list[int], sizes: Mapping[str, int], relations: Mapping[str, Relation], matches: Matches
) -> float:
    """What joining in this order is expected to cost, in searches that find one row."""
    cost, rows = 0.0, 1.0
    conditions = [x for x in body if isinstance(x, (Comparison, Test))]
    comparisons = [x for x in conditions if isinstance(x, Comparison)]
    undecided = [{*all_variables((x,))} for x in conditions]
    bound = bound_variables(comparisons, set(), set())
    for place, position in enumerate(order):
        atom = _atom(body[position])
        relation, access, size = relations[atom.relation], _access(atom, bound), sizes.get(atom.relation) or 1
        found, read = float(size), size * _TOGETHER
        if access.columns:
            found = _found(access, relation, matches, sqrt(size))
            together = not relation.key or relation.columns[access.columns[0]].name == relation.key[0]
            read = min(read, 1 + (found - 1) * (_TOGETHER if together else _SCATTERED))
        cost += rows * read
        bound = bound_variables([*(body[i] for i in order[: place + 1]), *comparisons], set(), set())
        decided = [needed for needed in undecided if needed <= bound]
        undecided = [needed for needed in undecided if not needed <= bound]
        rows *= found * _SELECTED ** len(decided)
    return cost


def _atoms(body: tuple[Literal, ...]) -> list[int]:
    return [i for i, literal in enumerate(body) if isinstance(literal, Atom)]


def _decides(body: tuple[Literal, ...], atom: Atom, bound: set[str]) -> bool:
    """Is there a condition that can be decided with this atom, and not without it?"""
    reached = bound | {*all_variables((atom,))}
    for literal in body:
        if isinstance(literal, (Comparison, Test)):
            needed = {*all_variables((literal,))}
            if needed <= reached and not needed <= bound:
                return True
    return False


def _atom(literal: Literal) -> Atom:
    assert isinstance(literal, Atom)
    return literal
