"""Rules with windows: a value for each row of a relation, computed from the rows that share its partition.

    top(p, x, r) :- r = row_number : { s(p, x) } over (p; x desc; 10).

The body of such a rule is equations of variables with windows over one atom, which has a different variable at each place, and one
partition. The rule has a row for each row of the atom that is within the limit.

Rows are told apart: where the order of a window leaves rows equal, and they matter one by one, their other columns go on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from viewkeeper.errors import Problem, problem
from viewkeeper.program.ast import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Either,
    Literal,
    Order,
    Over,
    Rule,
    Variable,
    aggregates_in,
    aggregates_of,
)
from viewkeeper.program.functions import AGGREGATES, aggregate_type
from viewkeeper.program.types import FLOAT, NUMBER, NUMERIC, Kind, Type

COUNTED = frozenset({"row_number", "rank", "dense_rank", "ntile"})
SHARES = frozenset({"percent_rank", "cume_dist"})
CHOSEN = frozenset({"first_value", "last_value", "nth_value"})
SHIFTED = frozenset({"lag", "lead"})
# Those that are no aggregates otherwise.
WINDOWS = COUNTED | SHARES | CHOSEN | SHIFTED
# They are of some rows of the partition, those of the frame.
FRAMED = CHOSEN | frozenset(AGGREGATES)
# They are of the rows before and behind one, which must be told apart.
_ONE_BY_ONE = frozenset({"row_number", "ntile"}) | SHIFTED
_NEVER_NULL = COUNTED | SHARES | {"count"}
# Rows of a frame or a limit that any engine can count.
_MOST = 2**31 - 1


def window_type(operation: str, target: Type | None) -> Type | None:
    """The type of a window's value, or None where the target does not fit; ``may_be_null`` says more."""
    if operation in COUNTED or operation == "count":
        return NUMBER
    if operation in SHARES:
        return FLOAT
    if target is None:
        return None
    return target.optional(False) if operation in CHOSEN | SHIFTED else aggregate_type(operation, target)


def is_nullable(operation: str) -> bool:
    """Can there be no value: no row so far before, no value in the frame?"""
    return operation not in _NEVER_NULL


@dataclass(frozen=True)
class Windowing:
    """What a rule with windows computes: several results over the rows of one atom."""

    source: Atom
    results: tuple[str, ...]
    windows: tuple[Aggregate, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The variables of the atom."""
        return tuple(a.name for a in self.source.arguments if isinstance(a, Variable))

    @cached_property
    def partition(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.name for v in over_of(self.windows[0]).partition))

    @property
    def limits(self) -> dict[str, int]:
        """The results that must not be higher."""
        limits = zip(self.results, (over_of(window).limit for window in self.windows), strict=True)
        return {result: limit for result, limit in limits if limit is not None}

    @property
    def is_top(self) -> bool:
        """Are just the first rows of each partition numbered, so that nobody needs the others?"""
        return bool(self.limits) and all(window == self.windows[0] for window in self.windows)

    def total(self, over: Over) -> tuple[Order, ...]:
        """The order of a window, gone on with the other columns, so that no two rows are equal."""
        known = {*self.partition, *(key.variable.name for key in over.order)}
        return (*self.order(over), *(Order(Variable(name)) for name in self.columns if name not in known))

    def order(self, over: Over) -> tuple[Order, ...]:
        """The order without what says nothing: a column for the second time, or one of the partition."""
        found: dict[str, Order] = {}
        for key in over.order:
            if key.variable.name not in self.partition:
                found.setdefault(key.variable.name, key)
        return tuple(found.values())

    def has_peers(self, over: Over) -> bool:
        """Can rows be equal in the order?"""
        return len(self.order(over)) < len(self.total(over))

    def is_one_by_one(self, window: Aggregate) -> bool:
        """Does it matter which of two rows that are equal in the order comes first, so that the order must be total?"""
        over = over_of(window)
        return window.operation in _ONE_BY_ONE or over.frame is not None and over.frame.unit == "rows"


def over_of(window: Aggregate) -> Over:
    assert window.over is not None
    return window.over


def windowing_of(rule: Rule) -> Windowing | None:
    """None if it is another rule."""
    found = [equation for literal in rule.body if (equation := _equation(literal)) is not None]
    if not found or _wrong_form(rule) is not None:
        return None
    [source] = found[0][1].body
    assert isinstance(source, Atom)
    return Windowing(source, tuple(name for name, _ in found), tuple(window for _, window in found))


def has_windows(rule: Rule) -> bool:
    return any(window.over is not None for window in _aggregates((rule.head, *rule.body)))


def _aggregates(literals: tuple[Literal, ...]) -> Iterator[Aggregate]:
    """All aggregates, those inside others included."""
    for literal in literals:
        if isinstance(literal, Either):
            for alternative in literal.alternatives:
                yield from _aggregates(alternative)
        todo = list(aggregates_in(literal))
        for aggregate in todo:
            yield aggregate
            yield from _aggregates(aggregate.body)
            todo += aggregates_of(aggregate.target) if aggregate.target is not None else ()


def _equation(literal: Literal) -> tuple[str, Aggregate] | None:
    """``r = rank : { … } over (…)``; None if it is another literal."""
    match literal:
        case Comparison(operator="=", left=Variable() as left, right=Aggregate(over=Over()) as right):
            return left.name, right
    return None


# ---- what can be wrong


def window_problems(rule: Rule) -> list[Problem]:
    """What is wrong with a rule that has windows."""
    wrong = _wrong_form(rule)
    if wrong is not None:
        return [wrong]
    windowing = windowing_of(rule)
    assert windowing is not None
    return [found for window in windowing.windows for found in _wrong_window(window, windowing)]


def _wrong_form(rule: Rule) -> Problem | None:
    def wrong(node: Literal | Aggregate, why: str) -> Problem:
        return problem("WINDOW_RULE", node.span, why=why)

    first: Aggregate | None = None
    names: set[str] = set()
    for literal in rule.body:
        equation = _equation(literal)
        if equation is None:
            return wrong(literal, "a rule with a window has nothing beside equations with windows in its body")
        name, window = equation
        match window.body:
            case (Atom() as atom,) if all(isinstance(a, Variable) for a in atom.arguments):
                inside = [a.name for a in atom.arguments if isinstance(a, Variable)]
            case _:
                return wrong(window, "the braces of a window hold one atom with a variable at each place")
        if len(set(inside)) < len(inside):
            return wrong(window, "the atom in a window's braces has a different variable at each place")
        first = first or window
        if window.body != first.body or set(over_of(window).partition) != set(over_of(first).partition):
            return wrong(window, "all windows of a rule are over the same atom and have the same partition")
        if name in names | set(inside):
            return wrong(literal, f'"{name}" is bound already, so it cannot be the value of a window')
        names.add(name)
    heads = list(aggregates_in(rule.head))
    return wrong(heads[0], "a window is not part of a term") if heads else None


def _wrong_window(window: Aggregate, windowing: Windowing) -> Iterator[Problem]:
    over, operation = over_of(window), window.operation

    def wrong(why: str, hint: str) -> Problem:
        return problem("BAD_WINDOW", over.span or window.span, why=why, hint=hint)

    used = [*over.partition, *(key.variable for key in over.order)]
    for variable in used:
        if variable.name not in windowing.columns:
            yield wrong(
                f'"{variable.name}" is no variable of the atom in the braces', f"There are {', '.join(windowing.columns)}."
            )
    if wrong_target := _wrong_target(window, windowing):
        yield problem("BAD_WINDOW", window.span, why=wrong_target[0], hint=wrong_target[1])
    if over.limit is not None and operation != "row_number":
        yield wrong(f"{operation} has no limit", "Only the rows of row_number can be limited.")
    if over.frame is not None and operation not in FRAMED:
        yield wrong(f"{operation} has no frame", "It is computed from the whole partition; leave the frame out.")
    frame = over.frame
    if frame is not None and frame.low is not None and frame.high is not None and frame.low > frame.high:
        yield wrong("the frame ends before it starts", "Write the lower bound first: rows -2 0.")
    rows = [over.limit, over.number, *([frame.low, frame.high] if frame is not None and frame.unit == "rows" else [])]
    if any(number is not None and abs(number) > _MOST for number in rows):
        yield wrong("so many rows cannot be counted", f"Write a number of at most {_MOST}.")
    if frame is not None and has_offset(over) and len(windowing.order(over)) != 1:
        yield wrong("a range with a distance needs one column to measure it in", "Order by one column, or use rows.")


def _wrong_target(window: Aggregate, windowing: Windowing) -> tuple[str, str] | None:
    operation, target, number = window.operation, window.target, over_of(window).number
    match operation:
        case "ntile":
            if isinstance(target, Constant) and type(target.value) is int and 0 < target.value <= _MOST:
                return None
            return "ntile needs the number of its parts", "Write ntile 4 : { … }."
        case _ if operation in COUNTED | SHARES:
            if target is not None:
                return f"{operation} has no value to work on", f"Write {operation} : {{ … }}."
        case "count" if target is None:
            return None
        case _ if not isinstance(target, Variable) or target.name not in windowing.columns:
            return f"{operation} needs a variable of the atom to work on", f"Write {operation} x : {{ s(x) }}."
    if operation == "nth_value" and not number:
        return "nth_value needs the number of a row", "Write nth_value x 2 : { … }."
    if number is not None and operation not in SHIFTED | {"nth_value"}:
        return f"{operation} has no number behind its value", "Only lag, lead and nth_value have one."
    return None


def has_offset(over: Over) -> bool:
    """Is the frame a range of values around that of the row?"""
    return over.frame is not None and over.frame.unit == "range" and any((over.frame.low, over.frame.high))


def measure_problems(rule: Rule, types: Mapping[str, Type]) -> Iterator[Problem]:
    """Distances in columns that have none."""
    windowing = windowing_of(rule)
    for window in () if windowing is None else windowing.windows:
        assert windowing is not None
        over = over_of(window)
        keys = windowing.order(over) if has_offset(over) else ()
        for key in keys if len(keys) == 1 else ():
            found = types.get(key.variable.name)
            if found is not None and found.kind not in NUMERIC | {Kind.DATE, Kind.TIMESTAMP}:
                why, hint = f"there is no distance between values of {found.base}", "Use rows, or a column of numbers or dates."
                yield problem("BAD_WINDOW", over.span or window.span, why=why, hint=hint)
