"""Answers as JSON, lines of JSON, CSV or Arrow, page by page."""

from __future__ import annotations

import csv
import io
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

import msgspec
from starlette.responses import Response

from viewkeeper.answer import Answer
from viewkeeper.serve.asking import DEFAULT_PAGE, Cursor, bad
from viewkeeper.serve.bodies import RowsAnswer
from viewkeeper.watched import Found, arrow_table, json_rows, told_columns
from viewkeeper.wire import Column, encode_rows, kind_of

MEDIA = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
_MOST_KEPT = 500_000


@dataclass(frozen=True)
class Page:
    """Some rows of an answer, already as they are told."""

    view: str | None
    commit: int
    columns: list[Column]
    rows: list[list[Any]]
    next: str | None
    table: Any = None


def page_of_view(found: Found, cursor: Cursor | None, limit: int, question: object, form: str) -> Page:
    offset = 0 if cursor is None else cursor.offset
    part = found.rows[offset : offset + limit]
    more = Cursor(found.commit, offset + limit).text(question) if offset + limit < len(found.rows) else None
    columns = columns_of(found)
    if form == "arrow":
        return Page(found.relation.name, found.commit, columns, [], more, arrow_table(part, found.relation))
    return Page(found.relation.name, found.commit, columns, json_rows(part, found.relation), more)


def columns_of(found: Found) -> list[Column]:
    return [Column(*column) for column in told_columns(found.relation)]


def page_of_answer(answer: Answer, commit: int, cursor: Cursor | None, limit: int, question: object, form: str) -> Page:
    offset = 0 if cursor is None else cursor.offset
    more = Cursor(commit, offset + limit).text(question) if offset + limit < len(answer) else None
    part = Answer(answer.table.slice(offset, limit), answer.columns)
    columns = columns_of_answer(answer)
    rows = [] if form == "arrow" else encode_rows(part, [column.type for column in columns])
    return Page(None, commit, columns, rows, more, part.table)


def columns_of_answer(answer: Answer) -> list[Column]:
    """The columns of a query: their types as far as Arrow tells them."""
    if not answer.columns:
        return []
    return [Column(field.name, _type_name(field), False) for field in answer.table.schema]


def _type_name(field: Any) -> str:
    import pyarrow.types as types

    found = field.type
    if types.is_decimal(found):
        name = f"decimal({found.precision},{found.scale})"
    else:
        tests = (
            (types.is_boolean, "bool"),
            (types.is_integer, "number"),
            (types.is_floating, "float"),
            (types.is_date, "date"),
            (types.is_timestamp, "timestamp"),
            (types.is_binary, "bytes"),
        )
        name = next((name for test, name in tests if test(found)), "symbol")
    return f"{name}?" if field.nullable else name


# ---- forms


def form_of(asked: str | None, accept: str) -> str:
    """The form of an answer: as asked in the address, else the first that the request accepts, else JSON."""
    if asked is not None:
        if asked not in MEDIA:
            raise bad(f'"{asked[:40]}" is no format', f"It is one of {', '.join(MEDIA)}.")
        return asked
    for part in accept.split(","):
        media = part.partition(";")[0].strip().lower()
        for form, known in MEDIA.items():
            if media == known:
                return form
    return "json"


def limit_of(asked: int | None, most: int) -> int:
    if asked is not None and asked > most:
        raise bad(f"a page has at most {most:,} rows", 'Ask for the next page with "after".')
    return asked or min(DEFAULT_PAGE, most)


def response(page: Page, form: str) -> Response:
    headers = {"viewkeeper-commit": str(page.commit)}
    if page.next is not None:
        headers["viewkeeper-next"] = page.next
    match form:
        case "json":
            body = msgspec.json.encode(RowsAnswer(page.view, page.commit, page.columns, page.rows, page.next))
        case "ndjson":
            names = [column.name for column in page.columns]
            body = b"".join(msgspec.json.encode(dict(zip(names, row, strict=True))) + b"\n" for row in page.rows)
        case "csv":
            body = _csv(page)
        case _:
            body = _arrow(page.table)
    return Response(body, headers=headers, media_type=MEDIA[form])


def _csv(page: Page) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([column.name for column in page.columns])
    bools = [place for place, column in enumerate(page.columns) if kind_of(column.type) == "bool"]
    for row in page.rows:
        for place in bools:
            row[place] = None if row[place] is None else "true" if row[place] else "false"
        writer.writerow(row)
    return out.getvalue().encode()


def _arrow(table: Any) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


# ---- answers that are asked for page by page


class AnswerCache:
    """The last answers of which somebody may want the next page."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[object, int], Any] = OrderedDict()

    def get(self, question: object, commit: int) -> Any:
        with self._lock:
            return self._kept.get((question, commit))

    def put(self, question: object, commit: int, answer: Found | Answer) -> None:
        with self._lock:
            self._kept[question, commit] = answer
            self._kept.move_to_end((question, commit))
            while len(self._kept) > 1 and (len(self._kept) > 16 or sum(map(_size, self._kept.values())) > _MOST_KEPT):
                self._kept.popitem(last=False)


def _size(answer: Found | Answer) -> int:
    return len(answer.rows) if isinstance(answer, Found) else len(answer)
