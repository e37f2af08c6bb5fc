"""The engines that the truth tests run on, and how much each of them is asked. A further engine is one more entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from viewkeeper.engines.interface import Engine


@dataclass(frozen=True)
class Budget:
    """An engine by the name of the fixture in conftest.py that makes it, and what it can afford."""

    name: str
    fixture: str
    values: int  # argument tuples for each function, next to the limits
    failures: int  # programs that must fail, for each function and condition
    places: tuple[str, ...]  # where in a rule each function is put; see test_conformance.py
    programs: int  # random programs


@dataclass(frozen=True)
class Subject:
    """An engine in a test."""

    budget: Budget
    make: Callable[[], Engine]

    @property
    def name(self) -> str:
        return self.budget.name


ENGINES = (
    Budget(
        "embedded",
        fixture="embedded",
        values=300,
        failures=6,
        places=("head", "constants", "equation", "comparison", "atom", "negation", "aggregate"),
        programs=400,
    ),
    # Budget("spark", fixture="spark_engine", values=100, failures=1, places=("head", "comparison"), programs=25),
)


@pytest.fixture(params=ENGINES, ids=lambda budget: budget.name)
def engine(request: pytest.FixtureRequest) -> Subject:
    """Each engine in turn."""
    return Subject(request.param, request.getfixturevalue(request.param.fixture))
