"""Every program of tests/programs gives its expected files, byte for byte, on both engines."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.engines import Subject

from viewkeeper.language import parse
from viewkeeper.run import run

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "programs").glob("*/program.dl"))


def test_there_are_at_least_sixty_programs() -> None:
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_program(folder: Path, engine: Subject, tmp_path: Path) -> None:
    program = parse((folder / "program.dl").read_text(encoding="utf-8"), "program.dl")
    stdout = io.StringIO()
    runner = engine.make()
    try:
        run(program, folder / "facts", tmp_path, runner, stdout)
    finally:
        runner.close()
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if stdout.getvalue():
        found["stdout.txt"] = stdout.getvalue().encode()
    assert found == {path.name: path.read_bytes() for path in (folder / "expected").iterdir()}
