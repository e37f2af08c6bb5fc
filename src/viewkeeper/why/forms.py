"""Rules in the shape that is asked about: one alternative each, typed, with a variable for every value that a premise has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

from viewkeeper.program.alternatives import rule_alternatives
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Constant,
    Either,
    Literal,
    Program,
    Rule,
    Term,
    Variable,
    aggregates_in,
    all_variables,
)
from viewkeeper.program.grouping import Grouping, grouping_of
from viewkeeper.program.safety import is_constant_fact, scope_variables
from viewkeeper.program.types import Type
from viewkeeper.program.typing import Typer
from viewkeeper.program.values import Stored, restore, store
from viewkeeper.program.windows import Windowing, windowing_of
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.hoist_ranges import hoist_ranges
from viewkeeper.rewrite.terms import map_terms, name_wildcards, substitute

_INTERNAL = ("rescale", "fit_digits")


class Row(NamedTuple):
    """A row of a relation, in stored form."""

    relation: str
    values: tuple[Stored, ...]


@dataclass(frozen=True, eq=False)
class Form:
    """An alternative of a user's rule. ``number`` counts the relation's rules; a fact such as ``p(1 + 1).`` has the number 0."""

    number: int
    rule: Rule
    head: Atom
    body: tuple[Literal, ...]
    types: dict[str, Type]
    grouped: Grouping | None
    windowing: Windowing | None = None

    @cached_property
    def variables(self) -> list[str]:
        """The variables that an assignment gives values: of a grouping rule the groups and the results."""
        if self.grouped is not None:
            return [*self.grouped.groups, *self.grouped.results]
        if self.windowing is not None:
            return [*self.windowing.columns, *self.windowing.results]
        visible = scope_variables((self.head, *self.body))
        return [name for name in all_variables((*self.body, self.head)) if name in visible]

    def constants(self, values: Mapping[str, Stored]) -> dict[str, Constant]:
        """An assignment as constants."""
        return {name: constant(value, self.types[name]) for name, value in values.items()}


def forms_of(program: Program, relation: str, typer: Typer) -> list[Form]:
    """The rules of a relation, and the facts that have to be computed."""
    rules = [rule for rule in program.rules if rule.head.relation == relation and not is_constant_fact(rule)]
    numbers = count(1)
    numbered = [(0 if _is_fact(rule) else next(numbers), rule) for rule in rules]
    return [_form(number, rule, alternative, typer) for number, rule in numbered for alternative in rule_alternatives(rule)]


def _is_fact(rule: Rule) -> bool:
    return not rule.body and not any(aggregates_in(rule.head))


def _form(number: int, rule: Rule, alternative: Rule, typer: Typer) -> Form:
    [typed] = hoist_ranges(Program(rules=(typer.rule(alternative)[0],))).rules
    grouped = grouping_of(typed)
    if grouped is None:
        names = Names(all_variables((typed.head, *typed.body)))
        typed = replace(typed, body=name_wildcards(typed.body, names))
    types = typer.rule(typed)[1]
    return Form(number, rule, typed.head, typed.body, types, grouped, windowing_of(typed))


def fact_rows(program: Program, typer: Typer) -> set[Row]:
    """What the program states outright."""
    return {fact_row(rule, program, typer) for rule in program.rules if is_constant_fact(rule)}


def fact_row(fact: Rule, program: Program, typer: Typer) -> Row:
    head = typer.rule(fact)[0].head
    columns = program.relation(head.relation).columns
    return Row(
        head.relation,
        tuple(store(a.value, c.type) for a, c in zip(head.arguments, columns, strict=True) if isinstance(a, Constant)),
    )


def unfolded(form: Form, members: AbstractSet[str], given: Mapping[str, Form]) -> tuple[Literal, ...]:
    """What makes all but one of the form's atoms of a recursion's members true at once: the bodies of rules that are given for them.

    Of r(x, z) :- r(x, y), r(y, z) and r(x, y) :- e(x, y) that is e(x, y).
    """
    atoms = [literal for literal in form.body if isinstance(literal, Atom) and literal.relation in members]
    if all(atom.relation in given for atom in atoms):
        atoms = atoms[:-1]
    names = Names(all_variables((form.head, *form.body)))
    found: list[Literal] = []
    for atom in (atom for atom in atoms if atom.relation in given):
        rule = given[atom.relation]
        terms: dict[str, Term] = {name: Variable(names.fresh("hint")) for name in rule.variables}
        heads = [a.name for a in rule.head.arguments if isinstance(a, Variable)]
        terms |= dict(zip(heads, atom.arguments, strict=False))
        found += substitute(rule.body, terms)
    return tuple(found)


def can_be_unfolded(form: Form) -> bool:
    """A rule whose head just has its variables, each once."""
    heads = {a.name for a in form.head.arguments if isinstance(a, Variable)}
    plain_head = len(heads) == len(form.head.arguments)
    return plain_head and form.grouped is None and not any(any(aggregates_in(x)) for x in form.body)


# ---- terms


def constant(value: Stored, type_: Type) -> Constant:
    """A stored value as a constant of a type's base."""
    return Constant(restore(value, type_), type_.base.optional(value is None))


def plain(literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """The literals as a user would write them: without the functions that only typing adds."""

    def term(t: Term) -> Term:
        match t:
            case Call() if t.function in _INTERNAL:
                return term(t.arguments[0])
            case Call():
                return replace(t, arguments=tuple(map(term, t.arguments)))
            case Aggregate():
                return replace(t, target=None if t.target is None else term(t.target), body=plain(t.body))
        return t

    def literal(x: Literal) -> Literal:
        if isinstance(x, Either):
            return replace(x, alternatives=tuple(plain(a) for a in x.alternatives))
        return map_terms(x, term)

    return tuple(map(literal, literals))
