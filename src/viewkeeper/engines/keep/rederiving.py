"""Views that nobody stores: their rows before a change are derived as far as they are asked for, and their changes follow from them.

The rules are those of ``rewrite.rederivation_rules``. Each is evaluated when none of a lower level has anything to do: once as a whole, as soon
as everything it starts from is there, and from then on for what is new in one of its relations. Those that start from few rows do without
tables (``few_rows``), and those that need nothing but a changed row are evaluated together (``together``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from math import prod
from typing import Any

from viewkeeper.engines.keep.changes import Row, is_few
from viewkeeper.engines.keep.derived import Derived
from viewkeeper.engines.keep.few_rows import Aggregated, Joined, OfRows, can_be_joined
from viewkeeper.engines.keep.nodes import Node, derives_groups, is_joined_for
from viewkeeper.engines.keep.states import SIGNS, UNCHANGED, Changed, States
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.keep.together import OneRow, Together
from viewkeeper.program.ast import Atom, Rule, atoms_in, relation_read
from viewkeeper.program.functions import rule_can_fail
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.plan import Demands, Level

_ASKED = ("old", "now")
BEFORE: Level = (0, 1 << 30, 0)
"""Everything that only derives rows from before the change."""
AFTER: Level = (1, 1 << 30, 0)
"""Everything."""


class Rederiving:
    def __init__(self, tables: Tables, demands: Demands) -> None:
        self.tables, self.demands, self._states = tables, demands, States(tables, demands)
        self.asked = self.derived = 0
        self.seconds: dict[str, float] = {}
        """What the rules for each view took."""
        self._heap: list[tuple[Level, int]] = []
        # Rules that had something to do in this change, and relations that have grown.
        self._woken: list[Node] = []
        self._grew: set[Derived] = set()
        self._begun: set[str] = set()
        tables.relations |= {name: relation for name, relation in demands.relations.items() if name not in tables.relations}
        self.relations = {name: Derived(tables, demands.relations[name]) for name in demands.levels}
        self._nodes = [self._node(rule, number) for number, rule in enumerate(demands.rules)]
        self._readers: dict[Derived, list[Node]] = {derived: [] for derived in self.relations.values()}
        self._started: dict[tuple[str, int], list[Node]] = {}
        self._together: dict[tuple[str, int], tuple[Together | None, list[Node]]] = {}
        uses = {(atom.relation, use) for rule in demands.rules for atom, use in atoms_in(rule.body)}
        # Relations that somebody reads only when they are complete.
        self._awaited = {self.relations[name] for name, use in uses if use != "positive" and name in self.relations}
        inner = self._aggregate_directly()
        for node in self._nodes:
            if node.number in inner:
                continue
            for derived in {derived for _, derived in node.growing} | {*node.whole}:
                self._readers[derived].append(node)
            for _, name, sign in node.triggers:
                self._started.setdefault((name, sign), []).append(node)

    def _node(self, rule: Rule, number: int) -> Node:
        derived = self.relations
        growing = [(i, derived[x.relation]) for i, x in enumerate(rule.body) if isinstance(x, Atom) and x.relation in derived]
        read = [(i, *relation_read(literal).partition("$")[::2]) for i, literal in enumerate(rule.body)]
        stored = [(i, name, state) for i, name, state in read if name and f"{name}${state}" not in derived]
        triggers = [(i, name, SIGNS[state]) for i, name, state in stored if state in SIGNS]
        whole = self.demands.whole.get(rule, ())
        places, can_fail = [i for i, _ in growing] + [i for i, *_ in triggers], rule_can_fail(rule)
        uses = [(atom.relation, use) for atom, use in atoms_in(rule.body) if atom.relation in derived]
        reads = {name: derived[name] for name, _ in uses}
        needs_tables = can_fail or any(use != "positive" for _, use in uses)  # also of a relation that it starts from
        return Node(
            rule,
            self.demands.levels[rule.head.relation],
            number,
            derived[rule.head.relation],
            rule.head.relation.partition("$")[0],
            tuple(growing),
            tuple(triggers),
            tuple({name for _, name, state in stored if state == "old"}),
            tuple(derived[name] for name in whole),
            tuple(reads.values()),
            None if whole or not places else self._few(rule, places, needs_tables),
            can_fail,
        )

    def _aggregate_directly(self) -> set[int]:
        """Lets aggregates be computed from what is joined for them; returns the rules that derive rows for nothing else."""
        inner: set[int] = set()
        for node in self._nodes:
            grouping = grouping_of(node.rule) if node.whole and len(node.reads) == 1 and not node.can_fail else None
            if grouping is None:
                continue
            [read] = node.reads
            rows = [other for other in self._nodes if other.head is read]
            readers = [other for other in self._nodes if read in other.reads]
            if len(readers) == 1 and all(is_joined_for(one, node.whole) for one in rows):
                node.rows = tuple(rows)
                node.direct = {
                    one.growing[0][1]: Aggregated(self._states, node.rule, one.rule, one.growing[0][0])
                    for one in rows
                    if derives_groups(one.rule, one.growing[0][0], grouping.groups)
                }
                inner |= {one.number for one in rows}
        return inner

    def _few(self, rule: Rule, places: Sequence[int], needs_tables: bool) -> Joined | OfRows | None:
        if can_be_joined(rule, places, self.relations):
            return Joined(rule, places, self.relations)
        return None if needs_tables else OfRows(self._states, rule, places)

    # ---- a change

    def forget(self) -> None:
        """The change is over; the tables are emptied by ``Tables.clear``."""
        for derived in self._grew:
            derived.forget()
        for node in self._woken:
            node.seen, node.waiting = None, False
        self._states.forget()
        self._heap, self.asked, self.derived = [], 0, 0
        self._woken, self._grew, self._begun, self.seconds = [], set(), set(), {}

    def changed(self, relation: str, signs: frozenset[int]) -> None:
        """A stored relation has changed, and its table is as it will be."""
        self.tables.noted(self)
        self._states.has_changed(relation, signs)

    def start(self, relation: str) -> None:
        """Rules that start from a change of a stored relation have something to do; once for all views."""
        if relation in self._begun:
            return
        self._begun.add(relation)
        for sign in self._states.changed.get(relation, ()):
            self._wait_for(self._started.get((relation, sign), ()))

    def start_together(self, relations: Iterable[str]) -> None:
        """The same of several relations, when everything that is stored is as it will be: then it does not matter on which level a rule
        is that reads nothing else."""
        for relation in relations:
            if relation not in self._begun:
                self._begun.add(relation)
                for sign in self._states.changed.get(relation, ()):
                    self._wait_for(self._evaluate_together(relation, sign))

    def _evaluate_together(self, relation: str, sign: int) -> Sequence[Node]:
        """Evaluates what can be evaluated together for rows that came or went; returns the rules that are left."""
        nodes = self._started.get((relation, sign), ())
        if not nodes:
            return nodes
        if (relation, sign) not in self._together:
            self._together[relation, sign] = self._of_rows(relation, nodes)
        together, others = self._together[relation, sign]
        if together is None:
            return others
        started = time.perf_counter()
        found = together.find(sign)
        if found is None:
            return nodes
        for number, rows in found.items():
            head = self._nodes[number].head
            self._grown(head, head.add(rows))
        seconds = (time.perf_counter() - started) / len(together.views)
        for view in together.views:
            self.seconds[view] = self.seconds.get(view, 0.0) + seconds
        return others

    def _of_rows(self, relation: str, nodes: Sequence[Node]) -> tuple[Together | None, list[Node]]:
        """The rules that need nothing but one changed row of a relation, and the others."""
        alone = [node for node in nodes if node.is_alone and not node.reads and not node.can_fail]
        rules = {
            node.number: OneRow(node.rule, node.triggers[0][0], node.before) for node in alone if node.head not in self._awaited
        }
        return Together(self._states, relation, rules) if rules else None, [n for n in nodes if n.number not in rules]

    def _wait_for(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.is_alone or self._is_ready(node):  # or it waits when it has become so
                self._wait(node)

    def ask(self, magic: str, rows: Iterable[Row]) -> None:
        """Asks for rows of a view."""
        self.tables.noted(self)
        self._grown(self.relations[magic], self.relations[magic].add(rows))

    def run(self, until: Level, views: AbstractSet[str] | None = None) -> None:
        """Evaluates all rules up to a level that have something to do, those of the lowest level first.

        ``views``: only rules of these, which read no others. What others read may still change: not everything that goes in them has been told.
        """
        heap, others = self._heap, list[tuple[Level, int]]()
        while heap and heap[0][0] <= until:
            started = time.perf_counter()
            waiting = heappop(heap)
            node = self._nodes[waiting[1]]
            if views is not None and node.view not in views:
                others.append(waiting)
                continue
            node.waiting = False
            added = self._evaluate(node)
            if added:
                self._grown(node.head, added)
            self.seconds[node.view] = self.seconds.get(node.view, 0.0) + time.perf_counter() - started
        for waiting in others:
            heappush(heap, waiting)

    def _wait(self, node: Node) -> None:
        if not node.waiting:
            node.waiting = True
            self._woken.append(node)
            heappush(self._heap, (node.level, node.number))

    def _grown(self, derived: Derived, added: int) -> None:
        if added:
            if derived.name.partition("$")[2] in _ASKED:
                self.asked += added
            self.derived += added
            self._grew.add(derived)
            for reader in self._readers[derived]:
                if reader.seen is not None or reader.whole or self._is_ready(reader):
                    self._wait(reader)

    def found(self) -> dict[str, tuple[int, int]]:
        """How many rows were derived for each view, and how many of them were from before the change or after it."""
        found: dict[str, tuple[int, int]] = {}
        for derived in self._grew:
            view, _, what = derived.name.partition("$")
            rows, asked = found.get(view, (0, 0))
            found[view] = rows + derived.number, asked + (derived.number if what in _ASKED else 0)
        return found

    def _is_ready(self, node: Node) -> bool:
        """Is everything there that a rule starts from?"""
        changed = self._states.changed
        return all(derived.number for _, derived in node.growing) and all(
            sign in changed.get(name, ()) for _, name, sign in node.triggers
        )

    def _evaluate(self, node: Node) -> int:
        """What is new because of the rows that are new since the last time; returns how many."""
        if node.whole:
            return self._evaluate_whole(node) if any(derived.number for derived in node.whole) else 0
        seen, node.seen = node.seen, [derived.number for _, derived in node.growing]
        if seen is None:
            return self._run(node, -1)
        added = 0
        for (place, _), low, high in zip(node.growing, seen, node.seen, strict=True):
            if high > low:
                added += self._run(node, place, low, high)
        return added

    def _evaluate_whole(self, node: Node) -> int:
        """What is aggregated of everything that is asked for."""
        if node.rows:
            asked = [derived for derived in node.whole if derived.number]
            if len(asked) == 1 and asked[0] in node.direct and is_few(asked[0].number) and asked[0].is_small:
                before = next(one.before for one in node.rows if one.growing[0][1] is asked[0])
                found = node.direct[asked[0]].find([asked[0].rows()], self._states.changed_of(before), node.view)
                if found is not None:
                    return node.head.add(found)
            for one in node.rows:
                if self._is_ready(one):
                    self._woken.append(one)
                    self._grown(one.head, self._evaluate(one))
        return self._run_in_tables(node, self._states.changed_of(node.before, node.can_fail), -1, 0, 0)

    def _run(self, node: Node, place: int, low: int = 0, high: int = 0) -> int:
        changed = self._states.changed_of(node.before, node.can_fail) if node.before else UNCHANGED
        if node.few is not None:
            rows = self._of_few(node, place, low, high)
            if rows is not None:
                found = node.few.find(rows) if isinstance(node.few, Joined) else node.few.find(rows, changed, node.view)
                if found is not None:
                    return node.head.add(found)
        return self._run_in_tables(node, changed, place, low, high)

    def _of_few(self, node: Node, place: int, low: int, high: int) -> list[Sequence[Row]] | None:
        """The rows of each atom that a rule starts from, if these are few."""
        changes = self.tables.changes
        numbers = [high - low if i == place else derived.number for i, derived in node.growing]
        numbers += [changes[name].number for _, name, _ in node.triggers]
        if not is_few(prod(numbers)) or not all(derived.is_small for derived in node.reads):
            return None
        rows: list[Sequence[Row]] = [d.rows()[low:high] if i == place else d.rows() for i, d in node.growing]
        rows += [[row for row, sign in changes[name].rows() if sign == wanted] for _, name, wanted in node.triggers]
        return rows

    # ---- in tables

    def _run_in_tables(self, node: Node, changed: Changed, place: int, low: int, high: int) -> int:
        key = (place, changed)
        if key not in node.compiled:
            node.compiled[key] = list(self._compile(node, place, changed))
        self._states.in_tables(changed)
        for _, name, _ in node.triggers:
            self.tables.changes[name].in_table()
        for derived in (node.head, *node.reads):
            derived.in_table()
        added, values = 0, self._states.values | {"delta_low": low, "delta_high": high}
        for sql, parameters in node.compiled[key]:
            added += self.tables.run(sql, values | parameters, node.view).rowcount
        node.head.added_in_table(added)
        return added

    def _compile(self, node: Node, place: int, changed: Changed) -> Iterator[tuple[str, Any]]:
        for body, places in self._states.alternatives(node.rule.body, changed):
            first = None if node.whole else places[max(place, 0)] if node.rule.body else None
            delta = places[place] if place >= 0 else None
            select = self.tables.rule(Rule(node.rule.head, body), delta, first)
            sql = select.sql if " WHERE " in select.sql else f"{select.sql} WHERE TRUE"
            yield f"INSERT INTO {node.head.table} ({node.head.columns}) {sql} ON CONFLICT DO NOTHING", select.parameters
