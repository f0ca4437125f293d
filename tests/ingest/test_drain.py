"""The drain: every queued event is written, or its message comes again."""

from datetime import UTC, datetime, timedelta
from random import Random
from string import ascii_letters, digits
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import FakeCatalog
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.entries import make_entry
from tests.worlds.intake import World, event, world
from tidetable.catalog import SeenTable, State
from tidetable.catalog_steps import read_entries_at
from tidetable.config import TableClass
from tidetable.config.stream import LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.errors import NotDrained, Outage, StoreUnavailable, Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import encode_message
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.times import from_text


def decode_event(sent: dict[str, Any]) -> Event:
    return Event(sent["series"], from_text(sent["time"]), sent["id"], sent["data"])


def message(world: World, *sent: dict[str, Any]) -> str:
    world.overflow.queued.clear()
    world.store.throttled = 10**6
    world.send(*sent)
    world.store.throttled = 0
    return encode_message("quakes", world.overflow.queued)


def test_the_drain_writes_what_was_queued_and_writing_it_again_is_harmless() -> None:
    world = World()
    body = message(world, event(1), event(2, days=1))
    assert (world.drain(body), world.drain(body), world.stored()) == (2, 2, 2)


def test_a_message_that_cannot_be_written_whole_comes_again() -> None:
    world = World()
    body = message(world, event(1), event(2))
    world.store.throttled = 1
    with pytest.raises(NotDrained, match="1 of 2"):
        world.drain(body)
    assert world.drain(body) == 2


def test_a_closed_table_takes_what_was_queued_for_it_but_an_archiving_one_does_not() -> None:
    world = World()
    body = message(world, event(1, days=1))
    world.clock.time += timedelta(days=3)
    world.move("2026-02-28", State.CLOSED)
    assert world.drain(body) == 1
    for state in (State.ARCHIVING, State.ARCHIVED, State.DELETED):
        world.move("2026-02-28", state)
        with pytest.raises(NotDrained, match="restore it"):
            world.drain(body)


def test_the_fence_holds_even_if_the_catalog_was_read_before_the_archive_began() -> None:
    world = World()
    body = message(world, event(1, days=1))
    world.clock.time += timedelta(days=3)
    stale = list(world.catalog.entries("quakes"))
    world.move("2026-02-28", State.ARCHIVING)
    world.catalog.entries = lambda *_, **__: stale  # type: ignore[method-assign]
    with pytest.raises(NotDrained):
        world.drain(body)
    assert world.stored() == 0


def test_behind_the_window_an_event_that_waited_does_not_replace_a_newer() -> None:
    world = World()
    waited = Event("a", NOW - timedelta(days=1), "1", {"n": "waited"})
    newer = Event("a", NOW - timedelta(days=1), "1", {"n": "newer"})
    world.clock.time += timedelta(days=3)
    world.move("2026-02-28", State.CLOSED)
    assert world.drain(encode_message("quakes", [newer], 2000)) == 1
    assert world.drain(encode_message("quakes", [waited], 1000)) == 1
    assert [(item["data"], item["at"]) for item in world.table("2026-02-28")] == [({"n": "newer"}, 2000)]


def test_the_drain_reads_the_catalog_consistently() -> None:
    """It sees a period that was recorded a moment ago, and does not write to a period that was archived a moment ago."""
    world = World()
    body = message(world, event(1))
    today = ("quakes", find_containing(NOW, Kind.DAY))
    world.catalog.stale = {key: entry for key, entry in world.catalog.items.items() if key != today}
    assert world.drain(body) == 1
    world.catalog.stale = dict(world.catalog.items)
    world.move("2026-03-01", State.ARCHIVED)
    with pytest.raises(Undrainable, match="restore it"):
        world.drain(body)


@pytest.mark.parametrize("body", ["", "{}", '{"version": 1}', '{"version": 1, "stream": "s", "events": [1]}'])
def test_a_message_that_is_none_of_ours_ends_as_a_dead_letter(body: str) -> None:
    with pytest.raises(NotDrained):
        World().drain(body)


def test_the_drain_waits_for_its_share_no_longer_than_its_time() -> None:
    world = World()
    entry = next(iter(world.catalog.entries("quakes")))
    pace, begun = world.drainer().pace, world.clock.now()
    pace.record_units(entry, 100_000)
    pace.wait(entry, lambda: 2.0)
    assert world.clock.now() - begun == timedelta(seconds=2)
    pace.wait(entry, lambda: -1.0)
    assert world.clock.now() - begun == timedelta(seconds=2)


@pytest.mark.parametrize("units, seconds", [(None, 0.1), (200, 2.44), (1, 37.5)])
def test_the_drain_takes_a_share_of_what_a_table_was_seen_to_have(units: int | None, seconds: float) -> None:
    """Five consumers together begin with a quarter, and at least four units: 10 of 200 per second, then 12.5 and 15.625."""
    world = World()
    entry = next(entry for entry in world.catalog.entries("quakes") if entry.period.label == "2026-03-01")
    # The units of reads say nothing of what may be written.
    world.catalog.note(entry, SeenTable(units, 4000, TableClass.STANDARD))
    begun = world.clock.now()
    parts = world.drainer()
    for number in range(2):
        sent = [decode_event(event(20 * number + n)) for n in range(20)]
        drain_message(encode_message("quakes", sent, 1), parts, lambda: 60.0)
    assert (world.clock.now() - begun).total_seconds() == pytest.approx(seconds)
    assert world.stored() == 40


def test_a_table_that_stays_throttled_is_left_to_the_live_traffic() -> None:
    world = World()
    world.store.throttled = 10**6
    begun = world.clock.now()
    waiting = encode_message("quakes", [decode_event(event(number)) for number in range(20)], 1)
    with pytest.raises(NotDrained, match="20 of 20"):
        world.drain(waiting, 60)
    assert (world.clock.now() - begun).total_seconds() < 4


@pytest.mark.parametrize("earlier", [1, 2], ids=["the archived first", "the archived last"])
def test_events_of_an_archived_period_take_no_other_events_of_their_message_along(earlier: int) -> None:
    """The message becomes a dead letter, which somebody may look at in two weeks. Its other events are acknowledged, too."""
    world = World()
    body = message(world, event(1, days=int(earlier == 1)), event(2, days=int(earlier == 2)))
    world.move("2026-02-28", State.ARCHIVED)
    with pytest.raises(Undrainable, match="restore it"):
        world.drain(body)
    assert [item["data"] for item in world.table("2026-03-01")] == [{"n": 3 - earlier}]


def test_what_cannot_be_written_yet_keeps_no_other_events_of_its_message_waiting() -> None:
    world = World()
    body = message(world, event(1, days=1), event(2))
    missing = world.store.tables.pop("tidetable-t.quakes.2026-02-28")
    with pytest.raises(NotDrained, match="1 of 1 items of quakes are still to be written; missing"):
        world.drain(body)
    assert world.count("2026-03-01") == 1
    world.store.tables["tidetable-t.quakes.2026-02-28"] = missing
    assert (world.drain(body), world.stored()) == (2, 2)


def test_events_of_a_period_without_a_record_keep_no_other_events_of_their_message_waiting() -> None:
    world = World()
    body = message(world, event(1, days=1), event(2))
    key = ("quakes", find_containing(NOW - timedelta(days=1), Kind.DAY))
    recorded = world.catalog.items.pop(key)
    with pytest.raises(NotDrained, match="no period table of quakes is recorded"):
        world.drain(body)
    assert world.count("2026-03-01") == 1
    world.catalog.items[key] = recorded
    assert (world.drain(body), world.stored()) == (2, 2)


def test_a_message_is_not_buried_while_any_of_it_can_still_be_written() -> None:
    world = World()
    world.letters.takes = True
    body = message(world, event(1, days=1), event(2))
    world.move("2026-02-28", State.ARCHIVED)
    world.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    with pytest.raises(NotDrained, match="1 of 1"):
        world.drain(body)
    assert world.letters.kept == []
    world.store.throttles = set()
    assert (world.drain(body), len(world.letters.kept), world.count("2026-03-01")) == (1, 1, 1)


def fences_of(stage: World) -> list[str]:
    """The periods whose fence was asked for from now on, once per transaction."""
    asked: list[str] = []
    transact = stage.store.transact

    def watched(puts: Any, entry: Any = None, total: Any = None) -> Any:
        asked.append(entry.period.label)
        return transact(puts, entry, total)

    stage.store.transact = watched  # type: ignore[method-assign]
    return asked


def test_an_event_without_a_table_is_waited_for_and_not_laid_aside() -> None:
    """The lifecycle makes the table in its next run, and the message comes again."""
    stage = World()
    stage.letters.takes = True
    body = encode_message("quakes", [Event("a", NOW + timedelta(days=1), "1", {})], 1)
    with pytest.raises(NotDrained, match="no period table of quakes is recorded") as refused:
        drain_message(body, stage.drainer(), lambda: 60.0)
    assert (type(refused.value), stage.letters.kept) == (NotDrained, [])


def test_behind_the_window_even_an_open_table_is_written_behind_its_fence() -> None:
    """It may be closed and archived at any moment, whatever was read before."""
    stage = World()
    stage.clock.time += timedelta(days=3)
    stale = list(stage.catalog.entries("quakes"))
    stage.move("2026-03-01", State.ARCHIVING)
    stage.catalog.entries = lambda *_, **__: stale  # type: ignore[method-assign]
    with pytest.raises(Undrainable, match="restore it"):
        stage.drain(encode_message("quakes", [Event("a", NOW, "1", {})], 1))
    assert stage.stored() == 0


@pytest.mark.parametrize("state", [State.CREATING, State.OPEN])
def test_within_the_window_a_table_needs_no_fence(state: State) -> None:
    """A transaction costs twice as many units."""
    stage = World()
    stage.move("2026-03-01", state)
    fences = fences_of(stage)
    assert stage.drain(encode_message("quakes", [Event("a", NOW, "1", {})], 1), 60) == 1
    assert (fences, stage.stored()) == ([], 1)


def test_events_of_a_stream_that_is_no_longer_configured_are_written_behind_the_fence() -> None:
    """Nobody knows its window any more."""
    stage = World()
    fences = fences_of(stage)
    left = {name: stream for name, stream in CONFIG.streams.items() if name != "quakes"}
    drain = stage.pipeline(config=replace(CONFIG, streams=left)).drain
    body = encode_message("quakes", [Event("a", NOW, "1", {"n": 1})], 7)
    assert drain_message(body, drain, lambda: 60.0).events == 1
    assert fences == ["2026-03-01"]
    assert [(item["at"], item["data"]) for item in stage.table("2026-03-01")] == [(7, {"n": 1})]


def test_packs_of_a_stream_that_is_no_longer_configured_are_written_too() -> None:
    stage = world(pack=PackPolicy(span=Duration(hours=1)))
    body = encode_message("quakes", [Event("a", NOW, str(number), {"n": number}) for number in range(3)], 7)
    drain = stage.pipeline(config=replace(CONFIG, streams={})).drain
    assert drain_message(body, drain, lambda: 60.0).events == 3
    assert stage.stored() == 1, "one pack has all of them"


def test_what_is_not_written_because_newer_is_there_costs_units_all_the_same() -> None:
    stage = World()
    entry = next(entry for entry in stage.catalog.entries("quakes") if entry.period.label == "2026-03-01")
    stage.catalog.note(entry, SeenTable(200, 5, TableClass.STANDARD))
    events = [decode_event(event(number)) for number in range(20)]
    drain_message(encode_message("quakes", events, 9), stage.drainer(), lambda: 60.0)
    begun = stage.clock.now()
    assert drain_message(encode_message("quakes", events, 1), stage.drainer(), lambda: 60.0).events == 20
    # A consumer's share is ten units per second: the second ten wait for the first.
    assert stage.clock.now() - begun == timedelta(seconds=1)


def test_of_a_repeated_message_everything_is_written_if_its_table_cannot_be_read() -> None:
    stage = World()
    body = message(stage, event(1), event(2))
    asked: list[bool] = []

    def get_many(*_: Any, consistent: bool = True) -> Any:
        asked.append(consistent)
        raise StoreUnavailable(Outage.NO_ANSWER, "time-out")

    stage.store.get_many = get_many  # type: ignore[method-assign, assignment]
    assert drain_message(body, stage.drainer(), lambda: 60.0, received=2).events == 2
    assert (stage.stored(), asked) == (2, [False]), (
        "to miss an item costs a write, and to read consistently twice as much"
    )


def test_an_event_that_no_table_can_hold_is_laid_aside_with_its_reason() -> None:
    stage = World()
    stage.letters.takes = True
    body = encode_message("quakes", [Event("a", NOW, "1", {"n": "x" * 410_000})], 1)
    drained = drain_message(body, stage.drainer(), lambda: 60.0)
    assert drained.buried == "an event of quakes is too large for period 2026-03-01"
    assert (drained.events, stage.letters.kept, stage.stored()) == (0, [drained.buried], 0)


def test_what_an_event_refers_to_is_written_before_it_behind_the_window_too() -> None:
    stage = world(large=LargePolicy(compress_above=1024, beyond="s3"))
    stage.clock.time += timedelta(days=3)
    stage.move("2026-03-01", State.CLOSED)
    # Six bits per letter are left by the best compression: 525 KB, more than an item may have.
    noise = "".join(Random(1).choices(ascii_letters + digits + "-_", k=700_000))
    body = encode_message("quakes", [Event("a", NOW, "1", {"n": noise})], 1)
    stage.values.refuses = True
    with pytest.raises(NotDrained, match="is not written yet"):
        stage.drain(body, 60)
    assert stage.stored() == 0
    stage.values.refuses = False
    assert (stage.drain(body, 60), stage.stored(), len(stage.values.blobs)) == (1, 1, 1)


def test_the_entries_between_distant_events_are_not_read() -> None:
    """Ten years of hours lie between an event of an import and one of today."""
    catalog, asked = FakeCatalog(), list[tuple[datetime, datetime]]()
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in (0, 1, 32, 64, 64)]
    entries = catalog.entries

    def note(stream: str, first: datetime, last: datetime, *, consistent: bool) -> Any:
        asked.append((first, last))
        return entries(stream, first, last, consistent=consistent)

    catalog.entries = note  # type: ignore[assignment, method-assign]
    for day in range(-1, 70):
        catalog.add(
            make_entry(
                "s",
                find_containing(days[0] + timedelta(days=day), Kind.DAY),
                f"{day}",
                Layout("series", 1, "id"),
                State.OPEN,
                NOW,
            )
        )
    found = read_entries_at(catalog, "s", reversed(days))
    # 31 days, the longest month, lie between the second and the third.
    assert asked == [(days[0], days[2]), (days[3], days[3])]
    assert [int(entry.table) for entry in found] == [*range(33), 64]
    assert read_entries_at(catalog, "s", []) == []
