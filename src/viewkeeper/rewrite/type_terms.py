"""Gives every constant the type of its place and every decimal the scale of its place."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.program.ast import Program
from viewkeeper.program.hierarchy import Hierarchy
from viewkeeper.program.typing import Typer


def type_terms(program: Program) -> Program:
    typer = Typer(program.by_name, Hierarchy.of(program.types))
    return replace(program, rules=tuple(typer.rule(rule)[0] for rule in program.rules))
