"""Where a subscriber begins: with a snapshot, after a commit, or where its name says it stopped."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec

from viewkeeper.errors import StoreError, problem
from viewkeeper.serve.accounts import check_name
from viewkeeper.serve.asking import bad, topic, whole
from viewkeeper.serve.calls import Call
from viewkeeper.serve.feeds import Topic
from viewkeeper.serve.streams import Start
from viewkeeper.watched import Wanted

_LAST_EVENT = "last-event-id"


async def start_of(call: Call) -> Start:
    """What a request to follow a view asks for; refuses what cannot be followed before anything is sent."""
    view = call.readable(call.path("name"))
    parameters = call.parameters
    parameters.take("ticket")
    snapshot = parameters.flag("snapshot")
    since = parameters.number("since")
    name = parameters.take("name")
    last_event = call.headers.get(_LAST_EVENT, "").strip()
    resumed = whole(last_event, "Last-Event-ID") if last_event else None
    asked = topic(view, parameters)
    last = await _check(call, asked)
    if name is not None:
        return _known(Start(asked, call.token, _named(call, name, asked, resumed), name), last)
    if resumed is not None:
        return _known(Start(asked, call.token, resumed), last)
    if snapshot and since is not None:
        raise bad("a snapshot has no since", "Give one of snapshot and since.")
    if since is not None and since > last:
        raise StoreError(problem("UNKNOWN_COMMIT", commit=since, last=last))
    if snapshot:
        return Start(asked, call.token, None)
    return Start(asked, call.token, call.service.last if since is None else since)


def _known(start: Start, last: int) -> Start:
    """Whoever has seen commits that are not there begins anew: the warehouse was replaced by an older one."""
    if start.position is None or start.position <= last:
        return start
    return replace(start, position=None, reset=f"there is no commit {start.position}; the last one is {last}")


async def _check(call: Call, asked: Topic) -> int:
    """That there is such a view, with such columns, and that the filter is one; returns the last commit."""

    def work() -> int:
        call.service.warehouse.check_wanted(asked.wanted)
        return call.service.warehouse.last()

    try:
        return await call.service.read(work)
    except StoreError as error:
        raise call.unknown(asked.wanted.view) if error.code == "UNKNOWN_RELATION" else error from None


def _named(call: Call, name: str, asked: Topic, resumed: int | None) -> int | None:
    """The position of a named subscription; a new one begins with a snapshot, and so does one that has acknowledged nothing yet."""
    check_name(name)
    accounts, token = call.service.accounts, call.token.name
    question = question_of(asked.wanted)
    known = accounts.subscription(token, name)
    if known is not None and known.question != question:
        raise StoreError(problem("SUBSCRIPTION_DIFFERS", name=name))
    if known is None:
        accounts.subscribe(token, name, question, -1, time.time())
        return resumed
    accounts.acknowledge(token, name, known.acknowledged, time.time())
    position = known.acknowledged if resumed is None else max(known.acknowledged, resumed)
    return None if position < 0 else position


def question_of(wanted: Wanted) -> str:
    """What a subscription follows, to tell whether it is the same."""
    return msgspec.json.encode({"view": wanted.view, "bound": dict(wanted.bound), "where": wanted.where}).decode()
