"""What is stored, as it was before a change and as it is after it, for rules that derive rows on demand.

The tables hold the state after. Before is that without what came and with what went, which is read only of relations that did change, and
only where rows came or went.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Atom, Constant, Literal, Negation, Variable, Wildcard, relation_read
from viewkeeper.program.plan import Demands
from viewkeeper.program.types import NUMBER

_CAME, _WENT = Constant(1, NUMBER), Constant(-1, NUMBER)
SIGNS = {"del": -1, "ins": 1}

Changed = frozenset[tuple[str, frozenset[int]]]
"""Of stored relations that a rule reads as they were: those that have changed, and whether rows came (1), went (-1), or both."""
UNCHANGED: Changed = frozenset()


class States:
    def __init__(self, tables: Tables, demands: Demands) -> None:
        self.tables, self.demands = tables, demands
        self.changed: dict[str, frozenset[int]] = {}

    def changed_of(self, read: Iterable[str]) -> Changed:
        changed = self.changed
        return frozenset([(name, changed[name]) for name in read if name in changed])

    def in_tables(self, changed: Changed) -> None:
        """Statements that read these relations as they were can be run from now on."""
        for name, _ in changed:
            self.tables.changes[name].in_table()

    def alternatives(self, body: tuple[Literal, ...], changed: Changed) -> Iterator[tuple[tuple[Literal, ...], list[int]]]:
        """The body on what is stored, which is the state after the change, and where its literals are in it."""
        signs = dict(changed)
        for chosen in product(*(self._stored(literal, signs) for literal in body)):
            places, found = [], list[Literal]()
            for literals in chosen:
                places.append(len(found))
                found += literals
            yield tuple(found), places

    def _stored(self, literal: Literal, changed: dict[str, frozenset[int]]) -> list[tuple[Literal, ...]]:
        name, _, state = relation_read(literal).partition("$")
        if not name or state.startswith("row") or relation_read(literal) in self.demands.levels:
            return [(literal,)]
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        relation = self.tables.relations[name]
        plain = Atom(name, atom.arguments if relation.arity else ())
        came, went = (Atom(f"{name}$change", (*atom.arguments, sign, Wildcard())) for sign in (_CAME, _WENT))
        if state in SIGNS:
            return [(went if state == "del" else came,)]
        signs = changed.get(name, frozenset()) if state == "old" else frozenset()
        if signs:
            self.tables.index_change(relation)
        if isinstance(literal, Negation):
            absent: tuple[Literal, ...] = (Negation(plain), Negation(went)) if -1 in signs else (Negation(plain),)
            return [absent, (came,)] if 1 in signs else [absent]
        rows: tuple[Literal, ...] = (plain,)
        if 1 in signs:
            named = [Variable(f"${name}{id(atom)}_{i}") if isinstance(a, Wildcard) else a for i, a in enumerate(atom.arguments)]
            row = Atom(name, tuple(named) if relation.arity else ())
            rows = (row, Negation(Atom(f"{name}$change", (*named, _CAME, Wildcard())), same=True))
        return [rows, (went,)] if -1 in signs else [rows]
