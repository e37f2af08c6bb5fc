"""The client: what it tells its program about errors and states, copies by key, copies that wait to be taken, and what it is made of."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fake_server import TOKEN, FakeServer, Faults, error

from viewkeeper import wire
from viewkeeper.client import Change, LiveMapping, connect, connect_async, copies
from viewkeeper.client.following import Backoff, BadStream, Following, Reached, Subscription
from viewkeeper.client.sse import Event, Events
from viewkeeper.errors import DataError, ProgramError, StoreError, ViewkeeperError
from viewkeeper.wire import Column

COLUMNS = (Column("n", "number", True), Column("name", "symbol", False))


@pytest.fixture
def server() -> FakeServer:
    with FakeServer() as started:
        yield started  # type: ignore[misc]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "next", lambda self: 0.001)


# ---- events


@given(
    st.lists(st.tuples(st.sampled_from(["change", "x"]), st.text(alphabet="ab:{} é", min_size=1), st.integers(0, 99))),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.data(),
)
def test_events_come_whole_however_the_bytes_are_cut(events: list[tuple[str, str, int]], end: str, data: st.DataObject) -> None:
    lines = [f": hello{end}event: {n}{end}id: {i}{end}data: {d}{end}{end}" for n, d, i in events]
    text = "".join(lines).encode() + b":\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parser, found = Events(), []
    for start, stop in zip([0, *cuts], [*cuts, len(text)]):
        found += parser.feed(text[start:stop])
    assert found == [Event(n, d.encode(), str(i)) for n, d, i in events]


def test_data_of_several_lines_and_events_without_data() -> None:
    assert list(Events().feed(b"data: a\ndata:b\n\nid: 7\n\nevent\ndata\n\n")) == [
        Event("message", b"a\nb", None),
        Event("", b"", None),
    ]


def event(name: str, data: str, number: int | None = None) -> bytes:
    return wire.event(name, data.encode(), number)


def test_a_change_that_was_told_is_not_told_again() -> None:
    following = Following(Subscription("r", since=7), COLUMNS)
    change = event("change", '{"commit":8,"first":8,"inserted":[[1,"a"]],"deleted":[]}', 8)
    assert list(following.receive(change)) == [Change(8, 8, ((1, "a"),))]
    assert list(following.receive(change)) == []
    assert list(following.receive(event("heartbeat", '{"commit":9}', 9))) == [Reached(9)]
    assert following.request()[2]["Last-Event-ID"] == "9"


def test_gathered_changes_that_overlap_with_what_was_told_are_refused() -> None:
    following = Following(Subscription("r", since=7, every="2s"), COLUMNS)
    with pytest.raises(BadStream, match="commits 6 to 9 overlap"):
        list(following.receive(event("change", '{"commit":9,"first":6,"inserted":[],"deleted":[]}', 9)))
    assert following.position == 7


def test_a_snapshot_without_its_end_is_thrown_away() -> None:
    following = Following(Subscription("r", snapshot=True))
    columns = '[{"name":"n","type":"number","key":true}]'
    part = event("snapshot", f'{{"commit":5,"columns":{columns},"rows":[[1],[2]],"more":true}}')
    last = event("snapshot", f'{{"commit":5,"columns":{columns},"rows":[[3]],"more":false}}', 5)
    assert list(following.receive(part)) == []
    following.lost()
    assert following.position is None
    assert following.request()[1] == {"snapshot": "1"}
    [whole] = following.receive(part + last)  # type: ignore[misc]
    assert (whole.inserted, following.position) == (((1,), (2,), (3,)), 5)
    assert "snapshot" not in following.request()[1]


def test_a_change_in_the_middle_of_a_snapshot_is_refused() -> None:
    following = Following(Subscription("r", snapshot=True))
    part = event("snapshot", '{"commit":5,"columns":[],"rows":[],"more":true}')
    with pytest.raises(BadStream, match="no end"):
        list(following.receive(part + event("heartbeat", '{"commit":6}', 6)))


@pytest.mark.parametrize("data", ["", "nonsense", "[]", '{"commit":"x","inserted":[],"deleted":[]}', '{"commit":8}',
                                  '{"commit":8,"inserted":[["x","a"]],"deleted":[]}', '{"commit":8,"inserted":[[1]],"deleted":[]}'])  # fmt: skip
def test_what_makes_no_sense_is_refused_and_moves_nothing(data: str) -> None:
    following = Following(Subscription("r", since=7), COLUMNS)
    with pytest.raises(BadStream):
        list(following.receive(event("change", data or "{}", 8)))
    assert following.position == 7


def test_events_of_a_newer_server_are_passed_over() -> None:
    assert list(Following(Subscription("r", since=7), COLUMNS).receive(event("weather", "{}", 8))) == []


# ---- errors


def test_nobody_there() -> None:
    with FakeServer() as gone:
        url = gone.url
    with connect(url, TOKEN, patience=0) as client:
        for ask in (lambda: client.query("r(x, y)"), lambda: client.live("r"), lambda: next(client.view("r").follow())):
            with pytest.raises(StoreError) as caught:
                ask()
            assert caught.value.code == "UNREACHABLE"


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://host", "http://", "http://[", "127.0.0.1:80"])
def test_bad_address(url: str) -> None:
    with pytest.raises(DataError) as caught:
        connect(url, TOKEN)
    assert caught.value.code == "BAD_PARAMETER"


def test_a_token_that_no_header_can_carry_is_not_told() -> None:
    with pytest.raises(DataError) as caught:
        connect("http://127.0.0.1:1", "secret\nX: y")
    assert "secret" not in str(caught.value)


def test_bad_token(server: FakeServer) -> None:
    with connect(server.url, "vk_wrong") as client:
        for ask in (lambda: client.commit(), lambda: client.live("r")):
            with pytest.raises(StoreError) as caught:
                ask()
            assert (caught.value.code, caught.value.problems[0].hint) == ("UNAUTHORIZED", "wait")


def test_errors_have_the_class_and_the_texts_of_the_server(server: FakeServer) -> None:
    problems = [
        {"code": "FROM_TOMORROW", "message": "new", "hint": "update", "rendered": "error[FROM_TOMORROW]: new\n --> q:1:2"},
        {"code": "UNKNOWN_RELATION", "message": "what", "hint": "", "place": {"source": "q", "line": 1, "column": 2}},
    ]
    body = {
        **problems[0],
        "kind": "program",
        "problems": problems,
    }
    server.answer = lambda method, path: (400, {"error": body})
    with connect(server.url, TOKEN) as client, pytest.raises(ProgramError) as caught:
        client.query("what(x)")
    assert str(caught.value) == "error[FROM_TOMORROW]: new\n --> q:1:2\n\nerror[UNKNOWN_RELATION]: what"


def test_a_question_that_takes_too_long_is_not_asked_again(server: FakeServer) -> None:
    server.answer = lambda method, path: (503, error("QUERY_TOO_SLOW", "it takes too long"))
    with connect(server.url, TOKEN) as client, pytest.raises(StoreError) as caught:
        client.query("r(x, y)")
    assert (caught.value.code, len(server.requests)) == ("QUERY_TOO_SLOW", 1)


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_something_else_is_there(server: FakeServer, status: int) -> None:
    server.answer = lambda method, path: (status, {"hello": "there"})
    with connect(server.url, TOKEN, patience=0) as client, pytest.raises(StoreError) as caught:
        client.live("r")
    assert caught.value.code == "BAD_ANSWER"


def test_a_view_that_goes_stops_its_copy(server: FakeServer) -> None:
    with connect(server.url, TOKEN) as client, client.live("r") as copy:
        assert copy.state == "live"
        server.answer = lambda method, path: (404, error("UNKNOWN_RELATION", "there is no r"))
        server.cut_all()
        with pytest.raises(StoreError) as caught:
            copy.wait_for(99, 10)
        assert caught.value.code == "UNKNOWN_RELATION"
        assert copy.state == "stopped: there is no r"


def test_a_stream_of_nonsense_ends(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.commit([(1, "a")])
    monkeypatch.setattr(server, "history", [([("not a number", "a")], [])])
    with connect(server.url, TOKEN) as client, pytest.raises(StoreError) as caught:
        next(client.view("r").follow(since=0))
    assert caught.value.code == "BAD_ANSWER"


def test_a_definition_is_not_sent_twice_if_it_may_have_arrived() -> None:
    def cut(method: str, path: str) -> None:
        raise ConnectionResetError

    with FakeServer() as server, connect(server.url, TOKEN) as client:
        server.answer = cut  # type: ignore[assignment]
        with pytest.raises(StoreError, match="may be done or not"):
            client.define(".decl r(x: number)")
        assert len(server.requests) == 1


# ---- states


def test_a_copy_tells_that_the_server_is_away_and_goes_on_when_it_is_back(server: FakeServer) -> None:
    with connect(server.url, TOKEN, patience=0) as client, client.live("r") as copy:
        away = threading.Event()
        server.answer = lambda method, path: away.set() or (503, error("CLOSING", "away"))  # type: ignore[func-returns-value]
        server.cut_all()
        assert away.wait(10)
        assert copy.state == "reconnecting"
        server.commit([(1, "a")])
        server.answer = lambda method, path: None
        assert copy.wait_for(1, 10)
        assert (copy.state, set(copy)) == ("live", {(1, "a")})


def test_a_silent_connection_is_taken_for_dead(server: FakeServer) -> None:
    server.heartbeat = 1000
    with connect(server.url, TOKEN, silence=0.05) as client, client.view("r").follow() as changes:
        reader = threading.Thread(target=lambda: next(changes, None))
        reader.start()
        while sum("changes" in target for _, target, _ in list(server.requests)) < 3:
            reader.join(0.01)
        changes.close()
        reader.join(10)
        assert not reader.is_alive()


def test_closing_ends_who_waits(server: FakeServer) -> None:
    client = connect(server.url, TOKEN)
    copy = client.live("r")
    changes = client.view("r").follow()
    found: list[list[Change]] = []
    with changes:
        reader = threading.Thread(target=lambda: found.append(list(changes)))
        reader.start()
        client.close()
        reader.join(10)
    assert found == [[]]
    assert copy.state == changes.state == "stopped: closed"
    assert not copy.wait_for(99, 10)


def test_what_is_followed_from_now_on_misses_nothing_before_its_first_event(server: FakeServer) -> None:
    server.heartbeat = 1000
    server.commit([(1, "a")])
    with connect(server.url, TOKEN) as client, client.view("r").follow() as changes:
        server.answer = lambda method, path: (503, error("BUSY", "away"))
        server.cut_all()
        server.commit([(2, "b")])
        server.answer = lambda method, path: None
        assert next(changes) == Change(2, 2, ((2, "b"),))


# ---- copies


def test_a_copy_by_key(server: FakeServer) -> None:
    server.commit([(1, "a"), (2, "b")])
    with connect(server.url, TOKEN) as client, client.live("r", key="n") as copy:
        assert isinstance(copy, LiveMapping)
        assert dict(copy) == {1: (1, "a"), 2: (2, "b")}
        server.commit([(1, "c")], [(1, "a")])
        assert copy.wait_for(2, 10)
        assert (copy[1], copy.get(3), len(copy), 2 in copy) == ((1, "c"), None, 2, True)
    with connect(server.url, TOKEN) as client, client.live("r", key=("n", "name")) as copy:
        assert set(copy) == {(1, "c"), (2, "b")}


@pytest.mark.parametrize(("key", "why"), [("nam", 'has no column "nam"'), ("name", "have the same name: 'a'")])
def test_a_key_that_is_none(server: FakeServer, key: str, why: str) -> None:
    server.commit([(1, "a"), (2, "a")])
    with connect(server.url, TOKEN) as client, pytest.raises(DataError, match=why) as caught:
        client.live("r", key=key)
    assert caught.value.code == "BAD_KEY"


def test_a_copy_that_does_not_fit_stops_as_it_was(server: FakeServer) -> None:
    server.commit([(1, "a")])
    with connect(server.url, TOKEN) as client, client.live("r") as copy:
        server.rows.add((2, "b"))  # behind everybody's back
        server.commit([(3, "c")], [(2, "b")])
        with pytest.raises(StoreError) as caught:
            copy.wait_for(2, 10)
        assert caught.value.code == "COPY_DIFFERS"
        assert (set(copy), copy.commit) == ({(1, "a")}, 1)


def test_listeners_are_told_once_for_a_transaction_and_see_it_whole(server: FakeServer) -> None:
    seen: list[tuple[Change, frozenset[object]]] = []
    with connect(server.url, TOKEN) as client, client.live("r") as copy:
        stop = copy.listen(lambda change: seen.append((change, copy.rows())))
        copy.listen(lambda change: 1 / 0)
        server.commit([(1, "a"), (2, "b")])
        server.commit([], [(1, "a")])
        assert copy.wait_for(2, 10)
        stop()
        server.commit([(3, "c")])
        assert copy.wait_for(3, 10)
    assert [(c.commit, rows) for c, rows in seen] == [(1, {(1, "a"), (2, "b")}), (2, {(2, "b")})]


def test_a_buffered_copy_moves_when_its_program_says_so(server: FakeServer) -> None:
    server.commit([(1, "a")])
    told: list[int] = []
    with connect(server.url, TOKEN) as client, client.live("r", buffered=True) as copy:
        copy.listen(lambda change: told.append(change.commit))
        server.commit([(2, "b")])
        server.commit([(3, "c")], [(1, "a")])
        assert copy.wait_for(3, 10)
        assert (set(copy), copy.commit, copy.waiting, told) == ({(1, "a")}, 1, 2, [])
        assert [change.commit for change in copy.take()] == [2, 3]
        assert (set(copy), copy.commit, copy.waiting, told) == ({(2, "b"), (3, "c")}, 3, 0, [2, 3])
        assert copy.take() == []
        late = threading.Thread(target=server.commit, args=([(4, "d")],))
        late.start()
        assert [change.commit for change in copy.take(timeout=10)] == [4]
        late.join()


def test_a_buffer_that_is_full_takes_no_more_until_something_is_taken(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "MOST_WAITING", 5)
    with connect(server.url, TOKEN) as client, client.live("r", buffered=True) as copy:
        for number in range(50):
            server.commit([(number, "x")])
        taken: list[int] = []
        while len(taken) < 50:
            assert copy.waiting <= 3
            taken += [change.commit for change in copy.take(timeout=10)]
        assert taken == list(range(1, 51))
        assert len(copy) == 50


def test_a_copy_with_an_event_loop(server: FakeServer) -> None:
    async def main() -> None:
        async with connect_async(server.url, TOKEN) as client:
            async with await client.live("r", buffered=True) as copy:
                assert (await client.commit(inserts={"r": [(1, "a")]})).number == 1
                assert [change.commit for change in await copy.take(timeout=10)] == [1]
                assert (set(copy), copy.state) == ({(1, "a")}, "live")
                assert await copy.take() == []
                assert not await copy.wait_for(9, timeout=0.01)
            assert copy.state == "stopped: closed"
            async with client.view("r").follow() as changes:
                await client.commit(inserts={"r": [(2, "b")]})
                assert await anext(changes) == Change(2, 2, ((2, "b"),))
            with pytest.raises(ViewkeeperError):
                await client.live("r", key="wrong")
            assert list(await client.view("r").rows()) == [(1, "a"), (2, "b")]

    asyncio.run(main())


# ---- named subscriptions


def test_a_named_subscription_begins_behind_what_was_acknowledged(server: FakeServer) -> None:
    server.commit([(1, "a")])
    with connect(server.url, TOKEN) as client:
        with client.view("r").follow(name="mine") as changes:
            assert (next(changes).kind, changes.commit) == ("snapshot", 1)
            changes.ack()
        server.commit([(2, "b")])
        server.commit([(3, "c")])
        with client.view("r").follow(name="mine") as changes:
            assert [next(changes).commit, next(changes).commit] == [2, 3]
            changes.ack(2)
        with client.view("r").follow(name="mine") as changes:
            assert next(changes).commit == 3
        with client.view("r").follow() as changes, pytest.raises(StoreError):
            changes.ack()


# ---- what it is made of


def test_the_client_needs_neither_arrow_nor_a_parser_nor_the_server() -> None:
    code = "import sys, viewkeeper.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pyarrow", "pandas", "pyspark", "lark", "sqlglot", "typer", "starlette", "uvicorn", "sqlite3"}
    assert not heavy & set(done.stdout.split())


def test_faults_are_reproducible() -> None:
    assert [Faults(3).happens(0.5) for _ in range(3)] == [Faults(3).happens(0.5) for _ in range(3)]
