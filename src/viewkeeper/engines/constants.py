"""Evaluates terms without variables, in a private database."""

from __future__ import annotations

from typing import Any

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.engines.sql import Compiler
from viewkeeper.program.ast import Relation, Rule
from viewkeeper.program.hierarchy import Hierarchy


class ConstantValues:
    """Called with a rule without a body whose head has one argument, gives its stored value; raises EvaluationError."""

    def __init__(self) -> None:
        self._engine: EmbeddedEngine | None = None

    def __call__(self, rule: Rule, relation: Relation) -> Any:
        if self._engine is None:
            self._engine = EmbeddedEngine.private()
        statement = Compiler({relation.name: relation}, Hierarchy.of(()), self._engine.dialect).rule(rule)
        [(value,)] = self._engine.fetch(statement.sql, statement.parameters)
        return value
