"""Delimited text files: Soufflé's facts (tabs, no quoting) and CSV as in RFC 4180, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import pyarrow as pa

from viewkeeper.errors import DataError, counted, problem, shortened
from viewkeeper.program.arrow import batch_of_rows
from viewkeeper.program.ast import Directive, Relation
from viewkeeper.program.types import Kind
from viewkeeper.program.values import BadValue, Stored, text_formatter, text_parser
from viewkeeper.store.rejects import Reading

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


Record = tuple[int, Sequence[str]]
"""The fields of a row, with the line it starts on."""


def read_delimited(path: Path, relation: Relation, form: Format, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The file's rows as stored values, in batches; rows that do not fit go to ``reading.rejects``."""
    with _records(path, relation, form, reading) as found:
        records, order = _without_header(found, relation, form, path)
        convert = _Converter(relation, order, reading)
        while chunk := list(islice(records, BATCH)):
            yield convert.batch(chunk)


def header_of(path: Path, relation: Relation, form: Format) -> tuple[bool, list[int]]:
    """Has the file a header, and which field is which column's?"""
    with _records(path, relation, form, Reading(relation.name)) as records:
        _, order = _without_header(records, relation, form, path)
    return form.header is not False, order


@contextmanager
def _records(path: Path, relation: Relation, form: Format, reading: Reading) -> Iterator[Iterator[Record]]:
    _check_delimiter(form)
    with opened(path, newline="" if form.quoted else "\n") as file:
        yield _quoted(file, relation, form, reading) if form.quoted else _plain(file, form)


def _check_delimiter(form: Format) -> None:
    wanted = "one character, or without quoting several" if form.quoted else "one or more characters"
    if not form.delimiter or "\n" in form.delimiter or (form.quoted and (len(form.delimiter) > 1 or form.delimiter in '"\r')):
        raise DataError(problem("BAD_PARAMETER", value=form.delimiter, parameter="delimiter", wanted=wanted))


@contextmanager
def opened(path: Path | BinaryIO, newline: str = "\n") -> Iterator[TextIO]:
    """The file as text, which is closed in the end if it was opened here; what is not UTF-8 is kept apart so that it can be reported by row."""
    try:
        with _raw(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline) as file:
            yield file
    except FileNotFoundError:
        raise _bad_file(path, "there is no such file", "Check the name.") from None
    except IsADirectoryError:
        raise _bad_file(path, "it is a directory", "Name a file.") from None
    except PermissionError:
        raise _bad_file(path, "permission denied", "Check its permissions.") from None
    except (EOFError, zlib.error, OSError) as error:
        raise _bad_file(path, f"{error}", "Check that the file is complete.") from None


def _raw(path: Path | BinaryIO) -> BinaryIO:
    if not isinstance(path, Path):
        return io.BytesIO(path.read())
    raw: Any = gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb")  # noqa: SIM115
    found: BinaryIO = raw
    return found


def name_of(path: Path | BinaryIO) -> str:
    """What to call a file in messages."""
    return str(path) if isinstance(path, Path) else str(getattr(path, "name", "<stream>"))


def _bad_file(path: Path | BinaryIO, why: str, hint: str) -> DataError:
    return DataError(problem("BAD_FILE", file=name_of(path), why=why, hint=hint))


def _plain(file: TextIO, form: Format) -> Iterator[Record]:
    for number, line in enumerate(file, 1):
        text = line.removesuffix("\n").removesuffix("\r")
        yield number, text.split(form.delimiter)


def _quoted(file: TextIO, relation: Relation, form: Format, reading: Reading) -> Iterator[Record]:
    reader = csv.reader(file, delimiter=form.delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reading.rows += 1
            reading.reject(line, "", "", f"is not valid CSV: {error}")
            continue
        if row or relation.arity == 1:
            yield line, row or [""]


def _without_header(
    records: Iterator[Record], relation: Relation, form: Format, path: Path
) -> tuple[Iterator[Record], list[int]]:
    """Takes off the header; returns the position of each column's field."""
    names = [column.name for column in relation.columns]
    straight = list(range(len(names)))
    if not names or form.header is False:
        return records, straight
    first = next(records, None)
    if first is None:
        return records, straight
    found = [name.strip() for name in first[1]]
    if sorted(found) == sorted(names):
        return records, [found.index(name) for name in names]
    if form.header:
        return records, straight
    why = f"its first line ({shortened(', '.join(found), 200)}) does not name the columns ({', '.join(names)})"
    hint = "Say --header if it is a header all the same (columns are then taken in order), or --no-header if it is data."
    raise DataError(problem("BAD_FILE", file=path, why=why, hint=hint))


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
                    [parse(fields[place]) for _, fields in chunk] for parse, place in zip(self.parsers, self.order, strict=True)
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
            self.reading.reject(line, "", " ".join(fields), "is not ()")
            return None
        if len(fields) != self.relation.arity:
            reason = f"has {counted(len(fields), 'field')}, not {self.relation.arity}"
            self.reading.reject(line, "", " ".join(fields), reason)
            return None
        row = []
        good = True
        for parse, place, column in zip(self.parsers, self.order, self.relation.columns, strict=True):
            try:
                row.append(parse(fields[place]))
            except BadValue as error:
                self.reading.reject(line, column.name, fields[place], str(error))
                good = False
        return tuple(row) if good else None


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
