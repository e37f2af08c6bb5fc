"""What is stored, as it was before a change and as it is after it, for rules that derive rows on demand.

The tables hold the state after. Before is that without what came and with what went, which is read only of relations that did change, and
only where rows came or went. Of most relations one row came, one went, or both: such rows are parameters of the statements, others are in tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from viewkeeper.engines.keep.changes import is_few
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Atom, Constant, Literal, Negation, Relation, Variable, Wildcard, relation_read
from viewkeeper.program.plan import Demands, shown_columns
from viewkeeper.program.types import NUMBER

_CAME, _WENT = Constant(1, NUMBER), Constant(-1, NUMBER)
SIGNS = {"del": -1, "ins": 1}

Known = tuple[frozenset[int], bool]
"""Whether rows came (1), went (-1), or both; and whether they are one each."""
Changed = frozenset[tuple[str, Known]]
"""Of stored relations that a rule reads as they were: those that have changed."""
UNCHANGED: Changed = frozenset()


class States:
    def __init__(self, tables: Tables, demands: Demands) -> None:
        self.tables, self.demands = tables, demands
        self._numbers = {name: number for number, name in enumerate(tables.changes)}
        self.forget()

    def forget(self) -> None:
        self.changed: dict[str, frozenset[int]] = {}
        self.values: dict[str, Any] = {}
        """Of the parameters that are rows of changed relations."""
        self._known: dict[str, Known] = {}

    def has_changed(self, relation: str, signs: frozenset[int]) -> None:
        changes = self.tables.changes[relation]
        single = changes.number == len(signs) and is_few(changes.number)
        self.changed[relation], self._known[relation] = signs, (signs, single)
        if single:
            for row, sign in changes.rows():
                what = self._what(relation, sign)
                self.values |= {f"{what}_{i}": value for i, value in enumerate(row)}

    def _what(self, relation: str, sign: int) -> str:
        return f"row_{'came' if sign == 1 else 'went'}{self._numbers.setdefault(relation, len(self._numbers))}"

    def changed_of(self, read: Iterable[str], in_tables: bool = False) -> Changed:
        """Which of these relations have changed; ``in_tables``: single rows are to be read from tables all the same."""
        known = self._known
        if in_tables:
            return frozenset([(name, (known[name][0], False)) for name in read if name in known])
        return frozenset([(name, known[name]) for name in read if name in known])

    def in_tables(self, changed: Changed) -> None:
        """Statements that read these relations as they were can be run from now on, with ``values``."""
        for name, (_, single) in changed:
            if not single:
                self.tables.changes[name].in_table()

    def alternatives(self, body: tuple[Literal, ...], changed: Changed) -> Iterator[tuple[tuple[Literal, ...], list[int]]]:
        """The body on what is stored, which is the state after the change, and where its literals are in it."""
        known = dict(changed)
        for chosen in product(*(self._stored(literal, known) for literal in body)):
            places, found = [], list[Literal]()
            for literals in chosen:
                places.append(len(found))
                found += literals
            yield tuple(found), places

    def _stored(self, literal: Literal, changed: dict[str, Known]) -> list[tuple[Literal, ...]]:
        name, _, state = relation_read(literal).partition("$")
        if not name or state.startswith("row") or relation_read(literal) in self.demands.levels:
            return [(literal,)]
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        relation = self.tables.relations[name]
        plain = Atom(name, atom.arguments if relation.arity else ())
        if state in SIGNS:
            return [(self._change(relation, atom.arguments, SIGNS[state], False),)]
        if state == "new" or name not in changed:
            return [(Negation(plain),) if isinstance(literal, Negation) else (plain,)]
        signs, single = changed[name]
        if not single:
            self.tables.index_change(relation)
        went = self._change(relation, atom.arguments, -1, single)
        if isinstance(literal, Negation):
            absent: tuple[Literal, ...] = (Negation(plain), Negation(went)) if -1 in signs else (Negation(plain),)
            return [absent, (self._change(relation, atom.arguments, 1, single),)] if 1 in signs else [absent]
        rows = self._without_came(relation, atom, single) if 1 in signs else (plain,)
        return [rows, (went,)] if -1 in signs else [rows]

    def _without_came(self, relation: Relation, atom: Atom, single: bool) -> tuple[Literal, ...]:
        name = relation.name
        named = tuple(
            Variable(f"${name}{id(atom)}_{i}") if isinstance(a, Wildcard) else a for i, a in enumerate(atom.arguments)
        )
        row = Atom(name, named if relation.arity else ())
        return (row, Negation(self._change(relation, named, 1, single), same=True))

    def _change(self, relation: Relation, arguments: tuple[Any, ...], sign: int, single: bool) -> Atom:
        """A row that came or went: the only one, or one of a table."""
        if not single:
            return Atom(f"{relation.name}$change", (*arguments, _CAME if sign == 1 else _WENT, Wildcard()))
        row = Relation(f"{relation.name}${self._what(relation.name, sign)}", shown_columns(relation))
        self.tables.relations[row.name] = row
        return Atom(row.name, arguments)
