"""A server that is killed and started again, always at the same address."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.serving import Server, start


class ServerProcess:
    """Runs while its ``with`` block does."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path, self.options = path, options
        self.token: str = ""
        self.url = ""
        self._server: Server | None = None

    def __enter__(self) -> ServerProcess:
        self.start()
        return self

    def __exit__(self, *details: object) -> None:
        if self._server is not None:
            self._complain(self._server.stop())

    def start(self) -> None:
        port = ("--port", self.url.rpartition(":")[2]) if self.url else ()
        self._server = start(self.path, *self.options, *port, token=self.token or None)
        self.token, self.url = self._server.token, self._server.url

    def kill(self) -> None:
        """kill -9"""
        assert self._server is not None
        self._server.kill()
        _, errors = self._server.process.communicate()
        self._complain(errors)
        self._server = None

    def _complain(self, errors: str) -> None:
        if errors:
            print(errors, file=sys.stderr)
        assert not errors, errors
