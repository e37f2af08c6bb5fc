"""The one evaluator: strata in order, semi-naive inside.

A stratum is computed in rounds. Round 0 evaluates every rule on what is there. From then on each rule is evaluated once for
every atom of the same stratum in its body, with that atom reading only what the last round added. It ends when a round adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewkeeper.engines.interface import Derivation, Engine
from viewkeeper.program.ast import Atom, Program
from viewkeeper.program.strata import Stratum, stratify


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
    members = set(stratum.relations)
    rules = [rule for rule in core.rules if rule.head.relation in members]
    engine.begin(stratum.relations)
    first: dict[str, list[Derivation]] = {name: [] for name in stratum.relations}
    again: dict[str, list[Derivation]] = {name: [] for name in stratum.relations}
    for rule in rules:
        first[rule.head.relation].append(Derivation(rule))
        again[rule.head.relation] += [
            Derivation(rule, position)
            for position, literal in enumerate(rule.body)
            if isinstance(literal, Atom) and literal.relation in members
        ]
    added = sum(engine.step(first).values())
    yield added
    if stratum.recursive:
        # Round 0 may have added nothing and still have left rows that came from outside.
        added = sum(engine.count(name) for name in stratum.relations)
        while added:
            added = sum(engine.step(again).values())
            yield added
    engine.end(stratum.relations)
