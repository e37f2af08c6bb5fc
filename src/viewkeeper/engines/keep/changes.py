"""What changes in a relation, and what views gain from it: rows in Python as long as they are few, temporary tables otherwise.

A statement for a whole table costs more than some for single rows, until there are about ``FEW`` of these. Who reads a change takes
it as it likes; it is brought into the other form once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from viewkeeper.program.ast import Atom, Relation, Rule, Variable, Wildcard, all_variables, variables_of
from viewkeeper.program.plan import SIGN, Group, Rules, beside
from viewkeeper.program.types import Kind

if TYPE_CHECKING:
    from viewkeeper.engines.keep.tables import Parameters, Select, Tables

FEW = 32
# Changes of this many rows are read anyhow, to be told.
_TOLD = 1000
# What few rows lead to is taken out of SQLite up to this.
MANY = 10_000
_SIGNS = {1: frozenset({1}), -1: frozenset({-1})}

Row = tuple[Any, ...]
Signed = tuple[Row, int]


def is_few(rows: int) -> bool:
    return rows <= FEW


class Changes:
    """The rows of one relation that come (1) and go (-1)."""

    def __init__(self, tables: Tables, relation: Relation) -> None:
        self.tables, self.relation = tables, relation
        self.table = tables.temporary(tables.declare(relation, "change"))
        columns = tables.columns(relation)
        self._columns = ", ".join([*columns, f'"{SIGN}"'])
        self._places = ", ".join("?" * (len(columns) + 1))
        self.forget()

    def forget(self) -> None:
        """Nothing is noted; the table is somebody else's business."""
        self.number = 0
        self._rows: list[Signed] | None = []
        self._in_table = self._put = False
        # Of a base relation: is what is noted in its table already?
        self.brought_in = False

    def rolled_back(self) -> None:
        """The table is as it was when rows were noted."""
        self._in_table = self._put

    @property
    def few(self) -> bool:
        return is_few(self.number)

    def add(self, rows: Iterable[Signed]) -> None:
        """Notes rows, none of them a second time. What is noted of a relation is noted either so or by ``note``."""
        assert self._rows is not None
        self._rows += rows
        self.number = len(self._rows)
        self.tables.noted(self)

    def note(self, select: str, parameters: Parameters = ()) -> int:
        """Notes the rows of a query, with the sign at the end; returns how many."""
        sql = f"INSERT INTO {self.table} ({self._columns}) {select}"
        added = self.tables.run(sql, parameters, self.relation.name).rowcount
        if added:
            self.put(added)
        return added

    def put(self, number: int) -> None:
        """So many rows were put into the table."""
        self.number += number
        self._rows, self._in_table, self._put = None, True, True
        self.tables.used(self.table)
        self.tables.noted(self)

    def rows(self) -> list[Signed]:
        if self._rows is None:
            found = self.tables.fetch(f"SELECT {self._columns} FROM {self.table}")
            self._rows = [(row[:-1], row[-1]) for row in found]
        return self._rows

    def in_table(self) -> str:
        """The table, with all that is noted in it."""
        if not self._in_table:
            assert self._rows is not None
            self.tables.clear_table(self.table)
            if self._rows:
                self.tables.used(self.table)
                sql = f"INSERT INTO {self.table} ({self._columns}) VALUES ({self._places})"
                self.tables.run_many(sql, [(*row, sign) for row, sign in self._rows])
            self._in_table = True
        return self.table

    def signs(self) -> frozenset[int]:
        """Whether rows come, go, or both."""
        if not self.number:
            return frozenset()
        if self.number == 1 and self._rows:
            return _SIGNS[self._rows[0][1]]
        if self._rows is not None or self.number <= _TOLD:
            return frozenset(sign for _, sign in self.rows())
        found = self.tables.fetch(f'SELECT DISTINCT "{SIGN}" FROM {self.table}')
        return frozenset(sign for [sign] in found)


class Gains:
    """Derivations that a view gains or, negative, loses: the rules that tell them, and what they have told so far."""

    def __init__(self, tables: Tables, of: Relation, gains: Relation, changes: Rules) -> None:
        self._tables, self._of, self._changes = tables, of, changes
        self.table = tables.temporary(gains)
        self._places = ", ".join("?" * len(gains.columns))
        self._selects: dict[Group, list[Select]] = {}
        self._by_row: dict[Group, list[_ByRow]] = {}
        self.forget()

    def forget(self) -> None:
        self.rows: dict[Row, int] = {}
        self.in_table = False

    def prepare(self) -> None:
        for group in self._changes:
            self._whole(group)
            self._single(group)

    def _whole(self, group: Group) -> list[Select]:
        if group not in self._selects:
            self._selects[group] = [self._tables.select(rule) for rule in self._changes[group]]
        return self._selects[group]

    def _single(self, group: Group) -> list[_ByRow]:
        if group not in self._by_row:
            self._by_row[group] = [_ByRow(self._tables, rule) for rule in self._changes[group]]
        return self._by_row[group]

    def collect(self, group: Group) -> int:
        """Adds what a change of these relations brings; returns how many derivations were found for it."""
        executions = 0
        for statement in self._single(group):
            executions += statement.executions()
        if executions <= FEW:
            found = self._of_single_rows(group)
            if found is not None:
                for row in found:
                    self.rows[row[:-1]] = self.rows.get(row[:-1], 0) + row[-1]
                return len(found)
        for name in group:
            self._tables.changes[name].in_table()
        self.use_table()
        touched = 0
        for select in self._whole(group):
            touched += self._tables.run(f"INSERT INTO {self.table} {select.sql}", select.parameters, self._of.name).rowcount
        return touched

    def _of_single_rows(self, group: Group) -> list[Row] | None:
        """Rows with a number at their end; None if a few rows lead to so many that they are better left in SQLite."""
        found: list[Row] = []
        for statement in self._single(group):
            if not statement.add_results(self._of.name, found):
                return None
        return found

    def use_table(self) -> None:
        self.in_table = True
        self._tables.used(self.table)
        self._tables.noted(self)

    def few(self) -> list[tuple[Row, int]] | None:
        """What is gained or lost in the end; None if that is much, and in the table then."""
        if not self.in_table and is_few(len(self.rows)):
            net = [(row, number) for row, number in self.rows.items() if number]
            self.rows = {}
            return net
        self.use_table()
        self._tables.run_many(
            f"INSERT INTO {self.table} VALUES ({self._places})", [(*row, number) for row, number in self.rows.items() if number]
        )
        self.rows = {}
        return None


class _ByRow:
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
        self._sql, self._constants = f"{select.sql} LIMIT {MANY + 1}", select.parameters
        one = len(changed) == 1 and bool(changed[0].arguments)
        self._chosen = _chosen(rule) if one else None
        self._copied, self._used = _copied(rule) if one else ([], [])
        if any(tables.relations[changed[0].relation].columns[i].type.kind is Kind.FLOAT for i in self._used):
            self._copied = []  # 0.0 and -0.0 are equal, but not in all they lead to

    def executions(self) -> int:
        changes = self._tables.changes
        return changes[self._read[0]].number if len(self._read) == 1 else prod(changes[name].number for name in self._read)

    def add_results(self, of: str, found: list[Row]) -> bool:
        """Adds what each execution gives, for a relation; False if one gives more than ``MANY``."""
        changes = [self._tables.changes[name].rows() for name in self._read]
        if self._chosen is not None:
            for row, sign in changes[0]:
                values = (*row, sign, -sign)
                found.append(tuple([values[i] for i in self._chosen]))
            return True
        known: dict[Row, list[Row]] = {}
        for rows in product(*changes):
            values = (*rows[0][0], rows[0][1], -rows[0][1])
            used = tuple([values[i] for i in self._used])
            more = known.get(used) if self._copied else None
            if more is None:
                parameters = dict(self._constants)
                for names, (row, sign) in zip(self._names, rows, strict=True):
                    parameters.update(zip(names, (*row, sign, -sign), strict=True))
                more = known[used] = self._tables.fetch(self._sql, parameters, of)
                if len(more) > MANY:
                    return False
            elif more:
                more = [self._with(row, values) for row in more]
            found += more
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


def _chosen(rule: Rule) -> list[int] | None:
    """Which values of the one literal's row the head has, where that is all there is to a rule."""
    [literal, *rest] = rule.body
    assert isinstance(literal, Atom)
    read = [term for term in literal.arguments if not isinstance(term, Wildcard)]
    terms = {*read, *rule.head.arguments}
    if rest or len({*read}) < len(read) or not all(isinstance(term, Variable) for term in terms):
        return None
    return [literal.arguments.index(term) for term in rule.head.arguments]
