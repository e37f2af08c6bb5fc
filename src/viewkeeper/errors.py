"""Everything that can go wrong and be told to a user.

ViewkeeperError
├── ProgramError       a text that is not a valid program (all its problems at once)
├── EvaluationError    a valid program whose data makes a function fail: overflow, division by zero …
├── DataError          rows or files that do not fit the declared relations
│   └── ViolationError a transaction that an integrity view refuses
├── StoreError         a warehouse that cannot be opened, locked, changed …
└── EngineError        Spark or Java missing, misconfigured or failing

Every error carries one or more problems. A problem is a condition of ``conditions.toml``, with its parameters and, where there
is one, the place in the source text.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viewkeeper.outcomes import Violated

_MOST_SHOWN = 50
"""How many problems of one error are printed."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: lines and columns count from 1, the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: Span) -> Span:
        """From the start of this place to the end of the other."""
        return Span(self.line, self.column, other.end_line, other.end_column)


@dataclass(frozen=True, slots=True)
class Source:
    """A text and what to call it in messages."""

    name: str
    text: str


@dataclass(frozen=True)
class Problem:
    """One condition that holds, with its parameters."""

    code: str
    parameters: dict[str, Any] = field(default_factory=dict)
    span: Span | None = None
    source: Source | None = None

    @property
    def message(self) -> str:
        return self._text("message")

    @property
    def hint(self) -> str:
        return self._text("hint")

    def _text(self, part: str) -> str:
        texts = conditions()[self.code]
        in_sql = texts.get(f"sql_{part}") if self.parameters.get("in_sql") else None
        return _fill(in_sql or texts.get(part, ""), self.parameters)

    def render(self) -> str:
        """The text a person reads: code, message, place with caret, hint."""
        lines = [f"error[{self.code}]: {self.message}"]
        if self.span is not None and self.source is not None:
            lines += _excerpt(self.source, self.span)
        elif self.source is not None:
            lines.append(f" --> {self.source.name}")
        if self.hint:
            lines.append(f"  = hint: {self.hint}")
        return "\n".join(lines)


class ViewkeeperError(Exception):
    """The base of all errors; ``problems`` holds what is wrong, ``code`` the first one's code."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__(self.render())

    @property
    def code(self) -> str:
        return self.problems[0].code

    def render(self) -> str:
        shown = [problem.render() for problem in self.problems[:_MOST_SHOWN]]
        more = len(self.problems) - len(shown)
        return "\n\n".join([*shown, f"… and {more} more"] if more else shown)


class ProgramError(ViewkeeperError):
    """The text is not a valid program."""


class EvaluationError(ViewkeeperError):
    """A function of the program failed for some row."""


class DataError(ViewkeeperError):
    """Rows or files that do not fit the declared relations."""


class ViolationError(DataError):
    """Rows would come to integrity views of level "reject"; ``violations`` has all of them, by view."""

    def __init__(self, problems: Iterable[Problem], violations: Mapping[str, Violated]) -> None:
        super().__init__(problems)
        self.violations = violations


class StoreError(ViewkeeperError):
    """The warehouse cannot do what was asked."""


class EngineError(ViewkeeperError):
    """An engine cannot be started or failed."""


KINDS: dict[str, type[ViewkeeperError]] = {
    "program": ProgramError,
    "evaluation": EvaluationError,
    "data": DataError,
    "store": StoreError,
    "engine": EngineError,
}
"""The kinds of errors by their names, as a server tells them."""


class InterruptedLate(KeyboardInterrupt):
    """Ctrl-C that came when the change was made already."""


def problem(code: str, span: Span | None = None, /, **parameters: Any) -> Problem:
    """A problem by its code; the code must be in ``conditions.toml``."""
    assert code in conditions(), f"unknown condition {code}"
    return Problem(code, parameters, span)


@cache
def conditions() -> dict[str, dict[str, str]]:
    """All conditions: code → message, hint and explanation."""
    text = files("viewkeeper").joinpath("conditions.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def closest(name: str, known: Iterable[str], synonyms: Mapping[str, str] = {}) -> str:
    """'Did you mean "x"? ' where one of the known names, or a synonym of one, is near, else ''.

    >>> closest("edgee", ["edge", "reach"])
    'Did you mean "edge"? '
    """
    near = get_close_matches(name, [*known, *synonyms], n=1, cutoff=0.65)
    return f'Did you mean "{synonyms.get(near[0], near[0])}"? ' if near else ""


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "column"), counted(3, "column")
    ('1 column', '3 columns')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shortened(text: str, most: int = 60) -> str:
    """The text, or its beginning if it is longer than fits a message."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _fill(template: str, parameters: dict[str, Any]) -> str:
    return template.format(**parameters).strip()


# ---- places

_TAB = "    "
_WIDEST = 110
_BEFORE = 40
"""Of a line wider than the first, what stands up to the second before the place is shown."""


def _excerpt(source: Source, span: Span) -> Sequence[str]:
    """The line, with carets under the place. Of a place of several lines the first one is shown."""
    lines = source.text.split("\n")
    line = lines[span.line - 1].rstrip() if span.line <= len(lines) else ""
    start = span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    first, last = _window(line, start, end)
    shown = ("…" if first else "") + _shown(line[first:last]) + ("…" if last < len(line) else "")
    before = " " * (bool(first) + _width(line[first:start]) + max(0, start - len(line)))
    carets = "^" * max(1, _width(line[start : min(end, last)]))
    more = f" … to line {span.end_line}" if span.end_line > span.line else ""
    gutter = " " * len(str(span.line))
    return [
        f"{gutter}--> {source.name}:{span.line}:{span.column}",
        f"{gutter} |",
        f"{span.line} | {shown}",
        f"{gutter} | {before}{carets}{more}",
    ]


def _window(line: str, start: int, end: int) -> tuple[int, int]:
    """Which characters of the line to show: all, or some around the place."""
    if len(line) <= _WIDEST:
        return 0, len(line)
    first = max(0, start - _BEFORE if end > _WIDEST else 0)
    return first, min(len(line), first + _WIDEST)


def _shown(text: str) -> str:
    """As it is printed: tabs at a fixed width, control characters visible."""
    return "".join(_TAB if c == "\t" else "�" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_character_width(c) for c in _shown(text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
