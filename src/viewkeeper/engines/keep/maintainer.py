"""Carries out a plan: base changes in, changes of all views out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep.counting import CountingKeeper
from viewkeeper.engines.keep.grouping import ExtremeKeeper, TotalKeeper
from viewkeeper.engines.keep.keeper import BaseKeeper, Keeper, Signs, Stored
from viewkeeper.engines.keep.recursion import RecursionKeeper, RenewingKeeper, renew
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.names import sql_name
from viewkeeper.program.plan import SIGN, Base, Counted, Extreme, Grouped, Plan, Recomputed, Recursive, Step

Settled = Callable[[Step, float, int], None]
"""Told after each step, with the seconds it took and the rows it touched."""

_KEEPERS: dict[type[Any], Callable[[Tables, Any], Keeper]] = {
    Base: lambda tables, step: BaseKeeper(tables, step.relation),
    Counted: CountingKeeper,
    Grouped: TotalKeeper,
    Extreme: ExtremeKeeper,
    Recursive: RecursionKeeper,
    Recomputed: RenewingKeeper,
}


class Maintainer:
    """Keeps the views of a plan in the database of an engine, within the caller's transactions."""

    def __init__(self, engine: EmbeddedEngine, plan: Plan) -> None:
        self.plan, self.tables = plan, Tables(engine, plan)
        engine.stored |= plan.core.by_name.keys()
        self.keepers: list[Keeper] = [_KEEPERS[type(step)](self.tables, step) for step in plan.steps]
        self._readers: dict[str, list[int]] = {}
        for number, keeper in enumerate(self.keepers):
            own = {relation.name for relation in keeper.relations}
            for read in {r for name in own for r in plan.reads.get(name, ())} - own:
                self._readers.setdefault(read, []).append(number)
        self.fresh: set[str] = set()
        self._detailed: set[str] = set()
        self._bases = {keeper.relations[0].name: keeper for keeper in self.keepers if isinstance(keeper, BaseKeeper)}
        self._stored = {stored.relation.name: stored for keeper in self.keepers for stored in _stored(keeper)}

    # ---- tables

    def create(self, relations: Iterable[str]) -> None:
        """The tables of these relations, where they are not there yet."""
        wanted = set(relations)
        for keeper in self.keepers:
            if wanted & {relation.name for relation in keeper.relations}:
                keeper.create()

    def prepare(self) -> None:
        """All indexes."""
        for keeper in self.keepers:
            keeper.prepare()

    def fill(self, relations: Iterable[str]) -> None:
        """Computes views, empty so far, from what they read, which is there."""
        wanted = set(relations)
        for keeper in self.keepers:
            if wanted & {relation.name for relation in keeper.relations}:
                keeper.fill()

    # ---- changes

    def base(self, relation: str) -> BaseKeeper:
        return self._bases[relation]

    def propagate(
        self,
        changed: Signs,
        fresh: Iterable[str] = (),
        renewing: bool = False,
        report: Settled = lambda step, seconds, touched: None,
    ) -> dict[str, frozenset[int]]:
        """Brings in the changes noted for base relations and what follows from them; returns what has changed, in order.

        ``fresh``: base relations that were empty and whose new rows are there already; views that were empty and read only such
        relations are computed instead of maintained, and become fresh themselves. ``renewing``: all views are computed anew.
        """
        self.fresh = set(fresh)
        pending: set[int] = set()
        filling: set[int] = set()
        signs: dict[str, frozenset[int]] = {}
        for number, keeper in enumerate(self.keepers):
            own = [relation.name for relation in keeper.relations]
            started = time.perf_counter()
            if isinstance(keeper, BaseKeeper):
                if own[0] not in changed:
                    continue
                signs[own[0]] = changed[own[0]]
                if own[0] not in self.fresh:
                    keeper.settle()
            elif number in filling:
                keeper.fill()
                new = {name for name in own if not self._stored[name].is_empty()}
                self.fresh |= new
                signs |= dict.fromkeys(new, frozenset({1}))
            elif number in pending:
                if renewing:
                    renew(self.tables, keeper, _stored(keeper))
                else:
                    keeper.settle()
                signs |= {name: found for name in own if (found := self._stored[name].signs())}
            else:
                continue
            report(self.plan.steps[number], time.perf_counter() - started, keeper.touched)
            keeper.touched = 0
            self._tell(own, signs, pending, filling, renewing)
        return signs

    def _tell(self, own: list[str], signs: Signs, pending: set[int], filling: set[int], renewing: bool) -> None:
        """Lets those who read the relations notice that they have changed."""
        changed = [name for name in own if name in signs]
        all_fresh = all(name in self.fresh for name in changed)
        for reader in sorted({reader for name in changed for reader in self._readers.get(name, ())} - filling):
            if all_fresh and reader not in pending and all(stored.is_empty() for stored in _stored(self.keepers[reader])):
                filling.add(reader)
                continue
            pending.add(reader)
            if renewing:
                continue
            for name in changed:
                self.detail(name)
            self.keepers[reader].notice(tuple(own), signs)

    def detail(self, relation: str) -> None:
        """Makes sure that the changes of a relation are noted row by row."""
        if relation in self.fresh and relation not in self._detailed:
            self._detailed.add(relation)
            self._stored[relation].all_came()

    def changes(self, relation: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows that came and those that went."""
        stored = self._stored[relation]
        return tuple(  # type: ignore[return-value]
            self.tables.run(f'SELECT {stored.columns} FROM {stored.change} WHERE "{SIGN}" = {sign}').fetchall()
            for sign in (1, -1)
        )

    def table_name(self, relation: str) -> str:
        return sql_name(relation)

    def statements(self) -> dict[str, list[str]]:
        """All statements that maintaining takes, once prepared, by relation."""
        return self.tables.prepared

    def count(self, relation: str) -> int:
        [[rows]] = self.tables.run(f"SELECT count(*) FROM {self._stored[relation].table}")
        return int(rows)

    def rows(self, relation: str) -> list[tuple[Any, ...]]:
        stored = self._stored[relation]
        return self.tables.run(f"SELECT {stored.columns} FROM {stored.table}").fetchall()

    def clear(self) -> None:
        """Forgets the changes; call it before the next ones are noted."""
        self.tables.clear()
        self.fresh = set()
        self._detailed.clear()


def _stored(keeper: Keeper) -> list[Stored]:
    if isinstance(keeper, (RecursionKeeper, RenewingKeeper)):
        return list(keeper.members.values())
    return [keeper.stored]  # type: ignore[attr-defined]


def strategy(step: Step) -> str:
    """How the views of a step are kept, in words."""
    match step:
        case Counted():
            return "counting"
        case Grouped():
            return "totals"
        case Extreme():
            return "ordered index"
        case Recursive():
            return "maintenance rules"
        case Recomputed():
            return "recomputation"
    return "base"
