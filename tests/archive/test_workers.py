"""Workers archive the segments of a table: killed, overtaken, doubled, late, at rest, and beside an earlier version."""

import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from aws.archive.parquet import Parquet
from tests.worlds.archives import LAYOUT, NOW, START, World, divide, some
from tests.worlds.parts import list_items
from tidetable.archive.export import wake_archive_workers
from tidetable.archive.segments import ARCHIVE
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.work.claim import ItemName, Pause

# When the first archive of a world is begun, in epoch milliseconds.
MADE = "1773964800000"


def name(number: int, made: str = MADE) -> ItemName:
    return ItemName("archive", f"s#2026-03-01#{made}#{number:05d}")


def divided(count: int = 3, events: int = 42) -> World:
    """A world whose table has so many segments, which workers read by messages."""
    world = World(some(events))
    world.seconds, world.part_bytes, world.read, world.at_once_bytes = 290, 3_000, 4_000, 0
    divide(world, count)
    return world


def assert_whole(world: World, events: int = 42) -> None:
    """The period is archived with every event once, and nothing is left of the work."""
    facts = world.catalog.entries("s")[0].archive
    assert world.state is State.ARCHIVED
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    digest = Parquet().page_facts(json.dumps(world.items["t"]).encode())
    assert (manifest.events, manifest.digest) == (events, digest.hex)
    assert world.bucket.keys() == {facts.manifest, *(part.key for part in manifest.parts)}
    held = [item for part in manifest.parts for item in list_items(world.bucket[part.key], LAYOUT)]
    assert sorted(item["sk"] for item in held) == sorted(item["sk"]["S"] for item in world.items["t"])
    assert world.records.records == {}


def test_a_run_wakes_workers_and_the_last_of_them_completes_the_archive() -> None:
    world = divided()
    begun = world.run()
    assert (begun.done, begun.events, begun.wait) == (False, 0, 15.0)
    assert world.work_queue.messages == [name(0), name(1), name(2)]
    first = world.work_queue.messages.pop(0)
    assert world.work_on(first) is None
    assert (world.state, world.run().events) == (State.ARCHIVING, 14)
    # A message is under way for each of the others, so no other message was sent.
    assert world.work_queue.messages == [name(1), name(2)]
    assert world.work_on(name(2)) is None
    done = world.work_on(name(1))
    assert done is not None
    assert (done.done, done.events) == (True, 42)
    assert_whole(world)


def test_a_worker_goes_on_with_the_segments_that_nobody_has_and_after_a_minute_sends_a_message() -> None:
    world = divided(4)
    world.work_queue.refuses = True
    world.run()
    world.work_queue.refuses, world.page_seconds = False, 11.0
    # 42 events are four segments of 11 or 10 events, of two pages each.
    assert world.work_on(name(0)) is None
    assert world.work_queue.messages == [name(3)]
    done = world.work_on(name(3))
    assert done is not None
    assert_whole(world)


def test_no_more_workers_read_a_table_at_the_same_time_than_its_pace_allows() -> None:
    """Half of 2,400 units per second is enough for two readers."""
    world = divided(4)
    world.read = 2_400
    world.run()
    assert world.work_queue.messages == [name(0), name(1)]
    for number in (0, 1):
        world.records.claim(ARCHIVE, name(number).name, f"other {number}", NOW, NOW + timedelta(seconds=300))
    world.work_queue.messages.clear()
    assert world.work_on(name(2)) is None
    assert world.parts == []
    assert world.run().events == 0
    assert world.work_queue.messages == []


def test_each_stream_has_its_share_of_the_workers() -> None:
    """Five workers, of two streams with eight segments each: two for one stream, and the other one has the fifth, too."""
    world = divided(8)
    world.run()
    assert len(world.work_queue.messages) == 3, "as many as may read the table"
    for number in range(8):
        world.records.add(ARCHIVE, f"z#2026-03-01#{MADE}#{number:05d}", '{"count":8,"readers":8,"columns":{}}')
    world.work_queue.messages.clear()
    world.clock.sleep(901)
    wake_archive_workers(world.make_exporter())
    assert world.work_queue.messages == [
        *(name(0), name(1)),
        *(ItemName("archive", f"z#2026-03-01#{MADE}#0000{number}") for number in (0, 1, 2)),
    ]


def test_a_lost_message_is_sent_again_after_a_quarter_of_an_hour() -> None:
    world = divided(1)
    world.run()
    world.work_queue.messages.clear()
    world.clock.sleep(899)
    world.run()
    assert world.work_queue.messages == []
    world.clock.sleep(1)
    world.run()
    assert world.work_queue.messages == [name(0)]


def test_killed_at_any_call_workers_and_runs_are_followed_by_others_and_every_event_is_archived_once() -> None:
    """First the run that begins the archive is killed, then each worker; a later run wakes others."""
    whole = divided()
    whole.run()
    whole.work_queue.deliver(whole.work_on)
    assert_whole(whole)
    calls = 10**9 - whole.calls
    assert calls > 50
    for allowed in range(calls):
        world = divided()
        world.calls = allowed
        with suppress(KeyboardInterrupt):
            world.run()
            world.work_queue.deliver(world.work_on)
        assert world.calls < 0
        world.calls = 10**9
        for _ in range(4):
            world.clock.sleep(1_000)  # Claims and notes of messages end.
            if world.run().done:
                break
            world.work_queue.deliver(world.work_on)
        # Of a run that was killed after the mark, records may be left: any message removes them.
        world.work_on(name(0))
        world.bucket = {key: body for key, body in world.bucket.items() if "_progress-" not in key}
        assert_whole(world)


def choose(step: int, count: int) -> int:
    """Choose one of so many messages."""
    return (7 * step) % count


def test_every_message_may_come_twice_and_in_any_order() -> None:
    for step in range(1, 6):
        world = divided(5)
        world.run()
        world.work_queue.messages *= 2
        world.work_queue.deliver(world.work_on, partial(choose, step))
        assert_whole(world)
        assert world.work_on(name(0)) is None
        assert_whole(world)


def overtake(world: World, method: str, number: int, meanwhile: Callable[[], None]) -> None:
    """Let something happen before the call with this number of a method of the world."""
    original, left = getattr(world, method), [number]

    def call(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            meanwhile()
        return original(*args, **options)

    setattr(world, method, call)


@pytest.mark.parametrize(("method", "call"), [("page", 1), ("page", 2), ("put", 1), ("put", 2), ("get", 1)])
@pytest.mark.parametrize("seconds", [340, 86_400])
def test_a_worker_that_stands_still_until_others_have_finished_changes_nothing(
    method: str, call: int, seconds: int
) -> None:
    """It wakes after its claim ended, or a day late: the others have begun its segment again."""
    world = divided()
    world.run()

    def finish() -> None:
        world.clock.sleep(seconds)
        world.run()
        for number in range(3):
            world.work_on(name(number), "other")
        assert_whole(world)

    overtake(world, method, call, finish)
    with pytest.raises((ArchiveBusy, KeyError)) if (method, call) != ("put", 2) else nullcontext():
        world.work_on(name(0))
    bucket = dict(world.bucket)
    facts = world.catalog.entries("s")[0].archive
    assert facts is not None
    counted = {facts.manifest, *(part.key for part in world.manifest(facts.manifest).parts)}
    if method != "put":
        # Before an object is sent, the worker looks at its time.
        assert bucket.keys() == counted
    # Only a request that was on its way adds an object, and no record names it.
    assert all(f"-{MADE}-00000-001" in key for key in bucket.keys() - counted)
    assert world.records.records == {}
    assert world.state is State.ARCHIVED


def test_two_workers_never_have_one_segment() -> None:
    world = divided()
    world.run()
    refused = list[str]()

    def compete() -> None:
        with pytest.raises(ArchiveBusy, match=r"^period 2026-03-01 of s is being archived by another run$") as busy:
            world.work_on(name(0), "other")
        refused.append(str(busy.value))

    # The list of the second worker is older than the claim of the first one.
    overtake(world, "page", 1, compete)
    listed = world.records.list_items
    world.records.list_items = lambda *names: [item._replace(until=None) for item in listed(*names)]  # type: ignore[method-assign]
    world.work_on(name(0))
    assert len(refused) == 1


def test_an_archive_that_an_earlier_version_began_begins_anew() -> None:
    world = divided()
    world.catalog.move(world.catalog.entries("s")[0], State.ARCHIVING, expected=[State.CLOSED])
    prefix = "stream=s/period=2026-03-01/"
    world.bucket = {f"{prefix}{file}": b"{}" for file in ("_progress-plan.json", "_progress-segment-000.json")}
    world.bucket[f"{prefix}part-000-00000.parquet"] = b"events"
    # A run of the earlier version still has the period.
    world.catalog.acquire("archive#s#2026-03-01", "former", NOW, timedelta(minutes=15))
    with pytest.raises(ArchiveBusy):
        world.run()
    assert len(world.bucket) == 3
    world.clock.sleep(900)
    world.run()
    assert world.bucket == {}
    world.work_queue.deliver(world.work_on)
    assert_whole(world)


def test_files_that_an_earlier_version_removed_after_a_rollback_are_written_anew() -> None:
    """It finds no plan of its own, and clears the bucket; the next upgrade finds segments without files."""
    world = divided()
    world.run()
    world.work_on(name(0))
    world.bucket = {"stream=s/period=2026-03-01/part-000-00000.parquet": b"of the earlier version"}
    world.work_on(name(1))
    with pytest.raises(ArchiveMismatch, match="did not hold"):
        world.work_on(name(2))
    assert world.records.records == {}
    world.run()
    world.work_queue.deliver(world.work_on)
    assert_whole(world)


def test_a_segment_that_fails_says_why_and_the_others_go_on() -> None:
    world = divided()
    world.run()
    world.work_queue.messages.clear()
    page = world.page

    def break_page(table: str, *, segment: int, **options: Any) -> Any:
        if segment == 1:
            raise ArchiveFailed("no answer")
        return page(table, segment=segment, **options)

    world.page = break_page  # type: ignore[method-assign]
    with pytest.raises(ArchiveFailed):
        world.work_on(name(1))
    assert world.records.records["archive", name(1).name].problem == "no answer"
    with pytest.raises(ArchiveFailed, match=r"^no answer$"):
        world.run()
    assert world.work_queue.messages == [name(1)], "it is tried again at once, the others have messages under way"
    world.page = page  # type: ignore[method-assign]
    world.work_queue.messages += [name(0), name(2)]
    world.work_queue.deliver(world.work_on)
    assert_whole(world)


@pytest.mark.parametrize("stream", ["s", "*"])
def test_archiving_that_rests_begins_nothing_and_its_messages_change_nothing(stream: str) -> None:
    world = divided()
    world.run()
    world.records.set_pause(Pause("archive", stream), on=True)
    world.work_queue.deliver(world.work_on)
    assert world.parts == []
    with pytest.raises(ArchiveBusy, match=r"^the archiving of s rests, until tidetable archive s --resume$"):
        world.run()
    wake_archive_workers(world.make_exporter())
    assert world.work_queue.messages == []
    world.records.set_pause(Pause("archive", stream), on=False)
    world.clock.sleep(900)
    world.run()
    world.work_queue.deliver(world.work_on)
    assert_whole(world)


def test_a_period_whose_stream_is_removed_meanwhile_leaves_no_records() -> None:
    world = divided()
    world.run()
    world.catalog.move(world.catalog.entries("s")[0], State.DELETED, expected=[State.ARCHIVING])
    world.work_queue.deliver(world.work_on)
    assert (world.records.records, world.parts) == ({}, [])


def test_a_record_of_a_newer_version_stops_only_its_own_period() -> None:
    world = divided()
    world.records.add(ARCHIVE, f"other#2026-03-01#{MADE}#00000", '{"count":"many"}')
    world.catalog.add(
        Entry("s", find_containing(START, Kind.WEEK), "week", Layout("time", 4, "id", 21_600), State.CLOSED, START)
    )
    world.run()
    world.work_queue.deliver(world.work_on)
    assert world.catalog.entries("s")[1].state is State.ARCHIVED or world.state is State.ARCHIVED
    world = divided()
    world.run()
    world.records.records["archive", name(1).name].memo = '{"count":"many"}'
    with pytest.raises(ArchiveFailed, match=r"^the record of segment 00001 of s 2026-03-01 cannot be read: "):
        world.run()


def test_a_begun_archive_whose_run_was_killed_gets_its_missing_segments() -> None:
    world = divided(5)
    world.run()
    del world.records.records["archive", name(3).name], world.records.records["archive", name(4).name]
    world.work_on(name(0))
    world.run()
    assert len(world.records.records) == 5
    for number in range(5):
        world.work_on(name(number))
    assert_whole(world)


def test_a_slow_table_is_left_until_it_has_unused_units() -> None:
    """At one unit per second, a worker reads what the table kept of five minutes, and sends no message."""
    world = divided(1, events=200)
    world.read, world.units = 2, 60.0
    world.run()
    assert world.work_queue.messages == [name(0)]
    runs = 0
    while world.state is not State.ARCHIVED:
        world.work_queue.deliver(world.work_on)
        world.clock.sleep(300)
        world.run()
        runs += 1
    assert runs > 3
    assert_whole(world, 200)


def test_an_archive_whose_last_worker_was_killed_before_its_turn_is_completed_by_a_message() -> None:
    world = divided()
    world.run()
    for number in range(3):
        claim = world.records.claim(ARCHIVE, name(number).name, "one", NOW, NOW, added=True)
        assert claim is not None
        world.records.release(claim, claim.memo, done=True)
    world.items["t"].clear()
    world.work_queue.messages.clear()
    wake_archive_workers(world.make_exporter())
    assert world.work_queue.messages == [name(0)]
    world.work_queue.deliver(world.work_on)
    assert_whole(world, 0)


def test_records_that_a_killed_run_left_are_removed_after_the_next_archive() -> None:
    """The table of the next archive is read at once, without a message of its own."""
    world = World(some(3))
    left = name(0, "1773964799999").name.replace("2026-03-01", "2026-02-01")
    world.records.add(ARCHIVE, left, '{"count":1,"readers":1,"columns":{}}')
    assert world.run().done
    assert world.work_queue.messages == [ItemName(ARCHIVE, left)]
    assert world.work_on(ItemName(ARCHIVE, left)) is None
    assert_whole(world, 3)


def test_a_complete_archive_is_told_also_if_no_message_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(3))
    left = name(0, "1773964799999").name.replace("2026-03-01", "2026-02-01")
    world.records.add(ARCHIVE, left, '{"count":1,"readers":1,"columns":{}}')

    def fail(names: Any) -> None:
        raise ConnectionError(f"the queue is away: {names}")

    with monkeypatch.context() as patch:
        patch.setattr(world.work_queue, "send", fail)
        done = world.run()
    assert (done.done, done.events, done.wait) == (True, 3, 0.0)
    world.clock.sleep(3_600)
    wake_archive_workers(world.make_exporter())
    assert world.work_queue.messages == [ItemName(ARCHIVE, left)]


def test_a_segment_whose_note_is_gone_is_read_again() -> None:
    world = divided(1)
    world.run()
    world.page_seconds = 70.0
    assert world.work_on(name(0)) is None
    assert world.records.records["archive", name(0).name].done == 0
    assert world.parts != []
    world.bucket.clear()
    world.page_seconds = 0.0
    world.work_on(name(0))
    assert_whole(world)
