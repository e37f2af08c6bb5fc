"""Gives every rule with windows a relation of its own, whose columns say of each row in which partition it is.

    p(x, r + 1) :- r = rank : { s(g, x) } over (g; x).         becomes

    p_window1(g, x, r) :- r = rank : { s(g, x) } over (g; x).
    p(x, r + 1) :- p_window1(g, x, r).

The first rows of partitions have all columns of what they are the first rows of, so that it can be seen what comes behind them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from viewkeeper.program.ast import Atom, Column, Program, Relation, Rule, Variable, all_variables
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.types import Type
from viewkeeper.program.typing import Typer
from viewkeeper.program.windows import Windowing, windowing_of
from viewkeeper.rewrite.fresh import Names


def isolate_windows(program: Program) -> Program:
    names = Names(program.by_name)
    typer = Typer(program.by_name, Hierarchy.of(program.types))
    heads = Counter(rule.head.relation for rule in program.rules)
    relations: list[Relation] = []
    rules: list[Rule] = []
    for rule in program.rules:
        windowing = windowing_of(rule)
        if windowing is None or heads[rule.head.relation] == 1 and _is_plain(rule, windowing):
            rules.append(rule)
            continue
        types = typer.rule(rule)[1]
        kept = [name for name in (*windowing.columns, *windowing.results) if name in _needed(rule, windowing)]
        columns = tuple(Column(name, _type(name, types, rule, program)) for name in kept)
        table = Relation(names.fresh(f"{rule.head.relation}_window"), columns)
        relations.append(table)
        row = Atom(table.name, tuple(map(Variable, kept)))
        rules += [Rule(row, rule.body), replace(rule, body=(row,))]
    return replace(program, relations=(*program.relations, *relations), rules=tuple(rules))


def _needed(rule: Rule, windowing: Windowing) -> set[str]:
    every = {*windowing.columns, *windowing.results} if windowing.is_top else set()
    return {*windowing.partition, *all_variables((rule.head,))} | every or {windowing.results[0]}


def _is_plain(rule: Rule, windowing: Windowing) -> bool:
    names = [a.name for a in rule.head.arguments if isinstance(a, Variable)]
    distinct = len(set(names)) == len(names) == len(rule.head.arguments) > 0
    return distinct and _needed(rule, windowing) <= set(names)


def _type(name: str, types: dict[str, Type], rule: Rule, program: Program) -> Type:
    """A computed value fits every subtype of its base; as a column it must say which one the head needs."""
    if types[name].name is None:
        for argument, column in zip(rule.head.arguments, program.relation(rule.head.relation).columns, strict=True):
            if argument == Variable(name):
                return replace(types[name], name=column.type.name)
    return types[name]
