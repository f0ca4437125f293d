"""The drain: every queued event is written, or its message comes again."""

from datetime import timedelta
from typing import Any

import pytest

from tests.ingest.streams import NOW
from tests.worlds.intake import World, event
from tidetable.catalog import Seen, State
from tidetable.config import TableClass
from tidetable.errors import NotDrained, Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import encode_message
from tidetable.periods import Kind, containing
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
    today = ("quakes", containing(NOW, Kind.DAY))
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
    pace.spent(entry, 100_000)
    pace.wait(entry, lambda: 2.0)
    assert world.clock.now() - begun == timedelta(seconds=2)
    pace.wait(entry, lambda: -1.0)
    assert world.clock.now() - begun == timedelta(seconds=2)


@pytest.mark.parametrize("units, seconds", [(None, 0.15), (80, 3), (1, 15)])
def test_the_drain_takes_a_share_of_what_a_table_was_seen_to_have(units: int | None, seconds: float) -> None:
    """Both consumers together take a quarter, and enough units for one message."""
    world = World()
    entry = next(entry for entry in world.catalog.entries("quakes") if entry.period.label == "2026-03-01")
    world.catalog.note(entry, Seen(units, units, TableClass.STANDARD))
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
    key = ("quakes", containing(NOW - timedelta(days=1), Kind.DAY))
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
    assert (world.drain(body), len(world.letters.kept), world.count("2026-03-01")) == (0, 1, 1)
