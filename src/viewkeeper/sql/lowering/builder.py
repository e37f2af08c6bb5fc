"""The relations and rules that a view is lowered to, and names that nothing else has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Column,
    Comparison,
    Either,
    Literal,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
    aggregates_in,
    all_variables,
    literal_terms,
    subterms,
)
from viewkeeper.program.grouping import Grouping, equations, grouping_of
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.strata import reach, reads
from viewkeeper.program.types import Type
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.sql.lowering.evaluating import Constants
from viewkeeper.sql.lowering.restricting import restrict
from viewkeeper.sql.lowering.values import Lowered
from viewkeeper.sql.reading import Statement
from viewkeeper.sql.types import SqlType

BAG = "bag"
# Words that are no variables when a program is printed.
_WORDS = frozenset(
    [
        "count",
        "sum",
        "min",
        "max",
        "mean",
        "lor",
        "lxor",
        "land",
        "bor",
        "bxor",
        "band",
        "bshl",
        "bshr",
        "bshru",
        "bnot",
        "lnot",
        "true",
        "false",
        "null",
        "nil",
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "lag",
        "lead",
        "first_value",
        "last_value",
        "nth_value",
    ]
)
COPIES = "copies"


@dataclass(frozen=True)
class Table:
    """A relation as SQL sees it. ``columns`` are those one can name, ``types`` belong to them; ``copies``: it has one more.

    ``keys``: sets of columns (positions) in which no two rows agree.
    """

    relation: str
    columns: tuple[str, ...]
    types: tuple[SqlType, ...]
    nullable: tuple[bool, ...]
    copies: bool = False
    keys: tuple[tuple[int, ...], ...] = ()


@dataclass
class Builder:
    """Collects what the lowering of one view makes. ``careful``: what is constant is evaluated, and refused if it fails."""

    statement: Statement
    program: Program
    owner: str
    careful: bool = False
    inner: list[Relation] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.relations = dict(self.program.revealed.by_name)
        self._typer = Typer(self.relations, Hierarchy.of(self.program.types))
        self._numbers = count(1)
        self._variables: dict[str, int] = {}
        # Variables that stand for no column, such as the results of subqueries.
        self.computed: dict[str, Lowered] = {}
        self.constants = Constants(self)

    # ---- names

    def variable(self, stem: str) -> Variable:
        """A variable that no other has the name of."""
        stem = re.sub(r"\W", "_", stem) or "x"
        stem = f"x{stem}" if stem[0].isdigit() or stem == "_" else stem
        number = self._variables[stem] = self._variables.get(stem, stem in _WORDS) + 1
        return Variable(stem if number == 1 else f"{stem}?{number}")

    # ---- relations

    def relation(self, columns: Sequence[tuple[str, Type]], name: str | None = None) -> Relation:
        """A new relation; an inner one if it has no name."""
        found = Relation(name or f"{self.owner}?{next(self._numbers)}", columns_of(columns))
        if name is None:
            self.inner.append(found)
        self.relations[found.name] = found
        return found

    def derive(
        self, columns: Sequence[tuple[str, SqlType]], *bodies: tuple[Sequence[Term], Sequence[Literal]], name: str | None = None
    ) -> Relation:
        """A new relation with a rule for each body, whose head are the terms given with it; an inner one if it has no name."""
        types = [self._types(literals) for _, literals in bodies]
        declared = []
        for place, (column, type_) in enumerate(columns):
            nullable = any(may_be_null(terms[place], t) for (terms, _), t in zip(bodies, types, strict=True))
            declared.append((column, type_.kept.optional(nullable)))
        found = self.relation(declared, name)
        for terms, literals in bodies:
            self.rule(found, terms, literals)
        return found

    def rule(self, relation: Relation, terms: Sequence[Term], literals: Iterable[Literal]) -> None:
        self.rules.append(pruned(Rule(Atom(relation.name, tuple(terms)), tuple(literals))))

    def group(
        self,
        groups: Sequence[tuple[str, Variable]],
        results: Sequence[tuple[str, Aggregate, SqlType]],
        body: Sequence[Literal],
        name: str | None = None,
    ) -> Relation:
        """A new relation with aggregates over the body, for each value of the groups."""
        types = self._types(body)
        columns = [(column, types[variable.name]) for column, variable in groups]
        columns += [(column, type_.kept) for column, _, type_ in results]
        found = self.relation(columns, name)
        names = [self.variable(column).name for column, _, _ in results]
        head = Atom(found.name, (*(variable for _, variable in groups), *map(Variable, names)))
        aggregates = [replace(aggregate, body=tuple(body)) for _, aggregate, _ in results]
        self.rules.append(pruned(Rule(head, equations(names, aggregates))))
        return found

    def rename(self, inner: str, columns: Sequence[tuple[str, SqlType]], name: str | None) -> bool:
        """Makes an inner relation that nothing reads yet the one with a name, so that its rows are not kept twice."""
        readers = [rule for rule in self.rules if any(atom.relation == inner for atom, _ in reads(rule))]
        reading = any(rule.head.relation != inner or not _is_plain(rule) for rule in readers)
        found = next((r for r in self.inner if r.name == inner), None)
        if found is None or reading or BAG in found.qualifiers:
            return False
        names = columns_of([(column, old.type) for (column, _), old in zip(columns, found.columns, strict=True)])
        self.inner.remove(found)
        renamed = replace(found, name=name or inner, columns=names)
        if name is None:
            self.inner.append(renamed)
        self.relations.pop(inner)
        self.relations[renamed.name] = renamed
        self.rules = [_renamed(rule, inner, renamed.name) if rule.head.relation == inner else rule for rule in self.rules]
        return True

    def type_of(self, term: Term, literals: Sequence[Literal]) -> Type:
        probe = Variable("type of a term")
        return self._types((*literals, Comparison("=", probe, term)))[probe.name]

    def type_of_variable(self, name: str, literals: Sequence[Literal]) -> Type:
        return self._types(literals)[name]

    def forget_types(self) -> None:
        """Relations have been taken back."""
        self._typer = Typer(self.relations, Hierarchy.of(self.program.types))

    def _types(self, literals: Sequence[Literal]) -> dict[str, Type]:
        return self._typer.body_types(tuple(literals))

    def finish(self, relation: Relation) -> Program:
        """The program with the view and what it is computed by. What was lowered only to look at it is left out."""
        graph: dict[str, set[str]] = {}
        for rule in self.rules:
            graph.setdefault(rule.head.relation, set()).update(atom.relation for atom, _ in reads(rule))
        used = reach(graph, {relation.name})
        inner = [r for r in self.inner if r.name in used]
        rules = [rule for rule in self.rules if rule.head.relation in used]
        rules = restrict(rules, self.program.rules, [r.name for r in inner], self.relations, self.variable)
        rules = [pruned(rule) for rule in rules]
        return replace(
            self.program,
            relations=(*self.program.relations, relation),
            inner=(*self.program.inner, *inner),
            rules=(*self.program.rules, *rules),
        )


def columns_of(columns: Sequence[tuple[str, Type]]) -> tuple[Column, ...]:
    """Columns whose names can be told apart."""
    used: set[str] = set()
    found = []
    for name, type_ in columns:
        stem = re.sub(r"\W", "_", name).strip("_") or "column"
        stem = f"c{stem}" if stem[0].isdigit() else stem
        number = next(n for n in count(1) if (stem if n == 1 else f"{stem}{n}").lower() not in used)
        found.append(Column(stem if number == 1 else f"{stem}{number}", type_))
        used.add(found[-1].name.lower())
    return tuple(found)


def _is_plain(rule: Rule) -> bool:
    return not any(isinstance(literal, Either) or any(aggregates_in(literal)) for literal in rule.body)


def _renamed(rule: Rule, old: str, new: str) -> Rule:
    """The rule with another name for the relation it is about, which it may read."""
    body = (replace(x, relation=new) if isinstance(x, Atom) and x.relation == old else x for x in rule.body)
    return replace(rule, head=replace(rule.head, relation=new), body=tuple(body))


def pruned(rule: Rule) -> Rule:
    """The rule with ``_`` for variables that stand in one place only."""
    grouping = grouping_of(rule)
    if grouping is not None:
        targets = [Comparison("=", a.target, a.target) for a in grouping.aggregates if a.target is not None]
        body = _pruned(grouping.body, (rule.head, *targets))
        return replace(rule, body=Grouping(grouping.groups, grouping.results, grouping.aggregates).over(body))
    return replace(rule, body=_pruned(rule.body, (rule.head,)))


def _pruned(body: tuple[Literal, ...], others: Sequence[Literal]) -> tuple[Literal, ...]:
    uses: dict[str, int] = {}
    for literal in (*body, *others):
        for name in _occurrences(literal):
            uses[name] = uses.get(name, 0) + 1

    def visit(literal: Literal) -> Literal:
        if isinstance(literal, Atom):
            lone = (isinstance(a, Variable) and uses[a.name] == 1 for a in literal.arguments)
            arguments = tuple(Wildcard() if alone else a for a, alone in zip(literal.arguments, lone, strict=True))
            return replace(literal, arguments=arguments)
        return literal

    return tuple(map(visit, body))


def _occurrences(literal: Literal) -> Iterable[str]:
    terms = literal_terms(literal)
    if not terms:  # alternatives: every variable in them counts as needed
        for name in all_variables((literal,)):
            yield name
            yield name
    for term in terms:
        for part in subterms(term):
            if isinstance(part, Variable):
                yield part.name
            elif isinstance(part, Aggregate):
                for name in all_variables(part.body):
                    yield name
                    yield name
