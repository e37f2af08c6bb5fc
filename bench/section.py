"""What a section of the report is, and the goals it prints."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """How a subject is run: with the largest sizes or not, and what the subjects before it found."""

    large: bool
    earlier: Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """A part of the report. Each subject measures in a process of its own and returns what JSON can hold."""

    title: str
    subjects: Mapping[str, Callable[[Run], Any]]
    text: Callable[[Mapping[str, Any]], list[str]]
    limit: int = 900


@dataclass(frozen=True)
class Goal:
    """What we set out to reach: ``measured`` at least, or at most, or under ``limit``."""

    name: str
    measured: float
    bound: str
    limit: float
    unit: str = "times"

    @property
    def reached(self) -> bool:
        match self.bound:
            case "at least":
                return self.measured >= self.limit
            case "at most":
                return self.measured <= self.limit
        assert self.bound == "under"
        return self.measured < self.limit


def goals(*wanted: Goal) -> list[str]:
    lines = ["| goal | wanted | measured | |", "| --- | ---: | ---: | --- |"]
    for goal in wanted:
        told = "reached" if goal.reached else "**missed**"
        lines.append(
            f"| {goal.name} | {goal.bound} {goal.limit:,g} {goal.unit} | {number(goal.measured)} {goal.unit} | {told} |"
        )
    return lines


@dataclass(frozen=True)
class Times:
    """Seconds of many changes."""

    seconds: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        """The smallest time that 99 of 100 do not exceed."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]

    @property
    def max(self) -> float:
        return max(self.seconds)

    def cells(self) -> str:
        return f"{len(self.seconds):,} | {ms(self.median)} | {ms(self.p99)} | {ms(self.max)}"


TIMES = ["| | changes | median | p99 | max |", "| --- | ---: | ---: | ---: | ---: |"]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def ms(seconds: float) -> str:
    return f"{number(seconds * 1000)} ms"


def agree(what: str, ours: object, theirs: object) -> None:
    """A measurement of two that compute different things is worth nothing."""
    if ours != theirs:
        if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
            place = next(i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
            what, ours, theirs = f"{what}, number {place}", ours[place], theirs[place]
        raise ValueError(f"{what} differ: {ours!s:.100} and {theirs!s:.100}")
