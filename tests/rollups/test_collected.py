"""What is collected for a bucket: nothing from what is damaged or has no table, and no more groups than are needed."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.cells import add_event
from tests.worlds.entries import change_entry
from tests.worlds.rolled import HOURS, MINUTES, PACKED_SERIES, SERIES, START, World, begin_rollups, reading, show_edges
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.periods import Kind
from tidetable.rollup_model.cover import CoveredSpan
from tidetable.rollups.collect import collect_bucket, collect_together
from tidetable.rollups.services import BucketBlocked
from tidetable.rollups.writing import Present, read_present, write_cells

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
BY_DAY = replace(MINUTES, period=Kind.DAY, ahead=timedelta(minutes=5))


def test_a_period_that_never_had_a_table_has_no_events_and_yet_may_lack_cells() -> None:
    world = World()
    start = START + 40 * DAY
    assert collect_bucket(HOURS, [CoveredSpan(start, start + HOUR, None)], world.services()).groups == {}
    with pytest.raises(BucketBlocked, match=r"s-m cannot be read from 2026-04-11T00:00:00.000000Z on: no table"):
        collect_bucket(HOURS, [CoveredSpan(start, start + HOUR, MINUTES)], world.services())


def test_a_period_that_was_deleted_is_not_taken_for_one_without_events() -> None:
    world = World()
    world.forget("s", START)
    with pytest.raises(BucketBlocked, match=r"^s cannot be read from 2026-03-02T00:00:00.000000Z on: deleted$"):
        collect_bucket(HOURS, [CoveredSpan(START, START + HOUR, None)], world.services())


def test_a_damaged_pack_of_a_series_keeps_its_bucket_from_being_sealed() -> None:
    world = World((BY_DAY,), PACKED_SERIES)
    world.refresh()
    world.write(reading(25, 1))
    table = world.store.tables[world.entry("s", START).table]
    for key, item in table.items():
        table[key] = {**item, "pack": b"no pack"}
    world.sleep(3_600)
    report = world.refresh()
    assert report is not None
    assert report.blocked[0].startswith("s-m: s cannot be read from 2026-03-02T00:")
    assert "damaged" in report.blocked[0]
    assert show_edges(world, "m") == ["00:10-00:10"]


def test_a_bucket_with_too_many_groups_is_read_no_further() -> None:
    """Two groups are allowed. The page of the first of two suffixes has seven, so the second page is not looked at."""
    few = replace(MINUTES, max_groups=2)
    world = World((few,))
    world.write(*(reading(21 + n / 10, n, f"s{n}") for n in range(9)))
    segment = CoveredSpan(START + 20 * MINUTE, START + 30 * MINUTE, None)
    bucket = collect_bucket(few, [segment], world.services())
    assert (bucket.is_over, len(bucket.groups)) == (True, 7)


def test_of_buckets_that_are_read_together_those_with_too_many_groups_grow_no_further() -> None:
    few = replace(BY_DAY, max_groups=2)
    world = World((few,), SERIES)
    world.write(*(reading(21 + n / 10, n, f"s{n}") for n in range(9)), reading(12, 1, "s0"))
    buckets = collect_together(few, START + 10 * MINUTE, 2, world.services())
    assert {f"{at:%H:%M}": len(bucket.groups) for at, bucket in buckets.items()} == {"00:10": 1, "00:20": 3}


@pytest.mark.parametrize(
    ("start", "due", "count"),
    [
        ("at first", 10, 10),
        ("at first", 25, 10),
        ("at first", 2, 2),
        # One bucket is read alone.
        ("at first", 1, 0),
        # Buckets are read together up to the end of their period.
        ("at last", 10, 3),
        ("the last", 10, 0),
    ],
)
def test_so_many_buckets_are_read_together(start: str, due: int, count: int) -> None:
    world = World((BY_DAY,), SERIES)
    at = {"at first": START, "at last": START + DAY - 30 * MINUTE, "the last": START + DAY - 10 * MINUTE}[start]
    assert list(collect_together(BY_DAY, at, due, world.services())) == [at + n * 10 * MINUTE for n in range(count)]


@pytest.mark.parametrize(
    ("units", "remaining", "seconds"),
    [
        # Half of four units, and one unit at the least.
        (4, 100.0, 2.5),
        (1, 100.0, 5.0),
        # On demand, and of a table that nobody has looked at: 4,000 units per second.
        (None, 100.0, 0.00125),
        ("unseen", 100.0, 0.00125),
        # No longer than the run may take, and not at all after its end.
        (4, 1.5, 1.5),
        (4, -1.0, 0.0),
    ],
)
def test_a_bucket_is_read_at_the_pace_that_leaves_units_to_queries(
    units: Any, remaining: float, seconds: float
) -> None:
    """Five series of two suffixes each: ten requests of the fake, which take half a unit each."""
    world = World((BY_DAY,), SERIES)
    world.write(*(reading(21 + n, n, f"s{n}") for n in range(5)))
    entry = world.entry("s", START)
    seen = None if units == "unseen" else SeenTable(5, units, TableClass.STANDARD)
    world.catalog.items["s", entry.period] = change_entry(entry, seen=seen)
    read: list[bool] = []
    query_many = world.store.query_many

    def note_read(*arguments: Any, **options: Any) -> Any:
        read.append(True)
        return query_many(*arguments, **options)

    world.store.query_many = note_read  # type: ignore[method-assign]
    before = world.time
    segment = CoveredSpan(START + 20 * MINUTE, START + 30 * MINUTE, None)

    def count_down() -> float:
        return remaining - (world.time - before).total_seconds() if read else 100.0

    services = replace(world.services(), reader=world.reader, remaining=count_down)
    collect_bucket(BY_DAY, [segment], services)
    assert (world.time - before).total_seconds() == seconds


def test_cells_of_a_table_that_is_gone_are_not_taken_for_none() -> None:
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    del world.store.tables[entry.table]
    with pytest.raises(BucketBlocked, match=r"table tidetable-t\.s-m\.2026-03-02 does not exist"):
        read_present(entry, START + HOUR, world.services())


@pytest.mark.parametrize(("present", "at"), [(0, 5_000), (4_998, 5_000), (5_000, 5_001), (7_000, 7_001)])
def test_cells_are_newer_than_those_that_they_replace(present: int, at: int) -> None:
    """Two copies of one instant would not say which of them counts."""
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    bucket = collect_bucket(MINUTES, [], world.services())
    add_event(bucket, "a", "1#a#1", {"mag": 2})
    read_at = START.fromtimestamp(5, START.tzinfo)
    write_cells(MINUTES, entry, bucket.make_events(START + HOUR), Present({}, present), read_at, world.services())
    assert {item["at"] for item in world.store.tables[entry.table].values()} == {at}
