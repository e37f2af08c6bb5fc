"""Running ``viewkeeper`` commands: in this process where nothing speaks against it, else as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from viewkeeper.cli.entry import main


@dataclass(frozen=True)
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The code of the error that was told."""
        assert self.err.startswith("error["), self.err
        return self.err[6 : self.err.index("]")]


def viewkeeper(*arguments: object, stdin: bytes = b"") -> Done:
    """The command in this process, from the entry point on. Nothing may end as a traceback."""
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin), "utf-8"),
        "stdout": io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True),
        "stderr": io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True),
    }
    code = 0
    with mock.patch.multiple(sys, argv=["viewkeeper", *map(str, arguments)], **streams):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    out, err = (streams[name].buffer.getvalue().decode() for name in ("stdout", "stderr"))  # type: ignore[attr-defined]
    assert "Traceback" not in err, err
    return Done(code, out, err)


def command(*arguments: object) -> list[str]:
    """The command as a process of its own."""
    return [sys.executable, "-m", "viewkeeper", *map(str, arguments)]


def process(*arguments: object, env: Mapping[str, str] | None = None, timeout: float = 60) -> Done:
    done = subprocess.run(command(*arguments), capture_output=True, env=env, timeout=timeout, stdin=subprocess.DEVNULL)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    return Done(done.returncode, out, err)


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None removes a variable."""
    changed = {**os.environ, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def written(path: Path, content: str | bytes) -> Path:
    """The path, after writing the content there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
