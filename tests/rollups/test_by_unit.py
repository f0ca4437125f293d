"""Long buckets are divided by units of settling: each part reads some series or suffixes of the whole bucket."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.divided import divide_short, draw_event, list_cells, list_filled
from tests.worlds.entries import change_entry
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import LENGTH, MINUTES, QUERIES, START, Killed, World, reading, show_edges
from tests.worlds.runs import begin_run, refresh
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind
from tidetable.rollup_model.cover import list_versions
from tidetable.rollups.bucket_parts import divide_bucket, list_parts
from tidetable.rollups.division import Division, divide
from tidetable.rollups.worker import RollupWorker
from tidetable.work.claim import ItemName

MINUTE = timedelta(minutes=1)
BY_DAY = replace(MINUTES, period=Kind.DAY)
# A series of plain items by series has three units, a series of packs one; the others have nine suffixes.
LAYOUTS = {
    "plain by series": Layout("series", 3, "id"),
    "packs by series": Layout("series", 3, "id", pack=Packing(600, 65_536)),
    "packs of suffixes by series": Layout("time", 9, "series", 21_600, pack=Packing(600, 65_536)),
    "plain by time": Layout("time", 9, "id", 21_600),
}
SERIES = [f"s{number}" for number in range(9)]
# Ten minutes after 01:00 have 36 events of nine series.
EVENTS = [reading(60 + n / 4, n % 7, SERIES[n * 5 % 9], f"{n}", kind="xyz"[n % 3]) for n in range(36)]


def prepare(layout: Layout, events: Any = EVENTS) -> World:
    """A world whose bucket of 01:00 has events and is the only one that is due."""
    world = World((BY_DAY if layout.partition_by == "series" else MINUTES,), layout)
    refresh(world, "begin")
    world.sleep(4_000)
    refresh(world, "before")
    world.write(*events)
    world.sleep(420)
    return world


def list_whole(layout: Layout, events: Any = EVENTS) -> list[Any]:
    """The filled cells of the same events, of buckets that were read as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        world = prepare(layout, events)
        refresh(world, "run")
        assert not world.work.list_items("part")
    return list_filled(world)


def note_parts(world: World) -> list[int | None]:
    """List the shares of the parts that are stored from now on."""
    shares: list[int | None] = []
    put_part = world.rollups.put_part

    def note(name: str, generation: int, pieces: Any) -> None:
        shares.extend(part.memo.share for part in list_parts(begin_run(world)) if part.item.name == name)
        put_part(name, generation, pieces)

    world.rollups.put_part = note  # type: ignore[method-assign]
    return shares


@pytest.fixture(params=[*LAYOUTS.values()], ids=[*LAYOUTS])
def layout(request: pytest.FixtureRequest) -> Layout:
    kept: Layout = request.param
    return kept


def note_ranges(world: World) -> Counter[str]:
    """Count the reads of each partition key of the first day that begin from now on."""
    keys, query, table = Counter[str](), world.store.query_many, world.entry("s", START).table

    def note(reads: Any, **how: Any) -> Any:
        keys.update(read.keys.pk for read in reads if read.keys.table == table)
        return query(reads, **how)

    world.store.query_many = note  # type: ignore[method-assign]
    return keys


def test_a_long_bucket_is_sealed_from_shares_of_its_units(monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    whole = list_whole(layout)
    divide_short(monkeypatch, part=20, whole=12)
    world = prepare(layout)
    shares = note_parts(world)
    report = refresh(world, "run")
    assert (report.finished, report.failed, show_edges(world, "m")) == (True, [], ["00:10-01:10"])
    assert list_cells(world) == whole
    # It has 13 events or more when it is found to be long, and is taken to have four times as many.
    assert {*shares} == {0, 1, 2}
    assert world.check(QUERIES) > 0
    # The next buckets are known to be long, so each reads each of its keys once, and they are not read together.
    world.write(*(reading(70 + n / 4, n, SERIES[n % 9], f"{n}", kind="x") for n in range(80)))
    world.sleep(1_200)
    keys = note_ranges(world)
    shares.clear()
    assert refresh(world, "next").sealed == 2
    assert sorted(map(str, shares)) == ["0", "0", "1", "1"]
    assert (len(keys), {*keys.values()}) == (27 if layout.partition_by == "series" else 9, {2})
    assert world.check(QUERIES) > 0
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})


@expect_failures("moved by another run")
@pytest.mark.parametrize("pause", [None, 0.0, LENGTH.total_seconds() + 1], ids=["killed", "at once", "later"])
def test_a_run_may_be_killed_or_overtaken_at_its_requests(
    monkeypatch: pytest.MonkeyPatch, layout: Layout, pause: float | None
) -> None:
    """While it stands still, an event of the bucket changes its group, and another run works."""
    events, calls = EVENTS[::3], list[int]()
    divide_short(monkeypatch, part=8, whole=4)
    refresh(prepare(layout, events), "count", lambda: calls.append(1))
    assert len(calls) > 100
    # Each form and each pause takes other requests, because all of them take a minute.
    first = 2 + 3 * [*LAYOUTS.values()].index(layout) + [None, 0.0].count(pause)
    for number in range(first, len(calls) + 1, 53):
        world, left = prepare(layout, events), number

        def strike() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                if pause is None:
                    raise Killed
                world.write(reading(60, 9, "s0", "0", kind="q"))  # noqa: B023
                world.sleep(pause)  # noqa: B023
                refresh(world, "other")  # noqa: B023

        with suppress(Killed):
            refresh(world, "run", strike)
        assert world.check(QUERIES) > 0, number
        for _ in range(3):
            world.sleep(1_000)
            report = refresh(world, f"after {number}")
        assert (report.marks, world.check(QUERIES) > 0) == (0, True), number
        assert (world.work.list_items("part"), world.rollups.parts) == ([], {}), number


def test_days_of_late_and_doubled_events_give_the_cells_of_one_run_at_a_time(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Two worlds get the same events, also again and late. In one, buckets have parts, and runs are killed and overtaken."""
    chance, used = Random(11), 0
    worlds = [prepare(layout, ()) for _ in range(2)]
    reference, other = worlds
    for step in range(24):
        now = (reference.time - START).total_seconds() / 60
        events = [draw_event(chance, now) for _ in range(chance.randrange(12))]
        kill, interrupt = chance.randrange(300), chance.randrange(150)
        for world in worlds:
            world.write(*events)
        divide_short(monkeypatch, part=1_000, whole=1_000)
        refresh(reference, "run")
        divide_short(monkeypatch, part=2, whole=2)
        shares, calls = note_parts(other), 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == interrupt:  # noqa: B023
                refresh(other, f"another {step}")  # noqa: B023
            if calls >= kill:  # noqa: B023
                raise Killed

        with suppress(Killed):
            refresh(other, f"run {step}", strike)
        used += len([share for share in shares if share is not None])
        del other.rollups.put_part
        for world in worlds:
            world.sleep(1_800)
    for world in worlds:
        for _ in range(2):
            world.sleep(3_700)
            report = refresh(world, "last")
        assert (report.marks, report.failed, report.blocked) == (0, [], [])
    assert used > 5
    assert show_edges(other, "m") == show_edges(reference, "m")
    assert len(list_filled(reference)) > 50
    assert list_filled(other) == list_filled(reference)


def test_a_late_event_that_comes_while_parts_are_read_is_in_the_cells_afterwards(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """The event changes after each part that is read, so some parts have it and some do not."""
    divide_short(monkeypatch, part=20, whole=12)
    world = prepare(layout)
    put_part, changes = world.rollups.put_part, list("uvw")

    def change(name: str, generation: int, pieces: Any) -> None:
        put_part(name, generation, pieces)
        if changes:
            world.write(reading(60, 7, "s0", "0", kind=changes.pop(0)))

    world.rollups.put_part = change  # type: ignore[method-assign]
    assert refresh(world, "run").marks == 1
    assert (changes, world.check(QUERIES) > 0) == ([], True)
    for _ in range(2):
        world.sleep(1_300)
        report = refresh(world, "again")
    assert report.marks == 0
    assert [text for _, text in list_filled(world) if '"kind":"w"' in text]
    assert not [text for _, text in list_filled(world) if '"kind":"u"' in text]


def test_a_period_that_is_archived_between_two_parts_has_each_event_once(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    whole = list_whole(layout)
    divide_short(monkeypatch, part=10, whole=12)
    world = prepare(layout)
    shares, put_part = note_parts(world), world.rollups.put_part

    def archive(name: str, generation: int, pieces: Any) -> None:
        put_part(name, generation, pieces)
        if len(shares) == 2:
            world.move_to_archive("s", START)

    world.rollups.put_part = archive  # type: ignore[method-assign]
    assert refresh(world, "run").failed == []
    assert (len(shares) > 3, list_cells(world)) == (True, whole)


def test_no_part_is_begun_that_would_not_end_because_other_parts_take_the_read_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A unit per second is for all runs together, and three parts would take 27 seconds each. Two take 18."""
    monkeypatch.setattr("tidetable.rollups.collect._LONGEST", 20.0)
    divide_short(monkeypatch, part=20, whole=12)
    world = prepare(LAYOUTS["plain by series"])
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = change_entry(entry, seen=SeenTable(5, 2, TableClass.STANDARD))
    (version,) = list_versions(BY_DAY, world.rollups.read_state("s"))
    divide_bucket(version, START + timedelta(hours=1), 60, begin_run(world))
    first, *rest = (item.name for item in world.work.list_items("part"))
    until, keys = world.time + timedelta(hours=1), note_ranges(world)
    for name in rest:
        assert world.work.claim("part", name, "other", world.time, until, added=True)
    worker = RollupWorker(world.definitions, begin_run(world), "run", frozenset())
    assert worker.work_on(ItemName("part", first)) is None
    assert (keys.total(), worker.report.finished, worker.report.failed) == (0, False, [])
    assert world.work.records["part", first].problem == ""
    for claim in [world.work.claim("part", rest[0], "other", world.time, until, added=True)]:
        assert claim is not None
        world.work.release(claim, claim.memo)
    worker.work_on(ItemName("part", first))
    assert (keys.total(), world.work.records["part", first].done) == (9, 2)


def test_a_bucket_of_many_series_is_divided_although_it_has_few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine series take 27 requests. A rebuild divides each bucket, too."""
    monkeypatch.setattr("tidetable.rollups.division.MOST_REQUESTS", 26)
    monkeypatch.setattr("tidetable.rollups.division.PART_REQUESTS", 9)
    world = prepare(LAYOUTS["plain by series"])
    shares, keys = note_parts(world), note_ranges(world)
    assert refresh(world, "run").sealed == 1
    assert (sorted(map(str, shares)), len(keys), {*keys.values()}) == (["0", "1", "2"], 27, {1})
    shares.clear()
    rebuild(world, BY_DAY, START + timedelta(minutes=50), START + timedelta(minutes=70))
    assert sorted(map(str, shares)) == ["0", "0", "1", "1", "2", "2"]
    assert world.check(QUERIES) > 0


@pytest.mark.parametrize(("others", "seconds"), [(0, 13 * 0.5 / 5), (1, 2 * 13 * 0.5 / 5)])
def test_parts_that_are_read_at_the_same_time_share_the_read_units(
    monkeypatch: pytest.MonkeyPatch, others: int, seconds: float
) -> None:
    """Half of ten units per second are for all runs together. The first part has 13 keys, each of half a unit."""
    divide_short(monkeypatch, part=28, whole=12)
    world = prepare(LAYOUTS["plain by series"])
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = change_entry(entry, seen=SeenTable(5, 10, TableClass.STANDARD))
    (version,) = list_versions(BY_DAY, world.rollups.read_state("s"))
    divide_bucket(version, START + timedelta(hours=1), 56, begin_run(world))
    first, *rest = (item.name for item in world.work.list_items("part"))
    for name in rest[:others]:
        assert world.work.claim("part", name, "other", world.time, world.time + timedelta(hours=1), added=True)
    keys, before = note_ranges(world), world.time
    worker = RollupWorker(world.definitions, begin_run(world), "run", frozenset())
    worker.work_on(ItemName("part", first))
    assert (len(keys), (world.time - before).total_seconds()) == (13, seconds)


@pytest.mark.parametrize(
    ("events", "span", "units", "requests", "division"),
    [
        (300_000, 0, 1_000, 1_000, Division(1)),
        (1_000_000, 0, 1_000, 1_000, Division(10, by_unit=True)),
        (1_000_000, 0, 10, 10, Division(10, by_unit=True)),
        # Too few units: by time.
        (1_000_000, 0, 9, 9, Division(10)),
        (3_000_000, 60, 200, 0, Division(1)),
        # An hour has at most 15 parts of four spans of a minute. Shares have no such limit.
        (40_000_000, 60, 200, 0, Division(40, by_unit=True)),
        (40_000_000, 60, 39, 0, Division(15)),
        (1_000_000_000, 60, 256, 0, Division(250, by_unit=True)),
        # Few events of so many series that their requests take too long for one run.
        (1_000, 0, 100_000, 100_000, Division(1)),
        (1_000, 0, 100_001, 100_001, Division(4, by_unit=True)),
        (2_000_000, 0, 1_000_000, 1_000_000, Division(34, by_unit=True)),
    ],
)
def test_the_events_and_the_requests_of_a_bucket_say_how_it_is_divided(
    events: int, span: int, units: int, requests: int, division: Division
) -> None:
    assert divide(events, timedelta(hours=1), timedelta(seconds=span), units, requests) == division
