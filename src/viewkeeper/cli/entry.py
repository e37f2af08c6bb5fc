"""Where every command starts and every error ends, none as a traceback."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from viewkeeper.errors import InterruptedLate, ViewkeeperError, problem


def main() -> None:
    """The entry point."""
    if not os.environ.get("VIEWKEEPER_DEBUG") and not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())  # what libraries log about Ctrl-C is not for users
    try:
        with told():
            for stream in (sys.stdout, sys.stderr):
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
            # Imported here, so that Ctrl-C meanwhile is told like at any other time.
            from viewkeeper.cli.app import app

            app(prog_name="viewkeeper")
    except Exception as error:
        if os.environ.get("VIEWKEEPER_DEBUG"):
            raise
        _stop(problem("INTERNAL", kind=type(error).__name__, why=str(error)).render(), 70)


@contextmanager
def told() -> Iterator[None]:
    """Ends the process with what there is to say about an error of ours, of the user's or of standard output."""
    try:
        yield
        sys.stdout.flush()
    except ViewkeeperError as error:
        _stop(error.render(), 1)
    except InterruptedLate:
        _stop(problem("INTERRUPTED_LATE").message, 130)
    except KeyboardInterrupt:
        _stop(problem("INTERRUPTED").message, 130)
    except BrokenPipeError:  # whoever read our output has seen enough
        _forget_output()
        raise SystemExit(141) from None
    except OSError as error:
        _forget_output()
        why = error.strerror or str(error)
        hint = "What was asked for may be done all the same."
        _stop(problem("UNWRITABLE_FILE", file=error.filename or "standard output", why=why, hint=hint).render(), 1)


def _stop(text: str, code: int) -> NoReturn:
    with suppress(OSError):
        sys.stdout.flush()
    print(text, file=sys.stderr)
    raise SystemExit(code) from None


def _forget_output() -> None:
    """Python would complain once more when it flushes what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
