"""Where the server is, and when to try again: common to both kinds of client."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from viewkeeper.client.calls import Call
from viewkeeper.client.failures import bad_answer, refusal, unreachable
from viewkeeper.client.following import Backoff
from viewkeeper.errors import DataError, StoreError, ViewkeeperError, problem

LOST = (httpx.TransportError, httpx.StreamError, OSError)
"""What a broken connection looks like."""
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_AWAY, _OVERLOADED = {502, 504}, {429, 500}
_HOUR = 3600.0
_SOON = {"BUSY", "CLOSING", "BAD_ANSWER"}
"""Why a server, or something in between, may answer 503 and it is worth trying again; a question that takes too long is not."""


@dataclass(frozen=True)
class Server:
    """A server and how patient we are with it.

    ``patience``: how many seconds it may be away before a call, or the first connection of a subscription, gives up.
    ``silence``: after how many seconds without a byte a connection is taken for dead; the server says something every 15.
    """

    url: str
    token: str
    patience: float = 30.0
    silence: float = 60.0
    ca: str | Path | None = None
    any_name: bool = False
    """The one certificate in ``ca`` is trusted, whatever name it is for."""

    def options(self) -> dict[str, Any]:
        """For an httpx client of either kind."""
        try:
            url, port = urlsplit(self.url), urlsplit(self.url).port
        except ValueError:
            url, port = urlsplit(""), None
        if url.scheme not in ("http", "https") or not url.hostname or port == 0:
            wanted = "a server's address, such as http://127.0.0.1:8765"
            raise DataError(problem("BAD_PARAMETER", value=self.url, parameter="url", wanted=wanted))
        if not self.token.isascii() or not self.token.isprintable():
            raise DataError(problem("BAD_PARAMETER", value="…", parameter="token", wanted="a token as the server printed it"))
        return {
            "base_url": self.url,
            "headers": {"User-Agent": "viewkeeper-client"} | ({"Authorization": f"Bearer {self.token}"} if self.token else {}),
            "timeout": self.timeout(),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
            # Reading all certificates takes longer than a request.
            "verify": self._trusted() if url.scheme == "https" else False,
            "trust_env": url.hostname not in ("127.0.0.1", "::1", "localhost"),
        }

    def timeout(self, long: bool = False) -> httpx.Timeout:
        """How long to wait for bytes; a call that cannot be repeated is waited for longer."""
        read = max(self.silence, _HOUR) if long else self.silence
        return httpx.Timeout(self.silence, connect=min(10.0, self.silence), read=read, pool=None)

    def _trusted(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            why, hint = error.strerror or str(error), "Give a file of certificates in PEM format."
            raise DataError(problem("BAD_FILE", file=self.ca, why=why, hint=hint)) from None
        if self.any_name:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def answer(self, response: httpx.Response) -> Any:
        """What a good answer says."""
        if not response.content:
            return None
        try:
            return msgspec.json.decode(response.content)
        except msgspec.MsgspecError:
            raise bad_answer(self.url, "it is not JSON") from None


class Persistence:
    """Decides about failures: how long to wait, or that it is enough."""

    def __init__(self, server: Server, clock: Callable[[], float] = time.monotonic) -> None:
        self.server = server
        self._clock, self._started = clock, clock()
        self._backoff = Backoff(most=3.0)
        self._connected = False
        self._bad = 0

    def connected(self) -> None:
        """A subscription that once was there waits for the server for ever."""
        self._connected = True

    def progressed(self) -> None:
        """Something came."""
        self._backoff.succeeded()
        self._bad = 0

    def broken(self, error: BaseException, call: Call | None = None) -> float:
        """A connection failed: the seconds to wait, or the error."""
        if call is not None and not call.safe and not isinstance(error, _UNSENT):
            raise unreachable(self.server.url, f"the connection broke, and what was asked for may be done or not ({error})")
        return self._wait(unreachable(self.server.url, error))

    def refused(self, status: int, content: bytes, safe: bool = True) -> float:
        """An answer that is not a good one: the seconds to wait, or the error."""
        failure = refusal(self.server.url, status, content)
        away = status in _AWAY and safe or status == 503 and failure.code in _SOON
        again = away or self._connected and status in _OVERLOADED
        if not again:
            raise failure
        return self._wait(failure)

    def ended(self, failure: ViewkeeperError) -> float:
        """The server says it is about to go."""
        return self._wait(failure)

    def not_understood(self, why: object) -> float:
        """What came makes no sense: once that may be the network, three times it is something else."""
        self._bad += 1
        failure = bad_answer(self.server.url, str(why))
        if self._bad >= 3:
            raise failure
        return self._wait(failure)

    def checked(self, response: httpx.Response) -> None:
        """Is this a stream of events?"""
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            raise bad_answer(self.server.url, f"it sent {kind or 'something'} instead of events")

    def _wait(self, failure: ViewkeeperError) -> float:
        if not self._connected and self._clock() - self._started >= self.server.patience:
            raise failure
        return self._backoff.next()


def stopped(error: ViewkeeperError) -> str:
    """The state behind an error."""
    return f"stopped: {error.problems[0].message}"


def not_named() -> StoreError:
    """Only a named subscription can be acknowledged."""
    wanted = "the name of a subscription: follow(name=…)"
    return StoreError(problem("BAD_PARAMETER", value="", parameter="name", wanted=wanted))
