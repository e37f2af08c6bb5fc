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
Place = Annotated[
    str, typer.Argument(metavar="WAREHOUSE", help="The warehouse's directory, or the URL of its server.", show_default=False)
]
UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="A server, instead of a directory.", show_default=False)
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="TOKEN", envvar="VIEWKEEPER_TOKEN", show_envvar=False, show_default=False,
        help="What the server knows you by; better in VIEWKEEPER_TOKEN.",
    ),
]  # fmt: skip
