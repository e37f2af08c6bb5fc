"""Makes rules read relations as they were before some rows came and others went.

    p?then(x) :- p(x), !p?came(x).        where p itself is read
    p?then(x) :- p?went(x).

Every rule that reads p reads p?then, which is a view like others: of it no more is derived than is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewkeeper.program.ast import Atom, Negation, Program, Rule, Variable
from viewkeeper.rewrite.share_auxiliaries import renamed


def came(relation: str) -> str:
    return f"{relation}?came"


def went(relation: str) -> str:
    return f"{relation}?went"


def take_back(core: Program, changed: Mapping[str, bool]) -> Program:
    """``changed``: relations without rules that have changed, and whether they are read; else all their rows are those that went."""
    then = {name: f"{name}?then" for name in changed}
    relations = [relation for relation in core.relations if changed.get(relation.name, True)]
    rules = [replace(rule, body=renamed(rule.body, then)) for rule in core.rules]
    for name, is_read in changed.items():
        relation = replace(core.relation(name), key=())
        row = tuple(Variable(column.name) for column in relation.columns)
        relations += [replace(relation, name=other) for other in (then[name], came(name), went(name))]
        if is_read:
            # As rows are the same, NULL is the same as NULL.
            stays = Negation(Atom(came(name), row), same=any(column.type.nullable for column in relation.columns))
            rules.append(Rule(Atom(then[name], row), (Atom(name, row), stays)))
        rules.append(Rule(Atom(then[name], row), (Atom(went(name), row),)))
    return replace(core, relations=tuple(relations), rules=tuple(rules))
