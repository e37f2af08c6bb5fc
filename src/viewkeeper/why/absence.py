"""Why a row is not there: for each rule that could give it, the first thing that is missing.

A rule's literals are taken in the order that binds best: what can be checked is checked, else the atom with the most values known is
next. The first one that nothing fits is told, with what fits the ones before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from viewkeeper.errors import EvaluationError, counted
from viewkeeper.program.ast import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Term,
    Truth,
    Variable,
    Wildcard,
    aggregates_in,
    all_variables,
    literal_terms,
    variables_of,
)
from viewkeeper.program.printing import print_body, print_constant, print_rule, print_term
from viewkeeper.program.safety import inner_variables, scope_variables
from viewkeeper.program.values import BadValue, store
from viewkeeper.program.windows import Windowing
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.terms import map_terms, name_wildcards, substitute
from viewkeeper.why.asking import Asker
from viewkeeper.why.forms import Form, Row, constant, plain
from viewkeeper.why.instances import Instances
from viewkeeper.why.outcome import Absence, Attempt
from viewkeeper.why.trees import value_of
from viewkeeper.why.wanted import Wanted, wanted_of

MOST_COUNTED = 1000
MOST_ABSENCES = 50


@dataclass
class Absences:
    asker: Asker

    def __post_init__(self) -> None:
        self.instances = Instances(self.asker)
        self.told: set[Row] = set()

    def of(self, row: Row) -> Absence:
        text = self.asker.print_row(row)
        if row.relation not in self.asker.views:
            return Absence(text, "base")
        if row in self.told:
            return Absence(text, "above")
        if len(self.told) == MOST_ABSENCES:
            return Absence(text, "unexplored")
        self.told.add(row)
        attempts = (self._attempt(form, row) for form in self.asker.forms(row.relation) if form.number)
        return Absence(text, "view", tuple(attempt for attempt in attempts if attempt is not None))

    def _attempt(self, form: Form, row: Row) -> Attempt | None:
        """None if the rule gives only other rows, whatever is there."""
        wanted = wanted_of(form, row, self.asker.relations[row.relation])
        if wanted is None:
            return None
        try:
            if form.grouped is not None:
                needs, reason = self._group(form, row, wanted)
                return Attempt(form.number, print_rule(form.rule), needs, reason)
            if form.windowing is not None:
                reason = self._window(form, row, form.windowing)
                return Attempt(form.number, print_rule(form.rule), print_body(plain(form.body)), reason)
            body = substitute((*form.body, *wanted.conditions), wanted.constants)
            missing = _Missing(self.asker, form, body)
            found = missing.row()
            below = self.of(found) if found is not None else None
            return Attempt(form.number, print_rule(form.rule), missing.text(body), missing.reason, below)
        except EvaluationError as error:
            return Attempt(form.number, print_rule(form.rule), print_body(form.rule.body), error.problems[0].message)

    def _group(self, form: Form, row: Row, wanted: Wanted) -> tuple[str, str]:
        assert form.grouped is not None
        known = {name: c for name, c in wanted.constants.items() if name not in form.grouped.results}
        needs = print_body(plain(substitute(form.body, known)))
        other = next(self.instances.groups(form, row, wanted), None)
        if other is None:
            return needs, "nothing fits the braces"
        return needs, f"that gives {self.asker.print_row(Row(row.relation, other[1]))}"

    def _window(self, form: Form, row: Row, windowing: Windowing) -> str:
        """What the rule gives for a row that has the same columns."""
        heads = list(zip(form.head.arguments, row.values, strict=True))
        wanted = {a.name: v for a, v in heads if isinstance(a, Variable) and a.name in windowing.columns}
        for step, head in self.instances.windows(form, row):
            if all(step.values[name] == value for name, value in wanted.items()):
                return f"that gives {self.asker.print_row(Row(row.relation, head))}"
        return "nothing that fits the braces is within the limit" if windowing.limits else "nothing fits the braces"


class _Missing:
    """The first literal that nothing fits, and what fits those before it."""

    def __init__(self, asker: Asker, form: Form, body: tuple[Literal, ...]) -> None:
        self.asker = asker
        self.user = set(all_variables((form.rule.head, *form.rule.body)))
        self.types = form.types
        self.body = body
        self.before, self.literal = self._find(best_order(body))
        self.solutions = list(islice(self._solutions(self.before), MOST_COUNTED + 1))
        self.reason = self._reason()

    def _find(self, ordered: Sequence[Literal]) -> tuple[tuple[Literal, ...], Literal | None]:
        for place, literal in enumerate(ordered, 1):
            if next(self._solutions(tuple(ordered[:place])), None) is None:
                return tuple(ordered[: place - 1]), literal
        return tuple(ordered), None

    def _solutions(self, body: tuple[Literal, ...]) -> Iterator[dict[str, Constant]]:
        visible = scope_variables(body)
        names = [name for name in all_variables(body) if name in visible]
        types = [self.types[name] for name in names]
        for found in self.asker.solutions([Variable(name) for name in names], types, body):
            yield {n: constant(v, t) for n, v, t in zip(names, found, types, strict=False)}

    # ---- what is told

    def _reason(self) -> str:
        if self.literal is None:
            return "all of that holds: the view is not what its rules give, see `viewkeeper verify`"
        [given] = substitute([self.literal], self.solutions[0])
        number = len(self.solutions)
        atoms = [literal for literal in self.before if isinstance(literal, Atom)]
        fitting = f"more than {MOST_COUNTED:,} rows fit" if number > MOST_COUNTED else f"{counted(number, 'row')} fit"
        fitting += "s" if number == 1 else ""
        fitting += f" {self.text(atoms)}"
        match self.literal:
            case Atom() if not atoms and not all_variables((self.literal,)):
                return "there is no such row" if len(self.body) == 1 else f"there is no {self.text([self.literal])}"
            case Atom() if not atoms:
                return f"nothing fits {self.text([self.literal])}"
            case Atom() if number == 1:
                return f"{fitting}, but nothing fits {self.text([given])}"
            case Atom():
                return f"{fitting}, none of them has {self.text([self.literal])}"
            case Truth():
                return "that is never true"
        why = self._contradiction(given)
        if not atoms:
            return why
        return f"{fitting}, but {why}" + (", and so on" if number > 1 else "")

    def _contradiction(self, literal: Literal) -> str:
        """What is true instead of a literal that is no atom."""
        if isinstance(literal, Negation):
            return self._forbidding(literal)
        values = {print_term(a): value_of(a, self.asker) for a in aggregates_in(literal)}
        told = [f"{text} is {print_constant(value) if value else 'nothing'}" for text, value in values.items()]
        return " and ".join(told) or f"{self.text([literal])} is not true"

    def _forbidding(self, negation: Negation) -> str:
        """The row that a negation does not allow."""
        [atom] = name_wildcards((negation.atom,), Names(()))
        assert isinstance(atom, Atom)
        relation = self.asker.relations[atom.relation]
        names = [a.name for a in atom.arguments if isinstance(a, Variable)]
        types = [c.type for a, c in zip(atom.arguments, relation.columns, strict=True) if isinstance(a, Variable)]
        found = next(self.asker.solutions([Variable(n) for n in names], types, (atom,)))
        row = {n: constant(v, t) for n, v, t in zip(names, found, types, strict=False)}
        return f"{print_body(plain(substitute([atom], row)))} is there"

    def text(self, body: Sequence[Literal]) -> str:
        """As the user would write it: ``_`` for what has no name there."""

        def term(t: Term) -> Term:
            return Wildcard() if isinstance(t, Variable) and t.name not in self.user and t.name.startswith("any") else t

        return print_body(tuple(map_terms(literal, term) if isinstance(literal, Atom) else literal for literal in plain(body)))

    def row(self) -> Row | None:
        """What is missing, if it is one row: nothing else could be inserted instead."""
        if not isinstance(self.literal, Atom) or len(self.solutions) > 1:
            return None
        [atom] = substitute([self.literal], self.solutions[0])
        assert isinstance(atom, Atom)
        columns = self.asker.relations[atom.relation].columns
        constants = [a for a in atom.arguments if isinstance(a, Constant) and a.value is not None]
        if len(constants) < len(columns):
            return None
        try:
            return Row(atom.relation, tuple(store(a.value, c.type) for a, c in zip(constants, columns, strict=True)))
        except BadValue:
            return None


def best_order(body: tuple[Literal, ...]) -> list[Literal]:
    """What can be checked first, then the atom with the most values known."""
    visible = scope_variables(body)
    left, ordered, bound = list(body), list[Literal](), set[str]()
    while left:
        ready = [literal for literal in left if _needs(literal, visible, bound) <= bound]
        assert ready, "the check lets no such rule through"
        chosen = max(ready, key=lambda literal: _merit(literal, bound))
        left = [literal for literal in left if literal is not chosen]
        ordered.append(chosen)
        bound |= scope_variables((chosen,))
    return ordered


def _needs(literal: Literal, visible: set[str], bound: set[str]) -> set[str]:
    """The variables that must be bound before the literal can be looked at."""
    inner = {name for aggregate in aggregates_in(literal) for name in inner_variables(aggregate) & visible}
    match literal:
        case Atom():
            terms = [a for a in literal.arguments if not isinstance(a, Variable)]
            return inner | {v.name for term in terms for v in variables_of(term)}
        case Comparison(operator="="):
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, Variable) and side.name not in bound | inner:
                    return inner | {v.name for v in variables_of(other)}
    return inner | scope_variables((literal,))


def _merit(literal: Literal, bound: set[str]) -> tuple[bool, bool, int]:
    known = [a for a in literal_terms(literal) if isinstance(a, Constant) or isinstance(a, Variable) and a.name in bound]
    return not isinstance(literal, Atom), not any(aggregates_in(literal)), len(known)
