"""What ``why`` tells. ``str(why)`` is the tree that the command line prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from viewkeeper.program.ast import Value


@dataclass(frozen=True)
class Derivation:
    """Something that holds, and why.

    | kind | what ``text`` is |
    | --- | --- |
    | ``base`` | a row that was loaded |
    | ``fact`` | a row that the program states |
    | ``rule`` | a row that ``rule`` gives because of ``premises`` |
    | ``absent`` | a negation: there is no such row |
    | ``condition`` | a comparison or test, with its values |
    | ``aggregate`` | an aggregate with its value; ``count`` assignments take part, ``premises`` has the first few |
    | ``part`` | one of them |

    ``above``: a row whose derivation was given before; it is not repeated.
    """

    kind: str
    text: str
    relation: str | None = None
    row: tuple[Value, ...] | None = None
    number: int | None = None
    rule: str | None = None
    bindings: dict[str, Value] = field(default_factory=dict)
    premises: tuple[Derivation, ...] = field(default=(), repr=False)
    count: int | None = None
    above: bool = False

    def walk(self) -> Iterator[Derivation]:
        """This and everything it follows from, in the order of the printed tree."""
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.premises)


@dataclass(frozen=True)
class Attempt:
    """A rule that does not give the row: what it needs, and the first thing that is missing."""

    number: int
    rule: str
    needs: str
    reason: str
    missing: Absence | None = None


@dataclass(frozen=True)
class Absence:
    """A row that is not there. ``kind`` is ``base`` or ``view``; ``above`` if its reasons were given before.

    A long chain of missing rows ends with one that is ``unexplored``.
    """

    text: str
    kind: str
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class Why:
    """Why a row is there, with its ``derivation``, or why not, with its ``absence``."""

    text: str
    derivation: Derivation | None
    absence: Absence | None

    def __bool__(self) -> bool:
        return self.derivation is not None

    def __str__(self) -> str:
        from viewkeeper.why.printing import print_why

        return print_why(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """What is told as a flat list, for JSON: numbers of premises instead of trees, which may be deep."""
        from viewkeeper.why.printing import flat

        return flat(self)
