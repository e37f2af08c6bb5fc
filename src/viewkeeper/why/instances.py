"""The instances of a rule that give a row: assignments that make its body true and its head the row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from viewkeeper.errors import EvaluationError
from viewkeeper.program.ast import (
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Literal,
    Relation,
    Term,
    Test,
    Variable,
    Wildcard,
    aggregates_in,
    all_variables,
)
from viewkeeper.program.types import Type
from viewkeeper.program.values import Stored, store
from viewkeeper.rewrite.terms import substitute
from viewkeeper.why.asking import Asker, Question
from viewkeeper.why.forms import Form, Row
from viewkeeper.why.wanted import Wanted, wanted_of


@dataclass(frozen=True, eq=False)
class Step:
    """A rule instance: the values of its variables, and the rows that its atoms are."""

    form: Form
    values: dict[str, Stored]
    rows: dict[int, Row]
    """By the position of the atom in the form's body."""


class Instances:
    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self._questions: dict[tuple[int, tuple[str, ...], tuple[Literal, ...]], Question | None] = {}

    def of(
        self, form: Form, row: Row, latest: Iterable[str] = (), more: tuple[Literal, ...] = ()
    ) -> Iterator[tuple[int, Step]]:
        """Each with the highest number of a row of ``latest`` in it, lowest first; 0 where it is not known.

        ``more``: only those for which this holds, too.
        """
        wanted = wanted_of(form, row, self.asker.relations[row.relation])
        if wanted is None:
            return
        wanted = replace(wanted, conditions=(*wanted.conditions, *more))
        if form.grouped is not None:
            yield from self._groups(form, row, wanted)
            return
        if form.windowing is not None:
            yield from ((0, step) for step, head in self.windows(form, row) if head == row.values)
            return
        try:
            yield from self._quickly(form, row, wanted, latest)
        except EvaluationError:
            # In another order than when the view was computed, a function may fail where a relation excludes it.
            yield from ((0, step) for step in self._carefully(form, row, wanted))

    # ---- rules without groups

    def _quickly(self, form: Form, row: Row, wanted: Wanted, latest: Iterable[str]) -> Iterator[tuple[int, Step]]:
        recursive = self.asker.strata[row.relation].recursive
        if recursive or not any(any(aggregates_in(x)) for x in (form.head, *form.body)):
            question = self._question(form, wanted)
            if question is not None:
                skip = 1 if latest else 0
                for found in self.asker.ask(question, tuple(wanted.values.values()), latest):
                    rank = found[0] if latest else 0
                    assert isinstance(rank, int)
                    yield rank, self._step(form, found[skip:])
                return
        # An aggregate is computed for the row's values only.
        constants = wanted.constants
        body = substitute((*form.body, *wanted.conditions), constants)
        terms, types = self._terms(form)
        terms = [_term(term, constants) for term in terms]
        for found in self.asker.solutions(terms, types, body):
            yield 0, self._step(form, found)

    def _question(self, form: Form, wanted: Wanted) -> Question | None:
        values = wanted.values
        key = (id(form), tuple(values), wanted.conditions)
        if key not in self._questions:
            columns = tuple(Column(name, wanted.types[name].optional(False)) for name in values)
            about = Relation(self.asker.unused("row"), columns) if columns else None
            atom = () if about is None else (Atom(about.name, tuple(map(Variable, values))),)
            terms, column_types = self._terms(form)
            self._questions[key] = self.asker.question(terms, column_types, (*atom, *form.body, *wanted.conditions), about)
        return self._questions[key]

    def _terms(self, form: Form) -> tuple[list[Term], list[Type]]:
        """What is to be known of an instance: its variables, and the values of terms in its atoms."""
        terms: list[Term] = [Variable(name) for name in form.variables]
        types = [form.types[name] for name in form.variables]
        for position, place in _computed(form):
            atom = form.body[position]
            assert isinstance(atom, Atom)
            terms.append(atom.arguments[place])
            types.append(self.asker.relations[atom.relation].columns[place].type)
        return terms, types

    def _step(self, form: Form, found: Sequence[Stored]) -> Step:
        values = dict(zip(form.variables, found, strict=False))
        computed = dict(zip(_computed(form), found[len(form.variables) :], strict=False))
        rows: dict[int, Row] = {}
        for position, literal in enumerate(form.body):
            if isinstance(literal, Atom):
                types = self.asker.relations[literal.relation].types
                rows[position] = Row(
                    literal.relation,
                    tuple(
                        values[a.name]
                        if isinstance(a, Variable)
                        else store(a.value, types[place])
                        if isinstance(a, Constant)
                        else computed[position, place]
                        for place, a in enumerate(literal.arguments)
                    ),
                )
        return Step(form, values, rows)

    # ---- where a function fails

    def _carefully(self, form: Form, row: Row, wanted: Wanted) -> Iterator[Step]:
        """The atoms first, and for each of their assignments the rest. A failure for one of them is no instance."""
        constants = wanted.constants
        plain = [
            replace(
                x,
                arguments=tuple(
                    Wildcard() if isinstance(a, Call) or any(aggregates_in(Test("", (a,)))) else a for a in x.arguments
                ),
            )
            for x in form.body
            if isinstance(x, Atom)
        ]
        atoms = substitute(plain, constants)
        names = list(all_variables(atoms))
        for found in self.asker.solutions([Variable(n) for n in names], [form.types[n] for n in names], atoms):
            known = {**constants, **form.constants(dict(zip(names, found, strict=False)))}
            rest = [
                x
                for x in form.body
                if not isinstance(x, Atom) or any(not isinstance(a, (Variable, Constant)) for a in x.arguments)
            ]
            terms, types = self._terms(form)
            try:
                body = substitute((*rest, *wanted.conditions), known)
                for values in self.asker.solutions([_term(t, known) for t in terms], types, body):
                    yield self._step(form, values)
            except EvaluationError:
                continue

    # ---- rules with windows

    def windows(self, form: Form, row: Row) -> Iterator[tuple[Step, tuple[Stored, ...]]]:
        """All rows that the rule gives, with what gives them."""
        assert form.windowing is not None
        columns = self.asker.relations[row.relation].columns
        terms = [*map(Variable, form.variables), *form.head.arguments]
        types = [*(form.types[name] for name in form.variables), *(column.type for column in columns)]
        width = len(form.variables)
        for found in self.asker.solutions(terms, types, form.body):
            values = dict(zip(form.variables, found, strict=False))
            read = Row(form.windowing.source.relation, tuple(values[name] for name in form.windowing.columns))
            yield Step(form, values, {0: read}), tuple(found[width : width + len(columns)])

    # ---- rules that group

    def _groups(self, form: Form, row: Row, wanted: Wanted) -> Iterator[tuple[int, Step]]:
        for values, head in self.groups(form, row, wanted):
            if head == row.values:
                yield 0, Step(form, values, {})

    def groups(self, form: Form, row: Row, wanted: Wanted) -> Iterator[tuple[dict[str, Stored], tuple[Stored, ...]]]:
        """The groups that have the row's values: the values of their variables, and their row."""
        grouped = form.grouped
        assert grouped is not None
        equations = [Comparison("=", Variable(name), c) for name, c in wanted.constants.items() if name not in grouped.results]
        conditions = [one for one in wanted.conditions if {*all_variables((one,))}.isdisjoint(grouped.results)]
        body = grouped.over((*grouped.body, *equations, *conditions))
        columns = self.asker.relations[row.relation].columns
        terms = [*map(Variable, form.variables), *form.head.arguments]
        types = [*(form.types[name] for name in form.variables), *(column.type for column in columns)]
        width = len(form.variables)
        for found in self.asker.solutions(terms, types, body):
            yield dict(zip(form.variables, found, strict=False)), tuple(found[width : width + len(columns)])


def first(instances: Iterator[tuple[int, Step]]) -> Step | None:
    return next((step for _, step in islice(instances, 1)), None)


def _computed(form: Form) -> list[tuple[int, int]]:
    """Arguments of atoms that are neither variables nor constants, by positions."""
    return [
        (position, place)
        for position, literal in enumerate(form.body)
        if isinstance(literal, Atom)
        for place, argument in enumerate(literal.arguments)
        if not isinstance(argument, (Variable, Constant))
    ]


def _term(term: Term, constants: Mapping[str, Constant]) -> Term:
    [changed] = substitute([Test("is_null", (term,))], constants)
    assert isinstance(changed, Test)
    return changed.arguments[0]
