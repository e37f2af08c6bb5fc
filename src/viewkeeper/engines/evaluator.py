"""The one evaluator: strata in order, semi-naive inside.

A stratum is computed in rounds. Round 0 evaluates every rule on what is there. From then on each rule is evaluated once for
every atom of the same stratum in its body, with that atom reading only what the last round added. It ends when a round adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from viewkeeper.engines.interface import Derivation, Engine
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.program.ast import Atom, Constant, Program, Relation, Rule
from viewkeeper.program.safety import is_constant_fact
from viewkeeper.program.strata import Stratum, stratify
from viewkeeper.program.values import store


@dataclass(frozen=True)
class Progress:
    """Where an evaluation is."""

    stratum: int
    strata: int
    relations: tuple[str, ...]
    iteration: int
    rows: int


Report = Callable[[Progress], None]


def evaluate(core: Program, engine: Engine, report: Report = lambda progress: None, only: Iterable[str] | None = None) -> None:
    """Computes the views of a core program on an engine that holds its base relations.

    ``only``: leave out strata without one of these relations; what they hold already is taken as it is.
    """
    wanted = None if only is None else set(only)
    derived = {rule.head.relation for rule in core.rules}
    strata = [
        stratum
        for stratum in stratify(core)
        if derived & set(stratum.relations) and (wanted is None or wanted & set(stratum.relations))
    ]
    for number, stratum in enumerate(strata, 1):
        rows = 0
        for iteration, added in enumerate(_rounds(core, stratum, engine)):
            rows += added
            report(Progress(number, len(strata), stratum.relations, iteration, rows))


def _rounds(core: Program, stratum: Stratum, engine: Engine) -> Iterable[int]:
    rules = [rule for rule in core.rules if rule.head.relation in stratum.relations]
    yield insert_facts(core, engine, rules)
    yield from rounds(stratum.relations, [rule for rule in rules if not is_constant_fact(rule)], engine)


def insert_facts(core: Program, engine: Engine, rules: Sequence[Rule]) -> int:
    """Inserts what plain facts say; returns how many rows are new."""
    facts = [rule for rule in rules if is_constant_fact(rule)]
    return sum(engine.insert(name, [_batch(core.relation(name), facts)]) for name in {rule.head.relation for rule in facts})


def rounds(
    relations: Sequence[str],
    rules: Sequence[Rule],
    engine: Engine,
    since: Mapping[str, int] | None = None,
    whole: Container[Rule] = (),
) -> Iterable[int]:
    """Evaluates the rules of relations that may depend on each other; tells how many rows each round adds.

    ``since``: marks of when these rules were evaluated the last time; then they start from the rows that came later, but for those that are
    evaluated as a ``whole``.
    """
    first: dict[str, list[Derivation]] = {name: [] for name in relations}
    again: dict[str, list[Derivation]] = {name: [] for name in relations}
    grown = {name: mark for name, mark in (since or {}).items() if (engine.mark(name) or 0) > mark}
    engine.begin(relations, None if since is None else grown)
    for rule in rules:
        is_whole = since is None or rule in whole
        first[rule.head.relation] += [Derivation(rule)] if is_whole else _starting(rule, grown)
        again[rule.head.relation] += _starting(rule, first)
    added = 0
    if any(first.values()):
        added = sum(engine.step(first).values())
        yield added
    if any(again.values()):
        if since is None:
            # Round 0 may have added nothing and still have left rows that came from outside.
            added = sum(engine.count(name) for name in relations)
        while added:
            added = sum(engine.step(again).values())
            yield added
    engine.end([*relations, *grown])


def _starting(rule: Rule, relations: Container[str]) -> list[Derivation]:
    """The rule once for each of its atoms of these relations, with that reading only the newest rows."""
    atoms = [(place, literal) for place, literal in enumerate(rule.body) if isinstance(literal, Atom)]
    return [Derivation(rule, place) for place, atom in atoms if atom.relation in relations]


def _batch(relation: Relation, facts: list[Rule]) -> pa.RecordBatch:
    """The constant facts of a relation."""
    rows = [
        tuple(
            store(a.value, c.type)
            for a, c in zip(fact.head.arguments, relation.columns, strict=True)
            if isinstance(a, Constant)
        )
        for fact in facts
        if fact.head.relation == relation.name
    ]
    return batch_of_rows([row or (1,) for row in rows], relation)
