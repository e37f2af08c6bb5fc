"""Documentation that can rot fails here: examples run, commands and options exist, links lead somewhere.

How the examples of a document are read, in order, in one empty directory:

- a block behind a line that ends with `` `name`: `` is a file of that name;
- a ``console`` block is a session: commands behind ``$``, each with its exact output (times and dates may differ);
- a ``python`` block is a doctest; its names stay known further on.
"""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.serving import make_warehouse, serving

import viewkeeper
from viewkeeper.cli.app import app
from viewkeeper.engines.choice import SPARK_FILE_BYTES, SPARK_ROWS

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- reading documents


@dataclass(frozen=True)
class Block:
    """A fenced block: ``file`` is the name that the line before it gives it."""

    language: str
    text: str
    line: int
    file: str | None


def blocks(document: str) -> Iterator[Block]:
    before, language, start = "", "", 0
    inside: list[str] | None = None
    for number, line in enumerate(document.splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                inside, language, start = [], line[3:].strip(), number
                continue
            named = re.search(r"`([\w.-]+)`:$", before)
            yield Block(language, "".join(f"{text}\n" for text in inside), start, named[1] if named else None)
            inside, before = None, ""
        elif inside is not None:
            inside.append(line)
        elif line.strip():
            before = line.strip()


def prose(document: str) -> str:
    """The document without its blocks."""
    return re.sub(r"^```.*?^```$", "", document, flags=re.MULTILINE | re.DOTALL)


def sections(document: str, level: int) -> dict[str, str]:
    """The text under each heading of a level."""
    parts = re.split(rf"^{'#' * level} (.+)\n", document, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


# ---- running examples


def run_command(command: str) -> tuple[str, int]:
    """What a command prints on a terminal, and its exit code."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PATH": path}, text=True
    )
    return done.stdout, done.returncode


def timeless(text: str) -> str:
    """The text without what differs from run to run."""
    text = re.sub(r"(about )?\d+ rows?, expected .*", "EXPECTED", text)
    text = re.sub(r"-\d{8}-\d{6}\b", "-DATE", re.sub(r" *\d+\.\d{2,3} m?s\b", " TIME", text))
    text = re.sub(r"  -{6}(--)?$", "  ------", text, flags=re.MULTILINE)  # as wide as the advice
    return re.sub(r"TIME TIME +(store|external)\b", "TIME TIME ADVICE", text)


def check_console(block: Block) -> None:
    for command, expected in sessions(block.text):
        output, code = run_command(command)
        assert timeless(output) == timeless(expected), f"line {block.line}: {command}"
        assert (code == 0) == ("error[" not in expected), f"line {block.line}: {command} gave {code}"


def check_python(block: Block, names: dict[str, Any], document: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, document, document, block.line)
    assert test.examples, f"line {block.line}: a python block without >>>"
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append, clear_globs=False)
    names.update(test.globs)
    assert not told, "".join(told)


def check_examples(document: str, names: dict[str, Any]) -> None:
    for block in blocks((ROOT / document).read_text(encoding="utf-8")):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            check_console(block)
        elif block.language == "python":
            check_python(block, names, document)


@pytest.mark.parametrize("document", ["README.md", "docs/cli.md", "docs/sql.md"])
def test_examples(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_examples(document, {})


def test_examples_with_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: object) -> None:
    monkeypatch.chdir(tmp_path)
    check_examples("docs/python.md", {"spark": spark_session})


def test_examples_with_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(blocks((ROOT / "docs/client.md").read_text(encoding="utf-8"))).text
    with serving(make_warehouse(tmp_path / "shop", program)) as server:
        check_examples("docs/client.md", {"url": server.url, "token": server.token})


# ---- the command line


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))


def options_of(command: Any) -> set[str]:
    given = {option for p in command.params for option in (*p.opts, *p.secondary_opts) if option.startswith("-")}
    # A command that has commands of its own is documented with all of theirs.
    inner = getattr(command, "commands", {}).values() if command is not GROUP else ()
    return given.union({"-h", "--help"}, *map(options_of, inner))


def test_every_command_has_its_section() -> None:
    found = sections((ROOT / "docs/cli.md").read_text(encoding="utf-8"), 2)
    documented = [title.removeprefix("viewkeeper ") for title in found if title.startswith("viewkeeper ")]
    assert documented == list(COMMANDS)


def test_the_table_of_commands_has_all_of_them() -> None:
    beginning = (ROOT / "docs/cli.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert re.findall(r"^\| \[`(\w+)`\]\(#viewkeeper-\1\)", beginning, re.MULTILINE) == list(COMMANDS)


def test_options_of_all_commands() -> None:
    beginning = (ROOT / "docs/cli.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert options_in(beginning) - {"-m"} == options_of(GROUP)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_command(name: str) -> None:
    section = sections((ROOT / "docs/cli.md").read_text(encoding="utf-8"), 2)[f"viewkeeper {name}"]
    assert options_in(section) | {"-h", "--help"} == options_of(COMMANDS[name])
    usage = next(block.text for block in blocks(section))
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "argument":
            assert parameter.metavar in usage
    assert f"$ viewkeeper {name}" in section


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_commands_and_options_exist(document: Path) -> None:
    """Wherever a command line is shown, it is one that can be typed."""
    for command in re.findall(r"(?:^\$ |`)viewkeeper ([^`\n]+)", document.read_text(encoding="utf-8"), re.MULTILINE):
        name = command.split()[0]
        if name == "COMMAND":
            continue
        assert name.startswith("-") or name in COMMANDS, command
        known = options_of(COMMANDS.get(name, GROUP))
        assert options_in(re.sub(r"'[^']*'", "", command)) <= known, command


# ---- the Python reference


def test_python_reference_names_everything() -> None:
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    for name in viewkeeper.__all__:
        assert f"`{name}" in text or f"vk.{name}" in text, name
    found = sections(text, 3)
    for name, method in public(viewkeeper.Warehouse):
        [section] = [body for title, body in found.items() if re.match(rf"`{name}\b", title)]
        for parameter in inspect.signature(method).parameters.keys() - {"self"}:
            assert f"`{parameter}`" in section, f"{name}: {parameter}"
    for field in viewkeeper.Commit.__dataclass_fields__:
        assert f"`{field}`" in text, field
    for name, _ in public(viewkeeper.Answer):
        assert f"`{name}(" in text, name


def public(cls: type) -> Iterable[tuple[str, Any]]:
    return [(name, value) for name, value in inspect.getmembers(cls, callable) if not name.startswith("_")]


# ---- limits that the README names


def test_the_readme_names_the_limits_of_auto() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{SPARK_ROWS // 1_000_000} million rows" in text
    assert f"{SPARK_FILE_BYTES // 2**20} MiB" in text


# ---- links, targets, decisions


def slug(heading: str) -> str:
    """The name of a heading in links, as code hosting sites make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    return {slug(title) for title in re.findall(r"^#+ (.+)$", prose(document.read_text(encoding="utf-8")), re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        assert path.exists(), target
        assert path.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(path), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_make_targets(document: Path) -> None:
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^make ([a-z]+) ", listed, re.MULTILINE))
    assert {"demo", "test"} <= targets
    assert set(re.findall(r"(?:^|`|\$ )make ([a-z]+)\b", document.read_text(encoding="utf-8"), re.MULTILINE)) <= targets


@pytest.mark.parametrize("decision", DECISIONS, ids=name_of)
def test_decision(decision: Path) -> None:
    """A decision says what the problem was, what was chosen, what else there is, and what would change our mind."""
    text = decision.read_text(encoding="utf-8")
    assert list(sections(text, 2)) == ["Problem", "Choice", "Alternatives", "What would change our mind"]
    assert re.match(rf"# {decision.name[:4]} ", text)


def test_decisions_are_numbered_without_gaps() -> None:
    assert [path.name[:4] for path in DECISIONS] == [f"{n:04}" for n in range(1, len(DECISIONS) + 1)]
