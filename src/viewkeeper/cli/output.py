"""What commands print."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import typer

from viewkeeper.answer import Answer, text_of
from viewkeeper.changed import Changed
from viewkeeper.errors import DataError, problem
from viewkeeper.outcomes import Commit, Logged, Result, Shown, Verified

if TYPE_CHECKING:
    from viewkeeper.advice import Advice
    from viewkeeper.explain import Cost, Explained
    from viewkeeper.why import Why


_SHOWN = 20
# Of level "reject" there are violations only in what is defined.
_SAID = {"reject": "violated", "warn": "warning", "note": "note"}
_MODIFYING = ("insert", "update", "delete", "truncate")


class Form(Enum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def print_answer(answer: Answer, form: Form, arrow: Path | None) -> None:
    rows = zip(*(column.to_pylist() for column in answer.table.columns), strict=True)
    names = answer.table.column_names
    if arrow is not None:
        _write_arrow(answer, arrow)
        typer.echo(f"{_count(len(answer), 'row')} written to {arrow}", err=True)
    elif form is Form.JSON:
        for row in rows:
            sys.stdout.write(json.dumps(dict(zip(names, row, strict=True)), default=text_of, ensure_ascii=False) + "\n")
    elif form is Form.CSV:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(map(text_of, row) for row in rows)
    elif not answer.columns:
        typer.echo("yes" if answer else "no")
    else:
        cells = ([None if value is None else text_of(value) for value in row] for row in rows)
        print_table(names, cells, _numeric(answer))
        typer.echo(f"({_count(len(answer), 'row')})")


def _numeric(answer: Answer) -> list[bool]:
    import pyarrow.types as types

    return [types.is_integer(t) or types.is_floating(t) or types.is_decimal(t) for t in answer.table.schema.types]


def print_table(header: Sequence[str], rows: Iterable[Sequence[str | None]], right: Sequence[bool]) -> None:
    """Columns side by side, as wide as they need to be. None is NULL, which is dim where there are colours: the text NULL is not."""
    shown = [[None if cell is None else printable(cell) for cell in row] for row in rows]
    widths = [max([_width(name), *(_width(_of_null(row[i])) for row in shown)]) for i, name in enumerate(header)]
    null = typer.style("NULL", dim=True) if _has_colours() else "NULL"

    def line(cells: Sequence[str | None]) -> str:
        gaps = [" " * (width - _width(_of_null(cell))) for cell, width in zip(cells, widths, strict=True)]
        texts = [null if cell is None else cell for cell in cells]
        padded = [gap + text if r else text + gap for text, gap, r in zip(texts, gaps, right, strict=True)]
        return "  ".join(padded).rstrip() + "\n"

    sys.stdout.write(line(header))
    sys.stdout.write("  ".join("-" * width for width in widths) + "\n")
    sys.stdout.writelines(line(row) for row in shown)


def _of_null(cell: str | None) -> str:
    return "NULL" if cell is None else cell


def _has_colours() -> bool:
    """Are there colours on the terminal?"""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def printable(text: str) -> str:
    """The text with what would disturb the table, or command the terminal, as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_why(why: Why, as_json: bool) -> None:
    """The tree, or its nodes one by one."""
    lines = [printable(line) for line in str(why).split("\n")]
    if as_json:
        lines = [json.dumps(entry, default=text_of, ensure_ascii=False) for entry in why.to_dicts()]
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_commit(commit: Commit) -> None:
    """What changed, and what it took."""
    print_violations(commit)
    if commit.number is None:
        typer.echo(f"nothing changed: {commit.reason}")
    else:
        for name, rows in commit.rows.items():
            new = commit.inserted.get(name)
            more = f", {new:,} new" if new is not None else ""
            if rows is None and name in commit.changes:
                more = f", +{commit.changes[name].inserted_rows:,} -{commit.changes[name].deleted_rows:,}"
            typer.echo(f"  {name}: {'nothing stored' if rows is None else _count(rows, 'row')}{more}")
        typer.echo(f"commit {commit.number} in {commit.seconds:.2f} s on {commit.engine} ({commit.reason})")
    if commit.rejected:
        typer.echo(f"{_count(commit.rejected, 'row')} left out; all of them are in {commit.rejects_file}", err=True)
        for reject in commit.rejects:
            typer.echo(f"  {reject}", err=True)


def print_changes(commit: Commit, dry_run: bool, as_json: bool) -> None:
    """What a transaction changed: row by row, or how much of each relation."""
    print_violations(commit, dry_run)
    if as_json:
        print_rows(commit.number, commit.changes)
        return
    if not commit.changes:
        typer.echo(f"nothing changed: {commit.reason}")
        return
    for name, changed in sorted(commit.changes.items()):
        typer.echo(f"  {name}: +{changed.inserted_rows:,} -{changed.deleted_rows:,}")
    if dry_run:
        typer.echo("nothing was changed (dry run)")
    else:
        typer.echo(f"commit {commit.number} in {commit.seconds:.3f} s on {commit.engine} ({commit.reason})")


def print_violations(commit: Commit, dry_run: bool = False) -> None:
    """What came to integrity views, or would, on standard error."""
    got = "would get" if dry_run else "has got"
    for view, violated in commit.violations.items():
        rows = _count(violated.changed.inserted_rows, "row")
        typer.echo(f"{_SAID[violated.level]}: the integrity view {view} {got} {rows}", err=True)
        for text in islice(violated.told(), _SHOWN):
            typer.echo(f"  {printable(text)}", err=True)
        if violated.changed.inserted_rows > _SHOWN:
            typer.echo("  …", err=True)


def print_level(view: str, level: str | None, violated: Answer, as_json: bool) -> None:
    """The level of a view, and the rows that violate it."""
    if as_json:
        print_answer(violated, Form.JSON, None)
        return
    if level is None:
        typer.echo(f"{view} is no integrity view; it has {_count(len(violated), 'row')}")
        return
    typer.echo(f"{view}: {level}; {'nothing is violated' if not len(violated) else 'violated now:'}")
    if len(violated):
        print_answer(violated, Form.TABLE, None)


class Results:
    """Prints the results of SQL one after the other; what a transaction has changed when it is told the first time."""

    def __init__(self, dry_run: bool = False, as_json: bool = False) -> None:
        self.dry_run, self.as_json = dry_run, as_json
        self._told: Commit | None = None

    def print(self, result: Result) -> None:
        if result.answer is not None:
            print_answer(result.answer, Form.JSON if self.as_json else Form.TABLE, None)
        elif result.message:
            typer.echo(json.dumps({"message": result.message}, ensure_ascii=False) if self.as_json else result.message)
        elif result.commit is not None and result.commit is not self._told:
            self._told = result.commit
            if self.as_json or self.dry_run or result.kind in _MODIFYING:
                print_changes(result.commit, self.dry_run, self.as_json)
            else:
                print_commit(result.commit)


def print_rows(commit: int | None, changes: Mapping[str, Changed]) -> None:
    """One line of JSON for each row that changed: by relation, what went before what came, by the rows' values."""
    for name, changed in sorted(changes.items()):
        for operation, row in changed.values():
            line = {"commit": commit, "relation": name, "op": operation, "row": list(row)}
            sys.stdout.write(json.dumps(line, default=text_of, ensure_ascii=False) + "\n")


def print_gap(since: int, commits: Sequence[Logged]) -> None:
    """Says on standard error which commits were asked for that the log has forgotten."""
    if since and commits and commits[0].number > since + 1:
        forgotten = range(since + 1, commits[0].number)
        named = f"commit {forgotten[0]} is" if len(forgotten) == 1 else f"commits {forgotten[0]} to {forgotten[-1]} are"
        typer.echo(f"note: {named} not in the log any more", err=True)


def print_log(commits: Sequence[Logged]) -> None:
    if not commits:
        typer.echo("no commits")
    for c in commits:
        typer.echo(f"commit {c.number}  {c.time}  {c.kind}  {c.seconds:.3f} s on {c.engine}  ({c.reason})")
        views: dict[str, Mapping[str, Any]] = {str(view["view"]): view for view in c.views}
        # What was derived again took its time, also where nothing has changed in the end.
        derived = {name for name, how in views.items() if how.get("rederived")}
        for name in sorted(c.changes.keys() | derived):
            inserted, deleted = c.changes.get(name, (0, 0))
            typer.echo(f"  {name}: +{inserted:,} -{deleted:,}{_way(views[name]) if name in views else ''}")


def _way(how: Mapping[str, Any]) -> str:
    """How a view was brought up to date."""
    rederived = how.get("rederived", 0)
    derived = f", {rederived:,} rederived" if rederived or how["strategy"] == "rederivation" else ""
    took = f"{how['engine']}, {how['seconds'] * 1000:.1f} ms, {how['touched']:,} touched{derived}"
    return f"  {how['strategy']}, {took} ({how['reason']})"


def print_explained(explained: Explained, rules: bool, sql: bool) -> None:
    for number, part in enumerate(explained.parts):
        typer.echo(("" if number == 0 else "\n") + f"{part.relation}: {part.strategy}")
        typer.echo(f"  {part.why}")
        for title, lines, wanted in (
            ("rules", part.rules, True),
            ("maintenance rules", part.maintenance, rules),
            ("statements", part.statements, sql),
            ("indexes", part.indexes, True),
        ):
            if wanted and lines:
                typer.echo(f"  {title}:")
                for line in lines:
                    typer.echo(f"    {line}")
    if explained.cost is not None:
        _print_cost(explained.cost)


def _print_cost(cost: Cost) -> None:
    held = "nothing is stored" if cost.rows is None else f"{_count(cost.rows, 'row')} in {_space(cost.size)}"
    seen = [f"{how} {seconds * 1000:,.2f} ms (median of {number:,})" for how, number, seconds in cost.seconds]
    typer.echo(f"\nspace: {held}")
    typer.echo(f"changes of late: {', '.join(seen) or 'none'}")
    if cost.advised is None:
        typer.echo("`viewkeeper advise` compares storing it with deriving it on demand")
        return
    one = cost.advised
    typer.echo(f"stored: a change takes {one.stored * 1000:,.2f} ms, {_count(one.rows, 'row')} take {_space(one.size)}")
    typer.echo(f"external: a change takes {one.external * 1000:,.2f} ms, and no space")


def _space(size: int) -> str:
    """
    >>> _space(0), _space(12_288), _space(3_500_000)
    ('0 kB', '12 kB', '3.3 MB')
    """
    return f"{size / 2**20:,.1f} MB" if size >= 2**20 else f"{size / 2**10:,.0f} kB"


def print_relations(shown: Sequence[Shown], detailed: bool) -> None:
    if not shown:
        typer.echo("no relations are defined yet")
        return
    rows = [
        [
            s.relation.name,
            s.kind if s.level is None else f"{s.kind}, {s.level}",
            "" if s.rows is None else f"{s.rows:,}",
            ", ".join(f"{c.name}: {c.type}" for c in s.relation.columns),
            s.place,
        ]
        for s in shown
    ]
    print_table(["relation", "kind", "rows", "columns", "kept in"], rows, [False, False, True, False, False])
    if detailed:
        typer.echo("\n" + "\n\n".join(s.declaration for s in shown))


def print_advice(played: int, advice: Sequence[Advice]) -> None:
    typer.echo(f"the last {_count(played, 'transaction')} played again, with all views stored and with none:")
    rows = [
        [
            a.view,
            "external" if a.is_external else "stored",
            f"{a.rows:,}",
            _space(a.size),
            f"{a.stored * 1000:,.2f} ms",
            f"{a.external * 1000:,.2f} ms",
            "external" if a.external_is_better else "store",
        ]
        for a in advice
    ]
    heads = ["view", "now", "rows", "space", "change, stored", "change, external", "advice"]
    print_table(heads, rows, [False, False, True, True, True, True, False])


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


def _write_arrow(answer: Answer, path: Path) -> None:
    import pyarrow as pa

    partial = path.with_name(f"{path.name}.partial")
    try:
        try:
            with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, answer.table.schema) as writer:
                writer.write_table(answer.table)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise DataError(problem("UNWRITABLE_FILE", file=path, why=why, hint="Choose another place.")) from None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
