"""Commands: each one is a few lines around the façade.

The first line of each help text is what the list of commands shows; it is short enough not to be cut.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import viewkeeper
from viewkeeper.cli.entry import told
from viewkeeper.cli.options import EngineOption, Place, TokenOption, UrlOption, WarehousePath
from viewkeeper.cli.output import (
    Form,
    Results,
    print_advice,
    print_answer,
    print_changes,
    print_commit,
    print_explained,
    print_gap,
    print_level,
    print_log,
    print_relations,
    print_rows,
    print_verified,
    print_why,
)
from viewkeeper.cli.place import opened as opened_at
from viewkeeper.cli.place import server_of
from viewkeeper.cli.progress import Steps, progress_bar
from viewkeeper.cli.serving import serve, token
from viewkeeper.errors import DataError, StoreError, problem


class Commands(TyperGroup):
    """Tells errors before Typer does: it would be silent about Ctrl-C."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        with told():
            return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with told():
            return super().invoke(ctx)


class Served(TyperCommand):
    """A command that works on a warehouse or through a server: ``--url`` stands in the place of the directory."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place, argument in enumerate(args):
            if argument == "--":
                break
            if argument == "--url" and place + 1 < len(args):
                return super().parse_args(ctx, [args[place + 1], *args[:place], *args[place + 2 :]])
            if argument.startswith("--url="):
                return super().parse_args(ctx, [argument.removeprefix("--url="), *args[:place], *args[place + 1 :]])
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="viewkeeper",
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
)

ProgramPath = Annotated[Path, typer.Argument(metavar="PROGRAM", readable=False, help="A program file; - reads standard input.")]


@app.callback(invoke_without_command=True)
def viewkeeper_(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Keeps materialized views exactly right while their data changes.

    A program in Datalog (the Soufflé dialect) declares relations and rules. Run it once over a directory of facts, or
    define it in a warehouse, a directory that keeps base rows and views. Tables and views can be defined, changed and
    asked in SQL as well.

    \b
    One shot:
      viewkeeper run program.dl -F facts -D out

    \b
    A warehouse:
      viewkeeper init shop
      viewkeeper define shop program.dl
      viewkeeper load shop depends depends.csv.gz
      viewkeeper query shop 'based_on("bash", X)'
      viewkeeper why shop 'based_on("bash", "libc6")'
      viewkeeper commit shop changes.jsonl
      viewkeeper sql shop 'SELECT count(*) FROM based_on'
      viewkeeper log shop
      viewkeeper show shop
      viewkeeper verify shop

    Every command has a --help. Exit codes: 0 done, 1 refused (the error says why, nothing was changed), 2 wrong usage,
    130 interrupted (nothing was changed).
    """
    if version:
        typer.echo(f"viewkeeper {viewkeeper.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    program: ProgramPath,
    facts: Annotated[
        Path, typer.Option("-F", "--fact-dir", metavar="DIR", readable=False, help="Where .input files are.")
    ] = Path("."),
    output: Annotated[
        str, typer.Option("-D", "--output-dir", metavar="DIR", help="Where .output files go; - prints them.")
    ] = ".",
    engine: EngineOption = "auto",
) -> None:
    """Evaluate a program once, files in, files out.

    \b
    .input r      reads  DIR/r.facts, tab-separated
    .output r     writes DIR/r.csv, tab-separated, sorted
    .printsize r  prints the number of rows
    The language reference says how to ask for other names and formats.

    Output files appear whole, and all of them or none.

    \b
    Example:
      viewkeeper run closure.dl -F facts -D out
    """
    from viewkeeper.run import run_text

    with progress_bar() as report:
        run_text(_text(program), _name(program), facts, None if output == "-" else Path(output), sys.stdout, engine, report)


@app.command()
def init(warehouse: WarehousePath) -> None:
    """Create an empty warehouse in a new or empty directory.

    \b
    Example:
      viewkeeper init shop
    """
    viewkeeper.Warehouse.create(warehouse)
    typer.echo(f"created {warehouse}")


@app.command(cls=Served)
def define(
    warehouse: Place,
    program: ProgramPath,
    replace: Annotated[
        bool, typer.Option("--replace", help="What the program declares takes the place of what has the same name.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse to compute a view anew that holds rows.")] = False,
    engine: EngineOption = "auto",
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Add relations, rules and facts; compute the views.

    The program is checked together with what is defined already; all problems are reported at once and nothing is
    changed if there is one. What is there already may be repeated; a different definition of the same name is refused
    with the difference, unless --replace is given: then views are redefined, they and what depends on them are computed
    anew, and the log tells which rows came and went. .input and .output directives are kept but not acted upon: load
    files with `viewkeeper load`.

    \b
    Example:
      viewkeeper define shop program.dl
    """
    with opened_at(warehouse, token, engine=engine) as opened, progress_bar() as report:
        commit = opened.define(_text(program), _name(program), report=report, replace=replace, strict=strict)
    print_commit(commit)


@app.command(cls=Served)
def drop(
    warehouse: Place,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="The relations, views or types to remove.")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Remove relations with their rows and rules.

    It is refused while something else depends on them. Types that nothing uses can be removed, too.

    \b
    Example:
      viewkeeper drop shop based_on
    """
    with opened_at(warehouse, token) as opened:
        opened.drop(*names)
    typer.echo(f"dropped {', '.join(dict.fromkeys(names))}")


@app.command()
def load(
    warehouse: WarehousePath,
    what: Annotated[list[str], typer.Argument(metavar="RELATION FILE", help="A relation and a file, or several such pairs.")],
    delimiter: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Between fields; default by the file's ending.", show_default=False)
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Is the first line a header?", show_default=False)
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Load the rows that fit, leave out the others.")] = False,
    rejects: Annotated[
        Path | None, typer.Option(metavar="FILE", readable=False, help="Where to write bad rows; default: in the warehouse.")
    ] = None,
    engine: EngineOption = "auto",
) -> None:
    """Add the rows of files; bring the views up to date.

    \b
    .csv            comma-separated, quoted (RFC 4180), the columns' names first
    .jsonl .ndjson  one array or object a line
    .parquet        a file or a directory
    any other       tab-separated, no quoting, no header
    All but Parquet may be gzipped (.gz).

    All files are one commit: all their rows are loaded or, if one does not fit, none. Bad rows are listed with line,
    column, value and reason, the first 20 on the terminal, all of them in a file. Rows that are there already change
    nothing.

    \b
    Example:
      viewkeeper load shop depends depends.csv.gz package package.csv.gz
    """
    sources, between = _pairs(what), None if delimiter is None else delimiter.replace("\\t", "\t")
    with viewkeeper.open(warehouse, engine=engine) as opened, progress_bar() as report:
        commit = opened.load(sources, delimiter=between, header=header, skip_bad=skip_bad, rejects=rejects, report=report)
    print_commit(commit)


@app.command(cls=Served)
def commit(
    warehouse: Place,
    changes: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="Operations, one JSON object a line; - reads standard input.")
    ],
    json: Annotated[bool, typer.Option("--json", help="Print one line for each row that changed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would change, and change nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse to compute a view anew.")] = False,
    engine: EngineOption = "auto",
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Change rows in one transaction; tell exactly what changed.

    \b
    Each line is an operation, in the order in which they are made:
      {"relation": "depends", "op": "insert", "row": ["bash", "libfoo"]}
      {"relation": "depends", "op": "delete", "row": ["bash", "libc5"]}
      {"relation": "package", "op": "upsert", "row": ["bash", "5.2", 7164]}

    An upsert takes the place of the row with the same key. The file may be gzipped (.gz). All operations are made or,
    if one does not fit, none. Inserting what is there and deleting what is not change nothing.

    \b
    With --json the changes of base relations and views are printed, in order:
      {"commit": 7, "relation": "based_on", "op": "insert", "row": ["bash", "x"]}

    \b
    Examples:
      viewkeeper commit shop changes.jsonl
      viewkeeper commit shop changes.jsonl --dry-run --json
      producer | viewkeeper commit shop -
    """
    with opened_at(warehouse, token, engine=engine) as opened:
        done = opened.commit_file(sys.stdin.buffer if str(changes) == "-" else changes, strict=strict, dry_run=dry_run)
    print_changes(done, dry_run, json)


@app.command(cls=Served)
def log(
    warehouse: Place,
    since: Annotated[int, typer.Option(metavar="COMMIT", min=0, help="Only what came after this commit.")] = 0,
    view: Annotated[str | None, typer.Option(metavar="VIEW", help="Only what changed this relation or view.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one line for each row that changed.")] = False,
    trim: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=0, help="Forget all but the last commits.", show_default=False)
    ] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """List commits and what they changed.

    For each one its time and kind, how many rows came to each relation and went from it, and how each view was brought
    up to date: strategy, engine and time.

    --trim forgets what older commits did. Rows and views stay as they are, but what they were before can no longer be
    asked for.

    \b
    Examples:
      viewkeeper log shop --since 5
      viewkeeper log shop --view based_on --json
      viewkeeper log shop --trim 1000
    """
    if trim is not None:  # a server shortens its log by itself
        with viewkeeper.open(warehouse) as opened:
            typer.echo(f"the log begins with commit {opened.trim_log(trim)}")
        return
    with opened_at(warehouse, token) as opened:
        commits = opened.log(since, view)
        if view is None:
            print_gap(since, commits)
        if json:
            for one in commits:
                changes = opened.changes(one.number)
                print_rows(one.number, {name: c for name, c in changes.items() if view in (None, name)})
    if not json:
        print_log(commits)


@app.command()
def explain(
    warehouse: WarehousePath,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    rules: Annotated[bool, typer.Option("--rules", help="Show the rules that changes are computed with.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Show the statements of the embedded engine.")] = False,
) -> None:
    """Tell how a view is kept.

    The strategy and why, the relations that are kept for its sake, and the indexes; the space it takes, and how long changes
    take with its rows stored and without. A view outside recursion is kept by counting derivations, an aggregate by totals
    for each group, a recursive view by maintenance rules.

    \b
    Examples:
      viewkeeper explain shop based_on
      viewkeeper explain shop based_on --rules
    """
    with viewkeeper.open(warehouse) as opened:
        explained = opened.explain(view)
    print_explained(explained, rules, sql)


@app.command()
def advise(
    warehouse: WarehousePath,
    commits: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="How many of the last transactions are played again.")
    ] = 50,
    apply: Annotated[bool, typer.Option("--apply", help="Store views, or stop storing them, as advised.")] = False,
) -> None:
    """Tell which views to store and which to leave external.

    The last transactions are played again on copies of the warehouse, once with all views stored and once with none. A view is
    worth storing if that makes changes faster; if not, it only takes space.

    \b
    Example:
      viewkeeper advise shop --commits 100
    """
    with viewkeeper.open(warehouse) as opened:
        played, found = opened.advise(commits)
        print_advice(played, found)
        changed = opened.adapt(advice=found) if apply else {}
    for external, how in ((False, "stored"), (True, "external")):
        if views := [view for view, is_external in changed.items() if is_external is external]:
            typer.echo(f"{how} from now on: {', '.join(views)}")


@app.command(cls=Served)
def level(
    warehouse: Place,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.")],
    level: Annotated[
        str | None, typer.Argument(metavar="LEVEL", help="reject, warn, note or none.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what is violated, one JSON object a line.")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Say how the rows of a view are taken.

    Each row of an integrity view is a violation. reject refuses transactions that add rows to it; warn and note commit
    them and tell the rows. What is violated already stays, and blocks nothing; it is listed. none makes it a view like
    any other. Without a level the one it has is told.

    \b
    Examples:
      viewkeeper level shop broken reject
      viewkeeper level shop broken
    """
    if level is not None and level not in ("reject", "warn", "note", "none"):
        raise typer.BadParameter(f"{level} is none of reject, warn, note and none", param_hint="LEVEL")
    with opened_at(warehouse, token) as opened:
        if level is None:
            violated, now = opened.violated(view), opened.levels().get(view)
        else:
            now = None if level == "none" else level
            violated = opened.set_level(view, now).violated
    print_level(view, now, violated, json)


@app.command(cls=Served)
def query(
    warehouse: Place,
    body: Annotated[str, typer.Argument(metavar="QUERY", help="The body of a rule.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", readable=False, help="Write an Arrow file (IPC).")] = None,
    as_of: Annotated[
        int | None, typer.Option("--as-of", metavar="COMMIT", help="Ask what was there after this commit.", show_default=False)
    ] = None,
    derived: Annotated[bool, typer.Option("--derived", help="Tell how many rows were derived on the way.")] = False,
    engine: EngineOption = "auto",
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Ask a warehouse.

    The columns of the answer are the query's variables, its rows are sorted. A query without variables is answered by
    yes or no.

    \b
    Examples:
      viewkeeper query shop 'based_on("bash", X)'
      viewkeeper query shop 'package(p, _, s, kb), kb > 1000, s != "games"' --csv
      viewkeeper query shop 'n = count : { depends(_, "libc6") }'
      viewkeeper query shop 'based_on("bash", X)' --as-of 3
      viewkeeper query shop 'based_on("bash", X)' --derived
    """
    if json + csv + (arrow is not None) > 1:
        raise typer.BadParameter("--json, --csv and --arrow exclude each other")
    with opened_at(warehouse, token, engine=engine) as opened, progress_bar() as report:
        steps = Steps(report)
        answer = opened.query(body, report=steps, as_of=as_of)
    print_answer(answer, Form.JSON if json else Form.CSV if csv else Form.TABLE, arrow)
    if derived:
        steps.print()


@app.command()
def sql(
    warehouse: WarehousePath,
    text: Annotated[
        str | None, typer.Argument(metavar="SQL", help="Statements; - reads standard input.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", readable=False, help="A file of statements.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would change, and change nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse to compute a view anew.")] = False,
    engine: EngineOption = "auto",
) -> None:
    """Execute SQL: tables, views, rows, questions.

    Statements are written in Spark's dialect and separated by semicolons. The whole text is read before anything is
    done. INSERT, UPDATE and DELETE are one transaction, up to the next CREATE, ALTER or DROP, which is a commit of its
    own: if a statement fails, nothing of its transaction is done, and what was committed before it stays.

    \b
    Examples:
      viewkeeper sql shop 'CREATE TABLE item (id BIGINT PRIMARY KEY, name STRING)'
      viewkeeper sql shop "INSERT INTO item VALUES (1, 'ink'), (2, 'pen')"
      viewkeeper sql shop 'SELECT * FROM item ORDER BY name' --json
      viewkeeper sql shop -f views.sql
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give statements, or a file with -f", param_hint="SQL")
    path = Path("-") if text == "-" else file
    script, name = (str(text), "<sql>") if path is None else (_text(path), _name(path))
    with viewkeeper.open(warehouse, engine=engine) as opened:
        opened.sql(script, name=name, strict=strict, dry_run=dry_run, each=Results(dry_run, json).print)


@app.command()
def shell(
    warehouse: WarehousePath,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse to compute a view anew.")] = False,
    engine: EngineOption = "auto",
) -> None:
    """Type SQL at a prompt.

    A statement ends with a semicolon and may take several lines. Tab completes keywords, tables and columns; the arrow
    keys bring back what was typed before. A line that begins with ? asks in Datalog. \\h tells the rest, \\q or Ctrl-D
    leaves. Statements can be piped in as well.

    \b
    Example:
      viewkeeper shell shop
    """
    from viewkeeper.cli.shell import run_shell

    with viewkeeper.open(warehouse, engine=engine) as opened:
        failed = run_shell(opened, strict)
    if failed:
        raise typer.Exit(1)


@app.command(cls=Served)
def why(
    warehouse: Place,
    row: Annotated[str, typer.Argument(metavar="ROW", help="A relation with constants.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Explain why a row is there, or why not.

    If the row is there, one derivation is shown as a tree: the rule that gives the row, and below it the rows,
    conditions and aggregates it takes, down to base rows and facts. If not, every rule that could give it is shown
    with the first thing that is missing.

    \b
    Example:
      viewkeeper why shop 'based_on("bash", "libc6")'
    """
    with opened_at(warehouse, token) as opened:
        print_why(opened.why(row), json)


@app.command(cls=Served)
def show(
    warehouse: Place,
    relation: Annotated[str | None, typer.Argument(metavar="RELATION", help="Only this one, with its rules.")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """List relations, or show one with its rules.

    For each one its kind (base or view), the number of rows, the columns, and where the rows are kept.

    \b
    Examples:
      viewkeeper show shop
      viewkeeper show shop based_on
    """
    with opened_at(warehouse, token) as opened:
        print_relations(opened.show(relation), detailed=relation is not None)


@app.command(cls=Served)
def watch(
    warehouse: Place,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view to follow.")],
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN=VALUE", help="Only rows with this value.", show_default=False)
    ] = None,
    snapshot: Annotated[bool, typer.Option("--snapshot", help="Print the rows that are there first.")] = False,
    where: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Only rows that fit, such as kb > 1000.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one line for each row that changed.")] = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> None:
    """Print the changes of a view as they come.

    A server must hold the warehouse. Each commit that changes the view is printed once, with how many rows came and
    went, also if the connection breaks or the server is restarted meanwhile. Ctrl-C ends it.

    \b
    Examples:
      viewkeeper watch shop based_on
      viewkeeper watch http://127.0.0.1:8765 based_on package=bash --snapshot
    """
    from viewkeeper.cli.watch import watch_view

    client = server_of(warehouse, token)
    if client is None:
        raise StoreError(problem("NOT_SERVED", path=warehouse))
    with client:
        watch_view(client, view, _bound(columns or []), snapshot, json, where)


@app.command()
def checkpoint(
    warehouse: WarehousePath,
    relation: Annotated[str | None, typer.Argument(metavar="RELATION", help="Only this one.")] = None,
) -> None:
    """Write snapshots of relations with Spark.

    Spark reads a snapshot and what the log tells since. The more there is to read of the log, or without a snapshot from
    the catalog, the longer it takes. This is no commit: nothing changes but where rows are kept.

    \b
    Examples:
      viewkeeper checkpoint shop
      viewkeeper checkpoint shop depends
    """
    with viewkeeper.open(warehouse) as opened:
        print_relations(opened.checkpoint(relation), detailed=False)


@app.command()
def verify(
    warehouse: WarehousePath,
    view: Annotated[str | None, typer.Argument(metavar="VIEW", help="Only this view.")] = None,
    engine: EngineOption = "auto",
) -> None:
    """Recompute views from the base rows and compare.

    Tells for each view whether it is what a recomputation gives. If one differs, the exit code is 1.

    \b
    Example:
      viewkeeper verify shop --engine spark
    """
    with viewkeeper.open(warehouse, engine=engine) as opened, progress_bar() as report:
        verified = opened.verify(view, report=report)
    print_verified(verified)
    wrong = [v.view for v in verified if not v.right]
    if wrong:
        raise StoreError(problem("VERIFY_FAILED", count=len(wrong), views=", ".join(wrong)))


app.command()(serve)
app.add_typer(token)


def _text(path: Path) -> str:
    """The program, byte for byte."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise DataError(problem("BAD_FILE", file=path, why=error.strerror or str(error), hint="Check the name.")) from None
    except UnicodeDecodeError:
        raise DataError(problem("BAD_FILE", file=path, why="it is not UTF-8 text", hint="Convert it to UTF-8.")) from None


def _name(path: Path) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def _bound(columns: list[str]) -> dict[str, str]:
    """Columns with their values."""
    found = dict(text.partition("=")[::2] for text in columns)
    if not all("=" in text for text in columns):
        raise typer.BadParameter("give COLUMN=VALUE", param_hint="COLUMN=VALUE")
    return found


def _pairs(what: list[str]) -> dict[str, Path]:
    """The file for each relation."""
    hint = "RELATION FILE"
    if len(what) % 2:
        raise typer.BadParameter(f"{what[-1]} has no file; give pairs: RELATION FILE", param_hint=hint)
    found: dict[str, Path] = {}
    for name, path in zip(what[::2], map(Path, what[1::2]), strict=True):
        if name in found:
            raise typer.BadParameter(f"{name} is named twice; load its files one after the other", param_hint=hint)
        if not path.exists():
            raise DataError(problem("BAD_FILE", file=path, why="there is no such file", hint="Check the name."))
        found[name] = path
    return found
