"""Gives every grouping rule a relation with one column for each group variable and one for the result.

    p(x, n + 1) :- n = count : { r(x, _) }.            becomes

    p_group1(x, n) :- n = count : { r(x, _) }.
    p(x, n + 1) :- p_group1(x, n).

The body of min and max becomes a single atom, so that the next value can be found when the current one goes:

    p(x, m) :- m = max y + z : { r(x, y), s(y, z) }.   becomes

    p_value1(x, y + z) :- r(x, y), s(y, z).
    p(x, m) :- m = max target1 : { p_value1(x, target1) }.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viewkeeper.program.ast import (
    Atom,
    Column,
    Comparison,
    Literal,
    Program,
    Relation,
    Rule,
    Test,
    Variable,
    all_variables,
)
from viewkeeper.program.grouping import EXTREMES, Grouping, equations, grouping_of, single_source
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.rewrite.fresh import Names


def isolate_aggregates(program: Program) -> Program:
    isolation = _Isolation(program)
    rules = [new for rule in program.rules for new in isolation.rule(rule)]
    return replace(program, relations=(*program.relations, *isolation.relations), rules=tuple(rules))


@dataclass
class _Isolation:
    program: Program
    relations: list[Relation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.program.by_name)
        self.typer = Typer(dict(self.program.by_name), Hierarchy.of(self.program.types))
        heads = [rule.head.relation for rule in self.program.rules]
        self.alone = {name for name in heads if heads.count(name) == 1}

    def rule(self, rule: Rule) -> list[Rule]:
        grouping = grouping_of(rule)
        if grouping is None:
            return [rule]
        plain = tuple(map(Variable, [*grouping.groups, *grouping.results]))
        found = [rule]
        if rule.head.arguments != plain or rule.head.relation not in self.alone:
            types = self.typer.rule(rule)[1]
            columns = tuple(Column(v.name, types[v.name]) for v in plain)
            table = self._declare(f"{rule.head.relation}_group", columns)
            found = [Rule(Atom(table.name, plain), rule.body), Rule(rule.head, (Atom(table.name, plain),))]
        [first, *others] = grouping.aggregates
        if first.operation in EXTREMES and not others:  # with others it reads a single atom
            found[0:1] = self._values(found[0], grouping)
        return found

    def _values(self, rule: Rule, grouping: Grouping) -> list[Rule]:
        [aggregate] = grouping.aggregates
        if single_source(aggregate) is not None:
            return [rule]
        assert aggregate.target is not None
        names = Names(all_variables((rule.head, *rule.body)))
        target = Variable(names.fresh("target"))
        groups = [Variable(name) for name in grouping.groups]
        types = self.typer.body_types((*aggregate.body, Comparison("=", target, aggregate.target)))
        columns = [Column(v.name, types[v.name]) for v in groups] + [Column(target.name, types[target.name].optional(False))]
        body: tuple[Literal, ...] = aggregate.body
        if may_be_null(aggregate.target, self.typer.body_types(aggregate.body)):
            body = (*body, Test("is_null", (aggregate.target,), negated=True))
        table = self._declare(f"{rule.head.relation}_value", tuple(columns))
        one = Atom(table.name, (*groups, target))
        least = equations(grouping.results, [replace(aggregate, target=target, body=(one,))])
        return [Rule(Atom(table.name, (*groups, aggregate.target)), body), replace(rule, body=least)]

    def _declare(self, stem: str, columns: tuple[Column, ...]) -> Relation:
        table = Relation(self.names.fresh(stem), columns)
        self.relations.append(table)
        self.typer.relations[table.name] = table
        return table
