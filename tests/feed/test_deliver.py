"""Delivery: every change reaches every target at least once, and the changes of one event in their order."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tidetable.catalog import Entry, State
from tidetable.errors import ChangesRefused
from tidetable.events import Event
from tidetable.feed import ChangeReader, Feed, StreamRecord, deliver
from tidetable.feed.sending import send_messages
from tidetable.feed.targets import FeedMessage, Target
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAYOUT = Layout("time", 2, "id", 3_600)
PERIOD = find_containing(NOW, Kind.DAY)
ENTRY = Entry("s", PERIOD, "tidetable-t.s.2026-03-01", LAYOUT, State.OPEN, NOW)


@dataclass
class FakeTarget:
    """A target that fails as its random numbers say: it refuses some messages, or all, before or after it took them."""

    arn: str
    random: Random
    failing: float = 0.0
    most_bytes: int = 1_000
    most_messages: int = 3
    most_together: int = 2_000
    taken: list[tuple[str, int]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        # Delivery catches every Exception of a target; pytest.fail raises another.
        if not 0 < len(messages) <= self.most_messages:
            pytest.fail(f"a request of {len(messages)} messages")
        if len({message.identity for message in messages}) < len(messages):
            pytest.fail("a target may take the second of two alone")
        self.requests.append(len(messages))
        refused = [number for number in range(len(messages)) if self.random.random() < self.failing]
        for number, message in enumerate(messages):
            if number not in refused:
                change = json.loads(message.body)
                self.taken.append((change["id"], change["data"]["n"]))
        if self.random.random() < self.failing:
            raise TimeoutError("no answer in time")
        if refused:
            raise ChangesRefused(f"{len(refused)} are refused", refused)


@dataclass
class Refusing:
    """A target that never takes the changes of the events ``ids``."""

    arn: str
    ids: frozenset[str]
    most_bytes: int = 1_000
    most_messages: int = 10
    most_together: int = 2_000
    sent: list[list[str]] = field(default_factory=list)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        ids = [json.loads(message.body)["id"] for message in messages]
        self.sent.append(ids)
        if refused := [number for number, id in enumerate(ids) if id in self.ids]:
            raise ChangesRefused(f"{len(refused)} are refused", refused)


class Still(FakeClock):
    """A clock that stands still."""

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@dataclass
class FakeLetters:
    """The dead letters, by target."""

    buried: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    reasons: list[str] = field(default_factory=list)

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        assert stream == "s"
        self.buried[target] += bodies
        self.reasons.append(reason)


def record(number: int, id: str, *, kind: Any = "insert", created: datetime = NOW) -> StreamRecord:
    item = LAYOUT.make_item(Event("a", NOW, id, {"n": number}), at=number)
    return StreamRecord(str(number), kind, ENTRY.table, item, created)


def feed_to(*targets: Target, letters: FakeLetters | None = None, clock: FakeClock | None = None) -> Feed:
    reader = ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()))
    entries = {ENTRY.table: ENTRY}
    letters, clock = letters or FakeLetters(), clock or FakeClock(NOW)
    return Feed("s", reader, targets, letters, clock, timedelta(hours=1), entries.get)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.integers(1, 9),
    st.sampled_from([0.0, 0.2, 0.5]),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 2**32),
)
def test_every_change_arrives_at_every_target_in_the_order_of_its_event(
    ids: Sequence[str], batch: int, first: float, second: float, seed: int
) -> None:
    """Lambda sends a batch again from its first failure on, with as many records as it likes, and sometimes for nothing."""
    random = Random(seed)
    targets = [FakeTarget("one", random, first), FakeTarget("two", random, second)]
    feed = feed_to(*targets)
    records = [record(number, id) for number, id in enumerate(ids)]
    position = 0
    for _ in range(5_000):
        some = records[position : position + random.randint(1, batch)]
        delivered = deliver(some, feed, lambda: 100.0)
        if delivered.first_failure is not None:
            position = int(delivered.first_failure)
        elif random.random() < 0.9:
            position += len(some)
        if position == len(records):
            break
    assert position == len(records)
    for target in targets:
        for id in set(ids):
            arrived = [n for other, n in target.taken if other == id]
            sent = [n for n, other in enumerate(ids) if other == id]
            # What a receiver has that takes whatever comes: the newest, with every change before it at least once.
            assert set(arrived) == set(sent)
            assert arrived[-1] == sent[-1]
            for earlier, later in pairwise(sent):
                assert arrived.index(earlier) < arrived.index(later)
                assert arrived[::-1].index(later) < arrived[::-1].index(earlier)


def test_changes_of_one_event_are_never_in_one_request() -> None:
    target = FakeTarget("one", Random(1))
    deliver([record(n, id) for n, id in enumerate("aabcab")], feed_to(target), lambda: 100.0)
    assert target.taken == [("a", 0), ("a", 1), ("b", 2), ("c", 3), ("a", 4), ("b", 5)]
    assert target.requests == [1, 3, 2]


def test_a_request_has_as_many_bytes_as_the_target_takes_together() -> None:
    target = FakeTarget("one", Random(1), most_messages=10, most_together=650)
    deliver([record(n, id) for n, id in enumerate("abcdef")], feed_to(target), lambda: 100.0)
    assert target.requests == [2, 2, 2]


def test_a_change_that_is_too_large_goes_without_its_data() -> None:
    """Its ref names the event, which a query answers whole."""
    event = Event("a", NOW, "x", {"text": "x" * 2_000})
    big = StreamRecord("1", "insert", ENTRY.table, LAYOUT.make_item(event, at=1), NOW)
    bodies: list[Any] = []

    class Keeping(FakeTarget):
        def send(self, messages: Sequence[FeedMessage]) -> None:
            bodies.extend(json.loads(message.body) for message in messages)

    deliver([big], feed_to(Keeping("one", Random(1))), lambda: 100.0)
    assert [(body["id"], body["data"]) for body in bodies] == [("x", None)]
    assert bodies[0]["ref"]


@pytest.mark.parametrize(("age", "buried"), [(timedelta(hours=22, minutes=59), 0), (timedelta(hours=23, minutes=1), 2)])
def test_what_a_target_does_not_answer_becomes_a_dead_letter_in_its_last_hour_only(age: timedelta, buried: int) -> None:
    letters, clock = FakeLetters(), FakeClock(NOW)
    gone = FakeTarget("gone", Random(1), 1.0)
    records = [record(0, "a", created=NOW - age), record(1, "b", created=NOW - age), record(2, "c", created=NOW)]
    delivered = deliver(records, feed_to(gone, letters=letters, clock=clock), lambda: 100.0)
    assert delivered.first_failure == ("2" if buried else "0")
    assert [json.loads(body)["id"] for body in letters.buried["gone"]] == ["a", "b"][:buried]
    assert "TimeoutError: no answer in time" in (letters.reasons or [delivered.reason])[0]


def test_a_record_that_cannot_be_read_holds_up_those_after_it_until_it_is_a_dead_letter() -> None:
    """Its event may come again later in the shard, so nothing overtakes it."""
    letters, target = FakeLetters(), FakeTarget("one", Random(1))
    strange = record(1, "b")._replace(table="tidetable-t.s.2031-01-01")
    delivered = deliver([record(0, "a"), strange, record(2, "c")], feed_to(target, letters=letters), lambda: 100.0)
    assert (delivered.first_failure, target.taken) == ("1", [("a", 0)])
    old = strange._replace(created=NOW - timedelta(hours=2))
    delivered = deliver([record(0, "a"), old, record(2, "c")], feed_to(target, letters=letters), lambda: 100.0)
    assert delivered.first_failure is None
    assert target.taken[1:] == [("a", 0), ("c", 2)]
    assert b"tidetable-t.s.2031-01-01" in letters.buried[""][0]


def test_a_record_whose_period_cannot_be_looked_up_comes_again_whatever_the_error_is() -> None:
    def fail(table: str) -> Entry | None:
        raise ConnectionError(f"no answer for {table}")

    feed = feed_to(FakeTarget("one", Random(1)))
    feed.find_entry = fail
    delivered = deliver([record(7, "a")], feed, lambda: 100.0)
    assert delivered.first_failure == "7"
    assert delivered.reason == "ConnectionError: no answer for tidetable-t.s.2026-03-01"


def test_without_time_a_failed_request_is_not_tried_again() -> None:
    gone = FakeTarget("gone", Random(1), 1.0)
    deliver([record(0, "a")], feed_to(gone), lambda: 4.9)
    assert gone.requests == [1]
    deliver([record(0, "a")], feed_to(gone), lambda: 5.0)
    assert gone.requests == [1, 1, 1, 1]


def test_a_run_says_how_many_changes_it_sent_and_buried_and_why_the_first_is_left() -> None:
    """Of two targets that fail, the first says the reason whose failed record is earlier."""
    letters = FakeLetters()
    refusing, gone = Refusing("late", ids=frozenset("cd")), FakeTarget("gone", Random(1), 1.0)
    old = NOW - timedelta(hours=2)
    unknown = record(9, "x", created=old)._replace(table="tidetable-t.s.2031-01-01")
    records = [unknown, record(0, "a"), record(1, "b"), record(2, "c"), record(3, "d")]
    delivered = deliver(records, feed_to(refusing, gone, letters=letters), lambda: 100.0)
    # To the first target a and b; to the second nothing. The unknown record is old and becomes a letter.
    assert (delivered.sent, delivered.buried) == (2, 1)
    assert (delivered.first_failure, delivered.reason) == ("0", "TimeoutError: no answer in time")
    assert list(letters.buried) == [""]


def test_only_the_refused_messages_of_a_request_are_sent_again_after_growing_pauses() -> None:
    clock, target = FakeClock(NOW), Refusing("one", ids=frozenset("b"))
    delivered = deliver([record(n, id) for n, id in enumerate("abc")], feed_to(target, clock=clock), lambda: 100.0)
    assert target.sent == [["a", "b", "c"], ["b"], ["b"]]
    assert clock.slept == [0.2, 0.4]
    assert (delivered.sent, delivered.first_failure) == (2, "1")
    assert delivered.reason == "1 are refused"


def test_a_record_of_exactly_the_greatest_age_is_tried_again() -> None:
    letters, target = FakeLetters(), FakeTarget("gone", Random(1), 1.0)
    clock = Still(NOW)
    exact = record(0, "a", created=NOW - timedelta(hours=1))
    assert deliver([exact], feed_to(target, letters=letters, clock=clock), lambda: 100.0).first_failure == "0"
    assert letters.buried == {}


def test_the_letter_of_a_record_that_cannot_be_read_names_its_item() -> None:
    letters = FakeLetters()
    strange = record(7, "b", created=NOW - timedelta(hours=2))._replace(table="tidetable-t.s.2031-01-01", begun=5)
    deliver([strange], feed_to(letters=letters), lambda: 100.0)
    (line,) = letters.buried[""]
    assert json.loads(line) == {
        "table": "tidetable-t.s.2031-01-01",
        "pk": "2026-03-01T12:00:00.000000Z#0",
        "sk": "2026-03-01T12:00:00.000000Z#a#b",
        "kind": "insert",
        "sequence": "7",
        "begun": 5,
    }


def test_a_deletion_needs_no_period_and_makes_no_letter() -> None:
    letters = FakeLetters()
    removed = record(7, "b", created=NOW - timedelta(hours=23, minutes=30))._replace(item=None, table="unknown")
    assert deliver([removed], feed_to(letters=letters), lambda: 100.0).first_failure is None
    assert letters.buried == {}


def test_a_batch_begins_again_at_the_refused_record_whatever_lies_before_it() -> None:
    """A deletion, a taken change, and a record that became a letter, because its table is unknown."""
    removed = record(1, "x")._replace(item=None, table="unknown")
    strange = record(3, "y", created=NOW - timedelta(hours=2))._replace(table="unknown")
    letters, target = FakeLetters(), Refusing("one", ids=frozenset("c"))
    records = [removed, record(2, "a"), strange, removed._replace(sequence="4"), record(5, "c"), record(6, "d")]
    delivered = deliver(records, feed_to(target, letters=letters), lambda: 100.0)
    assert (delivered.first_failure, delivered.buried) == ("5", 1)
    assert [key for key, lines in letters.buried.items() if lines] == [""]


def test_a_request_may_have_exactly_the_bytes_that_the_target_takes_and_one_message_may_have_more() -> None:
    def requests(most_together: int) -> list[int]:
        target = FakeTarget("one", Random(1), most_messages=10, most_together=most_together)
        messages = [FeedMessage(("", "", str(n)), b'{"id":"%d","data":{"n":0}}' % n) for n in range(4)]
        assert {len(message.body) for message in messages} == {25}
        assert send_messages(messages, target, FakeClock(NOW), lambda: 100.0) == ([], "")
        return target.requests

    assert requests(50) == [2, 2]
    assert requests(49) == [1, 1, 1, 1]
    assert requests(24) == [1, 1, 1, 1]


def test_messages_after_a_refused_request_are_left_too() -> None:
    target = Refusing("one", ids=frozenset("a"), most_messages=1)
    messages = [FeedMessage(("", "", id), b'{"id":"%s"}' % id.encode()) for id in "xab"]
    left, reason = send_messages(messages, target, FakeClock(NOW), lambda: 100.0)
    assert [message.body for message in left] == [b'{"id":"a"}', b'{"id":"b"}']
    assert reason == "1 are refused"
    assert target.sent == [["x"], ["a"], ["a"], ["a"]]
