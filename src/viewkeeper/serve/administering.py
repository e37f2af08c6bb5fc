"""Requests about tokens, tickets, named subscriptions, and the server itself."""

from __future__ import annotations

import datetime
import time

import msgspec
from starlette.responses import Response

import viewkeeper
from viewkeeper.serve.accounts import TICKET_SECONDS
from viewkeeper.serve.asking import bad
from viewkeeper.serve.bodies import (
    AcknowledgeBody,
    DoneAnswer,
    HealthAnswer,
    NewToken,
    SubscriptionsAnswer,
    SubscriptionTold,
    TicketAnswer,
    TicketBody,
    TokenAnswer,
    TokensAnswer,
)
from viewkeeper.serve.calls import Call
from viewkeeper.serve.envelopes import json_response
from viewkeeper.serve.service import LOCAL, Service
from viewkeeper.serve.settings import now, seconds_of


async def tokens(call: Call) -> Response:
    call.parameters.nothing_else()
    call.needs(call.grants.admin, "see tokens")
    return json_response(TokensAnswer([token for token in call.service.accounts.tokens() if token.name != LOCAL]))


async def create_token(call: Call) -> Response:
    call.parameters.nothing_else()
    call.needs(call.grants.admin, "make tokens")
    body = await call.struct(NewToken)
    expires = None if body.expires is None else now() + datetime.timedelta(seconds=seconds_of(body.expires))
    secret = call.service.accounts.create(body.name, body.grants, expires)
    return json_response(TokenAnswer(body.name, secret, expires), 201)


async def revoke_token(call: Call) -> Response:
    call.parameters.nothing_else()
    call.needs(call.grants.admin, "revoke tokens")
    name = call.path("name")
    if name == LOCAL:
        raise bad("this token is the server's own", "It is gone when the server ends.")
    call.service.accounts.revoke(name)
    call.service.streams.check_tokens()
    return json_response(DoneAnswer())


async def create_ticket(call: Call) -> Response:
    """For browsers, whose EventSource cannot send a token."""
    call.parameters.nothing_else()
    body = await call.struct(TicketBody)
    name = call.readable(body.view)
    if name not in call.service.names:
        raise call.unknown(name)
    ticket = call.service.accounts.create_ticket(call.token, name, time.time())
    return json_response(TicketAnswer(ticket, now() + datetime.timedelta(seconds=TICKET_SECONDS)), 201)


# ---- named subscriptions


async def subscriptions(call: Call) -> Response:
    call.parameters.nothing_else()
    found = call.service.accounts.subscriptions(call.token.name)
    told = [SubscriptionTold(s.name, msgspec.json.decode(s.question)["view"], s.acknowledged, s.created) for s in found]
    return json_response(SubscriptionsAnswer(told))


async def remove_subscription(call: Call) -> Response:
    call.parameters.nothing_else()
    call.service.accounts.unsubscribe(call.token.name, call.path("name"))
    return json_response(DoneAnswer())


async def acknowledge(call: Call) -> Response:
    call.parameters.nothing_else()
    body = await call.struct(AcknowledgeBody)
    if body.commit > call.service.last:
        raise bad(f"there is no commit {body.commit} yet", f"The last one is {call.service.last}.")
    commit = call.service.accounts.acknowledge(call.token.name, call.path("name"), body.commit, time.time())
    return json_response(AcknowledgeBody(commit))


# ---- the server


async def health(service: Service) -> Response:
    """Whether it is there; the only answer that needs no token."""
    status = 503 if service.closing else 200
    return json_response(HealthAnswer("closing" if service.closing else "ok", viewkeeper.__version__), status)


async def metrics(call: Call) -> Response:
    call.parameters.nothing_else()
    call.needs(call.grants.admin or call.grants.metrics, "see metrics")
    return Response(call.service.metrics.text(), media_type="text/plain; version=0.0.4")
