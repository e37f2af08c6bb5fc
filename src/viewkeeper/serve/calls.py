"""One request: who asks, with what parameters and what body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from viewkeeper.errors import DataError, closest, problem
from viewkeeper.serve.asking import Parameters
from viewkeeper.serve.grants import Grants, Refused, Token, forbidden, unknown_relation
from viewkeeper.transaction import Asked

if TYPE_CHECKING:
    from viewkeeper.serve.service import Service

from viewkeeper.serve.bodies import OPERATION, TRANSACTION, Operation

T = TypeVar("T")
LINES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_DRAIN_SECONDS, _DRAIN_BYTES = 2.0, 64 * 1024 * 1024


class Call:
    """A request with the token it came with."""

    def __init__(self, service: Service, scope: Mapping[str, Any], receive: Callable[[], Awaitable[Any]], token: Token) -> None:
        self.service, self.scope, self.receive, self.token = service, scope, receive, token
        self.headers = headers_of(scope)
        self.parameters = Parameters(scope["query_string"])

    @property
    def grants(self) -> Grants:
        return self.token.grants

    def path(self, name: str) -> str:
        return str(self.scope["path_params"][name])

    def needs(self, granted: bool, what: str) -> None:
        if not granted:
            raise forbidden(what)

    def readable(self, name: str) -> str:
        """The name of a relation that may be read, or could be; the others do not exist."""
        if not self.grants.reads(name):
            raise self.unknown(name)
        return name

    def unknown(self, name: str) -> Exception:
        """As if it did not exist; names that are near are only those that the token may see."""
        names = sorted(filter(self.grants.sees, self.service.names))
        return unknown_relation(name[:100], closest(name, names))

    def check_writable(self, names: set[str]) -> None:
        for name in sorted(names):
            if name not in self.service.names or not self.grants.sees(name):
                raise self.unknown(name)
            if not self.grants.writes(name):
                raise forbidden(f'write relation "{name}"')

    # ---- bodies

    async def body(self) -> bytes:
        """All of it; refuses what is too large as soon as that is known."""
        most = self.service.settings.max_body
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            await self._drain()
            raise Refused(413, "TOO_LARGE", what="the body", limit=f"{most:,} bytes")
        parts, size = [], 0
        task = asyncio.current_task()
        assert task is not None
        self.service.receiving.add(task)
        try:
            async with asyncio.timeout(self.service.settings.body_seconds):
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "BAD_REQUEST", why="the body is not complete", hint="Send all of it.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        break
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, "BODY_TIMEOUT", seconds=f"{self.service.settings.body_seconds:g}") from None
        finally:
            self.service.receiving.discard(task)
        parts.clear()
        await self._drain()
        raise Refused(413, "TOO_LARGE", what="the body", limit=f"{most:,} bytes")

    async def _drain(self) -> None:
        """Takes some of what is still coming: who is interrupted while sending may not read the answer."""
        taken = 0
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while taken < _DRAIN_BYTES:
                    message = await self.receive()
                    taken += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return
        except TimeoutError:
            return

    async def struct(self, type_: type[T]) -> T:
        """The body as one of ``bodies``."""
        return decoded(msgspec.json.Decoder(type_), await self.body())

    async def operations(self) -> list[Asked]:
        """The operations of a transaction: one JSON text, or one a line."""
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await self.body()
        found = _lines(body) if media in LINES else list(enumerate(decoded(TRANSACTION, body).operations, 1))
        most = self.service.settings.max_rows
        if len(found) > most:
            raise Refused(413, "TOO_LARGE", what="the transaction", limit=f"{most:,} rows")
        return _grouped(found)


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise bad_request(f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is not JSON: {error}") from None


def bad_request(why: str, hint: str = "The description of this route is in /openapi.json.") -> DataError:
    return DataError(problem("BAD_REQUEST", why=why, hint=hint))


def _lines(body: bytes) -> list[tuple[int, Operation]]:
    found, problems = [], []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append((number, OPERATION.decode(line)))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problems.append(problem("BAD_OPERATION", where=f"line {number}", why=str(error)))
            if len(problems) == 50:
                break
    if problems:
        raise DataError(problems)
    return found


def _grouped(operations: list[tuple[int, Operation]]) -> list[Asked]:
    """Those that follow each other on one relation together."""
    found: list[Asked] = []
    for number, one in operations:
        last = found[-1] if found else None
        if last is not None and (last.kind, last.relation, (last.line or 0) + len(last.rows)) == (one.op, one.relation, number):
            last.rows.append(one.row)
        else:
            found.append(Asked(one.op, one.relation, [one.row], number))
    return found
