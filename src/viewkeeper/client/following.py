"""Following an answer, without the network: what to ask for, what comes, and where we are.

1. ``request`` says what to ask the server for: the snapshot, or what comes behind our position.
2. ``receive`` turns bytes into changes. Our position moves with each of them, so that it always is the last one told.
3. When the connection is ``lost``, what came of an event or a snapshot without its end is thrown away; 1. goes on from the position.

So each change is told once: one behind the position cannot be missed, one up to it is not taken again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from viewkeeper.client.failures import error_of_event
from viewkeeper.client.sse import Event, Events
from viewkeeper.errors import ViewkeeperError
from viewkeeper.wire import CHANGE, END, HEARTBEAT, HINT, RESET, SNAPSHOT, Column, Value, decode_rows

Row: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True)
class Change:
    """What the commits from ``first`` to ``commit`` changed in an answer: rows that came and rows that went.

    | kind | |
    | --- | --- |
    | ``change`` | one commit, or the net change of several |
    | ``snapshot`` | the whole answer after ``commit``, in ``inserted`` |
    | ``reset`` | the same, because the changes up to it cannot be told any more; ``reason`` says why |
    | ``hint`` | it changed; what is not told |
    """

    commit: int
    first: int
    inserted: tuple[Row, ...] = ()
    deleted: tuple[Row, ...] = ()
    kind: str = CHANGE
    reason: str = ""
    level: str | None = None
    columns: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def whole(self) -> bool:
        """Is this the answer itself, which takes the place of what is held?"""
        return self.kind in (SNAPSHOT, RESET)


@dataclass(frozen=True)
class Reached:
    """Nothing else changed up to this commit."""

    commit: int


@dataclass(frozen=True)
class Ended:
    """The server ended the subscription; ``again``: it will be back."""

    error: ViewkeeperError
    again: bool


Item: TypeAlias = Change | Reached | Ended


class BadStream(Exception):
    """What came is not what a server says."""


@dataclass(frozen=True)
class Subscription:
    """What is followed: a view, its bound columns and a filter, how often and how exactly, and where it starts."""

    view: str
    arguments: dict[str, str] = field(default_factory=dict)
    where: str | None = None
    every: str | None = None
    mode: str = "exact"
    name: str | None = None
    since: int | None = None
    snapshot: bool = False

    @property
    def path(self) -> str:
        return f"/v1/views/{quote(self.view, safe='')}/changes"

    @property
    def wants_snapshot(self) -> bool:
        return self.snapshot and self.since is None

    def parameters(self) -> dict[str, str]:
        wanted = {
            "where": self.where,
            "every": self.every,
            "name": self.name,
            "mode": None if self.mode == "exact" else self.mode,
        }
        return {**self.arguments, **{name: value for name, value in wanted.items() if value is not None}}


class Following:
    """A subscription under way. ``position``: the last commit up to which everything was told."""

    def __init__(self, subscription: Subscription, columns: tuple[Column, ...] = ()) -> None:
        self.subscription = subscription
        self.position = subscription.since
        self.columns = columns
        self._events = Events()
        self._parts: list[Row] = []
        self._part_of: tuple[str, int] | None = None

    def request(self) -> tuple[str, dict[str, str], dict[str, str]]:
        """Path, parameters and headers of the next connection."""
        parameters = self.subscription.parameters()
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        if self.position is not None:
            headers["Last-Event-ID"] = str(self.position)
        elif self.subscription.snapshot:
            parameters["snapshot"] = "1"
        return self.subscription.path, parameters, headers

    def receive(self, data: bytes) -> Iterator[Item]:
        """What these bytes complete."""
        for event in self._events.feed(data):
            try:
                item = self._item(event)
            except (ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
                raise BadStream(f"{type(error).__name__} in the event {event.name}: {error}") from None
            if item is not None:
                yield item

    def lost(self) -> None:
        """The connection is gone, and with it what has no end yet."""
        self._events = Events()
        self._parts, self._part_of = [], None

    def _item(self, event: Event) -> Item | None:
        if event.name not in (SNAPSHOT, RESET, CHANGE, HINT, HEARTBEAT, END):
            return None  # of a newer server
        data = msgspec.json.decode(event.data)
        if event.name == END:
            error = error_of_event(data)
            return Ended(error, error.code == "CLOSING")
        if event.name in (SNAPSHOT, RESET):
            return self._whole(event.name, data)
        if self._part_of is not None:
            raise ValueError("a snapshot has no end")
        if event.name == HEARTBEAT:
            self.position = max(self.position or 0, data["commit"])
            return Reached(self.position)
        return self._change(event.name, data)

    def _change(self, kind: str, data: dict[str, Any]) -> Change | None:
        commit, first, position = data["commit"], data.get("first", data["commit"]), self.position or 0
        if commit <= position:
            return None
        if first <= position:
            raise ValueError(f"commits {first} to {commit} overlap with what was told up to {position}")
        names = tuple(column.name for column in self.columns)
        change = Change(commit, first, kind=kind, level=data.get("level"), columns=names)
        if kind == CHANGE:
            change = replace(change, inserted=self._rows(data["inserted"]), deleted=self._rows(data["deleted"]))
        self.position = commit
        return change

    def _whole(self, kind: str, data: dict[str, Any]) -> Change | None:
        """A part of an answer; with the last one the whole of it."""
        columns, commit = msgspec.convert(data["columns"], tuple[Column, ...]), data["commit"]
        if self._part_of != (kind, commit):
            self._parts, self._part_of = [], (kind, commit)
        self.columns = columns
        self._parts.extend(self._rows(data["rows"]))
        if data.get("more"):
            return None
        rows, self._parts, self._part_of = tuple(self._parts), [], None
        first = 0 if kind == SNAPSHOT else (self.position or 0) + 1
        self.position = commit
        names = tuple(column.name for column in columns)
        return Change(commit, min(first, commit), rows, kind=kind, reason=data.get("reason", ""), columns=names)

    def _rows(self, rows: list[list[Any]]) -> tuple[Row, ...]:
        return tuple(decode_rows(rows, [column.type for column in self.columns]))


class Backoff:
    """How long to wait before the next attempt: twice as long each time, by chance up to half less, so that not all come at once."""

    def __init__(self, first: float = 0.1, most: float = 10.0, chance: Callable[[], float] = random.random) -> None:
        self.first, self.most, self._chance = first, most, chance
        self.attempts = 0

    def next(self) -> float:
        """Seconds.

        >>> backoff = Backoff(1.0, 5.0, lambda: 0.0)
        >>> [backoff.next() for _ in range(5)]
        [1.0, 2.0, 4.0, 5.0, 5.0]
        """
        seconds = min(self.most, self.first * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return seconds * (1 - self._chance() / 2)

    def succeeded(self) -> None:
        """The next time it begins anew."""
        self.attempts = 0
