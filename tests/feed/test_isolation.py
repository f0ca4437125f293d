"""A target that is out of order does not hold up the other targets of its stream for longer than ``max_age``, once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tidetable.catalog import Entry, State
from tidetable.errors import ChangesRefused
from tidetable.events import Event
from tidetable.feed import ChangeReader, Delivered, Feed, StreamRecord, deliver
from tidetable.feed.memory import Memory
from tidetable.feed.targets import FeedMessage
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAYOUT = Layout("time", 2, "id", 3_600)
ENTRY = Entry("s", find_containing(NOW, Kind.DAY), "tidetable-t.s.2026-03-01", LAYOUT, State.OPEN, NOW)


@dataclass
class Letters:
    """The dead letters, all of one target."""

    bodies: list[bytes] = field(default_factory=list)

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        assert (stream, target) == ("s", "gone")
        assert reason
        self.bodies += bodies


@dataclass
class Shut:
    """A target that takes nothing while it is ``shut``, and says so after some seconds."""

    arn: str
    clock: FakeClock
    shut: bool = True
    seconds: float = 0.0
    refused: set[int] = field(default_factory=set)
    most_bytes: int = 1_000
    most_messages: int = 3
    most_together: int = 10_000
    requests: list[list[int]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        numbers = [json.loads(message.body)["data"]["n"] for message in messages]
        self.requests.append(numbers)
        self.clock.time += timedelta(seconds=self.seconds)
        if self.shut:
            raise TimeoutError("no answer in time")
        self.taken += [number for number in numbers if number not in self.refused]
        if refused := [place for place, number in enumerate(numbers) if number in self.refused]:
            raise ChangesRefused(f"{len(refused)} are refused", refused)


class World:
    """Two targets of one stream, of which the first accepts nothing."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.clock, self.letters = FakeClock(NOW), Letters()
        self.gone, self.well = Shut("gone", self.clock, seconds=seconds), Shut("well", self.clock, shut=False)
        reader, entries = ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues())), {ENTRY.table: ENTRY}
        targets = [self.gone, self.well]
        self.feed = Feed("s", reader, targets, self.letters, self.clock, timedelta(hours=1), entries.get)

    def send(self, *numbers: int, age: float = 0.0) -> Delivered:
        """A batch of records that are so many seconds old."""
        created = self.clock.now() - timedelta(seconds=age)
        return deliver([self.record(n, created) for n in numbers], self.feed, lambda: 100.0)

    def send_for_an_hour(self, *numbers: int) -> Delivered:
        """A batch that fails, and comes again an hour later."""
        self.send(*numbers)
        self.clock.sleep(3_601)
        return self.send(*numbers, age=3_601)

    @staticmethod
    def record(number: int, created: Any) -> StreamRecord:
        item = LAYOUT.make_item(Event("a", NOW, f"event {number}", {"n": number}), at=number)
        return StreamRecord(str(number), "insert", ENTRY.table, item, created)

    @property
    def letters_of_gone(self) -> list[int]:
        return [json.loads(body)["data"]["n"] for body in self.letters.bodies]


def test_a_target_that_took_nothing_for_max_age_delays_no_younger_change() -> None:
    world = World()
    # The records are old, as the function did not run. The target may be tried for an hour from now on.
    assert world.send(1, 2, age=7_000).first_failure == "1"
    world.clock.sleep(3_590)
    assert world.send(1, 2, age=10_590).first_failure == "1"
    world.clock.sleep(20)
    # An hour after the first failure the target is out of order: the third change is young, and does not wait.
    assert world.send(1, 2, 3, age=10_610).first_failure is None
    assert world.letters_of_gone == [1, 2, 3]
    world.gone.requests.clear()
    assert world.send(4, 5, 6, 7).first_failure is None
    assert world.letters_of_gone == [1, 2, 3, 4, 5, 6, 7]
    # One request says that it is still out of order.
    assert world.gone.requests == [[4, 5, 6]]
    assert world.well.taken == [1, 2, 3, 4, 5, 6, 7]


def test_a_young_change_in_a_request_with_an_old_one_becomes_a_letter_with_it_or_arrives() -> None:
    """The request is refused whole, which the old change makes a failure of the target: the young one may not be lost."""
    for shut in (True, False):
        world = World()
        world.send(1)
        world.clock.sleep(3_601)
        world.gone.shut = shut
        old, young = world.clock.now() - timedelta(seconds=3_601), world.clock.now()
        batch = [World.record(1, old), World.record(2, young)]
        delivered = deliver(batch, world.feed, lambda: 100.0)
        assert delivered.first_failure is None
        assert (world.letters_of_gone, world.gone.taken) == (([1, 2], []) if shut else ([], [1, 2]))
        assert world.well.taken == [1, 2]


def test_a_target_that_works_again_gets_what_comes_then_and_is_waited_for_again() -> None:
    world = World()
    world.send_for_an_hour(1)
    world.gone.shut = False
    assert world.send(2, 3).first_failure is None
    assert (world.gone.taken, world.letters_of_gone) == ([2, 3], [1])
    world.gone.shut = True
    assert world.send(4).first_failure == "4"
    assert world.letters_of_gone == [1]


def test_the_others_are_served_before_a_target_that_failed() -> None:
    """A function that hangs takes a minute for each try, and may take the whole time of the run."""
    world = World(seconds=60.0)
    assert world.send(1).first_failure == "1"
    begun = world.clock.now()
    seen: list[Any] = []
    take = world.well.send

    def send(messages: Sequence[FeedMessage]) -> None:
        seen.append(world.clock.now())
        take(messages)

    world.well.send = send  # type: ignore[method-assign]
    world.send(1, 2)
    assert seen == [begun]


def test_a_target_that_hangs_is_tried_for_a_tenth_of_the_time_and_once_a_minute() -> None:
    world = World(seconds=3.0)
    world.send_for_an_hour(1)
    world.gone.requests.clear()
    for number in range(2, 62):
        assert world.send(number).first_failure is None
        world.clock.sleep(1)
    # A try takes 3 seconds, and 30 seconds later comes the next: in 66 seconds two.
    assert len(world.gone.requests) == 2
    world.gone.seconds, world.gone.shut = 60.0, True
    world.clock.sleep(31)
    world.send(100)
    world.gone.shut = False
    world.clock.sleep(59)
    world.send(101)
    assert world.gone.taken == []
    world.clock.sleep(1)
    world.send(102)
    assert world.gone.taken == [102]
    assert sorted([*world.letters_of_gone, *world.gone.taken]) == [*range(1, 62), 100, 101, 102]


def test_a_batch_that_comes_again_is_not_sent_again_to_a_target_that_took_it() -> None:
    world = World()
    for _ in range(5):
        assert world.send(1, 2, 3).first_failure == "1"
    assert world.well.taken == [1, 2, 3]
    # Lambda adds what came meanwhile, or sends fewer records at a time.
    world.send(1, 2, 3, 4)
    assert world.well.taken == [1, 2, 3, 4]
    world.send(1)
    assert world.well.taken == [1, 2, 3, 4]


def test_a_batch_that_comes_again_from_its_middle_is_not_sent_again_to_a_target_that_took_it() -> None:
    world = World()
    world.gone.shut, world.gone.refused = False, {2}
    assert world.send(1, 2, 3).first_failure == "2"
    assert world.send(2, 3).first_failure == "2"
    assert world.well.taken == [1, 2, 3]


def test_a_target_that_took_one_change_of_a_request_is_not_out_of_order_any_more() -> None:
    world = World()
    world.send_for_an_hour(1)
    world.gone.shut, world.gone.refused = False, {3}
    assert world.send(2, 3).first_failure == "3"
    world.gone.shut = True
    assert world.send(3).first_failure == "3", "it is waited for again"
    assert world.letters_of_gone == [1]


def test_a_target_that_recovered_is_served_before_a_target_that_fails() -> None:
    world = World()
    world.gone.shut, world.well.shut = False, True
    world.send(1)
    world.well.shut = False
    assert world.send(1).first_failure is None
    world.gone.shut, world.gone.seconds = True, 60.0
    world.send(2)
    begun = world.clock.now()
    seen: list[Any] = []
    take = world.well.send

    def send(messages: Sequence[FeedMessage]) -> None:
        seen.append(world.clock.now())
        take(messages)

    world.well.send = send  # type: ignore[method-assign]
    world.send(2, 3)
    assert seen == [begun]


def record(sequence: int, table: str = "one") -> StreamRecord:
    return StreamRecord(str(sequence), "insert", table, None, NOW)


def test_a_batch_of_another_table_does_not_end_the_memory_of_a_batch() -> None:
    memory = Memory()
    memory.note_taken("t", [record(5), record(6)])
    assert memory.count_taken("t", [record(3, "two")]) == 0
    assert memory.count_taken("t", [record(5), record(6), record(7)]) == 2


def test_a_thousand_batches_are_remembered_at_the_most() -> None:
    memory, other = Memory(), Memory()
    for number in range(1_000):
        memory.note_taken("t", [record(number)])
        other.note_taken("t", [record(number)])
    assert memory.count_taken("t", [record(0)]) == 1
    other.note_taken("t", [record(1_000)])
    assert other.count_taken("t", [record(1_000)]) == 1
    assert other.count_taken("t", [record(999)]) == 0


def test_ten_thousand_failures_are_remembered_at_the_most() -> None:
    memory, later = Memory(), NOW + timedelta(hours=1)
    changes = [("table", str(number), ("a", "t", "e")) for number in range(10_001)]
    memory.note_failure("t", changes, NOW)
    assert [memory.find_first_failure("t", change, later) for change in (changes[0], changes[1])] == [later, NOW]


def test_a_batch_that_came_again_is_forgotten() -> None:
    """If it comes once more, the target gets it: nobody noted that it took the batch again."""
    memory = Memory()
    memory.note_taken("t", [record(5), record(6)])
    assert [memory.count_taken("t", [record(5), record(6)]) for _ in range(2)] == [2, 0]


def test_a_target_that_took_a_change_beside_a_dead_letter_is_not_out_of_order() -> None:
    """It refuses one old change of a request. Younger changes wait for it as before."""
    world = World()
    world.gone.shut, world.gone.refused = False, {2}
    assert world.send_for_an_hour(1, 2).first_failure is None
    assert (world.gone.taken, world.letters_of_gone) == ([1, 1], [2])
    world.gone.shut = True
    assert world.send(3).first_failure == "3"
    assert world.letters_of_gone == [2]


def test_after_an_earlier_record_came_again_everything_behind_it_does() -> None:
    """Otherwise an older state of an event could be the last that a target sees."""
    world = World()
    world.send(3, 4)
    world.gone.shut = False
    world.send(2)
    world.send(3, 4)
    assert world.well.taken == [3, 4, 2, 3, 4]


def test_batches_of_other_shards_between_its_repeats_change_nothing() -> None:
    """Sequence numbers grow with time, so what comes from other shards is later than a batch that is repeated."""
    world = World()
    world.send(1, 2)
    world.send(50, 51)
    world.send(1, 2)
    world.send(50, 51)
    assert world.well.taken == [1, 2, 50, 51, 50, 51]


def test_one_bad_change_is_the_only_dead_letter() -> None:
    """A function refuses each call that has a certain change: halves of the call show which change that is."""
    world = World()
    world.gone.shut, world.gone.most_messages = False, 8
    take = world.gone.send

    def send(messages: Sequence[FeedMessage]) -> None:
        numbers = [json.loads(message.body)["data"]["n"] for message in messages]
        if 2 in numbers:
            raise ChangesRefused("2 is bad", range(len(numbers)))
        take(messages)

    world.gone.send = send  # type: ignore[method-assign]
    assert world.send_for_an_hour(1, 2, 3, 4, 5).first_failure is None
    assert world.letters_of_gone == [2]
    assert world.send(6, 7).first_failure is None
    assert world.gone.taken == [1, 3, 4, 5, 6, 7]
