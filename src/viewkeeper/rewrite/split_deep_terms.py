"""Computes terms that are too deep for an engine in steps.

    p(f(g(x)), y) :- q(x, y).

becomes, if f(g(x)) is too deep,

    p_step1(y, g(x)) :- q(x, y).
    p(f(step1), y) :- p_step1(y, step1).

Engines make one expression of a term, with the terms of the variables that equations bind in their places, and only so deep ones
are possible. Behind this pass no term weighs more than MOST.

What can fail and stands where it is not always evaluated, such as 1 / x in sql_if(c, 1 / x, 0), is computed in a step only where it
would be: there the step is sql_if(c, 1 / x, null). Conditions come first, so that they are variables then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from viewkeeper.program.ast import (
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Literal,
    Program,
    Relation,
    Rule,
    Term,
    Truth,
    Variable,
    all_variables,
    literal_terms,
    subterms,
    variables_of,
)
from viewkeeper.program.functions import FUNCTIONS, can_fail
from viewkeeper.program.grouping import Grouping, equations, grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.types import BOOL, Kind, Type
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.program.windows import windowing_of
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.terms import map_terms, name_wildcards

MOST = 80
# SQLite's parser has a stack of 100; + - * take up to four of it. Others take more, and some are written several times in SQL.
_LIGHT = frozenset({"+", "-", "*", "neg", "band", "bor", "bshr", "land", "lor", "lxor", "lnot"})
_LIGHT_WEIGHT, _HEAVY_WEIGHT = 4, 16
_ARITHMETIC = frozenset({"+", "-", "*", "neg", "rescale"})
# SQL's functions write each argument once: as an operand, in a CASE or in a call. A check of arithmetic in them takes a call more.
_OPERANDS = frozenset(f"sql_{name}" for name in ("not", "eq", "ne", "lt", "le", "gt", "ge", "same", "null"))
_GIVE_DECIMALS = frozenset(f"sql_{name}" for name in ("decimal", "text_to_decimal", "divide", "multiply", "average", "round"))
_OPERAND_WEIGHT, _CALL_WEIGHT, _CASE_WEIGHT, _CHECK_WEIGHT = 3, 5, 6, 5


def split_deep_terms(program: Program) -> Program:
    splitting = _Splitting(program)
    rules = tuple(core for rule in program.rules for core in splitting.rule(rule))
    return replace(program, relations=(*program.relations, *splitting.relations), rules=rules)


@dataclass
class _Splitting:
    program: Program
    relations: list[Relation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = Names(self.program.by_name)
        self.typer = Typer(dict(self.program.by_name), Hierarchy.of(self.program.types))

    def rule(self, rule: Rule) -> list[Rule]:
        grouping = grouping_of(rule)
        if grouping is not None:
            return self._grouping(rule, grouping)
        if windowing_of(rule) is not None:
            return [rule]
        if not any(isinstance(term, Call) for literal in (rule.head, *rule.body) for term in literal_terms(literal)):
            return [rule]
        weights = _Weights(rule.body, self.typer.rule(rule)[1])
        if not any(weights.is_heavy(literal) for literal in (rule.head, *rule.body)):
            return [rule]
        return self._split(rule, weights)

    def _split(self, rule: Rule, weights: _Weights) -> list[Rule]:
        """What is light, with the light parts of what is heavy, as a relation; what is heavy on top of it."""
        safe = tuple(literal for literal in rule.body if not weights.is_heavy(literal)) or (Truth(True),)
        types = self.typer.body_types(safe)
        names = Names(all_variables((rule.head, *rule.body)))
        cut = _Cut(weights, names, lambda term: self._type(term, safe, types))
        rest = tuple(map_terms(literal, cut.top) for literal in rule.body if weights.is_heavy(literal))
        # What can fail in the head must not be computed for rows that the rest excludes.
        head = map_terms(rule.head, lambda term: term if rest and can_fail(term) else cut.top(term))
        assert isinstance(head, Atom)
        later = all_variables((head, *rest))
        kept = [name for name in all_variables(safe) if name in later]
        columns = [Column(name, self._column_type(name, types, rule.head)) for name in kept]
        columns += [Column(variable.name, self._type(term, safe, types)) for term, variable in cut.steps.items()]
        step = self._declare(f"{rule.head.relation}_step", columns)
        first = Rule(Atom(step.name, (*map(Variable, kept), *cut.steps)), safe)
        return [first, *self.rule(Rule(head, (Atom(step.name, tuple(Variable(c.name) for c in columns)), *rest), rule.span))]

    def _grouping(self, rule: Rule, grouping: Grouping) -> list[Rule]:
        """An aggregate over something heavy is one over a relation with all its variables and the value of its target."""
        weights = _Weights(grouping.body, self.typer.body_types(grouping.body))
        targets = list(dict.fromkeys(a.target for a in grouping.aggregates if a.target is not None))
        if not any(map(weights.is_heavy, grouping.body)) and all(weights.of(term) <= MOST for term in targets):
            return [rule]
        names = Names(all_variables((rule.head, *rule.body)))
        body = name_wildcards(grouping.body, names)
        types = self.typer.body_types(body)
        values = {target: Variable(names.fresh("value")) for target in targets}
        columns = [Column(name, types[name]) for name in all_variables(body)]
        columns += [Column(value.name, self._type(target, body, types)) for target, value in values.items()]
        over = self._declare(f"{rule.head.relation}_over", columns)
        variables = tuple(Variable(name) for name in all_variables(body))
        row = Atom(over.name, tuple(Variable(c.name) for c in columns))
        flat = [replace(a, target=None if a.target is None else values[a.target], body=(row,)) for a in grouping.aggregates]
        step = Rule(Atom(over.name, (*variables, *targets)), body)
        return [*self.rule(step), replace(rule, body=equations(grouping.results, flat))]

    def _column_type(self, name: str, types: dict[str, Type], head: Atom) -> Type:
        """A computed value fits every subtype of its base; as a column it must say which one the head needs."""
        if types[name].name is None:
            columns = self.typer.relations[head.relation].columns
            for argument, column in zip(head.arguments, columns, strict=True):
                if argument == Variable(name):
                    return column.type.optional(types[name].nullable)
        return types[name]

    def _type(self, term: Term, body: tuple[Literal, ...], types: dict[str, Type]) -> Type:
        probe = Comparison("=", Variable("value of the term"), term)
        found = self.typer.body_types((*body, probe))["value of the term"]
        return found.optional(may_be_null(term, types))

    def _declare(self, stem: str, columns: list[Column]) -> Relation:
        relation = Relation(self.names.fresh(stem), tuple(columns))
        self.relations.append(relation)
        self.typer.relations[relation.name] = relation
        return relation


class _Weights:
    """The weights of terms over the variables of a body."""

    def __init__(self, body: Sequence[Literal], types: dict[str, Type]) -> None:
        self._types = types
        self._variables: dict[str, int] = {}
        for literal in body:
            if isinstance(literal, Atom):
                self._variables |= {a.name: 0 for a in literal.arguments if isinstance(a, Variable)}
        equations = [x for x in body if isinstance(x, Comparison) and x.operator == "="]
        while found := [weight for equation in equations for weight in self._bound_by(equation)]:
            weight, name = min(found)
            self._variables[name] = weight

    def _bound_by(self, equation: Comparison) -> Sequence[tuple[int, str]]:
        sides = ((equation.left, equation.right), (equation.right, equation.left))
        return [
            (self._of_equation(other), side.name)
            for side, other in sides
            if isinstance(side, Variable)
            and side.name not in self._variables
            and all(v.name in self._variables for v in variables_of(other))
        ]

    def _of_equation(self, term: Term) -> int:
        weight = self.of(term)
        is_range = isinstance(term, Call) and term.function == "range"
        return 0 if is_range and weight <= MOST else weight  # the numbers of a range come from a table

    def of(self, term: Term) -> int:
        match term:
            case Variable():
                return self._variables[term.name]
            case Call():
                return self._own(term) + max(map(self.of, term.arguments))
        return 0

    def _own(self, call: Call) -> int:
        if call.function.startswith("sql_") or call.function == "coalesce":
            checked = any(isinstance(a, Call) and a.function in _ARITHMETIC for a in call.arguments)
            return _sql_weight(call.function, call.arguments) + (_CHECK_WEIGHT if checked else 0)
        light = call.function in _LIGHT and not any(map(self._is_checked, subterms(call)))
        return _LIGHT_WEIGHT if light else _HEAVY_WEIGHT

    def _is_checked(self, leaf: Term) -> bool:
        """Arithmetic of decimals and unsigned numbers is checked at every step, which makes it longer."""
        if isinstance(leaf, Call):
            return leaf.function in _GIVE_DECIMALS
        type_ = self._types.get(leaf.name) if isinstance(leaf, Variable) else leaf.type if isinstance(leaf, Constant) else None
        return type_ is not None and type_.kind in (Kind.DECIMAL, Kind.UNSIGNED)

    def is_heavy(self, literal: Literal) -> bool:
        return any(self.of(term) > MOST for term in literal_terms(literal))


def _sql_weight(function: str, arguments: Sequence[Term]) -> int:
    if function in _OPERANDS:
        return _OPERAND_WEIGHT
    if function in ("sql_and", "sql_or"):
        # Where something can fail it is in a CASE, which is in the CASE of the next.
        failing = any(map(can_fail, arguments[1:]))
        return 2 * _CASE_WEIGHT + _CALL_WEIGHT * (len(arguments) - 2) if failing else _OPERAND_WEIGHT
    return _CASE_WEIGHT if function == "sql_if" else _CALL_WEIGHT


@dataclass
class _Cut:
    """Cuts the light parts out of heavy terms; ``steps`` has them with the variables for their values."""

    weights: _Weights
    names: Names
    type_of: Callable[[Term], Type]
    steps: dict[Term, Variable] = field(default_factory=dict)

    def top(self, term: Term) -> Term:
        return self._inside(term, ()) if self.weights.of(term) > MOST else term

    def _inside(self, term: Term, when: tuple[Term, ...]) -> Term:
        """The term without its light parts; ``when`` are the conditions under which it is evaluated."""
        if not isinstance(term, Call):
            return term
        when = when if can_fail(term) else ()
        most = MOST - _CASE_WEIGHT if when else MOST
        # An operand brought to the scale of the other may have more digits than a column holds.
        if self.weights.of(term) > most or term.function == "rescale":
            return replace(term, arguments=tuple(self._argument(term, place, when) for place in range(len(term.arguments))))
        return self.steps.setdefault(self._where(when, term), Variable(self.names.fresh("step")))

    def _argument(self, call: Call, place: int, when: tuple[Term, ...]) -> Term:
        argument = call.arguments[place]
        sure = FUNCTIONS[call.function].sure
        if sure == -1 or place < sure or not can_fail(argument):
            return self._inside(argument, when)
        if not all(isinstance(a, (Variable, Constant)) and self.weights.of(a) == 0 for a in _deciding(call, place)):
            return argument  # in a later step, when it is known where it is needed
        return self._inside(argument, (*when, _needed(call, place)))

    def _where(self, when: tuple[Term, ...], term: Term) -> Term:
        if not when:
            return term
        condition = when[0] if len(when) == 1 else Call("sql_and", when)
        return Call("sql_if", (condition, term, Constant(None, self.type_of(term).base.optional())))


def _deciding(call: Call, place: int) -> Sequence[Term]:
    """The arguments that decide whether another one is evaluated."""
    if call.function != "sql_if":
        return call.arguments[:place]
    return call.arguments[: min(place, len(call.arguments) - 1) : 2]


def _needed(call: Call, place: int) -> Term:
    """Is an argument evaluated, given the values of those that decide that?"""
    deciding = tuple(_deciding(call, place))
    yes, no = Constant(True, BOOL), Constant(False, BOOL)
    match call.function:
        case "coalesce":
            missing = tuple(Call("sql_null", (a,)) for a in deciding)
            return missing[0] if len(missing) == 1 else Call("sql_and", missing)
        case "sql_and":
            # not decided: none of those before is false
            return Call("sql_if", (*_each(tuple(Call("sql_eq", (a, no)) for a in deciding), no), yes))
        case "sql_or":
            return Call("sql_if", (*_each(deciding, no), yes))
    met = place % 2 == 1 and place < len(call.arguments) - 1
    unmet = deciding[:-1] if met else deciding
    last = (deciding[-1], yes, no) if met else (yes,)
    return Call("sql_if", (*_each(unmet, no), *last))


def _each(conditions: Sequence[Term], value: Term) -> Iterator[Term]:
    for condition in conditions:
        yield condition
        yield value
