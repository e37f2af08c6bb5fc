"""Views that nobody stores: their rows before a change are derived as far as they are asked for, and their changes follow from them.

The rules are those of ``rewrite.rederivation_rules``. Each is evaluated when none of a lower level has anything to do: once as a whole, as soon
as everything it starts from is there, and from then on for what is new in one of its relations. All tables are temporary, and empty between changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from typing import Any

from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.ast import Atom, Constant, Literal, Negation, Rule, Variable, Wildcard, relation_read
from viewkeeper.program.plan import Demands, Level
from viewkeeper.program.types import NUMBER

_CAME, _WENT = Constant(1, NUMBER), Constant(-1, NUMBER)
_NONE: frozenset[str] = frozenset()
_ASKED = ("old", "now")
BEFORE: Level = (0, 1 << 30, 0)
"""Everything that only derives rows from before the change."""
AFTER: Level = (1, 1 << 30, 0)
"""Everything."""


@dataclass(eq=False)
class _Node:
    """A rule, and how far it was evaluated in this change."""

    rule: Rule
    level: Level
    number: int
    table: str
    view: str
    growing: tuple[tuple[int, str], ...]
    """The positions of atoms whose relations are derived, too."""
    triggers: tuple[tuple[str, int], ...]
    """Stored relations that must have rows that came (1) or went (-1)."""
    before: tuple[str, ...]
    """Stored relations that are read as they were."""
    whole: tuple[str, ...]
    is_alone: bool
    """Needs nothing but one of its triggers."""
    seen: list[int] | None = None
    waiting: bool = False
    compiled: dict[tuple[int, frozenset[str]], list[tuple[str, Any]]] = field(default_factory=dict)


class Rederiving:
    def __init__(self, tables: Tables, demands: Demands) -> None:
        self.tables, self.demands = tables, demands
        self.rows: dict[str, int] = dict.fromkeys(demands.levels, 0)
        self.asked = self.derived = 0
        self.seconds: dict[str, float] = {}
        """What the rules for each view took."""
        self._changed: dict[str, frozenset[int]] = {}
        self._heap: list[tuple[Level, int]] = []
        # Rules that had something to do in this change, and relations that have grown.
        self._woken: list[_Node] = []
        self._grew: set[str] = set()
        self._begun: set[str] = set()
        tables.relations |= {name: relation for name, relation in demands.relations.items() if name not in tables.relations}
        self._tables = {name: tables.temporary(demands.relations[name], unique=True) for name in demands.levels}
        self._names = {
            name: ", ".join(map(tables.name, [c.name for c in demands.relations[name].columns])) for name in demands.levels
        }
        self._nodes = [self._node(rule, number) for number, rule in enumerate(demands.rules)]
        self._readers: dict[str, list[_Node]] = {name: [] for name in demands.levels}
        self._started: dict[tuple[str, int], list[_Node]] = {}
        for node in self._nodes:
            for name in {name for _, name in node.growing} | {*node.whole}:
                self._readers[name].append(node)
            for trigger in node.triggers:
                self._started.setdefault(trigger, []).append(node)

    def _node(self, rule: Rule, number: int) -> _Node:
        derived = self.demands.levels
        growing = [(i, x.relation) for i, x in enumerate(rule.body) if isinstance(x, Atom) and x.relation in derived]
        read = [relation_read(literal) for literal in rule.body]
        stored = [(name.partition("$")[0], name.partition("$")[2]) for name in read if name and name not in derived]
        signs = {"del": -1, "ins": 1}
        whole, triggers = self.demands.whole.get(rule, ()), [(name, signs[state]) for name, state in stored if state in signs]
        return _Node(
            rule,
            derived[rule.head.relation],
            number,
            self._tables[rule.head.relation],
            rule.head.relation.partition("$")[0],
            tuple(growing),
            tuple(triggers),
            tuple({name for name, state in stored if state == "old"}),
            whole,
            len(triggers) == 1 and not growing and not whole,
        )

    # ---- a change

    def forget(self) -> None:
        """The change is over; the tables are emptied by ``Tables.clear``."""
        for name in self._grew:
            self.rows[name] = 0
        for node in self._woken:
            node.seen, node.waiting = None, False
        self._changed, self._heap, self.asked, self.derived = {}, [], 0, 0
        self._woken, self._grew, self._begun, self.seconds = [], set(), set(), {}

    def changed(self, relation: str, signs: frozenset[int]) -> None:
        """A stored relation has changed, and its table is as it will be."""
        self.tables.changes[relation].in_table()
        self.tables.noted(self)
        self._changed[relation] = signs

    def start(self, relation: str) -> None:
        """Rules that start from a change of a stored relation have something to do; once for all views."""
        if relation in self._begun:
            return
        self._begun.add(relation)
        for sign in self._changed.get(relation, ()):
            for node in self._started.get((relation, sign), ()):
                if node.is_alone or self._is_ready(node):  # or it waits when it has become so
                    self._wait(node)

    def ask(self, magic: str, rows: Iterable[Sequence[Any]]) -> None:
        """Asks for rows of a view."""
        self.tables.noted(self)
        self.tables.used(self._tables[magic])
        places = ", ".join("?" * len(self.demands.relations[magic].columns))
        sql = f"INSERT INTO {self._tables[magic]} VALUES ({places}) ON CONFLICT DO NOTHING"
        for row in rows:
            self._grown(magic, self.tables.run(sql, row).rowcount)

    def run(self, until: Level) -> None:
        """Evaluates all rules up to a level that have something to do, those of the lowest level first."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            started = time.perf_counter()
            node = self._nodes[heappop(heap)[1]]
            node.waiting = False
            added = self._evaluate(node)
            if added:
                self._grown(node.rule.head.relation, added)
            self.seconds[node.view] = self.seconds.get(node.view, 0.0) + time.perf_counter() - started

    def _wait(self, node: _Node) -> None:
        if not node.waiting:
            node.waiting = True
            self._woken.append(node)
            heappush(self._heap, (node.level, node.number))

    def _grown(self, relation: str, added: int) -> None:
        if added:
            if relation.partition("$")[2] in _ASKED:
                self.asked += added
            self.derived += added
            self.rows[relation] += added
            self._grew.add(relation)
            self.tables.used(self._tables[relation])
            for reader in self._readers[relation]:
                if reader.seen is not None or reader.whole or self._is_ready(reader):
                    self._wait(reader)

    def found(self) -> dict[str, tuple[int, int]]:
        """How many rows were derived for each view, and how many of them were from before the change or after it."""
        found: dict[str, tuple[int, int]] = {}
        for name in self._grew:
            view, _, what = name.partition("$")
            derived, asked = found.get(view, (0, 0))
            rows = self.rows[name]
            found[view] = derived + rows, asked + (rows if what in _ASKED else 0)
        return found

    def _is_ready(self, node: _Node) -> bool:
        """Is everything there that a rule starts from?"""
        return all(self.rows[name] for _, name in node.growing) and all(
            sign in self._changed.get(name, ()) for name, sign in node.triggers
        )

    def _evaluate(self, node: _Node) -> int:
        """What is new because of the rows that are new since the last time; returns how many."""
        if node.whole:
            return self._run(node, -1) if any(self.rows[name] for name in node.whole) else 0
        if node.seen is None:
            node.seen = [self.rows[name] for _, name in node.growing]
            return self._run(node, -1)
        added, seen = 0, node.seen
        node.seen = [self.rows[name] for _, name in node.growing]
        for (place, _), low, high in zip(node.growing, seen, node.seen, strict=True):
            if high > low:
                added += self._run(node, place, low, high)
        return added

    def _run(self, node: _Node, place: int, low: int = 0, high: int = 0) -> int:
        key = (place, frozenset([name for name in node.before if name in self._changed]) if node.before else _NONE)
        if key not in node.compiled:
            node.compiled[key] = list(self._compile(node, place, key[1]))
        added = 0
        for sql, parameters in node.compiled[key]:
            if place >= 0:
                parameters = {**parameters, "delta_low": low, "delta_high": high}
            added += self.tables.run(sql, parameters, node.view).rowcount
        return added

    # ---- statements

    def _compile(self, node: _Node, place: int, changed: frozenset[str]) -> Iterator[tuple[str, Any]]:
        head = node.rule.head.relation
        for body, places in self._alternatives(node.rule.body, changed):
            first = None if node.whole else places[max(place, 0)] if node.rule.body else None
            delta = places[place] if place >= 0 else None
            select = self.tables.rule(Rule(node.rule.head, body), delta, first)
            sql = select.sql if " WHERE " in select.sql else f"{select.sql} WHERE TRUE"
            yield f"INSERT INTO {node.table} ({self._names[head]}) {sql} ON CONFLICT DO NOTHING", select.parameters

    def _alternatives(
        self, body: tuple[Literal, ...], changed: frozenset[str]
    ) -> Iterator[tuple[tuple[Literal, ...], list[int]]]:
        """The body on what is stored, which is the state after the change, and where its literals are in it."""
        for chosen in product(*(self._stored(literal, changed) for literal in body)):
            places, found = [], list[Literal]()
            for literals in chosen:
                places.append(len(found))
                found += literals
            yield tuple(found), places

    def _stored(self, literal: Literal, changed: frozenset[str]) -> list[tuple[Literal, ...]]:
        name, _, state = relation_read(literal).partition("$")
        if not name or relation_read(literal) in self.demands.levels:
            return [(literal,)]
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        relation = self.tables.relations[name]
        plain = Atom(name, atom.arguments if relation.arity else ())
        came, went = (Atom(f"{name}$change", (*atom.arguments, sign, Wildcard())) for sign in (_CAME, _WENT))
        if state in ("del", "ins"):
            return [(went if state == "del" else came,)]
        if state == "new" or name not in changed:
            return [(Negation(plain),) if isinstance(literal, Negation) else (plain,)]
        self.tables.index_change(relation)
        if isinstance(literal, Negation):
            return [(Negation(plain), Negation(went)), (came,)]
        named = [Variable(f"${name}{id(atom)}_{i}") if isinstance(a, Wildcard) else a for i, a in enumerate(atom.arguments)]
        row = Atom(name, tuple(named) if relation.arity else ())
        absent = Negation(Atom(f"{name}$change", (*named, _CAME, Wildcard())), same=True)
        return [(row, absent), (went,)]
