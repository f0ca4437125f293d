"""Saved messages of many objects: workers are woken, each for a part, and messages only wake."""

from datetime import timedelta

import pytest

from tests.fakes.stage import Stage
from tests.worlds.saved import NOON, TWO, list_saved, queue_events, read_events, stage_of, throttle
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.errors import Paced
from tidetable.events import Event
from tidetable.ingest import saved_lists
from tidetable.ingest.overflow import Wake, encode_message, encode_wake, read_wake
from tidetable.ingest.saved import drain_saved, take_messages
from tidetable.ingest.saved_names import SavedMessage
from tidetable.ingest.saving import Received
from tidetable.large.sweep_ports import Stored
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.remaining import limit_time


def save_objects(stage: Stage, count: int, stream: str = "s") -> None:
    """Put saved messages of one event each into the bucket."""
    for number in range(count):
        text = encode_message(stream, [Event("a", NOON, f"{stream}{number:03}", {})], 5)
        key = SavedMessage(NOON + timedelta(seconds=number), stream, 1, f"m{number}").key
        stage.values.put(Blob(key, stage.large.compressor.compress(text.encode()), Key("a", "1")))


def watch_reads(stage: Stage) -> list[str]:
    """The names of the objects that are read from now on."""
    names: list[str] = []
    get = stage.values.get
    stage.values.get = lambda key: (names.append(key.rpartition("/")[2]), get(key))[1]  # type: ignore[func-returns-value, method-assign]
    return names


@pytest.mark.parametrize(("objects", "wakes"), [(19, 0), (20, 1), (40, 2), (500, 2)])
def test_workers_are_woken_by_the_number_of_objects_and_half_of_the_consumers_at_most(objects: int, wakes: int) -> None:
    stage = stage_of()
    save_objects(stage, objects)
    drain_saved(stage.pipeline.drain, lambda: 0.0)
    sent = [read_wake(message.body) for message in stage.queue.messages]
    until = stage.clock.now() + timedelta(minutes=1)
    assert sent == [Wake("s", part, wakes + 1, until) for part in range(1, wakes + 1)]


def test_streams_with_many_objects_share_the_workers() -> None:
    stage = stage_of(TWO)
    save_objects(stage, 100)
    save_objects(stage, 100, "t")
    drain_saved(stage.pipeline.drain, lambda: 0.0)
    sent = [read_wake(message.body) for message in stage.queue.messages]
    assert [(wake.stream, wake.part, wake.workers) for wake in sent if wake is not None] == [("s", 1, 2), ("t", 1, 2)]


def test_each_worker_begins_with_its_part_and_all_parts_are_all_objects() -> None:
    stage = stage_of()
    save_objects(stage, 60)
    firsts = list[set[str]]()
    until = stage.clock.now() + timedelta(minutes=1)
    for part in range(3):
        copy = stage.copy()
        copy.queue.push(encode_wake(Wake("s", part, 3, until)))
        names = watch_reads(copy)
        copy.drain()
        assert sorted(names) == sorted(f"m{number}" for number in range(60))
        numbers = [int(name[1:]) for name in names]
        (own,) = [end for end in range(1, 60) if numbers[end] < numbers[end - 1]]
        assert numbers[:own] == sorted(numbers[:own])
        firsts.append(set(names[:own]))
        assert len(read_events(copy)) == 60
    assert sum(map(len, firsts)) == 60
    assert set.union(*firsts) == {f"m{number}" for number in range(60)}


def test_without_the_queue_the_scheduled_run_writes_all_parts() -> None:
    stage = stage_of()
    save_objects(stage, 60)
    stage.queue.refuses = True
    assert stage.drain_saved().events == 60
    assert (list_saved(stage), stage.queue.messages) == ([], [])


def test_a_wake_does_nothing_after_its_minute() -> None:
    stage = stage_of()
    save_objects(stage, 25)
    stage.queue.push(encode_wake(Wake("s", 1, 2, stage.clock.now() + timedelta(minutes=1))))
    stage.clock.sleep(56)
    stage.drain()
    assert (len(list_saved(stage)), stage.queue.messages) == (25, [])


@pytest.mark.parametrize("body", ['{"wake":', '{"wake":"s","part":1,"workers":0,"until":"2026-03-15T12:00:00Z"}'])
def test_a_damaged_wake_is_buried(body: str) -> None:
    stage = stage_of()
    stage.queue.push(body)
    stage.drain()
    assert (stage.queue.messages, [letter.body for letter in stage.queue.dead]) == ([], [body])


def test_an_object_of_an_earlier_version_is_written_before_the_others() -> None:
    stage = stage_of()
    save_objects(stage, 2)
    text = encode_message("s", [Event("a", NOON, "old", {})], 5)
    key = "saved/1773576144000/stream=s/events=1/m9"
    stage.values.put(Blob(key, stage.large.compressor.compress(text.encode()), Key("a", "1")))
    assert SavedMessage.of(key).stream == "s"
    names = watch_reads(stage)
    run = stage.drain_saved()
    assert (run.events, run.backlog.messages, names) == (3, 3, ["m9", "m0", "m1"])
    assert sorted(read_events(stage)) == ["old", "s000", "s001"]


def slow_table(stage: Stage, units: int) -> None:
    (entry,) = stage.catalog.entries("s", NOON, NOON, consistent=True)
    stage.catalog.note(entry, SeenTable(units, units, TableClass.STANDARD))


def test_what_a_table_does_not_take_in_a_delivery_is_saved_and_goes_on_minute_by_minute() -> None:
    stage = stage_of()
    slow_table(stage, 2)
    queue_events(stage, *[f"{number:03}" for number in range(160)])
    stage.drain()
    # The least pace, eight tenths of a unit per second: ten puts at once, and ten each 12.5 seconds.
    assert stage.queue.messages == []
    assert [key.split("/")[3] for key in list_saved(stage)] == ["events=110"]
    assert len(read_events(stage)) == 50
    left = list[list[str]]()
    for _ in range(3):
        stage.drain_saved()
        stage.clock.sleep(10)
        left.append([key.split("/")[3] for key in list_saved(stage)])
    # Ten puts at once, after 12.5, 25 and 37.5 seconds; then the pace is 0.98 units per second: ten more after 47.7.
    assert left == [["events=60"], ["events=10"], []]
    assert len(read_events(stage)) == 160


def test_a_message_that_cannot_be_saved_comes_again() -> None:
    stage = stage_of()
    slow_table(stage, 8)
    queue_events(stage, *[f"{number:03}" for number in range(100)])
    (message,) = stage.queue.messages
    stage.values.refuses = True
    received = Received(message.body, NOON, "m", 120)
    (outcome,) = take_messages([received], stage.pipeline.drain, limit_time(50, stage.clock, lambda: 50.0))
    assert isinstance(outcome, Paced)
    assert stage.queue.dead == []


def test_a_slow_table_makes_no_dead_letter_however_long_it_takes() -> None:
    stage = stage_of()
    slow_table(stage, 1)
    queue_events(stage, *[f"{number:03}" for number in range(160)])
    stage.drain()
    stage.clock.sleep(5 * 86_400)
    stage.drain_saved()
    assert (len(list_saved(stage)), stage.queue.dead) == (1, [])
    stage.drain_saved()
    stage.drain_saved()
    assert (list_saved(stage), len(read_events(stage))) == ([], 160)


def test_streams_take_turns() -> None:
    """A slow table does not use up the run."""
    stage = stage_of(TWO)
    slow_table(stage, 1)
    queue_events(stage, *[f"{number:03}" for number in range(100)])
    queue_events(stage, "t1", stream="t")
    stage.clock.sleep(3_600)
    stage.drain()
    begun, written = stage.clock.now(), list[float]()
    delete = stage.values.delete

    def watched(keys: list[str]) -> None:
        written.extend((stage.clock.now() - begun).total_seconds() for key in keys if "stream=t" in key)
        delete(keys)

    stage.values.delete = watched  # type: ignore[assignment, method-assign]
    stage.drain_saved()
    assert written == [pytest.approx(10, abs=1)]


def slow_bucket(stage: Stage, seconds: float) -> None:
    """Let each read of an object take some time."""
    get = stage.values.get

    def wait(key: str) -> bytes | None:
        stage.clock.sleep(seconds)
        return get(key)

    stage.values.get = wait  # type: ignore[method-assign]


def test_a_run_lists_on_after_a_full_page_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_lists, "LISTED", 40)
    stage = stage_of()
    save_objects(stage, 130)
    names = watch_reads(stage)
    run = stage.drain_saved()
    assert (run.events, run.backlog.messages, list_saved(stage)) == (130, 40, [])
    # The worker that is woken finds nothing any more: each object was read once.
    stage.drain()
    assert sorted(names) == sorted(f"m{number}" for number in range(130))


def test_a_worker_takes_its_part_of_full_pages_and_all_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it does not look for objects that another worker has written meanwhile."""
    monkeypatch.setattr(saved_lists, "LISTED", 40)
    stage = stage_of()
    save_objects(stage, 100)
    copy, names = stage.copy(), list[list[str]]()
    for part, worker in enumerate((stage, copy)):
        names.append(watch_reads(worker))
        worker.queue.push(encode_wake(Wake("s", part, 2, worker.clock.now() + timedelta(minutes=1))))
        worker.drain()
        assert len(names[part]) == len(read_events(worker)) == 100
    # The first pages have 40 objects each, of which some 20 are of one part.
    assert not set(names[0][:15]) & set(names[1][:15])


def test_objects_that_wait_do_not_keep_a_run_from_the_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends if a whole page waits, and does not try an object twice."""
    monkeypatch.setattr(saved_lists, "LISTED", 40)
    stage = stage_of()
    save_objects(stage, 130)
    throttle(stage)
    names = watch_reads(stage)
    assert stage.drain_saved().events == 0
    assert len(names) == len(set(names))


def test_a_run_writes_what_it_has_read_before_it_reads_on() -> None:
    """A thousand small objects take longer to be read, one after the other, than the run lasts."""
    stage = stage_of()
    save_objects(stage, 1_000)
    slow_bucket(stage, 0.06)
    run = stage.drain_saved()
    assert run.events >= 500
    assert len(list_saved(stage)) == 1_000 - run.events


@pytest.mark.parametrize(
    ("events", "size", "groups"),
    [
        (1, 100, [200, 200, 100]),
        (2_500, 100, [4] * 125),
        (2_501, 100, [3] * 166 + [2]),
        (1, 100_000, [10] * 50),
        (1, 100_001, [9] * 55 + [5]),
        # An object that is too large for a group is a group.
        (10_001, 5_000_000, [1] * 500),
    ],
)
def test_what_is_read_together_fits_into_memory(events: int, size: int, groups: list[int]) -> None:
    names = [SavedMessage(NOON + timedelta(seconds=number), "s", events, "m").key for number in range(500)]
    objects = saved_lists.StreamObjects("s", [Stored(name, size, NOON) for name in names], 0, 1)
    lengths, taken = list[int](), list[str]()
    while objects:
        group = objects.take_group()
        lengths.append(len(group))
        taken += [found.key for found in group]
    assert (lengths, taken) == (groups, names)
