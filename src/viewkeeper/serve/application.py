"""The application: routes with authentication before them and one way to answer errors behind them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import viewkeeper
from viewkeeper.errors import ViewkeeperError
from viewkeeper.serve.administering import health
from viewkeeper.serve.bodies import IndexAnswer, RouteTold
from viewkeeper.serve.calls import Call, headers_of
from viewkeeper.serve.envelopes import LOG, error_response, internal_response, json_response
from viewkeeper.serve.following import start_of
from viewkeeper.serve.grants import Refused, Token
from viewkeeper.serve.hiding import visible_failure
from viewkeeper.serve.openapi import description
from viewkeeper.serve.routes import EVENTS, ROUTES, Entry
from viewkeeper.serve.service import Service
from viewkeeper.serve.streams import Send

Receive = Callable[[], Awaitable[Any]]
Scope = MutableMapping[str, Any]


def application(service: Service) -> Starlette:
    """The ASGI application of a service that is open."""
    paths: dict[str, dict[str, Entry]] = {}
    for entry in ROUTES:
        paths.setdefault(entry.path, {})[entry.method] = entry
    # In the order of the table, so that what is more special comes before what is less.
    routes = [Route(path, Endpoint(service, entries), methods=list(entries)) for path, entries in paths.items()]
    middleware = []
    if service.settings.allow_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(service.settings.allow_origins),
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=["authorization", "content-type", "idempotency-key", "last-event-id"],
                expose_headers=["viewkeeper-commit", "viewkeeper-next"],
            )
        )
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _no_route})
    app.router.redirect_slashes = False
    return app


class Endpoint:
    """One path: finds out who asks, answers, and counts."""

    def __init__(self, service: Service, entries: dict[str, Entry]) -> None:
        self.service, self.entries = service, entries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        entry = self.entries["GET" if scope["method"] == "HEAD" else scope["method"]]
        answer: Response | None
        try:
            answer = await self._answered(entry, scope, receive, send)
        except ViewkeeperError as error:
            answer = error_response(error)
        except asyncio.CancelledError:
            if not self.service.closing:
                raise
            answer = error_response(Refused(503, "CLOSING"))
        except Exception:
            LOG.exception("%s %s failed", entry.method, entry.path)
            answer = internal_response()
        status = 200 if answer is None else answer.status_code
        self.service.metrics.requests[entry.method, entry.path, status] += 1
        LOG.debug("%s %s %d %.1f ms", entry.method, entry.path, status, (time.monotonic() - started) * 1000)
        if answer is not None:
            if status in (408, 413):
                answer.headers["connection"] = "close"
            await answer(scope, receive, send)

    async def _answered(self, entry: Entry, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """None: the answer was a stream, and is over."""
        service = self.service
        if entry.path == "/healthz":
            return await health(service)
        if service.closing:
            raise Refused(503, "CLOSING")
        call = Call(service, scope, receive, self._token(entry, scope))
        if entry.handler is not None:
            try:
                return await entry.handler(call)
            except ViewkeeperError as error:
                raise visible_failure(error, call.grants, service.names) from None
        if entry.answer == EVENTS:
            start = await start_of(call)
            if scope["method"] == "HEAD":
                return Response(media_type=EVENTS)
            await service.streams.serve(start, receive, send, scope)
            return None
        call.parameters.nothing_else()
        if entry.path == "/openapi.json":
            return Response(description(), media_type="application/json")
        routes = [RouteTold(e.method, e.path, e.summary) for e in ROUTES]
        token = call.token
        return json_response(IndexAnswer(viewkeeper.__version__, service.last, token.name, token.grants, routes))

    def _token(self, entry: Entry, scope: Scope) -> Token:
        scheme, _, secret = headers_of(scope).get("authorization", "").partition(" ")
        found = self.service.accounts.find(secret.strip()) if scheme.lower() == "bearer" and secret else None
        if found is None and entry.answer == EVENTS and not scheme:
            ticket = Request(dict(scope)).query_params.get("ticket")
            if ticket:
                found = self.service.accounts.use_ticket(ticket, scope["path_params"]["name"], time.time())
        if found is None:
            raise Refused(401, "NO_TOKEN")
        return found


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "NO_ROUTE", 405: "NO_METHOD"}.get(error.status_code, "NO_ROUTE")
    answer = error_response(Refused(error.status_code, code, path=request.url.path[:200], method=request.method))
    answer.headers.update(error.headers or {})
    return answer
