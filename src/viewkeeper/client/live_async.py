"""Copies that a task of the event loop keeps current."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from viewkeeper.client import calls
from viewkeeper.client.copies import SOON, AsMapping, AsSet, Copy
from viewkeeper.client.failures import failed_inside
from viewkeeper.client.following import Change, Reached
from viewkeeper.client.persistence import stopped
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.client.asynchronous import AsyncChanges


class AsyncLive(Copy):
    """A copy of a view that keeps itself current; an ``async with`` block closes it. Looking at it needs no ``await``.

    ``state``: ``live``, ``reconnecting``, or ``stopped: …``; ``commit``: the copy is the answer after this one.
    """

    def __init__(self, changes: AsyncChanges, key: Sequence[str] | str | None, buffered: bool) -> None:
        super().__init__(changes._following.subscription.view, key, buffered)
        self.error: ViewkeeperError | None = None
        self._changes = changes
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        changes.client._open.add(self)

    @property
    def state(self) -> str:
        return stopped(self.error) if self.error is not None else self._changes.state

    async def start(self) -> None:
        """Returns when the first answer is there."""
        self._task = asyncio.create_task(self._follow(), name=f"viewkeeper live {self.view}")
        try:
            await self._wait(lambda: self.commit >= 0)
        finally:
            if self.commit < 0:
                await self.close()
        self._raise_error()

    async def take(self, timeout: float = 0.0) -> list[Change]:
        """Of a buffered copy: waits up to ``timeout`` seconds for a change; applies those that wait, in order, and returns them."""
        await self._soon(lambda: self.waiting > 0, timeout)
        taken = self.apply_waiting()
        async with self._moved:
            self._moved.notify_all()
        if not taken:
            self._raise_error()
        return taken

    async def wait_for(self, commit: int, timeout: float | None = None) -> bool:
        """Waits until the copy is at a commit, or of a buffered one until its change is there to be taken. False if it took too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                pause = SOON
                while not await self._soon(lambda: self.position >= commit, pause) and not self._ended:
                    if await self._is_quiet(commit):
                        self.take_in(Reached(commit))
                    pause = min(pause * 2, 5.0)
        arrived = self.position >= commit
        if not arrived:
            self._raise_error()
        return arrived

    async def _soon(self, condition: Callable[[], bool], seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait(condition)
        return condition()

    async def _is_quiet(self, commit: int) -> bool:
        if self.state != "live":
            return False
        with suppress(ViewkeeperError):
            return await self._changes.client.run(calls.is_quiet(self.view, max(self.position, 0), commit))
        return False

    async def close(self) -> None:
        """Ends it; what it holds stays."""
        self._changes.client._open.discard(self)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._changes.close()

    async def _follow(self) -> None:
        try:
            while (item := await self._changes.next_item()) is not None:
                self.take_in(item)
                async with self._moved:
                    self._moved.notify_all()
                    await self._moved.wait_for(lambda: not self.is_full())
        except Exception as error:
            self.error = error if isinstance(error, ViewkeeperError) else failed_inside(error)
            await self._changes.close()
        finally:
            self._ended = True
            async with self._moved:
                self._moved.notify_all()

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        async with self._moved:
            await self._moved.wait_for(lambda: condition() or self._ended)
        return condition()

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class AsyncLiveSet(AsyncLive, AsSet):
    """A live copy as a set of rows."""

    async def __aenter__(self) -> AsyncLiveSet:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()


class AsyncLiveMapping(AsyncLive, AsMapping):
    """A live copy as a mapping from the key to the row."""

    async def __aenter__(self) -> AsyncLiveMapping:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()


async def live(changes: AsyncChanges, key: Sequence[str] | str | None, buffered: bool) -> AsyncLiveSet | AsyncLiveMapping:
    """A copy of what is followed, when its first answer is there."""
    copy = AsyncLiveSet(changes, None, buffered) if key is None else AsyncLiveMapping(changes, key, buffered)
    await copy.start()
    return copy
