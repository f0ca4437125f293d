"""An archive's records: what the manifest and the catalog say of it, and what becomes of them if a run is disturbed."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.fakes.items import read_event
from tests.lifecycle.world import configuration
from tests.worlds import archives
from tests.worlds.archives import LAYOUT, START, World, divide, some, throttle_second_segment
from tests.worlds.parts import list_items
from tidetable.catalog import Entry, RecordedPolicy, State
from tidetable.config.record import render_policy
from tidetable.errors import ArchiveBusy, ArchiveMismatch, StaleEntry


def test_the_manifest_has_the_size_the_partitions_and_the_declared_columns_of_its_parts() -> None:
    world = World(some(100))
    world.policy = 'archive = { columns = { n = "integer" } }'
    facts = world.archive().archive
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    sizes = {key: len(world.bucket[key]) for key in world.parts}
    assert len(sizes) > 1
    assert {part.key: part.size for part in manifest.parts} == sizes
    assert facts.bytes == manifest.size == sum(sizes.values())
    assert manifest.columns == {"n": "integer"}
    for part in manifest.parts:
        table = pq.read_table(BytesIO(world.bucket[part.key]))
        assert str(table.schema.field("n").type) == "int64"
        keys = zip(table.column("time").to_pylist(), table.column("shard").to_pylist(), strict=True)
        # Buckets of six hours, all of one day.
        assert part.partitions == len({(time.hour // 6, shard) for time, shard in keys})


def test_data_that_the_table_keeps_elsewhere_is_in_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(10))
    monkeypatch.setattr(world, "complete", lambda items, _: items.replace(b'"n": {"N": "3"}', b'"n": {"N": "300"}'))
    world.archive()
    events = [read_event(LAYOUT, item) for key in world.parts for item in list_items(world.bucket[key], LAYOUT)]
    assert sorted(int(str(event.data["n"])) for event in events) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 300]


def test_the_period_is_found_although_an_eventual_read_of_the_catalog_does_not_have_it_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(some(3))
    entries = world.catalog.entries

    def read_late(*arguments: Any, consistent: bool = False) -> Any:
        return entries(*arguments) if consistent else []

    monkeypatch.setattr(world.catalog, "entries", read_late)
    assert world.archive().state is State.ARCHIVED


def test_an_archive_is_complete_only_with_all_of_its_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(20))
    divide(world, 2)
    throttle_second_segment(world, monkeypatch)
    run = world.run()
    assert (run.done, run.events, world.state) == (False, 10, State.ARCHIVING)
    monkeypatch.undo()
    again = world.run()
    assert (again.done, again.events) == (True, 20)


def test_of_an_archive_that_lacks_a_part_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run begins anew; else it would end with the same refusal for ever."""
    world = World(some(100))
    sizes = world.sizes

    def lose_part(prefix: str) -> dict[str, int]:
        del world.bucket[world.parts[0]]
        return sizes(prefix)

    monkeypatch.setattr(world, "sizes", lose_part)
    with pytest.raises(ArchiveMismatch, match="did not hold"):
        world.archive()
    assert (world.bucket, world.records.records) == ({}, {})
    monkeypatch.undo()
    assert world.archive().state is State.ARCHIVED


def test_a_file_that_no_segment_names_is_removed_before_the_manifest_is_written() -> None:
    """A worker that was overtaken wrote it: engines that read all files of a period would find its events twice."""
    world = World(some(100))
    world.calls = 20
    with pytest.raises(KeyboardInterrupt):
        world.run()
    orphans = world.parts
    assert len(orphans) > 1
    world.calls = 10**9
    world.clock.sleep(10**9)  # The claim of the stopped run ends.
    facts = world.archive().archive
    assert facts is not None
    assert world.parts == [part.key for part in world.manifest(facts.manifest).parts]
    assert set(world.parts).isdisjoint(orphans)


def test_a_run_that_stops_before_its_last_mark_leaves_nothing_to_scan_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    move, page = world.catalog.move, world.page

    def stop(entry: Entry, to: State, **options: Any) -> Entry:
        if to is State.ARCHIVED:
            raise KeyboardInterrupt
        return move(entry, to, **options)

    monkeypatch.setattr(world.catalog, "move", stop)
    with pytest.raises(KeyboardInterrupt):
        world.archive()
    monkeypatch.setattr(world.catalog, "move", move)
    scanned: list[Any] = []

    def note_scan(*names: Any, **options: Any) -> Any:
        scanned.append(names)
        return page(*names, **options)

    monkeypatch.setattr(world, "page", note_scan)
    assert world.archive().state is State.ARCHIVED
    assert scanned == []


def test_a_period_that_another_run_moved_on_meanwhile_is_not_marked_as_archived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(some(10))
    sizes = world.sizes

    def move_on(prefix: str) -> dict[str, int]:
        world.catalog.move(world.catalog.entries("s")[0], State.CLOSED, expected=[State.ARCHIVING])
        return sizes(prefix)

    monkeypatch.setattr(world, "sizes", move_on)
    with pytest.raises(StaleEntry):
        world.archive()
    assert world.state is State.CLOSED


def test_a_removed_stream_is_archived_as_its_last_policy_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns and its share of the reads are those of the policy that the catalog recorded."""
    world = World(some(10))
    stream = configuration(more='archive = { columns = { n = "integer" } }').streams["s"]
    world.catalog.put_policy(RecordedPolicy("other", render_policy(stream)))
    world.catalog.put_policy(RecordedPolicy("s", render_policy(stream), START))
    monkeypatch.setattr(archives, "configuration", lambda **_: msgspec.structs.replace(configuration(), streams={}))
    facts = world.archive().archive
    assert facts is not None
    assert world.manifest(facts.manifest).columns == {"n": "integer"}


def test_a_stream_of_which_no_policy_is_recorded_is_archived_by_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows how late its events may come, so only the fifteen minutes after the period's end are waited for."""
    world = World(some(10))
    world.read = None
    monkeypatch.setattr(archives, "configuration", lambda **_: msgspec.structs.replace(configuration(), streams={}))
    world.clock.time = datetime(2026, 3, 2, 0, 15, tzinfo=UTC)
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-02T00:15:00\.000000Z"):
        world.archive()
    world.clock.time += timedelta(seconds=1)
    facts = world.archive().archive
    assert facts is not None
    assert (facts.events, world.manifest(facts.manifest).columns) == (10, {})
