"""Core programs → plans: what a change of each relation does to the views that read it (docs/decisions/0009-maintenance.md).

Counting. A rule reads r (or relations that change together) at some positions. With r changed from old to new and everything else as it is, its derivations change by

    sum over non-empty sets T of these positions of  (-1)^(|T|+1) · body with r$change at T and the new r elsewhere

where a row that went counts -1, and the other way round under a negation. Changes are brought in one relation after the other.

Recursion. A row stays as long as it has a derivation from rows of lower rank; see ``program.plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import combinations

from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Call,
    Column,
    Comparison,
    Constant,
    Literal,
    Negation,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
    relation_read,
)
from viewkeeper.program.grouping import EXTREMES, Grouping, grouping_of, single_source
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.plan import (
    COUNT,
    RANK_STEP,
    SUSPENDED,
    Base,
    Counted,
    External,
    Extreme,
    First,
    Grouped,
    Plan,
    Recomputed,
    Recursive,
    Rules,
    Step,
    Windowed,
    beside,
)
from viewkeeper.program.strata import dependencies, reach, stratify
from viewkeeper.program.types import NUMBER, Type
from viewkeeper.program.typing import Typer, may_be_null
from viewkeeper.program.windows import Windowing, windowing_of
from viewkeeper.rewrite.drop_copies import drop_copies
from viewkeeper.rewrite.passes import MAINTAINABLE, run_passes
from viewkeeper.rewrite.rederivation_rules import rederivation_rules
from viewkeeper.rewrite.share_auxiliaries import share_auxiliaries
from viewkeeper.rewrite.specialise import specialise

_ONE = Constant(1, NUMBER)

Together = Mapping[str, tuple[str, ...]]
"""For each relation those that change together with it: the relations of its stratum."""


def maintain(
    core: Program,
    declared: AbstractSet[str] | None = None,
    external: AbstractSet[str] = frozenset(),
    virtual: AbstractSet[str] = frozenset(),
) -> Plan:
    """The plan of a core program whose rules are those of its views.

    ``declared``: relations that somebody knows, all if it is None; ``external``: views of which nothing shall be stored; ``virtual``: those of
    which nothing shall be told either, so that only what others need of them is followed.
    """
    declared = core.by_name.keys() if declared is None else declared
    core = run_passes(core, MAINTAINABLE)
    parts: dict[str, str] = {}
    if virtual:
        core, parts = specialise(core, frozenset(virtual))
        core, external = _reached(core, declared), external | parts.keys()
    core = share_auxiliaries(core, declared)
    core = drop_copies(core, declared - external - virtual, declared)
    unstored = _unstored(core, external, declared)
    typer = Typer(dict(core.by_name), Hierarchy.of(core.types))
    steps: list[Step] = []
    strata = stratify(core)
    together = {name: stratum.relations for stratum in strata for name in stratum.relations}
    for number, stratum in enumerate(strata):
        relations = tuple(core.relation(name) for name in stratum.relations)
        rules = [rule for rule in core.rules if rule.head.relation in stratum.relations]
        if not rules:
            steps.append(Base(relations[0]))
        elif relations[0].name in unstored:
            steps.append(External(relations, tuple(rules), number))
        elif stratum.recursive:
            steps.append(_recursive(relations, rules, together))
        else:
            steps.append(_flat(relations[0], rules, typer, together))
    reads = {name: frozenset(found) for name, found in dependencies(core).items()}
    if not unstored:
        return Plan(core, tuple(steps), reads)
    return Plan(core, tuple(steps), reads, rederivation_rules(core, unstored), parts)


def _reached(core: Program, declared: AbstractSet[str]) -> Program:
    """Without relations that only the rewriting knows and that nobody reads."""
    names = declared & core.by_name.keys()
    used = names | reach(dependencies(core), set(names))
    return replace(
        core,
        relations=tuple(relation for relation in core.relations if relation.name in used),
        rules=tuple(rule for rule in core.rules if rule.head.relation in used),
    )


def _unstored(core: Program, external: AbstractSet[str], declared: AbstractSet[str]) -> frozenset[str]:
    """The views of which nothing is stored, with what only they are computed by."""
    found = {name for stratum in stratify(core) if external & {*stratum.relations} for name in stratum.relations}
    readers: dict[str, set[str]] = {}
    for view, read in dependencies(core).items():
        for name in read:
            readers.setdefault(name, set()).add(view)
    before = -1
    while before != len(found):
        before = len(found)
        found |= {name for name in core.by_name if name not in declared and readers.get(name) and readers[name] <= found}
    return frozenset(found)


# ---- outside recursion


def _flat(relation: Relation, rules: Sequence[Rule], typer: Typer, together: Together) -> Step:
    windowing = windowing_of(rules[0])
    if windowing is not None:
        return _windowed(relation, rules[0], windowing)
    grouping = grouping_of(rules[0])
    if grouping is None:
        gain = beside(relation, "gain").name
        return Counted(relation, tuple(rules), _changes([_counting(rule, gain) for rule in rules], together))
    [rule] = rules
    firsts = tuple(_first(aggregate, grouping) for aggregate in grouping.aggregates)
    if len(firsts) == 1 and firsts[0] is not None:
        return Extreme(relation, rule, firsts[0])
    return _grouped(relation, rule, grouping, firsts, typer, together)


def _first(aggregate: Aggregate, grouping: Grouping) -> First | None:
    if aggregate.operation not in EXTREMES:
        return None
    atom = single_source(aggregate)
    assert atom is not None and isinstance(aggregate.target, Variable)
    places = {a.name: i for i, a in enumerate(atom.arguments) if isinstance(a, Variable)}
    groups = tuple(places[name] for name in grouping.groups)
    return First(aggregate.operation, atom.relation, groups, places[aggregate.target.name])


def _windowed(relation: Relation, rule: Rule, windowing: Windowing) -> Windowed:
    heads = [a.name for a in rule.head.arguments if isinstance(a, Variable)]
    partition = tuple(windowing.columns.index(name) for name in windowing.partition)
    return Windowed(relation, rule, windowing.source.relation, partition, tuple(map(heads.index, windowing.partition)))


def _grouped(
    relation: Relation, rule: Rule, grouping: Grouping, firsts: tuple[First | None, ...], typer: Typer, together: Together
) -> Grouped:
    groups = relation.columns[: len(grouping.groups)]
    summed = [None if first else aggregate.target for aggregate, first in zip(grouping.aggregates, firsts, strict=True)]
    # What is only looked up is told, too: a row that takes the place of another with the same sums may have another value.
    every = (*summed, *(aggregate.target for aggregate in grouping.aggregates))
    targets = list(dict.fromkeys(target for target in every if target is not None))
    columns = [Column(f"$target{i}", _target_type(target, grouping.body, typer)) for i, target in enumerate(targets)]
    gains = Relation(f"{relation.name}$gain", (*groups, *columns, Column(COUNT, NUMBER)))
    counting = Rule(Atom(gains.name, (*map(Variable, grouping.groups), *targets)), grouping.body)
    places = tuple(None if target is None else targets.index(target) for target in summed)
    full, changes = _with(counting, _ONE), _changes([counting], together)
    return Grouped(relation, rule, groups, grouping.aggregates, places, gains, full, changes, firsts)


def _target_type(target: Term, body: tuple[Literal, ...], typer: Typer) -> Type:
    probe = Variable("$target")
    types = typer.body_types((*body, Comparison("=", probe, target)))
    return types[probe.name].optional(may_be_null(target, typer.body_types(body)))


def _counting(rule: Rule, gain: str) -> Rule:
    return Rule(Atom(gain, rule.head.arguments or (_ONE,)), rule.body)


def _with(rule: Rule, *more: Term) -> Rule:
    return replace(rule, head=replace(rule.head, arguments=(*rule.head.arguments, *more)))


def _changes(rules: Sequence[Rule], together: Together) -> Rules:
    """For each group of relations that the rules read, how many derivations its change brings."""
    return {
        group: tuple(changed for rule in rules for changed in _changed(rule, group)) for group in _groups_read(rules, together)
    }


def _groups_read(rules: Sequence[Rule], together: Together) -> list[tuple[str, ...]]:
    """The relations that change together, of those that the rules read."""
    return sorted({together[relation_read(literal)] for rule in rules for literal in rule.body if relation_read(literal)})


def _changed(rule: Rule, group: tuple[str, ...]) -> Iterator[Rule]:
    for chosen in _choices(rule.body, group):
        # Of -s and s the one that makes the product's sign right without a multiplication.
        negative = (len(chosen) % 2 == 0) ^ (sum(isinstance(rule.body[i], Negation) for i in chosen) % 2 == 1)
        changed: list[Literal] = []
        signs: list[Term] = []
        for number, position in enumerate(chosen):
            literal, sign, unused = rule.body[position], Variable(f"$s{number}"), Wildcard()
            both = (unused, sign) if negative and not number else (sign, unused)
            changed.append(Atom(f"{relation_read(literal)}$change", (*_arguments(literal), *both)))
            signs.append(sign)
        product: Term = signs[0]
        for factor in signs[1:]:
            product = Call("*", (product, factor))
        yield _with(replace(rule, body=(*changed, *_others(rule.body, chosen))), product)


def _choices(body: Sequence[Literal], group: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    positions = [i for i, literal in enumerate(body) if relation_read(literal) in group]
    for size in range(1, len(positions) + 1):
        yield from combinations(positions, size)


def _others(body: Sequence[Literal], chosen: tuple[int, ...]) -> Iterator[Literal]:
    return (literal for i, literal in enumerate(body) if i not in chosen)


def _arguments(literal: Literal) -> tuple[Term, ...]:
    assert isinstance(literal, (Atom, Negation))
    return (literal.atom if isinstance(literal, Negation) else literal).arguments or (_ONE,)


# ---- recursion


def _recursive(relations: tuple[Relation, ...], rules: Sequence[Rule], together: Together) -> Recursive | Recomputed:
    members = {relation.name for relation in relations}
    ranked = {name: tuple(_ranked(r, members) for r in rules if r.head.relation == name) for name in members}
    deltas = {
        name: tuple(
            (r, i) for r in found for i, literal in enumerate(r.body) if relation_read(literal) in _all(members, "ranked")
        )
        for name, found in ranked.items()
    }
    if any(column.type.nullable for relation in relations for column in relation.columns):
        return Recomputed(relations, ranked, deltas, "a column of the recursion may be NULL")
    below = [group for group in _groups_read(rules, together) if not members & set(group)]
    of = {name: [r for r in rules if r.head.relation == name] for name in members}
    return Recursive(
        relations,
        {g: {name: tuple(hit for rule in of[name] for hit in _hits(rule, g, members)) for name in members} for g in below},
        {name: tuple(hit for rule in of[name] for hit in _lost(rule, members)) for name in members},
        {name: tuple(_proof(rule, members, "<") for rule in of[name]) for name in members},
        {name: tuple(_proof(rule, members, "<=") for rule in of[name]) for name in members},
        {name: tuple(_proof(rule, members, None) for rule in of[name]) for name in members},
        {g: {name: tuple(f for rule in of[name] for f in _found(rule, g, members)) for name in members} for g in below},
        ranked,
        deltas,
    )


def _all(members: set[str], what: str) -> set[str]:
    return {f"{name}${what}" for name in members}


def _hits(rule: Rule, group: tuple[str, ...], members: set[str]) -> Iterator[Rule]:
    """Rows that have a derivation from rows that went (or from the absence of rows that came), and from lower ranks."""
    ranked = _ranked(rule, members)
    old = _highest([rank for literal in ranked.body for rank in _rank_of(literal, members)])
    head = Atom(f"{rule.head.relation}$hit", (*_arguments(rule.head), old, Constant(SUSPENDED, NUMBER)))
    for chosen in _choices(ranked.body, group):
        changed = [_change(ranked.body[i], went=isinstance(ranked.body[i], Atom)) for i in chosen]
        yield Rule(head, (*changed, *_others(ranked.body, chosen)))


def _change(literal: Literal, went: bool) -> Atom:
    return Atom(f"{relation_read(literal)}$change", (*_arguments(literal), Constant(-1 if went else 1, NUMBER), Wildcard()))


def _lost(rule: Rule, members: set[str]) -> Iterator[Rule]:
    """Rows that have a derivation from a lost row of the stratum, and from lower ranks; lost rows are in their relation still."""
    ranked = _ranked(rule, members)
    for i, literal in enumerate(ranked.body):
        if isinstance(literal, Atom) and literal.relation in _all(members, "ranked"):
            identity, old, new = Variable("$id"), Variable("$old"), Variable("$new")
            lost = Atom(f"{literal.relation.removesuffix('$ranked')}$lost", (identity, old, new))
            row = replace(literal, arguments=(*literal.arguments[:-2], Wildcard(), identity))
            head = Atom(f"{rule.head.relation}$hit", (*_arguments(rule.head), old, new))
            yield Rule(head, (lost, row, *_others(ranked.body, (i,))))


def _proof(rule: Rule, members: set[str], operator: str | None) -> Rule:
    """The rule for a row that is asked about, with ranks below its own, or of any rank."""
    ranked = _ranked(rule, members)
    asked = Atom(f"{rule.head.relation}$asked", (*_arguments(rule.head), Variable("$asked"), Wildcard()))
    ranks = [argument for literal in ranked.body for argument in _rank_of(literal, members)]
    lower = [] if operator is None else [Comparison(operator, rank, Variable("$asked")) for rank in ranks]
    return replace(ranked, body=(asked, *ranked.body, *lower))


def _found(rule: Rule, group: tuple[str, ...], members: set[str]) -> Iterator[Rule]:
    """Rows that have a derivation from rows that came (or from the absence of rows that went)."""
    ranked = _ranked(rule, members)
    for i, literal in enumerate(ranked.body):
        if relation_read(literal) in group:
            changed = _change(literal, went=isinstance(literal, Negation))
            yield replace(ranked, body=(changed, *_others(ranked.body, (i,))))


def _ranked(rule: Rule, members: set[str]) -> Rule:
    """The rule with the rank that it gives to what it derives."""
    body: list[Literal] = []
    ranks: list[Term] = []
    for i, literal in enumerate(rule.body):
        if isinstance(literal, Atom) and literal.relation in members:
            rank = Variable(f"$rank{i}")
            ranks.append(rank)
            literal = Atom(f"{literal.relation}$ranked", (*_arguments(literal), rank, Wildcard()))
        body.append(literal)
    step = Constant(RANK_STEP, NUMBER)
    rank_of_head = Call("+", (_highest(ranks), step)) if ranks else step
    return Rule(Atom(f"{rule.head.relation}$found", (*_arguments(rule.head), rank_of_head)), tuple(body))


def _highest(ranks: Sequence[Term]) -> Term:
    if not ranks:
        return Constant(-1, NUMBER)
    return ranks[0] if len(ranks) == 1 else Call("max", tuple(ranks))


def _rank_of(literal: Literal, members: set[str]) -> Iterator[Term]:
    if isinstance(literal, Atom) and literal.relation in _all(members, "ranked"):
        yield literal.arguments[-2]
