"""A rule that starts from changed rows, as a statement for one of them; or without one, if it only chooses among their values."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from viewkeeper.engines.keep.changes import Row, Signed
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import (
    Atom,
    Column,
    Comparison,
    Constant,
    Rule,
    Term,
    Variable,
    Wildcard,
    all_variables,
    variables_of,
)
from viewkeeper.program.plan import beside
from viewkeeper.program.types import Kind, Type


class ByRow:
    """A rule that starts from changed rows, as a statement for one of them, or one for each literal that reads a change."""

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self._tables = tables
        changed = [literal for literal in rule.body if isinstance(literal, Atom) and literal.relation.endswith("$change")]
        self._read = [atom.relation.removesuffix("$change") for atom in changed]
        atoms: list[Atom] = []
        self._names: list[Sequence[str]] = []
        for number, atom in enumerate(changed):
            relation = replace(beside(tables.relations[self._read[number]], "change"), name=f"{self._read[number]}$row{number}")
            tables.relations[relation.name] = relation
            atoms.append(replace(atom, relation=relation.name))
            self._names.append([f"row{number}_{i}" for i in range(relation.arity)])
        select = tables.select(replace(rule, body=(*atoms, *rule.body[len(changed) :])), shown=False)
        self._sql, self._constants = select.sql, select.parameters
        self._alone = len(changed) == 1 and bool(changed[0].arguments)
        columns = tables.relations[changed[0].relation].columns
        self._chosen = _chosen(rule, columns) if self._alone else None
        self._copied, self._used = _copied(rule) if self._alone else ([], [])
        # So many columns of the changed row say what it leads to, but for the sign.
        self._width = 1 + max((i for i in _read(changed[0]) if i < len(columns) - 2), default=-1)
        if any(columns[i].type.kind is Kind.FLOAT for i in self._used):
            self._copied = []  # 0.0 and -0.0 are equal, but not in all they lead to

    def executions(self) -> int:
        changes = self._tables.changes
        return changes[self._read[0]].number if len(self._read) == 1 else prod(changes[name].number for name in self._read)

    def is_told(self, found: list[Row]) -> bool:
        """Is everything told that the rule does, or added, without asking SQLite?"""
        if not self._alone:
            return False
        changes = self._tables.changes[self._read[0]]
        if changes.paired and changes.paired >= self._width:
            return True  # the row that goes and the one that comes lead to the same
        if self._chosen is None or not changes.at_hand:
            return False
        self._chosen.add(changes.rows(), found)
        return True

    def add_results(self, of: str, found: list[Row], limit: int) -> bool:
        """Adds what each execution gives, for a relation; False if that is more than a limit."""
        changes = [self._tables.changes[name].rows() for name in self._read]
        known: dict[Row, list[Row]] = {}
        sql, start = f"{self._sql} LIMIT {limit + 1}", len(found)
        for rows in product(*changes):
            values = (*rows[0][0], rows[0][1], -rows[0][1])
            used = tuple([values[i] for i in self._used])
            more = known.get(used) if self._copied else None
            if more is None:
                parameters = dict(self._constants)
                for names, (row, sign) in zip(self._names, rows, strict=True):
                    parameters.update(zip(names, (*row, sign, -sign), strict=True))
                more = known[used] = self._tables.fetch(sql, parameters, of)
            elif more:
                more = [self._with(row, values) for row in more]
            found += more
            if len(found) - start > limit:
                return False
        return True

    def _with(self, row: Row, values: Row) -> Row:
        """What another row leads to that differs only in values that are copied."""
        other = list(row)
        for place, i in self._copied:
            other[place] = values[i]
        return tuple(other)


def _copied(rule: Rule) -> tuple[list[tuple[int, int]], list[int]]:
    """Places of the head that only copy a value of the changed row, with the place there, and the values that are used otherwise.

    A group whose values change is a row that goes and one that comes: what they are joined with is the same.
    """
    literal = rule.body[0]
    assert isinstance(literal, Atom)
    places = {term.name: i for i, term in enumerate(literal.arguments) if isinstance(term, Variable)}
    computed = [variable for term in rule.head.arguments if not isinstance(term, Variable) for variable in variables_of(term)]
    elsewhere = {*all_variables(rule.body[1:]), *(variable.name for variable in computed)}
    twice = Counter(term.name for term in literal.arguments if isinstance(term, Variable))
    copied = {name for name in places if name not in elsewhere and twice[name] == 1}
    heads = [(place, term.name) for place, term in enumerate(rule.head.arguments) if isinstance(term, Variable)]
    used = [
        i
        for i, term in enumerate(literal.arguments)
        if not isinstance(term, Wildcard) and not (isinstance(term, Variable) and term.name in copied)
    ]
    return [(place, places[name]) for place, name in heads if name in copied], used


@dataclass(frozen=True)
class _Choice:
    """Which values of a changed row a rule's head has, and how some of them must compare; ``constants`` stand behind the row's values."""

    places: tuple[int, ...]
    constants: Row
    tests: tuple[tuple[Callable[[Any, Any], bool], int, int], ...]

    def add(self, rows: Iterable[Signed], found: list[Row]) -> None:
        """Adds what the rule tells of each row."""
        places, constants, tests = self.places, self.constants, self.tests
        for row, sign in rows:
            values = (*row, sign, -sign, *constants)
            for holds, i, j in tests:
                if not holds(values[i], values[j]):
                    break
            else:
                found.append(tuple([values[i] for i in places]))


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _chosen(rule: Rule, columns: Sequence[Column]) -> _Choice | None:
    """What there is to a rule that only chooses values of one literal's row, and compares some with each other or with constants."""
    [literal, *rest] = rule.body
    assert isinstance(literal, Atom)
    read = [literal.arguments[i] for i in _read(literal)]
    terms = {*read, *rule.head.arguments}
    if len({*read}) < len(read) or not all(isinstance(term, Variable) for term in terms):
        return None
    types = {term: columns[i].type for i, term in enumerate(literal.arguments) if isinstance(term, Variable)}
    tests, constants = [], list[Any]()

    def place(term: Term) -> int:
        if isinstance(term, Constant):
            constants.append(term.value)
            return len(columns) + len(constants) - 1
        return literal.arguments.index(term)

    for test in rest:
        if not isinstance(test, Comparison) or not _is_plain((test.left, test.right), types):
            return None
        tests.append((_HOLDS[test.operator], place(test.left), place(test.right)))
    return _Choice(tuple(map(literal.arguments.index, rule.head.arguments)), tuple(constants), tuple(tests))


def _is_plain(terms: Iterable[Term], types: Mapping[Variable, Type]) -> bool:
    """Does Python compare the values of these terms as SQLite does? So it is for numbers and for texts that are not NULL."""
    found = [types.get(t) if isinstance(t, Variable) else t.type if isinstance(t, Constant) else None for t in terms]
    known = {None if type_ is None or type_.nullable else type_.kind for type_ in found}
    return known in ({Kind.NUMBER}, {Kind.SYMBOL})


def _read(atom: Atom) -> list[int]:
    """The places that a rule does not leave open."""
    return [i for i, term in enumerate(atom.arguments) if not isinstance(term, Wildcard)]
