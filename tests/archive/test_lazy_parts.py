"""A page of an archive opens only the parts that its order reaches."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from tests.fakes.archive import sort_events
from tests.worlds.places import stored_place
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.conditions import Condition
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, EventVersion, Rank

START = datetime(2026, 3, 1, tzinfo=UTC)
BY_TIME = Layout("time", 2, "id", 3_600)
BY_SERIES = Layout("series", 2, "id")
KEPT = Layout("time", 2, "id", 3_600, versioned=True)


def make_event(second: int, series: str = "a", id: str = "x") -> Event:
    return Event(series, START + timedelta(seconds=second), id, {"n": second})


class Parts:
    """An archive of parts with their events. ``opened`` has the numbers of the parts that were read.

    ``live`` is the number of parts that are open now, ``most`` the greatest such number; ``together`` is what the reader
    was told about it.
    """

    def __init__(self, layout: Layout, *parts: Sequence[Event]) -> None:
        self.layout = layout
        self.parts = [sorted(part, key=self._place) for part in parts]
        self.opened: list[int] = []
        self.damaged: set[int] = set()
        self.change: Callable[[Part], Part] = lambda part: part
        self.live = self.most = self.together = 0

    def _place(self, event: Event) -> str:
        return self.layout.make_sort_key(event.time, event.series, event.id)

    def manifest(self, key: str) -> Manifest:
        parts = [
            Part(
                key=str(number), events=len(part), size=0, sha256="", digest="", partitions=1,
                first=self._place(part[0]), last=self._place(part[-1]),
            )
            for number, part in enumerate(self.parts)
        ]  # fmt: skip
        return Manifest(
            stream="s", period="", table="", layout=self.layout, events=0, size=0, digest="", columns={},
            written_at="", parts=tuple(map(self.change, parts)),
        )  # fmt: skip

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        number = int(part.key)
        self.opened.append(number)
        self.together = together
        if number in self.damaged:
            raise ArchiveFailed(f"part {number} is damaged")
        self.live += 1
        self.most = max(self.most, self.live)
        version = EventVersion(1, 1, newest=True) if layout.versioned else None
        yield from sort_events(((event, version) for event in self.parts[number]), keys, layout, ascending=ascending)
        self.live -= 1


def make_hours(layout: Layout, count: int = 24) -> Parts:
    """A day by time: each part has an hour, and the parts are in the order of the segments, not of time."""
    hours = [[make_event(hour * 3_600 + 36 * n) for n in range(100)] for hour in range(count)]
    Random(1).shuffle(hours)
    return Parts(layout, *hours)


def read(parts: Parts, *, ascending: bool, limit: int = 50, after: str | None = None, **fields: Any) -> Any:
    edges = {"low": "v0#" if parts.layout.versioned else "", "high": "~"} | fields
    keys = ArchiveRange("m", edges.pop("low"), edges.pop("high"), edges.pop("series", None), after=after, **edges)
    return read_archive(keys, parts, limit=limit, ascending=ascending)


@pytest.mark.parametrize("layout", [BY_TIME, BY_SERIES, KEPT])
@pytest.mark.parametrize("ascending", [True, False])
def test_a_page_of_fifty_events_opens_one_part_of_a_hundred(layout: Layout, *, ascending: bool) -> None:
    parts = make_hours(layout)
    page = read(parts, ascending=ascending)
    seconds = [int((event.time - START).total_seconds()) for event in page.events]
    assert seconds == ([36 * n for n in range(50)] if ascending else [86_364 - 36 * n for n in range(50)])
    assert len(parts.opened) == 1
    assert page.more


def test_a_part_knows_how_many_parts_are_read_at_the_same_time() -> None:
    """A stream by series has all times in each part, so a page of all series holds a window of each."""
    parts = make_hours(BY_TIME)
    read(parts, ascending=True, limit=5_000)
    assert (parts.together, parts.most) == (1, 1)
    overlapping = [[make_event(second) for second in some] for some in ((0, 9), (3, 5), (5, 8), (9, 11), (20, 30))]
    parts = Parts(BY_TIME, *overlapping)
    read(parts, ascending=True, limit=5_000)
    assert (parts.together, parts.most) == (3, 3)


@pytest.mark.parametrize("ascending", [True, False])
def test_a_later_page_opens_no_part_that_earlier_pages_have_read(*, ascending: bool) -> None:
    """Two pages begin within each part, one at its end, and one looks for the event that follows."""
    parts = make_hours(BY_TIME)
    after, seen = None, []
    for _ in range(100):
        page = read(parts, ascending=ascending, after=after)
        seen += page.events
        if not page.more:
            break
        after = stored_place("time", seen[-1].time, seen[-1].series, seen[-1].id)
    assert len(seen) == 2_400
    assert seen == sorted(seen, key=lambda event: event.time, reverse=not ascending)
    assert max(map(parts.opened.count, range(24))) <= 4


def test_a_ranking_reads_all_parts_one_after_the_other() -> None:
    """Memory holds one part at a time."""
    parts = make_hours(BY_TIME)
    page = read(parts, ascending=False, rank=Rank("n"), limit=3)
    assert [event.data["n"] for event in page.events] == [86_364, 86_328, 86_292]
    assert (sorted(parts.opened), parts.most) == (list(range(24)), 1)


def test_a_condition_that_nothing_meets_reads_the_parts_one_after_the_other() -> None:
    parts = make_hours(BY_TIME)
    page = read(parts, ascending=True, conditions=(Condition("n", "lt", ("0",)),))
    assert (page.events, page.more, page.read) == ([], False, 2_400)
    assert parts.most == 1


@pytest.mark.parametrize("ascending", [True, False])
def test_a_damaged_part_fails_the_pages_that_reach_it_and_no_others(*, ascending: bool) -> None:
    parts = Parts(BY_TIME, *([make_event(10 * n + m) for m in range(10)] for n in range(5)))
    parts.damaged = {2}
    assert len(read(parts, ascending=ascending, limit=15).events) == 15
    with pytest.raises(ArchiveFailed, match="part 2 is damaged"):
        read(parts, ascending=ascending, limit=25)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("layout", [BY_TIME, BY_SERIES])
def test_a_part_without_bounds_is_opened_at_once_and_nothing_is_missing(layout: Layout, *, ascending: bool) -> None:
    parts = Parts(layout, [make_event(5), make_event(95)], [make_event(1)], [make_event(50)], [make_event(99)])
    parts.change = lambda part: replace(part, first="", last="") if part.key == "0" else part
    seconds = [event.data["n"] for event in read(parts, ascending=ascending).events]
    assert seconds == sorted([1, 5, 50, 95, 99], reverse=not ascending)
    parts.opened.clear()
    assert len(read(parts, ascending=ascending, limit=1).events) == 1
    assert 0 in parts.opened


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("ascending", [True, False])
def test_any_parts_that_overlap_have_the_answer_of_one_part(seed: int, *, ascending: bool) -> None:
    """Parts of any bounds, many events of one time in several series, ranges, cursors and every layout."""
    random = Random(seed)
    layout = random.choice([BY_TIME, BY_SERIES, KEPT])
    names = ["a", "a#", "b"]
    every = {
        (second, series, id): make_event(second, series, id)
        for second, series, id in (
            (random.randrange(20), random.choice(names), random.choice("xy#")) for _ in range(80)
        )
    }
    pieces: list[list[Event]] = [[] for _ in range(random.randrange(1, 8))]
    for event in every.values():
        # Some archives by time have parts of a few times, those by series have every time in each part.
        at = min(int(event.data["n"]) * len(pieces) // 20, len(pieces) - 1)
        pieces[at if random.random() < 0.8 else random.randrange(len(pieces))].append(event)
    parts = Parts(layout, *[piece for piece in pieces if piece])
    whole = Parts(layout, list(every.values()))
    series = random.choice([None, *names])
    first, last = sorted(random.sample(range(21), 2))
    edges = [layout.make_edge(START + timedelta(seconds=second)) for second in (first, last)]
    limit, after = random.choice([1, 3, 100]), None
    ordering = layout.find_ordering_layout(series)
    for _ in range(100):
        options: Any = {"low": edges[0], "high": edges[1], "series": series, "after": after, "limit": limit}
        page, expected = (read(some, ascending=ascending, **options) for some in (parts, whole))
        assert (page.events, page.more) == (expected.events, expected.more)
        if not page.more:
            return
        event = page.events[-1]
        after = ordering.make_sort_key(event.time, event.series, event.id)


class Bucket:
    """Objects in memory, and a count of the requests."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.gets = 0

    def get(self, key: str) -> bytes:
        self.gets += 1
        return self.objects[key]

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        del etag
        return self.get(key), ""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.gets += 1
        return self.objects[key][start:end]


def test_the_newest_hundred_events_of_a_hundred_parquet_files_need_a_few_requests() -> None:
    """A hundred files by time: the manifest, and the newest two files."""
    bucket: Any = Bucket()
    parts = []
    for number in range(100):
        items: list[Any] = []
        for n in range(60):
            pk, sk = BY_TIME.make_key(make_event(number * 600 + 10 * n, id=f"e{n}"))
            items.append({"pk": {"S": pk}, "sk": {"S": sk}, "at": {"N": "1"}, "data": {"M": {"n": {"N": str(n)}}}})
        writer = Parquet().writer(BY_TIME, {})
        writer.add(json.dumps(items).encode())
        body, facts = writer.finish(), writer.facts
        bucket.objects[str(number)] = body
        parts.append(
            Part(
                key=str(number), events=60, size=len(body), sha256="", digest="", partitions=1, first=facts.first,
                last=facts.last,
            )
        )  # fmt: skip
    manifest = Manifest(
        stream="s", period="", table="", layout=BY_TIME, events=6_000, size=0, digest="", columns={}, written_at="",
        parts=tuple(parts),
    )  # fmt: skip
    bucket.objects["m"] = manifest.encode()
    reader = S3PartReader(bucket)
    for ascending, hour in ((False, 16), (True, 0)):
        bucket.gets = 0
        page = read_archive(ArchiveRange("m", "", "~", None), reader, limit=100, ascending=ascending)
        assert (len(page.events), page.events[0].time.hour) == (100, hour)
        assert bucket.gets == 3
