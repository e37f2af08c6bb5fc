"""p(range(0, 3) + 1)  becomes  p(range1 + 1) :- range1 = range(0, 3).

Behind this pass ``range`` stands only as the right side of an equation with a variable.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Either,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Test,
    Variable,
    all_variables,
)
from viewkeeper.rewrite.fresh import Names


def hoist_ranges(program: Program) -> Program:
    return replace(program, rules=tuple(_rule(rule) for rule in program.rules))


def _rule(rule: Rule) -> Rule:
    names = Names(all_variables((rule.head, *rule.body)))
    body = _body(rule.body, names)
    hoisted: list[Literal] = []
    head = replace(rule.head, arguments=tuple(_term(a, names, hoisted) for a in rule.head.arguments))
    return replace(rule, head=head, body=(*body, *hoisted))


def _body(body: tuple[Literal, ...], names: Names) -> tuple[Literal, ...]:
    result: list[Literal] = []
    for literal in body:
        hoisted: list[Literal] = []
        changed = _literal(literal, names, hoisted)
        result += [*hoisted, changed]
    return tuple(result)


def _literal(literal: Literal, names: Names, hoisted: list[Literal]) -> Literal:
    match literal:
        case Comparison(operator="=", left=Variable(), right=Call(function="range") as call):
            return replace(literal, right=_arguments(call, names, hoisted))
        case Comparison(operator="=", left=Call(function="range") as call, right=Variable() as variable):
            return replace(literal, left=variable, right=_arguments(call, names, hoisted))
        case Comparison():
            return replace(literal, left=_term(literal.left, names, hoisted), right=_term(literal.right, names, hoisted))
        case Atom() | Test():
            return replace(literal, arguments=tuple(_term(a, names, hoisted) for a in literal.arguments))
        case Negation():
            arguments = tuple(_term(a, names, hoisted) for a in literal.atom.arguments)
            return replace(literal, atom=replace(literal.atom, arguments=arguments))
        case Either():
            return replace(literal, alternatives=tuple(_body(a, names) for a in literal.alternatives))
        case _:
            return literal


def _arguments(call: Call, names: Names, hoisted: list[Literal]) -> Call:
    return replace(call, arguments=tuple(_term(a, names, hoisted) for a in call.arguments))


def _term(term: Term, names: Names, hoisted: list[Literal]) -> Term:
    match term:
        case Call(function="range"):
            variable = Variable(names.fresh("range"))
            hoisted.append(Comparison("=", variable, _arguments(term, names, hoisted)))
            return variable
        case Call():
            return _arguments(term, names, hoisted)
        case Aggregate():
            inner: list[Literal] = []
            target = None if term.target is None else _term(term.target, names, inner)
            return replace(term, target=target, body=(*_body(term.body, names), *inner))
        case _:
            return term
