"""A rule that starts from few rows: without a statement if it only joins them, else with their values as parameters of one.

The atoms that a rule starts from are those of derived relations, and of what came or went in a stored one. Who evaluates a rule says
which rows each of them has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from operator import itemgetter
from typing import Any

from viewkeeper.engines.keep.changes import MANY, Row
from viewkeeper.engines.keep.derived import Derived
from viewkeeper.engines.keep.states import Changed, States
from viewkeeper.engines.sql import Statement
from viewkeeper.program.ast import Atom, Literal, Negation, Relation, Rule, Variable, Wildcard
from viewkeeper.program.plan import shown_columns

Rows = Sequence[Sequence[Row]]
"""Of each atom that a rule starts from."""


class OfRows:
    """The rule as a statement for one row of each atom that it starts from (``places`` in the body)."""

    def __init__(self, states: States, rule: Rule, places: Sequence[int]) -> None:
        self._states, self._rule = states, rule
        self._names: list[list[str]] = []
        body = list(rule.body)
        for number, place in enumerate(places):
            atom = body[place]
            assert isinstance(atom, Atom)
            what = atom.relation.partition("$")[2]
            relation = row_relation(states, atom.relation, f"row{number}_{what}")
            self._names.append([f"row{number}_{what}_{i}" for i in range(len(relation.columns))])
            body[place] = replace(atom, relation=relation.name)
        self._body, self._first = tuple(body), places[0]
        self._statements: dict[Changed, list[tuple[str, Any]]] = {}

    def find(self, rows: Rows, changed: Changed, of: str) -> list[Row] | None:
        """What the rows lead to; None if that is much."""
        statements = self._statements.get(changed)
        if statements is None:
            statements = self._statements[changed] = self._compile(changed)
        self._states.in_tables(changed)
        found, known = list[Row](), self._states.values if changed else {}
        for chosen in product(*rows):
            values = dict(known)
            for names, row in zip(self._names, chosen, strict=True):
                values.update(zip(names, row, strict=True))
            for sql, constants in statements:
                found += self._states.tables.fetch(sql, values | constants, of)
            if len(found) > MANY:
                return None
        return found

    def _compile(self, changed: Changed) -> list[tuple[str, Any]]:
        found = []
        for body, places in self._states.alternatives(self._body, changed):
            statement = self._states.tables.rule(Rule(self._rule.head, body), None, places[self._first])
            found.append((f"{statement.sql} LIMIT {MANY + 1}", dict(statement.parameters)))
        return found


class Aggregated(OfRows):
    """An aggregate of rows that nobody else reads, computed from what they are joined of instead of deriving them first.

    Each row has all variables of the rule that derives it (``rows``), so no row is derived twice, and none of two alternatives.
    """

    def __init__(self, states: States, rule: Rule, rows: Rule, place: int) -> None:
        super().__init__(states, rows, [place])
        self._over = rule

    def _compile(self, changed: Changed) -> list[tuple[str, Any]]:
        tables, terms, constants = self._states.tables, list[str](), dict[str, Any]()
        for number, (body, places) in enumerate(self._states.alternatives(self._body, changed)):
            term = prefixed(tables.rule(Rule(self._rule.head, body), None, places[self._first]), f"k{number}")
            terms.append(term[0])
            constants |= term[1]
        derived = tables.relations[self._rule.head.relation]
        named = ", ".join(f"c{i} AS {name}" for i, name in enumerate(tables.columns(derived)))
        over = tables.rule(self._over, None, None)
        sql = over.sql.replace(tables.table(derived), f"(SELECT {named} FROM ({' UNION ALL '.join(terms)}))")
        return [(f"{sql} LIMIT {MANY + 1}", constants | over.parameters)]


def prefixed(statement: Statement, prefix: str) -> tuple[str, dict[str, Any]]:
    """The statement with other names of its constants, to stand beside others."""
    sql = re.sub(r":(p\d+)\b", rf":{prefix}\1", statement.sql)
    return sql, {f"{prefix}{name}": value for name, value in statement.parameters.items()}


def row_relation(states: States, relation: str, what: str) -> Relation:
    """A relation of one row, whose values are parameters of a statement."""
    name = relation.partition("$")[0]
    tables = states.tables
    columns = tables.relations[relation].columns if relation in states.demands.levels else shown_columns(tables.relations[name])
    found = Relation(f"{name}${what}", columns)
    tables.relations[found.name] = found
    return found


class Joined:
    """A rule that has nothing but atoms it starts from, and negations of derived relations: its rows are joined in Python.

    NULL equals nothing, but in a negation that says so.
    """

    def __init__(self, rule: Rule, places: Sequence[int], derived: dict[str, Derived]) -> None:
        numbers: dict[str, int] = {}
        # Of each atom the columns that are variables, with their numbers, and whether they are met for the first time.
        self._atoms: list[list[tuple[int, int, bool]]] = []
        for place in places:
            atom = rule.body[place]
            assert isinstance(atom, Atom)
            columns = []
            for i, argument in enumerate(atom.arguments):
                if isinstance(argument, Variable):
                    new = argument.name not in numbers
                    columns.append((i, numbers.setdefault(argument.name, len(numbers)), new))
            self._atoms.append(columns)
        self._width = len(numbers)
        # The values of a single atom's variables are its row.
        self._is_row = len(places) == 1 and all(i == variable and new for i, variable, new in self._atoms[0])
        self._negations = [
            (_chosen([numbers[_name(a)] for a in literal.atom.arguments]), derived[literal.atom.relation], literal.same)
            for literal in rule.body
            if isinstance(literal, Negation)
        ]
        self._head = _chosen([numbers[_name(a)] for a in rule.head.arguments])

    def find(self, rows: Rows) -> list[Row]:
        if self._is_row:
            head, denied = self._head, self._is_denied
            return [head(row) for row in rows[0] if not denied(row)]
        found: list[Row] = []
        for chosen in product(*rows):
            values = self._values(chosen)
            if values is not None and not self._is_denied(values):
                found.append(self._head(values))
        return found

    def _values(self, rows: Sequence[Row]) -> list[Any] | None:
        """Those of all variables, if the rows agree in them."""
        values: list[Any] = [None] * self._width
        for columns, row in zip(self._atoms, rows, strict=True):
            for place, variable, new in columns:
                if new:
                    values[variable] = row[place]
                elif row[place] is None or row[place] != values[variable]:
                    return None
        return values

    def _is_denied(self, values: Sequence[Any]) -> bool:
        for chosen, derived, same in self._negations:
            row = chosen(values)
            if row in derived.known() and (same or None not in row):
                return True
        return False


def can_be_joined(rule: Rule, places: Sequence[int], derived: dict[str, Derived]) -> bool:
    """Is there nothing in a rule but variables, in these atoms and in negations of derived relations?"""
    head, body = rule.head, rule.body

    def is_plain(place: int, literal: Literal) -> bool:
        match literal:
            case Atom():
                return place in places and all(isinstance(a, (Variable, Wildcard)) for a in literal.arguments)
            case Negation():
                return literal.atom.relation in derived and all(isinstance(a, Variable) for a in literal.atom.arguments)
        return False

    return all(isinstance(a, Variable) for a in head.arguments) and all(is_plain(i, x) for i, x in enumerate(body))


def _name(term: Any) -> str:
    assert isinstance(term, Variable)
    return term.name


def _chosen(places: list[int]) -> Callable[[Sequence[Any]], Row]:
    if len(places) == 1:
        [place] = places
        return lambda values: (values[place],)
    return itemgetter(*places)
