"""A copy of an answer that changes are applied to, without the network.

Changes go through three hands: ``take_in`` gets each one once and in order; it is applied at once, or waits until the program takes it;
listeners are told when it is applied. Readers see the copy before a change or after it, never in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any, TypeAlias

from viewkeeper.client.following import Change, Reached, Row
from viewkeeper.errors import DataError, StoreError, ViewkeeperError, problem

Listener: TypeAlias = Callable[[Change], object]
MOST_WAITING = 100_000
"""How many rows of changes wait to be taken; with more the connection is not read until some are."""

SOON = 0.25
"""The server says only now and then how far it is if nothing changes. Who waits longer than so many seconds for a commit asks."""

_log = logging.getLogger("viewkeeper.client")


class Copy:
    """The rows of a view after ``commit``, by key or as they are."""

    def __init__(self, view: str, key: Sequence[str] | str | None, buffered: bool) -> None:
        self.view = view
        self.key: tuple[str, ...] | None = (key,) if isinstance(key, str) else None if key is None else tuple(key)
        self.buffered = buffered
        self.commit = self.received = -1
        self.columns: tuple[str, ...] = ()
        self._held: dict[Any, Row] = {}
        self._places: tuple[int, ...] = ()
        self._lock = RLock()
        self._taking = RLock()
        self._waiting: deque[Change | Reached] = deque()
        self._listeners: list[Listener] = []

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The copy stays what it is inside the block, so that several looks at it fit together."""
        with self._lock:
            yield

    def rows(self) -> frozenset[Row]:
        """All rows, of one commit."""
        with self._lock:
            return frozenset(self._held.values())

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener with each change from now on, after it is applied; returns a function that ends this.

        What a listener raises is logged, and does not disturb the copy.
        """
        with self._lock:
            self._listeners = [*self._listeners, listener]
        return lambda: self._forget(listener)

    def _forget(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = [one for one in self._listeners if one is not listener]

    @property
    def waiting(self) -> int:
        """How many changes wait to be taken."""
        with self._lock:
            return sum(isinstance(item, Change) for item in self._waiting)

    def is_full(self) -> bool:
        with self._lock:
            return sum(len(i.inserted) + len(i.deleted) + 1 for i in self._waiting if isinstance(i, Change)) > MOST_WAITING

    @property
    def position(self) -> int:
        """The last commit that was applied, or of a buffered copy received."""
        return self.received if self.buffered else self.commit

    # ---- changes

    def take_in(self, item: Change | Reached) -> None:
        """The next change, from whoever reads the connection."""
        if not self.buffered or self.commit < 0:
            self._apply(item)
        else:
            with self._lock:
                if isinstance(item, Reached) and self._waiting and isinstance(self._waiting[-1], Reached):
                    self._waiting.pop()
                self._waiting.append(item)
        self.received = max(self.received, item.commit) if isinstance(item, Reached) else item.commit

    def apply_waiting(self) -> list[Change]:
        """Applies the changes that wait, and returns them."""
        applied: list[Change] = []
        with self._taking:
            while True:
                with self._lock:
                    if not self._waiting:
                        return applied
                    item = self._waiting.popleft()
                told = self._apply(item)
                if told is not None:
                    applied.append(told)

    def _apply(self, item: Change | Reached) -> Change | None:
        """Changes the copy, tells the listeners; returns what they were told."""
        with self._lock:
            is_first = self.commit < 0
            told = self._changed(item) if isinstance(item, Change) else None
            self.commit = max(self.commit, item.commit) if isinstance(item, Reached) else item.commit
            listeners = self._listeners
        if told is None or is_first:
            return None
        for listener in listeners:
            try:
                listener(told)
            except Exception:
                _log.exception("a listener of %s failed at commit %d", self.view, told.commit)
        return told

    def _changed(self, change: Change) -> Change | None:
        """law: new copy = (old copy - deleted) + inserted; what was deleted was there, what is inserted was not."""
        if change.whole:
            return self._replaced(change)
        went = {self._key_of(row): row for row in change.deleted}
        came = {self._key_of(row): row for row in change.inserted}
        for key, row in went.items():
            if self._held.get(key) != row:
                raise self._wrong(change, row)
        for key, row in came.items():
            if key in self._held and key not in went:
                raise self._wrong(change, row)
        if len(came) < len(change.inserted):
            raise self._wrong(change, next(row for row in change.inserted if came[self._key_of(row)] is not row))
        for key in went:
            del self._held[key]
        self._held.update(came)
        return change

    def _replaced(self, change: Change) -> Change | None:
        """The whole answer takes the place of the copy. Listeners are told the difference."""
        before = set(self._held.values())
        self.columns = change.columns
        self._places = self._key_places(change.columns)
        held: dict[Any, Row] = {}
        for row in change.inserted:
            if held.setdefault(self._key_of(row), row) is not row:
                raise self._wrong(change, row)
        self._held = held
        after = set(held.values())
        came, went = tuple(after - before), tuple(before - after)
        return replace(change, inserted=came, deleted=went) if came or went else None

    def _key_of(self, row: Row) -> Any:
        if self.key is None:
            return row
        return row[self._places[0]] if len(self._places) == 1 else tuple(row[place] for place in self._places)

    def _key_places(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        for name in self.key or ():
            if name not in columns:
                hint = f"It has {', '.join(columns) or 'no columns'}."
                raise DataError(problem("BAD_KEY", why=f'"{self.view}" has no column "{name}"', hint=hint))
        return tuple(columns.index(name) for name in self.key or ())

    def _wrong(self, change: Change, row: Row) -> ViewkeeperError:
        if self.key is not None and row in change.inserted:
            why = f'two rows of "{self.view}" have the same {", ".join(self.key)}: {self._key_of(row)!r}'
            return DataError(problem("BAD_KEY", why=why, hint="Choose columns that tell rows apart, or hold a set of rows."))
        return StoreError(problem("COPY_DIFFERS", view=self.view, commit=change.commit, row=repr(row)))


class AsSet(Copy, Set[Row]):
    """The copy as a set of rows."""

    @classmethod
    def _from_iterable(cls, rows: Any) -> Any:
        return frozenset(rows)

    def __contains__(self, row: object) -> bool:
        with self._lock:
            return row in self._held

    def __iter__(self) -> Iterator[Row]:
        with self._lock:
            return iter(list(self._held))

    def __len__(self) -> int:
        return len(self._held)

    __hash__ = object.__hash__


class AsMapping(Copy, Mapping[Any, Row]):
    """The copy as a mapping from the key's values, one or a tuple, to the row."""

    def __getitem__(self, key: Any) -> Row:
        with self._lock:
            return self._held[key]

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            return iter(list(self._held))

    def __len__(self) -> int:
        return len(self._held)

    __hash__ = object.__hash__
