"""Evaluates rules that derive on demand, on any engine: always those of the lowest level that have something to do.

What a level derives may ask for more on a lower one, which is evaluated again then; see ``rewrite.magic.query_rules``.
"""

from __future__ import annotations

from viewkeeper.engines.evaluator import Progress, Report, insert_facts, rounds
from viewkeeper.engines.interface import Engine
from viewkeeper.program.ast import Program, Rule, atoms_in
from viewkeeper.program.plan import Demands, Level

Turn = tuple[Level, int]


def evaluate_demands(core: Program, demands: Demands, engine: Engine, report: Report = lambda progress: None) -> None:
    """Computes what is asked for, on an engine that holds what is stored."""
    of: dict[Turn, list[Rule]] = {}
    for number, rule in enumerate(demands.rules, 1):
        if rule.body:
            of.setdefault((demands.levels[rule.head.relation], number if _waits(rule, demands) else 0), []).append(rule)
    order = sorted(of)
    readers: dict[str, set[Turn]] = {}
    for turn, rules in of.items():
        for rule in rules:
            for atom, use in atoms_in(rule.body):
                if use != "negation" and atom.relation in demands.levels:
                    readers.setdefault(atom.relation, set()).add(turn)
            for guard in demands.whole.get(rule, ()):
                readers.setdefault(guard, set()).add(turn)
    waiting: set[Turn] = set()
    sizes = dict.fromkeys(demands.levels, 0)
    # Of each turn what it reads, and how far it has read that.
    reads = {turn: {name for rule in rules for name in _needed(rule, demands)} for turn, rules in of.items()}
    marks: dict[Turn, dict[str, int]] = {}

    def note(names: set[str], current: Turn | None = None) -> None:
        for name in names:
            if engine.count(name) > sizes[name]:
                sizes[name] = engine.count(name)
                waiting.update(readers.get(name, set()) - {current})

    insert_facts(core, engine, [rule for rule in demands.rules if not rule.body])
    note(set(demands.levels))
    waiting |= {turn for turn, rules in of.items() for rule in rules if not _needed(rule, demands)}
    while waiting:
        turn = min(waiting)
        waiting.discard(turn)
        rules = [rule for rule in of[turn] if _may_derive(rule, demands, sizes)]
        names = tuple(dict.fromkeys(rule.head.relation for rule in of[turn]))
        rows = 0
        for iteration, added in enumerate(rounds(names, rules, engine, marks.get(turn), demands.whole)):
            rows += added
            report(Progress(order.index(turn) + 1, len(order), names, iteration, rows))
        read = {name: mark for name in reads[turn] if (mark := engine.mark(name)) is not None}
        if len(read) == len(reads[turn]):
            marks[turn] = read
        note(set(names), turn)


def _waits(rule: Rule, demands: Demands) -> bool:
    """A rule has its own turn if something must not be there that others of its level may ask for."""
    return any(use == "negation" and atom.relation in demands.levels for atom, use in atoms_in(rule.body))


def _may_derive(rule: Rule, demands: Demands, sizes: dict[str, int]) -> bool:
    """Not if a relation that it needs is empty, and cannot grow meanwhile."""
    level = demands.levels[rule.head.relation]
    guards = demands.whole.get(rule)
    if guards is not None:
        return any(sizes[guard] for guard in guards)
    return all(sizes[name] or demands.levels[name] == level for name in _needed(rule, demands))


def _needed(rule: Rule, demands: Demands) -> list[str]:
    """The relations that must have rows, of those that are derived."""
    found = [atom.relation for atom, use in atoms_in(rule.body) if use == "positive" and atom.relation in demands.levels]
    return [*found, *demands.whole.get(rule, ())]
