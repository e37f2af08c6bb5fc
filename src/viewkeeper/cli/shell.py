"""A prompt for SQL. What is not a terminal is read like a file, statement by statement."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from viewkeeper.cli.output import Form, Results, print_answer
from viewkeeper.errors import InterruptedLate, ViewkeeperError, problem

if TYPE_CHECKING:
    from viewkeeper.warehouse import Warehouse

HELP = """\
Statements of SQL end with a semicolon and may take several lines.
  \\d        tables and views
  \\d NAME   the columns of one
  ?GOAL     asks in Datalog: ?item(_, name)
  \\h        this help
  \\q        leaves, as Ctrl-D does; Ctrl-C clears the line
"""
KEYWORDS = """
    ADD ALL ALTER AND AS ASC BETWEEN BY CASE CAST COLUMN COUNT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT
    EXISTS EXPLAIN FROM FULL GROUP HAVING IF IN INNER INSERT INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT MATERIALIZED MAX MIN
    NOT NULL OFFSET ON OR ORDER OUTER PRIMARY REFRESH REPLACE RIGHT SELECT SET SHOW SUM TABLE TABLES THEN TRUNCATE UNION
    UPDATE USING VALUES VIEW VIEWS WHEN WHERE WITH BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE INT STRING TIMESTAMP
"""


def run_shell(warehouse: Warehouse, strict: bool = False) -> bool:
    """Reads and executes until the end; returns whether a statement failed that was not typed at a prompt."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        for text in _typed(warehouse):
            _execute(warehouse, text, strict)
        return False
    done = [_execute(warehouse, text, strict) for text in _piped()]
    return not all(done)


def is_finished(text: str) -> bool:
    """Is this all, or does a statement go on in the next line?

    >>> [is_finished(text) for text in ("", "SELECT", "SELECT ';", "SELECT ';';", "SELECT 1; -- one", "\\\\d", "?a(x)")]
    [True, False, False, True, True, True, True]
    """
    stripped = text.strip()
    if not stripped or stripped[0] in "\\?":
        return True
    return _outside(stripped).rstrip().endswith(";")


def _outside(text: str) -> str:
    """The text without comments, and without what is quoted; an end that is missing leaves a quotation mark."""
    found: list[str] = []
    place = 0
    while place < len(text):
        letter, two = text[place], text[place : place + 2]
        if two == "--":
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        elif two == "/*":
            end = text.find("*/", place + 2)
            if end < 0:
                return "".join(found) + "/*"
            place = end + 2
        elif letter in "'\"`":
            place = _behind(text, place)
            if not place:
                return "".join(found) + letter
        else:
            found.append(letter)
            place += 1
    return "".join(found)


def _behind(text: str, start: int) -> int:
    """The place behind what is quoted from a place on; 0 if it does not end."""
    place = start + 1
    while place < len(text):
        if text[place] == "\\" and text[start] != "`":
            place += 1
        elif text[place] == text[start]:
            return place + 1
        place += 1
    return 0


# ---- reading


def _piped() -> Iterator[str]:
    text = ""
    for line in sys.stdin:
        text += line
        if is_finished(text):
            if text.strip() == "\\q":
                return
            yield text
            text = ""
    if text.strip():
        yield text


def _typed(warehouse: Warehouse) -> Iterator[str]:
    session = _session(warehouse)
    typer.echo(f"{warehouse.path}: SQL ends with a semicolon, \\h helps, \\q leaves")
    while True:
        try:
            text = session.prompt(f"{warehouse.path.name}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip() == "\\q":
            return
        yield text


def _session(warehouse: Warehouse) -> Any:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Names(Completer):
        """Keywords, tables and columns that begin like the word before the cursor."""

        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            word = document.get_word_before_cursor()
            for name in completions(warehouse, word):
                yield Completion(name, start_position=-len(word))

    file = history_file()
    return PromptSession(
        history=InMemoryHistory() if file is None else FileHistory(str(file)),
        completer=Names(),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_finished(get_app().current_buffer.text)),
        prompt_continuation=lambda width, number, wrapped: "." * (width - 2) + "> ",
    )


def completions(warehouse: Warehouse, word: str) -> list[str]:
    """What a word may become: names as they are spelled, keywords in the letters that were typed."""
    if not word.strip():
        return []
    program = warehouse.program
    names = {r.name for r in program.relations} | {column.name for r in program.relations for column in r.columns}
    keywords = [key.lower() if word.islower() else key for key in KEYWORDS.split()]
    return sorted(name for name in {*names, *keywords} if name.lower().startswith(word.lower()))


def history_file() -> Path | None:
    """Where what was typed is kept; None if there is no place for it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    directory = Path(state) / "viewkeeper"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "history"
        file.touch(mode=0o600)
    except OSError:
        return None
    return file


# ---- executing


def _execute(warehouse: Warehouse, text: str, strict: bool) -> bool:
    """Does what was typed; errors are told, and end nothing."""
    try:
        _do(warehouse, text.strip(), strict)
    except ViewkeeperError as error:
        return _told(error.render())
    except InterruptedLate:
        return _told(problem("INTERRUPTED_LATE").message)
    except KeyboardInterrupt:
        return _told(problem("INTERRUPTED").message)
    return True


def _told(text: str) -> bool:
    sys.stdout.flush()
    typer.echo(text, err=True)
    return False


def _do(warehouse: Warehouse, text: str, strict: bool) -> None:
    if not text:
        return
    if text.startswith("?"):
        print_answer(warehouse.query(text[1:].strip().rstrip(";")), Form.TABLE, None)
    elif text.startswith("\\"):
        _do_command(warehouse, text.rstrip(";").split())
    else:
        warehouse.sql(text, strict=strict, each=Results().print)


def _do_command(warehouse: Warehouse, words: list[str]) -> None:
    match words:
        case ["\\d"]:
            warehouse.sql("SHOW TABLES; SHOW VIEWS", each=Results().print)
        case ["\\d", name]:
            warehouse.sql(f"DESCRIBE {name}", each=Results().print)
        case _:
            typer.echo(HELP, nl=False)
