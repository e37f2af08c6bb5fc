"""What a server answers, in the form that commands print."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import viewkeeper
from viewkeeper.client import calls
from viewkeeper.client.answers import Rows, columns_of, rows_of
from viewkeeper.client.blocking import Client
from viewkeeper.errors import DataError, problem, shortened
from viewkeeper.wire import Column, kind_of

if TYPE_CHECKING:
    from viewkeeper.answer import Answer
    from viewkeeper.outcomes import Commit, Logged, Shown
    from viewkeeper.why import Why


@dataclass(frozen=True)
class RemoteChanged:
    """What changed in one relation."""

    inserted_rows: int
    deleted_rows: int
    rows: tuple[tuple[str, tuple[Any, ...]], ...]

    def values(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """What went before what came."""
        return iter(self.rows)


class Remote:
    """The methods of a warehouse that commands use."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def define(self, text: str, name: str, report: object = None, replace: bool = False, strict: bool = False) -> Commit:
        body = {"program": text, "replace": replace, "strict": strict, "name": name}
        return _commit(self.client.run(calls.define(body)).told)

    def drop(self, *names: str) -> Commit:
        return _commit(self.client.drop(*names).told)

    def commit_file(self, path: Path | BinaryIO, strict: bool, dry_run: bool) -> Commit:
        return _commit(self.client.run(calls.commit(_content(path), None, "rows", dry_run, strict)).told)

    def query(self, text: str, report: object = None, as_of: int | None = None) -> Answer:
        return _answer(self.client.query(text, as_of=as_of))

    def why(self, row: str) -> Why:
        return cast("Why", RemoteWhy(*vars(self.client.why(row)).values()))

    def show(self, relation: str | None = None) -> list[Shown]:
        return [cast("Shown", RemoteShown(told)) for told in self.client.run(calls.views(relation))]

    def log(self, since: int, view: str | None) -> list[Logged]:
        return [cast("Logged", RemoteLogged(told)) for told in self.client.run(calls.log(since, view))]

    def levels(self) -> dict[str, str]:
        return {told["name"]: told["level"] for told in self.client.views() if told["level"] is not None}

    def violated(self, view: str) -> Answer:
        return _answer(self.client.view(view).rows())

    def set_level(self, view: str, level: str | None) -> RemoteLeveled:
        told = self.client.set_level(view, level)
        columns = columns_of(told["columns"])
        return RemoteLeveled(_answer(Rows(columns, rows_of(columns, told["violated"]))))

    def changes(self, commit: int) -> Mapping[str, Any]:
        return _changes(self.client.run(calls.commit_told(commit))["changes"])


@dataclass(frozen=True)
class RemoteLeveled:
    """The rows that violate a view now."""

    violated: Answer


class RemoteShown:
    """A relation as ``show`` prints it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.relation = RemoteRelation(told["name"], columns_of(told["columns"]))
        self.kind, self.rows, self.place, self.level = told["kind"], told["rows"], told["place"], told["level"]
        self.declaration = told["declaration"] or ""


@dataclass(frozen=True)
class RemoteRelation:
    """Name and columns; a column's type is told by its declared name."""

    name: str
    told: tuple[Column, ...]

    @property
    def columns(self) -> list[Column]:
        return [Column(c.name, c.type if c.named is None else _named(c), c.key) for c in self.told]


def _named(column: Column) -> str:
    return f"{column.named}?" if column.type.endswith("?") else str(column.named)


@dataclass(frozen=True)
class RemoteWhy:
    """A tree as ``why`` prints it."""

    text: str
    nodes: tuple[dict[str, Any], ...]
    holds: bool

    def __str__(self) -> str:
        return self.text

    def to_dicts(self) -> list[dict[str, Any]]:
        return list(self.nodes)


class RemoteLogged:
    """A commit as ``log`` prints it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.number, self.time, self.kind = told["commit"], told["time"], told["kind"]
        self.engine, self.seconds, self.reason, self.views = told["engine"], told["seconds"], told["reason"], told["views"]
        self.changes = {name: (changed["inserted"], changed["deleted"]) for name, changed in told["changes"].items()}


def _commit(told: Mapping[str, Any]) -> Commit:
    return viewkeeper.Commit(
        told["commit"],
        told["engine"],
        told["reason"],
        told["seconds"],
        rows=told.get("rows", {}),
        changes=cast(Any, _changes(told["changes"])),
        **_more(told),
    )


def _more(told: Mapping[str, Any]) -> dict[str, Any]:
    violations = {
        name: RemoteViolated(name, one["level"], _violated(one), tuple(one.get("messages") or ()))
        for name, one in told["violations"].items()
    }
    return {"repeated": told.get("repeated", False), "violations": violations}


@dataclass(frozen=True)
class RemoteViolated:
    """Rows that came to an integrity view."""

    view: str
    level: str
    changed: RemoteChanged
    messages: tuple[str, ...]

    def told(self) -> Iterator[str]:
        """For each row that came the message about it, or the row itself."""
        rows = (f"{self.view}({', '.join(shortened(repr(value)) for value in row)})" for _, row in self.changed.values())
        return iter(self.messages) if self.messages else rows


def _violated(told: Mapping[str, Any]) -> RemoteChanged:
    rows = rows_of(columns_of(told["columns"]), told["rows"])
    return RemoteChanged(len(rows), 0, tuple(("insert", row) for row in rows))


def _changes(told: Mapping[str, Any]) -> dict[str, RemoteChanged]:
    return {name: _changed(one) for name, one in told.items()}


def _changed(told: Mapping[str, Any]) -> RemoteChanged:
    if isinstance(told["inserted"], int):
        return RemoteChanged(told["inserted"], told["deleted"], ())
    columns = columns_of(told["columns"])
    before = columns_of(told["before"]) if told.get("before") else columns
    went, came = rows_of(before, told["deleted"]), rows_of(columns, told["inserted"])
    rows = [*(("delete", row) for row in went), *(("insert", row) for row in came)]
    return RemoteChanged(len(came), len(went), tuple(rows))


def _answer(found: Rows) -> Answer:
    """As a query of a warehouse gives it: without columns there is one that says whether it holds."""
    import pyarrow as pa

    if not found.columns:
        return viewkeeper.Answer(pa.table({"present": pa.array([True] * len(found), pa.bool_())}), ())
    schema = pa.schema([pa.field(c.name, _arrow_type(c.type), nullable=c.type.endswith("?")) for c in found.columns])
    columns = zip(*found, strict=True) if len(found) else [()] * len(schema)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return viewkeeper.Answer(pa.Table.from_arrays(arrays, schema=schema), found.names)


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    if kind_of(name) == "decimal":
        precision, scale = map(int, name.removesuffix("?").removeprefix("decimal(").removesuffix(")").split(","))
        return pa.decimal128(precision, scale)
    makers: dict[str, Callable[[], Any]] = {
        "number": pa.int64,
        "unsigned": pa.int64,
        "float": pa.float64,
        "symbol": pa.string,
        "bool": pa.bool_,
        "date": pa.date32,
        "timestamp": lambda: pa.timestamp("us", "UTC"),
        "bytes": pa.binary,
    }
    return makers[kind_of(name)]()


def _content(path: Path | BinaryIO) -> bytes:
    """The bytes of a file, unpacked."""
    if not isinstance(path, Path):
        return path.read()
    try:
        data = path.read_bytes()
        with suppress(gzip.BadGzipFile):
            data = gzip.decompress(data) if path.suffix == ".gz" else data
        return data
    except FileNotFoundError:
        raise DataError(problem("BAD_FILE", file=path, why="there is no such file", hint="Check the name.")) from None
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DataError(problem("BAD_FILE", file=path, why=why, hint="Check the name.")) from None
