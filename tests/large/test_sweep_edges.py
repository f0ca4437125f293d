"""Where the sweep begins, what it takes for granted of nobody, and what changes under its hands."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes import FakeCatalog, FakeStore, FakeValues
from tests.fakes.bucket import FakeBucket
from tests.fakes.clock import FakeClock
from tests.fakes.serial import Serial
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import parse
from tidetable.large import sweep as sweeping
from tidetable.large.labels import group_labels
from tidetable.large.sweep import POSITION_KEY, Sweeper, sweep
from tidetable.large.sweep_report import DryPosition, Swept
from tidetable.layout import Key, Layout
from tidetable.periods import parse_label
from tidetable.ports import Blob

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
LABEL = "2026-03-12"
STREAM = """
[streams.%s]
period = "day"
late = "1d"
retention = 50
large = { beyond = "s3" }
archive = { expire_after = "2d" }
key = { partition_by = "series", shards = 1 }
"""
CONFIG = parse(STREAM % "b" + STREAM % "b-x")
LAYOUT = Layout("series", 1, "id")
OWNER = Key("a#0", "2026-03-12T00:00:00.000000Z#e")


@dataclass
class World:
    """The streams ``b`` and ``b-x``, each with a period of three days ago; its table is empty."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW - 3 * DAY))
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    bucket: FakeBucket = field(default_factory=FakeBucket)

    def __post_init__(self) -> None:
        self.store = FakeStore(self.catalog)
        self.values = FakeValues(self.clock.now)
        for stream in ("b", "b-x"):
            self.add(stream, LABEL)

    def add(self, stream: str, label: str, state: State = State.CLOSED) -> Entry:
        entry = Entry(stream, parse_label(label), f"t.{stream}.{label}", LAYOUT, state, NOW)
        self.catalog.add(entry)
        self.store.tables[entry.table] = {}
        return entry

    def entry(self, stream: str = "b", label: str = LABEL) -> Entry:
        return self.catalog.items[stream, parse_label(label)]

    def put(self, *names: str, stream: str = "b", label: str = LABEL, size: int = 1) -> list[str]:
        keys = [f"large/stream={stream}/period={label}/{name}" for name in names]
        for key in keys:
            self.values.put(Blob(key, b"x" * size, OWNER))
        return keys

    def sweep(self, *, dry_run: bool = False, remaining: float = 100.0) -> Swept:
        return sweep(self.services(), lambda: remaining, dry_run=dry_run)

    def services(self) -> Sweeper:
        return Sweeper(CONFIG, self.catalog, self.store, self.values, self.bucket, self.clock, Serial)


@pytest.fixture
def world() -> World:
    return World()


def at_noon(world: World) -> World:
    """Three days after the objects were written."""
    world.clock.time = NOW
    return world


def test_a_sweep_goes_on_behind_its_position_and_a_dry_run_begins_anew_and_leaves_it(world: World) -> None:
    first, second = world.put("aa/1", "bb/1")
    other = world.put("aa/1", stream="b-x")
    position = b'{"stream":"b","key":"%s"}' % first.encode()
    world.bucket.objects[POSITION_KEY] = position
    at_noon(world)
    assert world.sweep(dry_run=True).keys == [first, second, *other]
    assert world.bucket.objects[POSITION_KEY] == position
    assert world.sweep().keys == [second, *other], "the keys of b-x sort before those of b"
    assert world.bucket.objects[POSITION_KEY] == b'{"stream":"","key":"","looked":{}}'


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"stream": 1}', b"[]"])
def test_a_position_that_cannot_be_read_is_the_beginning(world: World, damaged: bytes) -> None:
    keys = world.put("aa/1")
    world.bucket.objects[POSITION_KEY] = damaged
    assert at_noon(world).sweep().keys == keys


@pytest.mark.parametrize(("remaining", "finished"), [(20.0, True), (19.9, False)])
def test_a_sweep_ends_with_less_than_twenty_seconds_left(world: World, remaining: float, finished: bool) -> None:
    world.put("aa/1")
    swept = at_noon(world).sweep(remaining=remaining)
    assert (swept.finished, swept.orphans) == (finished, int(finished))


@pytest.mark.parametrize(("age", "orphans"), [(DAY, 1), (DAY - SECOND, 0)])
def test_an_object_is_an_orphan_at_the_age_of_a_day(world: World, age: timedelta, orphans: int) -> None:
    world.put("aa/1")
    world.clock.time += age
    assert world.sweep().orphans == orphans


def test_a_report_counts_bytes_and_names_the_first_twenty(world: World) -> None:
    keys = world.put(*(f"{n:02}/1" for n in range(25)), size=1_000)
    swept = at_noon(world).sweep()
    swept.failures = [str(n) for n in range(25)]
    assert swept.document() == {
        "dry_run": False,
        "seen": 25,
        "orphans": 25,
        "expired": 0,
        "bytes": 25_000,
        "unknown": 0,
        "lapsed": 0,
        "finished": True,
        "keys": keys[:20],
        "failures": [str(n) for n in range(20)],
    }


def test_a_table_that_is_gone_keeps_its_objects_and_is_no_failure(world: World) -> None:
    """Its period is being deleted; the catalog says so in a moment."""
    world.put("aa/1")
    del world.store.tables[world.entry().table]
    swept = at_noon(world).sweep()
    assert (swept.orphans, swept.failures, len(world.values.blobs)) == (0, [], 1)


def test_an_object_that_names_no_owner_stays_and_those_beside_it_are_swept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobodys, lost = world.put("aa/1", "bb/1")
    monkeypatch.setattr(world.values, "owner", lambda key: None if key == nobodys else OWNER)
    swept = at_noon(world).sweep()
    assert (swept.keys, swept.failures) == ([lost], [])


def test_every_object_of_an_unknown_period_is_counted_and_stays(world: World) -> None:
    world.put("aa/1", "bb/1", "cc/1", label="1999-01-01")
    swept = at_noon(world).sweep()
    assert (swept.seen, swept.unknown, len(world.values.blobs)) == (3, 3, 3)


def test_a_restored_period_is_not_deleted_by_a_catalog_that_reads_stale(world: World) -> None:
    world.put("aa/1")
    entry = world.entry()
    world.store.tables[entry.table][OWNER] = {"out": {"o": f"large/stream=b/period={LABEL}/aa/1"}}
    world.catalog.stale = {
        key: replace(known, state=State.DELETED, deleted_at=NOW) for key, known in world.catalog.items.items()
    }
    swept = at_noon(world).sweep()
    assert (swept.expired, swept.orphans, len(world.values.blobs)) == (0, 0, 1)


def test_an_object_belongs_to_the_period_of_its_label_alone(world: World) -> None:
    """A stream whose periods became days instead of months has both."""
    world.put("aa/1")
    month = world.add("b", "2026-03")
    item = {"out": {"o": f"large/stream=b/period={LABEL}/aa/1"}}
    world.store.tables[world.entry().table][OWNER] = item
    assert at_noon(world).sweep().orphans == 0
    world.store.tables[month.table][OWNER] = world.store.tables[world.entry().table].pop(OWNER)
    assert world.sweep().orphans == 1


def archived(world: World, state: State = State.ARCHIVED) -> Entry:
    """The period of ``b``, whose archive was verified half a day after its end and may be deleted 2 days later."""
    facts = ArchiveFacts("archive/b/3/manifest.json", 7, 70, NOW - 2 * DAY)
    entry = replace(world.entry(), state=state, archive=facts)
    world.catalog.items["b", entry.period] = entry
    return entry


@pytest.mark.parametrize(
    ("state", "now", "left", "lapsed"),
    [
        (State.ARCHIVED, NOW, "", 1),
        (State.DELETED, NOW + DAY, "", 1),
        # While the archive is being restored, or when its table holds the events again, another archive follows.
        (State.RESTORING, NOW, "", 0),
        (State.CLOSED, NOW, "", 0),
        (State.ARCHIVED, NOW - SECOND, "", 0),
        (State.ARCHIVED, NOW, "archive/b/3/part-1", 0),
        (State.ARCHIVED, NOW, "archive/b/30/part-1", 1),
    ],
)
def test_an_archive_has_lapsed_when_its_time_is_over_and_its_folder_is_empty(
    world: World, state: State, now: datetime, left: str, lapsed: int
) -> None:
    archived(world, state)
    world.clock.time = now
    if left:
        world.bucket.objects[left] = b"x"
    assert world.sweep(dry_run=True).lapsed == lapsed
    archive = world.entry().archive
    assert archive is not None
    assert archive.expired_at is None, "a dry run notes nothing"
    assert world.sweep().lapsed == lapsed
    archive = world.entry().archive
    assert archive is not None
    assert archive.expired_at == (NOW if lapsed else None)
    assert world.sweep().lapsed == 0, "it is noted once"
    assert (archive.manifest, archive.events, world.entry().state) == ("archive/b/3/manifest.json", 7, state)


def test_an_archive_that_is_restored_meanwhile_is_not_noted_as_gone(world: World) -> None:
    entry = archived(at_noon(world))
    sizes: Callable[[str], Any] = world.bucket.sizes

    def restored_meanwhile(prefix: str) -> Any:
        world.catalog.move(entry, State.RESTORING, expected=(State.ARCHIVED,))
        return sizes(prefix)

    world.bucket.sizes = restored_meanwhile  # type: ignore[method-assign]
    swept = world.sweep()
    archive = world.entry().archive
    assert archive is not None
    assert (archive.expired_at, world.entry().state, swept.failures) == (None, State.RESTORING, [])


@pytest.mark.parametrize("stored", [None, b'{"stream":"b","key":"large/stream=b/period=2026-03-12/aa/1"}'])
def test_a_sweep_whose_time_is_up_before_it_reaches_a_live_period_leaves_its_position(
    world: World, stored: bytes | None
) -> None:
    world.put("aa/1", "bb/1")
    if stored is not None:
        world.bucket.objects[POSITION_KEY] = stored
    assert not at_noon(world).sweep(remaining=19.9).finished
    assert world.bucket.objects.get(POSITION_KEY) == stored


def test_an_archive_that_cannot_be_looked_at_is_named_and_everything_else_is_swept(world: World) -> None:
    archived(world)
    orphans = world.put("aa/1", stream="b-x")

    def refuse(prefix: str) -> Any:
        raise TimeoutError(prefix)

    world.bucket.sizes = refuse  # type: ignore[method-assign]
    swept = at_noon(world).sweep()
    assert swept.failures == [f"archive b {LABEL}: TimeoutError: archive/b/3/"]
    assert (swept.lapsed, swept.keys, swept.finished) == (0, orphans, True)


def test_objects_of_a_deleted_period_that_cannot_be_removed_are_named_and_the_others_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = world.put("aa/1")
    orphans = world.put("aa/1", stream="b-x")
    world.catalog.items["b", world.entry().period] = replace(world.entry(), state=State.DELETED, deleted_at=NOW)
    delete = world.values.delete

    def refuse(keys: Sequence[str]) -> None:
        if keys == kept:
            raise TimeoutError("later")
        delete(keys)

    monkeypatch.setattr(world.values, "delete", refuse)
    swept = at_noon(world).sweep()
    assert swept.failures == [f"{kept[0]}: TimeoutError: later"]
    assert (swept.keys, swept.finished, list(world.values.blobs)) == ([*kept, *orphans], True, kept)


def test_an_object_whose_event_is_now_in_chunks_is_an_orphan(world: World) -> None:
    """A newer version was written after the stream had changed from S3 to chunks."""
    keys = world.put("aa/1")
    world.store.tables[world.entry().table][OWNER] = {"out": {"v": "f00", "n": 2, "b": 500_000}}
    swept = at_noon(world).sweep()
    assert (swept.keys, swept.failures, world.values.blobs) == (keys, [], {})


def test_a_report_adds_up_what_every_period_of_every_stream_gave(world: World) -> None:
    for stream in ("b", "b-x"):
        entry = world.add(stream, "2026-03-11", State.DELETED)
        facts = ArchiveFacts(f"archive/{stream}/3/manifest.json", 7, 70, NOW - 2 * DAY)
        world.catalog.items[stream, entry.period] = replace(entry, archive=facts)
        for label, names in ((LABEL, ["aa/1", "bb/1"]), ("2026-03-11", ["cc/1"]), ("1999-01-01", ["dd/1"])):
            world.put(*names, stream=stream, label=label)
    swept = at_noon(world).sweep()
    assert (swept.seen, swept.orphans, swept.expired, swept.unknown, swept.lapsed) == (8, 4, 2, 2, 2)
    assert (swept.bytes, len(swept.keys), len(world.values.blobs)) == (6, 6, 2)


@pytest.mark.parametrize("looks", [1, 2, 3, 5, 100])
def test_the_parts_of_a_dry_run_count_everything_once(
    world: World, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """A run looks at the time before each archive and each group of objects, and ends after some looks."""
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    monkeypatch.setattr(sweeping, "_LOOKED", 2)
    for day in range(1, 6):
        entry = world.add("b", f"2026-03-0{day}", State.DELETED)
        facts = ArchiveFacts(f"archive/b/{day}/manifest.json", 7, 70, entry.period.end)
        world.catalog.items["b", entry.period] = replace(entry, archive=facts)
    for stream in ("b", "b-x"):
        world.put("aa/1", "bb/1", "cc/1", stream=stream)
        world.put("dd/1", "ee/1", stream=stream, label="1999-01-01")
    world.put("ff/1", "gg/1", "hh/1", label="2026-03-02")
    at_noon(world)
    counted, parts = [0] * 6, 0
    position: DryPosition | None = None
    while position is not None or not parts:
        seen, parts = count(), parts + 1
        remaining = partial(lambda seen: 100.0 if next(seen) < looks else 0.0, seen)
        part = sweep(world.services(), remaining, dry_run=True, position=position)
        found = part.seen, part.orphans, part.expired, part.unknown, part.lapsed, part.bytes
        counted = [total + more for total, more in zip(counted, found, strict=True)]
        assert (part.position is None) == part.finished
        position = None if part.finished else msgspec.convert(part.position, DryPosition)
    assert counted == [13, 6, 3, 4, 5, 9]
    assert (parts > 1) == (looks < 100)
    assert (len(world.values.blobs), POSITION_KEY in world.bucket.objects) == (13, False)


def test_a_sweep_looks_at_some_archives_and_the_next_sweep_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten years of hours are 87,600 archives, of which only a few expire in a day."""
    monkeypatch.setattr(sweeping, "_LOOKED", 2)
    for day in range(1, 6):
        entry = world.add("b", f"2026-03-0{day}", State.DELETED)
        facts = ArchiveFacts(f"archive/b/{day}/manifest.json", 7, 70, entry.period.end)
        world.catalog.items["b", entry.period] = replace(entry, archive=facts)
    at_noon(world)
    runs = list[Any]()
    for _ in range(4):
        assert world.sweep(dry_run=True).lapsed == 5 - sum(run[0] for run in runs), "a dry run looks at all"
        lapsed = world.sweep().lapsed
        runs.append((lapsed, json.loads(world.bucket.objects[POSITION_KEY])["looked"]))
    assert runs == [
        (2, {"b": "2026-03-03T00:00:00Z"}),
        (2, {"b": "2026-03-05T00:00:00Z"}),
        # The fifth archive, and the period of the 12th.
        (1, {"b": "2026-03-13T00:00:00Z"}),
        (0, {}),
    ]


def test_the_entries_of_periods_that_lie_near_each_other_are_read_together() -> None:
    labels = ["2026-03-01", "2026-03-02", "no-period", "2026-03-11", "2026-03-21", "2026-03", "2026-03-22"]
    groups = [(group, [period.label for period in periods]) for group, periods in group_labels(labels)]
    assert groups == [
        (["2026-03-01", "2026-03-02", "no-period", "2026-03-11"], ["2026-03-01", "2026-03-02", "2026-03-11"]),
        # Nine days lie between the 11th and the 21st. The month begins before the 21st.
        (["2026-03-21"], ["2026-03-21"]),
        (["2026-03"], ["2026-03"]),
        (["2026-03-22"], ["2026-03-22"]),
    ]
    hours = [f"2026-03-{day:02}T{hour:02}" for day in range(1, 31) for hour in range(24)]
    assert [len(group) for group, _ in group_labels(hours)] == [500, 220]
    assert list(group_labels(["no-period"])) == [(["no-period"], [])]
    assert list(group_labels([])) == []
