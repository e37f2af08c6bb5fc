"""What the server answers, as Python values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import msgspec

from viewkeeper.client.following import Row
from viewkeeper.wire import Column, ViolationBody, decode_rows


@dataclass(frozen=True)
class Rows(Sequence[Row]):
    """An answer after ``commit``: tuples of Python values. A question without variables has no columns; its answer is true or false."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    commit: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        return self.rows[place]


@dataclass(frozen=True)
class Violation:
    """Rows that came to an integrity view, or would have; ``messages`` has the view's message for each row."""

    level: str
    message: str
    rows: tuple[Row, ...]
    messages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Committed:
    """What a transaction did. ``number`` is None where nothing had to be changed; ``repeated``: its key was known, nothing was done again.

    ``inserted`` and ``deleted`` have for each relation and view how many rows came and went.
    """

    number: int | None
    repeated: bool = False
    inserted: dict[str, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    violations: dict[str, Violation] = field(default_factory=dict)
    engine: str = ""
    seconds: float = 0.0
    reason: str = ""
    told: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The server's answer as it came."""


@dataclass(frozen=True)
class Told:
    """Why a row is there, or not: ``text`` is the tree as it is printed, ``nodes`` the same as a flat list."""

    text: str
    nodes: tuple[dict[str, Any], ...]
    is_there: bool

    def __bool__(self) -> bool:
        return self.is_there

    def __str__(self) -> str:
        return self.text


def columns_of(data: Any) -> tuple[Column, ...]:
    """Columns as they come in JSON."""
    return msgspec.convert(data, tuple[Column, ...])


def rows_of(columns: Sequence[Column], data: Any) -> tuple[Row, ...]:
    """Rows as they come in JSON."""
    return tuple(decode_rows(data, [column.type for column in columns]))


def committed(data: Mapping[str, Any]) -> Committed:
    """What the server says about a transaction."""

    def count(told: int | list[Any]) -> int:
        return told if isinstance(told, int) else len(told)

    changes = data.get("changes") or {}
    return Committed(
        data["commit"],
        data.get("repeated", False),
        {name: count(change["inserted"]) for name, change in changes.items()},
        {name: count(change["deleted"]) for name, change in changes.items()},
        {name: violation(msgspec.convert(told, ViolationBody)) for name, told in (data.get("violations") or {}).items()},
        data.get("engine", ""),
        data.get("seconds", 0.0),
        data.get("reason", ""),
        data,
    )


def violation(told: ViolationBody) -> Violation:
    """Rows of an integrity view."""
    return Violation(told.level, told.message, rows_of(told.columns, told.rows), tuple(told.messages or ()))
