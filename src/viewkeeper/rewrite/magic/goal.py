"""A core program that derives one relation, and of the views it reads only what that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewkeeper.program.ast import Atom, Literal, Negation, Program, Rule
from viewkeeper.program.plan import Demands, shown_columns
from viewkeeper.program.strata import depths
from viewkeeper.rewrite.magic.names import ONE, row_of
from viewkeeper.rewrite.magic.query_rules import QueryRules
from viewkeeper.rewrite.passes import MAINTAINABLE, run_passes

# It pays to ask for what a relation is joined with if this many times its rows are fewer than those of another.
_SMALL = 10


def derive_goal(core: Program, goal: str, sizes: Mapping[str, int]) -> tuple[Program, Demands] | None:
    """Rules that derive all rows of a relation on demand, from relations without rules, whose rows are there, so many.

    None if everything is needed: it is derived faster without asking.
    """
    core = run_passes(core, MAINTAINABLE)
    views = frozenset(rule.head.relation for rule in core.rules)
    most = max((sizes.get(name, 0) for name in core.by_name), default=0)
    small = frozenset(name for name in core.by_name if name not in views and sizes.get(name, most) * _SMALL <= most)
    # Views that only read each other are derived together, or a recursion would wait for what is below it in each round.
    rules = QueryRules(core, views, small, strata=depths(core))
    relation = core.relation(goal)
    asked = rules.ask(goal, "f" * len(shown_columns(relation)))
    rules.work()
    if rules.asks_for_everything:
        return None
    rules.rules[Rule(Atom(asked, (ONE,)))] = None
    row = row_of(relation) if relation.columns else ()
    rules.declare(relation, (1, 0, 0))
    rules.rules[Rule(Atom(goal, row), (Atom(f"{goal}$old", row or (ONE,)),))] = None
    demands = rules.demands()
    made = {rule: replace(rule, body=tuple(_stored(literal, core, demands) for literal in rule.body)) for rule in demands.rules}
    used = {*demands.levels, *(name for name in core.by_name if name not in views)}
    relations = tuple(relation for name, relation in demands.relations.items() if name in used)
    whole = {made[rule]: guards for rule, guards in demands.whole.items()}
    program = replace(core, relations=relations, rules=tuple(made.values()))
    return program, Demands(demands.relations, program.rules, demands.levels, whole)


def _stored(literal: Literal, core: Program, demands: Demands) -> Literal:
    """Nothing changes: what is stored is read as it is."""
    match literal:
        case Atom() if literal.relation not in demands.levels:
            name = literal.relation.partition("$")[0]
            return Atom(name, literal.arguments if core.relation(name).columns else ())
        case Negation():
            atom = _stored(literal.atom, core, demands)
            assert isinstance(atom, Atom)
            return replace(literal, atom=atom)
    return literal
