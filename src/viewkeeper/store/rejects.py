"""Rows that do not fit, with line, column, value and reason.

There may be as many as the source has rows, so they go to a file as they come, and only the first ones are kept to be shown.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from viewkeeper.errors import DataError, problem, shortened

SHOWN = 20


@dataclass(frozen=True)
class Reject:
    """A value of a source that was not taken, or with column "" a whole row."""

    relation: str
    line: int
    column: str
    value: str
    reason: str

    def __str__(self) -> str:
        where = f", column {self.column}" if self.column else ""
        return f"{self.relation}, line {self.line}{where}: {shortened(self.value)!r} {self.reason}"


class Rejects:
    """Collects rejects: ``file`` is where all of them go; without it only the first ones are kept."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.first: list[Reject] = []
        self.values = 0
        self.rows = 0
        self._last: tuple[str, int] | None = None
        self._open: TextIO | None = None

    def append(self, reject: Reject) -> None:
        self.values += 1
        if (reject.relation, reject.line) != self._last:  # all of a row's come one after the other
            self._last = (reject.relation, reject.line)
            self.rows += 1
        if len(self.first) < SHOWN:
            self.first.append(reject)
        if self.file is not None:
            with _writing(self.file):
                if self._open is None:
                    self._start(self.file)
                self._write((reject.relation, reject.line, reject.column, reject.value, reject.reason))

    def _start(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._open = _partial(file).open("w", newline="", encoding="utf-8", errors="backslashreplace")
        self._write = csv.writer(self._open).writerow
        self._write(("relation", "line", "column", "value", "reason"))

    def keep(self) -> Path | None:
        """Makes the file appear; returns it if there is one."""
        if self.file is None or self._open is None:
            return None
        with _writing(self.file):
            self._open.close()
            os.replace(_partial(self.file), self.file)
        return self.file

    def discard(self) -> None:
        """Removes the file, unless it was kept."""
        if self.file is not None and self._open is not None:
            with suppress(OSError):  # what failed to be written before fails again
                self._open.close()
            with suppress(OSError):
                _partial(self.file).unlink(missing_ok=True)


@dataclass
class Reading:
    """What a reader of a source has seen so far."""

    relation: str
    rejects: Rejects = field(default_factory=Rejects)
    rows: int = 0
    first_line: int = 1

    def reject(self, line: int, column: str, value: str, reason: str) -> None:
        self.rejects.append(Reject(self.relation, line + self.first_line - 1, column, value, reason))


def unused_file(directory: Path, relation: str) -> Path:
    """A file for rejects in the directory, named after the relation and the time."""
    stem = f"{relation[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = directory / f"{stem}.csv"
    number = 1
    while path.exists() or _partial(path).exists():
        number += 1
        path = directory / f"{stem}-{number}.csv"
    return path


def bad_rows(relations: str, rejects: Rejects, total: int, file: Path | None) -> DataError:
    """The error that shows the first rejects and says where all of them are."""
    shown = [f"  {reject}" for reject in rejects.first]
    if rejects.values > len(shown):
        shown.append(f"  … and {rejects.values - len(shown):,} more")
    where = f"All of them are in {file}. " if file is not None else ""
    hint = f"{where}Correct them, or load the others with --skip-bad." if file is not None else "Correct them."
    return DataError(problem("BAD_ROWS", relation=relations, count=rejects.rows, total=total, rows="\n".join(shown), hint=hint))


def _partial(file: Path) -> Path:
    return file.with_name(f"{file.name}.partial")


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        hint = "It is where bad rows go. Choose another place with --rejects."
        raise DataError(problem("UNWRITABLE_FILE", file=file, why=why, hint=hint)) from None
