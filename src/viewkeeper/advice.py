"""Which views to store: measured by playing the last transactions again, with all views stored and with none.

Both are done on copies of the warehouse, in a directory that is gone afterwards.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.engines.names import sql_name
from viewkeeper.errors import StoreError, ViewkeeperError, problem
from viewkeeper.history import changes_of
from viewkeeper.program.patience import at_most, overdue
from viewkeeper.store.catalog import FILE, NOWHERE

if TYPE_CHECKING:
    from viewkeeper.changed import Changed
    from viewkeeper.definitions import Definitions
    from viewkeeper.state import State
    from viewkeeper.warehouse import Warehouse

# Storing pays if a change is faster by so much.
_FASTER, _SECONDS = 1.25, 0.0001
# What nobody has asked for may be measured if it takes no time: so few transactions, of so small a warehouse, for so long.
_FEW, _SMALL, _PATIENCE = 5, 32 << 20, 3.0


@dataclass(frozen=True)
class Advice:
    """What a view costs stored and external: seconds of a change, on average, and the space its rows take."""

    view: str
    is_external: bool
    rows: int
    size: int
    stored: float
    external: float

    @property
    def external_is_better(self) -> bool:
        """Unless a change is faster with it stored."""
        return self.external <= self.stored * _FASTER + _SECONDS

    @property
    def reason(self) -> str:
        if self.external_is_better:
            longer = f"{max(0.0, self.external - self.stored) * 1000:.2f} ms"
            return f"a change takes {'no' if longer == '0.00 ms' else longer} longer without its rows, which take space"
        return f"a change is {self.external / max(self.stored, 1e-6):.1f} times faster with it"


def advise(state: State, definitions: Definitions, commits: int) -> tuple[int, list[Advice]]:
    """How many transactions were played again, and what they tell of each view."""
    from viewkeeper.warehouse import Warehouse

    if any(kept.place == "cold" for kept in state.kept.values()):
        raise StoreError(problem("NO_ADVICE", why="a relation is kept only as a snapshot"))
    workload = list(_workload(state, definitions, commits))
    if not workload:
        raise StoreError(problem("NO_ADVICE", why="there was no transaction since its views were defined"))
    views = sorted(state.program.derived - state.program.virtual)
    with tempfile.TemporaryDirectory(prefix="viewkeeper-") as directory:
        seconds: dict[bool, dict[str, float]] = {}
        for external in (False, True):
            path = Path(directory) / str(external)
            _copy(state, path)
            with Warehouse(path, engine="embedded", durable=False) as copy:
                for view in copy.levels():
                    copy.set_level(view, None)  # on the way back there may be what came to be refused
                copy.store(views, external=external)
                seconds[external] = _played(copy, workload)
                if not external:
                    rows = {shown.relation.name: shown.rows or 0 for shown in copy.show()}
                    sizes = _sizes(path / FILE, views)
    held = {kept.name for kept in state.kept.values() if kept.place == NOWHERE}
    return len(workload), [
        Advice(view, view in held, rows[view], sizes[view], seconds[False].get(view, 0.0), seconds[True].get(view, 0.0))
        for view in views
    ]


def glance(view: str, state: State, definitions: Definitions) -> Advice | None:
    """What ``advise`` tells of a view, if that takes next to no time."""
    [[size]] = state.catalog.connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    if size > _SMALL:
        return None
    try:
        with at_most(_PATIENCE):
            _, found = advise(state, definitions, _FEW)
    except (ViewkeeperError, sqlite3.Error, OSError):  # the copies are our affair
        return None
    return next((one for one in found if one.view == view), None)


def _workload(state: State, definitions: Definitions, commits: int) -> Iterator[dict[str, Changed]]:
    """What the last transactions changed in base relations, the last one first, as far back as the definitions are the same."""
    defined = max((definition.commit for definition in state.catalog.definitions() if definition.kind != "level"), default=0)
    last = state.catalog.last_commit()
    for number in range(last, max(defined, last - commits, state.catalog.oldest()), -1):
        changes = changes_of(state, definitions, number)
        if changes:
            yield {name: changed for name, changed in changes.items() if name not in state.program.derived}


def _copy(state: State, path: Path) -> None:
    path.mkdir()
    with closing(sqlite3.connect(path / FILE)) as copy:
        state.catalog.connection.backup(copy)
    (path / "lock").touch()


def _played(copy: Warehouse, workload: list[dict[str, Changed]]) -> dict[str, float]:
    """Takes the transactions back and makes them again; the mean seconds of each view.

    The first time prepares; of two others the faster one counts for each transaction, as a busy machine halts one now and then.
    """
    times = []
    for _ in range(3):
        for changes in workload:
            _commit(copy, changes, back=True)
        times.append([_commit(copy, changes, back=False) for changes in reversed(workload)])
    best = [{view: min(one[view], other.get(view, one[view])) for view in one} for one, other in zip(*times[1:], strict=True)]
    views = {view for one in best for view in one}
    return {view: statistics.fmean(one.get(view, 0.0) for one in best) for view in views}


def _commit(copy: Warehouse, changes: Mapping[str, Changed], back: bool) -> dict[str, float]:
    if (late := overdue()) is not None:
        raise late
    rows = {name: list(changed.values()) for name, changed in changes.items()}
    came = {name: [row for kind, row in found if (kind == "insert") is not back] for name, found in rows.items()}
    went = {name: [row for kind, row in found if (kind == "insert") is back] for name, found in rows.items()}
    commit = copy.commit(came, went, engine="embedded")
    return {name: view.seconds for name, view in commit.views.items()}


def _sizes(path: Path, views: list[str]) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return {view: size_of(connection, view) for view in views}


def size_of(connection: sqlite3.Connection, view: str) -> int:
    """The bytes that the tables and indexes of a view take."""
    sql = (
        "SELECT coalesce(sum(pgsize), 0) FROM main.sqlite_master AS s CROSS JOIN dbstat AS d ON d.name = s.name"
        " WHERE s.tbl_name IN (?, ?) AND d.aggregate = 1"
    )
    [[size]] = connection.execute(sql, (sql_name(view), f"$state of {sql_name(view)}"))
    return int(size)
