"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Whether a path can be read is for us to say, with our own error.
WarehousePath = Annotated[Path, typer.Argument(metavar="WAREHOUSE", readable=False, help="The warehouse's directory.")]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", "-e", metavar="ENGINE", help="embedded (SQLite, in process), spark, or auto: by the size of the work."
    ),
]
