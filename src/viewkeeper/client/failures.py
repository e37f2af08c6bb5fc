"""What the server refuses, as the errors that the warehouse itself would raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from viewkeeper.errors import (
    KINDS,
    Problem,
    StoreError,
    ViewkeeperError,
    ViolationError,
    problem,
)
from viewkeeper.wire import Envelope, ErrorBody, ProblemBody

_ENVELOPE = msgspec.json.Decoder(Envelope)
_ERROR = msgspec.json.Decoder(ErrorBody)


@dataclass(frozen=True)
class RemoteProblem(Problem):
    """A problem that the server found: its texts are the server's, whose conditions may be newer than ours."""

    told: ProblemBody = field(default_factory=lambda: ProblemBody("", "", ""))

    @property
    def message(self) -> str:
        return self.told.message

    @property
    def hint(self) -> str:
        return self.told.hint

    def render(self) -> str:
        return self.told.rendered or super().render()


def error_of(body: ErrorBody) -> ViewkeeperError:
    """The error that an envelope tells of; ``violations`` are the rows that an integrity view refuses."""
    told = body.problems or (ProblemBody(body.code, body.message, body.hint),)
    problems = [RemoteProblem(one.code, told=one) for one in told]
    if body.violations is not None:
        from viewkeeper.client.answers import violation

        return ViolationError(problems, cast(Any, {name: violation(one) for name, one in body.violations.items()}))
    return KINDS.get(body.kind, StoreError)(problems)


def refusal(url: str, status: int, content: bytes) -> ViewkeeperError:
    """The error of an answer that is not 2xx."""
    try:
        return error_of(_ENVELOPE.decode(content).error)
    except msgspec.MsgspecError:
        return bad_answer(url, f"it answered {status} without saying why")


def error_of_event(data: Any) -> ViewkeeperError:
    """The error of an ``end`` event."""
    return error_of(msgspec.convert(data["error"], ErrorBody))


def unreachable(url: str, why: object) -> StoreError:
    """Nobody is there."""
    return StoreError(problem("UNREACHABLE", url=url, why=str(why) or type(why).__name__))


def failed_inside(error: Exception) -> StoreError:
    """A bug of ours."""
    return StoreError(problem("INTERNAL", kind=type(error).__name__, why=str(error)))


def bad_answer(url: str, why: str) -> StoreError:
    """Somebody else is there, or something between us and the server."""
    return StoreError(problem("BAD_ANSWER", url=url, why=why))
