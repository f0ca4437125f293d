"""Delivery ends before its call does: what a target took is known, and only the other records come again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tidetable.catalog import Entry, State
from tidetable.events import Event
from tidetable.feed import ChangeReader, Delivered, Feed, StreamRecord, deliver
from tidetable.feed.targets import FeedMessage
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAYOUT = Layout("time", 2, "id", 3_600)
ENTRY = Entry("s", find_containing(NOW, Kind.DAY), "tidetable-t.s.2026-03-01", LAYOUT, State.OPEN, NOW)


@dataclass
class Slow:
    """A target that takes two changes per request. A request needs 50 seconds, each ``later`` request so many."""

    clock: FakeClock
    later: float = 50
    arn: str = "slow"
    most_bytes: int = 1_000
    most_messages: int = 2
    most_together: int = 2_000
    taken: list[int] = field(default_factory=list)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        self.clock.time += timedelta(seconds=self.later if self.taken else 50)
        self.taken += [json.loads(message.body)["data"]["n"] for message in messages]


class Letters:
    """No change becomes a dead letter."""

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        raise AssertionError(reason)


def make_record(number: int) -> StreamRecord:
    item = LAYOUT.make_item(Event("a", NOW, f"event {number}", {"n": number}), at=number)
    return StreamRecord(str(number), "insert", ENTRY.table, item, NOW)


def send(target: Slow, *numbers: int, seconds: float) -> Delivered:
    """Deliver a batch in a call that has so many seconds."""
    clock, reader = target.clock, ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()))
    end = clock.now() + timedelta(seconds=seconds)
    feed = Feed("s", reader, [target], Letters(), clock, timedelta(hours=1), {ENTRY.table: ENTRY}.get)
    records = [make_record(number) for number in numbers]
    return deliver(records, feed, lambda: (end - clock.now()).total_seconds())


def test_a_batch_that_takes_longer_than_its_call_comes_again_from_the_first_unsent_record() -> None:
    """After two requests 20 seconds are left, but a request takes 50: a third request would end the call without answer."""
    target = Slow(FakeClock(NOW))
    delivered = send(target, 1, 2, 3, 4, 5, 6, seconds=120)
    assert (delivered.first_failure, delivered.sent) == ("5", 4)
    assert delivered.reason == "the time of this call is up; the other changes come with the next call"
    assert send(target, 5, 6, seconds=120).first_failure is None
    assert target.taken == [1, 2, 3, 4, 5, 6]


def test_a_batch_that_fits_into_its_call_is_sent_whole() -> None:
    target = Slow(FakeClock(NOW))
    assert send(target, 1, 2, 3, 4, seconds=105).first_failure is None
    assert target.taken == [1, 2, 3, 4]


def test_a_call_with_little_time_makes_one_request() -> None:
    """Otherwise a target whose requests take longer than a call would never get a change."""
    target = Slow(FakeClock(NOW))
    assert send(target, 1, 2, 3, seconds=4).first_failure == "3"
    assert target.taken == [1, 2]


def test_a_call_keeps_five_seconds_and_the_time_of_its_slowest_request() -> None:
    """After the first request 54.9 or 55 seconds are left. The second takes one second, the third might take 50 again."""
    target = Slow(FakeClock(NOW))
    assert send(target, 1, 2, 3, seconds=104.9).first_failure == "3"
    target = Slow(FakeClock(NOW), later=1)
    assert send(target, 1, 2, 3, 4, 5, seconds=105).first_failure == "5"
    assert target.taken == [1, 2, 3, 4]
