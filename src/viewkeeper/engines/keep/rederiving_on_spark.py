"""The rules of views that nobody stores, evaluated on Spark: one stratum at a time, what it reads given as frames."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from viewkeeper.engines.demanding import evaluate_demands
from viewkeeper.engines.keep.changes import Row
from viewkeeper.engines.keep.external import ExternalKeeper
from viewkeeper.program.arrow import rows_of_batch
from viewkeeper.program.ast import Program, Rule, atoms_in
from viewkeeper.program.plan import Demands

if TYPE_CHECKING:
    from viewkeeper.engines.keep.on_spark import SparkWorker


def rederive(worker: SparkWorker, keeper: ExternalKeeper) -> None:
    """Notes what comes and goes in the views of a step."""
    demands, engine = worker.tables.plan.demands, worker.engine
    assert demands is not None
    step = part_of(demands, keeper.step.stratum, keeper.below)
    read = {atom.relation for rule in step.rules for atom, _ in atoms_in(rule.body)}
    needed = (read | {rule.head.relation for rule in step.rules}) & demands.relations.keys()
    core = Program(worker.tables.plan.core.types, tuple(demands.relations[name] for name in sorted(needed)), (), step.rules)
    engine.prepare(core)
    for name in sorted(read - step.levels.keys()):
        worker.put_state(demands.relations[name])
    before = sum(engine.count(name) for name in step.levels if name.endswith(("$old", "$now")))
    evaluate_demands(core, step, engine)
    keeper.rederived += sum(engine.count(name) for name in step.levels if name.endswith(("$old", "$now"))) - before
    for member in keeper.members.values():
        rows: list[tuple[Row, int]] = []
        for what, sign in (("minus", -1), ("plus", 1)):
            relation = demands.relations[f"{member.relation.name}${what}"]
            rows += [(row, sign) for batch in engine.read(relation) for row in rows_of_batch(batch, len(relation.columns))]
        member.settled_elsewhere(rows)


def part_of(demands: Demands, stratum: int, below: AbstractSet[str]) -> Demands:
    """What tells the changes of one stratum, given those of lower ones that it reads; of others they may not be known yet."""

    def belongs(rule: Rule) -> bool:
        kind, of, _ = demands.levels[rule.head.relation]
        view, _, state = rule.head.relation.partition("$")
        return kind == 0 or of == stratum or (of < stratum and state == "after" and view in below)

    rules = tuple(rule for rule in demands.rules if belongs(rule))
    levels = {rule.head.relation: demands.levels[rule.head.relation] for rule in rules}
    return Demands(demands.relations, rules, levels, {rule: demands.whole[rule] for rule in rules if rule in demands.whole})
