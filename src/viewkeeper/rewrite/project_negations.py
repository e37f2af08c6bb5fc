"""Gives a negated relation of which not all columns matter a projection of its own.

    p(x) :- q(x), !r(x, _).        becomes

    p_known1(x) :- r(x, _).
    p(x) :- q(x), !p_known1(x).

What comes to r and goes from it changes p only where the first row with an x comes, or the last one goes.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.program.ast import (
    Atom,
    Column,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Variable,
    Wildcard,
)
from viewkeeper.program.grouping import grouping_of
from viewkeeper.rewrite.fresh import Names


def project_negations(program: Program) -> Program:
    names = Names(program.by_name)
    relations: list[Relation] = []
    rules: list[Rule] = []

    def projected(literal: Literal, head: str) -> Literal:
        if not isinstance(literal, Negation) or not any(isinstance(a, Wildcard) for a in literal.atom.arguments):
            return literal
        declared = program.relation(literal.atom.relation)
        places = [i for i, a in enumerate(literal.atom.arguments) if not isinstance(a, Wildcard)]
        columns = tuple(Column(f"column{i}", declared.columns[i].type) for i in places)
        table = Relation(names.fresh(f"{head}_known"), columns)
        relations.append(table)
        row = tuple(Variable(f"column{i}") if i in places else Wildcard() for i in range(declared.arity))
        rules.append(Rule(Atom(table.name, tuple(Variable(c.name) for c in columns)), (Atom(declared.name, row),)))
        return Negation(Atom(table.name, tuple(literal.atom.arguments[i] for i in places)))

    for rule in program.rules:
        body = tuple(projected(literal, rule.head.relation) for literal in rule.body)
        grouping = grouping_of(rule)
        if grouping is not None:
            body = grouping.over(tuple(projected(literal, rule.head.relation) for literal in grouping.body))
        rules.append(replace(rule, body=body))
    return replace(program, relations=(*program.relations, *relations), rules=tuple(rules))
