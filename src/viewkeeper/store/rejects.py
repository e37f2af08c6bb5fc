"""Rows that do not fit, with line, column, value and reason."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from viewkeeper.errors import DataError, problem

SHOWN = 20


@dataclass(frozen=True)
class Reject:
    """A row of a source that was not taken."""

    relation: str
    line: int
    column: str
    value: str
    reason: str

    def __str__(self) -> str:
        where = f", column {self.column}" if self.column else ""
        shown = self.value if len(self.value) <= 60 else self.value[:57] + "…"
        return f"line {self.line}{where}: {shown!r} {self.reason}"


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(["relation", "line", "column", "value", "reason"])
        writer.writerows((r.relation, r.line, r.column, r.value, r.reason) for r in rejects)


def bad_rows(relation: str, rejects: Sequence[Reject], total: int, file: Path | None) -> DataError:
    """The error that shows the first rejects and says where all of them are."""
    shown = [f"  {reject}" for reject in rejects[:SHOWN]]
    if len(rejects) > SHOWN:
        shown.append(f"  … and {len(rejects) - SHOWN} more")
    lines = len({reject.line for reject in rejects})
    where = f"All of them are in {file}. " if file is not None else ""
    hint = f"{where}Correct them, or load the others with --skip-bad." if file is not None else "Correct them."
    return DataError(problem("BAD_ROWS", relation=relation, count=lines, total=total, rows="\n".join(shown), hint=hint))
