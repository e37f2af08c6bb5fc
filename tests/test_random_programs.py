"""Random programs: every relation is what the naive evaluator says, and printing a program changes nothing."""

from __future__ import annotations

import pytest
from tests.conftest import evaluate_text
from tests.engines import ENGINES, Subject
from tests.generator import Generated, generate
from tests.oracle import OracleError
from tests.oracle import evaluate as evaluate_naively

from viewkeeper.engines.embedded import EmbeddedEngine
from viewkeeper.errors import EvaluationError, ProgramError
from viewkeeper.language import parse
from viewkeeper.rewrite.passes import normalise

# Seeds that once failed stay, whatever the budget.
FAILED_ONCE: tuple[int, ...] = ()
ACCEPTED = 0.97  # of all programs
CODES = {"overflow": "OVERFLOW", "division_by_zero": "DIVISION_BY_ZERO", "bad_text": "BAD_TEXT", "bad_range": "BAD_RANGE"}

Rows = dict[str, set[tuple[object, ...]]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        if "subject" in metafunc.fixturenames:
            pairs = [(budget, seed) for budget in ENGINES for seed in seeds(budget.programs)]
            ids = [f"{budget.name}-{seed}" for budget, seed in pairs]
            metafunc.parametrize(("subject", "seed"), pairs, ids=ids, indirect=["subject"])
        else:
            metafunc.parametrize("seed", seeds(max(budget.programs for budget in ENGINES)))


def seeds(count: int) -> list[int]:
    return [*FAILED_ONCE, *(seed for seed in range(count) if seed not in FAILED_ONCE)]


def accepted(program: Generated) -> bool:
    try:
        parse(program.text)
    except ProgramError:
        return False
    return True


def expected(program: Generated) -> Rows | str:
    """All relations, or the kind of failure."""
    try:
        return evaluate_naively(program.text, program.facts)  # type: ignore[return-value]
    except OracleError as error:
        return error.kind


def found(program: Generated, make: object, text: str | None = None) -> Rows | str:
    """All relations, or the code of the failure."""
    try:
        return evaluate_text(text or program.text, program.facts, make)  # type: ignore[arg-type]
    except EvaluationError as error:
        return error.code


def outcome(program: Generated) -> str:
    """How a program fails, for shrink.py."""
    try:
        parse(program.text)
    except ProgramError:
        return "refused"
    except Exception as error:
        return f"parsing: {type(error).__name__}"
    try:
        want = expected(program)
    except Exception:
        return "the naive evaluator crashes"
    try:
        got = found(program, EmbeddedEngine.private)
        core = str(normalise(parse(program.text)))
        again = found(program, EmbeddedEngine.private, core)
    except Exception as error:
        return f"{type(error).__name__} {str(error)[:30]}"
    if isinstance(want, str) or isinstance(got, str):
        return "same" if isinstance(want, str) == isinstance(got, str) else "failure or not"
    if want != got:
        return "different"
    if isinstance(again, str) or {name: again[name] for name in got} != got:
        return "core is different"
    return "same"


def test_nearly_all_programs_are_accepted() -> None:
    programs = [generate(seed) for seed in range(300)]
    refused = [program.seed for program in programs if not accepted(program)]
    assert len(refused) <= (1 - ACCEPTED) * len(programs), refused


def test_programs_use_the_whole_language() -> None:
    texts = [generate(seed).text for seed in range(300)]
    parts = [
        "!b",
        " ; ",
        "count :",
        "sum ",
        "min ",
        "max ",
        "mean ",
        "range(",
        "coalesce(",
        "is_null(",
        "match(",
        "contains(",
        "null",
        "_",
    ]
    parts += ["bool", "date(", "timestamp(", "decimal(", "bytes(", "unsigned", "float", "Tag", "Id", "?", "()"]
    for part in parts:
        assert sum(part in text for text in texts) >= 10, part


def test_relations_are_right(subject: Subject, seed: int) -> None:
    program = generate(seed)
    if not accepted(program):
        return
    want, got = expected(program), found(program, subject.make)
    if isinstance(want, str):
        assert got == CODES[want], program.text
    elif isinstance(got, str):
        # A failure that a relation further on would have excluded: programs with guards have none.
        assert program.risky, f"{got}\n{program.text}"
    else:
        wrong = {name: (want[name] - got[name], got[name] - want[name]) for name in want if want[name] != got[name]}
        assert not wrong, f"{wrong}\n{program.text}\n{program.facts}"


def test_a_printed_program_is_the_same_program(seed: int) -> None:
    generated = generate(seed)
    if not accepted(generated):
        return
    program = parse(generated.text)
    assert parse(str(program)) == program


def test_a_printed_core_program_gives_the_same_relations(seed: int) -> None:
    generated = generate(seed)
    if not accepted(generated):
        return
    core = str(normalise(parse(generated.text)))
    want, got = found(generated, EmbeddedEngine.private), found(generated, EmbeddedEngine.private, core)
    if not isinstance(want, str) and not isinstance(got, str):
        got = {name: got[name] for name in want}
    assert got == want, core
