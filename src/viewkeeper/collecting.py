"""Python's search for circles of garbage, which many rows set off and none of them needs."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import Any

_MANY = 1_000


class without_collecting:
    """While many rows are brought in, nothing is searched: each search goes through all that the process holds.

    It is put off, not left out. If two threads are here at the same time, one of them has it put off only until the other is done.
    A class and not a generator: every commit passes here.
    """

    def __init__(self, rows: Iterable[Any]) -> None:
        self._many = sum([len(some) if hasattr(some, "__len__") else _MANY for some in rows]) >= _MANY

    def __enter__(self) -> None:
        self._put_off = self._many and gc.isenabled()
        if self._put_off:
            gc.disable()

    def __exit__(self, *details: object) -> None:
        if self._put_off:
            gc.enable()
