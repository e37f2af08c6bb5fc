"""docs/errors.md has every condition, and its examples are what users read."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from viewkeeper.errors import conditions

HERE = Path(__file__).parent
TEXT = (HERE.parent / "docs" / "errors.md").read_text(encoding="utf-8")
SECTIONS = {section.split("\n", 1)[0]: section.split("\n", 1)[1] for section in TEXT.split("\n## ")[1:]}
TOLD = "\n".join(path.read_text(encoding="utf-8") for path in sorted((HERE / "bad_programs").glob("*.txt")))


def template(text: str) -> str:
    """A regular expression for a message: its parameters stand for any text."""
    parts = Formatter().parse(text)
    return "".join(re.escape(literal) + (".*" if parameter is not None else "") for literal, parameter, _, _ in parts)


def test_every_condition_has_a_section_and_no_other_has() -> None:
    assert list(SECTIONS) == sorted(conditions())


@pytest.mark.parametrize("code", conditions())
def test_section_says_what_it_means_shows_an_example_and_says_what_to_do(code: str) -> None:
    meaning, example, advice = (part.strip() for part in SECTIONS[code].split("```"))
    assert meaning.endswith(".")
    assert advice.endswith(".")
    condition = conditions()[code]
    assert re.match(rf"error\[{code}\]: {template(condition['message'])}", example, re.DOTALL)
    assert not condition.get("hint") or re.search(rf"  = hint: {template(condition['hint'])}$", example, re.DOTALL)
    if f"error[{code}]" in TOLD:
        assert example in TOLD
