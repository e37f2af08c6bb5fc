"""A progress bar for people; nothing where the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from viewkeeper.outcomes import Loading, silent

if TYPE_CHECKING:
    from viewkeeper.outcomes import Progress, Report


class Steps:
    """How many rows a question has derived, by what is derived together: told in the end, and as it goes to somebody else."""

    def __init__(self, report: Report) -> None:
        self._report, self.rows = report, dict[str, int]()
        self._last = 0

    def __call__(self, progress: Progress | Loading) -> None:
        if not isinstance(progress, Loading):
            # Whoever asks for more on the way comes back later, and begins with 0 again.
            before = self._last if progress.iteration else 0
            self._last = progress.rows
            name = ", ".join(dict.fromkeys(_known(relation) for relation in progress.relations))
            self.rows[name] = self.rows.get(name, 0) + progress.rows - before
        self._report(progress)

    def print(self) -> None:
        if not self.rows:
            typer.echo("how many rows were derived is not told through a server", err=True)
            return
        total = sum(self.rows.values())
        each = ", ".join(f"{name} {rows:,}" for name, rows in self.rows.items())
        typer.echo(f"derived {total:,} row{'' if total == 1 else 's'}: {each}", err=True)


def _known(relation: str) -> str:
    """The name that people know of what is derived for a relation.

    >>> _known("closure"), _known("closure$m_bf"), _known("heavy?1"), _known("answer")
    ('closure', 'closure', 'heavy', 'answer')
    """
    return relation.partition("$")[0].partition("?")[0]


@contextmanager
def progress_bar() -> Iterator[Report]:
    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(progress: Progress | Loading) -> None:
            if isinstance(progress, Loading):
                bar.update(task, description=f"loading {progress.relation}: {progress.rows:,} rows")
            else:
                bar.update(task, description=_where(progress), total=progress.strata, completed=progress.stratum - 1)

        yield report


def _where(progress: Progress) -> str:
    names = ", ".join(progress.relations[:3]) + (" …" if len(progress.relations) > 3 else "")
    return f"stratum {progress.stratum}/{progress.strata} {names}: iteration {progress.iteration}, {progress.rows:,} rows"
