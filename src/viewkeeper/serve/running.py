"""Starts a server and ends it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from viewkeeper.errors import StoreError, problem
from viewkeeper.serve.application import application
from viewkeeper.serve.calls import bad_request
from viewkeeper.serve.envelopes import envelope
from viewkeeper.serve.service import Service
from viewkeeper.serve.settings import Settings
from viewkeeper.serve.streams import PROTOCOL

_GRACE = 8
_SWITCH = 0.0005
_HEAD_SECONDS = 20.0
_LOOPBACK = ("localhost", "ip6-localhost")


class Protocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it; a connection must say what it wants in time, and streams can be cut off."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=128 * 1024)
        self._head = self.loop.call_later(_HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[PROTOCOL] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._head.cancel()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            # The next request has its time too; one that has not begun is ended by the keep-alive timeout before.
            self._head.cancel()
            self._head = self.loop.call_later(self.timeout_keep_alive + _HEAD_SECONDS, self._too_slow)

    def _too_slow(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered like anything else that is wrong."""
        body = envelope(bad_request("this is not HTTP", "Speak HTTP/1.1."))
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()


class Server(uvicorn.Server):
    """Ends streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.service, self.ready = service, ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end it well; they are not raised again when it has ended."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.service.start()
        await super().startup(sockets)
        if not self.should_exit:
            self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self.service.stop()
        await super().shutdown(sockets)


def serve(
    path: Path,
    settings: Settings,
    tell: Callable[[str], None],
    engine: str = "auto",
    durable: bool = True,
) -> None:
    """Serves a warehouse until it is told to stop (Ctrl-C, SIGTERM)."""
    check_host(settings)
    _log()
    _more_files()
    # The thread that talks to everybody must not wait long for one that computes.
    sys.setswitchinterval(_SWITCH)
    service = Service(path, settings, engine, durable)
    try:
        with _listening(settings) as listener:
            host, port = listener.getsockname()[:2]
            scheme = "http" if settings.certfile is None else "https"
            url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
            first = service.open(url)
            if first is not None:
                tell(f"admin token, shown only this once: {first}")
            config = uvicorn.Config(
                application(service),
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=settings.certfile,
                ssl_keyfile=settings.keyfile,
                timeout_graceful_shutdown=_GRACE,
                timeout_keep_alive=60,
                backlog=2048,
            )
            server = Server(config, service, lambda: tell(f"serving {path} at {url}"))
            with suppress(KeyboardInterrupt):
                server.run([listener])
        tell("stopped")
    finally:
        service.close()


def check_host(settings: Settings) -> None:
    """Beyond this machine only with TLS, unless told otherwise."""
    if settings.certfile is None and not settings.insecure and not _is_loopback(settings.host):
        raise StoreError(problem("INSECURE_HOST", host=settings.host))
    for file in (settings.certfile, settings.keyfile):
        if file is not None and not file.is_file():
            raise StoreError(problem("BAD_FILE", file=file, why="there is no such file", hint="Check the name."))
    if settings.certfile is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.certfile, settings.keyfile, password="")
        except (ssl.SSLError, OSError) as error:
            why = getattr(error, "reason", None) or error.strerror or str(error)
            hint = "Give a certificate in PEM form, and its key with --keyfile, without a password."
            raise StoreError(problem("BAD_FILE", file=settings.certfile, why=why, hint=hint)) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK


def _listening(settings: Settings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
        except BaseException:
            listener.close()
            raise
        return listener
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StoreError(problem("CANNOT_LISTEN", host=settings.host, port=settings.port, why=why)) from None


def _log() -> None:
    """What goes wrong is told on standard error; nothing of requests is."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("viewkeeper.serve", logging.INFO), ("uvicorn", logging.ERROR), ("asyncio", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)


def _more_files() -> None:
    """A connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65536), hard))
