"""Server-Sent Events: bytes in, whole events out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """An event that came whole."""

    name: str
    data: bytes
    id: str | None


class Events:
    """Takes bytes as they come, in pieces of any size; an event is told when the empty line behind it is there.

    >>> events = Events()
    >>> list(events.feed(b"event: change\\nid: 7\\nda"))
    []
    >>> list(events.feed(b'ta: {}\\n\\n'))
    [Event(name='change', data=b'{}', id='7')]
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._name = "message"
        self._data: list[bytes] = []
        self._id: str | None = None

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that are complete with these bytes."""
        for line in self._lines(data):
            if line:
                self._field(line)
                continue
            if self._data:
                yield Event(self._name, b"\n".join(self._data), self._id)
            self._name, self._data, self._id = "message", [], None

    def _lines(self, data: bytes) -> list[bytes]:
        ended = b"\n" in data or b"\r" in data or bool(self._pieces) and self._pieces[-1].endswith(b"\r")
        self._pieces.append(data)
        if not ended:  # a long line is joined once, when its end is there
            return []
        *lines, rest = self._split(b"".join(self._pieces))
        self._pieces = [rest] if rest else []
        return lines

    def _split(self, text: bytes) -> list[bytes]:
        """The lines and what follows the last one. Whether \\r at the end is a whole line end is known with the next byte."""
        if not text.endswith(b"\r"):
            return _LINE_END.split(text)
        *lines, last = _LINE_END.split(text[:-1])
        return [*lines, last + b"\r"]

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"data":
                self._data.append(value)
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
