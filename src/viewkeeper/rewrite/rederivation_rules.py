"""The maintenance rules of views that nobody stores, as triggers and demands.

They are joined from what changed to what its bindings reach. Where a view is read that is not stored, its rows before the change are asked
for first (``rewrite.magic``); after the change it has those that did not go, and those that came:

    p$del :- …, li$minus, …                 what may go, from the state before
    p$minus :- p$del, !p$now.               what goes: it was asked for, and is not derived any more; only this is followed further
    p$ins :- …, li$plus, …                  what may come, from the state after
    p$plus :- p$ins, !p$old.                what comes: it was asked for, and was not there; only this is followed further
    p$after :- p$old, !p$minus.   p$after :- p$plus.

A row that was there and goes has, in each of its derivations, something that goes; so following only what goes misses nothing, and so for what
comes. The paper follows whatever may go or come, and then looks for what is derived otherwise: ``paper_rules`` has its rules.

An aggregate or a window is computed twice for each group that is touched, before and after. The levels of the rules (``magic.query_rules``) are
those of one stratified program: what goes, to the end, with everything asked for on the way; and only then what comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from viewkeeper.program.ast import (
    Atom,
    Column,
    Constant,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Variable,
    relation_read,
)
from viewkeeper.program.grouping import grouping_of
from viewkeeper.program.plan import PRESENT, Demands, shown_columns
from viewkeeper.program.strata import dependencies
from viewkeeper.program.types import NUMBER, Kind
from viewkeeper.program.windows import windowing_of
from viewkeeper.rewrite.magic.names import ONE, arguments_of, beside, row_of
from viewkeeper.rewrite.magic.query_rules import QueryRules, old, source_of, state_of


def rederivation_rules(core: Program, views: frozenset[str]) -> Demands:
    """The rules that tell the changes of these views, and derive what is asked for on the way, or everything."""
    rules = Rederivation(core, views)
    for view in sorted(views):
        rules.ask(view, "f" * len(shown_columns(core.relation(view))))
    rules.work()
    return rules.demands()


class Rederivation(QueryRules):
    """The rules that tell the changes of views, growing with what is asked for."""

    # Inside a recursion: what is followed of what went and what came, and the state after; and the phases of all relations.
    followed = ("minus", "plus")
    own = "after"
    phases: ClassVar = {"del": 1, "minus": 1, "ins": 2, "plus": 2, "after": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        for relation in self.core.relations:
            for what in ("new", "del", "ins"):
                self.relations[f"{relation.name}${what}"] = beside(relation, what)
        reads = dependencies(self.core)
        self._read = {
            relation
            for view in self.views
            for relation in reads.get(view, ())
            if self.own == "after" or self.strata[relation] != self.strata[view]
        }
        ordered = [self.core.relation(view) for view in sorted(self.views, key=lambda name: (self.strata[name], name))]
        for view in ordered:
            for what, phase in self.phases.items():
                self.declare(beside(view, what), (1, self.strata[view.name], phase))
            self.relations[f"{view.name}$now"] = beside(view, "now")
        for view in ordered:
            if self.groups(view.name) is not None:
                self._touched_groups(view, self.of[view.name][0], self.strata[view.name])
            else:
                for rule in self.of[view.name]:
                    self.rule(rule, self.strata[view.name])
                self.told(view, self.strata[view.name])
            self.after(view)

    def told(self, view: Relation, stratum: int) -> None:
        """What comes and goes in a view that is a join."""
        gone, now, minus, came, before, plus = _states(view, "del", "now", "minus", "ins", "old", "plus")
        self.site(minus, (1, stratum, 1), [gone], [self.absent(now)], f"{view.name}$check")
        self.site(plus, (1, stratum, 2), [came], [self.absent(before)], f"{view.name}$check")

    def after(self, view: Relation) -> None:
        """The state after the change, if somebody reads it."""
        if view.name in self._read:
            after, before, minus, plus = _states(view, "after", "old", "minus", "plus")
            self.add(Rule(after, (before, self.absent(minus))))
            self.add(Rule(after, (plus,)))

    def add(self, rule: Rule) -> None:
        self.rules[rule] = None

    def absent(self, atom: Atom) -> Negation:
        """The row is not there; NULL is the same as NULL."""
        return Negation(atom, same=any(column.type.nullable for column in self.relations[atom.relation].columns))

    # ---- joins

    def rule(self, rule: Rule, stratum: int) -> None:
        """What a change of something that a rule reads does to its view."""
        view = rule.head.relation
        head = arguments_of(rule.head)
        for place, literal in enumerate(rule.body):
            if relation_read(literal):
                others = [x for i, x in enumerate(rule.body) if i != place]
                went, came = self._change(literal, stratum)
                gone, new = ("minus", "plus") if self.decides(literal, rule) else ("del", "ins")
                levels = [(1, stratum, self.phases[what]) for what in (gone, new)]
                self.site(Atom(f"{view}${gone}", head), levels[0], [went], _before(others), f"{view}$went")
                self.site(Atom(f"{view}${new}", head), levels[1], [came], self.state_after(others, stratum), f"{view}$came")

    def decides(self, literal: Literal, rule: Rule) -> bool:
        """Do all derivations of a row agree in this literal, as all it says is in the row?

        Then what breaks or makes one is all there is to the row: nobody has to ask whether it is derived otherwise.
        """
        view, atom = rule.head.relation, literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        if len(self.of[view]) > 1 or view in self._read or self.strata[atom.relation] == self.strata[view]:
            return False
        told = {term for term in rule.head.arguments if isinstance(term, Variable)}
        columns = zip(atom.arguments, self.relations[atom.relation].columns)
        # NULL is the same in rows and not in joins, and so are 0.0 and -0.0 the other way round.
        plain = not any(column.type.nullable or column.type.kind is Kind.FLOAT for _, column in columns)
        return plain and all(term in told or isinstance(term, Constant) for term in atom.arguments)

    def _change(self, literal: Literal, stratum: int) -> tuple[Literal, Literal]:
        """What makes a derivation break at a literal, and what makes one."""
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        went, came = "del", "ins"
        if atom.relation in self.views:
            # A lower stratum has told what comes and goes in the end.
            went, came = ("minus", "plus") if self.strata[atom.relation] != stratum else self.followed
        if isinstance(literal, Negation):
            went, came = came, went
        return state_of(atom, went), state_of(atom, came)

    def state_after(self, body: Iterable[Literal], stratum: int, own: str = "") -> list[Literal]:
        """The literals on the state after the change; ``own``: as views of this stratum have it."""

        def state(relation: str) -> str:
            if relation not in self.views:
                return "new"
            return "after" if self.strata[relation] != stratum else own or self.own

        return [state_of(literal, state(relation_read(literal))) for literal in body]

    def in_state(self, rule: Rule, state: str) -> list[Literal]:
        if state == "old":
            return super().in_state(rule, state)
        return self.state_after(rule.body, self.strata[rule.head.relation], "now")

    # ---- aggregates and windows

    def _touched_groups(self, view: Relation, rule: Rule, stratum: int) -> None:
        """Groups that a change may touch are computed before and after."""
        name, row, places = view.name, row_of(view), self.bindable(view.name)
        body = source_of(rule, windowing_of(rule), grouping_of(rule))
        touched = Atom(f"{name}$touched", tuple(rule.head.arguments[i] for i in places) or (ONE,))
        columns = tuple(view.columns[i] for i in places) or (Column(PRESENT, NUMBER),)
        self.declare(Relation(touched.relation, columns), (1, stratum, 0))
        for place, literal in enumerate(body):
            if relation_read(literal):
                others = [x for i, x in enumerate(body) if i != place]
                went, came = self._change(literal, stratum)
                self.site(touched, (1, stratum, 0), [went], _before(others), f"{name}$touch")
                self.site(touched, (1, stratum, 0), [came], self.state_after(others, stratum), f"{name}$touch")
        rows, over = self.rows(view, "source", rule, (1, stratum, 1))
        self.site(rows, (1, stratum, 1), [touched], self.state_after(body, stratum), f"{name}$group")
        found = Atom(self.declare(beside(view, "found"), (1, stratum, 2)), row)
        whole = Rule(Atom(found.relation, arguments_of(rule.head)), over)
        self.add(whole)
        self.whole[whole] = (touched.relation,)
        asked = Atom(touched.relation, tuple(Variable(view.columns[i].name) for i in places) or (ONE,))
        before, minus, plus = _states(view, "old", "minus", "plus")
        for relation in (minus, plus):
            self.levels[relation.relation] = (1, stratum, 3)
        self.levels[f"{name}$after"] = (1, stratum, 4)
        self.site(minus, (1, stratum, 3), [asked], [before, self.absent(found)], f"{name}$check")
        self.site(plus, (1, stratum, 3), [found], [self.absent(before)], f"{name}$check")


def _before(body: Iterable[Literal]) -> list[Literal]:
    return [old(literal) for literal in body]


def _states(view: Relation, *names: str) -> list[Atom]:
    """A row of the view in each of these states."""
    return [Atom(f"{view.name}${name}", row_of(view)) for name in names]
