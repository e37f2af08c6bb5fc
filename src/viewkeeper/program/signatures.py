"""What is to be said about a function: the types it takes and gives, what it does with NULL, and whether it can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from viewkeeper.program.types import Kind, Type

# From the arguments' types and, of those that are constants, their values (None of others): the result's type, or None if they do not fit.
Typing = Callable[[Sequence[Type], Sequence[object]], Type | None]
# For so many arguments, the type of each; None for those that share a type.
Places = Callable[[int], Sequence[Type | None]]

# Can the function fail, given the values of the arguments that are constants, None of others?
CanFail = Callable[[Sequence[object]], bool]

MANY = 10_000


class Nulls(Enum):
    """When a function's result is NULL."""

    STRICT = "if an argument is"
    PARTIAL = "if an argument is, and for some values"
    ALL = "if all arguments are"
    FIRST = "if the first argument is"
    SOME = "perhaps, if an argument is"
    CHOSEN = "perhaps, if one of the values to choose from is"
    NEVER = "never"
    NOTHING = "never; if an argument is, there is no result at all"


@dataclass(frozen=True)
class Function:
    """A function: ``typing`` gives the result's type or None where the arguments do not fit.

    ``alike`` is the number of leading arguments that must share one type (-1: all), so that open constants among them adopt it.
    ``takes`` are the types of the arguments where there is only one choice.
    ``partial`` functions can fail, some of them not with every constant. ``sure`` is the number of leading arguments that are evaluated in any case (-1: all); of the
    others only those are that the result depends on.
    """

    name: str
    arity: tuple[int, int]
    typing: Typing
    accepts: str
    alike: int = -1
    partial: bool | CanFail = True
    takes: tuple[Type, ...] | Places = ()
    nulls: Nulls = Nulls.STRICT
    sure: int = -1

    def places(self, count: int) -> Sequence[Type | None]:
        """For each of so many arguments its type, None where it shares one with others."""
        if callable(self.takes):
            return self.takes(count)
        return self.takes[:count] if self.takes else [None] * count

    def can_fail(self, constants: Sequence[object]) -> bool:
        """Can it fail, given the values of the arguments that are constants, None of others?"""
        return self.partial(constants) if callable(self.partial) else self.partial

    def may_be_null(self, arguments: Sequence[bool]) -> bool:
        """Can the result be NULL, given which arguments can?"""
        match self.nulls:
            case Nulls.NEVER | Nulls.NOTHING:
                return False
            case Nulls.PARTIAL:
                return True
            case Nulls.ALL:
                return all(arguments)
            case Nulls.FIRST:
                return arguments[0]
            case Nulls.CHOSEN:
                return any(arguments[i] for i in chosen_from(len(arguments)))
        return any(arguments)

    def needs(self, arguments: Sequence[set[str]]) -> set[str]:
        """What the result needs to have a value, given what each argument needs."""
        match self.nulls:
            case Nulls.STRICT | Nulls.PARTIAL | Nulls.NOTHING:
                return set().union(*arguments)
            case Nulls.ALL:
                return set.intersection(*arguments)
            case Nulls.FIRST:
                return arguments[0]
        return set()


def chosen_from(count: int) -> list[int]:
    """The places of the values in condition, value, condition, value, …, value."""
    return [*range(1, count, 2), count - 1]


def comparable(left: Type, right: Type) -> bool:
    """May values of the two types be compared or joined as they are stored?"""
    return left.kind is right.kind and left.scale == right.scale


def same(kinds: frozenset[Kind]) -> Typing:
    """All arguments and the result of one type, of one of the kinds; of decimals that with the most digits."""

    def typing(types: Sequence[Type], _: Sequence[object] = ()) -> Type | None:
        first = types[0]
        fits = first.kind in kinds and all(comparable(first, t) for t in types)
        return max(types, key=lambda t: t.precision).base if fits else None

    return typing


def convert(kinds: frozenset[Kind], result: Type) -> Typing:
    """One argument of one of the kinds."""
    return lambda types, _: result if types[0].kind in kinds else None


def fixed(
    name: str,
    takes: tuple[Type, ...],
    result: Type,
    accepts: str,
    partial: bool | CanFail = False,
    least: int | None = None,
    nulls: Nulls = Nulls.STRICT,
) -> Function:
    """A function of these types, the first ``least`` of which must be there."""

    def typing(types: Sequence[Type], _: Sequence[object]) -> Type | None:
        return result if [t.kind for t in types] == [t.kind for t in takes[: len(types)]] else None

    arity = (len(takes) if least is None else least, len(takes))
    return Function(name, arity, typing, accepts, partial=partial, takes=takes, nulls=nulls)
