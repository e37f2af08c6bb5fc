"""Who may know whom: the table of the architecture, checked against the imports of every module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "viewkeeper"
FOLDERS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))

# What the modules of a folder may import of ours, beside the folder itself. "errors" is common to all.
MAY_KNOW: dict[str, set[str]] = {
    "language": {"program"},
    "program": set(),
    "rewrite": {"program"},
    "engines": {"program"},
    "sql": {"program", "rewrite"},
    "store": {"program"},
    "why": {"program", "rewrite", "engines", "state"},
    # "" is the package itself; the façade and what it gives
    "serve": {"", "warehouse", "outcomes", "answer", "changed", "watched", "transaction", "why", "wire"},
    "client": {"wire"},
    "cli": {"", "warehouse", "outcomes", "answer", "advice", "changed", "explain", "why", "run", "serve", "client", "wire"},
}
COMMON = {"errors"}
# Kept out of modules that are imported to look at a warehouse or to print help, wherever that is not inside a function.
HEAVY = {"pyarrow", "pyspark", "pandas", "rich", "sqlglot", "prompt_toolkit"}
QUICK = [
    "cli",
    "warehouse.py",
    "state.py",
    "outcomes.py",
    "answer.py",
    "definitions.py",
    "store/catalog.py",
    "store/lock.py",
    "store/rejects.py",
]


def modules(folder: str) -> list[Path]:
    return sorted((SOURCE / folder).rglob("*.py"))


def imported(path: Path, nested: bool = True) -> Iterator[str]:
    """The modules that a module imports; ``nested``: those inside functions and behind TYPE_CHECKING too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if nested else tree.body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                assert node.level == 0, f"{path}: imports are absolute"
                yield node.module or ""
                if node.module == "viewkeeper":
                    yield from (f"viewkeeper.{alias.name}" for alias in node.names)


def ours(name: str) -> str | None:
    """The folder or top-level module of ours that a module is in, or None if it is not ours."""
    first, *rest = name.split(".")
    return None if first != "viewkeeper" else rest[0] if rest else ""


def test_every_folder_has_its_line() -> None:
    assert set(FOLDERS) == set(MAY_KNOW)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_knows_only_what_it_may(folder: str) -> None:
    allowed = MAY_KNOW[folder] | COMMON | {folder, None}
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in modules(folder)
        for name in imported(path)
        if ours(name) not in allowed
    ]
    assert wrong == []


def test_nothing_but_the_entry_knows_the_command_line() -> None:
    outside = [path for path in SOURCE.rglob("*.py") if path.parent.name != "cli" and path.name != "__main__.py"]
    assert [str(path) for path in outside if any(ours(name) == "cli" for name in imported(path))] == []


def test_the_client_is_small() -> None:
    """It is installed where neither Spark nor Arrow nor a parser is wanted."""
    others = {name.split(".")[0] for path in modules("client") for name in imported(path)} - set(sys.stdlib_module_names)
    assert others == {"viewkeeper", "httpx", "msgspec"}


@pytest.mark.parametrize("quick", QUICK)
def test_a_quick_module_imports_nothing_heavy(quick: str) -> None:
    paths = modules(quick) if (SOURCE / quick).is_dir() else [SOURCE / quick]
    assert [f"{p.name}: {name}" for p in paths for name in imported(p, nested=False) if name.split(".")[0] in HEAVY] == []


@pytest.mark.parametrize("folder", ["language", "program", "rewrite", "cli"])
def test_databases_are_for_engines_and_the_store(folder: str) -> None:
    wrong = {"sqlite3", "pyspark", "py4j", "duckdb"}
    assert [f"{p.name}: {name}" for p in modules(folder) for name in imported(p) if name.split(".")[0] in wrong] == []
