"""The OpenAPI description, made from the table of routes and the types of bodies and answers."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

import viewkeeper
from viewkeeper.serve.answers import MEDIA
from viewkeeper.serve.bodies import Operation, RowsAnswer
from viewkeeper.serve.routes import EVENTS, ROUTES, Entry
from viewkeeper.wire import Envelope

_ALWAYS = (400, 401, 500, 503)
_WORDS = {
    400: "Bad input",
    401: "No valid token",
    403: "The token may not do this",
    404: "There is no such thing, or the token may not read it",
    408: "The body did not come in time",
    409: "It conflicts with what there is",
    410: "The log does not reach so far back",
    413: "Too large",
    429: "Too many",
    500: "The server failed",
    503: "Busy, too slow, or closing",
}


@cache
def description() -> bytes:
    """The description as JSON."""
    structs = (
        {e.answer for e in ROUTES if isinstance(e.answer, type)} | {e.body for e in ROUTES if e.body} | {Envelope, Operation}
    )
    ordered = sorted(structs, key=lambda one: one.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    refs = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for entry in ROUTES:
        paths.setdefault(entry.path, {})[entry.method.lower()] = _operation(entry, refs)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "viewkeeper",
                "version": viewkeeper.__version__,
                "description": "Views that are kept exact, and told.",
            },
            "paths": paths,
            "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
            "security": [{"token": []}],
        }
    )


def _operation(entry: Entry, refs: dict[Any, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in re.findall(r"\{(\w+)\}", entry.path)
    ]
    parameters += [{"name": p.name, "in": "query", "description": p.about, "schema": p.schema} for p in entry.parameters]
    if entry.path == "/v1/transactions":
        parameters.append(
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
        )
    if entry.answer == EVENTS:
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer", "minimum": 0}})
    found: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{entry.method.lower()}{entry.path}").strip("_"),
        "summary": entry.summary,
        "parameters": parameters,
        "responses": _responses(entry, refs),
    }
    if entry.columns:
        found["description"] = (
            "Every other parameter is the name of a column with the value it must have; arg.NAME if the name is taken."
        )
    if entry.body is not None:
        content: dict[str, Any] = {"application/json": {"schema": refs[entry.body]}}
        if entry.path in ("/v1/transactions", "/v1/preview"):
            content["application/x-ndjson"] = {"schema": {"type": "string", "description": "one operation a line"}}
        found["requestBody"] = {"required": True, "content": content}
    if entry.path == "/healthz":
        found["security"] = []
    return found


def _path_schema(name: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1} if name == "number" else {"type": "string", "minLength": 1}


def _responses(entry: Entry, refs: dict[Any, Any]) -> dict[str, Any]:
    if isinstance(entry.answer, str):
        content: dict[str, Any] = {entry.answer: {"schema": {"type": "object" if "json" in entry.answer else "string"}}}
    else:
        content = {"application/json": {"schema": refs[entry.answer]}}
    if entry.answer is RowsAnswer:
        content |= {media: {"schema": {"type": "string"}} for form, media in MEDIA.items() if form != "json"}
    found: dict[str, Any] = {str(entry.status): {"description": entry.summary, "content": content}}
    always = () if entry.path == "/healthz" else _ALWAYS
    for status in sorted({*always, *entry.errors}):
        schema = refs[entry.answer] if entry.path == "/healthz" else refs[Envelope]
        found[str(status)] = {"description": _WORDS[status], "content": {"application/json": {"schema": schema}}}
    return found
