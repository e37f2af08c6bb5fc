"""Commands about the server: start it, make and revoke tokens."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viewkeeper.cli.options import EngineOption, WarehousePath
from viewkeeper.errors import EngineError, problem

if TYPE_CHECKING:
    from viewkeeper.serve.accounts import Accounts

Names = list[str] | None


def serve(
    warehouse: WarehousePath,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: any that is free.")] = 8765,
    certfile: Annotated[Path | None, typer.Option(metavar="FILE", readable=False, help="A certificate, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(metavar="FILE", readable=False, help="Its key.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond this machine without TLS.")] = False,
    allow_origin: Annotated[
        Names, typer.Option(metavar="ORIGIN", help="Let pages of this origin ask, such as https://shop.example; repeatable.")
    ] = None,
    heartbeat: Annotated[
        str, typer.Option(metavar="TIME", help="How often quiet streams are told that they are up to date.")
    ] = "15s",
    stall: Annotated[str, typer.Option(metavar="TIME", help="When a reader that takes nothing is cut off.")] = "60s",
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1, help="The largest request.")] = 16 * 1024 * 1024,
    max_rows: Annotated[int, typer.Option(metavar="ROWS", min=1, help="The most rows of a transaction.")] = 100_000,
    max_subscriptions: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="The most streams of one token at a time.")
    ] = 2_000,
    query_seconds: Annotated[float, typer.Option(metavar="SECONDS", min=0.01, help="The longest time of a question.")] = 30.0,
    keep_log: Annotated[
        str | None,
        typer.Option(
            metavar="KEEP", help="What the log keeps: a time such as 30d, or a number of commits.", show_default="all"
        ),
    ] = None,
    keep_subscriptions: Annotated[
        str, typer.Option(metavar="TIME", help="How long the log waits for a named subscription that is not used.")
    ] = "7d",
    engine: EngineOption = "auto",
) -> None:
    """Serve a warehouse to applications over HTTP.

    Applications read views, follow their changes, and make transactions. The first start prints a token that may do
    everything, once; `viewkeeper token` makes others. While the server runs it is the only one that changes the
    warehouse: other commands find it and talk to it. It ends with Ctrl-C or SIGTERM.

    \b
    Examples:
      viewkeeper serve shop
      viewkeeper serve shop --host 0.0.0.0 --certfile cert.pem --keyfile key.pem
    """
    try:
        from viewkeeper.serve.running import serve as run
        from viewkeeper.serve.settings import Settings, seconds_of
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "viewkeeper":
            raise
        raise EngineError(problem("SERVE_MISSING")) from None
    settings = Settings(
        host=host,
        port=port,
        certfile=certfile,
        keyfile=keyfile,
        insecure=insecure,
        allow_origins=tuple(allow_origin or ()),
        heartbeat=seconds_of(heartbeat),
        stall=seconds_of(stall),
        max_body=max_body,
        max_rows=max_rows,
        max_subscriptions=max_subscriptions,
        query_seconds=query_seconds,
        keep_log=_kept(keep_log),
        keep_subscriptions=seconds_of(keep_subscriptions),
    )
    run(warehouse, settings, _tell, engine)


def _kept(text: str | None) -> datetime.timedelta | int | None:
    """What the log keeps: commits, or a time."""
    from viewkeeper.serve.settings import seconds_of

    if text is None:
        return None
    return int(text) if text.isascii() and text.isdecimal() else datetime.timedelta(seconds=seconds_of(text))


def _tell(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


token = typer.Typer(
    name="token",
    help="Make, list and revoke tokens for the server.",
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@token.command()
def create(
    warehouse: WarehousePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it in lists.")],
    read: Annotated[
        Names, typer.Option("--read", metavar="VIEW", help="A relation it may read, * for all; repeatable.")
    ] = None,
    write: Annotated[
        Names, typer.Option("--write", metavar="RELATION", help="A relation it may change, * for all; repeatable.")
    ] = None,
    define: Annotated[bool, typer.Option("--define", help="It may define and drop, and read everything.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="It may see the metrics.")] = False,
    admin: Annotated[bool, typer.Option("--admin", help="It may do everything, and make tokens.")] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it is valid, such as 30d.", show_default="for ever")
    ] = None,
) -> None:
    """Make a token; it is printed this once.

    Only a hash of it is stored. A view that a token may not read looks to it as if it did not exist.

    \b
    Examples:
      viewkeeper token create shop dashboard --read based_on
      viewkeeper token create shop loader --write depends --expires 30d
    """
    from viewkeeper.serve.grants import Grants
    from viewkeeper.serve.settings import now, seconds_of

    grants = Grants(tuple(read or ()), tuple(write or ()), define, metrics, admin)
    end = None if expires is None else now() + datetime.timedelta(seconds=seconds_of(expires))
    with _accounts(warehouse) as accounts:
        typer.echo(accounts.create(name, grants, end))


@token.command("list")
def list_(warehouse: WarehousePath) -> None:
    """List tokens and what they may do.

    \b
    Example:
      viewkeeper token list shop
    """
    from viewkeeper.cli.output import print_table

    with _accounts(warehouse) as accounts:
        tokens = accounts.tokens()
    rows = [
        [
            one.name,
            ", ".join(one.grants.read),
            ", ".join(one.grants.write),
            ", ".join(name for name in ("define", "metrics", "admin") if getattr(one.grants, name)),
            f"{one.created:%Y-%m-%d %H:%M}",
            "" if one.expires is None else f"{one.expires:%Y-%m-%d %H:%M}",
        ]
        for one in tokens
    ]
    print_table(["token", "reads", "writes", "may", "created", "expires"], rows, [False] * 6)


@token.command()
def revoke(
    warehouse: WarehousePath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The token.")],
) -> None:
    """Revoke a token; streams that use it end.

    \b
    Example:
      viewkeeper token revoke shop dashboard
    """
    with _accounts(warehouse) as accounts:
        accounts.revoke(name)
    typer.echo(f"revoked {name}")


@contextmanager
def _accounts(warehouse: Path) -> Iterator[Accounts]:
    """The tokens of a warehouse, if it is one."""
    import viewkeeper
    from viewkeeper.serve.accounts import Accounts

    viewkeeper.open(warehouse).close()
    accounts = Accounts(warehouse)
    try:
        yield accounts
    finally:
        accounts.close()
