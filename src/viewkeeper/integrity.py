"""Integrity views: each of their rows is a violation. Their level says how a row that comes is taken.

reject   the transaction is refused
warn     it is committed, and the rows are told with it
note     the same; who is told may care less

Only what comes counts: a violation that is there already blocks nothing. A definition is never refused; it tells what is violated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from viewkeeper.changed import Changed, StoredRow
from viewkeeper.errors import Problem, ViolationError, counted, problem
from viewkeeper.outcomes import Violated
from viewkeeper.program.ast import REJECT, Integrity, Program, Relation
from viewkeeper.store.catalog import NOWHERE

if TYPE_CHECKING:
    from viewkeeper.change import Change

_SHOWN = 20


def transaction_violations(change: Change) -> dict[str, Violated]:
    """The rows that come to integrity views; raises ViolationError if one of them is of level "reject"."""
    found = {}
    for view, integrity in change.program.integrity.items():
        changed = change.changes.get(view)
        if changed is not None and changed.inserted_rows and (came := _came(changed, view in change.firsts)) is not None:
            found[view] = Violated(view, integrity.level, integrity.message, came)
    rejected = {view: one for view, one in found.items() if one.level == REJECT}
    if rejected:
        rejected = readable(change, rejected)
        raise ViolationError([_problem(one) for one in rejected.values()], rejected)
    return found


def definition_violations(change: Change, before: Program) -> dict[str, Violated]:
    """What is violated in integrity views that are new, or that a definition has added rows to."""
    found = {}
    for view, integrity in change.program.integrity.items():
        new = _is_new(view, integrity, change.program, before)
        changed = _all(change, change.program.relation(view)) if new else change.changes.get(view)
        if changed is not None and changed.inserted_rows:
            found[view] = Violated(view, integrity.level, integrity.message, changed)
    return found


def readable(change: Change, found: dict[str, Violated]) -> dict[str, Violated]:
    """The same, with rows that can be read when nothing is left of the change."""
    return {
        view: replace(one, changed=Changed.of(one.changed.relation, _rows(change, one.changed.relation), []))
        if view in change.firsts
        else one
        for view, one in found.items()
    }


def _came(changed: Changed, first: bool) -> Changed | None:
    """What came alone; None if that is only fewer copies of what was there."""
    relation = changed.relation
    if first:
        return changed
    came, went = changed.stored
    if "bag" in relation.qualifiers:
        copies = {row[:-1]: row[-1] for row in went}
        came = [row for row in came if row[-1] > copies.get(row[:-1], 0)]
    return Changed.of(relation, came, []) if came else None


def _is_new(view: str, integrity: Integrity, program: Program, before: Program) -> bool:
    """Is it an integrity view, or one of this level, only now?"""
    if view not in before.by_name or before.integrity.get(view) != integrity:
        return True
    rules = ([rule for rule in one.rules if rule.head.relation == view] for one in (program, before))
    return next(rules) != next(rules)


def _all(change: Change, relation: Relation) -> Changed:
    kept = change.kept[relation.name]
    if relation.name in change.firsts:
        return change.changes[relation.name]
    return Changed.of(relation, _rows(change, relation) if kept.rows or kept.place == NOWHERE else [], [])


def _rows(change: Change, relation: Relation) -> list[StoredRow]:
    from viewkeeper.program.arrow import rows_of_batch

    return [row for batch in change.rows(relation) for row in rows_of_batch(batch, max(1, relation.arity))]


def _problem(violated: Violated) -> Problem:
    told = list(_first(violated.told()))
    rows = counted(violated.changed.inserted_rows, "row")
    return problem("INTEGRITY_VIOLATED", view=violated.view, rows=rows, told="\n".join(f"  {text}" for text in told))


def _first(texts: Iterable[str]) -> Iterable[str]:
    for number, text in enumerate(texts):
        if number == _SHOWN:
            yield "…"
            return
        yield text
