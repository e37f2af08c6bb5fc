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
"""

from __future__ import annotations

from collections.abc import Sequence
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
        self._complete = absent | reach(dependencies(core), absent)
        self._parts: dict[tuple[str, str], tuple[str, str]] = {}
        self._todo: list[tuple[str, str]] = []

    def work(self) -> None:
        """Makes the rules of all parts that are asked for."""
        while self._todo:
            view, adornment = self._todo.pop(0)
            name, asked = self._parts[view, adornment]
            for rule in self._query.of[view]:
                guards, equations = self._query.guard(asked, rule, adornment) if asked else ([], [])
                head = Atom(name, rule.head.arguments)
                self.add(Rule(head, (*equations, *rule.body)), guards, view if not asked else "")

    def add(self, rule: Rule, guards: Sequence[Literal], whole: str = "") -> None:
        """Adds a rule that reads parts of virtual views; ``whole``: the view that it derives as a whole, if it does."""
        derived = whole or rule.head.relation
        if derived in self._complete or grouping_of(rule) is not None or windowing_of(rule) is not None:
            read = {atom.relation for atom, _ in atoms_in(rule.body)} & self.virtual
            self.rules.append(replace(rule, body=renamed(rule.body, {name: self._whole(name) for name in sorted(read)})))
            return
        adorned = adorn(rule.head, guards, rule.body, self._demanded, self._query.bindable, self._pattern)
        body: list[Literal] = []
        for place, literal in enumerate(adorned.body):
            asked = adorned.asked.get(place)
            if asked is not None and isinstance(literal, Atom) and self._can_be_part(asked, whole):
                name, magic = self._part(asked.view, asked.adornment)
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

    def _can_be_part(self, asked: Asked, whole: str) -> bool:
        """What is derived as a whole is read as a whole where it depends on itself."""
        strata = self._query.strata
        together = bool(whole) and strata[whole] == strata[asked.view]
        return "b" in asked.adornment and self._query.groups(asked.view) is None and not together

    def _known(self, asked: Asked, body: Sequence[Literal]) -> list[Literal]:
        """NULL equals nothing, and is not asked for."""
        if not body:
            return []
        types = self._query.typer.body_types(tuple(body))
        nullable = [a for a in asked.arguments if isinstance(a, Variable) and a.name in types and types[a.name].nullable]
        return [Test("is_null", (argument,), negated=True) for argument in dict.fromkeys(nullable)]

    def _whole(self, view: str) -> str:
        return self._part(view, "")[0]

    def _part(self, view: str, adornment: str) -> tuple[str, str]:
        """The relation of a part, and the one of what is asked for of it; without an adornment it is the whole, and nothing need be asked for."""
        if (view, adornment) not in self._parts:
            relation = self.core.relation(view)
            name = self._declare(view, adornment or "all", relation.columns)
            bound = tuple(column for column, mark in zip(relation.columns, adornment, strict=False) if mark == "b")
            self._parts[view, adornment] = (name, self._declare(view, f"{adornment}_asked", bound) if adornment else "")
            self._todo.append((view, adornment))
        return self._parts[view, adornment]

    def _declare(self, view: str, what: str, columns: tuple[Column, ...]) -> str:
        name = self._names.fresh(f"{view}_{what}")
        self.relations[name] = self._query.relations[name] = Relation(name, columns)
        self.views[name] = view
        return name
