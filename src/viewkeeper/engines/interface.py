"""What an engine is.

The life of a row: it is **inserted** from outside or **derived** by a step. What a step derives that was not there before is the
relation's **delta** until the next step. The evaluator decides what to derive; the engine holds the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from viewkeeper.program.ast import Program, Relation, Rule


@dataclass(frozen=True)
class Derivation:
    """A core rule to evaluate, with the position of the literal that reads only its relation's delta."""

    rule: Rule
    delta: int | None = None


class Engine(Protocol):
    """Holds rows of relations and derives more. Rows go in and out as Arrow tables of stored values."""

    name: str

    def prepare(self, core: Program) -> None:
        """Makes the core program's relations known; those not there yet are created empty."""

    def insert(self, relation: str, rows: Iterable[pa.RecordBatch]) -> int:
        """Adds rows that are not there yet; returns how many."""

    def begin(self, relations: Sequence[str], since: Mapping[str, int] | None = None) -> None:
        """Starts a stratum: after the first step, the delta of each of its relations is all of its rows. ``since``: it goes on, and in the first
        step the deltas are what came after these marks."""

    def mark(self, relation: str) -> int | None:
        """By which ``begin`` finds the rows that come later; None if the engine cannot tell them."""

    def step(self, derivations: Mapping[str, Sequence[Derivation]]) -> dict[str, int]:
        """Evaluates all derivations of all relations; returns how many rows are new in each. The new rows become the deltas."""

    def end(self, relations: Sequence[str]) -> None:
        """Ends the stratum."""

    def count(self, relation: str) -> int: ...

    def read(self, relation: Relation, ordered: bool = False) -> Iterable[pa.RecordBatch]:
        """All rows of a relation; ordered by their values, NULL first, or as they come."""

    def close(self) -> None: ...
