"""Several runs of an export: they share a plan, none works beside another, and the manifest says what they made."""

import json
from contextlib import suppress
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fakes import FakeCatalog, FakeClock
from tests.worlds.archives import NOW, START, World, some, throttle_second_segment
from tidetable.archive import Exporter, segment
from tidetable.archive.digest import join_digests
from tidetable.archive.pacing import Pacer
from tidetable.archive.ports import RawPage
from tidetable.catalog import Entry, State
from tidetable.errors import TableThrottled
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

LEASE = "archive#s#2026-03-01"


def try_leases(catalog: FakeCatalog, begun: datetime) -> list[bool]:
    """Whether another run would get the lease of the period, so many seconds after this one began."""
    return [
        catalog.acquire(LEASE, "another", begun + timedelta(seconds=seconds), timedelta(0)) for seconds in (0, 899, 901)
    ]


def test_a_run_holds_its_period_for_as_long_as_it_may_take_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed must not stop those after it."""
    world = World(some(10))
    world.seconds = 900
    page, looks = world.page, list[bool]()

    def look(*names: Any, **options: Any) -> Any:
        looks.extend([] if looks else try_leases(world.catalog, NOW))
        return page(*names, **options)

    monkeypatch.setattr(world, "page", look)
    assert world.run().done
    assert looks == [False, False, True]


def test_a_stream_without_a_recorded_policy_is_archived_by_the_default_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 512 units per second is enough for two segments."""
    monkeypatch.setattr(Exporter, "stream", lambda *_: None)
    world = World(some(10))
    world.read = 512
    done = world.run()
    assert (done.done, done.events) == (True, 10)
    assert done.entry.archive is not None
    assert world.manifest(done.entry.archive.manifest).columns == {}
    assert [key.rpartition("/")[2] for key in world.parts] == ["part-000-00000.parquet", "part-001-00000.parquet"]


def test_an_export_that_has_begun_keeps_its_segments_and_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one segment less, the rest of the table would be left out of an archive that is called complete."""
    world = World(some(20))
    world.read, world.policy = 2000, 'archive = { segments = 2, columns = { n = "integer" } }'
    throttle_second_segment(world, monkeypatch)
    assert not world.run().done
    monkeypatch.undo()
    world.policy = 'archive = { segments = 1, columns = { n = "string" } }'
    again = world.run()
    assert (again.done, again.events) == (True, 20)
    assert again.entry.archive is not None
    assert world.manifest(again.entry.archive.manifest).columns == {"n": "integer"}
    types = {str(pq.read_schema(BytesIO(world.bucket[key])).field("n").type) for key in world.parts}
    assert types == {"int64"}
    assert [key.rpartition("/")[2] for key in world.parts] == ["part-000-00000.parquet", "part-001-00000.parquet"]


def test_a_run_that_is_not_the_last_leaves_the_plan_and_the_progress_of_each_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(some(100))
    world.read, world.policy = 2000, "archive = { segments = 2 }"
    page = world.page

    def throttle_second_page(table: str, *, after: Any, **options: Any) -> Any:
        if after is not None:
            raise TableThrottled(table)
        return page(table, after=after, **options)

    monkeypatch.setattr(world, "page", throttle_second_page)
    assert not world.run().done
    names = sorted(key.rpartition("/")[2] for key in world.bucket if "_progress-" in key)
    assert names == ["_progress-plan.json", "_progress-segment-000.json", "_progress-segment-001.json"]


def read_records(world: World) -> list[list[str]]:
    """The parts that each record of the progress names."""
    keys = sorted((key for key in world.bucket if "_progress-segment" in key), key=lambda key: (len(key), key))
    return [[part["key"].rpartition("-")[2][:5] for part in json.loads(world.bucket[key])["parts"]] for key in keys]


def test_a_record_of_the_progress_has_few_parts_and_runs_go_on_after_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is written anew for each part: of thousands of parts, one record would be written in all its lengths."""
    whole = World(some(60))
    whole.part_bytes = 1_500
    expected = whole.archive().archive
    assert expected is not None
    keys = [part.key for part in whole.manifest(expected.manifest).parts]
    assert len(keys) > 6
    monkeypatch.setattr(segment, "_PARTS_OF_RECORD", 2)
    most = 0
    for calls in range(1, 200):
        world = World(some(60))
        world.part_bytes, world.calls = 1_500, calls
        with suppress(KeyboardInterrupt):
            world.run()
        records = read_records(world)
        assert [name for names in records for name in names] == [f"{n:05d}" for n in range(sum(map(len, records)))]
        assert all(len(names) == 2 for names in records[:-1])
        assert all(len(names) <= 2 for names in records)
        most = max(most, len(records))
        world.calls, done = 10**9, world.state is State.ARCHIVED
        world.clock.sleep(10**9)  # The lease of the stopped run ends.
        facts = world.archive().archive
        assert facts is not None
        assert [part.key for part in world.manifest(facts.manifest).parts] == keys
        if done:
            break
    assert most > 2


def test_an_archive_whose_progress_is_one_long_record_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(60))
    world.part_bytes, world.calls = 1_500, 30
    with pytest.raises(KeyboardInterrupt):
        world.run()
    (names,) = read_records(world)
    assert len(names) > 3
    monkeypatch.setattr(segment, "_PARTS_OF_RECORD", 2)
    world.calls = 10**9
    world.clock.sleep(10**9)  # The lease of the stopped run ends.
    assert world.archive().archive is not None
    assert len(world.parts) > len(names)


def test_runs_that_find_no_event_go_on_where_the_last_run_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table with packs most pages of the scan bring no event. At 10 units per second a run reads one page."""
    world = World(some(20))
    world.read, world.units = None, 16.0
    world.capacity = 'mode = "on-demand"\nmax = { write = 100, read = 20 }'
    page = world.page

    def read_three_empty_pages_first(table: str, *, after: Any, **options: Any) -> RawPage:
        empty = 0 if after is None else after.get("empty", 3)
        if empty < 3:
            return RawPage(b"[]", 7, 16.0, {"empty": empty + 1, "at": 0})
        return page(table, after=after, **options)

    monkeypatch.setattr(world, "page", read_three_empty_pages_first)
    runs = [world.run()]
    while not runs[-1].done and len(runs) < 10:
        world.clock.sleep(runs[-1].wait)
        runs.append(world.run())
    assert [run.events for run in runs] == [0, 0, 0, 7, 14, 20]
    assert world.state is State.ARCHIVED


def test_the_manifest_says_of_which_table_it_is_and_when_it_was_written() -> None:
    world = World(some(100))
    facts = world.archive().archive
    assert facts is not None
    assert facts.manifest == "stream=s/period=2026-03-01/_manifest.json"
    document = json.loads(world.bucket[facts.manifest])
    names = ("version", "stream", "period", "table", "events", "packs", "written_at")
    assert {name: document[name] for name in names} == {
        "version": 4,
        "stream": "s",
        "period": "2026-03-01",
        "table": "t",
        "events": 100,
        "packs": 0,
        "written_at": "2026-03-20T00:00:00.000000Z",
    }
    # The edges of each part, by which readers choose the parts that they open.
    for part in document["parts"]:
        table = pq.read_table(BytesIO(world.bucket[part["key"]]))
        times = [f"{time:%Y-%m-%dT%H:%M:%S.%f}Z" for time in table.column("time").to_pylist()]
        assert (part["first"][:27], part["last"][:27]) == (min(times), max(times))
        assert (part["bounds"]["oldest"], part["bounds"]["newest"]) == (min(times), max(times))
        assert part["events"] == len(times)
        assert len(part["digest"]) == 32


def test_a_period_that_was_deleted_without_an_archive_has_nothing_to_archive() -> None:
    world = World([])
    world.catalog.move(world.catalog.entries("s")[0], State.DELETED, expected=[State.CLOSED])
    run = world.run()
    assert (run.done, run.events, world.state, world.bucket) == (True, 0, State.DELETED, {})


def test_of_several_periods_the_one_that_is_named_is_archived() -> None:
    """The catalog also answers periods that only overlap, such as the week that began before."""
    world = World(some(10))
    layout = Layout("time", 4, "id", 21_600)
    world.catalog.add(Entry("s", find_containing(START, Kind.WEEK), "week", layout, State.CLOSED, START))
    assert world.archive().table == "t"
    states = {entry.table: entry.state for entry in world.catalog.entries("s")}
    assert states == {"t": State.ARCHIVED, "week": State.CLOSED}


@pytest.mark.parametrize(
    ("digests", "joined"),
    [
        ([], "0" * 32),
        (["ff"], "0" * 30 + "ff"),
        (["f" * 32, "2"], "0" * 31 + "1"),
        (["8" + "0" * 31, "8" + "0" * 31], "0" * 32),
    ],
)
def test_the_digest_of_a_union_is_a_sum_of_128_bits(digests: list[str], joined: str) -> None:
    assert join_digests(digests) == joined


@pytest.mark.parametrize(("free", "seconds"), [(-1_000, 0.0), (-300, 0.0), (-299, 1.0), (0, 300.0), (5, 305.0)])
def test_a_later_run_comes_when_all_that_a_table_keeps_is_unused_again(free: int, seconds: float) -> None:
    pacer = Pacer(10.0, FakeClock(NOW), burst=300, free=NOW + timedelta(seconds=free))
    assert pacer.measure_time_to_full_burst() == seconds


def test_a_table_of_chunks_that_throttles_ends_the_run_and_the_next_run_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first pages are archived. Nothing failed, so nothing is to be reported."""
    world = World(some(30))
    pages: list[bytes] = []

    def throttle_third_page(items: bytes, _: str) -> bytes:
        pages.append(items)
        if len(pages) > 2:
            raise TableThrottled("t.parts")
        return items

    monkeypatch.setattr(world, "complete", throttle_third_page)
    first = world.run()
    assert (first.done, first.events, world.state) == (False, 14, State.ARCHIVING)
    second = world.run()
    assert (second.done, second.events) == (False, 14)
    monkeypatch.undo()
    last = world.run()
    assert (last.done, last.events) == (True, 30)
