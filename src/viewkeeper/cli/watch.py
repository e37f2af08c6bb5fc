"""``viewkeeper watch``: changes as they come."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import typer

from viewkeeper.answer import text_of
from viewkeeper.cli.output import printable
from viewkeeper.client import Change, Client

_MARKS = {"insert": ("+", typer.colors.GREEN), "delete": ("-", typer.colors.RED)}


def watch_view(
    client: Client, view: str, arguments: Mapping[str, str], snapshot: bool, as_json: bool, where: str | None
) -> None:
    """Prints until somebody ends it. Where the connection is goes to standard error."""
    watched = Watched(view, as_json)
    followed = client.view(view, arguments).follow(snapshot=snapshot, where=where, on_state=watched.tell_state)
    try:
        with followed as changes:
            for change in changes:
                watched.print(change)
                sys.stdout.flush()
    except KeyboardInterrupt:
        watched.print_counts()
        raise typer.Exit(130) from None


@dataclass
class Watched:
    """What was printed so far."""

    view: str
    as_json: bool
    changes: int = 0
    inserted: int = 0
    deleted: int = 0
    was_live: bool = False

    def tell_state(self, state: str) -> None:
        """Says when the server is away, and when it is back."""
        if state == "live" and not self.was_live:
            typer.secho(f"following {self.view}; Ctrl-C ends it", err=True, dim=True)
        elif state == "live":
            typer.secho("the server is back", err=True, dim=True)
        elif state == "reconnecting":
            typer.secho("the server is away, trying again", err=True, dim=True)
        self.was_live = True

    def print(self, change: Change) -> None:
        if not change.whole:
            self.changes += 1
            self.inserted += len(change.inserted)
            self.deleted += len(change.deleted)
        for line in self._json_lines(change) if self.as_json else self._lines(change):
            typer.echo(line)

    def print_counts(self) -> None:
        typer.echo(f"\n{_count(self.changes, 'change')}: +{self.inserted:,} -{self.deleted:,}", err=True)

    def _lines(self, change: Change) -> Iterator[str]:
        commits = (
            f"commit {change.commit}"
            if change.first == change.commit or change.whole
            else f"commits {change.first} to {change.commit}"
        )
        if change.whole:
            why = f" ({change.reason})" if change.reason else ""
            yield typer.style(f"{commits}: {change.kind}{why}, {_count(len(change.inserted), 'row')}", bold=True)
        else:
            level = f" {change.level}" if change.level else ""
            yield typer.style(f"{commits}{level}: +{len(change.inserted):,} -{len(change.deleted):,}", bold=True)
        for operation, row in _rows(change):
            mark, color = _MARKS[operation]
            yield typer.style(f"  {mark} {'  '.join(_shown(value) for value in row)}", fg=color)

    def _json_lines(self, change: Change) -> Iterator[str]:
        """As ``commit --json`` prints rows; a line without a row says that all rows follow."""
        head: dict[str, object] = {"commit": change.commit, "relation": self.view}
        if change.whole:
            yield json.dumps(
                head | {"op": change.kind} | ({"reason": change.reason} if change.reason else {}), ensure_ascii=False
            )
        for operation, row in _rows(change):
            yield json.dumps(head | {"op": operation, "row": list(row)}, default=text_of, ensure_ascii=False)


def _shown(value: object) -> str:
    return "NULL" if value is None else printable(text_of(value))


def _rows(change: Change) -> Iterator[tuple[str, tuple[object, ...]]]:
    yield from (("delete", row) for row in change.deleted)
    yield from (("insert", row) for row in change.inserted)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
