"""Requests that change something: transactions, definitions, levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from viewkeeper.changed import Changed
from viewkeeper.errors import ViewkeeperError
from viewkeeper.outcomes import Commit, Result, Violated
from viewkeeper.serve.answers import columns_of_answer
from viewkeeper.serve.bodies import (
    ChangedAnswer,
    CommitAnswer,
    DefinitionAnswer,
    DefinitionBody,
    LevelAnswer,
    LevelBody,
    ResultAnswer,
)
from viewkeeper.serve.calls import Call, bad_request
from viewkeeper.serve.envelopes import error_response, json_response
from viewkeeper.serve.grants import Grants
from viewkeeper.serve.hiding import visible_error, visible_violations
from viewkeeper.watched import Wanted, json_rows, told_columns
from viewkeeper.wire import Column, ViolationBody, encode_rows

_MODIFYING = ("insert", "update", "delete", "truncate", "merge")
_LONGEST_KEY = 200


async def transactions(call: Call) -> Response:
    return await _transaction(call, dry_run=False)


async def preview(call: Call) -> Response:
    return await _transaction(call, dry_run=True)


async def _transaction(call: Call, dry_run: bool) -> Response:
    how = call.parameters.choice("changes", "counts", "none", "rows")
    strict = call.parameters.flag("strict")
    call.parameters.nothing_else()
    key = _key(call)
    operations = await call.operations()
    call.check_writable({one.relation for one in operations})
    service = call.service

    def work() -> CommitAnswer:
        commit = service.warehouse.commit_operations(operations, strict=strict, dry_run=dry_run, key=None if dry_run else key)
        if not dry_run:
            service.committed(commit)
        return commit_answer(call, commit, how)

    return await _changed(call, work)


async def _changed(call: Call, work: Any) -> Response:
    """Does something in the writer's thread, and tells what the token may know of it."""
    try:
        return json_response(await call.service.change(work))
    except ViewkeeperError as error:
        violations = violation_bodies(getattr(error, "violations", {}))
        return error_response(visible_error(error, call.grants), visible_violations(violations, call.grants))


def _key(call: Call) -> str | None:
    """Keys of different tokens are different keys."""
    key = call.headers.get("idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
        raise bad_request(f"the Idempotency-Key has not 1 to {_LONGEST_KEY} characters", "A UUID is a good key.")
    return f"{call.token.name} {key}"


# ---- what a commit did


def commit_answer(call: Call, commit: Commit, how: str) -> CommitAnswer:
    changes = commit.changes
    repeated = commit.repeated
    if repeated and commit.number is not None and how != "none" and commit.number >= call.service.oldest():
        changes = call.service.warehouse.changes(commit.number)
    violations = visible_violations(violation_bodies(commit.violations), call.grants)
    told = changes_answer(changes, how, call.grants)
    return CommitAnswer(commit.number, repeated, commit.engine, commit.reason, commit.seconds, told, violations)


def changes_answer(changes: dict[str, Changed], how: str, grants: Grants) -> dict[str, ChangedAnswer]:
    """What changed in the relations that may be read: nothing, counts, or rows."""
    if how == "none":
        return {}
    readable = {name: changed for name, changed in sorted(changes.items()) if grants.reads(name)}
    if how == "counts":
        return {name: ChangedAnswer(changed.inserted_rows, changed.deleted_rows) for name, changed in readable.items()}
    return {name: _rows_answer(changed) for name, changed in readable.items()}


def _rows_answer(changed: Changed) -> ChangedAnswer:
    came, went = changed.stored
    before = changed.before or changed.relation
    return ChangedAnswer(
        json_rows(came, changed.relation),
        json_rows(went, before),
        [Column(*column) for column in told_columns(changed.relation)],
        None if changed.before is None else [Column(*column) for column in told_columns(before)],
    )


def violation_bodies(violations: Mapping[str, Violated]) -> dict[str, ViolationBody]:
    """Rows that came to integrity views."""
    found = {}
    for name, violated in violations.items():
        relation = violated.changed.relation
        columns = tuple(Column(*column) for column in told_columns(relation))
        rows = json_rows(violated.changed.stored[0], relation)
        messages = list(violated.told()) if violated.message else None
        found[name] = ViolationBody(violated.level, violated.message, rows, columns, messages)
    return found


# ---- definitions


async def definitions(call: Call) -> Response:
    call.parameters.nothing_else()
    call.needs(call.grants.define or call.grants.admin, "define anything")
    body = await call.struct(DefinitionBody)
    given = [name for name in ("program", "sql", "drop") if getattr(body, name) is not None]
    if len(given) != 1:
        raise bad_request("the body has not exactly one of program, sql and drop")
    return await _changed(call, lambda: _define(call, body))


def _define(call: Call, body: DefinitionBody) -> DefinitionAnswer:
    warehouse, service = call.service.warehouse, call.service
    if body.sql is not None:
        return _sql(call, body.sql, body.strict)
    if body.program is not None:
        commit = warehouse.define(body.program, body.name, replace=body.replace, strict=body.strict)
    else:
        assert body.drop is not None
        commit = warehouse.drop(*([body.drop] if isinstance(body.drop, str) else body.drop))
    service.committed(commit, defines=True)
    violations = violation_bodies(commit.violations)
    return DefinitionAnswer(
        commit.number,
        commit.engine,
        commit.reason,
        commit.seconds,
        commit.rows,
        changes_answer(commit.changes, "counts", call.grants),
        violations,
        [],
    )


def _sql(call: Call, text: str, strict: bool) -> DefinitionAnswer:
    """Statements; each commit is told when it is made, also if a later statement fails."""
    warehouse, service = call.service.warehouse, call.service
    if not call.grants.writes_all:
        tried = warehouse.sql(text, dry_run=True)
        call.needs(not any(result.kind in _MODIFYING for result in tried), "write all relations, as these statements do")
    told: list[Commit] = []

    def each(result: Result) -> None:
        if result.commit is not None and not any(result.commit is commit for commit in told):
            told.append(result.commit)
            service.committed(result.commit, defines=result.kind not in _MODIFYING)

    results = warehouse.sql(text, strict=strict, each=each)
    changes = {name: changed for commit in told for name, changed in commit.changes.items()}
    violations = {n: b for commit in told for n, b in violation_bodies(commit.violations).items()}
    numbers = [commit.number for commit in told if commit.number is not None]
    return DefinitionAnswer(
        max(numbers, default=None),
        told[-1].engine if told else "",
        "",
        sum(commit.seconds for commit in told),
        {name: rows for commit in told for name, rows in commit.rows.items()},
        changes_answer(changes, "counts", call.grants),
        violations,
        [_result(result) for result in results],
    )


def _result(result: Result) -> ResultAnswer:
    commit = result.commit.number if result.commit is not None else None
    if result.answer is None:
        return ResultAnswer(result.statement, result.kind, commit, result.message or None)
    columns = columns_of_answer(result.answer)
    rows = encode_rows(result.answer, [column.type for column in columns])
    return ResultAnswer(result.statement, result.kind, commit, None, columns, rows)


# ---- levels


async def level(call: Call) -> Response:
    call.parameters.nothing_else()
    name, most = call.readable(call.path("name")), call.service.settings.max_page

    def work() -> LevelAnswer:
        found = call.service.warehouse.rows_of(Wanted(name))
        columns = [Column(*column) for column in told_columns(found.relation)]
        level = call.service.levels.get(name)
        return LevelAnswer(name, level, None, columns, json_rows(found.rows[:most], found.relation) if level else [])

    return json_response(await call.service.read(work))


async def set_level(call: Call) -> Response:
    call.parameters.nothing_else()
    name = call.readable(call.path("name"))
    call.needs(call.grants.define or call.grants.admin, "change levels")
    body = await call.struct(LevelBody)

    def work() -> LevelAnswer:
        leveled = call.service.warehouse.set_level(name, body.level)
        call.service.committed(leveled.commit, defines=True)
        columns = columns_of_answer(leveled.violated)
        rows = encode_rows(leveled.violated, [column.type for column in columns])
        return LevelAnswer(name, body.level, leveled.commit.number, columns, rows)

    return await _changed(call, work)
