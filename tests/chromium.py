"""A headless Chromium that a test drives: the DevTools protocol over a pair of pipes, which needs no library."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """The one page of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]

    def open(self, url: str) -> None:
        self._call("Page.navigate", {"url": url})

    def ask(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        found = self._call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_until(self, expression: str, seconds: float = 60) -> None:
        """Asks until the expression is true."""
        end = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < end, (
                f"{expression} did not become true; the page says {self.ask('document.body.innerText')!r}"
            )
            time.sleep(0.02)

    def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def _message(self) -> bytes:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], 60)
            assert ready, "Chromium does not answer"
            data = os.read(self._answers, 65536)
            assert data, "Chromium has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return message


@contextmanager
def chromium(directory: Path) -> Iterator[Page]:
    """A browser with an empty profile in the directory."""
    assert BINARY is not None
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    # It reads from 3 and writes to 4.
    script = f'exec "$@" 3<&{their_commands} 4>&{their_answers}'
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
               "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
               f"--user-data-dir={directory / 'profile'}"]  # fmt: skip
    environment = {**os.environ, "HOME": str(directory)}
    with (directory / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, "chromium", BINARY, *options, "about:blank"],
            pass_fds=(their_commands, their_answers),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
    try:
        os.close(their_commands)
        os.close(their_answers)
        yield Page(commands, answers)
    finally:
        os.close(commands)  # it ends when nobody can command it any more
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(answers)
