"""Commands: each one is a few lines around the façade."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

import viewkeeper
from viewkeeper.cli.output import OutputFormat, print_answer, print_commit, print_relations, print_verified
from viewkeeper.cli.progress import progress_bar
from viewkeeper.errors import DataError, EngineError, ViewkeeperError, problem

app = typer.Typer(
    name="viewkeeper",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="""Keeps materialized views exactly right while their data changes.

    A program in Datalog (the Soufflé dialect) declares relations and rules. Run it once over a directory of facts, or define it
    in a warehouse, a directory that keeps base rows and views.

    \b
    One shot:
      viewkeeper run program.dl -F facts -D out
    \b
    A warehouse:
      viewkeeper init shop
      viewkeeper define shop program.dl
      viewkeeper load shop depends depends.csv.gz
      viewkeeper query shop 'based_on("bash", X)'
      viewkeeper show shop
      viewkeeper verify shop

    Every command has a --help. Exit codes: 0 done, 1 refused (the error says why, nothing was changed),
    2 wrong usage, 130 interrupted.
    """,
)

WarehousePath = Annotated[Path, typer.Argument(metavar="WAREHOUSE", help="The warehouse's directory.")]
EngineOption = Annotated[
    str,
    typer.Option("--engine", "-e", metavar="ENGINE", help="embedded (SQLite, in process), spark, or auto: by the size of the work."),
]


@app.command()
def run(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file; - reads standard input.")],
    facts: Annotated[Path, typer.Option("-F", "--fact-dir", metavar="DIR", help="Where .input files are.")] = Path("."),
    output: Annotated[str, typer.Option("-D", "--output-dir", metavar="DIR", help="Where .output files go; - prints them.")] = ".",
    engine: EngineOption = "auto",
) -> None:
    """Evaluate a program once: read its inputs, write its outputs.

    \b
    .input r     reads  DIR/r.facts   (tab-separated; see the language reference for other formats)
    .output r    writes DIR/r.csv     (tab-separated, sorted)
    .printsize r prints the number of rows

    Output files appear whole or not at all.

    \b
    Example:  viewkeeper run closure.dl -F facts -D out
    """
    from viewkeeper.engines.choice import choose_engine
    from viewkeeper.language import parse
    from viewkeeper.run import input_bytes
    from viewkeeper.run import run as run_program

    parsed = parse(_text(program), _name(program))
    choice = choose_engine(engine, rows=0, file_bytes=input_bytes(parsed, facts))
    runner = _engine(choice.engine)
    try:
        with progress_bar() as report:
            run_program(parsed, facts, None if output == "-" else Path(output), runner, sys.stdout, report)
    finally:
        runner.close()


@app.command()
def init(warehouse: WarehousePath) -> None:
    """Create an empty warehouse in a new or empty directory.

    \b
    Example:  viewkeeper init shop
    """
    viewkeeper.Warehouse.create(warehouse)
    typer.echo(f"created {warehouse}")


@app.command()
def define(
    warehouse: WarehousePath,
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file; - reads standard input.")],
    engine: EngineOption = "auto",
) -> None:
    """Add relations, rules and facts to a warehouse, and compute the views.

    The program is checked together with what is defined already; all problems are reported at once and nothing is changed
    if there is one. Repeating a definition changes nothing; a different definition of the same name is refused with the difference.
    .input and .output directives are kept but not acted upon: load files with `viewkeeper load`.

    \b
    Example:  viewkeeper define shop program.dl
    """
    with viewkeeper.open(warehouse) as opened, progress_bar() as report:
        commit = opened.define(_text(program), _name(program), engine=engine, report=report)
    print_commit(commit)


@app.command()
def drop(
    warehouse: WarehousePath,
    relation: Annotated[str, typer.Argument(metavar="RELATION", help="The relation or view to remove.")],
) -> None:
    """Remove a relation with its rows and rules, unless something depends on it.

    \b
    Example:  viewkeeper drop shop based_on
    """
    with viewkeeper.open(warehouse) as opened:
        opened.drop(relation)
    typer.echo(f"dropped {relation}")


@app.command()
def load(
    warehouse: WarehousePath,
    what: Annotated[list[str], typer.Argument(metavar="RELATION FILE…", help="A relation and a file, or several such pairs.")],
    delimiter: Annotated[str | None, typer.Option(help="Between fields; default by the file's ending.")] = None,
    header: Annotated[bool | None, typer.Option("--header/--no-header", help="Is the first line a header?")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Load the rows that fit, leave out the others.")] = False,
    rejects: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write bad rows; default: in the warehouse.")] = None,
    engine: EngineOption = "auto",
) -> None:
    """Add the rows of files to base relations, as one commit, and bring the views up to date.

    \b
    .csv              comma-separated, quoted as in RFC 4180; a first line that names the columns is a header
    .facts .tsv …     tab-separated, no quoting, no header
    .jsonl .ndjson    one array or object a line
    .parquet          a file or a directory
    Each may be gzipped (.gz), Parquet aside.

    All rows are loaded or, if one does not fit, none. Bad rows are listed with line, column, value and reason.
    Rows that are there already change nothing.

    \b
    Example:  viewkeeper load shop depends depends.csv.gz package package.csv.gz
    """
    if len(what) % 2:
        raise typer.BadParameter(f"{what[-1]} has no file; give pairs: RELATION FILE", param_hint="RELATION FILE…")
    pairs = list(zip(what[::2], what[1::2], strict=True))
    for name, path in pairs:
        if not Path(path).exists():
            raise DataError(problem("BAD_FILE", file=path, why="there is no such file", hint="Check the name."))
        if [n for n, _ in pairs].count(name) > 1:
            raise typer.BadParameter(f"{name} is named twice; load its files one after the other", param_hint="RELATION FILE…")
    with viewkeeper.open(warehouse) as opened, progress_bar() as report:
        commit = opened.load(
            dict(pairs), delimiter=_unescaped(delimiter), header=header, skip_bad=skip_bad, rejects=rejects, engine=engine,
            report=report,
        )  # fmt: skip
    print_commit(commit)


@app.command()
def query(
    warehouse: WarehousePath,
    body: Annotated[str, typer.Argument(metavar="QUERY", help="A rule's body: 'based_on(\"bash\", X), !broken(X)'.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV with a header.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an Arrow file (IPC).")] = None,
    engine: EngineOption = "auto",
) -> None:
    """Ask a warehouse. The columns of the answer are the query's variables, its rows are sorted.

    A query without variables is answered by yes or no.

    \b
    Examples:  viewkeeper query shop 'based_on("bash", X)'
               viewkeeper query shop 'package(p, _, s, kb), kb > 100000, s != "games"' --csv
               viewkeeper query shop 'n = count : { depends(_, "libc6") }'
    """
    form = OutputFormat.JSON if json else OutputFormat.CSV if csv else OutputFormat.TABLE
    with viewkeeper.open(warehouse) as opened, progress_bar() as report:
        answer = opened.query(body, engine=engine, report=report)
    print_answer(answer, form, arrow)


@app.command()
def show(
    warehouse: WarehousePath,
    relation: Annotated[str | None, typer.Argument(metavar="[RELATION]", help="Only this one, with its rules.")] = None,
) -> None:
    """List relations: columns, rows, kind (base or view), and where they are kept.

    \b
    Example:  viewkeeper show shop based_on
    """
    with viewkeeper.open(warehouse) as opened:
        print_relations(opened.show(relation), detailed=relation is not None)


@app.command()
def verify(
    warehouse: WarehousePath,
    view: Annotated[str | None, typer.Argument(metavar="[VIEW]", help="Only this view.")] = None,
    engine: EngineOption = "auto",
) -> None:
    """Recompute views from the base rows and compare them with what is stored. Exit code 1 if one differs.

    \b
    Example:  viewkeeper verify shop --engine spark
    """
    with viewkeeper.open(warehouse) as opened, progress_bar() as report:
        verified = opened.verify(view, engine=engine, report=report)
    print_verified(verified)
    wrong = [v.view for v in verified if not v.right]
    if wrong:
        raise viewkeeper.StoreError(problem("VERIFY_FAILED", count=len(wrong), views=", ".join(wrong)))


def main() -> None:
    """The entry point: every error ends here, none as a traceback."""
    with _errors():
        app(standalone_mode=True)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ViewkeeperError as error:
        _stop(error.render(), 1)
    except KeyboardInterrupt:
        _stop(problem("INTERRUPTED").message, 130)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain about it once more while flushing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except Exception as error:
        if os.environ.get("VIEWKEEPER_DEBUG"):
            raise
        _stop(problem("INTERNAL", kind=type(error).__name__, why=str(error)).render(), 70)


def _stop(text: str, code: int) -> None:
    sys.stdout.flush()
    typer.echo(text, err=True)
    raise SystemExit(code) from None


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(problem("BAD_FILE", file=path, why=error.strerror or str(error), hint="Check the name.")) from None
    except UnicodeDecodeError:
        raise DataError(problem("BAD_FILE", file=path, why="it is not UTF-8 text", hint="Convert it to UTF-8.")) from None


def _name(path: Path) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def _unescaped(text: str | None) -> str | None:
    return None if text is None else text.replace("\\t", "\t")


def _engine(name: str):  # type: ignore[no-untyped-def]
    if name == "spark":
        from viewkeeper.engines.session import our_session
        from viewkeeper.engines.spark import SparkEngine

        return SparkEngine(our_session(None))
    from viewkeeper.engines.embedded import EmbeddedEngine

    if name != "embedded":
        raise EngineError(problem("UNKNOWN_ENGINE", engine=name, known="embedded, spark, auto"))
    return EmbeddedEngine.private()
