"""Names that are not used yet."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out names that differ from the given ones and from each other."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)

    def fresh(self, stem: str) -> str:
        number = 1
        while f"{stem}{number}" in self._used:
            number += 1
        self._used.add(f"{stem}{number}")
        return f"{stem}{number}"
