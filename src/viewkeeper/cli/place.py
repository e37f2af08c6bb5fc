"""Where a command works: on a warehouse's directory, or through the server that holds it.

While a server holds a warehouse, commands find it through the lock and talk to it. What only a server needs is imported when there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

import viewkeeper
from viewkeeper.errors import StoreError, problem

if TYPE_CHECKING:
    from viewkeeper.client import Client
    from viewkeeper.warehouse import Warehouse

TOKEN_FILE = "server.token"
_PATIENCE = 5.0


@contextmanager
def opened(place: str, token: str | None, engine: str = "auto") -> Iterator[Warehouse]:
    """The warehouse, or what talks to its server."""
    client = server_of(place, token)
    if client is None:
        with viewkeeper.open(place, engine=engine) as warehouse:
            yield warehouse
        return
    if engine != "auto":
        raise typer.BadParameter("a server chooses the engine itself", param_hint="--engine")
    from viewkeeper.cli.remote import Remote

    with client:
        yield cast("Warehouse", Remote(client))


def server_of(place: str, token: str | None) -> Client | None:
    """A client of the server at an address, or of the one that holds a warehouse; None if nobody does."""
    if place.startswith(("http://", "https://")):
        return _client(place, token or "")
    holder = viewkeeper.Warehouse.holder(place)
    if holder is None or "url" not in holder:
        return None
    url = str(holder["url"])
    return _client(url, _local_token(place, url) if token is None else token, holder.get("certfile"))


def _client(url: str, token: str, certificate: str | None = None) -> Client:
    from viewkeeper.client import Client
    from viewkeeper.client.persistence import Server

    # The server that holds the warehouse has told its certificate there.
    return Client(Server(url, token, patience=_PATIENCE, ca=certificate, any_name=certificate is not None))


def _local_token(place: str, url: str) -> str:
    try:
        return (Path(place) / TOKEN_FILE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise StoreError(problem("TOKEN_UNREADABLE", url=url)) from None
