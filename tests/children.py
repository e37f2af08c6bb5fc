"""Processes that tests fork off: they start warm, in a millisecond, and can be killed at any moment."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


def fork(work: Callable[[], object]) -> int:
    """Does the work in a child; its exit code says whether it went well. Returns the child's process number."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Waits for a child; its exit code, or minus the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def holding(work: Callable[[Callable[[], None]], object]) -> Iterator[int]:
    """A child that has got to a point of its work and stays there, until it is killed in the end.

    The work calls what it is given when it has got there.
    """
    here, there = os.pipe()

    def stay() -> None:
        os.write(there, b"x")
        signal.pause()

    pid = fork(lambda: work(stay))
    try:
        os.close(there)
        assert os.read(here, 1) == b"x", "the child ended before it got there"
        yield pid
    finally:
        os.close(here)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
