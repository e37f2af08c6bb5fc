"""What was is derived from what is there now, with what has changed since taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewkeeper as vk
from viewkeeper.cli.progress import Steps
from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.language import parse
from viewkeeper.outcomes import silent
from viewkeeper.program.printing import print_rule
from viewkeeper.rewrite.passes import normalise
from viewkeeper.rewrite.take_back import take_back

PROGRAM = """
.decl edge(x: symbol, y: symbol?)
.decl node(x: symbol)
.decl lonely(x: symbol)
lonely(x) :- node(x), !edge(x, _).
"""
CLOSURE = """
.decl edge(x: symbol, y: symbol)
.decl closure(x: symbol, y: symbol)
closure(x, y) :- edge(x, y).
closure(x, y) :- closure(x, z), edge(z, y).
"""


def test_the_rules() -> None:
    core = take_back(normalise(parse(PROGRAM)), {"edge": True, "node": False})
    assert [print_rule(rule) for rule in core.rules] == [
        "lonely(x) :- node?then(x), !edge?then(x, _).",
        "edge?then(x, y) :- edge(x, y), !edge?came(x, y).",
        "edge?then(x, y) :- edge?went(x, y).",
        "node?then(x) :- node?went(x).",
    ]
    assert "node" not in core.by_name
    assert core.rules[1].body[1].same  # type: ignore[union-attr]  # a row with NULL is taken back, too


@pytest.mark.parametrize("kind", ["virtual", "external"])
def test_what_was_is_derived_without_a_copy_of_what_is_there(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vk.open(tmp_path / "w", create=True, engine="embedded") as shop:
        shop.define(f"{CLOSURE}.{kind} closure")
        shop.commit({"edge": [("a", "b"), ("b", "c"), *((f"n{i}", f"n{i + 1}") for i in range(200))]})
        question = 'closure("a", X), X != "b"'
        held, since = shop.ask(question), shop.last()
        put = 0

        def counted(engine: Any, relation: Any, rows: Any, insert: Any = EmbeddedEngine.insert_into) -> int:
            nonlocal put
            batches = list(rows)
            put += sum(batch.num_rows for batch in batches)
            return int(insert(engine, relation, batches))

        shop.commit({"edge": [("c", "d"), ("x", "y")]}, {"edge": [("n7", "n8")]})
        monkeypatch.setattr(EmbeddedEngine, "insert_into", counted)
        steps = Steps(silent)
        assert [list(changed.values()) for _, changed in held.changes()] == [[("insert", ("d",))]]
        assert list(shop.query(question, as_of=since, report=steps)) == [("c",)]
        assert 3 * 2 <= put < 20  # what the commit changed, for each of the two, and what is asked for
        assert sum(steps.rows.values()) < 30
