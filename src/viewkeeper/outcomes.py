"""What the methods of a warehouse tell: progress while they work, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from viewkeeper.answer import shown_in_message, text_of
from viewkeeper.changed import Changed
from viewkeeper.program.ast import NAMED_IN_MESSAGE, Relation, Rule
from viewkeeper.program.printing import print_relation, print_rule
from viewkeeper.store.rejects import Reject

if TYPE_CHECKING:
    import pyarrow as pa

    from viewkeeper.answer import Answer
    from viewkeeper.engines.evaluator import Progress as Progress
    from viewkeeper.store.catalog import Catalog


@dataclass(frozen=True)
class Loading:
    """Where a load is."""

    relation: str
    rows: int


if TYPE_CHECKING:
    Report = Callable[[Progress | Loading], None]


def silent(progress: Progress | Loading) -> None:
    """Tells nobody."""


REASONS = {
    "first computation": "first rows of what it reads",
    "counting": "not recursive: each row is kept with the number of its derivations",
    "totals": "an aggregate of sums: each group is kept with its totals",
    "ordered index": "a minimum or maximum: an index finds the next value when the current one goes",
    "partitions recomputed": "a window: the partitions of rows that change are computed again",
    "rederivation": "external: nothing of it is stored; what changes in it is derived on demand from what it reads",
    "maintenance rules": "recursive: before a row goes another derivation is looked for, in the order of ranks",
}
"""Why views are brought up to date by these strategies, where nothing else is the reason."""


class Maintained(msgspec.Struct, omit_defaults=True):
    """How a commit brought a view up to date; the catalog keeps it like this. ``touched``: rows and derivations it looked at on the way.

    ``why``: the reason, where it does not follow from the strategy: what is always the same is not written with every commit.
    ``rederived``: rows from before the commit, or after it, that had to be derived again, of views that are not stored.
    """

    view: str
    strategy: str
    engine: str
    seconds: float
    touched: int
    why: str = msgspec.field(default="", name="reason")
    rederived: int = 0

    @property
    def reason(self) -> str:
        """Why in this way."""
        return self.why or REASONS.get(self.strategy, "")

    def add(self, seconds: float, touched: int, rederived: int) -> None:
        """Adds what a part of the view took."""
        self.seconds += seconds
        self.touched += touched
        self.rederived += rederived


@dataclass(frozen=True)
class Violated:
    """Rows that came to an integrity view. ``message`` is as it was declared; ``told()`` has the values of each row in it."""

    view: str
    level: str
    message: str
    changed: Changed

    def told(self) -> Iterator[str]:
        """For each row that came the message about it, or the row itself."""
        names = [column.name for column in self.changed.relation.columns]
        for row in self.changed.rows():
            if self.message:
                values = dict(zip(names, row, strict=True))
                yield NAMED_IN_MESSAGE.sub(lambda found, values=values: text_of(values[found[1]]), self.message)  # type: ignore[misc]
            else:
                yield f"{self.view}({', '.join(map(shown_in_message, row))})"


@dataclass(frozen=True)
class Leveled:
    """What became of the level of an integrity view, and the rows that violate it now."""

    commit: Commit
    violated: Answer


@dataclass(frozen=True)
class Commit:
    """What a change of the warehouse did. ``number`` is None where nothing had to be changed. ``rows``: how many what it changed has now,
    None where nothing is stored.

    ``repeated``: its key was used before; ``number`` is that of the commit then, and nothing was changed now.
    """

    number: int | None
    engine: str
    reason: str
    seconds: float = 0.0
    rows: dict[str, int | None] = field(default_factory=dict)
    inserted: dict[str, int] = field(default_factory=dict)
    changes: dict[str, Changed] = field(default_factory=dict)
    views: dict[str, Maintained] = field(default_factory=dict)
    rejected: int = 0
    rejects: tuple[Reject, ...] = ()
    rejects_file: Path | None = None
    violations: dict[str, Violated] = field(default_factory=dict)
    repeated: bool = False


@dataclass(frozen=True)
class Result:
    """What a statement of SQL gave: a commit, which the statements of one transaction share, an answer, or a message."""

    statement: str
    kind: str
    commit: Commit | None = None
    answer: Answer | None = None
    message: str = ""


@dataclass(frozen=True)
class Shown:
    """A relation as ``show`` tells it. ``rows`` is None where nothing is stored, ``level`` where it is no integrity view."""

    relation: Relation
    kind: str
    rows: int | None
    place: str
    rules: tuple[Rule, ...]
    level: str | None = None

    @property
    def declaration(self) -> str:
        return "\n".join([print_relation(self.relation), *map(print_rule, self.rules)])


@dataclass(frozen=True)
class Verified:
    """A view compared with its recomputation: rows missing from it and rows it should not have."""

    view: str
    rows: int
    missing: pa.Table
    surplus: pa.Table

    @property
    def right(self) -> bool:
        return not len(self.missing) and not len(self.surplus)


@dataclass(frozen=True)
class Logged:
    """A commit as the log tells it: for each relation it changed how many rows came and went."""

    number: int
    time: str
    kind: str
    engine: str
    seconds: float
    reason: str
    changes: dict[str, tuple[int, int]]
    views: list[dict[str, object]]


def logged(catalog: Catalog, since: int, relation: str | None, until: int | None = None) -> list[Logged]:
    changes: dict[int, dict[str, tuple[int, int]]] = {}
    for commit, name, inserted, deleted, _ in catalog.changes(since, until, relation):
        changes.setdefault(commit, {})[name] = (inserted, deleted)
    found = []
    for number, time, kind, engine, seconds, detail in catalog.commits(since, until):
        if relation is None or number in changes:
            views = [_with_reason(view) for view in detail.get("views", []) if relation in (None, view["view"])]
            found.append(Logged(number, time, kind, engine, seconds, detail["reason"], changes.get(number, {}), views))
    return found


def _with_reason(record: dict[str, object]) -> dict[str, object]:
    """What the catalog keeps of a ``Maintained``, with the reason that was not written."""
    return {"reason": REASONS.get(str(record["strategy"]), ""), **record}


def is_logged(catalog: Catalog, relation: str) -> bool:
    """Does the log tell of a relation, which may be dropped by now? Of one that never had a row only how it was computed."""
    if not relation:  # it is how the log names commits themselves
        return False
    views = (view["view"] for *_, detail in catalog.commits(0) for view in detail.get("views", []))
    return bool(catalog.changes(0, None, relation)) or relation in views
