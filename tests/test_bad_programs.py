"""Programs that must fail, and the exact text their authors read.

A program is ``bad_programs/NAME.dl``, the text ``bad_programs/NAME.txt``. After a change of wording
``python tests/test_bad_programs.py`` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viewkeeper
from viewkeeper.errors import ProgramError, Span, conditions
from viewkeeper.language import parse
from viewkeeper.program.ast import Column, Program, Relation
from viewkeeper.program.check import check
from viewkeeper.program.types import NUMBER

FOLDER = Path(__file__).parent / "bad_programs"
PROGRAMS = sorted(FOLDER.glob("*.dl"))
SOURCE = Path(viewkeeper.__file__).parent

# The parts of src/viewkeeper that report what no program text alone can bring about.
PARTS = {
    "engines": ["engines"],
    "SQL": ["sql", "statements.py", "showing.py"],
    "advice": ["advice.py"],
    "warehouse": [
        "warehouse.py",
        "change.py",
        "cold.py",
        "history.py",
        "operations.py",
        "sources.py",
        "transaction.py",
        "bulk.py",
        "run.py",
        "store",
        "why",
    ],
    "client": ["client"],
    "server": ["serve", "watched.py", "warehouse.py"],
    "command line": ["cli"],
    "integrity": ["integrity.py"],
    "questions": ["language/__init__.py"],  # tested in test_why.py
    "merging": ["program/merge.py"],  # tested below
    "nothing yet": [],
}
ELSEWHERE: dict[str, str] = {
    "BAD_ANSWER": "client",
    "BAD_ARGUMENT": "server",
    "BAD_FILE": "warehouse",
    "BAD_OPERATION": "warehouse",
    "BAD_RANGE": "engines",
    "BAD_REQUEST": "server",
    "BAD_ROWS": "warehouse",
    "BAD_TEXT": "engines",
    "BASE_CONFLICT": "warehouse",
    "BODY_TIMEOUT": "server",
    "BUSY": "server",
    "CANNOT_LISTEN": "server",
    "CATALOG_DAMAGED": "warehouse",
    "CATALOG_VERSION": "warehouse",
    "CHANGED_MEANWHILE": "warehouse",
    "CLOSED": "warehouse",
    "CLOSING": "server",
    "CONFLICTING_DEFINITION": "merging",
    "COPY_DIFFERS": "client",
    "DATA_CONFLICT": "warehouse",
    "DISK_FAILED": "warehouse",
    "DISK_FULL": "warehouse",
    "DIVISION_BY_ZERO": "engines",
    "DROP_DEPENDENTS": "warehouse",
    "ENGINE_FAILED": "engines",
    "FORBIDDEN": "server",
    "HIDDEN_REASON": "server",
    "INSECURE_HOST": "server",
    "INTEGRITY_VIOLATED": "integrity",
    "INTERNAL": "command line",
    "INTERRUPTED": "command line",
    "INTERRUPTED_LATE": "command line",
    "JAVA_MISSING": "engines",
    "KEY_REUSED": "warehouse",
    "KEY_VIOLATION": "warehouse",
    "LOCKED": "warehouse",
    "LOG_TRIMMED": "warehouse",
    "MISSING_FACTS": "warehouse",
    "NOTHING_DEFINED": "warehouse",
    "NOTHING_DEFINED_THEN": "warehouse",
    "NOTHING_STORED": "warehouse",
    "NOT_A_ROW": "questions",
    "NOT_A_VIEW": "warehouse",
    "NOT_A_WAREHOUSE": "warehouse",
    "NOT_CONSTANT": "questions",
    "NOT_SERVED": "command line",
    "NO_ADVICE": "advice",
    "NO_KEY": "warehouse",
    "NO_METHOD": "server",
    "NO_ROUTE": "server",
    "NO_TOKEN": "server",
    "OVERFLOW": "engines",
    "PATH_EXISTS": "warehouse",
    "QUERY_TOO_SLOW": "server",
    "READ_ONLY": "warehouse",
    "SERVER_FAILED": "server",
    "SERVE_MISSING": "command line",
    "SOURCE_FAILED": "warehouse",
    "SPARK_MISSING": "engines",
    "SQL_AMBIGUOUS": "SQL",
    "SQL_COLUMN": "SQL",
    "SQL_DUPLICATE": "SQL",
    "SQL_EXISTS": "SQL",
    "SQL_FUNCTION": "SQL",
    "SQL_NO_VALUE": "SQL",
    "SQL_OTHER_KIND": "SQL",
    "SQL_REPLACED": "SQL",
    "SQL_SYNTAX": "SQL",
    "SQL_TABLE": "SQL",
    "SQL_TARGET": "SQL",
    "SQL_TYPE": "SQL",
    "SQL_UNSUPPORTED": "SQL",
    "SQL_WIDTH": "SQL",
    "STRICT": "warehouse",
    "SUBSCRIPTION_DIFFERS": "server",
    "TOKEN_ENDED": "server",
    "TOKEN_EXISTS": "server",
    "TOKEN_UNREADABLE": "command line",
    "TOO_LARGE": "server",
    "TOO_MANY": "server",
    "TRANSACTION_OVER": "warehouse",
    "UNDERIVED_ROW": "warehouse",
    "UNKNOWN_COMMIT": "warehouse",
    "UNKNOWN_ENGINE": "engines",
    "UNKNOWN_SUBSCRIPTION": "server",
    "UNKNOWN_TOKEN": "server",
    "UNREACHABLE": "client",
    "UNREADABLE": "warehouse",
    "UNWRITABLE_FILE": "warehouse",
    "VERIFY_FAILED": "command line",
}


def told(path: Path) -> str:
    with pytest.raises(ProgramError) as caught:
        parse(path.read_text(encoding="utf-8"), path.name)
    return f"{caught.value}\n"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_bad_program(path: Path) -> None:
    assert told(path) == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_programs_and_texts_belong_together() -> None:
    assert {path.stem for path in PROGRAMS} == {path.stem for path in FOLDER.glob("*.txt")}


def test_every_condition_is_covered_or_reported_elsewhere() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.txt")]
    covered = {code for text in texts for code in re.findall(r"^error\[(\w+)\]", text, re.MULTILINE)}
    assert not covered & ELSEWHERE.keys()
    assert covered | ELSEWHERE.keys() == conditions().keys()


@pytest.mark.parametrize("code", ELSEWHERE)
def test_elsewhere(code: str) -> None:
    places = PARTS[ELSEWHERE[code]]
    mentions = [path for path in SOURCE.rglob("*.py") if f'"{code}"' in path.read_text(encoding="utf-8")]
    assert bool(mentions) == bool(places)
    assert not places or any(path.is_relative_to(SOURCE / place) for path in mentions for place in places)


def test_conditions_are_sorted() -> None:
    assert list(conditions()) == sorted(conditions())


@pytest.mark.parametrize("code", conditions())
def test_messages_have_no_full_stop_and_hints_do(code: str) -> None:
    condition = conditions()[code]
    assert set(condition) <= {"message", "hint", "sql_message", "sql_hint"}
    for words in ("", "sql_"):
        assert not condition.get(f"{words}message", "").endswith(".")
        assert condition.get(f"{words}hint", "…").endswith((".", "…", "}", ")", ".dl"))


def test_conflicting_definition() -> None:
    base = parse(".type City <: symbol .decl town(name: City) .decl way(a: City, b: City)")
    text = ".type City <: number\n.decl town(name: City)\n.decl way(a: City)\nway(1)."
    with pytest.raises(ProgramError) as caught:
        parse(text, "more.dl", base)
    assert (
        str(caught.value)
        == """\
error[CONFLICTING_DEFINITION]: the type "City" is defined differently already
 --> more.dl:1:1
  |
1 | .type City <: number
  | ^^^^^^^^^^^^^^^^^^^^
  = hint: It is defined as `.type City <: symbol`, this says `.type City <: number`. Drop it first, or use another name.

error[CONFLICTING_DEFINITION]: the relation "way" is defined differently already
 --> more.dl:3:7
  |
3 | .decl way(a: City)
  |       ^^^
  = hint: It is defined as `.decl way(a: City, b: City)`, this says `.decl way(a: City)`. Drop it first, or use another name."""
    )


def test_conflicting_key() -> None:
    base = parse(".decl package(name: symbol, kb: number) key(name) .decl user(id: number)")
    text = (
        ".decl package(name: symbol, kb: number) key(name, kb)\n.decl user(id: number) key(id)\npackage(n, 1) :- package(n, 2)."
    )
    with pytest.raises(ProgramError) as caught:
        parse(text, "more.dl", base)
    assert (
        str(caught.value)
        == """\
error[CONFLICTING_DEFINITION]: the relation "package" is defined differently already
 --> more.dl:1:7
  |
1 | .decl package(name: symbol, kb: number) key(name, kb)
  |       ^^^^^^^
  = hint: It is defined as `.decl package(name: symbol, kb: number) key(name)`, this says `.decl package(name: symbol, kb: number) key(name, kb)`. Drop it first, or use another name.

error[CONFLICTING_DEFINITION]: the relation "user" is defined differently already
 --> more.dl:2:7
  |
2 | .decl user(id: number) key(id)
  |       ^^^^
  = hint: It is defined as `.decl user(id: number)`, this says `.decl user(id: number) key(id)`. Drop it first, or use another name."""
    )


def test_rules_for_a_relation_whose_key_was_declared_before() -> None:
    base = parse(".decl package(name: symbol) key(name) .decl part(name: symbol)")
    with pytest.raises(ProgramError) as caught:
        parse('package("a").\npackage(n) :- part(n).', "more.dl", base)
    [problem] = caught.value.problems
    assert (problem.code, problem.span) == ("KEY_OF_VIEW", Span(2, 1, 2, 11))


def test_the_key_of_a_program_made_by_hand_is_checked() -> None:
    columns = (Column("a", NUMBER), Column("b", NUMBER))
    program = Program(relations=(Relation("p", columns, key=("a", "a", "x")), Relation("q", columns, key=("b", "a"))))
    assert [problem.code for problem in check(program)] == ["BAD_KEY", "UNKNOWN_COLUMN"]


def test_the_same_definitions_again_are_no_conflict() -> None:
    text = '.type City <: symbol .type Town = City .decl town(name: Town) key(name) .output town town("a").'
    assert parse(text, base=parse(text)) == parse(text)


if __name__ == "__main__":
    for program in PROGRAMS:
        program.with_suffix(".txt").write_text(told(program), encoding="utf-8")
