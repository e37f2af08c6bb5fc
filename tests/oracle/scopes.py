"""Gives every variable of a rule its own name, and takes `range`, and terms in atoms, out into literals.

The law: an aggregate's variables that also occur outside of it are bound outside; the others are its own. Variables
that only occur in another aggregate beside it are not "outside": each of the two has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from .syntax import (
    Agg,
    Atom,
    Call,
    Clause,
    Compare,
    Literal,
    Range,
    Term,
    Test,
    Truth,
    Var,
    aggregates,
    deep_vars,
    literal_terms,
    own_vars,
)


@dataclass(frozen=True, eq=False)
class Rule:
    """Heads and one conjunction. `grouping` are the head's variables that only the aggregates bind, where there is nothing else."""

    heads: tuple[Atom, ...]
    body: tuple[Literal, ...]
    grouping: tuple[str, ...]


def rules(clause: Clause) -> list[Rule]:
    return [rule(clause, conj) for conj in clause.body]


def rule(clause: Clause, conj: tuple[Literal, ...]) -> Rule:
    head_vars = {v for head in clause.heads for arg in head.args for v in own_vars(arg)}
    body_vars = {v for lit in conj for term in literal_terms(lit) for v in own_vars(term)}
    scope = head_vars | body_vars
    if any(isinstance(lit, Compare) and isinstance(lit.right, Agg) and lit.right.over for lit in conj):
        return Rule(clause.heads, conj, ())
    body = conjunction(conj, scope, {})
    extra: list[Literal] = []
    heads = tuple(Atom(h.relation, tuple(rename(a, scope, {}, extra) for a in h.args)) for h in clause.heads)
    grouping: set[str] = set()
    if conj and all(
        isinstance(lit, Compare) and lit.op == "=" and len(aggregates(lit.left) + aggregates(lit.right)) == 1 for lit in conj
    ):
        grouping = head_vars - body_vars
    return Rule(heads, (*body, *extra), tuple(sorted(grouping)))


def conjunction(conj: tuple[Literal, ...], scope: set[str], names: dict[str, str]) -> tuple[Literal, ...]:
    result: list[Literal] = []
    for lit in conj:
        extra: list[Literal] = []
        terms = tuple(rename(term, scope, names, extra) for term in literal_terms(lit))
        match lit:
            case Atom():
                args = [named(t, extra) for t in terms] if lit.positive else terms
                result.append(Atom(lit.relation, tuple(args), lit.positive))
            case Test():
                result.append(Test(lit.name, terms, lit.positive))
            case Compare():
                result.append(Compare(lit.op, *terms))
            case Truth():
                result.append(lit)
            case Range():
                raise AssertionError("ranges are only made here")
        result += extra
    return tuple(result)


def named(term: Term, extra: list[Literal]) -> Term:
    """`r(x, x + 1)` is `r(x, y), y = x + 1`: an argument may use what the atom itself binds."""
    if not isinstance(term, Call | Agg):
        return term
    var = Var(f"argument#{id(term)}")
    extra.append(Compare("=", var, term))
    return var


def rename(term: Term, scope: set[str], names: dict[str, str], extra: list[Literal]) -> Term:
    """The term with its new names. A range in it becomes a fresh variable and a literal in `extra`."""
    match term:
        case Var():
            return Var(names.get(term.name, term.name))
        case Call() if term.op == "range":
            args = tuple(rename(a, scope, names, extra) for a in term.args)
            each = Var(f"range#{id(term)}")
            extra.append(Range(each, args))
            return each
        case Call():
            return Call(term.op, tuple(rename(a, scope, names, extra) for a in term.args))
        case Agg():
            return rename_aggregate(term, scope, names)
        case _:
            return term


def rename_aggregate(agg: Agg, scope: set[str], names: dict[str, str]) -> Agg:
    level = {v for conj in agg.body for lit in conj for term in literal_terms(lit) for v in own_vars(term)}
    if agg.target is not None:
        level |= own_vars(agg.target)
    inner_names = names | {v: f"{v}@{agg.id}" for v in level - scope}
    inner_scope = scope | level
    extra: list[Literal] = []
    target = None if agg.target is None else rename(agg.target, inner_scope, inner_names, extra)
    body = tuple((*conjunction(conj, inner_scope, inner_names), *extra) for conj in agg.body)
    outer = frozenset(names.get(v, v) for v in deep_vars(agg) & scope)
    return Agg(agg.op, target, body, agg.id, outer)
