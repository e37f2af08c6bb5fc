"""The maintenance rules of views that nobody stores, as triggers and demands.

They are the rules of ``rewrite.maintenance_rules``, joined from what changed to what its bindings reach. Where a view is read that is not
stored, its rows before the change are asked for first (``rewrite.magic``); after the change it has those that did not go, and those that came:

    p$del :- …, li$del, …                   what may go, from the state before
    p$new :- p$old, !p$del.   p$new :- p$red.   p$new :- p$ins.
    p$red :- p$del, …                       what may go and is derived otherwise, in the state after
    p$ins :- …, li$ins, …                   what may come, from the state after
    p$plus :- p$ins, !p$old.                what comes: it was asked for, and was not there; only this is followed further
    p$minus :- p$del, !p$ins, !p$red.       what goes
    p$after :- p$old, !p$minus.   p$after :- p$plus.    for views of higher strata

An aggregate or a window is computed twice for each group that is touched, before and after. The levels of the rules (``magic.query_rules``) are
those of one stratified program: what may go, to the end; then what is derived otherwise or may come, with everything asked for on the way; and
only then what comes and goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewkeeper.program.ast import (
    Atom,
    Column,
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
from viewkeeper.program.types import NUMBER
from viewkeeper.program.windows import windowing_of
from viewkeeper.rewrite.magic.names import ONE, arguments_of, beside, row_of
from viewkeeper.rewrite.magic.query_rules import QueryRules, old, source_of, state_of


def rederivation_rules(core: Program, views: frozenset[str], plain: bool = False) -> Demands:
    """The rules that tell the changes of these views, and derive what is asked for on the way, or everything.

    ``plain``: as in the paper, where everything that may come is followed, also if it was there.
    """
    rules = _Rederivation(core, views, plain)
    for view in () if plain else sorted(views):
        rules.ask(view, "f" * len(shown_columns(core.relation(view))))
    rules.work()
    return rules.demands()


class _Rederivation(QueryRules):
    def __init__(self, core: Program, views: frozenset[str], plain: bool) -> None:
        super().__init__(core, views)
        # Only what was not there need be followed; that it was not is known as soon as it was asked for.
        self._comes = "ins" if plain else "plus"
        for relation in core.relations:
            for what in ("new", "del", "ins"):
                self.relations[f"{relation.name}${what}"] = beside(relation, what)
        reads = dependencies(core)
        self._read_above = {r for view in views for r in reads.get(view, ()) if self.strata[r] != self.strata[view]}
        ordered = [core.relation(view) for view in sorted(views, key=lambda name: (self.strata[name], name))]
        for view in ordered:
            for what, phase in (("del", 0), ("red", 1), ("ins", 1), ("new", 1), ("plus", 1), ("minus", 2), ("after", 4)):
                self.declare(beside(view, what), (1, self.strata[view.name], phase))
        for view in ordered:
            self._view(view)

    def _view(self, view: Relation) -> None:
        stratum = self.strata[view.name]
        row = row_of(view)
        before, plus, minus, after = (Atom(f"{view.name}${what}", row) for what in ("old", "plus", "minus", "after"))
        if self.groups(view.name) is not None:
            self._touched_groups(view, self.of[view.name][0], stratum)
        else:
            for rule in self.of[view.name]:
                self._rule(rule, stratum)
            gone, again, came, new = (Atom(f"{view.name}${what}", row) for what in ("del", "red", "ins", "new"))
            self._add(Rule(new, (before, self._absent(gone))))
            self._add(Rule(new, (again,)))
            self._add(Rule(new, (Atom(f"{view.name}${self._comes}", row),)))
            self.site(plus, (1, stratum, 1), [came], [self._absent(before)], f"{view.name}$check")
            self._add(Rule(minus, (gone, self._absent(came), self._absent(again))))
        if view.name in self._read_above:
            self._add(Rule(after, (before, self._absent(minus))))
            self._add(Rule(after, (plus,)))

    def _add(self, rule: Rule) -> None:
        self.rules[rule] = None

    def _absent(self, atom: Atom) -> Negation:
        """The row is not there; NULL is the same as NULL."""
        return Negation(atom, same=any(column.type.nullable for column in self.relations[atom.relation].columns))

    # ---- joins

    def _rule(self, rule: Rule, stratum: int) -> None:
        view = rule.head.relation
        head = arguments_of(rule.head)
        for place, literal in enumerate(rule.body):
            if relation_read(literal):
                others = [x for i, x in enumerate(rule.body) if i != place]
                went, came = self._change(literal, stratum)
                self.site(Atom(f"{view}$del", head), (1, stratum, 0), [went], _before(others), f"{view}$went")
                self.site(Atom(f"{view}$ins", head), (1, stratum, 1), [came], self._after(others, stratum), f"{view}$came")
        bindable = self.bindable(view)
        adornment = "".join("b" if i in bindable else "f" for i in range(len(head)))
        guard, equations = self.guard(f"{view}$del", rule, adornment, whole=True)
        body = [*equations, *self._after(rule.body, stratum)]
        self.site(Atom(f"{view}$red", head), (1, stratum, 1), guard, body, f"{view}$again")

    def _change(self, literal: Literal, stratum: int) -> tuple[Literal, Literal]:
        """What makes a derivation break at a literal, and what makes one."""
        atom = literal.atom if isinstance(literal, Negation) else literal
        assert isinstance(atom, Atom)
        went, came = "del", "ins"
        if atom.relation in self.views and self.strata[atom.relation] != stratum:
            went, came = "minus", "plus"  # a lower stratum has told what comes and goes in the end
        elif atom.relation in self.views:
            came = self._comes
        if isinstance(literal, Negation):
            went, came = came, went
        return state_of(atom, went), state_of(atom, came)

    def _after(self, body: Iterable[Literal], stratum: int) -> list[Literal]:
        """The literals on the state after the change."""

        def state(relation: str) -> str:
            return "after" if relation in self.views and self.strata[relation] != stratum else "new"

        return [state_of(literal, state(relation_read(literal))) for literal in body]

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
                self.site(touched, (1, stratum, 0), [came], self._after(others, stratum), f"{name}$touch")
        rows, over = self.rows(view, "now", rule, (1, stratum, 1))
        self.site(rows, (1, stratum, 1), [touched], self._after(body, stratum), f"{name}$group")
        found = Atom(self.declare(beside(view, "found"), (1, stratum, 2)), row)
        whole = Rule(Atom(found.relation, arguments_of(rule.head)), over)
        self._add(whole)
        self.whole[whole] = (touched.relation,)
        asked = Atom(touched.relation, tuple(Variable(view.columns[i].name) for i in places) or (ONE,))
        before, minus, plus = (Atom(f"{name}${what}", row) for what in ("old", "minus", "plus"))
        for relation in (minus, plus):
            self.levels[relation.relation] = (1, stratum, 3)
        self.site(minus, (1, stratum, 3), [asked], [before, self._absent(found)], f"{name}$check")
        self.site(plus, (1, stratum, 3), [found], [self._absent(before)], f"{name}$check")


def _before(body: Iterable[Literal]) -> list[Literal]:
    return [old(literal) for literal in body]
