"""Rewriting an archive of the version 3: wherever a run stops, the archive can be read, and the next run goes on."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.worlds.archives import World
from tidetable.archive.manifest import Manifest
from tidetable.archive.reading import read_archive
from tidetable.archive.rewrite import Rewritten, rewrite_archive
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.errors import ArchiveFailed, ArchiveMismatch
from tidetable.events import Event
from tidetable.periods import Kind, find_containing
from tidetable.ports import ArchiveRange

OLD = Path(__file__).parent / "version_3"
LABEL = "2026-03-09"
PERIOD = find_containing(datetime(2026, 3, 9, tzinfo=UTC), Kind.DAY)
STREAMS = ["times", "packs"]


def make_world(stream: str, state: State = State.ARCHIVED) -> World:
    """A bucket with an archive of the version 3, which the catalog knows."""
    world = World([])
    for file in (OLD / f"stream={stream}").rglob("*.*"):
        world.bucket[str(file.relative_to(OLD))] = file.read_bytes()
    key = f"stream={stream}/period={LABEL}/_manifest.json"
    manifest = world.manifest(key)
    facts = ArchiveFacts(key, manifest.events, manifest.size, datetime(2026, 3, 12, tzinfo=UTC))
    world.catalog.add(Entry(stream, PERIOD, "t", manifest.layout, state, PERIOD.start, archive=facts))
    return world


def rewrite(world: World, stream: str, *, dry_run: bool = False) -> Rewritten:
    return rewrite_archive(stream, LABEL, world.make_exporter(), "one", world.measure_remaining(), dry_run=dry_run)


def read(world: World, stream: str) -> list[Event]:
    entry = next(entry for entry in world.catalog.entries(stream))
    assert entry.archive is not None
    calls, world.calls = world.calls, 10**9
    page = read_archive(ArchiveRange(entry.archive.manifest, "", "~"), world, limit=10_000, ascending=True)
    world.calls = calls
    return list(page.events)


def finish(world: World, stream: str) -> None:
    """Run until the archive is current."""
    for _ in range(9):
        result = rewrite(world, stream)
        if result.state == "current":
            return
        world.clock.time += timedelta(seconds=result.wait)
    raise AssertionError("the rewriting has no end")


def check_current(world: World, stream: str, before: Manifest, events: list[Event]) -> None:
    """The archive has today's format and the same items, and the bucket has nothing else."""
    (entry,) = world.catalog.entries(stream)
    assert entry.archive is not None
    manifest = world.manifest(entry.archive.manifest)
    assert (manifest.version, manifest.events, manifest.digest) == (4, before.events, before.digest)
    assert (entry.archive.bytes, entry.archive.events) == (manifest.size, before.events)
    assert (entry.state, manifest.packs, manifest.columns) == (State.ARCHIVED, before.packs, before.columns)
    assert sum(part.packs for part in manifest.parts) == before.packs
    assert world.bucket.keys() == {entry.archive.manifest, *(part.key for part in manifest.parts)}
    assert all(part.bounds is not None for part in manifest.parts)
    assert read(world, stream) == events
    assert len(events) == before.events


@pytest.mark.parametrize("stream", STREAMS)
def test_an_archive_of_the_version_3_gets_the_files_of_today(stream: str) -> None:
    world = make_world(stream)
    key = f"stream={stream}/period={LABEL}/_manifest.json"
    before, events, old = world.manifest(key), read(world, stream), dict(world.bucket)
    plan = rewrite(world, stream, dry_run=True)
    assert (plan.state, plan.done, plan.files, plan.events) == ("old", 0, 2, before.events)
    assert world.bucket == old
    first = rewrite(world, stream)
    assert (first.state, first.wait) == ("switched", 120.0)
    # A query that has begun still finds the old files.
    assert {part.key for part in before.parts} <= world.bucket.keys()
    assert read(world, stream) == events
    assert rewrite(world, stream).state == "switched"
    world.clock.time += timedelta(seconds=120)
    assert rewrite(world, stream, dry_run=True).state == "switched"
    assert rewrite(world, stream).state == "current"
    check_current(world, stream, before, events)
    assert rewrite(world, stream, dry_run=True).state == "current"
    rows = pq.read_table(BytesIO(world.bucket[world.manifest(key).parts[0].key]))
    assert len(rows) == before.events, "the old files became one file"


@pytest.mark.parametrize(("together", "step"), [(1, 4), (4_000_000, 1)])
def test_a_run_may_stop_after_each_call(monkeypatch: pytest.MonkeyPatch, together: int, step: int) -> None:
    monkeypatch.setattr("tidetable.archive.rewrite._TOGETHER_EVENTS", together)
    world = make_world("times")
    before, events = world.manifest(f"stream=times/period={LABEL}/_manifest.json"), read(world, "times")
    for calls in range(0, 100, step):
        world = make_world("times")
        world.calls = calls
        try:
            finish(world, "times")
        except KeyboardInterrupt:
            assert read(world, "times") == events
            world.calls = 10**9
            world.clock.time += timedelta(days=1)
            finish(world, "times")
            check_current(world, "times", before, events)
        else:
            check_current(world, "times", before, events)
            return
    raise AssertionError("a run makes too many calls")


def test_a_run_begins_nothing_that_it_may_not_end() -> None:
    world = make_world("times")
    old = dict(world.bucket)
    world.seconds = 29.0
    assert (rewrite(world, "times").state, world.bucket) == ("old", old)


def test_a_damaged_file_and_a_period_without_an_archive_are_refused() -> None:
    world = make_world("times")
    part = next(key for key in sorted(world.bucket) if key.endswith(".parquet"))
    world.bucket[part] = world.bucket[part][:-1] + b"x"
    old = dict(world.bucket)
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        rewrite(world, "times")
    assert world.bucket == old
    for state in (State.RESTORING, State.CLOSED):
        with pytest.raises(ArchiveFailed, match="has no archive to rewrite"):
            rewrite(make_world("times", state), "times")


def test_other_items_than_the_manifest_says_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world("times")
    exporter: Any = world.make_exporter()
    pages = exporter.format.pages
    monkeypatch.setattr(type(exporter.format), "pages", lambda *rest: list(pages(*rest[1:]))[1:])
    with pytest.raises(ArchiveMismatch, match="or other events"):
        rewrite(world, "times")
    assert world.manifest(f"stream=times/period={LABEL}/_manifest.json").version == 3
