"""Files of facts and of results, in the form that docs/language.md gives."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from .parser import parse
from .syntax import Directive
from .values import Column, Row, Value, columns, fit_decimal, read_value, sort_key, write_value


def delimiter_of(directive: Directive) -> str:
    """A tab, or a comma in files with quotes, unless given."""
    return directive.params.get("delimiter", "," if is_on(directive, "rfc4180") else "\t")


def is_on(directive: Directive, key: str) -> bool:
    return directive.params.get(key, "false") == "true"


def read_facts(text: str, directory: Path) -> dict[str, set[Row]]:
    """The rows of all `.input` relations of a program."""
    program = parse(text)
    facts: dict[str, set[Row]] = {}
    for directive in program.directives:
        if directive.kind == "input":
            path = directory / directive.params.get("filename", f"{directive.relation}.facts")
            rows = read_rows(read_text(path), directive, columns(program, directive.relation))
            facts.setdefault(directive.relation, set()).update(rows)
    return facts


def read_text(path: Path) -> str:
    """`r.facts` or, if there is none, `r.facts.gz`."""
    zipped = path.with_name(path.name + ".gz")
    if not path.exists() and zipped.exists():
        return gzip.decompress(zipped.read_bytes()).decode()
    return path.read_bytes().decode()


def read_rows(text: str, directive: Directive, cols: list[Column]) -> set[Row]:
    records = split_quoted(text, delimiter_of(directive)) if is_on(directive, "rfc4180") else None
    if records is None:
        lines = text.removesuffix("\n").split("\n") if text else []
        records = [line.split(delimiter_of(directive)) for line in lines]
    if is_on(directive, "headers"):
        records = records[1:]
    if not cols:
        return {()} if records == [["()"]] else set()
    return {tuple(read_field(f, c) for f, c in zip(record, cols, strict=True)) for record in records}


def read_field(field: str, col: Column) -> Value:
    """In a column that may be NULL an empty field is NULL."""
    if field == "" and col.nullable:
        return None
    value = read_value(field, col.family)
    return fit_decimal(value, col.precision, col.scale) if isinstance(value, Decimal) else value


def split_quoted(text: str, delimiter: str) -> list[list[str]]:
    """RFC 4180: a field may stand in double quotes, which are doubled inside; lines end with LF or CRLF."""
    records: list[list[str]] = []
    at = 0
    while at < len(text):
        record: list[str] = []
        while True:
            field = ""
            if text.startswith('"', at):
                at += 1
                while not (text[at] == '"' and text[at + 1 : at + 2] != '"'):
                    field += text[at]
                    at += 2 if text[at] == '"' else 1
                at += 1
            else:
                while at < len(text) and not text.startswith((delimiter, "\r\n", "\n"), at):
                    field += text[at]
                    at += 1
            record.append(field)
            if not text.startswith(delimiter, at):
                break
            at += len(delimiter)
        at += 2 if text.startswith("\r\n", at) else 1
        records.append(record)
    return records


def write_outputs(
    text: str, relations: dict[str, set[Row]], directory: Path, out: Callable[[str], object] = lambda _: None
) -> None:
    """Writes the files of all `.output` directives and hands the text for standard output to `out`."""
    program = parse(text)
    for directive in program.directives:
        name, rows = directive.relation, relations[directive.relation]
        cols = columns(program, name)
        if directive.kind == "printsize":
            out(f"{name}\t{len(rows)}\n")
        elif directive.kind == "output" and directive.params.get("IO") == "stdout":
            out("\n".join(["-" * 15, name, "=" * 15, ""]) + format_rows(rows, directive, cols) + "=" * 15 + "\n")
        elif directive.kind == "output":
            path = directory / directive.params.get("filename", f"{name}.csv")
            path.write_bytes(format_rows(rows, directive, cols).encode())


def format_rows(rows: set[Row], directive: Directive, cols: list[Column]) -> str:
    """One line for each row, sorted by value; a relation without columns is the line `()` or nothing."""
    if not cols:
        return "()\n" if rows else ""
    lines = [[write_value(value) for value in row] for row in sorted(rows, key=sort_key)]
    if is_on(directive, "headers"):
        lines.insert(0, [col.name for col in cols])
    delimiter, quoted = delimiter_of(directive), is_on(directive, "rfc4180")
    return "".join(delimiter.join(quote(f, delimiter) if quoted else f for f in line) + "\n" for line in lines)


def quote(field: str, delimiter: str) -> str:
    """Quoted only where it must be."""
    if delimiter in field or any(c in field for c in '"\r\n'):
        return '"' + field.replace('"', '""') + '"'
    return field
