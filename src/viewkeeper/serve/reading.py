"""Requests that only read: relations, rows, commits, questions."""

from __future__ import annotations

from starlette.responses import Response

from viewkeeper.answer import Answer
from viewkeeper.errors import StoreError, ViewkeeperError, problem
from viewkeeper.outcomes import Logged, Shown
from viewkeeper.serve.answers import Page, form_of, limit_of, page_of_answer, page_of_view, response
from viewkeeper.serve.asking import cursor_of, wanted, whole
from viewkeeper.serve.bodies import (
    ChangedAnswer,
    CommitsAnswer,
    CommitTold,
    QueryBody,
    RelationAnswer,
    ViewsAnswer,
    WhyAnswer,
    WhyBody,
)
from viewkeeper.serve.calls import Call
from viewkeeper.serve.changing import changes_answer
from viewkeeper.serve.envelopes import json_response
from viewkeeper.serve.hiding import visible_why
from viewkeeper.watched import json_value, told_columns
from viewkeeper.wire import Column

_MOST_COMMITS = 1_000


async def views(call: Call) -> Response:
    only = call.parameters.take("name")
    call.parameters.nothing_else()
    if only is not None:
        call.readable(only)

    def work() -> ViewsAnswer:
        warehouse = call.service.warehouse
        commit = warehouse.last()
        if only is not None and only not in call.service.names:
            raise call.unknown(only)
        shown = [s for s in warehouse.show() if call.grants.sees(s.relation.name) and only in (None, s.relation.name)]
        return ViewsAnswer([_relation(call, s) for s in shown], commit)

    return json_response(await call.service.read(work))


def _relation(call: Call, shown: Shown) -> RelationAnswer:
    relation, readable = shown.relation, call.grants.reads(shown.relation.name)
    columns = [Column(*column) for column in told_columns(relation)]
    return RelationAnswer(
        relation.name,
        shown.kind,
        columns,
        shown.rows if readable else None,
        call.service.levels.get(relation.name),
        shown.place.startswith("nothing"),
        shown.place,
        # Rules name what they read.
        shown.declaration if call.grants.reads_all else None,
    )


async def view(call: Call) -> Response:
    """Rows of a relation, page by page."""
    name = call.readable(call.path("name"))
    form = form_of(call.parameters.take("format"), call.headers.get("accept", ""))
    as_of = call.parameters.number("as_of")
    limit = limit_of(call.parameters.number("limit", 1), call.service.settings.max_page)
    after = call.parameters.take("after")
    asked = wanted(name, call.parameters)
    cursor = None if after is None else cursor_of(after, asked)
    commit = cursor.commit if cursor is not None else as_of

    def work() -> Page:
        found = None if commit is None else call.service.answers.get(asked, commit)
        if found is None:
            # One more than the page, to know whether there are more.
            most = (0 if cursor is None else cursor.offset) + limit + 1
            found = call.service.warehouse.rows_of(asked, as_of=commit, most=most)
            if limit < len(found.rows) != most:
                call.service.answers.put(asked, found.commit, found)
        return page_of_view(found, cursor, limit, asked, form)

    try:
        return response(await call.service.read(work), form)
    except StoreError as error:
        raise call.unknown(name) if error.code == "UNKNOWN_RELATION" else error from None


async def query(call: Call) -> Response:
    """Any question over what may be read."""
    form = form_of(call.parameters.take("format"), call.headers.get("accept", ""))
    call.parameters.nothing_else()
    body = await call.struct(QueryBody)
    limit = limit_of(body.limit, call.service.settings.max_page)
    cursor = None if body.after is None else cursor_of(body.after, body.query)
    commit = cursor.commit if cursor is not None else body.as_of

    def work() -> Page:
        answer, number = _answered(call, body.query, commit, limit)
        return page_of_answer(answer, number, cursor, limit, body.query, form)

    return response(await call.service.read(work), form)


def _answered(call: Call, text: str, commit: int | None, limit: int) -> tuple[Answer, int]:
    """The answer to a question, and the commit after which it is the answer."""
    warehouse, answers = call.service.warehouse, call.service.answers
    if not call.grants.reads_all:
        warehouse.check_visible(text, call.grants.reads)
    if commit is None:
        held = warehouse.ask(text)
        found, number = held.answer, held.commit
    else:
        found, number = answers.get(text, commit) or warehouse.query(text, as_of=commit), commit
    if len(found) > limit:
        answers.put(text, number, found)
    return found, number


async def why(call: Call) -> Response:
    """Why a row is there, or why not."""
    call.parameters.nothing_else()
    body = await call.struct(WhyBody)

    def work() -> WhyAnswer:
        warehouse = call.service.warehouse
        if not call.grants.reads_all:
            warehouse.check_visible(body.row, call.grants.reads, row=True)
        told = visible_why(warehouse.why(body.row), call.grants, call.service.names)
        return WhyAnswer(bool(told), str(told), [json_value(entry) for entry in told.to_dicts()])

    return json_response(await call.service.read(work))


# ---- commits


async def commits(call: Call) -> Response:
    since = call.parameters.number("since") or 0
    limit = limit_of(call.parameters.number("limit", 1), _MOST_COMMITS)
    name = call.parameters.take("view")
    call.parameters.nothing_else()
    if name is not None:
        call.readable(name)

    def work() -> CommitsAnswer:
        warehouse = call.service.warehouse
        last, oldest = warehouse.last(), call.service.oldest()
        until = None if name is not None else min(last, max(since, oldest) + limit)
        found = warehouse.log(since, name, until)[:limit]
        return CommitsAnswer([_commit(call, one) for one in found], last, oldest)

    try:
        return json_response(await call.service.read(work))
    except ViewkeeperError as error:
        raise call.unknown(name) if name is not None and error.code == "UNKNOWN_RELATION" else error from None


async def commit(call: Call) -> Response:
    how = call.parameters.choice("changes", "counts", "none", "rows")
    call.parameters.nothing_else()
    number = whole(call.path("number"), "the number of a commit", 1)

    def work() -> CommitTold:
        warehouse = call.service.warehouse
        if number <= call.service.oldest():
            warehouse.changes(number)  # refuses what is forgotten
        found = warehouse.log(number - 1, None, number)
        if not found:
            raise StoreError(problem("UNKNOWN_COMMIT", commit=number, last=warehouse.last()))
        told = _commit(call, found[0])
        if how == "rows":
            return _with(told, changes_answer(warehouse.changes(number), how, call.grants))
        return _with(told, {}) if how == "none" else told

    return json_response(await call.service.read(work))


def _commit(call: Call, one: Logged) -> CommitTold:
    grants = call.grants
    changes = {name: ChangedAnswer(*counts) for name, counts in sorted(one.changes.items()) if grants.reads(name)}
    views = [view for view in one.views if grants.reads(str(view["view"]))]
    reason = one.reason if grants.reads_all else ""  # it tells how many rows there were
    return CommitTold(one.number, one.time, one.kind, one.engine, one.seconds, reason, changes, views)


def _with(told: CommitTold, changes: dict[str, ChangedAnswer]) -> CommitTold:
    return CommitTold(told.commit, told.time, told.kind, told.engine, told.seconds, told.reason, changes, told.views)
