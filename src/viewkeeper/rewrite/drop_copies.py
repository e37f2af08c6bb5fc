"""Makes one of a view and a relation of groups that only the rewriting knows, where the view is a copy of it.

    t_group1(s, n, m) :- n = count : { r(s, x) }, m = max x : { r(s, x) }.
    t(s, m, n) :- t_group1(s, n, m).                                           becomes

    t(s, m, n) :- m = max x : { r(s, x) }, n = count : { r(s, x) }.

Each row would be kept twice, and each change be brought in twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace

from viewkeeper.program.ast import Atom, Program, Rule, Variable
from viewkeeper.program.grouping import equations, grouping_of
from viewkeeper.program.strata import reads


def drop_copies(program: Program, stored: AbstractSet[str], declared: AbstractSet[str]) -> Program:
    """``stored``: the views that may become the relation of groups; ``declared``: relations that stay whatever they are."""
    of: dict[str, list[Rule]] = {}
    for rule in program.rules:
        of.setdefault(rule.head.relation, []).append(rule)
    read = Counter(atom.relation for rule in program.rules for atom, _ in reads(rule))
    new: dict[str, Rule] = {}
    dropped: set[str] = set()
    for view in stored & of.keys():
        match of[view]:
            case [Rule(body=(Atom(relation=source),)) as copy] if source not in declared and read[source] == 1:
                groups = _of_copy(copy, of.get(source, []), program)
                if groups is not None:
                    new[view] = groups
                    dropped.add(source)
    return replace(
        program,
        relations=tuple(relation for relation in program.relations if relation.name not in dropped),
        rules=tuple(new.get(r.head.relation, r) for r in program.rules if r.head.relation not in dropped),
    )


def _of_copy(copy: Rule, rules: list[Rule], program: Program) -> Rule | None:
    """The rule of the groups for the view that copies them; None if it does more, or has a value before a column of the group."""
    grouping = grouping_of(rules[0]) if len(rules) == 1 else None
    [source] = copy.body
    assert isinstance(source, Atom)
    names, given = _variables(copy.head), _variables(source)
    heads = None if grouping is None else _variables(rules[0].head)
    if grouping is None or names is None or given is None or heads is None or sorted(names) != sorted(given):
        return None
    places = [given.index(name) for name in names]
    types = program.relation(source.relation).types
    order, width = [heads[i] for i in places], len(grouping.groups)
    if program.relation(copy.head.relation).types != tuple(types[i] for i in places) or {*order[:width]} != {*grouping.groups}:
        return None
    computed = dict(zip(grouping.results, grouping.aggregates, strict=True))
    body = equations(order[width:], [computed[name] for name in order[width:]])
    return Rule(Atom(copy.head.relation, tuple(map(Variable, order))), body, copy.span)


def _variables(atom: Atom) -> list[str] | None:
    """The names of an atom's arguments, if all are different variables."""
    names = [argument.name for argument in atom.arguments if isinstance(argument, Variable)]
    return names if len(set(names)) == len(atom.arguments) else None
