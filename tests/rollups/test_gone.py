"""Marked buckets whose events are gone for ever: the cells are all that is left, so the mark goes and the cells stay."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES, PLAIN, START, World, reading
from tidetable.catalog import ArchiveFacts, State
from tidetable.periods import Kind, find_containing
from tidetable.ports import Mark
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text

DAYS = replace(HOURS, name="d", every=timedelta(days=1), stream="s-d")
NEXT_DAY = START + timedelta(days=1)
FACTS = ArchiveFacts("s3://archive/manifest.json", 2, 100, START, expired_at=START)
FROM_ONE = {"from": to_text(START + timedelta(hours=1))}


def late(definitions: tuple[Definition, ...] = (MINUTES, HOURS)) -> World:
    """Rollups of an event at 01:02, which a late event at 01:02:30 follows; its mark is old enough to be acted upon."""
    world = World(definitions)
    world.refresh()
    world.sleep(3_700)
    world.write(reading(62, 1, kind="x"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(62.5, 5, kind="x"))
    world.sleep(305)
    return world


def sums(world: World) -> list[object]:
    return [row["sum"] for row in world.ask(step="1h", stat="sum", field="mag", **FROM_ONE).rows]


def test_a_mark_goes_when_its_events_are_gone_and_the_cells_stay() -> None:
    world = late()
    assert sums(world) == [6]
    world.forget("s", START)
    before = {name: dict(table) for name, table in world.store.tables.items()}
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.resealed, report.marks, report.blocked) == (1, 0, 0, [])
    assert world.store.tables == before
    # The late event was deleted before its bucket was computed anew: what was sealed is all that is known.
    assert sums(world) == [1]
    # The bucket of the late event has a gap; behind what is sealed there is another, as without rollups.
    gaps = world.ask(step="1h", stat="sum", field="mag", **FROM_ONE).gaps
    assert [(to_text(gap.start), str(gap.reason)) for gap in gaps] == [
        ("2026-03-02T01:00:00.000000Z", "late events deleted"),
        ("2026-03-02T03:40:00.000000Z", "deleted"),
    ]
    assert gaps[0].end - gaps[0].start == timedelta(minutes=10)
    # Only the part of the bucket that is in the range counts; and another range has no such gap.
    part = {"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T02:00:00Z", "stat": "count"}
    assert [gap.reason for gap in world.ask(**part).gaps] == ["late events deleted"]
    later = {"from": "2026-03-02T01:10:00Z", "to": "2026-03-02T02:00:00Z", "stat": "count"}
    assert list(world.ask(**later).gaps) == []


def test_the_mark_of_a_rebuild_whose_events_are_gone_leaves_no_gap() -> None:
    """A rebuild of a long range also marks buckets whose events were deleted; their cells have all events."""
    world = late((MINUTES,))
    world.refresh()
    assert sums(world) == [6]
    world.rollups.put_marks("s", [START + timedelta(hours=1)], 0, timedelta(seconds=1))
    world.forget("s", START)
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks) == (1, 0)
    assert sums(world) == [6]
    assert [gap.reason for gap in world.ask(step="1h", stat="sum", field="mag", **FROM_ONE).gaps] == ["deleted"]


def test_the_mark_of_a_bucket_that_was_never_sealed_leaves_no_other_gap() -> None:
    """It has no cells that could lack events: its gap says that its table was deleted."""
    world = late((MINUTES,))
    world.rollups.put_marks("s", [START + timedelta(hours=20)], 0, MINUTES.every)
    world.forget("s", START)
    world.refresh()
    state = world.rollups.read_state("s")
    assert [mark.bucket for mark in state.lost] == [START + timedelta(hours=1)]
    assert list(state.marks) == []


def test_a_gap_ends_when_the_events_come_back_and_the_bucket_is_rebuilt() -> None:
    world = late((MINUTES,))
    events = dict(world.store.tables[world.entry("s", START).table])
    world.forget("s", START)
    world.refresh()
    reasons = [gap.reason for gap in world.ask(step="1h", stat="sum", field="mag", **FROM_ONE).gaps]
    assert reasons == ["late events deleted", "deleted"]
    entry = world.entry("s", START)
    world.store.tables[entry.table] = events
    world.set_state("s", START, State.CLOSED)
    world.rollups.put_marks("s", [START + timedelta(hours=1)], 0, MINUTES.every)
    world.refresh()
    assert sums(world) == [6]
    assert list(world.ask(step="1h", stat="sum", field="mag", **FROM_ONE).gaps) == []


def test_a_mark_goes_when_the_archive_of_its_events_has_expired() -> None:
    world = late()
    world.forget("s", START)
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = replace(entry, archive=FACTS)
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks) == (1, 0)


@pytest.mark.parametrize("state", [State.RESTORING, State.ARCHIVED, State.ARCHIVING])
def test_a_mark_stays_while_its_events_may_come_back(state: State) -> None:
    """A restore of an expired archive is under way; or the table is there still, and only the archive has expired."""
    world = late()
    world.forget("s", START)
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = replace(entry, archive=FACTS, state=state)
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks) == (0, 1)
    assert report.blocked != []


def test_a_mark_stays_while_the_archive_of_its_events_can_be_read() -> None:
    world = late()
    world.move_to_archive("s", START)
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.resealed, report.marks) == (0, 2, 0)
    assert sums(world) == [6]


def test_a_mark_that_is_put_again_meanwhile_stays() -> None:
    """A backfill opens the deleted period, marks the bucket and writes to it, while the refresher finds the period deleted."""
    world = late()
    world.forget("s", START)
    calls = 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        world.rollups.put_marks("s", [START + timedelta(hours=1)], int(world.now().timestamp() * 1000), MINUTES.every)

    report = world.refresh(strike=strike)
    assert report is not None
    assert calls > 5
    assert (report.gone, report.marks) == (0, 1)


def by_hours(definitions: tuple[Definition, ...]) -> World:
    """A stream of hourly tables; all of its first day is sealed, and then the tables of its first 12 hours are deleted."""
    world = World(definitions)
    world.catalog.items.pop(("s", find_containing(START, Kind.DAY)))
    for hour in range(24):
        world.add_period("s", Kind.HOUR, START + timedelta(hours=hour), PLAIN)
    world.add_period("s-d", Kind.MONTH, START, world.entry("s-h", START).layout)
    world.time = START - timedelta(minutes=30)
    world.refresh()
    world.time = START + timedelta(hours=1, minutes=3)
    world.write(reading(62, 1, kind="x"))
    world.time = START + timedelta(hours=20, minutes=3)
    world.write(reading(1_202, 10, kind="x"))
    world.time = NEXT_DAY + timedelta(minutes=10)
    world.refresh()
    world.write(reading(62.5, 5, kind="x"), reading(1_202.5, 50, kind="x"))
    world.sleep(305)
    for hour in range(12):
        world.forget("s", START + timedelta(hours=hour))
    return world


def test_a_late_event_that_is_left_counts_in_a_bucket_of_which_a_part_is_gone() -> None:
    """The day is made of its hours: of the deleted hours as they were sealed, and of the others with their late events."""
    world = by_hours((HOURS, DAYS))
    day = {"from": to_text(START), "to": to_text(NEXT_DAY), "stat": "sum", "field": "mag"}
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks, report.blocked) == (1, 0, [])
    answer = world.ask(step="1d", **day)
    assert [row["sum"] for row in answer.rows] == [61]
    assert {scan.entry.stream for scan in answer.sources} == {"s-d"}


def test_a_mark_stays_while_a_part_of_its_bucket_has_events() -> None:
    """With days alone nobody knows whether the late event is in the part that is gone."""
    world = by_hours((DAYS,))
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks, len(report.blocked)) == (0, 1, 1)
    for hour in range(12, 24):
        world.forget("s", START + timedelta(hours=hour))
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks, report.blocked) == (1, 0, [])
    day = {"from": to_text(START), "to": to_text(NEXT_DAY), "stat": "sum", "field": "mag"}
    assert [row["sum"] for row in world.ask(step="1d", **day).rows] == [11]


def test_marks_of_gone_events_are_found_in_one_look_at_the_catalog() -> None:
    world = late()
    world.forget("s", START)
    for minute in range(0, 60, 10):
        world.rollups.marks["s", START + timedelta(hours=1, minutes=minute), MINUTES.every] = 0
    assert Mark(START + timedelta(hours=1), 0, MINUTES.every) in world.rollups.read_state("s").marks
    looks = 0
    inner = world.catalog.entries

    def entries(*arguments: object, **options: object) -> object:
        nonlocal looks
        looks += arguments[0] == "s"
        return inner(*arguments, **options)  # type: ignore[arg-type]

    world.catalog.entries = entries  # type: ignore[method-assign, assignment]
    report = world.refresh()
    assert report is not None
    assert (report.gone, report.marks) == (6, 0)
    assert looks == 1
