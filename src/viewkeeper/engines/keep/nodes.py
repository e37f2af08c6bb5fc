"""A rule that derives rows on demand, with what it starts from and how far it was evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.engines.keep.derived import Derived
from viewkeeper.engines.keep.few_rows import Aggregated, Joined, OfRows
from viewkeeper.engines.keep.states import Changed
from viewkeeper.program.ast import Atom, Rule, Variable, Wildcard, all_variables
from viewkeeper.program.plan import Level


@dataclass(eq=False)
class Node:
    """A rule, and how far it was evaluated in this change."""

    rule: Rule
    level: Level
    number: int
    head: Derived
    view: str
    growing: tuple[tuple[int, Derived], ...]
    """The positions of atoms whose relations are derived, too."""
    triggers: tuple[tuple[int, str, int], ...]
    """Positions of atoms of stored relations that must have rows that came (1) or went (-1)."""
    before: tuple[str, ...]
    """Stored relations that are read as they were."""
    whole: tuple[Derived, ...]
    reads: tuple[Derived, ...]
    """All derived relations in it."""
    few: Joined | OfRows | None
    """How it is evaluated for few rows."""
    can_fail: bool
    """What can fail must not be evaluated before what guards it, which SQLite may do with values that it takes for constants: such a
    rule reads tables only."""
    rows: tuple[Node, ...] = ()
    """The rules that derive what this one aggregates, if nobody else reads that: they are evaluated only if there is much."""
    direct: dict[Derived, Aggregated] = field(default_factory=dict)
    """How it is evaluated for few rows of what asks for it, without those rules."""
    seen: list[int] | None = None
    waiting: bool = False
    compiled: dict[tuple[int, Changed], list[tuple[str, Any]]] = field(default_factory=dict)

    @property
    def is_alone(self) -> bool:
        """Needs nothing but one of its triggers."""
        return len(self.triggers) == 1 and not self.growing and not self.whole


def is_joined_for(node: Node, asking: Sequence[Derived]) -> bool:
    """Does a rule join what is stored with one of these, and nothing else that is derived?"""
    return (
        len(node.growing) == len(node.reads) == 1 and node.growing[0][1] in asking and not node.triggers and not node.can_fail
    )


def derives_groups(rule: Rule, place: int, groups: Sequence[str]) -> bool:
    """Does a rule derive whole groups for each row of an atom, and each row of them once?"""
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    guard = rule.body[place]
    assert isinstance(guard, Atom)
    return (
        all(isinstance(term, Variable) and term.name in groups for term in guard.arguments)
        and not any(isinstance(term, Wildcard) for atom in atoms for term in atom.arguments)
        and {*all_variables(rule.body)} <= {*all_variables((rule.head,))}
    )
