"""Asking for assignments that make bodies true, against the stored rows and those of external views, which are derived first.

A question about many rows is compiled once: the row it is about is a row of a relation of its own, which the body joins first. The
answers of a question come one by one, as they are asked for: some rows have thousands of proofs, and one is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from viewkeeper.engines.evaluator import evaluate
from viewkeeper.engines.sql import Compiler, Statement
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.program.ast import (
    Atom,
    Column,
    Constant,
    Literal,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    owner_of,
)
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.printing import print_constant
from viewkeeper.program.strata import Stratum, dependencies, reach, reads, stratify
from viewkeeper.program.types import Type
from viewkeeper.program.typing import Typer
from viewkeeper.program.values import Stored
from viewkeeper.rewrite.extract_aggregates import extract_aggregates
from viewkeeper.rewrite.hoist_ranges import hoist_ranges
from viewkeeper.rewrite.passes import run_passes
from viewkeeper.rewrite.split_deep_terms import split_deep_terms
from viewkeeper.state import State, Work
from viewkeeper.why.forms import Form, Row, constant, fact_rows, forms_of

# What is left to do with rules that are typed and have no alternatives.
PASSES = (hoist_ranges, extract_aggregates, split_deep_terms)


@dataclass(frozen=True)
class Question:
    """Compiled rules for an answer, and the relation that has the rows it can be asked about."""

    statements: tuple[Statement, ...]
    about: Relation | None
    rows: dict[tuple[Stored, ...], int]


class Asker:
    """Asks about the rows of a warehouse at one moment: those of one relation and of what it depends on."""

    def __init__(self, state: State, relation: str) -> None:
        self.state = state
        self.program = state.program.revealed
        self.relations = self.program.by_name
        self.hierarchy = Hierarchy.of(self.program.types)
        self.typer = Typer(dict(self.relations), self.hierarchy)
        self.views = self.program.derived
        self.external = state.program.external & reach(dependencies(self.program), {relation})
        self._numbers = count(1)
        self._forms: dict[str, list[Form]] = {}
        self._fetched: set[str] = set()
        self._open: list[Iterator[tuple[Stored, ...]]] = []
        self._numbered: dict[str, Question | None] = {}
        self._derive()

    def close(self) -> None:
        """Ends what is still being asked."""
        for answers in self._open:
            answers.close()  # type: ignore[attr-defined]  # they are generators

    # ---- what is defined

    def forms(self, relation: str) -> list[Form]:
        if relation not in self._forms:
            self._forms[relation] = forms_of(self.program, relation, self.typer)
        return self._forms[relation]

    @cached_property
    def facts(self) -> set[Row]:
        return fact_rows(self.program, self.typer)

    @cached_property
    def strata(self) -> dict[str, Stratum]:
        return {name: stratum for stratum in stratify(self.program) for name in stratum.relations}

    def atom(self, row: Row) -> Atom:
        types = self.relations[row.relation].types
        return Atom(row.relation, tuple(constant(v, t) for v, t in zip(row.values, types, strict=True)))

    def print_row(self, row: Row) -> str:
        arguments = self.atom(row).arguments
        return f"{row.relation}({', '.join(print_constant(a) for a in arguments if isinstance(a, Constant))})"

    # ---- questions

    def holds(self, row: Row) -> bool:
        """Is the row there? NULL is like any other value here."""
        from viewkeeper.program.ast import Test

        columns = self.relations[row.relation].columns
        variables = [Variable(f"v{i}") for i in range(len(columns))]
        arguments: list[Term] = []
        tests: list[Literal] = []
        for variable, value, column in zip(variables, row.values, columns, strict=True):
            arguments.append(variable if value is None else constant(value, column.type))
            if value is None:
                tests.append(Test("is_null", (variable,)))
        return next(self.solutions([], [], (Atom(row.relation, tuple(arguments)), *tests)), None) is not None

    def number(self, row: Row) -> int | None:
        """The row's number: rows that were stored later have higher ones. None if it has NULL, which cannot be searched for."""
        if None in row.values or not row.values:
            return None
        if row.relation not in self._numbered:
            relation = self.relations[row.relation]
            about = replace(relation, name=self.unused("row"))
            variables = tuple(Variable(f"v{i}") for i in range(relation.arity))
            body = (Atom(about.name, variables), Atom(relation.name, variables))
            self._numbered[row.relation] = self.question([], [], body, about)
        [found] = self.ask(self._numbered[row.relation], row.values, {row.relation})
        assert isinstance(found[0], int)
        return found[0]

    def solutions(
        self, terms: Sequence[Term], types: Sequence[Type], body: tuple[Literal, ...]
    ) -> Iterator[tuple[Stored, ...]]:
        """The values of the terms for every assignment that makes the body true."""
        return self.ask(self.question(terms, types, body))

    def question(
        self, terms: Sequence[Term], types: Sequence[Type], body: tuple[Literal, ...], about: Relation | None = None
    ) -> Question | None:
        """What the terms are where the body holds; None if it can only be asked about one row of ``about`` at a time."""
        name = self.unused("answer")
        answer = Relation(name, tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types)))
        known = (*self.program.relations, *([about] if about else []), answer)
        core = run_passes(Program(self.program.types, known, (), (Rule(Atom(name, tuple(terms)), body),)), PASSES)
        more = [rule for rule in core.rules if rule.head.relation != name]
        if about is not None and any(atom.relation == about.name for rule in more for atom, _ in reads(rule)):
            return None
        self._fetch(atom.relation for rule in core.rules for atom, _ in reads(rule))
        if about is not None:
            self.state.tables.prepare(Program(relations=(about,)))
        self._compute(core, more)
        rules = [rule for rule in core.rules if rule.head.relation == name]
        return Question(tuple(self._compile(rule, core, about) for rule in rules), about, {})

    def ask(
        self, question: Question | None, row: tuple[Stored, ...] | None = None, latest: Iterable[str] = ()
    ) -> Iterator[tuple[Stored, ...]]:
        assert question is not None
        number = None
        if question.about is not None:
            assert row is not None
            if row not in question.rows:
                self.state.tables.insert_into(question.about, [batch_of_rows([row], question.about)])
                question.rows[row] = len(question.rows) + 1
            number = question.rows[row]
        answers = (found for s in question.statements for found in self.state.tables.select(s, number, latest))
        self._open.append(answers)
        return answers

    def unused(self, stem: str) -> str:
        """A name for a relation. No rule of the program has one with a space."""
        return f"why {stem} {next(self._numbers)}"

    def _derive(self) -> None:
        """All rows of external views, before anything is asked: what is missing, negated or aggregated is not known from a part of them.

        Round by round new rows get higher numbers, so that those of a recursion are in order, as if they were stored.
        """
        if self.external:
            work = Work.of(self.state.program, self.external)
            self._fetch(work.inputs)
            self.state.tables.prepare(work.core)
            work.evaluate(self.state.tables)
            self._fetched |= work.core.by_name.keys()

    def _fetch(self, relations: Iterable[str]) -> None:
        """Brings rows that are kept as snapshots only to where they can be joined."""
        for name in set(relations) & self.relations.keys() - self._fetched:
            self._fetched.add(name)
            self.state.tables.prepare(Program(self.program.types, (self.relations[name],)))
            relation, kept = self.relations[name], self.state.kept
            if name not in kept and kept[owner_of(name)].place == "cold":
                work = Work.of(self.state.program, self.state.program.inner_of({owner_of(name)}))
                with self.state.separate_engine("embedded", work) as engine:
                    work.evaluate(engine)
                    self.state.tables.insert(name, engine.read(relation))
            elif name in kept and kept[name].place == "cold":
                self.state.tables.insert(name, self.state.rows(relation))

    def _compute(self, core: Program, rules: Sequence[Rule]) -> None:
        """The relations that stand for aggregates and deep terms."""
        if rules:
            used = {name for rule in rules for name in (rule.head.relation, *(atom.relation for atom, _ in reads(rule)))}
            part = replace(core, rules=tuple(rules), relations=tuple(r for r in core.relations if r.name in used))
            self.state.tables.prepare(part)
            evaluate(part, self.state.tables)

    def _compile(self, rule: Rule, core: Program, about: Relation | None) -> Statement:
        grouped = grouping_of(rule)
        body = rule.body if grouped is None else grouped.body
        first = next((i for i, x in enumerate(body) if about and isinstance(x, Atom) and x.relation == about.name), None)
        compiler = Compiler(core.by_name, self.hierarchy, self.state.tables.dialect)
        statement = compiler.rule(rule, first, self._sizes(body, about))
        for access in statement.accesses:
            if access.relation in self.external:  # stored views have indexes for their own maintenance
                self.state.tables.indexes.make(access, self.relations[access.relation])
        return statement

    def _sizes(self, body: tuple[Literal, ...], about: Relation | None) -> dict[str, int]:
        """How many rows there are to go through, if an atom is searched by what is bound: an index helps with the first columns only."""
        bound = {
            a.name
            for x in body
            if about and isinstance(x, Atom) and x.relation == about.name
            for a in x.arguments
            if isinstance(a, Variable)
        }
        sizes: dict[str, int] = {}
        for atom in (literal for literal in body if isinstance(literal, Atom)):
            rows = self._rows(atom.relation)
            leading = 0
            for argument in atom.arguments:
                if not (isinstance(argument, Constant) or isinstance(argument, Variable) and argument.name in bound):
                    break
                leading += 1
            size = int(rows ** (1 - leading / max(1, len(atom.arguments))))
            sizes[atom.relation] = min(size, sizes.get(atom.relation, size))
        return sizes

    def _rows(self, relation: str) -> int:
        if relation in self.external:
            return self.state.tables.count(relation)
        return self.state.kept[relation].rows if relation in self.state.kept else 1
