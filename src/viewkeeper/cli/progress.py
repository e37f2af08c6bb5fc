"""A progress bar for people; nothing where the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from viewkeeper.outcomes import Loading, silent

if TYPE_CHECKING:
    from viewkeeper.outcomes import Progress, Report


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
