"""Carries out a plan: base changes in, changes of all views out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep.counting import CountingKeeper
from viewkeeper.engines.keep.grouping import ExtremeKeeper, TotalKeeper
from viewkeeper.engines.keep.keeper import BaseKeeper, Keeper, Stored
from viewkeeper.engines.keep.recursion import RecursionKeeper, RenewingKeeper, renew
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.program.plan import SIGN, Base, Counted, Extreme, Grouped, Plan, Recomputed, Recursive, Step

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

    def note(self, relation: str, rows: Sequence[tuple[Any, ...]], sign: int) -> None:
        """Rows that come to a base relation (1) or go (-1). They must be net: not there before, or there."""
        stored = self._stored[relation]
        self.tables.used(stored.change)
        places = ", ".join("?" * len(rows[0]))
        sql = f'INSERT INTO {stored.change} ({stored.columns}, "{SIGN}") VALUES ({places}, {sign})'
        self.tables.engine.connection.executemany(sql, rows)

    def propagate(self, changed: Mapping[str, frozenset[int]], renewing: bool = False) -> list[str]:
        """Brings in the changes noted for base relations and what follows from them; returns what has changed, in order.

        ``renewing``: views are computed anew instead.
        """
        pending: set[int] = set()
        signs: dict[str, frozenset[int]] = {}
        for number, keeper in enumerate(self.keepers):
            own = [relation.name for relation in keeper.relations]
            if isinstance(keeper, BaseKeeper):
                if own[0] not in changed:
                    continue
                signs[own[0]] = changed[own[0]]
                keeper.settle()
            elif number in pending:
                if renewing:
                    renew(self.tables, keeper, _stored(keeper))
                else:
                    keeper.settle()
                signs |= {name: found for name in own if (found := self._stored[name].signs())}
            else:
                continue
            group = tuple(own)
            for reader in sorted({reader for name in own if name in signs for reader in self._readers.get(name, ())}):
                pending.add(reader)
                if not renewing:
                    self.keepers[reader].notice(group, signs)
        return list(signs)

    def changes(self, relation: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows that came and those that went."""
        stored = self._stored[relation]
        return tuple(  # type: ignore[return-value]
            self.tables.run(f'SELECT {stored.columns} FROM {stored.change} WHERE "{SIGN}" = {sign}').fetchall()
            for sign in (1, -1)
        )

    def clear(self) -> None:
        """Forgets the changes; call it before the next ones are noted."""
        self.tables.clear()


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
