"""What the address of a request asks for: columns with values, a filter, pages."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from viewkeeper.errors import DataError, problem, shortened
from viewkeeper.serve.feeds import Every, Topic
from viewkeeper.serve.settings import seconds_of
from viewkeeper.watched import Wanted

PREFIX = "arg."
"""Before the name of a column that is the name of a parameter too."""
DEFAULT_PAGE = 10_000
_LARGEST = 2**53
_SHORTEST_EVERY, _MOST_EVERY = 0.05, 1_000_000


def bad(why: str, hint: str) -> DataError:
    return DataError(problem("BAD_ARGUMENT", why=why, hint=hint))


class Parameters:
    """The parameters of an address, each at most once; what is not taken by name is a column and its value."""

    def __init__(self, query: bytes) -> None:
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=False, errors="strict")
        except ValueError:
            raise bad("the address is not UTF-8", "Write other characters than ASCII as %XX of their UTF-8 bytes.") from None
        self._values: dict[str, str] = {}
        for name, value in pairs:
            if name in self._values:
                raise bad(f'"{shortened(name)}" is given twice', "Give each parameter once.")
            self._values[name] = value

    def take(self, name: str) -> str | None:
        return self._values.pop(name, None)

    def number(self, name: str, least: int = 0) -> int | None:
        text = self.take(name)
        return None if text is None else whole(text, name, least)

    def choice(self, name: str, *choices: str) -> str:
        """One of these; the first if it is not given."""
        text = self.take(name)
        if text is not None and text not in choices:
            raise bad(f'"{shortened(text)}" is no value for {name}', f"It is one of {', '.join(choices)}.")
        return text or choices[0]

    def flag(self, name: str) -> bool:
        return self.choice(name, "0", "1", "false", "true") in ("1", "true")

    def rest(self) -> tuple[tuple[str, str], ...]:
        """Columns and their values."""
        return tuple(sorted((name.removeprefix(PREFIX), value) for name, value in self._values.items()))

    def nothing_else(self) -> None:
        for name in self._values:
            raise bad(f'there is no parameter "{shortened(name)}"', "See the description at /openapi.json.")


def whole(text: str, name: str, least: int = 0) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not least <= int(text) <= _LARGEST:
        raise bad(f'"{shortened(text)}" is no value for {name}', f"It is a whole number from {least} on.")
    return int(text)


def wanted(view: str, parameters: Parameters) -> Wanted:
    """Must be asked last: what is left are columns."""
    where = parameters.take("where")
    if where is not None and len(where) > 10_000:
        raise bad("the filter is too long", "Define a view for it.")
    return Wanted(view, parameters.rest(), where if where and where.strip() else None)


def every(text: str | None) -> Every:
    """
    >>> every("2s"), every("5c"), every(None)
    (Every(seconds=2.0, commits=0), Every(seconds=0.0, commits=5), Every(seconds=0.0, commits=0))
    """
    if text is None:
        return Every()
    if text.endswith("c"):
        number = whole(text[:-1], "every", 1)
        if number > _MOST_EVERY:
            raise bad("so many commits are not gathered", f"At most {_MOST_EVERY:,}.")
        return Every(commits=number)
    return Every(seconds=max(_SHORTEST_EVERY, seconds_of(text)))


def topic(view: str, parameters: Parameters) -> Topic:
    """What a subscriber wants to be told."""
    mode = parameters.choice("mode", "exact", "hint")
    often = every(parameters.take("every"))
    return Topic(wanted(view, parameters), mode, often)


# ---- pages


@dataclass(frozen=True)
class Cursor:
    """Where the next page of an answer begins: after so many rows of what was there after a commit."""

    commit: int
    offset: int

    def text(self, question: object) -> str:
        data = msgspec.msgpack.encode((self.commit, self.offset, _digest(question)))
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


def cursor_of(text: str, question: object) -> Cursor:
    """The cursor of a text; refuses one of another question."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        commit, offset, digest = msgspec.msgpack.decode(data, type=tuple[int, int, bytes])
        if digest != _digest(question) or commit < 0 or offset < 0:
            raise ValueError
    except (ValueError, UnicodeError, msgspec.MsgspecError):
        raise bad(
            "this is no place in this answer", 'Give as "after" what "next" of the page before was, with the same question.'
        ) from None
    return Cursor(commit, offset)


def _digest(question: object) -> bytes:
    return hashlib.sha256(repr(question).encode("utf-8", "surrogatepass")).digest()[:6]
