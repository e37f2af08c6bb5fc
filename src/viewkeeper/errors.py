"""Everything that can go wrong and be told to a user.

ViewkeeperError
├── ProgramError       a text that is not a valid program (all its problems at once)
├── EvaluationError    a valid program whose data makes a function fail: overflow, division by zero …
├── DataError          rows or files that do not fit the declared relations
├── StoreError         a warehouse that cannot be opened, locked, changed …
└── EngineError        Spark or Java missing, misconfigured or failing

Every error carries one or more problems. A problem is a condition of ``conditions.toml``, with its parameters and, where there
is one, the place in the source text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


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
        return _fill(conditions()[self.code]["message"], self.parameters)

    @property
    def hint(self) -> str:
        return _fill(conditions()[self.code].get("hint", ""), self.parameters)

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
        return "\n\n".join(problem.render() for problem in self.problems)


class ProgramError(ViewkeeperError):
    """The text is not a valid program."""


class EvaluationError(ViewkeeperError):
    """A function of the program failed for some row."""


class DataError(ViewkeeperError):
    """Rows or files that do not fit the declared relations."""


class StoreError(ViewkeeperError):
    """The warehouse cannot do what was asked."""


class EngineError(ViewkeeperError):
    """An engine cannot be started or failed."""


def problem(code: str, span: Span | None = None, /, **parameters: Any) -> Problem:
    """A problem by its code; the code must be in ``conditions.toml``."""
    assert code in conditions(), f"unknown condition {code}"
    return Problem(code, parameters, span)


@cache
def conditions() -> dict[str, dict[str, str]]:
    """All conditions: code → message, hint and explanation."""
    text = files("viewkeeper").joinpath("conditions.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def closest(name: str, known: Iterable[str]) -> str:
    """', did you mean "x"?' where one of the known names is near, else ''."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"? ' if near else ""


def _fill(template: str, parameters: dict[str, Any]) -> str:
    return template.format(**parameters).strip()


def _excerpt(source: Source, span: Span) -> Sequence[str]:
    lines = source.text.splitlines()
    shown = lines[span.line - 1].replace("\t", " ") if span.line <= len(lines) else ""
    end = span.end_column if span.end_line == span.line else len(shown) + 1
    carets = "^" * max(1, end - span.column)
    gutter = " " * len(str(span.line))
    return [
        f"{gutter}--> {source.name}:{span.line}:{span.column}",
        f"{gutter} |",
        f"{span.line} | {shown}",
        f"{gutter} | {' ' * (span.column - 1)}{carets}",
    ]
