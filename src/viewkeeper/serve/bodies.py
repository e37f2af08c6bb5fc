"""What requests carry and what answers say."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from viewkeeper.serve.grants import Grants, Token
from viewkeeper.wire import Column, ViolationBody

Natural = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Row = list[Any]


class Operation(Struct, frozen=True, forbid_unknown_fields=True):
    """A row to insert, delete or upsert: its values in order, or by the names of the columns."""

    relation: Name
    op: Literal["insert", "delete", "upsert"]
    row: list[Any] | dict[str, Any]


class TransactionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Operations that are made as one, in their order."""

    operations: list[Operation]


class DefinitionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """One of: a program, statements of SQL, the name of a relation to drop, or several. ``name``: what messages call the program.

    ``strict``: refuse to compute a view anew that holds rows.
    """

    program: str | None = None
    name: Annotated[str, Meta(max_length=500)] = "<program>"
    replace: bool = False
    strict: bool = False
    sql: str | None = None
    drop: Name | list[Name] | None = None


class QueryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a rule; ``as_of``: asked of what was there after a commit."""

    query: Annotated[str, Meta(min_length=1, max_length=100_000)]
    as_of: Natural | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    after: str | None = None


class WhyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A row such as ``based_on("bash", "libc6")``."""

    row: Annotated[str, Meta(min_length=1, max_length=100_000)]


class LevelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The level of an integrity view; null: it is none."""

    level: Literal["reject", "warn", "note"] | None


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to make; ``expires``: after a duration such as 30d."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    grants: Grants
    expires: str | None = None


class TicketBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The view whose changes the ticket is for."""

    view: Name


class AcknowledgeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The commit up to which everything is taken."""

    commit: Natural


# ---- answers


class ChangedAnswer(Struct, frozen=True, omit_defaults=True):
    """What came to a relation and what went: how many rows, or the rows themselves with their columns.

    ``before``: the columns of what went, where the commit has changed them.
    """

    inserted: int | list[Row]
    deleted: int | list[Row]
    columns: list[Column] | None = None
    before: list[Column] | None = None


class CommitAnswer(Struct, frozen=True):
    """What a change did; ``commit`` is null where nothing had to be changed, and of a preview."""

    commit: int | None
    repeated: bool
    engine: str
    reason: str
    seconds: float
    changes: dict[str, ChangedAnswer]
    violations: dict[str, ViolationBody]


class ResultAnswer(Struct, frozen=True, omit_defaults=True):
    """What a statement of SQL gave."""

    statement: str
    kind: str
    commit: int | None = None
    message: str | None = None
    columns: list[Column] | None = None
    rows: list[Row] | None = None


class DefinitionAnswer(Struct, frozen=True):
    """What a definition did: how many ``rows`` each view has that it computed; ``results`` has what each statement of SQL gave."""

    commit: int | None
    engine: str
    reason: str
    seconds: float
    rows: dict[str, int | None]
    changes: dict[str, ChangedAnswer]
    violations: dict[str, ViolationBody]
    results: list[ResultAnswer]


class RelationAnswer(Struct, frozen=True):
    """A relation: ``kind`` is base or view, ``rows`` null where nothing is stored, ``rules`` its declaration as text."""

    name: str
    kind: str
    columns: list[Column]
    rows: int | None
    level: str | None
    external: bool
    place: str
    declaration: str | None


class ViewsAnswer(Struct, frozen=True):
    views: list[RelationAnswer]
    commit: int


class RowsAnswer(Struct, frozen=True):
    """Rows after a commit; ``next`` is to be given as ``after`` for those that follow."""

    view: str | None
    commit: int
    columns: list[Column]
    rows: list[Row]
    next: str | None


class CommitTold(Struct, frozen=True):
    """A commit as the log has it."""

    commit: int
    time: str
    kind: str
    engine: str
    seconds: float
    reason: str
    changes: dict[str, ChangedAnswer]
    views: list[dict[str, Any]]


class CommitsAnswer(Struct, frozen=True):
    """Commits in order; ``last`` is the last one there is."""

    commits: list[CommitTold]
    last: int
    oldest: int


class WhyAnswer(Struct, frozen=True):
    """The tree as text, and its nodes: premises are numbers of others."""

    holds: bool
    text: str
    tree: list[dict[str, Any]]


class LevelAnswer(Struct, frozen=True):
    """The level of a view, and the rows that it has."""

    view: str
    level: str | None
    commit: int | None
    columns: list[Column]
    violated: list[Row]


class TokensAnswer(Struct, frozen=True):
    tokens: list[Token]


class TokenAnswer(Struct, frozen=True):
    """A new token; its text is told this once."""

    name: str
    token: str
    expires: datetime.datetime | None


class TicketAnswer(Struct, frozen=True):
    """A ticket for the address of a stream; it must be used before it expires."""

    ticket: str
    expires: datetime.datetime


class SubscriptionTold(Struct, frozen=True):
    name: str
    view: str
    acknowledged: int
    created: str


class SubscriptionsAnswer(Struct, frozen=True):
    subscriptions: list[SubscriptionTold]


class DoneAnswer(Struct, frozen=True):
    """Nothing more to say."""

    done: bool = True


class HealthAnswer(Struct, frozen=True):
    status: Literal["ok", "closing"]
    version: str


class RouteTold(Struct, frozen=True):
    method: str
    path: str
    summary: str


class IndexAnswer(Struct, frozen=True):
    """What there is to ask."""

    version: str
    commit: int
    token: str
    grants: Grants
    routes: list[RouteTold]


TRANSACTION = msgspec.json.Decoder(TransactionBody, float_hook=lambda text: _decimal(text))
OPERATION = msgspec.json.Decoder(Operation, float_hook=lambda text: _decimal(text))


def _decimal(text: str) -> Any:
    """Decimal keeps every digit; a float column turns it into the nearest float."""
    from decimal import Decimal

    return Decimal(text)
