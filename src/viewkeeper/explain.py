"""How a view is kept, told to people: strategy, rules, statements, indexes."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from viewkeeper.advice import Advice, size_of
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep import Maintainer, WindowKeeper, strategy
from viewkeeper.engines.names import sql_name
from viewkeeper.outcomes import REASONS
from viewkeeper.program.ast import Program, Relation
from viewkeeper.program.plan import Counted, External, Extreme, Grouped, Plan, Recomputed, Recursive, Step, Windowed
from viewkeeper.program.printing import print_rule
from viewkeeper.rewrite.magic.names import readable_rule
from viewkeeper.rewrite.maintenance_rules import maintenance_rules
from viewkeeper.rewrite.paper_rules import paper_rules
from viewkeeper.store.catalog import NOWHERE, Catalog, Kept
from viewkeeper.writer import cold_relations, plan_of

# So many commits are looked at for what views cost.
_RECENT = 200


@dataclass(frozen=True)
class Part:
    """A relation that is kept for the sake of a view: the view itself, or one that its rules need."""

    relation: str
    strategy: str
    why: str
    rules: tuple[str, ...]
    maintenance: tuple[str, ...]
    statements: tuple[str, ...]
    indexes: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """What a view takes: rows and bytes, none of an external one, and the seconds that changes of late have taken, by strategy."""

    rows: int | None
    size: int
    seconds: tuple[tuple[str, int, float], ...]
    """A strategy, how many changes it brought in, and the median of their seconds."""
    advised: Advice | None = None
    """What ``advise`` measured last, or would now."""


@dataclass(frozen=True)
class Explained:
    view: str
    parts: tuple[Part, ...]
    cost: Cost | None = None


def explain(program: Program, kept: Mapping[str, Kept], view: str) -> Explained:
    if view in cold_relations(program, dict(kept)):
        rules = tuple(print_rule(rule) for rule in program.rules if rule.head.relation == view)
        why = "it, or something it reads, is kept only as a snapshot"
        return Explained(view, (Part(view, "recomputation", why, rules, (), (), ()),))
    if view in program.virtual:
        rules = tuple(print_rule(rule) for rule in program.rules if rule.head.relation == view)
        why = "virtual: nothing of it is stored or told; what others need of it is kept with them"
        return Explained(view, (Part(view, "none", why, rules, (), (), ()),))
    plan = plan_of(program, cold_relations(program, dict(kept)))
    own = _own(view, plan, program)
    steps = [step for step in plan.steps if {r.name for r in step.relations} & own]
    statements, indexes = _statements(plan)
    return Explained(
        view,
        tuple(
            Part(
                ", ".join(r.name for r in step.relations),
                strategy(step),
                step.why if isinstance(step, Recomputed) else REASONS.get(strategy(step), ""),
                tuple(print_rule(rule) for rule in plan.core.rules if rule.head.relation in {r.name for r in step.relations}),
                tuple(_maintenance(plan, step)),
                tuple(sql for r in step.relations for sql in statements.get(r.name, ())),
                tuple(index for r in step.relations for index in indexes.get(r.name, ())),
            )
            for step in reversed(steps)
        ),
    )


def cost_of(view: str, kept: Kept, catalog: Catalog) -> Cost:
    """As the last commits and the catalog tell it."""
    seconds: dict[str, list[float]] = {}
    for *_, detail in catalog.commits(max(0, catalog.last_commit() - _RECENT)):
        for record in detail.get("views", []):
            if record["view"] == view:
                seconds.setdefault(record["strategy"], []).append(record["seconds"])
    seen = tuple((how, len(found), statistics.median(found)) for how, found in sorted(seconds.items()))
    stored = kept.place == "hot"
    advised = catalog.advice().get(view)
    size = size_of(catalog.connection, view) if stored else 0
    return Cost(kept.rows if kept.place != NOWHERE else None, size, seen, None if advised is None else Advice(**advised))


def _own(view: str, plan: Plan, program: Program) -> set[str]:
    """The view and what is kept for its sake alone: what other relations are kept by is theirs."""
    found, todo = {view}, [view]
    while todo:
        new = plan.reads.get(todo.pop(), frozenset()) - found - program.by_name.keys()
        found |= new
        todo += new
    return found


def _maintenance(plan: Plan, step: Step) -> Iterator[str]:
    """The rules that say what a change does to the relations of a step."""
    match step:
        case Recursive():
            names = [relation.name for relation in step.relations]
            yield from (print_rule(rule) for rule in maintenance_rules(plan.core, names).rules)
        case Counted() | Grouped():
            yield from (print_rule(rule) for rules in step.changes.values() for rule in rules)
        case Extreme() | Windowed():
            yield print_rule(step.rule)
        case External():
            own = {relation.name for relation in step.relations}
            unstored = frozenset(r.name for one in plan.steps if isinstance(one, External) for r in one.relations)
            rules = paper_rules(plan.core, unstored).rules
            yield from (print_rule(readable_rule(rule)) for rule in rules if rule.head.relation.partition("$")[0] in own)


def _statements(plan: Plan) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For each relation the statements that keep it, and the indexes it has, found by preparing an empty database."""
    engine = EmbeddedEngine.private()
    try:
        maintainer = Maintainer(engine, plan)
        maintainer.create(plan.core.by_name)
        maintainer.prepare()
        indexes: dict[str, list[str]] = {}
        for step in plan.steps:
            for relation in step.relations:
                indexes[relation.name] = [*_order(engine, relation), *_indexes(engine.connection, sql_name(relation.name))]
        for keeper in maintainer.keepers:
            if isinstance(keeper, WindowKeeper) and keeper.is_indexed:
                indexes[keeper.relation.name].append(keeper.index)
        return maintainer.statements(), indexes
    finally:
        engine.close()


def _order(engine: EmbeddedEngine, relation: Relation) -> list[str]:
    """The order in which rows are stored, if that is not the one in which they came."""
    names = engine.key_names(relation.name)
    return [f"{sql_name(relation.name)} itself, in the order of {', '.join(names)}"] if names else []


def _indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    sql = "SELECT name FROM main.sqlite_master WHERE type = 'index' AND tbl_name = ? ORDER BY name"
    return [name for [name] in connection.execute(sql, (table,))]
