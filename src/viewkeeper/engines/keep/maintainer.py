"""Carries out a plan: base changes in, changes of all views out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from heapq import heappop, heappush
from typing import Any, Protocol

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.keep.counting import CountingKeeper
from viewkeeper.engines.keep.external import ExternalKeeper, Unstored
from viewkeeper.engines.keep.grouping import ExtremeKeeper
from viewkeeper.engines.keep.keeper import BaseKeeper, Keeper, Signs, Stored
from viewkeeper.engines.keep.recursion import RecursionKeeper, RenewingKeeper, renew
from viewkeeper.engines.keep.rederiving import AFTER, Rederiving
from viewkeeper.engines.keep.tables import Tables
from viewkeeper.engines.keep.totals import total_keeper
from viewkeeper.engines.keep.windows import WindowKeeper
from viewkeeper.program.ast import relation_read
from viewkeeper.program.functions import rule_can_fail
from viewkeeper.program.plan import (
    Base,
    Counted,
    External,
    Extreme,
    Group,
    Grouped,
    Plan,
    Recomputed,
    Recursive,
    Step,
    Windowed,
)
from viewkeeper.program.strata import reach

Settled = Callable[[Step, float, str, int, int], None]
"""Told of each step that was carried out: how long it took, on which engine, and how many rows it touched and rederived."""


class Worker(Protocol):
    """Does the work of keepers elsewhere. A method that returns False leaves it to the keeper."""

    name: str

    def begin(self, tables: Tables, signs: Signs, fresh: set[str]) -> None:
        """A change starts; what has changed so far, and what of that was empty before, is told in mappings that grow."""

    def fill(self, keeper: Keeper) -> bool: ...

    def notice(self, keeper: Keeper, group: Group) -> bool: ...

    def settle(self, keeper: Keeper) -> bool: ...


class Itself:
    """Leaves all work to the keepers."""

    name = "embedded"

    def begin(self, tables: Tables, signs: Signs, fresh: set[str]) -> None:
        pass

    def fill(self, keeper: Keeper) -> bool:
        return False

    def notice(self, keeper: Keeper, group: Group) -> bool:
        return False

    def settle(self, keeper: Keeper) -> bool:
        return False


ITSELF = Itself()
_NOBODY: frozenset[int] = frozenset()


class _Way:
    """How far a change has come. ``queue``: steps with something to do; ``noticing``: those that have noticed something, and the
    seconds that took; ``filling``: those that are computed instead; ``elsewhere``: those whose work the worker did; ``unstored``: those
    for external views that come last."""

    def __init__(self, signs: dict[str, frozenset[int]], renewing: bool, worker: Worker) -> None:
        self.signs, self.renewing, self.worker = signs, renewing, worker
        self.queue: list[int] = []
        self.noticing: dict[int, float] = {}
        self.filling: set[int] = set()
        self.elsewhere: set[int] = set()
        self.unstored: set[int] = set()


_KEEPERS: dict[type[Any], Callable[[Tables, Any], Keeper]] = {
    Base: lambda tables, step: BaseKeeper(tables, step.relation),
    Counted: CountingKeeper,
    Grouped: total_keeper,
    Extreme: ExtremeKeeper,
    Windowed: WindowKeeper,
    Recursive: RecursionKeeper,
    Recomputed: RenewingKeeper,
}


class Maintainer:
    """Keeps the views of a plan in the database of an engine, within the caller's transactions."""

    def __init__(self, engine: EmbeddedEngine, plan: Plan) -> None:
        self.plan, self.tables = plan, Tables(engine, plan)
        self.external = frozenset(r.name for step in plan.steps if isinstance(step, External) for r in step.relations)
        engine.stored = (engine.stored | plan.core.by_name.keys()) - self.external
        self.rederiving = None if plan.demands is None else Rederiving(self.tables, plan.demands)
        self.steps, self._last = _external_last(plan)
        self.keepers: list[Keeper] = [self._keeper(step) for step in self.steps]
        self._own = [tuple(relation.name for relation in keeper.relations) for keeper in self.keepers]
        self._readers: dict[str, list[int]] = {}
        for number, own in enumerate(self._own):
            for read in {r for name in own for r in plan.reads.get(name, ())} - {*own}:
                self._readers.setdefault(read, []).append(number)
        self._stored_readers = {name: [n for n in numbers if n < self._last] for name, numbers in self._readers.items()}
        self._unstored_readers = {name: {n for n in numbers if n >= self._last} for name, numbers in self._readers.items()}
        self.can_fail = any(map(rule_can_fail, plan.core.rules))
        self.fresh: set[str] = set()
        self._detailed: set[str] = set()
        self._is_over = True
        self._numbers = {name: number for number, own in enumerate(self._own) for name in own}
        self._bases = {keeper.relations[0].name: keeper for keeper in self.keepers if isinstance(keeper, BaseKeeper)}
        self._stored = {stored.relation.name: stored for keeper in self.keepers for stored in _stored(keeper)}
        # Views that are not stored, and that stored ones read.
        self._needed = [
            []
            if isinstance(keeper, ExternalKeeper)
            else sorted({r for name in own for r in plan.reads.get(name, ())} & self.external)
            for keeper, own in zip(self.keepers, self._own, strict=True)
        ]
        self._needed_for = cache(self._read_for)
        self._rederived_for: dict[int, int] = {}
        for number, keeper in enumerate(self.keepers):
            if isinstance(keeper, ExtremeKeeper) and self._needed[number]:
                keeper.hold = partial(self._hold, number, self._needed[number])

    def _keeper(self, step: Step) -> Keeper:
        if isinstance(step, External):
            assert self.rederiving is not None
            return ExternalKeeper(self.tables, step, self.rederiving)
        return _KEEPERS[type(step)](self.tables, step)

    def hold(self, name: str) -> None:
        """Makes sure that the rows of a relation are there, for the time of a change if they are not stored."""
        view = self._stored[name]
        if isinstance(view, Unstored):
            view.hold()

    def _hold(self, number: int, names: Iterable[str]) -> None:
        """Holds views for a step; what is derived for that is told as rederived for it."""
        if self.rederiving is not None:
            before = self.rederiving.asked
            for name in names:
                self.hold(name)
            self._rederived_for[number] = self._rederived_for.get(number, 0) + self.rederiving.asked - before

    def _hold_for(self, number: int, way: _Way, group: Group | None = None) -> None:
        """Holds what a step reads to notice that a group has changed, or to settle: not all that it needs to be computed."""
        maintained = way.worker is ITSELF and not way.renewing
        self._hold(number, self._needed_for(number, group) if maintained else self._needed[number])

    def _read_for(self, number: int, group: Group | None) -> list[str]:
        """Views that are not stored whose rows are read, and not only their changes."""
        step, needed = self.steps[number], self._needed[number]
        if isinstance(step, Extreme):
            return []  # it looks values up by itself, if it has to
        if not isinstance(step, (Counted, Grouped)):
            return needed
        if group is not None:
            read = {relation_read(literal) for rule in step.changes[group] for literal in rule.body}
        else:
            read = {first.source for first in step.firsts if first} if isinstance(step, Grouped) else set()
        return [name for name in needed if name in read]

    # ---- tables

    def create(self, relations: Iterable[str]) -> None:
        """The tables of these relations, where they are not there yet."""
        wanted = set(relations)
        for keeper in self.keepers:
            if wanted & {relation.name for relation in keeper.relations}:
                keeper.create()

    def prepare(self) -> None:
        """All indexes."""
        with self.tables.gathered_indexes():
            for keeper in self.keepers:
                keeper.prepare()

    def fill(self, relations: Iterable[str], worker: Worker = ITSELF) -> set[str]:
        """Computes views, empty so far, from what they read, which is there; returns those that the worker computed."""
        wanted, elsewhere = set(relations), set()
        worker.begin(self.tables, {}, set())
        for keeper in self.keepers:
            own = {relation.name for relation in keeper.relations}
            if wanted & own and self._fill(keeper, worker):
                elsewhere |= own
        return elsewhere

    def _fill(self, keeper: Keeper, worker: Worker) -> bool:
        number = self.keepers.index(keeper)
        if self._needed[number]:
            self._hold(number, self._needed[number])
        done = worker.fill(keeper)
        if not done:
            keeper.fill()
        return done

    def above(self, relation: str) -> set[str]:
        """The relations of the plan that depend on one, and itself."""
        return {name for name in self.plan.core.by_name if relation in reach(self.plan.reads, {name})}

    # ---- changes

    def base(self, relation: str) -> BaseKeeper:
        return self._bases[relation]

    def propagate(
        self,
        changed: Signs,
        fresh: Iterable[str] = (),
        renewing: bool = False,
        report: Settled = lambda *told: None,
        worker: Worker = ITSELF,
        without: Collection[str] = (),
    ) -> dict[str, frozenset[int]]:
        """Brings in the changes noted for base relations and what follows from them; returns what has changed, in order.

        ``fresh``: base relations that were empty and whose new rows are there already; views that were empty and read only such
        relations are computed instead of maintained, and become fresh themselves. ``renewing``: all views are computed anew. ``without``:
        views that are left as they are, with all above them.
        """
        self.fresh = set(fresh)
        if not self._is_over:
            self._forget()
        self._is_over = False
        self._rederived_for.clear()  # views may have been computed since
        signs: dict[str, frozenset[int]] = {}
        way = _Way(signs, renewing, worker)
        self._take_turns(changed)
        worker.begin(self.tables, signs, self.fresh)
        for name in sorted(self.fresh):
            # Their rows are there already, so whoever reads them must not see a change of something else first.
            signs[name] = changed[name]
            if self.rederiving is not None:
                self._followed((name,), signs)
            self._tell((name,), way)
        turns = {self._numbers[name] for name in changed if name not in signs}
        for number in turns:
            heappush(way.queue, number)
        while way.queue:
            number = heappop(way.queue)
            keeper, own = self.keepers[number], self._own[number]
            started = time.perf_counter()
            if number in turns:
                signs[own[0]] = changed[own[0]]
                keeper.settle()
            elif without and any(name in without for name in own):
                continue
            elif number in way.filling:
                if self._fill(keeper, worker):
                    way.elsewhere.add(number)
                new = {name for name in own if not self._stored[name].is_empty()}
                self.fresh |= new
                signs |= dict.fromkeys(new, frozenset({1}))
            else:
                self._settle(number, keeper, way)
            by = worker.name if number in way.elsewhere else ITSELF.name
            seconds = time.perf_counter() - started + way.noticing.get(number, 0.0)
            rederived = _rederived(keeper) + self._rederived_for.pop(number, 0)
            report(self.steps[number], seconds, by, keeper.touched, rederived)
            keeper.touched = 0
            if self.rederiving is not None:
                self._followed(own, signs)
            self._tell(own, way)
        if way.unstored:
            self._settle_unstored(way, report)
        # Whoever noticed something has settled it, unless it was left out, or somebody else did.
        self._is_over = not without and worker is ITSELF
        return signs

    def _settle(self, number: int, keeper: Keeper, way: _Way) -> None:
        """All that a step reads is as it will be."""
        if self._needed[number]:
            self._hold_for(number, way)
        if way.renewing and not isinstance(keeper, ExternalKeeper):
            renew(self.tables, keeper, _stored(keeper), partial(self._renew, number, way))
        elif way.worker.settle(keeper):
            way.elsewhere.add(number)
        else:
            keeper.settle()
        for name in self._own[number]:
            found = self._stored[name].changes.signs()
            if found:
                way.signs[name] = found

    def _settle_unstored(self, way: _Way, report: Settled) -> None:
        """Views that nobody stores and no stored one depends on, all together: what is stored is as it will be."""
        rederiving, signs = self.rederiving, way.signs
        assert rederiving is not None
        before, rederiving.seconds = rederiving.found(), {}
        rederiving.start_together(signs)
        rederiving.run(AFTER)
        found, seconds = rederiving.found(), rederiving.seconds
        grown = {self._numbers[name] for name in found}
        for number in sorted(way.unstored.union(grown, (self._numbers[name] for name in seconds))):
            keeper = self.keepers[number]
            assert isinstance(keeper, ExternalKeeper)
            if number in grown and number >= self._last:
                keeper.tell()
                signs |= {name: member.changes.signs() for name, member in keeper.members.items() if member.changes.number}
            took, derived, asked = 0.0, 0, 0
            for name in self._own[number]:
                took += seconds.get(name, 0.0)
                for known, sign in ((found, 1), (before, -1)):
                    if name in known:
                        derived, asked = derived + sign * known[name][0], asked + sign * known[name][1]
            report(self.steps[number], took, ITSELF.name, derived, asked)

    def _followed(self, own: Group, signs: Signs) -> None:
        """What is stored has changed: what is derived on demand from before must know."""
        assert self.rederiving is not None
        for name in own:
            if name in signs and name not in self.external:
                self.detail(name)
                self.rederiving.changed(name, signs[name])

    def _take_turns(self, changed: Signs) -> None:
        """Changes are brought in one after the other. A fresh relation waits for its turn, unless all that read it are computed
        from scratch, or nothing else changes."""
        for name in sorted(self.fresh) if len(changed) > 1 else ():
            readers = [stored for reader in self._readers.get(name, ()) for stored in _stored(self.keepers[reader])]
            if not all(stored.is_empty() for stored in readers):
                self._stored[name].all_came()
                self._stored[name].empty()
                self.fresh.discard(name)

    def _renew(self, number: int, way: _Way) -> None:
        if self._fill(self.keepers[number], way.worker):
            way.elsewhere.add(number)

    def _tell(self, own: Group, way: _Way) -> None:
        """Lets those who read the relations notice that they have changed."""
        changed = [name for name in own if name in way.signs]
        if not changed:
            return
        known_readers = self._readers
        if way.worker is ITSELF:
            known_readers = self._stored_readers
            for name in changed:
                way.unstored |= self._unstored_readers.get(name, _NOBODY)
        if len(changed) == 1:
            readers = known_readers.get(changed[0], [])
        else:
            readers = sorted({reader for name in changed for reader in known_readers.get(name, ())})
        all_fresh = bool(self.fresh) and all(name in self.fresh for name in changed)
        for reader in readers:
            if reader in way.filling:
                continue
            keeper, known = self.keepers[reader], reader in way.noticing
            if not known:
                heappush(way.queue, reader)
            if all_fresh and not known and all(stored.is_empty() for stored in _stored(keeper)):
                way.filling.add(reader)
                continue
            started = time.perf_counter()
            if not way.renewing or isinstance(keeper, ExternalKeeper):
                for name in changed if self.fresh else ():
                    self.detail(name)
                if self._needed[reader]:
                    self._hold_for(reader, way, own)
                if not way.worker.notice(keeper, own):
                    keeper.notice(own, way.signs)
            way.noticing[reader] = way.noticing.get(reader, 0.0) + time.perf_counter() - started

    def detail(self, relation: str) -> None:
        """Makes sure that the changes of a relation are noted row by row."""
        if relation in self.fresh and relation not in self._detailed:
            self._detailed.add(relation)
            self._stored[relation].all_came()

    def number(self, relation: str) -> int:
        """How many rows came and went."""
        return self._stored[relation].changes.number

    def changes(self, relation: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows that came and those that went."""
        rows = self._stored[relation].changes.rows()
        return [row for row, sign in rows if sign == 1], [row for row, sign in rows if sign == -1]

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

    def taken_back(self) -> None:
        """The change, as far as it came, was taken back in the database."""
        self.tables.taken_back()
        for keeper in self.keepers:
            keeper.touched = 0
            _rederived(keeper)

    def _forget(self) -> None:
        """What was begun and taken back leaves no trace."""
        self._detailed.clear()
        if self.rederiving is not None:
            self.rederiving.forget()
        for keeper in self.keepers:
            keeper.forget()


def _external_last(plan: Plan) -> tuple[list[Step], int]:
    """The steps, those for external views that no stored one depends on at the end, and where these begin."""
    stored = {r.name for step in plan.steps if not isinstance(step, External) for r in step.relations}
    needed = reach(plan.reads, stored)
    first, last = list[Step](), list[Step]()
    for step in plan.steps:
        unneeded = isinstance(step, External) and needed.isdisjoint(relation.name for relation in step.relations)
        (last if unneeded else first).append(step)
    return first + last, len(first)


def _rederived(keeper: Keeper) -> int:
    """How many rows from before the change or after it a keeper of views that are not stored has derived, told once."""
    if not isinstance(keeper, ExternalKeeper):
        return 0
    number, keeper.rederived = keeper.rederived, 0
    return number


def _stored(keeper: Keeper) -> list[Stored]:
    if isinstance(keeper, (RecursionKeeper, RenewingKeeper, ExternalKeeper)):
        return list(keeper.members.values())
    return [keeper.stored]  # type: ignore[attr-defined]


_STRATEGIES: dict[type[Any], str] = {
    Base: "base",
    Counted: "counting",
    Grouped: "totals",
    Extreme: "ordered index",
    Windowed: "partitions recomputed",
    Recursive: "maintenance rules",
    Recomputed: "recomputation",
    External: "rederivation",
}


def strategy(step: Step) -> str:
    """How the views of a step are kept, in words."""
    return _STRATEGIES[type(step)]
