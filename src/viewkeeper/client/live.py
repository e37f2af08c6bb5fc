"""Copies that a background thread keeps current."""

from __future__ import annotations

import threading
import time
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
    from viewkeeper.client.blocking import Changes


class Live(Copy):
    """A copy of a view that keeps itself current; a ``with`` block closes it. Any thread may look at it.

    ``state``: ``live``, ``reconnecting``, or ``stopped: …``; ``commit``: the copy is the answer after this one.
    """

    def __init__(self, changes: Changes, key: Sequence[str] | str | None, buffered: bool) -> None:
        super().__init__(changes._following.subscription.view, key, buffered)
        self.error: ViewkeeperError | None = None
        self._changes = changes
        self._moved = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._follow, name=f"viewkeeper live {self.view}", daemon=True)
        changes.client._open.add(self)

    @property
    def state(self) -> str:
        return stopped(self.error) if self.error is not None else self._changes.state

    def start(self) -> None:
        """Returns when the first answer is there."""
        self._thread.start()
        self._wait(lambda: self.commit >= 0, None)
        if self.commit < 0:
            self.close()
        self._raise_error()

    def take(self, timeout: float = 0.0) -> list[Change]:
        """Of a buffered copy: applies the changes that wait, in order, and returns them. Waits up to ``timeout`` seconds for one."""
        self._wait(lambda: self.waiting > 0, timeout)
        taken = self.apply_waiting()
        with self._moved:
            self._moved.notify_all()
        if not taken:
            self._raise_error()
        return taken

    def wait_for(self, commit: int, timeout: float | None = None) -> bool:
        """Waits until the copy is at a commit, or of a buffered one until its change is there to be taken. False if it took too long."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = SOON
        while True:
            left = pause if end is None else min(pause, end - time.monotonic())
            if self._wait(lambda: self.position >= commit, left):
                return True
            self._raise_error()
            if self._ended or end is not None and time.monotonic() >= end:
                return False
            if self._is_quiet(commit):
                self.take_in(Reached(commit))
            pause = min(pause * 2, 5.0)

    def _is_quiet(self, commit: int) -> bool:
        if self.state != "live":
            return False
        with suppress(ViewkeeperError):
            return self._changes.client.run(calls.is_quiet(self.view, max(self.position, 0), commit))
        return False

    def close(self) -> None:
        """Ends it; what it holds stays."""
        self._changes.close()
        self._changes.client._open.discard(self)
        with self._moved:
            self._moved.notify_all()
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join(5)

    def _follow(self) -> None:
        try:
            while (item := self._changes.next_item()) is not None:
                self.take_in(item)
                with self._moved:
                    self._moved.notify_all()
                    while self.is_full() and not self._changes.state.startswith("stopped"):
                        self._moved.wait()
        except Exception as error:
            self.error = error if isinstance(error, ViewkeeperError) else failed_inside(error)
            self._changes.close()
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def _wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout
        with self._moved:
            while not condition():
                left = None if end is None else end - time.monotonic()
                if self._ended or left is not None and left <= 0:
                    return False
                self._moved.wait(left)
        return True

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class LiveSet(Live, AsSet):
    """A live copy as a set of rows."""

    def __enter__(self) -> LiveSet:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


class LiveMapping(Live, AsMapping):
    """A live copy as a mapping from the key to the row."""

    def __enter__(self) -> LiveMapping:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def live(changes: Changes, key: Sequence[str] | str | None, buffered: bool) -> LiveSet | LiveMapping:
    """A copy of what is followed, when its first answer is there."""
    copy = LiveSet(changes, None, buffered) if key is None else LiveMapping(changes, key, buffered)
    copy.start()
    return copy
