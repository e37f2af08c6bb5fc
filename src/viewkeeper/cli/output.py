"""What commands print."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from viewkeeper.answer import Answer
from viewkeeper.errors import DataError, problem
from viewkeeper.program.values import format_timestamp, store_timestamp
from viewkeeper.store.rejects import SHOWN
from viewkeeper.warehouse import Commit, Shown, Verified


class OutputFormat(Enum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def print_answer(answer: Answer, form: OutputFormat, arrow: Path | None) -> None:
    if arrow is not None:
        _write_arrow(answer.to_arrow(), arrow)
        typer.echo(f"{_count(len(answer), 'row')} written to {arrow}", err=True)
    elif form is OutputFormat.JSON:
        for row in answer:
            sys.stdout.write(json.dumps(dict(zip(answer.columns, row, strict=True)), default=text_of, ensure_ascii=False) + "\n")
    elif form is OutputFormat.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([text_of(value) for value in row] for row in answer)
    elif not answer.columns:
        typer.echo("yes" if answer else "no")
    else:
        numeric = [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in answer.table.schema.types]
        print_table(answer.columns, ([text_of(v) for v in row] for row in answer), numeric)
        typer.echo(f"({_count(len(answer), 'row')})")


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> None:
    """Columns side by side, as wide as they need to be."""
    shown = [[cell.replace("\n", "\\n").replace("\t", "\\t") for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in shown)]) for i, name in enumerate(header)]

    def line(cells: Sequence[str]) -> str:
        padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
        return "  ".join(padded).rstrip() + "\n"

    sys.stdout.write(line(header))
    sys.stdout.write("  ".join("-" * width for width in widths) + "\n")
    sys.stdout.writelines(line(row) for row in shown)


def print_commit(commit: Commit) -> None:
    """What changed, and what it took."""
    if commit.number is None:
        typer.echo(f"nothing changed: {commit.reason}")
    else:
        for name, rows in commit.rows.items():
            new = commit.inserted.get(name)
            typer.echo(f"  {name}: {_count(rows, 'row')}" + (f", {new:,} new" if new is not None else ""))
        typer.echo(f"commit {commit.number} in {commit.seconds:.2f} s on {commit.engine} ({commit.reason})")
    if commit.rejects:
        lines = len({reject.line for reject in commit.rejects})
        typer.echo(f"{_count(lines, 'row')} left out; all of them are in {commit.rejects_file}", err=True)
        for reject in commit.rejects[:SHOWN]:
            typer.echo(f"  {reject}", err=True)


def print_relations(shown: Sequence[Shown], detailed: bool) -> None:
    if not shown:
        typer.echo("no relations are defined yet")
        return
    rows = [
        [s.relation.name, s.kind, f"{s.rows:,}", ", ".join(f"{c.name}: {c.type}" for c in s.relation.columns), s.place]
        for s in shown
    ]
    print_table(["relation", "kind", "rows", "columns", "kept in"], rows, [False, False, True, False, False])
    if detailed:
        typer.echo("\n" + "\n\n".join(s.declaration for s in shown))


def print_verified(verified: Sequence[Verified]) -> None:
    if not verified:
        typer.echo("no views to verify")
    for v in verified:
        if v.right:
            typer.echo(f"  {v.view}: {_count(v.rows, 'row')}, as recomputed")
            continue
        typer.echo(f"  {v.view}: differs: {len(v.missing):,} missing, {len(v.surplus):,} too many")
        for sign, table in (("+", v.missing), ("-", v.surplus)):
            for row in table.slice(0, 5).to_pylist():
                typer.echo(f"    {sign} {tuple(row.values())}")


def text_of(value: Any) -> str:
    """A value as in files."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return format_timestamp(store_timestamp(value))
        case bytes():
            return value.hex()
        case decimal.Decimal():
            return format(value, "f")
        case float():
            return repr(value)
    return str(value)


def _write_arrow(table: pa.Table, path: Path) -> None:
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError as error:
        why = error.strerror or str(error)
        raise DataError(problem("BAD_FILE", file=path, why=why, hint="Choose another place.")) from None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
