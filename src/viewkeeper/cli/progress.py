"""A progress bar for people; nothing where the output is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from viewkeeper.engines.evaluator import Progress
from viewkeeper.warehouse import Loading, Report


@contextmanager
def progress_bar() -> Iterator[Report]:
    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def report(progress: Progress | Loading) -> None:
            if isinstance(progress, Loading):
                bar.update(task, description=f"loading {progress.relation}: {progress.rows:,} rows")
                return
            names = ", ".join(progress.relations[:3]) + (" …" if len(progress.relations) > 3 else "")
            text = f"stratum {progress.stratum}/{progress.strata} {names}: iteration {progress.iteration}, {progress.rows:,} rows"
            bar.update(task, description=text, total=progress.strata, completed=progress.stratum - 1)

        yield report
