"""Rederivation on demand as in the paper's figure, with its misprints corrected, to show to people.

    p$del :- …, li$del, …                   what may go, from the state before
    p$new :- p$old, !p$del.   p$new :- p$red.   p$new :- p$ins.
    p$red :- p$del, …                       what may go and is derived otherwise, in the state after
    p$ins :- …, li$ins, …                   what may come, from the state after
    p$plus :- p$ins, !p$old.                what comes
    p$minus :- p$del, !p$ins, !p$red.       what goes

Changes are computed by ``rewrite.rederivation_rules``, which follows less.
"""

from __future__ import annotations

from typing import ClassVar

from viewkeeper.program.ast import Atom, Literal, Program, Relation, Rule
from viewkeeper.program.plan import Demands
from viewkeeper.rewrite.magic.names import arguments_of, row_of
from viewkeeper.rewrite.rederivation_rules import Rederivation


def paper_rules(core: Program, views: frozenset[str]) -> Demands:
    """The rules that tell the changes of these views, and derive what that takes."""
    rules = _PaperRules(core, views)
    rules.work()
    return rules.demands()


class _PaperRules(Rederivation):
    followed = ("del", "ins")
    phases: ClassVar = {"del": 0, "red": 1, "ins": 1, "new": 1, "plus": 1, "minus": 2, "after": 4}
    own = "new"

    def rule(self, rule: Rule, stratum: int) -> None:
        super().rule(rule, stratum)
        view = rule.head.relation
        head, bindable = arguments_of(rule.head), self.bindable(view)
        adornment = "".join("b" if i in bindable else "f" for i in range(len(head)))
        guard, equations = self.guard(f"{view}$del", rule, adornment, whole=True)
        body = [*equations, *self.state_after(rule.body, stratum)]
        self.site(Atom(f"{view}$red", head), (1, stratum, 1), guard, body, f"{view}$again")

    def decides(self, literal: Literal, rule: Rule) -> bool:
        return False  # the paper always looks for what is derived otherwise

    def told(self, view: Relation, stratum: int) -> None:
        before, new, gone, again, came, plus, minus = (
            Atom(f"{view.name}${what}", row_of(view)) for what in ("old", "new", "del", "red", "ins", "plus", "minus")
        )
        self.add(Rule(new, (before, self.absent(gone))))
        self.add(Rule(new, (again,)))
        self.add(Rule(new, (came,)))
        self.site(plus, (1, stratum, 1), [came], [self.absent(before)], f"{view.name}$check")
        self.add(Rule(minus, (gone, self.absent(came), self.absent(again))))
