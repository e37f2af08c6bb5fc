"""How stored views follow changes: for each stratum, the rules that say what a change of a relation it reads does to it.

``rewrite.maintain`` makes plans out of core programs, engines carry them out. The rules of a plan read and write relations
beside the stored ones, named with a ``$``, which no relation of a program can contain:

    r$change(…, s, t)      what changed in r: s is 1 for a row that came and -1 for one that went, t is -s
    p$gain(…, n)           derivations that a counted or grouped view gains or, with n < 0, loses
    p$ranked(…, rank, id)  a recursive view with the ranks and numbers of its rows
    p$lost(id, old, new)   rows of a recursive view that go, or whose rank rises from old to new
    p$asked(…, rank, id)   rows of a recursive view for which a proof is looked for
    p$hit(…, old, new)     rows that may depend on a lost one
    p$found(…, rank)       rows with a proof, and the rank that it gives them

The rank of a row of a recursive view is higher than that of each row of its stratum in one of its derivations. Whoever finds a derivation
of lower ranks has found a proof that does not go in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from viewkeeper.program.ast import Aggregate, Column, Program, Relation, Rule
from viewkeeper.program.types import NUMBER

SIGN, OPPOSITE, COUNT, RANK, ID, OLD, NEW = "$s", "$t", "$n", "$rank", "$id", "$old", "$new"
PRESENT = "$present"

# Between two ranks of rows that follow from each other there is room for proofs that are found later.
RANK_STEP = 1 << 20
# Ranks are lower; a row with this one has lost its proof and none was found yet.
SUSPENDED = 1 << 62

Group: TypeAlias = tuple[str, ...]
"""Relations that change together: those of a stratum."""

Rules: TypeAlias = Mapping[Group, tuple[Rule, ...]]
"""For each group that may change the rules to evaluate. The literals that read the change come first."""

OfRelation: TypeAlias = Mapping[str, tuple[Rule, ...]]
"""For each relation of the stratum."""


@dataclass(frozen=True)
class Base:
    """A relation that is changed from outside."""

    relation: Relation

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.relation,)


@dataclass(frozen=True)
class Counted:
    """A view outside recursion: each row is kept with the number of its derivations."""

    relation: Relation
    rules: tuple[Rule, ...]
    changes: Rules

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.relation,)


@dataclass(frozen=True)
class First:
    """The least (min) or greatest (max) value of a group: r is searched by the group, in the order of the target. Positions are those in r."""

    operation: str
    source: str
    groups: tuple[int, ...]
    target: int


@dataclass(frozen=True)
class Grouped:
    """``p(g, v, w) :- v = sum t : { … }, w = count : { … }`` for count, sum and mean: each group is kept with totals.

    ``gains``: p$gain(g, t, n), with a column for each target, those that are summed up first; ``targets``: which of these each aggregate
    sums up, if it does; ``firsts``: where min and max among the aggregates are looked up, None for others.
    """

    relation: Relation
    rule: Rule
    groups: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    targets: tuple[int | None, ...]
    gains: Relation
    full: Rule
    changes: Rules
    firsts: tuple[First | None, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.relation,)


@dataclass(frozen=True)
class Extreme:
    """``p(g, v) :- v = min t : { r(…) }`` alone."""

    relation: Relation
    rule: Rule
    first: First

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.relation,)


@dataclass(frozen=True)
class Windowed:
    """``p(g, x, v) :- v = rank : { r(g, x) } over (g; x)``: partitions of r that change are computed again.

    ``partition``: the positions of their columns in r; ``places``: those in p.
    """

    relation: Relation
    rule: Rule
    source: str
    partition: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.relation,)


@dataclass(frozen=True)
class Recursive:
    """Views that depend on themselves or on each other: each row is kept with its rank.

    ``hits``: p$hit of a change below; ``lost``: p$hit of rows lost in the stratum; ``proofs``: p$found of p$asked with lower
    ranks, ``raised``: with the same rank or lower, ``again``: with any; ``found``: p$found of a change below; ``rules``: p$found of
    everything, and with the literal at a position of ``deltas`` reading only the newest rows.
    """

    relations: tuple[Relation, ...]
    hits: Mapping[Group, OfRelation]
    lost: OfRelation
    proofs: OfRelation
    raised: OfRelation
    again: OfRelation
    found: Mapping[Group, OfRelation]
    rules: OfRelation
    deltas: Mapping[str, tuple[tuple[Rule, int], ...]]


@dataclass(frozen=True)
class Recomputed:
    """Views that are computed anew when something they read changes, and why."""

    relations: tuple[Relation, ...]
    rules: OfRelation
    deltas: Mapping[str, tuple[tuple[Rule, int], ...]]
    why: str


@dataclass(frozen=True)
class External:
    """Views of which nothing is stored; what changes in them is told by the plan's demands."""

    relations: tuple[Relation, ...]
    rules: tuple[Rule, ...]
    stratum: int


Step: TypeAlias = Base | Counted | Grouped | Extreme | Windowed | Recursive | Recomputed | External

Level: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Demands:
    """Rules that derive rows on demand, and their relations, named with a ``$`` as well.

    ``levels``: of each relation that a rule derives. A rule is evaluated when no rule of a lower level has anything to do.
    ``whole``: rules that are evaluated as a whole, of aggregates and windows, if a row of one of these relations asks for it.
    """

    relations: Mapping[str, Relation]
    rules: tuple[Rule, ...]
    levels: Mapping[str, Level]
    whole: Mapping[Rule, tuple[str, ...]]


@dataclass(frozen=True)
class Plan:
    """The steps in an order in which each reads only earlier ones and itself; ``parts``: relations that are parts of virtual views, and of which."""

    core: Program
    steps: tuple[Step, ...]
    reads: Mapping[str, frozenset[str]]
    demands: Demands | None = None
    parts: Mapping[str, str] = field(default_factory=dict)

    @property
    def bases(self) -> tuple[str, ...]:
        """The relations that are changed from outside."""
        return tuple(step.relation.name for step in self.steps if isinstance(step, Base))


def free_magic(view: Relation) -> str:
    """The relation whose row asks for all rows of a view."""
    return f"{view.name}$m_{'f' * len(shown_columns(view))}"


def beside(relation: Relation, what: str) -> Relation:
    """The relation of a plan beside a stored one."""
    return Relation(f"{relation.name}${what}", (*shown_columns(relation), *_MORE[what]) if what != "lost" else _MORE[what])


def shown_columns(relation: Relation) -> tuple[Column, ...]:
    """A relation without columns has one that is always 1."""
    return relation.columns or (Column(PRESENT, NUMBER),)


_MORE: dict[str, tuple[Column, ...]] = {
    what: tuple(Column(name, NUMBER) for name in names)
    for what, names in {
        "change": (SIGN, OPPOSITE),
        "gain": (COUNT,),
        "ranked": (RANK, ID),
        "asked": (RANK, ID),
        "lost": (ID, OLD, NEW),
        "hit": (OLD, NEW),
        "found": (RANK,),
        "gone": (),
    }.items()
}
