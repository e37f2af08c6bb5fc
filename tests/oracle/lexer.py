"""Tokens of a program, and a place among them."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\])*")
      | (?P<real>\d+\.\d+(?:[eE][+-]?\d+)?)
      | (?P<int>0[xX][0-9a-fA-F]+u?|0[bB][01]+u?|\d+u?)
      | (?P<directive>\.(?:decl|type|input|output|printsize|pragma|plan)\b)
      | (?P<name>[A-Za-z_?][A-Za-z0-9_?]*)
      | (?P<op>:-|<:|<=|>=|!=|[-+*/%^(){},;:.|=<>!])""",
    re.VERBOSE | re.DOTALL,
)
ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}


class ParseError(Exception):
    """The program is not in the language (or the oracle has a mistake)."""


class Tokens:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.pos = 0
        self.serial = 0
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if found is None:
                raise ParseError(f"unexpected {text[at : at + 20]!r}")
            if found.lastgroup != "skip":
                self.tokens.append((str(found.lastgroup), found.group()))
            at = found.end()
        self.tokens += [("end", "")] * 3

    def peek(self, ahead: int = 0) -> str:
        kind, text = self.tokens[self.pos + ahead]
        return "" if kind == "string" else text

    def kind(self) -> str:
        return self.tokens[self.pos][0]

    def next(self) -> str:
        self.pos += 1
        return self.tokens[self.pos - 1][1]

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.pos += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise ParseError(f"expected {text!r}, found {self.peek()!r} (token {self.pos})")

    def name(self) -> str:
        if self.kind() != "name":
            raise ParseError(f"expected a name, found {self.peek()!r}")
        return self.next()

    def string(self) -> str:
        if self.kind() != "string":
            raise ParseError(f"expected a text, found {self.peek()!r}")
        return re.sub(r"\\(.)", lambda m: ESCAPES[m.group(1)], self.next()[1:-1], flags=re.DOTALL)

    def fresh(self) -> int:
        self.serial += 1
        return self.serial
