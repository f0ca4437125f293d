"""The catalog entries that a process keeps: they save reads, and never let a write reach a table that is being archived."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import LABEL, MINUTE, Process, event
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.config.stream import OnExpiry
from tidetable.expiry import compute_settling, is_closed, is_expired
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.recent_periods import KEPT, RecentPeriods
from tidetable.periods import Kind, find_containing
from tidetable.times import to_text
from tidetable.window import Window

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_the_catalog_is_read_from_the_oldest_event_to_the_newest() -> None:
    process = Process()
    process.serve(MINUTE, 2 * HOUR, DAY)
    assert process.reads() == [(NOW - DAY, NOW - MINUTE, False)]


@pytest.mark.parametrize(("days", "spans"), [((31, 29), [(31, 0)]), ((200, 199, 35), [(200, 199), (35, 35), (0, 0)])])
def test_entries_between_distant_events_of_an_import_are_not_read(
    days: tuple[int, ...], spans: list[tuple[int, int]]
) -> None:
    process = Process()
    opened = Opening(NOW + DAY, None, None)
    process.catalog.put_backfill(Backfill("quakes", NOW - 300 * DAY, NOW - DAY, opened))
    layout = CONFIG.streams["quakes"].layout
    for number in days:
        period = find_containing(NOW - number * DAY, Kind.DAY)
        table = f"tidetable-t.quakes.{period.label}"
        process.catalog.add(Entry("quakes", period, table, layout, State.OPEN, NOW, opened=opened))
        process.store.tables[table] = {}
    outcome = process.serve(*(number * DAY for number in (0, *days)))
    assert (outcome.accepted, outcome.queued) == (1 + len(days), 0)
    assert process.reads() == [(NOW - first * DAY, NOW - last * DAY, False) for first, last in spans]


def test_an_open_entry_is_kept_until_its_period_ends_and_then_for_two_seconds() -> None:
    """The period of 1 March has closed at no configuration before it ends, so no archive of it has begun."""
    process = Process()
    process.serve(MINUTE)
    assert len(process.reads()) == 1
    process.clock.time = datetime.fromisoformat("2026-03-01T23:59:59.999999Z")
    process.serve(MINUTE)
    process.serve(2 * MINUTE)
    assert process.reads() == []
    process.clock.time = datetime.fromisoformat("2026-03-02T00:00:00Z")
    process.serve(MINUTE)
    assert len(process.reads()) == 1
    process.clock.time += timedelta(seconds=1.9)
    process.serve(MINUTE)
    assert process.reads() == []
    process.clock.time += timedelta(seconds=0.1)
    process.serve(MINUTE)
    assert len(process.reads()) == 1
    assert timedelta(seconds=2) == KEPT


def test_an_entry_of_a_period_that_is_over_is_read_once_in_two_seconds() -> None:
    process = Process()
    process.serve(DAY)
    assert len(process.reads()) == 1
    process.clock.time += timedelta(seconds=1.9)
    process.serve(DAY)
    process.serve(DAY + MINUTE)
    assert process.reads() == []
    process.clock.time += timedelta(seconds=0.1)
    process.serve(DAY)
    assert len(process.reads()) == 1


def test_the_local_stage_reads_a_present_period_once_in_two_seconds() -> None:
    """There, the lifecycle can act as if the period were over, and archive it."""
    process = Process()
    process.known = RecentPeriods(until_end=False)
    process.serve(MINUTE)
    assert len(process.reads()) == 1
    process.clock.time += timedelta(seconds=2)
    process.serve(MINUTE)
    assert len(process.reads()) == 1


@pytest.mark.parametrize(("stage", "reads"), [("local", 1), ("dev", 0)])
def test_the_stage_decides_how_long_entries_are_kept(stage: str, reads: int) -> None:
    process = Process()
    process.known = process.pipeline(stage=stage).known
    process.serve(MINUTE)
    process.reads()
    process.clock.time += timedelta(seconds=2)
    process.serve(MINUTE)
    assert len(process.reads()) == reads


@pytest.mark.parametrize("on_expiry", ["archive", "delete"])
def test_no_configuration_ends_a_table_within_15_minutes_of_its_period(on_expiry: OnExpiry) -> None:
    """This allows a kept entry: a request that begins before the period's end is over half a minute later."""
    stream = replace(CONFIG.streams["quakes"], late=timedelta(0), retention=0, on_expiry=on_expiry)
    entry = Process().catalog.entries("quakes")[-1]
    settled = datetime.fromisoformat("2026-03-02T00:15:00Z")
    assert entry.period.label == LABEL
    assert not is_closed(entry.period, stream, datetime.fromisoformat("2026-03-02T00:00:00Z"))
    assert not is_expired(entry, stream, settled)
    assert is_expired(entry, stream, settled + timedelta(microseconds=1))
    assert compute_settling(entry, timedelta(0)) == settled


def test_events_of_another_period_make_it_read_and_both_are_kept() -> None:
    process = Process()
    process.serve(MINUTE)
    process.serve(DAY)
    assert len(process.reads()) == 2
    assert process.serve(MINUTE, DAY).accepted == 2
    assert process.reads() == []
    assert process.serve(MINUTE, 2 * DAY).accepted == 2
    assert len(process.reads()) == 1


def test_a_read_of_another_period_makes_no_kept_entry_younger() -> None:
    process = Process()
    process.serve(DAY)
    process.clock.time += timedelta(seconds=1.5)
    process.serve(2 * DAY)
    process.reads()
    process.clock.time += timedelta(seconds=0.5)
    process.serve(2 * DAY)
    assert process.reads() == []
    process.serve(DAY)
    assert len(process.reads()) == 1


def test_a_gap_between_the_periods_that_are_kept_makes_it_read() -> None:
    process = Process()
    process.serve(MINUTE)
    process.serve(2 * DAY)
    process.reads()
    assert process.serve(MINUTE, DAY, 2 * DAY).accepted == 3
    assert len(process.reads()) == 1


def test_a_table_that_is_being_created_is_kept_too() -> None:
    process = Process()
    process.move(LABEL, State.CREATING)
    process.reads()
    for _ in range(2):
        assert process.serve(MINUTE).accepted == 1
    assert len(process.reads()) == 1


def test_streams_are_kept_apart() -> None:
    process = Process()
    process.serve(MINUTE)
    process.reads()
    devices = CONFIG.streams["devices"]
    context = RequestContext(devices, StreamRules.of(devices, devices.layout), Window.of(devices, NOW), NOW)
    entries = process.known.find_covering(process.catalog, context, [to_text(NOW)], to_text(NOW), to_text(NOW))
    assert entries == []
    assert len(process.reads()) == 1


def test_a_clock_that_is_set_back_makes_nothing_young_again() -> None:
    process = Process()
    process.serve(MINUTE)
    process.clock.time -= HOUR / 60
    process.reads()
    process.serve(timedelta(0))
    assert len(process.reads()) == 1


def test_a_table_that_is_recorded_after_an_event_was_queued_for_it_takes_the_next() -> None:
    process = Process()
    today = process.catalog.items.pop(("quakes", find_containing(NOW, Kind.DAY)))
    assert process.serve(MINUTE).queued == 1
    process.catalog.add(today)
    assert process.serve(MINUTE).queued == 0


def test_what_was_archived_and_is_restored_is_not_refused_by_what_is_kept() -> None:
    process = Process()
    process.move(LABEL, State.ARCHIVED)
    assert process.serve(MINUTE, DAY).rejections[0].code == "too_old"
    process.move(LABEL, State.OPEN)
    assert process.serve(MINUTE, DAY).rejections == []


def test_what_leaves_the_window_is_refused_though_its_open_entry_is_kept() -> None:
    """By the time of the request itself: 27 February is within the window until 00:00 of 3 March less two days."""
    process = Process()
    process.clock.time = datetime.fromisoformat("2026-03-01T23:59:59Z")
    event_at = process.clock.time - 2 * DAY
    assert process.serve(timedelta(0), 2 * DAY).accepted == 2
    process.clock.time += timedelta(seconds=1.5)
    assert process.clock.time - event_at > 2 * DAY
    sent = event(7) | {"time": to_text(event_at)}
    outcome = process.send(event(1) | {"time": to_text(process.clock.time)}, sent, known=process.known)
    assert [rejection.code for rejection in outcome.rejections] == ["too_old"]


def backfilled(process: Process) -> Entry:
    """A past day that is open for a backfill."""
    opened = Opening(NOW + HOUR, None, None)
    period = find_containing(NOW - 5 * DAY, Kind.DAY)
    table = f"tidetable-t.quakes.{period.label}"
    entry = Entry("quakes", period, table, CONFIG.streams["quakes"].layout, State.OPEN, NOW, opened=opened)
    process.catalog.add(entry)
    process.catalog.put_backfill(Backfill("quakes", NOW - 6 * DAY, NOW - 4 * DAY, opened))
    process.store.tables[table] = {}
    return entry


def test_events_of_a_backfill_always_read_the_catalog() -> None:
    """An operator can archive its table while the backfill is open, so a kept entry must not allow a write."""
    process = Process()
    entry = backfilled(process)
    for _ in range(3):
        assert process.serve(5 * DAY).accepted == 1
    assert len(process.reads()) == 3
    process.catalog.move(entry, State.ARCHIVING, expected=[State.OPEN])
    held = process.count(entry.period.label)
    outcome = process.serve(5 * DAY, MINUTE)
    assert [rejection.code for rejection in outcome.rejections] == ["too_old"]
    assert process.count(entry.period.label) == held


def test_a_backfills_event_makes_its_whole_request_read_although_every_period_of_the_request_is_kept() -> None:
    process = Process()
    entry = backfilled(process)
    for days in (1, 2):
        period = entry.period.shift(days)
        process.catalog.add(replace(entry, period=period, table=f"tidetable-t.quakes.{period.label}"))
    process.reads()
    for _ in range(3):
        assert process.serve(MINUTE, 5 * DAY).accepted == 2
    assert len(process.reads()) == 3


def test_the_events_of_a_closed_table_are_queued_so_that_none_is_written_behind_an_archive() -> None:
    """A closed table is in the window again where `late` was raised; an archiver that does not know it may scan the table.

    The drain writes such events, each on condition that the table is not archived.
    """
    process = Process()
    process.move(LABEL, State.CLOSED)
    for number in (1, 2):
        outcome = process.serve(number * MINUTE)
        assert (outcome.accepted, outcome.queued, process.count(LABEL)) == (0, 1, 0)
    assert len(process.reads()) == 3, "one is the test's own"
    transacted = process.store.transact
    conditions: list[Any] = []

    def transact(puts: Any, entry: Any = None, total: Any = None) -> Any:
        conditions.append(entry.table)
        return transacted(puts, entry, total)

    process.store.transact = transact  # type: ignore[method-assign]
    for queued in process.overflow.queued:
        assert process.drain(encode_message("quakes", [queued], 1), 100.0) == 1
    assert (process.count(LABEL), conditions) == (2, [f"tidetable-t.quakes.{LABEL}"] * 2)
    process.move(LABEL, State.ARCHIVING)
    assert process.serve(3 * MINUTE, DAY).rejections[0].code == "too_old"
    assert process.count(LABEL) == 2


def test_a_backfill_ends_at_its_instant() -> None:
    process = Process()
    backfilled(process)
    sent = [event(1) | {"time": to_text(NOW - 5 * DAY)}, event(2) | {"time": to_text(NOW)}]
    process.clock.time = NOW + HOUR - timedelta(seconds=1)
    outcome = process.send(*sent, known=process.known)
    assert [backfill["until"] for backfill in outcome.document()["window"]["backfills"]] == [
        "2026-03-01T01:05:00.000000Z"
    ]
    assert outcome.rejections == []
    process.clock.time = NOW + HOUR
    outcome = process.send(*sent, known=process.known)
    assert outcome.document()["window"]["backfills"] == []
    assert [rejection.code for rejection in outcome.rejections] == ["too_old"]
