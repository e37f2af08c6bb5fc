"""The client for programs that wait."""

from __future__ import annotations

import datetime
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from viewkeeper.client import calls
from viewkeeper.client.answers import Committed, Rows, Told
from viewkeeper.client.calls import Call, Steps
from viewkeeper.client.following import BadStream, Change, Ended, Following, Item, Reached, Subscription
from viewkeeper.client.persistence import LOST, Persistence, Server, not_named, stopped
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.client.live import Live

T = TypeVar("T")
Every = str | int | float | datetime.timedelta | None


def connect(url: str, token: str, *, patience: float = 30.0, silence: float = 60.0, ca: str | Path | None = None) -> Client:
    """A client of the server at a URL. Nothing is sent before something is asked.

    ``patience``: how many seconds the server may be away before a call gives up. ``silence``: after how many seconds without a byte a
    connection is taken for dead. ``ca``: a file with the certificates to trust, if not those of the system.
    """
    return Client(Server(url, token, patience, silence, ca))


class Client:
    """A server as a program sees it. Several threads may share one."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._http = httpx.Client(**server.options())
        self._open: set[Changes | Live] = set()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all that is followed, and the connections."""
        for one in list(self._open):
            one.close()
        self._http.close()

    # ---- changing

    def commit(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        strict: bool = False,
    ) -> Committed:
        """Rows to delete, insert and upsert, by relation, as one transaction; it is applied once, however often it has to be sent.

        ``key``: what the transaction is known by; give one to be able to repeat it after a restart of your program.
        """
        return self.run(calls.commit(calls.operations_of(inserts, deletes, upserts), key, "counts", False, strict))

    def preview(
        self,
        inserts: Mapping[str, Any] | None = None,
        deletes: Mapping[str, Any] | None = None,
        upserts: Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
    ) -> Committed:
        """What ``commit`` would change; nothing is changed."""
        return self.run(calls.commit(calls.operations_of(inserts, deletes, upserts), None, "counts", True, strict))

    def define(self, program: str, *, replace: bool = False, strict: bool = False) -> Committed:
        """Adds relations, rules and facts."""
        return self.run(calls.define({"program": program, "replace": replace, "strict": strict}))

    def drop(self, *names: str) -> Committed:
        """Removes relations or types."""
        return self.run(calls.define({"drop": names}))

    # ---- asking

    def set_level(self, view: str, level: str | None) -> dict[str, Any]:
        """What an integrity view does from now on: ``reject``, ``warn``, ``note`` or nothing; tells which rows it has now."""
        return self.run(calls.set_level(view, level))

    def query(self, text: str, *, as_of: int | None = None) -> Rows:
        """The assignments that make a body true: ``based_on("bash", X)``; ``as_of``: after that commit."""
        return self.run(calls.query(text, as_of))

    def why(self, row: str) -> Told:
        """Why a row is there, or what is missing."""
        return self.run(calls.why(row))

    def log(self, since: int = 0, view: str | None = None) -> list[dict[str, Any]]:
        """The commits after one, in order, or those that changed a view, with how many rows came and went."""
        return self.run(calls.log(since, view))

    def views(self) -> list[dict[str, Any]]:
        """The relations and views that the token may read."""
        return self.run(calls.views())

    def view(self, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> View:
        """A view, with columns that are bound: ``view("based_on", package="bash")``."""
        return View(self, name, calls.arguments_of({**(arguments or {}), **more}))

    def live(
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
    ) -> Live:
        """A copy of a view that keeps itself current: a set of rows or, with ``key``, a mapping from these columns to the row."""
        return self.view(name, arguments, **more).live(key=key, buffered=buffered, where=where, every=every)

    def acknowledge(self, name: str, commit: int) -> None:
        """The named subscription begins behind this commit from now on."""
        self.run(calls.acknowledge(name, commit))

    def run(self, steps: Steps[T]) -> T:
        """Carries out what ``calls`` describes."""
        try:
            call = next(steps)
            while True:
                call = steps.send(self._do(call))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _do(self, call: Call) -> Any:
        persistence = Persistence(self.server)
        while True:
            try:
                response = self._http.request(
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
            time.sleep(wait)


class View:
    """A view of a client, with bound columns."""

    def __init__(self, client: Client, name: str, arguments: dict[str, str]) -> None:
        self.client, self.name, self.arguments = client, name, arguments

    def rows(self, *, as_of: int | None = None, where: str | None = None) -> Rows:
        """Its rows now, or after a commit; ``where``: a filter over the columns, such as ``kb > 1000``."""
        return self.client.run(calls.rows(Subscription(self.name, self.arguments, where), as_of))

    def follow(
        self,
        *,
        since: int | None = None,
        snapshot: bool = False,
        every: Every = None,
        mode: str = "exact",
        where: str | None = None,
        name: str | None = None,
        on_state: Callable[[str], object] | None = None,
    ) -> Changes:
        """Iterates over the changes, each once and in order, for as long as it takes.

        It begins behind the commit ``since``, or now; with ``snapshot`` and no ``since`` with the answer itself. ``every``: "2s" or "5c" for the
        net change of several commits; ``mode``: "hint" tells only that something changed; ``name``: a subscription that the server keeps.
        ``on_state`` is called when its state changes.
        """
        wanted = Subscription(self.name, self.arguments, where, calls.every_of(every), mode, name, since, snapshot)
        return Changes(self.client, wanted, on_state)

    def live(
        self,
        *,
        key: Sequence[str] | str | None = None,
        buffered: bool = False,
        where: str | None = None,
        every: Every = None,
    ) -> Live:
        """A copy of it that keeps itself current."""
        from viewkeeper.client.live import live

        return live(self.follow(snapshot=True, where=where, every=every), key, buffered)


class Changes(Iterator[Change]):
    """What is followed. Entering its ``with`` block makes the connection; the first ``next`` does so otherwise.

    ``state``: ``live``, ``reconnecting``, or ``stopped: …``; ``commit``: up to here everything was handed over.
    """

    def __init__(self, client: Client, subscription: Subscription, on_state: Callable[[str], object] | None = None) -> None:
        self.client = client
        self._state, self._on_state = "reconnecting", on_state
        self.commit = subscription.since
        self._following = Following(subscription)
        self._persistence = Persistence(client.server)
        self._items: deque[Item] = deque()
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._closing, self._reading = threading.Event(), threading.Lock()
        client._open.add(self)

    def __enter__(self) -> Changes:
        with self._reading:
            try:
                self._connect()
            except ViewkeeperError as error:
                self.state = stopped(error)
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __next__(self) -> Change:
        while (item := self.next_item()) is not None:
            if isinstance(item, Change):
                return item
        raise StopIteration

    @property
    def state(self) -> str:
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            if self._on_state is not None:
                self._on_state(state)

    def ack(self, commit: int | None = None) -> None:
        """Tells the server that everything up to a commit, or up to the last change handed over, need not be told again."""
        name = self._following.subscription.name
        if name is None:
            raise not_named()
        reached = self.commit if commit is None else commit
        if reached is not None:
            self.client.acknowledge(name, reached)

    def close(self) -> None:
        """Ends it, also from another thread: whoever waits for the next change gets none."""
        self._closing.set()
        if not self.state.startswith("stopped"):
            self.state = "stopped: closed"
        self.client._open.discard(self)
        response = self._response
        if response is not None:  # whoever reads from it wakes up
            with suppress(*LOST, AttributeError):
                response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        if self._reading.acquire(timeout=1):
            self._drop()
            self._reading.release()

    def next_item(self) -> Reached | Change | None:
        """The next change, or how far nothing changed; None when it is closed."""
        with self._reading:
            try:
                while not self._closing.is_set():
                    if not self._items:
                        self._read()
                        continue
                    item = self._items.popleft()
                    if not isinstance(item, Ended):
                        self.commit = item.commit
                        return item
                    self._handle_end(item)
            except ViewkeeperError as error:
                if not self._closing.is_set():
                    self.state = stopped(error)
                    raise
            finally:
                if self.state.startswith("stopped"):
                    self._drop()
            return None

    def _read(self) -> None:
        try:
            self._connect()
            if self._response is None:
                return
            chunk = next(self._chunks, None)
            if chunk is None:
                raise httpx.RemoteProtocolError("the connection was closed")
            for item in self._following.receive(chunk):
                self._items.append(item)
                self._persistence.progressed()
        except BadStream as error:
            self._lost(self._persistence.not_understood(error))
        except LOST as error:
            self._lost(self._persistence.broken(error))

    def _connect(self) -> None:
        """Until there is a connection, or no hope of one."""
        while self._response is None and not self._closing.is_set():
            try:
                self._prepare()
                path, parameters, headers = self._following.request()
                http = self.client._http
                response = http.send(http.build_request("GET", path, params=parameters, headers=headers), stream=True)
                if not response.is_success:
                    content = response.read()
                    response.close()
                    self._lost(self._persistence.refused(response.status_code, content))
                    continue
                self._persistence.checked(response)
            except LOST as error:
                self._lost(self._persistence.broken(error))
                continue
            self._persistence.connected()
            self._response, self._chunks = response, response.iter_raw()
            if not self._closing.is_set():
                self.state = "live"

    def _prepare(self) -> None:
        """The columns, and where "now" is: without them changes could not be read, and one before the first event could be missed."""
        following = self._following
        if following.columns or following.subscription.wants_snapshot:
            return
        following.columns, last = self.client.run(calls.beginning(following.subscription.view))
        if following.position is None and following.subscription.name is None:
            following.position = self.commit = last

    def _handle_end(self, item: Ended) -> None:
        if not item.again:
            raise item.error
        self._lost(self._persistence.ended(item.error))

    def _lost(self, wait: float) -> None:
        self._drop()
        if not self._closing.is_set():
            self.state = "reconnecting"
            self._closing.wait(wait)

    def _drop(self) -> None:
        response, self._response, self._chunks = self._response, None, iter(())
        self._following.lost()
        if response is not None:
            with suppress(*LOST):
                response.close()
