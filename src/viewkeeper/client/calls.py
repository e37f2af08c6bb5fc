"""What a client can ask, without the network: each question is a generator that yields requests, is sent their answers, and returns.

A request is ``safe`` if it may be sent again after a connection broke, when nobody knows whether it arrived.
"""

from __future__ import annotations

import datetime
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

import msgspec

from viewkeeper.client.answers import Committed, Rows, Told, columns_of, committed, rows_of
from viewkeeper.client.following import Subscription
from viewkeeper.errors import DataError, problem, shortened
from viewkeeper.wire import Column, encode

T = TypeVar("T")
JSON = "application/json"
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Call:
    """One request. ``long``: it may take an hour to answer."""

    method: str
    path: str
    parameters: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    safe: bool = True
    long: bool = False

    @classmethod
    def post(cls, path: str, body: Any, safe: bool = True, headers: Mapping[str, str] = {}, **parameters: str) -> Call:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return cls("POST", path, parameters, content, {"Content-Type": JSON, **headers}, safe)


Steps: TypeAlias = Generator[Call, Any, T]


# ---- changing


def commit(
    operations: list[dict[str, Any]] | bytes, key: str | None, changes: str, dry_run: bool, strict: bool
) -> Steps[Committed]:
    """Operations as one transaction; ``bytes`` are lines of JSON. The key makes it safe to send it twice."""
    headers = {} if dry_run else {"Idempotency-Key": key or str(uuid4())}
    body: Any = operations
    if isinstance(operations, bytes):
        headers["Content-Type"] = LINES
    else:
        body = {"operations": operations}
    more = {"strict": "1"} if strict else {}
    path = "/v1/preview" if dry_run else "/v1/transactions"
    return committed((yield Call.post(path, body, True, headers, changes=changes, **more)))


def define(body: Mapping[str, Any]) -> Steps[Committed]:
    """A program, a script of SQL, or names to drop."""
    return committed((yield replace(Call.post("/v1/definitions", body, safe=False), long=True)))


def set_level(view: str, level: str | None) -> Steps[dict[str, Any]]:
    """What an integrity view does from now on."""
    path, body = f"{_view(view)}/level", msgspec.json.encode({"level": level})
    return (yield Call("PUT", path, body=body, headers={"Content-Type": JSON}))  # type: ignore[no-any-return]


def acknowledge(name: str, commit: int) -> Steps[None]:
    """A named subscription begins behind this commit from now on."""
    yield Call.post(f"/v1/subscriptions/{quote(name, safe='')}/ack", {"commit": commit})


# ---- asking


def rows(subscription: Subscription, as_of: int | None) -> Steps[Rows]:
    """The rows of a view, page by page; all pages are of one commit."""
    parameters = {**subscription.arguments, "format": "json"}
    if subscription.where is not None:
        parameters["where"] = subscription.where
    if as_of is not None:
        parameters["as_of"] = str(as_of)
    found: list[Any] = []
    page = yield Call("GET", _view(subscription.view), parameters)
    columns, number = columns_of(page["columns"]), page["commit"]
    found.extend(rows_of(columns, page["rows"]))
    while page.get("next"):
        page = yield Call("GET", _view(subscription.view), {**parameters, "after": page["next"]})
        found.extend(rows_of(columns, page["rows"]))
    return Rows(columns, tuple(found), number)


def query(text: str, as_of: int | None) -> Steps[Rows]:
    """The assignments that make a body true."""
    body: dict[str, Any] = {"query": text}
    if as_of is not None:
        body["as_of"] = as_of
    page = yield Call.post("/v1/query", body)
    columns, number = columns_of(page["columns"]), page["commit"]
    found = list(rows_of(columns, page["rows"]))
    while page.get("next"):
        page = yield Call.post("/v1/query", {**body, "after": page["next"]})
        found.extend(rows_of(columns, page["rows"]))
    return Rows(columns, tuple(found), number)


def why(row: str) -> Steps[Told]:
    """Why a row is there, or not."""
    answer = yield Call.post("/v1/why", {"row": row})
    nodes = tuple(answer["tree"])
    return Told(answer["text"], nodes, answer["holds"])


def views(name: str | None = None) -> Steps[list[dict[str, Any]]]:
    """The relations and views that the token may read, or one of them."""
    found = yield Call("GET", "/v1/views", {} if name is None else {"name": name})
    return list(found["views"])


def beginning(view: str) -> Steps[tuple[tuple[Column, ...], int]]:
    """The columns of a view, and the last commit."""
    found = yield Call("GET", "/v1/views", {"name": view})
    return columns_of(found["views"][0]["columns"]), found["commit"]


def log(since: int, view: str | None) -> Steps[list[dict[str, Any]]]:
    """The commits after one, in order, or those that changed a view."""
    found: list[dict[str, Any]] = []
    more = {"view": view} if view is not None else {}
    while True:
        page = yield Call("GET", "/v1/commits", {"since": str(since), **more})
        if not page["commits"]:
            return found
        found.extend(page["commits"])
        since = found[-1]["commit"]


def is_quiet(view: str, since: int, commit: int) -> Steps[bool]:
    """Did nothing change in a view behind one commit up to another, which is there?"""
    page = yield Call("GET", "/v1/commits", {"since": str(since), "view": view, "limit": "1"})
    return page["last"] >= commit and not any(one["commit"] <= commit for one in page["commits"])


def commit_told(number: int) -> Steps[dict[str, Any]]:
    """A commit with the rows that came and went."""
    return (yield Call("GET", f"/v1/commits/{number}", {"changes": "rows"}))  # type: ignore[no-any-return]


def level(view: str) -> Steps[dict[str, Any]]:
    """The level of an integrity view, and the rows that it has."""
    return (yield Call("GET", f"{_view(view)}/level"))  # type: ignore[no-any-return]


def _view(name: str) -> str:
    return f"/v1/views/{quote(name, safe='')}"


# ---- values


def operations_of(
    inserts: Mapping[str, Any] | None, deletes: Mapping[str, Any] | None, upserts: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Deletes first, then inserts, then upserts.

    >>> operations_of({"r": [(1, b"x")]}, {"s": ["a"]}, None)
    [{'relation': 's', 'op': 'delete', 'row': ['a']}, {'relation': 'r', 'op': 'insert', 'row': [1, '78']}]
    """
    groups: Iterable[tuple[str, Mapping[str, Any] | None]] = (("delete", deletes), ("insert", inserts), ("upsert", upserts))
    for kind, group in groups:
        if group is not None and not isinstance(group, Mapping):
            wanted = "a mapping: for each relation its rows"
            raise DataError(problem("BAD_PARAMETER", value=shortened(repr(group)), parameter=f"{kind}s", wanted=wanted))
    return [
        {"relation": relation, "op": kind, "row": _row(row)}
        for kind, group in groups
        for relation, found in (group or {}).items()
        for row in found
    ]


def _row(row: Any) -> Any:
    if isinstance(row, Mapping):
        return {name: plain(value) for name, value in row.items()}
    if isinstance(row, (list, tuple)):
        return [plain(value) for value in row]
    return [plain(row)]


def plain(value: Any) -> Any:
    """A Python value as JSON has it.

    >>> plain(Decimal("1.50")), plain(datetime.date(2026, 1, 31)), plain(7), plain(True)
    ('1.50', '2026-01-31', 7, True)
    """
    match value:
        case datetime.datetime():
            return encode(value, "timestamp")
        case datetime.date():
            return encode(value, "date")
        case Decimal():
            return encode(value, "decimal")
        case bytes():
            return encode(value, "bytes")
        case float():
            return encode(value, "float")
    return value


def arguments_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Bound columns as texts.

    >>> arguments_of({"name": "bash", "essential": True, "kb": 7})
    {'arg.name': 'bash', 'arg.essential': 'true', 'arg.kb': '7'}
    """
    found = {}
    for name, value in arguments.items():
        if value is None:
            raise DataError(
                problem("BAD_PARAMETER", value="None", parameter=name, wanted="a value; for NULL give a filter, where")
            )
        # The prefix tells a column from a parameter of the same name.
        found[f"arg.{name}"] = str(value).lower() if isinstance(value, bool) else str(plain(value))
    return found


def every_of(every: str | int | float | datetime.timedelta | None) -> str | None:
    """How often changes are told: "2s", "5c", a number of commits, or a time.

    >>> every_of("2s"), every_of(5), every_of(datetime.timedelta(milliseconds=1500))
    ('2s', '5c', '1.5s')
    """
    match every:
        case datetime.timedelta():
            return f"{every.total_seconds():g}s"
        case int():
            return f"{every}c"
        case float():
            return f"{every:g}s"
    return every
