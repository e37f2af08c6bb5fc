"""docs/server.md names every route, event and limit, and its examples are what the server says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.serving import serving
from tests.test_docs import blocks, sections, sessions

from viewkeeper.serve.routes import ROUTES
from viewkeeper.wire import CHANGE, END, HEARTBEAT, HINT, RESET, SNAPSHOT

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


def test_every_route_is_in_the_table() -> None:
    found = re.findall(r"^\| `([A-Z]+) (/[^` ]*)` \|", sections(TEXT, 2)["Routes"], re.MULTILINE)
    assert sorted(found) == sorted((entry.method, entry.path) for entry in ROUTES)


def test_every_event_and_parameter_of_a_stream_is_named() -> None:
    section = sections(TEXT, 2)["Following a view"]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == {SNAPSHOT, CHANGE, HINT, RESET, HEARTBEAT, END}
    [entry] = [entry for entry in ROUTES if entry.path.endswith("/changes")]
    assert all(f"{parameter.name}" in TEXT for parameter in entry.parameters)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")
def test_the_examples(tmp_path: Path) -> None:
    import viewkeeper as vk

    program = next(block.text for block in blocks(TEXT) if block.file == "shop.dl")
    with vk.open(tmp_path / "shop", create=True, engine="embedded") as shop:
        shop.define(program)
    with serving(tmp_path / "shop") as server:
        environment = {**os.environ, "URL": server.url, "TOKEN": server.token}
        for block in blocks(TEXT):
            if block.language == "console":
                for command, expected in sessions(block.text):
                    done = subprocess.run(["bash", "-c", command], capture_output=True, env=environment, text=True, check=False)
                    assert done.stdout.replace("\r\n", "\n").rstrip("\n") == expected.rstrip("\n"), command
