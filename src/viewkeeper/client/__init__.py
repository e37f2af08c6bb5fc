"""Talking to a viewkeeper server: asking, changing, and holding answers that keep themselves current.

    from viewkeeper.client import connect

    with connect("http://127.0.0.1:8765", token) as shop:
        shop.commit(inserts={"depends": [("bash", "libc6")]})
        with shop.live("based_on") as based_on:
            ("bash", "libc6") in based_on

The life of a change: the server's bytes become events (``sse``), events become changes with a position (``following``), and a
transport hands each change over once (``blocking``, ``asynchronous``); ``live`` applies it to a copy.
Neither Spark nor Arrow nor a parser is imported here.
"""

from viewkeeper.client.answers import Committed, Rows, Told, Violation
from viewkeeper.client.asynchronous import AsyncChanges, AsyncClient, AsyncView, connect_async
from viewkeeper.client.blocking import Changes, Client, View, connect
from viewkeeper.client.following import Change
from viewkeeper.client.live import Live, LiveMapping, LiveSet
from viewkeeper.client.live_async import AsyncLive, AsyncLiveMapping, AsyncLiveSet

__all__ = [
    "AsyncChanges",
    "AsyncClient",
    "AsyncLive",
    "AsyncLiveMapping",
    "AsyncLiveSet",
    "AsyncView",
    "Change",
    "Changes",
    "Client",
    "Committed",
    "Live",
    "LiveMapping",
    "LiveSet",
    "Rows",
    "Told",
    "View",
    "Violation",
    "connect",
    "connect_async",
]
