"""What somebody is told who may not read everything: nothing of what is hidden, not even that it is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from viewkeeper.errors import DataError, EngineError, EvaluationError, StoreError, ViewkeeperError, problem
from viewkeeper.serve.grants import Grants
from viewkeeper.why import Why
from viewkeeper.why.outcome import Absence, Attempt, Derivation
from viewkeeper.wire import ViolationBody

_NAME = re.compile(r"[^\W\d][\w.?]*")
_HIDDEN = "(not shown)"


def visible_error(error: ViewkeeperError, grants: Grants) -> ViewkeeperError:
    """An error of a change. What a rule that may be hidden complains about is not told."""
    if grants.reads_all:
        return error
    if error.code == "INTEGRITY_VIOLATED":
        shown = [p for p in error.problems if grants.reads(str(p.parameters.get("view", "")))]
        return DataError(shown) if shown else StoreError(problem("HIDDEN_REASON"))
    is_harmless = isinstance(error, DataError) or error.code in _HARMLESS
    return error if is_harmless else StoreError(problem("HIDDEN_REASON"))


_HARMLESS = {
    "KEY_REUSED",
    "KEY_VIOLATION",
    "NO_KEY",
    "BUSY",
    "CLOSING",
    "DISK_FULL",
    "LOCKED",
    "UNKNOWN_RELATION",
    "BASE_CONFLICT",
}


def visible_failure(error: ViewkeeperError, grants: Grants, names: frozenset[str]) -> ViewkeeperError:
    """An error of a question: a rule that fails may be one of a hidden relation."""
    if grants.reads_all or not isinstance(error, (EvaluationError, EngineError)):
        return error
    hidden = {name for name in names if not grants.reads(name)}
    is_hidden = any(name in hidden for name in _NAME.findall(error.render()))
    return StoreError(problem("HIDDEN_REASON")) if is_hidden else error


def visible_violations(found: Mapping[str, ViolationBody], grants: Grants) -> dict[str, ViolationBody]:
    return {name: body for name, body in found.items() if grants.reads(name)}


def visible_why(why: Why, grants: Grants, names: frozenset[str]) -> Why:
    """The tree without rows of hidden relations and without the rules that read them. ``names``: all relations there are."""
    if grants.reads_all:
        return why
    hidden = {name for name in names if not grants.reads(name)}

    def mentions(text: str | None) -> bool:
        return text is not None and any(name in hidden for name in _NAME.findall(text))

    derivation = None if why.derivation is None else _derivation(why.derivation, mentions)
    absence = None if why.absence is None else _absence(why.absence, mentions)
    return Why(why.text, derivation, absence)


def _derivation(root: Derivation, mentions: Callable[[str | None], bool]) -> Derivation:
    """Bottom up and without recursion: a tree may be thousands of steps deep."""
    made: dict[int, Derivation] = {}
    for node in reversed(list(root.walk())):
        partly = mentions(node.rule)
        # What a rule with something hidden in it compares are values of what is hidden.
        shown = [p for p in node.premises if not mentions(p.text) and not (partly and p.kind not in ("rule", "base", "fact"))]
        premises = tuple(made[id(p)] for p in shown)
        kept = replace(node, premises=premises)
        made[id(node)] = replace(kept, rule=_HIDDEN, bindings={}) if partly else kept
    return made[id(root)]


def _absence(root: Absence, mentions: Callable[[str | None], bool]) -> Absence:
    attempts = tuple(_attempt(attempt, mentions) for attempt in root.attempts)
    return replace(root, attempts=attempts)


def _attempt(attempt: Attempt, mentions: Callable[[str | None], bool]) -> Attempt:
    if mentions(attempt.rule) or mentions(attempt.needs) or mentions(attempt.reason):
        return Attempt(attempt.number, _HIDDEN, "something", "it is not there", None)
    missing = None if attempt.missing is None else _absence(attempt.missing, mentions)
    return replace(attempt, missing=missing)
