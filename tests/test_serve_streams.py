"""Streams of changes: no gap and no repetition, whatever happens between a client and the server."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serving import Event, Events, Server, make_warehouse, serving, start

import viewkeeper as vk
from viewkeeper.serve.service import Service
from viewkeeper.serve.settings import Settings

DEAR = "/v1/views/dear/changes"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = make_warehouse(tmp_path_factory.mktemp("streams") / "shop")
    with serving(path, "--heartbeat", "300ms", "--max-subscriptions", "60") as started:
        yield started


class Copy:
    """What a client holds; refuses events that do not fit it."""

    def __init__(self) -> None:
        self.rows: set[tuple[Any, ...]] = set()
        self.commit = -1
        self.commits: list[int] = []

    def take(self, event: Event) -> None:
        data = event.data
        if event.name in ("snapshot", "reset"):
            if self.commit != data["commit"] or event.name == "reset":
                self.rows = set()
            self.rows |= {tuple(row) for row in data["rows"]}
            self.commit = data["commit"]
            assert (event.id is None) == data["more"]
        elif event.name == "change":
            came, went = ({tuple(row) for row in data[name]} for name in ("inserted", "deleted"))
            assert self.commit < data["first"] <= data["commit"] == event.id
            assert not came & self.rows and went <= self.rows
            self.rows = (self.rows - went) | came
            self.commit = data["commit"]
            self.commits.append(data["commit"])
        elif event.name == "heartbeat":
            assert data["commit"] >= self.commit
            self.commit = data["commit"]

    def follow(self, events: Events, until: int) -> None:
        """Takes events up to a commit."""
        while self.commit < until:
            self.take(events.next(skip=()))


def answer(server: Server, view: str, arguments: str = "") -> tuple[set[tuple[Any, ...]], int]:
    found = server.get(f"/v1/views/{view}?{arguments}").json
    return {tuple(row) for row in found["rows"]}, found["commit"]


def test_one_event_for_each_commit_that_changed_the_answer(server: Server) -> None:
    with server.follow(DEAR) as events:
        first = server.commit("price", ["ink", 250]).json["commit"]
        server.commit("price", ["pen", 50])
        server.commit("price", ["ink", 300], op="upsert")
        assert events.next() == Event(
            "change", first, {"commit": first, "first": first, "inserted": [["ink", 250]], "deleted": []}
        )
        second = events.next()
        assert (second.id, second.data["inserted"], second.data["deleted"]) == (first + 2, [["ink", 300]], [["ink", 250]])


def test_last_event_id_resumes_without_loss_or_repetition(server: Server) -> None:
    with server.follow(DEAR) as events:
        commits = [server.commit("price", [f"resume {n}", 200 + n]).json["commit"] for n in range(6)]
        seen = [events.next().id for _ in range(3)]
    with server.follow(DEAR, headers={"Last-Event-ID": str(seen[-1])}) as events:
        seen += [events.next().id for _ in range(3)]
        more = server.commit("price", ["resume 6", 300]).json["commit"]
        seen.append(events.next().id)
    assert seen == [*commits, more]
    # It is stronger than what the address says: a browser asks the same address again.
    with server.follow(f"{DEAR}?snapshot=1", headers={"Last-Event-ID": str(commits[-1])}) as events:
        assert (events.next().id) == more


def test_a_snapshot_has_no_gap_while_a_writer_commits(server: Server) -> None:
    stop = threading.Event()
    last = [0]

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            row = [f"gap {number % 40}", 100 + number]
            last[0] = server.commit("price", row, op="upsert").json["commit"]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = []
        for _ in range(15):
            copy = Copy()
            with server.follow(f"{DEAR}?snapshot=1") as events:
                copy.take(events.next())
                copy.follow(events, copy.commit + 5)
            found = server.get(f"/v1/views/dear?as_of={copy.commit}").json["rows"]
            assert copy.rows == {tuple(row) for row in found}
            copies.append(copy)
    finally:
        stop.set()
        writer.join()
    assert all(copy.commits == list(range(copy.commits[0], copy.commits[0] + len(copy.commits))) for copy in copies)


def test_a_large_snapshot_comes_in_parts(server: Server) -> None:
    rows = [[f"many {n}", "2026-01-01", n] for n in range(11_000)]
    commit = server.commit("sold", *rows).json["commit"]
    with server.follow("/v1/views/sold/changes?snapshot=1") as events:
        parts = [events.next() for _ in range(3)]
        assert [(len(part.data["rows"]), part.data["more"], part.id) for part in parts] == [
            (5_000, True, None),
            (5_000, True, None),
            (1_000, False, commit),
        ]
        server.commit("sold", *rows[:10_500], op="delete")
        assert len(events.next().data["deleted"]) == 10_500


def test_bound_columns_and_filters(server: Server) -> None:
    with (
        server.follow(f"{DEAR}?item=bound&snapshot=1") as bound,
        server.follow(f"{DEAR}?where=cents%20%3E%20900&snapshot=1") as filtered,
        server.follow(f"{DEAR}?item=bound&where=cents%20%3E%20900&snapshot=1") as both,
    ):
        for events in (bound, filtered, both):
            events.next()
        server.commit("price", ["bound", 800], ["other", 950])
        last = server.commit("price", ["bound", 990], op="upsert").json["commit"]
        assert [bound.next().data["inserted"] for _ in range(2)] == [[["bound", 800]], [["bound", 990]]]
        assert [filtered.next().data["inserted"] for _ in range(2)] == [[["other", 950]], [["bound", 990]]]
        only = both.next()
        assert (only.data["inserted"], only.data["deleted"], only.id) == ([["bound", 990]], [], last)


def test_hints_tell_only_that_it_changed(server: Server) -> None:
    with server.follow(f"{DEAR}?mode=hint") as events:
        commit = server.commit("price", ["hinted", 500]).json["commit"]
        assert events.next() == Event("hint", commit, {"commit": commit, "first": commit})


def test_several_commits_in_one_event(server: Server) -> None:
    with server.follow(f"{DEAR}?every=3c") as events:
        commits = [server.commit("price", ["often", 500 + n], op="upsert").json["commit"] for n in range(6)]
        for first, last in ((0, 2), (3, 5)):
            event = events.next()
            assert (event.data["first"], event.data["commit"], event.id) == (commits[first], commits[last], commits[last])
            assert event.data["inserted"] == [["often", 500 + last]]
        assert event.data["deleted"] == [["often", 502]]


def test_at_most_every_so_often(server: Server) -> None:
    copy = Copy()
    with server.follow(f"{DEAR}?every=400ms&snapshot=1") as events:
        copy.take(events.next())
        last = 0
        for n in range(30):
            last = server.commit("price", ["seldom", 500 + n], op="upsert").json["commit"]
        copy.follow(events, last)
    assert copy.rows == answer(server, "dear")[0]
    assert len(copy.commits) < 30


def test_subscribers_that_gather_from_different_commits_on(server: Server) -> None:
    """They share a feed, but begin at different places of what it gathers."""
    copies = [Copy() for _ in range(4)]
    path = f"{DEAR}?every=4c&snapshot=1"
    with (
        server.follow(path) as one,
        server.follow(path) as two,
        server.follow(path) as three,
        server.follow(path) as four,
    ):
        last = 0
        streams = [one, two, three, four]
        for copy, events in zip(copies, streams, strict=True):
            server.commit("price", ["shared", 600], op="insert")
            copy.take(events.next())
            server.commit("price", ["shared", 600], op="delete")
            last = server.commit("price", [f"shared {len(copies)}", 600 + last % 7], op="upsert").json["commit"] or last
        for n in range(16):
            last = server.commit("price", ["shared end", 600 + n], op="upsert").json["commit"]
        want = last - 4
        for copy, events in zip(copies, streams, strict=True):
            copy.follow(events, want)
            rows = server.get(f"/v1/views/dear?as_of={copy.commit}").json["rows"]
            assert copy.rows == {tuple(row) for row in rows}


def test_heartbeats_say_up_to_where_nothing_changed(server: Server) -> None:
    with server.follow(DEAR) as events:
        commit = server.commit("price", ["quiet", 1]).json["commit"]
        while (event := events.next(skip=())).data["commit"] < commit:
            assert event.name == "heartbeat"
        assert event == Event("heartbeat", commit, {"commit": commit})


def test_definitions_are_changes(server: Server) -> None:
    rule = ".decl big(item: symbol) big(i) :- price(i, c), c >= {}."
    server.post("/v1/definitions", {"program": rule.format(300)})
    server.commit("price", ["defined", 350])
    with server.follow("/v1/views/big/changes?snapshot=1") as events:
        copy = Copy()
        copy.take(events.next())
        assert ("defined",) in copy.rows
        server.post("/v1/definitions", {"program": rule.format(400), "replace": True})
        event = events.next()
        copy.take(event)
        assert (["defined"] in event.data["deleted"], event.data["inserted"]) == (True, [])
        # Other columns: what the client holds is void.
        other = ".decl big(item: symbol, cents: number) big(i, c) :- price(i, c), c >= 300."
        server.post("/v1/definitions", {"program": other, "replace": True})
        event = events.next()
        assert (event.name, event.data["reason"]) == ("reset", "its columns have changed")
        assert [column["name"] for column in event.data["columns"]] == ["item", "cents"]
        copy.take(event)
        server.commit("price", ["defined", 360], op="upsert")
        copy.take(events.next())
        assert copy.rows == answer(server, "big")[0]
        server.post("/v1/definitions", {"drop": "big"})
        event = events.next()
        assert (event.name, event.data["error"]["code"]) == ("end", "UNKNOWN_RELATION")
        with pytest.raises(EOFError):
            events.next()


def test_views_that_are_not_stored_are_followed(server: Server) -> None:
    program = ".decl twice(a: symbol, b: symbol) twice(a, b) :- price(a, c), price(b, c), a < b. .external twice"
    assert server.post("/v1/definitions", {"program": program}).status == 200
    copy = Copy()
    with server.follow("/v1/views/twice/changes?snapshot=1") as events:
        copy.take(events.next())
        server.commit("price", ["twin a", 77_777])
        last = server.commit("price", ["twin b", 77_777]).json["commit"]
        copy.follow(events, last)
        assert ("twin a", "twin b") in copy.rows
        assert copy.rows == answer(server, "twice")[0]
    server.post("/v1/definitions", {"drop": "twice"})


def test_a_position_that_is_not_there_yet_starts_anew(server: Server) -> None:
    with server.follow(DEAR, headers={"Last-Event-ID": "1000000"}) as events:
        event = events.next()
        assert event.name == "reset"
        assert {tuple(row) for row in event.data["rows"]} == answer(server, "dear")[0]


def test_too_many_subscriptions_of_a_token(server: Server) -> None:
    from contextlib import ExitStack

    token = server.make_token("many streams", read=["dear"])
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(server.follow(DEAR, token=token))
        refused = server.get(DEAR, token=token)
        assert (refused.status, refused.code) == (429, "TOO_MANY")
        with server.follow(DEAR) as events:  # another token's are not counted
            server.commit("price", ["another", 999])
            assert events.next().name == "change"


# ---- named subscriptions


def test_a_named_subscription_goes_on_where_it_was_acknowledged(server: Server) -> None:
    path = f"{DEAR}?name=billing"
    copy = Copy()
    with server.follow(path) as events:
        copy.take(events.next())
        commits = [server.commit("price", [f"named {n}", 700]).json["commit"] for n in range(4)]
        seen = [events.next() for _ in range(3)]
        for event in seen[:2]:
            copy.take(event)
    said = server.post("/v1/subscriptions/billing/ack", {"commit": commits[1]})
    assert said.json == {"commit": commits[1]}
    with server.follow(path) as events:  # what was not acknowledged comes again, nothing else does
        again = [events.next(), events.next()]
        assert [event.id for event in again] == commits[2:]
        for event in again:
            copy.take(event)
    assert copy.rows == answer(server, "dear")[0]
    # It never goes back.
    assert server.post("/v1/subscriptions/billing/ack", {"commit": 1}).json == {"commit": commits[1]}
    too_far = server.post("/v1/subscriptions/billing/ack", {"commit": 10**6})
    assert (too_far.status, too_far.code) == (400, "BAD_ARGUMENT")
    told = server.get("/v1/subscriptions").json["subscriptions"]
    assert [(one["name"], one["view"], one["acknowledged"]) for one in told] == [("billing", "dear", commits[1])]
    differs = server.get(f"{path}&item=ink")
    assert (differs.status, differs.code) == (409, "SUBSCRIPTION_DIFFERS")
    assert server.ask("DELETE", "/v1/subscriptions/billing").status == 200
    gone = server.post("/v1/subscriptions/billing/ack", {"commit": 1})
    assert (gone.status, gone.code) == (404, "UNKNOWN_SUBSCRIPTION")
    other = server.make_token("other subscriber", read=["dear"])
    assert server.get("/v1/subscriptions", token=other).json == {"subscriptions": []}


# ---- the server ends


def test_streams_end_with_the_server_and_go_on_with_the_next(tmp_path: Path) -> None:
    path = make_warehouse(tmp_path / "shop")
    server = start(path)
    try:
        with server.follow(f"{DEAR}?snapshot=1") as events:
            copy = Copy()
            copy.take(events.next())
            server.commit("price", ["ink", 250])
            copy.take(events.next())
            server.process.terminate()
            event = events.next()
            assert (event.name, event.data["error"]["code"]) == ("end", "CLOSING")
            with pytest.raises(EOFError):
                events.next()
    finally:
        assert server.stop() == ""
    assert not (path / "server.token").exists()
    with serving(path) as server:
        server.commit("price", ["pen", 500])
        with server.follow(f"{DEAR}?snapshot=1", headers={"Last-Event-ID": str(copy.commit)}) as events:
            copy.take(events.next())
        assert copy.rows == {("ink", 250), ("pen", 500)}


def test_after_a_kill_nothing_is_lost_and_a_repeated_request_is_made_once(tmp_path: Path) -> None:
    path = make_warehouse(tmp_path / "shop")
    server = start(path)
    try:
        commits = [server.commit("price", [f"item {n}", 100 + n], key=f"key {n}").json["commit"] for n in range(5)]
        with server.follow(f"{DEAR}?since=1") as events:
            seen = [events.next().id for _ in range(2)]
    finally:
        server.kill()
        server.stop()
    with serving(path, token=server.token) as server:
        again = [server.commit("price", [f"item {n}", 100 + n], key=f"key {n}").json for n in range(6)]
        assert [one["repeated"] for one in again] == [True] * 5 + [False]
        assert [one["commit"] for one in again[:5]] == commits
        with server.follow(DEAR, headers={"Last-Event-ID": str(seen[-1])}) as events:
            seen += [events.next().id for _ in range(4)]
        assert seen == [*commits, again[-1]["commit"]]


# ---- the log is shortened


def test_a_reader_behind_the_log_starts_anew(tmp_path: Path) -> None:
    path = make_warehouse(tmp_path / "shop")
    with vk.open(path, engine="embedded") as shop:
        for n in range(10):
            shop.commit(upserts={"price": [("ink", 200 + n)]})
        shop.trim_log(3)
        oldest = shop.oldest()
    with serving(path) as server:
        with server.follow(f"{DEAR}?since={oldest}") as events:
            assert [events.next().id for _ in range(3)] == [oldest + 1, oldest + 2, oldest + 3]
        with server.follow(f"{DEAR}?since={oldest - 1}") as events:
            event = events.next()
            assert (event.name, event.data["rows"], event.id) == ("reset", [["ink", 209]], 11)
            assert event.data["reason"].startswith("the log begins")
            server.commit("price", ["pen", 300])
            assert events.next().data["inserted"] == [["pen", 300]]
        for path_ in (f"/v1/views/dear?as_of={oldest - 1}", f"/v1/commits/{oldest}?changes=rows", f"/v1/commits/{oldest}"):
            answer = server.get(path_)
            assert (answer.status, answer.code) == (410, "LOG_TRIMMED"), path_
        assert server.get("/v1/commits").json["oldest"] == oldest


@pytest.mark.parametrize("keep", [2, datetime.timedelta(days=1)])
def test_the_log_keeps_what_a_named_subscription_needs(tmp_path: Path, keep: int | datetime.timedelta) -> None:
    service = Service(make_warehouse(tmp_path / "shop"), Settings(keep_log=keep, keep_subscriptions=3600.0), "embedded")
    try:
        service.open("http://nowhere")
        for n in range(10):
            service.warehouse.commit(upserts={"price": [("ink", 200 + n)]})
        service.accounts.subscribe("admin", "billing", "{}", 5, time.time())
        service.accounts.subscribe("admin", "forgotten", "{}", 1, time.time() - 7200)
        service.trim_log()
        assert service.warehouse.oldest() == (5 if keep == 2 else 0)
        service.accounts.acknowledge("admin", "billing", 11, time.time())
        service.trim_log()
        assert service.warehouse.oldest() == (9 if keep == 2 else 0)
    finally:
        service.close()


def test_a_view_of_which_commits_tell_nothing_is_followed_all_the_same(server: Server) -> None:
    program = '.decl pricey(item: symbol, kind: symbol) virtual\npricey(i, k) :- price(i, c), c > 500, (k = i ; k = "any").'
    server.post("/v1/definitions", {"program": program})
    with server.follow("/v1/views/pricey/changes?kind=any") as events:
        server.commit("price", ["chalk", 5])
        commit = server.commit("price", ["lamp", 900]).json["commit"]
        assert events.next().data == {"commit": commit, "first": commit, "inserted": [["lamp", "any"]], "deleted": []}
        server.commit("price", ["desk", 800])
        gone = server.commit("price", ["lamp", 900], op="delete").json["commit"]
        assert events.next().data["inserted"] == [["desk", "any"]]
        assert events.next().data == {"commit": gone, "first": gone, "inserted": [], "deleted": [["lamp", "any"]]}
