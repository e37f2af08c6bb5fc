"""Why a row is there, and why not: every node of every tree is checked against the naive evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.derivations import Rows, check_tree
from tests.generator import generate
from tests.oracle import OracleError, Row, evaluate, read_facts

import viewkeeper as vk
from viewkeeper.errors import EvaluationError, ProgramError
from viewkeeper.language import parse
from viewkeeper.program.ast import Constant, Program
from viewkeeper.program.printing import print_constant
from viewkeeper.program.types import Type

PROGRAMS = sorted(path.parent for path in (Path(__file__).parent / "programs").glob("*/program.dl"))
SEEDS = range(60)
MOST_ROWS = 12  # of each view


def constant_of(value: object, type_: Type) -> str:
    return print_constant(Constant(value, type_.base.optional(value is None)))  # type: ignore[arg-type]


def atom_of(relation: str, row: Row, program: Program) -> str:
    types = program.relation(relation).types
    return f"{relation}({', '.join(constant_of(v, t) for v, t in zip(row, types, strict=True))})"


@contextmanager
def warehouse_of(text: str, facts: Rows, path: Path) -> Iterator[vk.Warehouse]:
    with vk.open(path, create=True, engine="embedded") as warehouse:
        warehouse.define(text)
        given = {name: sorted(rows, key=repr) for name, rows in facts.items() if rows}
        if given:
            warehouse.load({name: [list(row) for row in rows] for name, rows in given.items()})
        yield warehouse


def check_views(warehouse: vk.Warehouse, rows: Rows, facts: Rows) -> int:
    """Explains rows of every view, and some that are not there. Returns how many trees were checked."""
    program, checked = warehouse.program, 0
    chance = random.Random(1)
    for relation in program.relations:
        there = sorted(rows[relation.name], key=repr)
        for row in chance.sample(there, min(MOST_ROWS, len(there))):
            why = warehouse.why(atom_of(relation.name, row, program))
            assert why and why.derivation is not None and why.absence is None
            assert why.derivation.row == row
            check_tree(why.derivation, program, rows, facts)
            assert len(str(why).splitlines()) >= len(list(why.derivation.walk()))
            assert [entry["id"] for entry in why.to_dicts()] == list(range(1, len(why.to_dicts()) + 1))
            checked += 1
        for row in others(there, chance):
            why = warehouse.why(atom_of(relation.name, row, program))
            assert not why and why.absence is not None and why.derivation is None
            assert "see `viewkeeper verify`" not in str(why)
            assert why.to_dicts()
    return checked


def others(rows: list[Row], chance: random.Random) -> list[Row]:
    """Rows that are not there, made of values that are."""
    if not rows or not rows[0]:
        return []
    made = {tuple(chance.choice(rows)[place] for place in range(len(rows[0]))) for _ in range(6)}
    return sorted(made - set(rows), key=repr)[:4]


def accepted(text: str) -> bool:
    try:
        return bool(parse(text).rules)
    except ProgramError:
        return False


def check_program(text: str, facts: Rows, path: Path) -> int:
    program = parse(text)
    given = {name: rows for name, rows in facts.items() if name not in program.derived}
    try:
        rows = evaluate(text, given)
        with warehouse_of(text, given, path):
            pass
    except (OracleError, EvaluationError):
        return 0
    with vk.open(path) as warehouse:
        return check_views(warehouse, rows, given)


@pytest.mark.parametrize("folder", PROGRAMS, ids=lambda folder: folder.name)
def test_rows_of_programs(folder: Path, tmp_path: Path) -> None:
    text = (folder / "program.dl").read_text(encoding="utf-8")
    assert check_program(text, read_facts(text, folder / "facts"), tmp_path / "w")


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_random_programs(seed: int, tmp_path: Path) -> None:
    generated = generate(seed)
    if accepted(generated.text):
        check_program(generated.text, generated.facts, tmp_path / "w")
