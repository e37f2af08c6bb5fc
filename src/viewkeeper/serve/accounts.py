"""Tokens, tickets and named subscriptions: server.sqlite in the warehouse, readable by its owner only.

Of a token or ticket only a hash is stored. Several processes may use the file: the command line makes and revokes tokens while a server runs.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import msgspec

from viewkeeper.errors import DataError, StoreError, problem, shortened
from viewkeeper.serve.grants import Grants, Token
from viewkeeper.serve.settings import now

FILE = "server.sqlite"
LOCAL_TOKEN = "server.token"
TICKET_SECONDS = 60
TICKET_LIFE = 24 * 3600
_KNOWN_SECONDS, _MOST_KNOWN = 0.5, 10_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS token (
    name TEXT PRIMARY KEY, hash BLOB NOT NULL UNIQUE, created TEXT NOT NULL, expires TEXT, grants TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS ticket (
    hash BLOB PRIMARY KEY, token TEXT NOT NULL, view TEXT NOT NULL, created REAL NOT NULL, used REAL) STRICT;
CREATE TABLE IF NOT EXISTS subscription (
    token TEXT NOT NULL, name TEXT NOT NULL, question TEXT NOT NULL, acknowledged INTEGER NOT NULL, created TEXT NOT NULL,
    seen REAL NOT NULL, PRIMARY KEY (token, name)) STRICT;
"""


class Subscription(msgspec.Struct, frozen=True):
    """A named subscription: what is followed, and up to which commit its client has taken it."""

    name: str
    question: str
    acknowledged: int
    created: str


class Accounts:
    """The tables, behind one connection that several threads share."""

    def __init__(self, warehouse: Path) -> None:
        path = warehouse / FILE
        self._lock = Lock()
        self._known: dict[bytes, tuple[Token, float]] = {}
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
            with self._lock:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(problem("CATALOG_DAMAGED", path=path, why=str(error))) from None

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._connection

    # ---- tokens

    def is_first_start(self) -> bool:
        """True the first time it is asked, ever."""
        with self._using() as connection:
            [[before]] = connection.execute("PRAGMA user_version")
            connection.execute("PRAGMA user_version = 1")
        return not before

    def create(self, name: str, grants: Grants, expires: datetime.datetime | None = None) -> str:
        """A new token; its text is told this once."""
        check_name(name)
        secret = "vk_" + secrets.token_urlsafe(32)
        row = (name, _hash(secret), _text(now()), expires and _text(expires), msgspec.json.encode(grants).decode())
        try:
            with self._using() as connection:
                connection.execute("INSERT INTO token (name, hash, created, expires, grants) VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise StoreError(problem("TOKEN_EXISTS", name=name)) from None
        return secret

    def tokens(self) -> list[Token]:
        with self._using() as connection:
            rows = connection.execute("SELECT name, created, expires, grants FROM token ORDER BY name").fetchall()
        return [_token(*row) for row in rows]

    def find(self, secret: str) -> Token | None:
        """The token of a text, unless it has expired. It is looked up again after a moment: somebody else may have revoked it."""
        key, moment = _hash(secret), time.monotonic()
        known = self._known.get(key)
        if known is not None and known[1] > moment:
            return None if known[0].has_expired(now()) else known[0]
        sql = "SELECT name, created, expires, grants FROM token WHERE hash = ?"
        with self._using() as connection:
            row = connection.execute(sql, (key,)).fetchone()
        found = _valid(row)
        if found is None:
            self._known.pop(key, None)
        else:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found, moment + _KNOWN_SECONDS
        return found

    def named(self, name: str) -> Token | None:
        """The token of a name, unless it has expired or was revoked."""
        with self._using() as connection:
            row = connection.execute("SELECT name, created, expires, grants FROM token WHERE name = ?", (name,)).fetchone()
        return _valid(row)

    def revoke(self, name: str) -> None:
        """Takes back a token with its tickets and subscriptions."""
        self._known.clear()
        with self._using() as connection:
            if not connection.execute("DELETE FROM token WHERE name = ?", (name,)).rowcount:
                raise StoreError(problem("UNKNOWN_TOKEN", name=shortened(name)))
            connection.execute("DELETE FROM ticket WHERE token = ?", (name,))
            connection.execute("DELETE FROM subscription WHERE token = ?", (name,))

    # ---- tickets

    def create_ticket(self, token: Token, view: str, moment: float) -> str:
        """A text that stands for the token in the address of one stream."""
        ticket = "vt_" + secrets.token_urlsafe(32)
        with self._using() as connection:
            connection.execute(
                "DELETE FROM ticket WHERE coalesce(used + ?, created + ?) < ?", (TICKET_LIFE, TICKET_SECONDS, moment)
            )
            connection.execute("INSERT INTO ticket VALUES (?, ?, ?, ?, NULL)", (_hash(ticket), token.name, view, moment))
        return ticket

    def use_ticket(self, ticket: str, view: str, moment: float) -> Token | None:
        """The token it stands for. It must be used soon; whoever did may come back for a day."""
        with self._using() as connection:
            sql = "SELECT token, view, created, used FROM ticket WHERE hash = ?"
            row = connection.execute(sql, (_hash(ticket),)).fetchone()
            if row is None or row[1] != view:
                return None
            if (moment > row[2] + TICKET_SECONDS) if row[3] is None else (moment > row[3] + TICKET_LIFE):
                return None
            if row[3] is None:
                connection.execute("UPDATE ticket SET used = ? WHERE hash = ?", (moment, _hash(ticket)))
        return self.named(row[0])

    # ---- named subscriptions

    def subscription(self, token: str, name: str) -> Subscription | None:
        sql = "SELECT name, question, acknowledged, created FROM subscription WHERE token = ? AND name = ?"
        with self._using() as connection:
            row = connection.execute(sql, (token, name)).fetchone()
        return None if row is None else Subscription(*row)

    def subscriptions(self, token: str) -> list[Subscription]:
        sql = "SELECT name, question, acknowledged, created FROM subscription WHERE token = ? ORDER BY name"
        with self._using() as connection:
            return [Subscription(*row) for row in connection.execute(sql, (token,))]

    def subscribe(self, token: str, name: str, question: str, commit: int, moment: float) -> None:
        """A new subscription, that has taken everything up to a commit."""
        with self._using() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO subscription VALUES (?, ?, ?, ?, ?, ?)",
                (token, name, question, commit, _text(now()), moment),
            )

    def acknowledge(self, token: str, name: str, commit: int, moment: float) -> int:
        """Everything up to a commit is taken; it never goes back. Returns up to where it is now."""
        with self._using() as connection:
            found = connection.execute(
                "UPDATE subscription SET acknowledged = max(acknowledged, ?), seen = ? WHERE token = ? AND name = ?"
                " RETURNING acknowledged",
                (commit, moment, token, name),
            ).fetchall()
        if not found:
            raise StoreError(problem("UNKNOWN_SUBSCRIPTION", name=shortened(name)))
        return int(found[0][0])

    def unsubscribe(self, token: str, name: str) -> None:
        with self._using() as connection:
            if not connection.execute("DELETE FROM subscription WHERE token = ? AND name = ?", (token, name)).rowcount:
                raise StoreError(problem("UNKNOWN_SUBSCRIPTION", name=shortened(name)))

    def least_acknowledged(self, since: float) -> int | None:
        """What the log must keep for the subscriptions that were used since a moment; one that has taken nothing yet begins anew."""
        with self._using() as connection:
            [[least]] = connection.execute(
                "SELECT min(acknowledged) FROM subscription WHERE seen >= ? AND acknowledged >= 0", (since,)
            )
        return None if least is None else int(least)


def check_name(name: str) -> None:
    """Names are shown in lists and logs."""
    if not 1 <= len(name) <= 100 or not name.isprintable() or name.strip() != name:
        why = f'"{shortened(name)}" is no name'
        raise DataError(
            problem("BAD_ARGUMENT", why=why, hint="A name has 1 to 100 printable characters and no blanks around it.")
        )


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _text(moment: datetime.datetime) -> str:
    return moment.isoformat()


def _token(name: str, created: str, expires: str | None, grants: str) -> Token:
    moments = [None if text is None else datetime.datetime.fromisoformat(text) for text in (created, expires)]
    assert moments[0] is not None
    return Token(name, moments[0], msgspec.json.decode(grants, type=Grants), moments[1])


def _valid(row: tuple[str, str, str | None, str] | None) -> Token | None:
    token = None if row is None else _token(*row)
    return None if token is None or token.has_expired(now()) else token
