"""Several runs of an export: they share a plan, none works beside another, and the manifest says what they made."""

import json
from copy import deepcopy
from datetime import timedelta
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from aws.archive.part_writer import ParquetWriter
from tests.fakes import FakeClock
from tests.worlds.archives import NOW, START, World, divide, some, throttle_second_segment
from tidetable.archive import Exporter
from tidetable.archive.digest import join_digests
from tidetable.archive.pacing import Pacer
from tidetable.archive.ports import RawPage
from tidetable.catalog import Entry, State
from tidetable.errors import TableThrottled
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

SEGMENT = "s#2026-03-01#1773964800000#00000"


def test_a_run_holds_its_segment_for_as_long_as_it_may_take_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed must not stop those after it: 10 s for its answer, 20 s for the clocks, 15 s for a request."""
    world = World(some(10))
    world.seconds = 290
    page, looks = world.page, list[bool]()

    def look(*names: Any, **options: Any) -> Any:
        for seconds in () if looks else (0, 334, 335):
            copy, now = deepcopy(world.records), NOW + timedelta(seconds=seconds)
            looks.append(copy.claim("archive", SEGMENT, "another", now, now, added=True) is not None)
        return page(*names, **options)

    monkeypatch.setattr(world, "page", look)
    assert world.run().done
    assert looks == [False, False, True]


def test_the_turn_of_a_period_lasts_two_minutes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(10))
    clear, looks = world.clear, list[bool]()

    def look(prefix: str) -> None:
        for seconds in (0, 119, 120):
            catalog, begun = deepcopy(world.catalog), NOW + timedelta(seconds=seconds)
            looks.append(catalog.acquire("archive#s#2026-03-01", "another", begun, timedelta(0)))
        clear(prefix)

    monkeypatch.setattr(world, "clear", look)
    world.run()
    assert looks[:3] == [False, False, True]


def test_a_stream_without_a_recorded_policy_is_archived_by_the_default_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 2,400 units per second is enough for two readers."""
    monkeypatch.setattr(Exporter, "stream", lambda *_: None)
    world = World(some(10))
    world.read = 2_400
    divide(world, 3)
    page = world.page
    monkeypatch.setattr(world, "page", lambda *_, **__: refuse_page())
    world.run()
    assert [memo["readers"] for memo in read_memos(world)] == [2, 2, 2]
    monkeypatch.setattr(world, "page", page)
    done = world.run()
    assert (done.done, done.events) == (True, 10)
    assert done.entry.archive is not None
    assert world.manifest(done.entry.archive.manifest).columns == {}
    assert [key[-23:] for key in world.parts] == [f"0000{number}-002-00000.parquet" for number in range(3)]


def refuse_page() -> RawPage:
    raise TableThrottled("t")


def read_memos(world: World) -> list[dict[str, Any]]:
    """What the records of the segments say."""
    return [json.loads(record.memo) for _, record in sorted(world.records.records.items())]


def test_an_export_that_has_begun_keeps_its_segments_and_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one segment less, the rest of the table would be left out of an archive that is called complete."""
    world = World(some(20))
    world.read, world.policy = 2000, 'archive = { columns = { n = "integer" } }'
    divide(world, 2)
    throttle_second_segment(world, monkeypatch)
    assert not world.run().done
    monkeypatch.undo()
    world.table_bytes, world.policy = 0, 'archive = { columns = { n = "string" } }'
    again = world.run()
    assert (again.done, again.events) == (True, 20)
    assert again.entry.archive is not None
    assert world.manifest(again.entry.archive.manifest).columns == {"n": "integer"}
    types = {str(pq.read_schema(BytesIO(world.bucket[key])).field("n").type) for key in world.parts}
    assert types == {"int64"}
    assert len(world.parts) == 2


def test_a_run_that_is_not_the_last_notes_the_files_of_each_segment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    world.read = 2000
    divide(world, 2)
    page = world.page

    def throttle_second_page(table: str, *, after: Any, **options: Any) -> Any:
        if after is not None:
            raise TableThrottled(table)
        return page(table, after=after, **options)

    monkeypatch.setattr(world, "page", throttle_second_page)
    assert not world.run().done
    names = sorted(key.rpartition("/")[2] for key in world.bucket if "_progress-" in key)
    assert names == [f"_progress-1773964800000-0000{number}-001.json.gz" for number in range(2)]
    assert [(memo["events"], memo["noted"], memo["after"]) for memo in read_memos(world)] == [(7, 1, {"at": 7})] * 2


def test_the_notes_of_many_files_are_written_once() -> None:
    """Notes that are written anew for each file of a terabyte were 49 GB."""
    world = World(some(200))
    world.part_bytes = 1_500
    put, notes = world.put, list[int]()

    def count_notes(key: str, body: bytes) -> None:
        notes.extend([len(body)] if "_progress-" in key else [])
        put(key, body)

    world.put = count_notes  # type: ignore[method-assign]
    world.archive()
    assert len(world.parts) > 25
    assert len(notes) == 1
    # 31,250 such files would have 6 MB.
    assert notes[0] / len(world.parts) < 200


def test_the_next_page_is_read_while_a_page_is_written_and_no_page_is_read_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker on a fast table waited for each page. Files end after 3 KB, and the page that was read goes into the next."""
    world = World(some(30))
    world.part_bytes = 3_000
    page, add, order = world.page, ParquetWriter.add, list[str]()

    def note_page(table: str, *, after: Any, **options: Any) -> RawPage:
        order.append(f"read {after['at'] if after is not None else 0}")
        return page(table, after=after, **options)

    def note_add(self: ParquetWriter, items: bytes) -> None:
        order.append("write")
        add(self, items)

    monkeypatch.setattr(world, "page", note_page)
    monkeypatch.setattr(ParquetWriter, "add", note_add)
    facts = world.archive().archive
    assert order == ["read 0", "read 7", "write", "read 14", "write", "read 21", "write", "read 28", "write", "write"]
    assert len(world.parts) > 1
    assert facts is not None
    assert facts.events == 30


def test_a_page_whose_data_elsewhere_cannot_be_read_is_read_again_and_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(some(30))
    complete, calls = world.complete, list[int]()

    def throttle_second_page(items: bytes, table: str) -> bytes:
        calls.append(len(items))
        if len(calls) == 2:
            raise TableThrottled(table)
        return complete(items, table)

    monkeypatch.setattr(world, "complete", throttle_second_page)
    facts = world.archive().archive
    assert len(calls) == 6
    assert facts is not None
    assert facts.events == 30


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
