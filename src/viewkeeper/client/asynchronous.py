"""The client for programs with an event loop: the same as ``blocking``, with ``await``."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from viewkeeper.client import calls
from viewkeeper.client.answers import Committed, Rows, Told
from viewkeeper.client.blocking import Every
from viewkeeper.client.calls import Call, Steps
from viewkeeper.client.following import BadStream, Change, Ended, Following, Item, Reached, Subscription
from viewkeeper.client.persistence import LOST, Persistence, Server, not_named, stopped
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.client.live_async import AsyncLive

T = TypeVar("T")


def connect_async(
    url: str, token: str, *, patience: float = 30.0, silence: float = 60.0, ca: str | Path | None = None
) -> AsyncClient:
    """A client of the server at a URL, for an event loop. Nothing is sent before something is asked; the rest as with ``connect``."""
    return AsyncClient(Server(url, token, patience, silence, ca))


class AsyncClient:
    """A server as a program with an event loop sees it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._http = httpx.AsyncClient(**server.options())
        self._open: set[AsyncChanges | AsyncLive] = set()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all that is followed, and the connections."""
        for one in list(self._open):
            await one.close()
        await self._http.aclose()

    # ---- changing

    async def commit(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        strict: bool = False,
    ) -> Committed:
        """Rows to delete, insert and upsert, by relation, as one transaction; it is applied once, however often it has to be sent."""
        return await self.run(calls.commit(calls.operations_of(inserts, deletes, upserts), key, "counts", False, strict))

    async def preview(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
    ) -> Committed:
        """What ``commit`` would change; nothing is changed."""
        return await self.run(calls.commit(calls.operations_of(inserts, deletes, upserts), None, "counts", True, strict))

    async def define(self, program: str, *, replace: bool = False, strict: bool = False) -> Committed:
        """Adds relations, rules and facts."""
        return await self.run(calls.define({"program": program, "replace": replace, "strict": strict}))

    async def drop(self, *names: str) -> Committed:
        """Removes relations or types."""
        return await self.run(calls.define({"drop": names}))

    # ---- asking

    async def set_level(self, view: str, level: str | None) -> dict[str, Any]:
        """What an integrity view does from now on: ``reject``, ``warn``, ``note`` or nothing; tells which rows it has now."""
        return await self.run(calls.set_level(view, level))

    async def query(self, text: str, *, as_of: int | None = None) -> Rows:
        """The assignments that make a body true."""
        return await self.run(calls.query(text, as_of))

    async def why(self, row: str) -> Told:
        """Why a row is there, or what is missing."""
        return await self.run(calls.why(row))

    async def log(self, since: int = 0, view: str | None = None) -> list[dict[str, Any]]:
        """The commits after one, in order, or those that changed a view, with how many rows came and went."""
        return await self.run(calls.log(since, view))

    async def views(self) -> list[dict[str, Any]]:
        """The relations and views that the token may read."""
        return await self.run(calls.views())

    def view(self, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> AsyncView:
        """A view, with columns that are bound."""
        return AsyncView(self, name, calls.arguments_of({**(arguments or {}), **more}))

    async def live(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        key: Sequence[str] | str | None = None,
        buffered: bool = False,
        where: str | None = None,
        every: Every = None,
        **more: Any,
    ) -> AsyncLive:
        """A copy of a view that keeps itself current, when its first answer is there."""
        return await self.view(name, arguments, **more).live(key=key, buffered=buffered, where=where, every=every)

    async def acknowledge(self, name: str, commit: int) -> None:
        """The named subscription begins behind this commit from now on."""
        await self.run(calls.acknowledge(name, commit))

    async def run(self, steps: Steps[T]) -> T:
        """Carries out what ``calls`` describes."""
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._do(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _do(self, call: Call) -> Any:
        persistence = Persistence(self.server)
        while True:
            try:
                response = await self._http.request(
                    call.method,
                    call.path,
                    params=call.parameters,
                    content=call.body,
                    headers=call.headers,
                    timeout=self.server.timeout(call.long),
                )
            except LOST as error:
                wait = persistence.broken(error, call)
            else:
                if response.is_success:
                    return self.server.answer(response)
                wait = persistence.refused(response.status_code, response.content, call.safe)
            await asyncio.sleep(wait)


class AsyncView:
    """A view of a client, with bound columns."""

    def __init__(self, client: AsyncClient, name: str, arguments: dict[str, str]) -> None:
        self.client, self.name, self.arguments = client, name, arguments

    async def rows(self, *, as_of: int | None = None, where: str | None = None) -> Rows:
        """Its rows now, or after a commit."""
        return await self.client.run(calls.rows(Subscription(self.name, self.arguments, where), as_of))

    def follow(
        self,
        *,
        since: int | None = None,
        snapshot: bool = False,
        every: Every = None,
        mode: str = "exact",
        where: str | None = None,
        name: str | None = None,
    ) -> AsyncChanges:
        """Iterates over the changes, each once and in order; the parameters are those of the other client."""
        wanted = Subscription(self.name, self.arguments, where, calls.every_of(every), mode, name, since, snapshot)
        return AsyncChanges(self.client, wanted)

    async def live(
        self,
        *,
        key: Sequence[str] | str | None = None,
        buffered: bool = False,
        where: str | None = None,
        every: Every = None,
    ) -> AsyncLive:
        """A copy of it that keeps itself current."""
        from viewkeeper.client.live_async import live

        return await live(self.follow(snapshot=True, where=where, every=every), key, buffered)


class AsyncChanges(AsyncIterator[Change]):
    """What is followed. Entering its ``async with`` block makes the connection; the first ``anext`` does so otherwise.

    ``state``: ``live``, ``reconnecting``, or ``stopped: …``; ``commit``: up to here everything was handed over.
    """

    def __init__(self, client: AsyncClient, subscription: Subscription) -> None:
        self.client = client
        self.state = "reconnecting"
        self.commit = subscription.since
        self._following = Following(subscription)
        self._persistence = Persistence(client.server)
        self._items: deque[Item] = deque()
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        client._open.add(self)

    async def __aenter__(self) -> AsyncChanges:
        try:
            await self._connect()
        except ViewkeeperError as error:
            self.state = stopped(error)
            raise
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    async def __anext__(self) -> Change:
        while (item := await self.next_item()) is not None:
            if isinstance(item, Change):
                return item
        raise StopAsyncIteration

    async def ack(self, commit: int | None = None) -> None:
        """Tells the server that everything up to a commit, or up to the last change handed over, need not be told again."""
        name = self._following.subscription.name
        if name is None:
            raise not_named()
        reached = self.commit if commit is None else commit
        if reached is not None:
            await self.client.acknowledge(name, reached)

    async def close(self) -> None:
        """Ends it. A task that waits for the next change is to be cancelled first."""
        if not self._closed:
            self.state = "stopped: closed"
        self.client._open.discard(self)
        await self._drop()

    async def next_item(self) -> Reached | Change | None:
        """The next change, or how far nothing changed; None when it is closed."""
        try:
            while not self._closed:
                if not self._items:
                    await self._read()
                    continue
                item = self._items.popleft()
                if not isinstance(item, Ended):
                    self.commit = item.commit
                    return item
                if not item.again:
                    raise item.error
                await self._lost(self._persistence.ended(item.error))
        except ViewkeeperError as error:
            if not self._closed:
                self.state = stopped(error)
                await self._drop()
                raise
        return None

    @property
    def _closed(self) -> bool:
        return self.state.startswith("stopped")

    async def _read(self) -> None:
        try:
            await self._connect()
            if self._chunks is None:
                return
            chunk = await anext(self._chunks, None)
            if chunk is None:
                raise httpx.RemoteProtocolError("the connection was closed")
            for item in self._following.receive(chunk):
                self._items.append(item)
                self._persistence.progressed()
        except BadStream as error:
            await self._lost(self._persistence.not_understood(error))
        except LOST as error:
            await self._lost(self._persistence.broken(error))

    async def _connect(self) -> None:
        """Until there is a connection, or no hope of one."""
        while self._response is None and not self._closed:
            try:
                await self._prepare()
                path, parameters, headers = self._following.request()
                http = self.client._http
                response = await http.send(http.build_request("GET", path, params=parameters, headers=headers), stream=True)
                if not response.is_success:
                    content = await response.aread()
                    await response.aclose()
                    await self._lost(self._persistence.refused(response.status_code, content))
                    continue
                self._persistence.checked(response)
            except LOST as error:
                await self._lost(self._persistence.broken(error))
                continue
            self._persistence.connected()
            self._response, self._chunks = response, response.aiter_raw()
            if not self._closed:
                self.state = "live"

    async def _prepare(self) -> None:
        """The columns, and where "now" is: without them changes could not be read, and one before the first event could be missed."""
        following = self._following
        if following.columns or following.subscription.wants_snapshot:
            return
        following.columns, last = await self.client.run(calls.beginning(following.subscription.view))
        if following.position is None and following.subscription.name is None:
            following.position = self.commit = last

    async def _lost(self, wait: float) -> None:
        await self._drop()
        if not self._closed:
            self.state = "reconnecting"
            await asyncio.sleep(wait)

    async def _drop(self) -> None:
        response, self._response, self._chunks = self._response, None, None
        self._following.lost()
        if response is not None:
            with suppress(*LOST, RuntimeError):
                await response.aclose()
