"""The description is true: whatever schemathesis makes of it, the server answers as described and never fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.serving import PATIENCE, Server, make_warehouse, serving

from viewkeeper.serve.openapi import description
from viewkeeper.serve.routes import EVENTS, ROUTES

DESCRIPTION = json.loads(description())
FOLLOW = "/v1/views/{name}/changes"
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "12"))
# Not that what fits its schema is accepted: whether a row fits its relation is not for the description to say.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
    ignored_auth,
    unsupported_method,
]
OPTIONS = {
    "max_examples": EXAMPLES,
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


@schemathesis.serializer("application/x-ndjson")
def lines(context: object, value: object) -> bytes:
    """Whatever is made up, as lines."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


schema = schemathesis.openapi.from_dict(DESCRIPTION)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = make_warehouse(tmp_path_factory.mktemp("openapi") / "shop")
    with serving(path, "--query-seconds", "5") as started:
        started.commit("price", ["ink", 250], ["pen", 50])
        yield started


@schema.exclude(path=FOLLOW).parametrize()
@settings(**OPTIONS)
def test_answers_are_as_described(case: schemathesis.Case, server: Server) -> None:
    case.call_and_validate(
        base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, checks=CHECKS, timeout=PATIENCE
    )


@schema.include(path=FOLLOW).parametrize()
@settings(**OPTIONS)
def test_streams_are_as_described(case: schemathesis.Case, server: Server) -> None:
    """There is no view of the names that are made up, so that no stream begins."""
    case.path_parameters["name"] = f"no {case.path_parameters.get('name', '')}"
    case.call_and_validate(
        base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, checks=CHECKS[:4], timeout=PATIENCE
    )


def test_every_route_is_described() -> None:
    described = {(method.upper(), path) for path, methods in DESCRIPTION["paths"].items() for method in methods}
    assert described == {(entry.method, entry.path) for entry in ROUTES}
    names = [entry["operationId"] for methods in DESCRIPTION["paths"].values() for entry in methods.values()]
    assert len(set(names)) == len(names)


def test_only_health_needs_no_token() -> None:
    free = [path for path, methods in DESCRIPTION["paths"].items() for entry in methods.values() if entry.get("security") == []]
    assert free == ["/healthz"]
    assert DESCRIPTION["security"] == [{"token": []}]


def test_a_stream_is_described_as_one(server: Server) -> None:
    assert EVENTS in DESCRIPTION["paths"][FOLLOW]["get"]["responses"]["200"]["content"]
    answer = server.ask("HEAD", "/v1/views/dear/changes")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, EVENTS)
