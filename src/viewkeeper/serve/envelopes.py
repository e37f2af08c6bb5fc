"""Errors as the server tells them: a status and one envelope."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from viewkeeper.errors import (
    KINDS,
    Problem,
    StoreError,
    ViewkeeperError,
    problem,
)
from viewkeeper.serve.grants import Refused
from viewkeeper.wire import Envelope, ErrorBody, Place, ProblemBody, ViolationBody

LOG = logging.getLogger("viewkeeper.serve")
_MOST_PROBLEMS = 50
_MISSING = {
    "UNKNOWN_RELATION",
    "UNKNOWN_COMMIT",
    "UNKNOWN_TOKEN",
    "UNKNOWN_SUBSCRIPTION",
    "NOTHING_DEFINED",
    "NOTHING_DEFINED_THEN",
}
_CONFLICTS = {
    "INTEGRITY_VIOLATED",
    "KEY_REUSED",
    "KEY_VIOLATION",
    "TOKEN_EXISTS",
    "DROP_DEPENDENTS",
    "HIDDEN_REASON",
    "SUBSCRIPTION_DIFFERS",
}
_OURS = {
    "CATALOG_DAMAGED",
    "CATALOG_VERSION",
    "CHANGED_MEANWHILE",
    "DISK_FAILED",
    "ENGINE_FAILED",
    "INTERNAL",
    "NOT_A_WAREHOUSE",
    "READ_ONLY",
    "SERVER_FAILED",
    "UNREADABLE",
}
_STATUS = {"LOG_TRIMMED": 410, "QUERY_TOO_SLOW": 503, "LOCKED": 503, "CLOSED": 503, "DISK_FULL": 503}


def status_of(error: ViewkeeperError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Refused):
        return error.status
    if error.code in _MISSING and isinstance(error, StoreError):
        return 404
    if error.code in _CONFLICTS:
        return 409
    if error.code in _STATUS:
        return _STATUS[error.code]
    return 500 if error.code in _OURS else 400


def body_of(error: ViewkeeperError, violations: Mapping[str, ViolationBody] | None = None) -> ErrorBody:
    """An error as the envelope has it."""
    first = error.problems[0]
    kind = next((name for name, class_ in KINDS.items() if isinstance(error, class_)), "store")
    problems = tuple(map(_problem, error.problems[:_MOST_PROBLEMS]))
    return ErrorBody(first.code, first.message, first.hint, kind, problems, dict(violations) if violations else None)


def _problem(found: Problem) -> ProblemBody:
    place = None
    if found.source is not None:
        place = Place(found.source.name, found.span.line if found.span else None, found.span.column if found.span else None)
    return ProblemBody(found.code, found.message, found.hint, place, found.render())


def envelope(error: ViewkeeperError, violations: Mapping[str, ViolationBody] | None = None) -> bytes:
    return msgspec.json.encode(Envelope(body_of(error, violations)))


def error_response(error: ViewkeeperError, violations: Mapping[str, ViolationBody] | None = None) -> Response:
    """The answer to a request that failed."""
    status = status_of(error)
    if status >= 500 and status != 503:
        LOG.error("%s", error.render())
        if status == 500:
            return internal_response()
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    if status in (429, 503):
        headers["retry-after"] = "1"
    return Response(envelope(error, violations), status, headers, "application/json")


def internal_response() -> Response:
    """The answer when something is wrong with us: what it is stands in the log only."""
    return Response(envelope(internal_error()), 500, media_type="application/json")


def internal_error() -> ViewkeeperError:
    return ViewkeeperError(problem("SERVER_FAILED"))


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
