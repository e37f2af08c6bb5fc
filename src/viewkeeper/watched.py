"""Rows of a view that somebody watches: what they are now, and what each commit changes in them.

``Wanted`` names a view, values that some of its columns have, and a filter. The filter is a body over the names of the columns that reads no
relation, so whether a row fits depends on the row alone: of a commit only the rows that came and went are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from viewkeeper.answer import text_of
from viewkeeper.changed import Changed, StoredRow, order
from viewkeeper.definitions import Definitions
from viewkeeper.errors import DataError, Problem, ProgramError, Source, StoreError, closest, problem, shortened
from viewkeeper.history import History, changes_of
from viewkeeper.language import check_syntax, parse_query
from viewkeeper.program.ast import Column, Constant, Program, Relation, TypeDeclaration, atoms_in
from viewkeeper.program.printing import print_constant
from viewkeeper.program.strata import dependencies, reach
from viewkeeper.program.types import NUMBER, Kind, Type
from viewkeeper.program.values import BadValue, Stored, format_date, format_decimal, format_timestamp, restore, text_parser
from viewkeeper.state import State, Work
from viewkeeper.store.log import Log, net

LARGE = 200_000
"""A relation with more rows is not read as a whole for some of them."""
_ROW = "row"
_FILTER = "<filter>"
_MOST_ROWS = 50_000
"""After so many rows what follows is told the next time."""


@dataclass(frozen=True)
class Wanted:
    """The rows of a view that have these values (as text) in these columns, and fit a filter."""

    view: str
    bound: tuple[tuple[str, str], ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class Found:
    """The rows that were there after a commit, in order."""

    relation: Relation
    commit: int
    rows: list[StoredRow]


@dataclass(frozen=True)
class Step:
    """What changed with the commits from ``first`` to ``commit``; with every other one between them nothing did."""

    first: int
    commit: int
    changed: Changed


@dataclass(frozen=True)
class Told:
    """The changes up to ``until``; or why there are none to tell: ``reset`` says so, ``gone`` if there is no such view any more."""

    until: int
    steps: tuple[Step, ...] = ()
    reset: str | None = None
    gone: bool = False


# ---- what there is


def find(wanted: Wanted, state: State, definitions: Definitions, as_of: int | None, most: int | None = None) -> Found:
    """What there is, or was after a commit; ``most``: of a large relation only the first rows, if they can be had alone."""
    last = state.catalog.last_commit()
    program, then = state.program, None
    if as_of is not None and as_of != last:
        then = History(state, definitions, as_of)
        program = then.program
    relation = known(wanted.view, program)
    fits = Fitting(wanted, program)
    bound = bool(wanted.bound) and variable(relation.name, 0) == relation.name
    if then is not None and bound and wanted.view in program.external:
        rows = sorted(_bound_rows(fits, relation, lambda text: then.answer(text)[1]), key=order)
    elif then is not None:
        rows = sorted(then.rows(relation), key=order)
    elif bound:
        rows = _bound_rows(fits, relation, lambda text: _asked(text, state))
    else:
        rows = _rows(relation, state, most if fits.all else None)
    return Found(relation, last if as_of is None else as_of, fits.filtered(rows))


def _rows(relation: Relation, state: State, most: int | None) -> list[StoredRow]:
    from viewkeeper.program.arrow import rows_of_batch

    width, kept = max(1, relation.arity), state.kept[relation.name]
    rows = (row for batch in state.rows(relation, ordered=True) for row in rows_of_batch(batch, width))
    if kept.place == "cold":
        return sorted(rows, key=order)
    return list(islice(rows, most if kept.rows > LARGE else None))


def _bound_rows(fits: Fitting, relation: Relation, ask: Callable[[str], list[StoredRow]]) -> list[StoredRow]:
    """Asked with the values in their places, so that only what is needed is derived; then they are put back."""
    places = dict(fits.values)
    arguments = [
        print_constant(Constant(restore(places[i], c.type), c.type)) if i in places else f"v{i}"
        for i, c in enumerate(relation.columns)
    ]
    found = ask(f"{relation.name}({', '.join(arguments)})")
    free = [i for i in range(relation.arity) if i not in places]
    if not free:
        return [tuple(places[i] for i in range(relation.arity))] if found else []
    positions = {place: position for position, place in enumerate(free)}
    return [tuple(places[i] if i in places else row[positions[i]] for i in range(relation.arity)) for row in found]


def _asked(text: str, state: State) -> list[StoredRow]:
    from viewkeeper.program.arrow import rows_of_batch

    program, relation = parse_query(text, state.program)
    work = Work.asked(program, relation.name, state.kept)
    with state.engine("embedded", work) as runner:
        work.evaluate(runner)
        batches = runner.read(relation, ordered=True)
        return [row for batch in batches for row in rows_of_batch(batch, max(1, relation.arity))]


# ---- what changes


def follow(wanted: Wanted, since: int, until: int | None, state: State, definitions: Definitions, gather: bool) -> Told:
    """What the commits after one changed, up to another or to the last; ``gather``: as one change."""
    last, oldest = state.catalog.last_commit(), state.catalog.oldest()
    if not 0 <= since <= last:
        raise StoreError(problem("UNKNOWN_COMMIT", commit=since, last=last))
    last = last if until is None else min(last, until)
    relation = state.program.by_name.get(wanted.view)
    if relation is None:
        return Told(last, gone=True)
    if since < oldest:
        return _anew(f"the log begins after commit {oldest}", state)
    before = definitions.program_at(state.catalog, since).by_name.get(wanted.view) if since < last else relation
    if before is not None and not same_columns(before, relation):
        return _anew("its columns have changed", state)
    if _is_virtual(wanted.view, since, last, state, definitions):
        return _derived_changes(wanted, since, last, state, definitions, gather)
    entries = Log(state.catalog).entries(since, last, wanted.view)
    found: list[tuple[int, Changed]] = []
    rows = 0
    for entry in entries:
        changed = changes_of(state, definitions, entry.commit, wanted.view)[wanted.view]
        if changed.before is not None or not same_columns(changed.relation, relation):
            return _anew("its columns have changed", state)
        found.append((entry.commit, changed))
        rows += changed.inserted_rows + changed.deleted_rows
        if rows > _MOST_ROWS and entry is not entries[-1]:
            last = entry.commit
            break
    steps = _fitting(found, Fitting(wanted, state.program), relation)
    return Told(last, _gathered(steps, relation) if gather else tuple(steps))


def _anew(why: str, state: State) -> Told:
    """Who followed starts anew from what there is now, whatever was asked for."""
    return Told(state.catalog.last_commit(), reset=why)


def _is_virtual(view: str, since: int, last: int, state: State, definitions: Definitions) -> bool:
    """Is there a commit, of those after one up to another, that told nothing of a view?"""
    defined = [d.commit for d in state.catalog.definitions() if since < d.commit <= last]
    programs = (definitions.program_at(state.catalog, commit) for commit in (since, *defined))
    return any(view in program.virtual for program in programs)


def _derived_changes(wanted: Wanted, since: int, last: int, state: State, definitions: Definitions, gather: bool) -> Told:
    """What changed in a view of which nothing is told: what is wanted of it is derived before and after each commit that may change it."""
    commits: dict[int, set[str]] = {d.commit: {wanted.view} for d in state.catalog.definitions() if since < d.commit <= last}
    for entry in Log(state.catalog).entries(since, last):
        commits.setdefault(entry.commit, set()).add(entry.relation)
    there_then = wanted.view in definitions.program_at(state.catalog, since).by_name
    steps, before = list[Step](), find(wanted, state, definitions, since) if there_then else None
    for commit in sorted(commits):
        program = definitions.program_at(state.catalog, commit)
        if wanted.view not in program.by_name:
            if before is None:
                continue
            return _anew("it was defined anew", state)
        if not (reach(dependencies(program), {wanted.view}) | {wanted.view}) & commits[commit]:
            continue
        after = find(wanted, state, definitions, commit)
        if before is not None and not same_columns(before.relation, after.relation):
            return _anew("its columns have changed", state)
        there, was = set(after.rows), set(before.rows if before is not None else ())
        if there != was:
            changed = Changed.of(after.relation, list(there - was), list(was - there))
            steps.append(Step(commit, commit, changed))
        before = after
    return Told(last, _gathered(steps, state.program.relation(wanted.view)) if gather else tuple(steps))


def _fitting(found: list[tuple[int, Changed]], fits: Fitting, relation: Relation) -> list[Step]:
    """The part of each change that is wanted."""
    if fits.all:
        return [Step(commit, commit, changed) for commit, changed in found if changed.inserted_rows or changed.deleted_rows]
    fitting = set(fits.filtered([row for _, changed in found for rows in changed.stored for row in rows]))
    steps = []
    for commit, changed in found:
        came, went = ([row for row in rows if row in fitting] for rows in changed.stored)
        if came or went:
            steps.append(Step(commit, commit, Changed.of(relation, came, went)))
    return steps


def _gathered(steps: list[Step], relation: Relation) -> tuple[Step, ...]:
    if len(steps) < 2:
        return tuple(steps)
    came, went = net(step.changed.stored for step in steps)
    return (Step(steps[0].first, steps[-1].commit, Changed.of(relation, list(came), list(went))),)


def same_columns(one: Relation, other: Relation) -> bool:
    """Are rows of one told like those of the other?"""
    return [(c.name, c.type) for c in one.columns] == [(c.name, c.type) for c in other.columns] and one.key == other.key


# ---- which rows are wanted


class Fitting:
    """Which rows of a view are wanted; refuses columns and values that there are not, and what is no filter."""

    def __init__(self, wanted: Wanted, program: Program) -> None:
        self.relation = known(wanted.view, program)
        self.values = [_bound(column, text, self.relation) for column, text in wanted.bound]
        self.where = None
        if wanted.where is not None and wanted.where.strip():
            self.where = _filter(wanted.where, self.relation, program.types)

    @property
    def all(self) -> bool:
        return not self.values and self.where is None

    def filtered(self, rows: list[StoredRow]) -> list[StoredRow]:
        """Those that are wanted, in the order they have."""
        if self.values:
            rows = [row for row in rows if all(row[place] == value for place, value in self.values)]
        if self.where is None or not rows:
            return rows
        fitting = self._fitting(set(rows))
        return [row for row in rows if row in fitting]

    def _fitting(self, rows: set[StoredRow]) -> set[StoredRow]:
        from viewkeeper.engines.embedded import EmbeddedEngine
        from viewkeeper.program.arrow import rows_of_batch

        assert self.where is not None
        work, looked_at, answer = self.where
        width = self.relation.arity
        engine = EmbeddedEngine.private()
        try:
            engine.prepare(work.core)
            engine.insert_rows(looked_at, rows)
            work.evaluate(engine)
            batches = engine.read(answer)
            return {row[:width] or (1,) for batch in batches for row in rows_of_batch(batch, max(1, answer.arity))}
        finally:
            engine.close()


def _bound(column: str, text: str, relation: Relation) -> tuple[int, Stored]:
    names = [c.name for c in relation.columns]
    if column not in names:
        why = f'relation "{relation.name}" has no column "{shortened(column)}"'
        raise DataError(
            problem("BAD_ARGUMENT", why=why, hint=closest(column, names) + f"Its columns are ({', '.join(names)}).")
        )
    place = names.index(column)
    type_ = relation.columns[place].type
    try:
        return place, text_parser(type_)(text)
    except BadValue as error:
        why = f'"{shortened(text)}" is no value of column "{column}": {error}'
        raise DataError(problem("BAD_ARGUMENT", why=why, hint=f"The column is of type {type_}.")) from None


@lru_cache(256)
def _filter(where: str, relation: Relation, types: tuple[TypeDeclaration, ...]) -> tuple[Work, Relation, Relation]:
    """How to find out which rows fit: the work, the relation to put the rows into that are looked at, and the one that has those that fit."""
    names = [variable(c.name, place) for place, c in enumerate(relation.columns)]
    row = Relation(_ROW, tuple(Column(name, c.type) for name, c in zip(names, relation.columns, strict=True)))
    check_syntax(where, _FILTER)  # by itself: "a), (b" is no filter
    try:
        # It stands on lines of its own: a comment in it ends there.
        asked, answer = parse_query(f"{_ROW}({', '.join(names)}), (\n{where}\n)", Program(types=types, relations=(row,)))
    except ProgramError as error:
        raise ProgramError(_in_filter(where, found) for found in error.problems) from None
    if len(list(atoms_in(asked.rules[-1].body))) != 1:
        hint = "A filter compares the columns of a row; define a view for what reads other relations."
        raise DataError(problem("BAD_ARGUMENT", why="the filter reads a relation", hint=hint))
    return Work.of(asked, {answer.name}), row, answer


def _in_filter(where: str, found: Problem) -> Problem:
    """A problem at its place in the filter, which began a line later in what was read."""
    span = found.span and replace(found.span, line=found.span.line - 1, end_line=found.span.end_line - 1)
    return replace(found, span=span, source=Source(_FILTER, where))


@lru_cache(1000)
def variable(column: str, place: int) -> str:
    """The name of a column as a variable; if it cannot be one, a name that says its place."""
    try:
        _, answer = parse_query(f"{_ROW}({column})", Program(relations=(Relation(_ROW, (Column("x", NUMBER),)),)))
    except ProgramError:
        return f"column{place + 1}"
    return column if [c.name for c in answer.columns] == [column] else f"column{place + 1}"


# ---- what may be seen


def known(name: str, program: Program) -> Relation:
    """The relation of a name. Who asks may not know all names, so that none that is near is told."""
    if name not in program.by_name:
        raise StoreError(problem("UNKNOWN_RELATION", relation=shortened(name), near=""))
    return program.relation(name)


def only_visible(program: Program, visible: Callable[[str], bool]) -> Program:
    """The program as somebody knows it who may see only some relations: without any rules."""
    relations = tuple(r for r in program.relations if visible(r.name))
    return replace(program, relations=relations, inner=(), rules=(), directives=())


# ---- values as they are told


def json_rows(rows: Iterable[StoredRow], relation: Relation) -> list[list[Any]]:
    """Rows of stored values as ``wire`` tells them."""
    found = [list(row) for row in rows] if relation.columns else [[] for _ in rows]
    for place, type_ in enumerate(relation.types):
        form = _json_form(type_)
        if form is not None:
            for row in found:
                if row[place] is not None:
                    row[place] = form(row[place])
    return found


def _json_form(type_: Type) -> Callable[[Any], Any] | None:
    if type_.kind is Kind.DECIMAL:
        scale = type_.scale
        return lambda value: format_decimal(value, scale)
    return _JSON.get(type_.kind)


def _json_float(value: float) -> float | str:
    return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_JSON: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.BOOL: bool,
    Kind.DATE: format_date,
    Kind.TIMESTAMP: format_timestamp,
    Kind.FLOAT: _json_float,
    Kind.BYTES: bytes.hex,
}


def told_columns(relation: Relation) -> Sequence[tuple[str, str, bool, str | None]]:
    """Name, base type as it is printed, whether it is part of the key, declared name of the type."""
    return [(c.name, str(c.type.base.optional(c.type.nullable)), c.name in relation.key, c.type.name) for c in relation.columns]


def arrow_table(rows: Sequence[StoredRow], relation: Relation) -> Any:
    """Rows of stored values as an Arrow table."""
    from viewkeeper.program.arrow import batch_of_rows, to_real

    return to_real([batch_of_rows(rows, relation)], relation)


def json_value(value: Any) -> Any:
    """Values of Python, also inside lists and dicts, as they are told."""
    match value:
        case dict():
            return {name: json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [json_value(inner) for inner in value]
        case float():
            return _json_float(value)
        case None | bool() | int() | str():
            return value
    return text_of(value)
