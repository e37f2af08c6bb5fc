"""The client with a real server: what it asks for comes, as Python values, and what changes is told."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.serving import Server, make_warehouse, serving

from viewkeeper.client import Change, Client, connect, connect_async
from viewkeeper.errors import DataError, ProgramError, StoreError, ViolationError

PROGRAM = """
.decl depends(package: symbol, on: symbol)
.decl based_on(package: symbol, on: symbol)
based_on(p, q) :- depends(p, q).
based_on(p, r) :- based_on(p, q), depends(q, r).
.decl reached(package: symbol, on: symbol)
.external reached
reached(p, q) :- based_on(p, q).
.decl n(x: number)
.decl many(x: number)
many(x) :- n(x).
.type City <: symbol
.decl all_types(a: number, b: unsigned, c: float, d: City, e: bool, f: date, g: timestamp, h: decimal(10,2), i: bytes, j: number?)
.decl copied(a: number, b: unsigned, c: float, d: City, e: bool, f: date, g: timestamp, h: decimal(10,2), i: bytes, j: number?)
copied(a, b, c, d, e, f, g, h, i, j) :- all_types(a, b, c, d, e, f, g, h, i, j).
.decl limit(where: number, every: symbol)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path: Path = tmp_path_factory.mktemp("served") / "shop"
    with serving(make_warehouse(path, PROGRAM), "--heartbeat", "100ms", "--max-subscriptions", "10") as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connect(server.url, server.token) as connected:
        yield connected
        connected.commit(deletes={name: list(connected.view(name).rows()) for name in ("depends", "n", "all_types", "limit")})


ROW = (
    -(2**63),
    7,
    0.1,
    "Zürich 😀",
    True,
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 250000, tzinfo=datetime.UTC),
    Decimal("12345678.90"),
    b"\x00\xff",
    None,
)


def test_values_of_all_types_come_back_as_they_were(client: Client) -> None:
    other = (
        2**63 - 1,
        0,
        -1e300,
        "",
        False,
        datetime.date.min,
        datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
        Decimal("-0.01"),
        b"",
        3,
    )
    with client.live("copied") as copy, client.view("copied").follow() as changes:
        done = client.commit(inserts={"all_types": [ROW, other]})
        assert done.inserted == {"all_types": 2, "copied": 2}
        assert set(client.view("copied").rows()) == {ROW, other}
        assert set(next(changes).inserted) == {ROW, other}
        assert copy.wait_for(done.number or 0, 30)
        assert set(copy) == {ROW, other}
    found = client.query("copied(a, b, c, d, e, f, g, h, i, j)")
    assert set(found) == {ROW, other}
    assert found.names == tuple("abcdefghij")
    for column, value in zip("abcdefghi", ROW):
        assert list(client.view("copied", {column: value}).rows()) == [ROW], column


def test_columns_named_like_parameters(client: Client) -> None:
    client.commit(inserts={"limit": [(1, "2s"), (2, "5c")]})
    assert list(client.view("limit", {"where": 2, "every": "5c"}).rows()) == [(2, "5c")]
    assert list(client.view("limit", where=1).rows()) == [(1, "2s")]


def test_pages_are_of_one_commit(client: Client) -> None:
    client.commit(inserts={"n": [(number,) for number in range(25_000)]})
    found = client.view("many").rows()
    assert (len(found), found[0], found[-1]) == (25_000, (0,), (24_999,))
    assert len(client.query("many(x), x >= 12000")) == 13_000
    assert len(client.view("many").rows(where="x < 10")) == 10
    with client.live("many") as copy:
        assert len(copy) == 25_000


def test_the_past(client: Client) -> None:
    first = client.commit(inserts={"n": [(1,)]})
    client.commit(inserts={"n": [(2,)]}, deletes={"n": [(1,)]})
    assert list(client.view("many").rows(as_of=first.number)) == [(1,)]
    assert list(client.query("many(x)", as_of=first.number)) == [(1,)]
    assert [one["commit"] for one in client.log((first.number or 0) - 1, "many")] == [first.number, (first.number or 0) + 1]


def test_questions_without_columns(client: Client) -> None:
    client.commit(inserts={"n": [(1,)]})
    assert client.query("n(1)") and not client.query("n(2)")


def test_a_copy_has_what_was_committed_before_it_was_asked_for(client: Client) -> None:
    for number in range(5):
        done = client.commit(inserts={"n": [(number,)]})
        with client.live("many") as copy:
            assert (copy.commit, len(copy)) == (done.number, number + 1)


def test_a_preview_changes_nothing(client: Client) -> None:
    done = client.preview(inserts={"n": [(1,)]})
    assert (done.number, done.inserted) == (None, {"many": 1, "n": 1})
    assert not client.view("many").rows()


def test_a_key_makes_a_transaction_once(client: Client) -> None:
    first = client.commit(inserts={"n": [(1,)]}, key="once")
    again = client.commit(inserts={"n": [(1,)]}, key="once")
    assert (again.number, again.repeated, first.repeated) == (first.number, True, False)
    with pytest.raises(StoreError) as caught:
        client.commit(inserts={"n": [(2,)]}, key="once")
    assert caught.value.code == "KEY_REUSED"


def test_errors(client: Client) -> None:
    for error, code, ask in (
        (ProgramError, "UNKNOWN_RELATION", lambda: client.query("nothing(x)")),
        (StoreError, "UNKNOWN_RELATION", lambda: client.view("nothing").rows()),
        (StoreError, "UNKNOWN_RELATION", lambda: client.live("nothing")),
        (StoreError, "UNKNOWN_RELATION", lambda: next(client.view("nothing").follow())),
        (DataError, "BAD_ROWS", lambda: client.commit(inserts={"n": [("x",)]})),
        (DataError, "BASE_CONFLICT", lambda: client.commit(inserts={"many": [(1,)]})),
        (DataError, "BAD_ARGUMENT", lambda: client.view("many", y=1).rows()),
        (DataError, "BAD_ARGUMENT", lambda: client.live("many", x="one")),
        (DataError, "BAD_PARAMETER", lambda: client.view("many", x=None)),
        (ProgramError, "SYNTAX", lambda: client.live("many", where="x >")),
    ):
        with pytest.raises(error) as caught:
            ask()
        assert caught.value.code == code
        assert type(caught.value) is error


def test_who_has_seen_commits_that_are_not_there_begins_anew(client: Client) -> None:
    client.commit(inserts={"n": [(1,)]})
    with client.view("many").follow(since=10**6) as changes:
        change = next(changes)
        assert (change.kind, change.inserted) == ("reset", ((1,),))
        assert change.reason.startswith("there is no commit 1000000")


def test_integrity_views(client: Client) -> None:
    client.define(
        '.decl negative(x: number) negative(x) :- n(x), x < 0. .integrity negative(level="reject", message="{x} is negative")'
    )
    with pytest.raises(ViolationError) as caught:
        client.commit(inserts={"n": [(-1,), (1,)]})
    assert caught.value.code == "INTEGRITY_VIOLATED"
    violated = caught.value.violations["negative"]
    assert (violated.rows, violated.messages) == (((-1,),), ("-1 is negative",))  # type: ignore[attr-defined]
    assert client.set_level("negative", "warn")["violated"] == []
    with client.view("negative").follow() as changes:
        done = client.commit(inserts={"n": [(-1,), (1,)]})
        assert (done.violations["negative"].level, done.violations["negative"].rows) == ("warn", ((-1,),))
        assert next(changes).level == "warn"
    client.drop("negative")


def test_why(client: Client) -> None:
    client.commit(inserts={"depends": [("bash", "libc6")]})
    told = client.why('based_on("bash", "libc6")')
    assert told and str(told).startswith('based_on("bash", "libc6")   rule 1')
    assert [node["kind"] for node in told.nodes] == ["rule", "base"]
    assert not client.why('based_on("libc6", "bash")')


def test_views(client: Client) -> None:
    assert {view["name"]: view["kind"] for view in client.views()}["many"] == "view"


@pytest.mark.parametrize("view", ["based_on", "reached"])
def test_bound_and_filtered_copies(client: Client, view: str) -> None:
    client.commit(inserts={"depends": [("bash", "libc6"), ("zsh", "libc6")]})
    told: list[Change] = []
    with client.live(view, package="bash") as bash, client.live(view, where='package < "c"', key=("package", "on")) as before_c:
        bash.listen(told.append)
        client.commit(inserts={"depends": [("zsh", "libcap")]})
        last = client.commit(inserts={"depends": [("libc6", "gcc")]}).number or 0
        assert bash.wait_for(last, 30) and before_c.wait_for(last, 30)
        assert bash == {("bash", "libc6"), ("bash", "gcc")}
        assert set(before_c) == set(bash)
        assert told == [Change(last, last, (("bash", "gcc"),))]


def test_net_changes_and_hints(client: Client) -> None:
    with client.view("many").follow(every=3) as gathered, client.view("many").follow(mode="hint") as hints:
        first = client.commit(inserts={"n": [(1,), (2,)]}).number or 0
        client.commit(inserts={"n": [(3,)]}, deletes={"n": [(1,)]})
        last = client.commit(deletes={"n": [(3,)]}).number or 0
        assert next(gathered) == Change(last, first, ((2,),))
        assert [(change.commit, change.kind, change.inserted) for change in (next(hints), next(hints))] == [
            (first, "hint", ()),
            (first + 1, "hint", ()),
        ]


def test_a_view_that_is_defined_otherwise(client: Client) -> None:
    client.commit(inserts={"n": [(1,), (5,)]})
    client.define(".decl small(x: number) small(x) :- n(x), x < 3.")
    told: list[Change] = []
    with client.live("small", key="x") as copy:
        copy.listen(told.append)
        last = client.define(".decl small(x: number) small(x) :- n(x), x > 3.", replace=True).number or 0
        assert copy.wait_for(last, 30)
        assert (dict(copy), [(c.kind, c.inserted, c.deleted) for c in told]) == ({5: (5,)}, [("change", ((5,),), ((1,),))])
        last = client.define('.decl small(x: number, t: symbol) small(x, "a") :- n(x).', replace=True).number or 0
        assert copy.wait_for(last, 30)
        assert (dict(copy), told[-1].kind) == ({1: (1, "a"), 5: (5, "a")}, "reset")
        assert told[-1].deleted == ((5,),)
        client.drop("small")
        with pytest.raises(StoreError) as caught:
            copy.wait_for(last + 1, 30)
        assert caught.value.code == "UNKNOWN_RELATION"
        assert copy.state.startswith("stopped: ")


def test_a_token_that_is_revoked_ends_what_it_followed(server: Server, client: Client) -> None:
    token = server.make_token("short-lived", read=["many"])
    with connect(server.url, token) as other, other.live("many") as copy:
        assert server.ask("DELETE", "/v1/tokens/short-lived").status == 200
        with pytest.raises(StoreError) as caught:
            copy.wait_for(10**6, 30)
        assert caught.value.code in ("TOKEN_ENDED", "NO_TOKEN")
        with pytest.raises(StoreError):
            other.query("many(x)")


def test_what_a_token_may_not_read_is_not_there(server: Server, client: Client) -> None:
    token = server.make_token("narrow", read=["many"])
    with connect(server.url, token) as other:
        assert [view["name"] for view in other.views()] == ["many"]
        with pytest.raises(StoreError) as caught:
            other.live("based_on")
        assert caught.value.code == "UNKNOWN_RELATION"
        with pytest.raises(StoreError) as caught:
            other.define(".decl x(y: number)")
        assert caught.value.code == "FORBIDDEN"


def test_too_many_subscriptions(server: Server, client: Client) -> None:
    token = server.make_token("greedy", read=["*"])
    with connect(server.url, token) as other:
        copies = [other.live("many") for _ in range(10)]
        with pytest.raises(StoreError) as caught:
            other.live("many")
        assert caught.value.code == "TOO_MANY"
        assert {copy.state for copy in copies} == {"live"}


def test_a_commit_that_does_not_concern_a_copy_is_not_waited_for_long(tmp_path: Path) -> None:
    async def main(url: str, token: str) -> None:
        async with connect_async(url, token) as client, await client.live("many") as copy:
            done = await client.commit(inserts={"depends": [("a", "b")]})
            assert await copy.wait_for(done.number or 0, 30)
            assert (copy.commit, await copy.wait_for(99, 0.5)) == (done.number, False)

    with serving(make_warehouse(tmp_path / "shop", PROGRAM), "--heartbeat", "1h") as quiet:
        with (
            connect(quiet.url, quiet.token) as client,
            client.live("many") as copy,
            client.live("many", buffered=True) as later,
        ):
            done = client.commit(inserts={"depends": [("c", "d")]})
            assert copy.wait_for(done.number or 0, 30) and later.wait_for(done.number or 0, 30)
            assert (copy.commit, later.take(), later.commit) == (done.number, [], done.number)
            assert not copy.wait_for(99, 0.5)
        asyncio.run(main(quiet.url, quiet.token))


def test_with_an_event_loop(server: Server, client: Client) -> None:
    async def main() -> None:
        async with connect_async(server.url, server.token) as other:
            async with await other.live("based_on", package="a") as copy, other.view("many").follow() as changes:
                done = await other.commit(inserts={"depends": [("a", "b"), ("b", "c")], "n": [(1,)]})
                assert await copy.wait_for(done.number or 0, 30)
                assert copy == {("a", "b"), ("a", "c")}
                assert await anext(changes) == Change(done.number or 0, done.number or 0, ((1,),))
            assert await other.query("many(x)")
            assert await other.why("many(1)")
            assert (await other.preview(deletes={"n": [(1,)]})).deleted == {"many": 1, "n": 1}
            assert len(await other.views()) > 5
            assert await other.log((done.number or 0) - 1)

    asyncio.run(main())
