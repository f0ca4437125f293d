"""What the refresher reads: strongly consistent, whole, and never more than it has time for."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import refresh_rollups
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import (
    HOURS,
    LENGTH,
    MINUTES,
    PACKED,
    PLAIN,
    QUERIES,
    START,
    World,
    begin_rollups,
    reading,
    show_edges,
)
from tidetable.catalog import ArchiveFacts, State
from tidetable.layout import Key, Layout, Packing
from tidetable.ports import Blob
from tidetable.rollups.run import RefreshReport

DAILY = replace(HOURS, name="d", stream="s-d", every=timedelta(days=1))
# Days in one table, whose events are in four buckets of six hours.
DAYS_LAYOUT = Layout("time", 1, "id", 86_400, pack=Packing(86_400, 65_536))


def run(world: World, remaining: Callable[[], float] = lambda: 100.0) -> RefreshReport:
    report = refresh_rollups(world.definitions, replace(world.services(), remaining=remaining), "run", LENGTH)
    assert report is not None
    return report


def begin_days(*others: object) -> World:
    """A world with a rollup of days, which begins on 3 March."""
    world = World((*others, DAILY))  # type: ignore[arg-type]
    world.add_period("s-d", world.entry("s-h", START).period.kind, START, DAYS_LAYOUT)
    world.refresh()
    return world


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["items", "packs"])
def test_a_run_whose_eventually_consistent_reads_are_old_computes_the_same(layout: Layout) -> None:
    """DynamoDB may answer such a read from a copy that lacks the last writes."""
    world = begin_rollups(layout=layout)
    world.write(reading(62, 1, kind="x"))
    world.sleep(10_000)
    world.refresh()
    # These copies know nothing of what follows, neither events nor periods nor cells.
    world.store.stale = deepcopy(world.store.tables)
    world.catalog.stale = {}
    world.write(reading(63, 5, kind="y"), reading(62, 1, kind="z"))
    world.sleep(400)
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.blocked, report.failed, report.marks) == (2, [], [], 0)
    world.store.stale = world.catalog.stale = None
    assert world.check(QUERIES) == len(QUERIES)


def test_a_run_whose_reads_of_cells_are_old_writes_what_the_table_lacks() -> None:
    """The cell of a group that is gone again: a copy of before the last run does not have it."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x", id="p"))
    world.store.stale = deepcopy(world.store.tables)
    world.refresh()
    world.write(reading(45, 1, kind="y", id="p"))
    world.sleep(400)
    world.refresh()
    world.store.stale = None
    assert [row["group"]["kind"] for row in world.ask(step="10m", by="kind").rows] == ["y"]


def test_a_bucket_with_a_damaged_pack_is_not_sealed() -> None:
    world = begin_rollups((MINUTES,), PACKED)
    world.write(reading(25, 1, kind="x"))
    table = world.store.tables[world.entry("s", START).table]
    (key,) = table
    whole = table[key]
    table[key] = {**whole, "pack": b"no pack"}
    report = run(world)
    assert show_edges(world, "m") == ["00:10-00:20"]
    assert report.blocked[0].startswith("s-m: s cannot be read from 2026-03-02T00:")
    table[key] = whole
    assert run(world).blocked == []
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert [row["count"] for row in world.ask(step="10m").rows] == [1]


@pytest.mark.parametrize("looks", range(1, 8))
def test_a_bucket_that_the_time_does_not_suffice_to_read_is_left_to_the_next_run(looks: int) -> None:
    """A day is read from four buckets of six hours: a part of it must not be sealed as if it were all."""
    world = begin_days()
    world.sleep(24 * 3_600)
    world.write(*[reading(24 * 60 + 60 * n, n, kind="x") for n in range(24)])
    world.sleep(24 * 3_600 + 300)
    left = iter(range(looks))
    report = run(world, lambda: 100.0 if next(left, None) is not None else 0.0)
    day = world.ask(step="1d", stat="count,sum", field="mag", **DAY).rows
    assert (day[0]["count"], day[0]["sum"]) == (24, 276)
    assert report.finished is bool(report.sealed)
    assert run(world).finished
    assert world.ask(step="1d", stat="count,sum", field="mag", **DAY).rows == day
    assert show_edges(world, "d") == ["00:00-00:00"]
    (edge,) = world.rollups.read_state("s").edges
    assert edge.sealed == START + timedelta(days=2)


DAY = {"from": "2026-03-03T00:00:00Z", "to": "2026-03-04T00:00:00Z"}


def test_a_run_without_time_seals_nothing_and_says_so() -> None:
    world = begin_rollups((MINUTES,))
    report = run(world, lambda: 2.9)
    assert (report.finished, report.sealed, show_edges(world, "m")) == (False, 0, ["00:10-00:10"])
    # The first bucket could have been sealed at 00:23:30, and it is 01:20.
    assert report.lag == timedelta(minutes=56, seconds=30)
    report = run(world)
    assert (report.finished, report.sealed) == (True, 6)


def test_marks_are_taken_from_the_newest_on_while_there_is_time() -> None:
    world = begin_rollups((MINUTES, HOURS))
    world.sleep(4 * 3_600)
    world.refresh()
    for minutes in (65, 125, 185):
        world.rollups.marks["s", START + timedelta(minutes=minutes - 5), MINUTES.every] = 0
    # The time is up when the first mark is cleared.
    report = run(world, lambda: 100.0 if len(world.rollups.marks) == 3 else 0.0)
    assert (report.finished, report.resealed, report.marks) == (False, 2, 2)
    assert [f"{bucket:%H:%M}" for _, bucket, _ in world.rollups.marks] == ["01:00", "02:00"]


def test_a_rollup_begins_anew_behind_the_last_gap_of_deleted_events() -> None:
    """Two days were deleted before any of their hours was sealed; the archive of the first has expired."""
    world = World((HOURS,))
    world.refresh()
    world.sleep(49 * 3_600)
    world.forget("s", START)
    world.forget("s", START + timedelta(days=1))
    first = world.entry("s", START)
    facts = ArchiveFacts("manifest", 0, 0, START, expired_at=START + timedelta(days=1))
    world.catalog.items["s", first.period] = replace(first, archive=facts)
    assert run(world).blocked == []
    edges = world.rollups.read_state("s").edges
    assert [(edge.start - START, edge.sealed - START) for edge in edges] == [
        (timedelta(hours=1), timedelta(hours=1)),
        (timedelta(hours=48), timedelta(hours=48)),
    ]


def test_a_bucket_of_an_expired_archive_is_passed_by() -> None:
    world = World((HOURS,))
    world.refresh()
    world.sleep(25 * 3_600)
    first = world.entry("s", START)
    facts = ArchiveFacts("manifest", 0, 0, START, expired_at=START + timedelta(days=1))
    world.catalog.items["s", first.period] = replace(first, state=State.DELETED, archive=facts)
    assert run(world).blocked == []
    assert show_edges(world, "h") == ["01:00-01:00", "00:00-00:00"]


def test_a_former_definition_does_not_begin_anew_behind_deleted_events() -> None:
    world = World((HOURS,))
    world.refresh()
    world.sleep(30 * 3_600)
    world.definitions["s"] = [replace(HOURS, by=())]
    world.forget("s", START)
    run(world)
    edges = world.rollups.read_state("s").edges
    assert [(edge.start - START) // timedelta(hours=1) for edge in edges] == [1, 31]


def test_a_period_without_a_table_has_no_events_but_a_finer_rollup_without_one_says_nothing() -> None:
    """Cells that are missing are not the same as events that never came."""
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"))
    del world.catalog.items["s", world.entry("s", START + timedelta(days=3)).period]
    world.sleep(4 * 86_400)
    report = run(world)
    # Hours of the day without a table of the stream are sealed, and have no events.
    assert not [text for text in report.blocked if text.startswith("s-h")]
    assert world.rollups.read_state("s").edges[-1].sealed > START + timedelta(days=3)


def test_an_hour_is_made_of_its_ten_minutes_whatever_the_order_in_the_configuration() -> None:
    world = begin_rollups((HOURS, MINUTES))
    world.write(reading(62, 1, kind="x"), reading(85, 2, kind="x"))
    world.sleep(3_000)
    # The events are gone from sight once their ten minutes are sealed.
    world.definitions["s"] = [MINUTES]
    run(world)
    world.store.tables[world.entry("s", START).table].clear()
    world.definitions["s"] = [HOURS, MINUTES]
    world.sleep(400)
    run(world)
    hour = {"step": "1h", "from": "2026-03-02T01:00:00Z", "to": "2026-03-02T02:00:00Z", "stat": "sum", "field": "mag"}
    assert {scan.entry.stream for scan in world.ask(**hour).sources} == {"s-h"}
    assert [row["sum"] for row in world.ask(**hour).rows] == [3]


def test_marks_of_one_hour_are_done_together_whatever_the_order_in_the_configuration() -> None:
    world = begin_rollups((HOURS, MINUTES))
    world.sleep(7_200)
    run(world)
    for minutes in (60, 80, 100):
        world.rollups.marks["s", START + timedelta(minutes=minutes), MINUTES.every] = 0
    assert run(world).resealed == 4


def test_a_bucket_that_is_not_sealed_yet_is_not_sealed_anew() -> None:
    """Its mark is cleared: it is read from the events until it is sealed."""
    world = begin_rollups((MINUTES,))
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10"]
    world.write(reading(75, 1, kind="x"))
    assert len(world.rollups.marks) == 1
    # 01:23: the mark's writer is dead, and the bucket can be sealed from 01:23:30 on.
    world.sleep(180)
    report = run(world)
    assert (report.resealed, report.marks, show_edges(world, "m")) == (0, 0, ["00:10-01:10"])


def test_cells_of_an_archived_period_answer_and_are_what_coarser_ones_are_made_of() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(62, 1, kind="x"), reading(85, 2, "b", kind="y"))
    world.sleep(30 * 3_600)
    world.refresh()
    world.move_to_archive("s-m", START)
    world.forget("s", START)
    span = {"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T02:00:00Z"}
    page = world.ask(step="10m", by="series", **span)
    assert {scan.entry.stream for scan in page.sources} == {"s-m"}
    assert [(row["group"]["series"], row["count"]) for row in page.rows] == [("a", 1), ("b", 1)]
    # A rollup of hours is added, and rebuilt: the events are gone, and their ten minutes are in the archive.
    world.definitions["s"] = [MINUTES, HOURS]
    run(world)
    world.sleep(2 * 3_600)
    run(world)
    begin = START + timedelta(hours=1)
    rebuild(world, HOURS, begin, begin)
    page = world.ask(step="1h", stat="sum", field="mag", **span)
    assert {scan.entry.stream for scan in page.sources} == {"s-h"}
    assert [row["sum"] for row in page.rows] == [3]


def test_events_whose_data_is_in_the_bucket_are_rolled_up_by_what_is_in_it() -> None:
    world = begin_rollups((MINUTES,))
    item = PLAIN.make_item(reading(45, 7, kind="x"), at=1)
    packed = {name: item[name] for name in ("pk", "sk", "at")}
    text, owner = b'{"kind":"x","mag":7}', Key(item["pk"], item["sk"])
    world.values.put(Blob("large/one", world.reader.unpacker.compressor.compress(text), owner))
    packed["out"] = {"o": "large/one", "b": len(text)}
    world.store.tables[world.entry("s", START).table][Key(item["pk"], item["sk"])] = packed
    run(world)
    bucket = {"from": "2026-03-02T00:40:00Z", "to": "2026-03-02T00:50:00Z"}
    page = world.ask(by="kind", stat="sum", field="mag", **bucket)
    assert [(row["group"]["kind"], row["sum"]) for row in page.rows] == [("x", 7)]
    assert {scan.entry.stream for scan in page.sources} == {"s-m"}
