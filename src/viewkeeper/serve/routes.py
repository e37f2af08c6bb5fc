"""The table of everything that can be asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response

from viewkeeper.serve import administering, bodies, changing, reading
from viewkeeper.serve.calls import Call


@dataclass(frozen=True)
class Parameter:
    """A parameter of an address; ``schema`` is JSON Schema's."""

    name: str
    about: str
    schema: Mapping[str, object]


@dataclass(frozen=True)
class Entry:
    """One thing that can be asked. Without a handler it is answered by the application itself."""

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]] | None
    summary: str
    answer: type | str
    body: type | None = None
    parameters: tuple[Parameter, ...] = ()
    status: int = 200
    errors: tuple[int, ...] = ()
    columns: bool = False
    """Whether other parameters are columns with their values."""


_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**53}
_TEXT = {"type": "string"}
_FLAG = {"type": "string", "enum": ["0", "1", "false", "true"]}
_FORMAT = Parameter(
    "format", "the form of the answer; else by Accept", {"type": "string", "enum": ["json", "ndjson", "csv", "arrow"]}
)
_CHANGES = Parameter("changes", "what is told of what changed", {"type": "string", "enum": ["counts", "none", "rows"]})
_STRICT = Parameter("strict", "refuse to compute a view anew", _FLAG)
_WHERE = Parameter("where", "a filter over the columns, such as kb > 1000", _TEXT)
_PAGE = (
    Parameter("as_of", "what was there after this commit", _NUMBER),
    Parameter("limit", "rows of a page", {"type": "integer", "minimum": 1, "maximum": 100_000}),
    Parameter("after", 'where the page begins: "next" of the one before', _TEXT),
)
_FOLLOW = (
    Parameter("snapshot", "begin with the answer as it is", _FLAG),
    Parameter("since", "begin after this commit", _NUMBER),
    Parameter("every", "gather changes: at most one event every 2s, or every 5c (commits)", _TEXT),
    Parameter("mode", "exact: with the rows; hint: only that it changed", {"type": "string", "enum": ["exact", "hint"]}),
    Parameter("name", "a subscription whose position the server keeps", _TEXT),
    Parameter("ticket", "instead of a token", _TEXT),
)
EVENTS = "text/event-stream"

ROUTES: tuple[Entry, ...] = (
    Entry("GET", "/healthz", None, "Whether the server is there; needs no token", bodies.HealthAnswer, errors=(503,)),
    Entry("GET", "/metrics", administering.metrics, "Counters, as Prometheus reads them", "text/plain", errors=(403,)),
    Entry("GET", "/openapi.json", None, "This description", "application/json"),
    Entry("GET", "/v1", None, "What there is to ask, and what the token may do", bodies.IndexAnswer),
    Entry(
        "POST", "/v1/transactions", changing.transactions, "Change rows as one transaction", bodies.CommitAnswer,
        bodies.TransactionBody, (_CHANGES, _STRICT), errors=(403, 404, 408, 409, 413),
    ),
    Entry(
        "POST", "/v1/preview", changing.preview, "What a transaction would change", bodies.CommitAnswer,
        bodies.TransactionBody, (_CHANGES, _STRICT), errors=(403, 404, 408, 409, 413),
    ),
    Entry(
        "POST", "/v1/definitions", changing.definitions, "Define or drop relations", bodies.DefinitionAnswer,
        bodies.DefinitionBody, errors=(403, 404, 408, 409, 413),
    ),
    Entry(
        "GET", "/v1/views", reading.views, "The relations that may be read", bodies.ViewsAnswer,
        parameters=(Parameter("name", "only this one", _TEXT),), errors=(404,),
    ),
    Entry(
        "GET", "/v1/views/{name}", reading.view, "Rows of a relation", bodies.RowsAnswer,
        parameters=(*_PAGE, _WHERE, _FORMAT), errors=(404, 410), columns=True,
    ),
    Entry(
        "GET", "/v1/views/{name}/changes", None, "Follow a relation", EVENTS,
        parameters=(*_FOLLOW, _WHERE), errors=(404, 409, 429), columns=True,
    ),
    Entry("GET", "/v1/views/{name}/level", changing.level, "The level of an integrity view", bodies.LevelAnswer, errors=(404,)),
    Entry(
        "PUT", "/v1/views/{name}/level", changing.set_level, "Set the level of an integrity view", bodies.LevelAnswer,
        bodies.LevelBody, errors=(403, 404, 408, 409, 413),
    ),
    Entry(
        "GET", "/v1/commits", reading.commits, "Commits and what they changed", bodies.CommitsAnswer,
        parameters=(
            Parameter("since", "those after this one", _NUMBER),
            Parameter("limit", "how many", {"type": "integer", "minimum": 1, "maximum": 1_000}),
            Parameter("view", "those that changed this relation", _TEXT),
        ),
        errors=(404, 410),
    ),
    Entry(
        "GET", "/v1/commits/{number}", reading.commit, "One commit", bodies.CommitTold, parameters=(_CHANGES,), errors=(404, 410),
    ),
    Entry(
        "POST", "/v1/query", reading.query, "Ask a question", bodies.RowsAnswer, bodies.QueryBody, (_FORMAT,),
        errors=(404, 408, 410, 413),
    ),
    Entry("POST", "/v1/why", reading.why, "Why a row is there, or not", bodies.WhyAnswer, bodies.WhyBody, errors=(404, 408, 413)),
    Entry("GET", "/v1/tokens", administering.tokens, "The tokens there are", bodies.TokensAnswer, errors=(403,)),
    Entry(
        "POST", "/v1/tokens", administering.create_token, "Make a token", bodies.TokenAnswer, bodies.NewToken,
        status=201, errors=(403, 408, 409, 413),
    ),
    Entry("DELETE", "/v1/tokens/{name}", administering.revoke_token, "Revoke a token", bodies.DoneAnswer, errors=(403, 404)),
    Entry(
        "POST", "/v1/tickets", administering.create_ticket, "A ticket to follow a view from a browser", bodies.TicketAnswer,
        bodies.TicketBody, status=201, errors=(404, 408, 413),
    ),
    Entry(
        "GET", "/v1/subscriptions", administering.subscriptions, "The token's named subscriptions", bodies.SubscriptionsAnswer,
    ),
    Entry(
        "DELETE", "/v1/subscriptions/{name}", administering.remove_subscription, "Forget a subscription", bodies.DoneAnswer,
        errors=(404,),
    ),
    Entry(
        "POST", "/v1/subscriptions/{name}/ack", administering.acknowledge, "Say up to where everything is taken",
        bodies.AcknowledgeBody, bodies.AcknowledgeBody, errors=(404, 408, 413),
    ),
)  # fmt: skip
