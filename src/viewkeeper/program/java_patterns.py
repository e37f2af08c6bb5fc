"""Regular expressions as Java reads them, which Spark does, for Python's ``re``. What would mean something else, or nothing, is refused."""

from __future__ import annotations

import functools
import re

_LINE_ENDS = r"\n\r\u0085\u2028\u2029"
_DOT = f"[^{_LINE_ENDS}]"
# Before what ends the last line, but not inside of \r\n.
_END = r"(?:(?=\r\n\Z)|(?<!\r)(?=\n\Z)|(?=[\r\u0085\u2028\u2029]\Z)|\Z)"
_CLASSES = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F", "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t", "ASCII": r"\x00-\x7f", "Punct": r"!-/:-@\[-`{-~",
}  # fmt: skip
# Signs behind \ that are the same in both, outside and inside of [ ].
_SAME, _SAME_INSIDE = frozenset("dDwWsSAtnrfa123456789"), frozenset("dDwWsStnrfa")
_ESCAPED = {"z": r"\Z", "Z": _END, "b": r"(?u:\b)", "B": r"(?u:\B)", "e": r"\x1b"}
_FLAGS = re.compile(r"\(\?([is]+)\)")
_GROUP = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|<([A-Za-z][A-Za-z0-9]*)>|[is]+:)?)?")
_COUNT = re.compile(r"\{[0-9]+(,[0-9]*)?\}", re.ASCII)
_CODE = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}", re.ASCII)
_PROPERTY = re.compile(r"([pP])\{(?:Is)?(\w+)\}")


class BadPattern(ValueError):
    """What is wrong with a pattern."""


@functools.lru_cache(maxsize=256)
def java_pattern(text: str) -> re.Pattern[str]:
    r"""The regular expression in Python; raises BadPattern.

    >>> bool(java_pattern(r"^\d+$").search("12")), bool(java_pattern(r"\d").search("\u0663"))
    (True, False)
    """
    try:
        return re.compile(_Reader(text).read(), re.ASCII)
    except (re.error, OverflowError) as error:
        raise BadPattern(str(error)) from None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.dot = _DOT

    def read(self) -> str:
        parts = []
        flags = _FLAGS.match(self.text)
        if flags is not None:
            parts.append(flags[0])
            self.place = flags.end()
            self.dot = r"(?s:.)" if "s" in flags[1] else _DOT
        while self.place < len(self.text):
            parts.append(self._next())
        return "".join(parts)

    def _refuse(self, what: str) -> BadPattern:
        return BadPattern(f"{what} at position {self.place} is not supported")

    def _taken(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self.text, self.place)
        if found is None:
            raise self._refuse(what)
        self.place = found.end()
        return found

    def _next(self) -> str:
        letter = self.text[self.place]
        match letter:
            case "\\":
                return self._escape(inside=False)
            case "[":
                return self._class()
            case "(":
                return self._group()
            case "{":
                return self._taken(_COUNT, "{")[0]
        self.place += 1
        return {".": self.dot, "$": _END, "#": r"\#"}.get(letter, letter)

    def _group(self) -> str:
        found = self._taken(_GROUP, "(")
        if found[0] == "(?":
            raise self._refuse("(?")
        if "s" in found[0] and found[1] is None:
            raise self._refuse("(?s: inside of a pattern")
        return f"(?P<{found[1]}>" if found[1] else found[0]

    def _escape(self, inside: bool) -> str:
        self.place += 1
        letter = self.text[self.place : self.place + 1]
        if not letter:
            raise self._refuse("a single \\ at the end")
        if letter in ("x", "u"):
            return "\\" + self._taken(_CODE, f"\\{letter}")[0]
        if letter in ("p", "P"):
            return self._property(inside)
        if letter == "Q" and not inside:
            return self._quoted()
        known = letter in (_SAME_INSIDE if inside else _SAME)
        if letter.isalnum() and letter.isascii() and not known and (inside or letter not in _ESCAPED):
            raise self._refuse(f"\\{letter}")
        self.place += 1
        return f"\\{letter}" if known else re.escape(letter) if inside else _ESCAPED.get(letter, re.escape(letter))

    def _property(self, inside: bool) -> str:
        found = self._taken(_PROPERTY, "this \\p")
        if found[2] not in _CLASSES or (inside and found[1] == "P"):
            raise self._refuse(f"\\{found[0]}")
        letters = _CLASSES[found[2]]
        return letters if inside else f"[{'^' if found[1] == 'P' else ''}{letters}]"

    def _quoted(self) -> str:
        end = self.text.find("\\E", self.place)
        end = len(self.text) if end < 0 else end
        quoted, self.place = self.text[self.place + 1 : end], end + 2
        return re.escape(quoted)

    def _class(self) -> str:
        """[…] without classes in it, which Java joins and intersects."""
        self.place += 1
        parts = ["["]
        if self.text.startswith("^", self.place):
            parts.append("^")
            self.place += 1
        while not self.text.startswith("]", self.place) or len(parts) == 1 or parts == ["[", "^"]:
            letter = self.text[self.place : self.place + 1]
            if letter in ("", "[", "]") or self.text.startswith(("&&", "--"), self.place):
                raise self._refuse(f"{letter or 'the end'} in […]")
            if letter == "\\":
                parts.append(self._escape(inside=True))
            else:
                parts.append(letter if letter == "-" or letter.isalnum() else re.escape(letter))
                self.place += 1
        self.place += 1
        return "".join([*parts, "]"])
