"""h :- a, (b ; c)  becomes  h :- a, b  and  h :- a, c. Alternatives inside aggregates stay."""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.program.alternatives import rule_alternatives
from viewkeeper.program.ast import Program


def expand_alternatives(program: Program) -> Program:
    return replace(program, rules=tuple(alternative for rule in program.rules for alternative in rule_alternatives(rule)))
