"""Feeds: what subscribers at any position are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from viewkeeper.serve.feeds import RING_EVENTS, Event, Every, Feed, Hub, Look, Topic
from viewkeeper.watched import Told, Wanted

TOPIC = Topic(Wanted("v"))


def single(commit: int) -> Event:
    return Event(commit, commit, b"%d;" % commit)


def test_what_comes_after_a_position() -> None:
    feed = Feed(TOPIC, 5)
    feed.take(Look(9, (single(7), single(9))))
    assert [feed.after(position) for position in (5, 6, 7, 8, 9)] == [(b"7;", 7), (b"7;", 7), (b"9;", 9), (b"9;", 9), (b"", 9)]
    assert feed.after(4) is None  # before its beginning only the log knows
    assert feed.after(12) == (b"", 12)  # a snapshot may be ahead of the feed
    feed.take(Look(20))
    assert feed.after(9) == (b"", 20)


def test_a_subscriber_inside_of_what_was_gathered_reads_the_log() -> None:
    feed = Feed(Topic(Wanted("v"), every=Every(commits=3)), 0)
    feed.take(Look(6, (Event(2, 5, b"2-5;"),)))
    assert [feed.after(position) for position in (0, 1, 2, 4, 5)] == [(b"2-5;", 5), (b"2-5;", 5), None, None, (b"", 6)]


def test_changes_that_cancel_each_other_are_not_forgotten() -> None:
    """A row came with commit 2 and went with 4. Who has it already must be told that it went."""
    feed = Feed(Topic(Wanted("v"), every=Every(commits=3)), 0)
    feed.take(Look(4, (Event(2, 4, b""),)))
    assert feed.after(1) == (b"", 4)
    assert feed.after(2) is None
    assert feed.after(3) is None


def test_the_ring_holds_the_last_events() -> None:
    feed = Feed(TOPIC, 0)
    for commit in range(1, RING_EVENTS + 11):
        feed.take(Look(commit, (single(commit),)))
    assert len(feed.events) == RING_EVENTS
    assert feed.after(9) is None
    assert feed.after(10) == (b"11;", 11)


def test_a_large_event_does_not_stay_beside_others() -> None:
    feed = Feed(TOPIC, 0)
    for commit in range(1, 5):
        feed.take(Look(commit, (Event(commit, commit, b"x" * 5_000_000),)))
    assert [event.commit for event in feed.events] == [4]
    assert feed.after(2) is None


class Subscriber:
    def __init__(self, takes: bool) -> None:
        self.takes, self.got = takes, b""

    def push(self, events: Sequence[Event]) -> bool:
        if self.takes:
            self.got += b"".join(one.data for one in events)
        return self.takes


def test_who_can_take_events_gets_them_and_who_cannot_is_woken() -> None:
    async def play() -> None:
        feed, ready, busy = Feed(TOPIC, 0), Subscriber(True), Subscriber(False)
        first, second = feed.moved(ready), feed.moved(busy)
        feed.take(Look(1, (single(1),)))
        feed.take(Look(2))
        feed.take(Look(3, (single(3),)))
        assert (ready.got, first.done(), second.done()) == (b"1;3;", False, True)
        feed.take(Look(4, reset="because"))
        assert first.done()
        assert (feed.reset_at, feed.after(3)) == (4, None)

    asyncio.run(play())


class Service:
    """Commits that are there as soon as they are counted."""

    def __init__(self) -> None:
        self.last = 0
        self.hub = Hub(self)
        self.before_return: Callable[[], None] = lambda: None

    async def read(self, function: Callable[[], Any], for_feed: bool = False) -> Any:
        found = function()
        self.before_return()
        return found

    def follow(self, topic: Topic, since: int, until: int | None) -> Told:
        return Told(self.last if until is None else until)

    def encode(self, topic: Topic, told: Told) -> tuple[Event, ...]:
        return ()

    def commit(self, *changed: str) -> None:
        self.last += 1
        self.hub.publish(self.last, frozenset(changed))


def test_a_commit_that_comes_when_a_look_has_just_ended_is_looked_at() -> None:
    async def play() -> None:
        service = Service()
        feed = service.hub.feed(TOPIC, 0)
        loop = asyncio.get_running_loop()

        def late() -> None:
            service.before_return = lambda: None
            loop.call_soon(service.commit, "v")

        service.before_return = late
        service.commit("v")
        for _ in range(20):
            await asyncio.sleep(0)
        assert (service.last, feed.upto, feed.task) == (2, 2, None)

    asyncio.run(play())


def test_a_feed_of_a_view_that_did_not_change_does_not_look() -> None:
    async def play() -> None:
        service = Service()
        feed = service.hub.feed(TOPIC, 0)
        service.commit("other")
        assert (feed.upto, service.hub.log_reads) == (1, 0)
        service.commit("v")
        service.commit("other")
        for _ in range(5):
            await asyncio.sleep(0)
        assert (feed.upto, service.hub.log_reads) == (3, 1)

    asyncio.run(play())


def test_a_feed_that_gathers_waits_for_enough_commits() -> None:
    async def play() -> None:
        service = Service()
        feed = service.hub.feed(Topic(Wanted("v"), every=Every(commits=3)), 0)
        seen = []
        for _ in range(7):
            service.commit("v")
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append(feed.upto)
        assert seen == [0, 0, 3, 3, 3, 6, 6]

    asyncio.run(play())
