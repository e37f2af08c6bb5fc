"""The engines that the truth tests run on, and how much each of them is asked. A further engine is one more entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

from viewkeeper.engines.interface import Engine

T = TypeVar("T")


@dataclass(frozen=True)
class Budget:
    """An engine by the name of the fixture in conftest.py that makes it, and what it can afford."""

    name: str
    fixture: str
    batch: int  # how many cases share a program
    values: int  # argument tuples for each function, next to the limits
    failures: int  # programs that must fail, for each function and condition
    places: tuple[str, ...]  # where in a rule each function is put; see test_conformance.py
    programs: int  # random programs
    deep: tuple[str, ...]  # types of deep terms


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
        batch=1,
        values=300,
        failures=6,
        places=("head", "constants", "equation", "comparison", "atom", "negation", "aggregate"),
        programs=300,
        deep=("number", "symbol", "decimal(18,2)", "unsigned"),
    ),
    Budget(
        "spark",
        fixture="spark_engine",
        batch=40,
        values=60,
        failures=1,
        places=("head",),
        programs=12,
        deep=("number", "decimal(18,2)"),
    ),
)


@pytest.fixture(params=ENGINES, ids=lambda budget: budget.name)
def engine(request: pytest.FixtureRequest) -> Subject:
    """Each engine in turn."""
    return Subject(request.param, request.getfixturevalue(request.param.fixture))


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The engine that a batch of cases is for; see in_batches."""
    return Subject(request.param, request.getfixturevalue(request.param.fixture))


def in_batches(metafunc: pytest.Metafunc, argument: str, cases: Sequence[T], name: Callable[[T], str] = str) -> None:
    """Gives a test each engine as ``subject``, with as many of the cases at once as its budget says."""
    found = [(budget, cases[i : i + budget.batch]) for budget in ENGINES for i in range(0, len(cases), budget.batch)]
    ids = [f"{budget.name}-{name(some[0])}" + (f" and {len(some) - 1} more" if some[1:] else "") for budget, some in found]
    metafunc.parametrize(("subject", argument), found, ids=ids, indirect=["subject"])
