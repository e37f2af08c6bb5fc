"""The maintenance rules of recursive views, as a program that can be read and run.

For each rule ``p :- l1, …, ln`` of a recursion, with r_del and r_ins for what goes from a relation and what comes to it:

    p_del :- l1, …, li_del, …, ln.               what may go: a derivation of it breaks
    p_new :- p, !p_del.   p_new :- p_red.   p_new :- p_ins.
    p_red :- p_del, l1_new, …, ln_new.           what goes only as long as no other derivation is found
    p_ins :- l1_new, …, li_ins, …, ln_new.       what may come: a derivation of it is new
    p_plus :- p_ins, !p.                         what comes
    p_minus :- p_del, !p_ins, !p_red.            what goes

Where a literal is negated, what comes to its relation makes a derivation break, and what goes makes one. Evaluated as it stands
it may touch far more than what changes in the end; the plans of ``rewrite.maintain`` look for another derivation before anything goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from viewkeeper.program.ast import Atom, Literal, Negation, Program, Relation, Rule, Variable, relation_read

_SUFFIXES = ("del", "ins", "new", "red", "plus", "minus")


def maintenance_rules(core: Program, members: Sequence[str]) -> Program:
    """The maintenance rules of the relations of one recursion; base relations are what it reads, and r_del and r_ins of those."""
    rules = [rule for rule in core.rules if rule.head.relation in members]
    below = list(
        dict.fromkeys(
            relation_read(x) for rule in rules for x in rule.body if relation_read(x) and relation_read(x) not in members
        )
    )
    found: list[Rule] = []
    for rule in rules:
        head = core.relation(rule.head.relation)
        changed = [(i, literal) for i, literal in enumerate(rule.body) if relation_read(literal)]
        found += [_rule(head, "del", rule, _breaks(rule.body, i)) for i, _ in changed]
        found.append(Rule(_atom(head, "new"), (_atom(head), Negation(_atom(head, "del")))))
        for name in below:
            if any(relation_read(x) == name for x in rule.body):
                base = core.relation(name)
                found.append(Rule(_atom(base, "new"), (_atom(base), Negation(_atom(base, "del")))))
        found.append(_rule(head, "red", rule, (Atom(f"{head.name}_del", rule.head.arguments), *map(_new, rule.body))))
        found.append(Rule(_atom(head, "new"), (_atom(head, "red"),)))
        found += [_rule(head, "ins", rule, _makes(rule.body, i)) for i, _ in changed]
        found.append(Rule(_atom(head, "new"), (_atom(head, "ins"),)))
        for name in below:
            if any(relation_read(x) == name for x in rule.body):
                base = core.relation(name)
                found.append(Rule(_atom(base, "new"), (_atom(base, "ins"),)))
        found.append(Rule(_atom(head, "plus"), (_atom(head, "ins"), Negation(_atom(head)))))
        found.append(
            Rule(_atom(head, "minus"), (_atom(head, "del"), Negation(_atom(head, "ins")), Negation(_atom(head, "red"))))
        )
    unique = tuple(dict.fromkeys(found))
    relations = [core.relation(name) for name in (*below, *members)]
    beside = [
        replace(r, name=f"{r.name}_{s}", key=())
        for r in relations
        for s in _SUFFIXES
        if r.name in members or s in ("del", "ins", "new")
    ]
    return Program(types=core.types, relations=(*relations, *beside), rules=unique)


def _rule(head: Relation, suffix: str, rule: Rule, body: Iterable[Literal]) -> Rule:
    return Rule(Atom(f"{head.name}_{suffix}", rule.head.arguments), tuple(body))


def _breaks(body: Sequence[Literal], place: int) -> Iterator[Literal]:
    """The old body with what broke at a place."""
    for i, literal in enumerate(body):
        yield _suffixed(literal, "del", "ins") if i == place else literal


def _makes(body: Sequence[Literal], place: int) -> Iterator[Literal]:
    """The new body with what came at a place."""
    for i, literal in enumerate(body):
        yield _suffixed(literal, "ins", "del") if i == place else _new(literal)


def _suffixed(literal: Literal, positive: str, negative: str) -> Literal:
    match literal:
        case Atom():
            return replace(literal, relation=f"{literal.relation}_{positive}")
        case Negation():
            return replace(literal.atom, relation=f"{literal.atom.relation}_{negative}")
    return literal


def _new(literal: Literal) -> Literal:
    match literal:
        case Atom():
            return replace(literal, relation=f"{literal.relation}_new")
        case Negation():
            return replace(literal, atom=replace(literal.atom, relation=f"{literal.atom.relation}_new"))
    return literal


def _atom(relation: Relation, suffix: str = "") -> Atom:
    name = f"{relation.name}_{suffix}" if suffix else relation.name
    return Atom(name, tuple(Variable(column.name) for column in relation.columns))
