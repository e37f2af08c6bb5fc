"""Virtual views, of which others need only a part: the part gets relations of its own, and nothing is left of the view.

    known(x, y) :- watched(x), closure(x, y).           closure is virtual

    known(x, y) :- watched(x), closure_bf1(x, y).
    closure_bf_asked1(x) :- watched(x).
    closure_bf1(x, y) :- closure_bf_asked1(x), edge(x, y).
    closure_bf_asked1(z) :- closure_bf_asked1(x), edge(x, z).
    closure_bf1(x, y) :- closure_bf_asked1(x), edge(x, z), closure_bf1(z, y).

These are magic sets again, but as relations of the program: they are kept like others that nobody stores, and a change is followed only where
somebody asks. A virtual view that is asked for without a binding is needed as a whole, and so is one that is negated or aggregated, with all that
this reads: what is asked for of it must not depend on what is not there.

Nor must a part depend on who reads it, which would be derived together with the part, and not be stored. A view that depends on itself
reads the whole where what it would ask for depends on itself; and where one view that reads virtual views depends on another, each has parts of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from viewkeeper.program.ast import Atom, Column, Literal, Program, Relation, Rule, Test, Variable, atoms_in
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.program.windows import windowing_of
from viewkeeper.rewrite.fresh import Names
from viewkeeper.rewrite.magic.adorn import Asked, adorn
from viewkeeper.rewrite.magic.query_rules import QueryRules
from viewkeeper.rewrite.share_auxiliaries import renamed


def specialise(core: Program, virtual: frozenset[str]) -> tuple[Program, dict[str, str]]:
    """The program without its virtual views, and the relations that it has instead, each with the view that it is a part of."""
    made = _Specialised(core, virtual)
    for rule in core.rules:
        if rule.head.relation not in virtual:
            made.add(rule, [])
    made.work()
    relations = tuple(relation for relation in core.relations if relation.name not in virtual)
    program = replace(core, relations=(*relations, *made.relations.values()), rules=tuple(dict.fromkeys(made.rules)))
    return program, made.views


_Key = tuple[str, str, int | None]
"""A part: the view, its adornment, and the turn of who reads it; the whole is one for all."""


class _Specialised:
    def __init__(self, core: Program, virtual: frozenset[str]) -> None:
        self.core, self.virtual = core, virtual
        self.relations: dict[str, Relation] = {}
        self.views: dict[str, str] = {}
        self.rules: list[Rule] = []
        self._names = Names(core.by_name)
        self._query = QueryRules(core, virtual)
        absent = {atom.relation for rule in core.rules for atom, use in atoms_in(rule.body) if use != "positive"}
        absent |= {windowing.source.relation for rule in core.rules if (windowing := windowing_of(rule)) is not None}
        graph = dependencies(core)
        self._complete = absent | reach(graph, absent)
        self._turns = self._take_turns(graph)
        self._parts: dict[_Key, tuple[str, str]] = {}
        self._todo: list[_Key] = []

    def _take_turns(self, graph: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
        """For each view that reads virtual ones how many such are one above the other below it. Views with the same number do not depend on
        each other, unless they depend on themselves."""
        strata, turns = self._query.strata, dict[str, int]()
        for view in sorted((view for view, read in graph.items() if self.virtual & read.keys()), key=lambda view: strata[view]):
            below = (turns[other] for other in reach(graph, {view}) if other in turns and strata[other] < strata[view])
            turns[view] = 1 + max(below, default=-1)
        return turns

    def work(self) -> None:
        """Makes the rules of all parts that are asked for."""
        while self._todo:
            key = self._todo.pop(0)
            view, adornment, turn = key
            name, asked = self._parts[key]
            for rule in self._query.of[view]:
                guards, equations = self._query.guard(asked, rule, adornment) if asked else ([], [])
                head = Atom(name, rule.head.arguments)
                self.add(Rule(head, (*equations, *rule.body)), guards, view if not asked else "", turn)

    def add(self, rule: Rule, guards: Sequence[Literal], whole: str = "", turn: int | None = None) -> None:
        """Adds a rule that reads parts of virtual views; ``whole``: the view that it derives as a whole, if it does; ``turn``: that of who reads
        the part that it derives, if it does not."""
        derived = whole or rule.head.relation
        if turn is None:
            turn = self._turns.get(derived, 0)
        if derived in self._complete or grouping_of(rule) is not None or windowing_of(rule) is not None:
            read = {atom.relation for atom, _ in atoms_in(rule.body)} & self.virtual
            self.rules.append(replace(rule, body=renamed(rule.body, {name: self._whole(name) for name in sorted(read)})))
            return
        adorned = adorn(rule.head, guards, rule.body, self._demanded, self._query.bindable, self._pattern)
        body: list[Literal] = []
        for place, literal in enumerate(adorned.body):
            asked = adorned.asked.get(place)
            if asked is not None and isinstance(literal, Atom) and self._can_be_part(asked, derived, whole, body):
                name, magic = self._part(asked.view, asked.adornment, turn)
                self.rules.append(Rule(Atom(magic, asked.arguments), (*body, *self._known(asked, body))))
                literal = replace(literal, relation=name)
            elif asked is not None:
                [literal] = renamed((literal,), {asked.view: self._whole(asked.view)})
            body.append(literal)
        self.rules.append(Rule(rule.head, tuple(body)))

    def _demanded(self, relation: str) -> tuple[str, str] | None:
        return (relation, "old") if relation in self.virtual else None

    def _pattern(self, view: str, adornment: str) -> str:
        return self._query.pattern(view, adornment) if "b" in adornment else adornment

    def _can_be_part(self, asked: Asked, derived: str, whole: str, before: Sequence[Literal]) -> bool:
        """What is derived as a whole is read as a whole where it depends on itself, and so is what the view derived would ask for by itself."""
        strata = self._query.strata
        if whole and strata[whole] == strata[asked.view]:
            return False
        if derived in strata and any(strata.get(atom.relation) == strata[derived] for atom, _ in atoms_in(tuple(before))):
            return False
        return "b" in asked.adornment and self._query.groups(asked.view) is None

    def _known(self, asked: Asked, body: Sequence[Literal]) -> list[Literal]:
        """NULL equals nothing, and is not asked for."""
        if not body:
            return []
        types = self._query.typer.body_types(tuple(body))
        nullable = [a for a in asked.arguments if isinstance(a, Variable) and a.name in types and types[a.name].nullable]
        return [Test("is_null", (argument,), negated=True) for argument in dict.fromkeys(nullable)]

    def _whole(self, view: str) -> str:
        return self._part(view, "", None)[0]

    def _part(self, view: str, adornment: str, turn: int | None) -> tuple[str, str]:
        """The relation of a part, and the one of what is asked for of it; without an adornment it is the whole, and nothing need be asked for."""
        key = (view, adornment, turn)
        if key not in self._parts:
            relation = self.core.relation(view)
            name = self._declare(view, adornment or "all", relation.columns)
            bound = tuple(column for column, mark in zip(relation.columns, adornment, strict=False) if mark == "b")
            self._parts[key] = (name, self._declare(view, f"{adornment}_asked", bound) if adornment else "")
            self._todo.append(key)
        return self._parts[key]

    def _declare(self, view: str, what: str, columns: tuple[Column, ...]) -> str:
        name = self._names.fresh(f"{view}_{what}")
        self.relations[name] = self._query.relations[name] = Relation(name, columns)
        self.views[name] = view
        return name
