"""Delimited text files: Soufflé's facts (tabs, no quoting) and CSV as in RFC 4180, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from viewkeeper.errors import DataError, problem
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.program.ast import Directive, Relation
from viewkeeper.program.types import Kind
from viewkeeper.program.values import BadValue, Stored, text_formatter, text_parser
from viewkeeper.store.rejects import Reject

BATCH = 50_000
csv.field_size_limit(1 << 30)


@dataclass(frozen=True)
class Format:
    """How fields are separated; ``header`` None means: a first line that names the relation's columns is a header."""

    delimiter: str = "\t"
    quoted: bool = False
    header: bool | None = False

    @classmethod
    def of_directive(cls, directive: Directive) -> Format:
        quoted = directive.get("rfc4180", "false") == "true"
        delimiter = directive.get("delimiter", "," if quoted else "\t")
        return cls(delimiter.replace("\\t", "\t"), quoted, directive.get("headers", "false") == "true")

    @classmethod
    def of_path(cls, path: Path) -> Format:
        """By the file's ending: .csv is comma-separated, quoted, perhaps with a header; the others are tab-separated facts."""
        name = path.name.removesuffix(".gz").lower()
        return cls(",", quoted=True, header=None) if name.endswith(".csv") else cls()


@dataclass
class Reading:
    """What a reader has seen so far."""

    rows: int = 0
    rejects: list[Reject] = field(default_factory=list)


def read_delimited(path: Path, relation: Relation, form: Format, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The file's rows as stored values, in batches; rows that do not fit go to ``reading.rejects``."""
    with opened(path) as file:
        records = _quoted(file, relation, form, reading) if form.quoted else _plain(file, form)
        records, order = _header(records, relation, form, path)
        convert = _Converter(relation, order, reading)
        chunk: list[tuple[int, Sequence[str]]] = []
        for record in records:
            chunk.append(record)
            if len(chunk) == BATCH:
                yield convert.batch(chunk)
                chunk = []
        if chunk:
            yield convert.batch(chunk)


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The file as text; what is not UTF-8 is kept apart so that it can be reported by row."""
    try:
        raw = gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")
        with raw, io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="") as file:  # type: ignore[arg-type]
            yield file
    except FileNotFoundError:
        raise _bad_file(path, "there is no such file", "Check the name.") from None
    except IsADirectoryError:
        raise _bad_file(path, "it is a directory", "Name a file.") from None
    except PermissionError:
        raise _bad_file(path, "permission denied", "Check its permissions.") from None
    except (gzip.BadGzipFile, EOFError, OSError) as error:
        raise _bad_file(path, f"{error}", "Check that the file is complete.") from None


def _bad_file(path: Path, why: str, hint: str) -> DataError:
    return DataError(problem("BAD_FILE", file=path, why=why, hint=hint))


def _plain(file: TextIO, form: Format) -> Iterator[tuple[int, Sequence[str]]]:
    for number, line in enumerate(file, 1):
        text = line.removesuffix("\n").removesuffix("\r")
        yield number, text.split(form.delimiter)


def _quoted(file: TextIO, relation: Relation, form: Format, reading: Reading) -> Iterator[tuple[int, Sequence[str]]]:
    reader = csv.reader(file, delimiter=form.delimiter, strict=True)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reading.rows += 1
            reading.rejects.append(Reject(relation.name, line, "", "", f"is not valid CSV: {error}"))
            line = reader.line_num + 1
            continue
        if row or relation.arity == 1:
            yield line, row or [""]
        line = reader.line_num + 1


Records = Iterator[tuple[int, Sequence[str]]]


def _header(records: Records, relation: Relation, form: Format, path: Path) -> tuple[Records, list[int]]:
    """Takes off the header; returns the position of each column's field."""
    names = [column.name for column in relation.columns]
    straight = list(range(len(names)))
    if form.header is False:
        return records, straight
    first = next(records, None)
    if first is None:
        return iter(()), straight
    found = [name.removeprefix("\ufeff").strip() for name in first[1]]
    if sorted(found) == sorted(names) and len(set(found)) == len(found):
        return records, [found.index(name) for name in names]
    if form.header:
        return records, straight
    raise DataError(
        problem(
            "BAD_FILE",
            file=path,
            why=f"its first line ({', '.join(found)}) does not name the columns ({', '.join(names)})",
            hint="Say --header if it is a header all the same (columns are then taken in order), or --no-header if it is data.",
        )
    )


class _Converter:
    """Texts → stored values, a batch at a time; only a batch with a bad value is looked at row by row."""

    def __init__(self, relation: Relation, order: list[int], reading: Reading) -> None:
        self.relation, self.order, self.reading = relation, order, reading
        self.parsers = [_nullable(text_parser(c.type)) if c.type.nullable else text_parser(c.type) for c in relation.columns]

    def batch(self, chunk: list[tuple[int, Sequence[str]]]) -> pa.RecordBatch:
        self.reading.rows += len(chunk)
        width = self.relation.arity
        if width and all(len(fields) == width for _, fields in chunk):
            try:
                columns = [
                    [parse(fields[place]) for _, fields in chunk]
                    for parse, place in zip(self.parsers, self.order, strict=True)
                ]
                return batch_of_rows(list(zip(*columns, strict=True)), self.relation)
            except BadValue:
                pass
        rows = [row for line, fields in chunk if (row := self._row(line, fields)) is not None]
        return batch_of_rows(rows, self.relation)

    def _row(self, line: int, fields: Sequence[str]) -> tuple[Stored, ...] | None:
        if not self.relation.arity:
            if list(fields) == ["()"]:
                return (1,)
            self._reject(line, "", " ".join(fields), "is not ()")
            return None
        if len(fields) != self.relation.arity:
            self._reject(line, "", " ".join(fields), f"has {len(fields)} fields, not {self.relation.arity}")
            return None
        row = []
        good = True
        for parse, place, column in zip(self.parsers, self.order, self.relation.columns, strict=True):
            try:
                row.append(parse(fields[place]))
            except BadValue as error:
                self._reject(line, column.name, fields[place], str(error))
                good = False
        return tuple(row) if good else None

    def _reject(self, line: int, column: str, value: str, reason: str) -> None:
        self.reading.rejects.append(Reject(self.relation.name, line, column, value, reason))


def _nullable(parse: Callable[[str], Stored]) -> Callable[[str], Stored]:
    return lambda text: parse(text) if text else None


# ---- writing


def write_delimited(file: TextIO, relation: Relation, batches: Iterable[pa.RecordBatch], form: Format) -> None:
    """Rows as text, in the order given."""
    formatters = [text_formatter(c.type) for c in relation.columns]
    special = re.compile(f'["\r\n]|{re.escape(form.delimiter)}')

    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if special.search(text) else text

    def write(rows: Iterable[Sequence[str]]) -> None:
        if form.quoted:
            rows = (list(map(quoted, row)) for row in rows)
        file.writelines(form.delimiter.join(row) + "\n" for row in rows)

    if form.header and relation.columns:
        write([[column.name for column in relation.columns]])
    for batch in batches:
        if not relation.columns:
            file.writelines("()\n" for _ in range(batch.num_rows))
            continue
        columns = [
            values if c.type.kind is Kind.SYMBOL and not c.type.nullable else list(map(form_, values))
            for c, form_, values in zip(
                relation.columns, formatters, (column.to_pylist() for column in batch.columns), strict=True
            )
        ]
        write(zip(*columns, strict=True))


def facts_path(directory: Path, relation: Relation, directive: Directive) -> Path:
    """The input file of a relation: as named, or name.facts, gzipped if only that is there."""
    path = directory / directive.get("filename", f"{relation.name}.facts")
    gzipped = path.with_name(path.name + ".gz")
    return gzipped if not path.exists() and gzipped.exists() else path

