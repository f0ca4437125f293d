"""Reading an archived period of a stream by series, in which events of several series have the same sort key."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from tests.fakes import FakeArchive
from tests.fakes.archive import sort_events
from tests.worlds.places import stored_place
from tidetable.archive import reading
from tidetable.archive.manifest import Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.conditions import Condition, NameConditions
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, EventVersion, Rank
from tidetable.times import from_text

_START = datetime(2026, 3, 1, tzinfo=UTC)
_LAYOUT = Layout("series", 2, "id")
_SERIES = ["a", "a!", "b"]
# Each series has an event of every time and id.
EVENTS = [
    Event(series, _START + timedelta(seconds=second), id, {"n": second * 10 + int(id), "series": series})
    for second, id, series in product(range(4), "12", ["b", "a", "a!"])
]


class _Versions(FakeArchive):
    """Every event in two versions, which lie in different parts."""

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        for event, _ in super().events(part, keys, layout, ascending=ascending):
            for number in (2, 1):
                yield event, EventVersion(number, 1, newest=number == 2)


def _walk(keys: ArchiveRange, archive: FakeArchive, limit: int, *, ascending: bool) -> list[tuple[Event, int | None]]:
    """The events of all pages, each with the number of its version."""
    read: list[tuple[Event, int | None]] = []
    after: str | None = None
    for _ in range(100):
        page: Any = read_archive(
            ArchiveRange(**{**_fields(keys), "after": after}), archive, limit=limit, ascending=ascending
        )
        versions = [version.number for version in page.versions] if page.versions else [None] * len(page.events)
        read += zip(page.events, versions, strict=True)
        if not page.more:
            return read
        last = page.events[-1] if page.events else None
        after = page.reached or (last and stored_place(_LAYOUT.partition_by, last.time, last.series, last.id))
        assert after is not None
    raise AssertionError("the pages have no end")


def _fields(keys: ArchiveRange) -> dict[str, Any]:
    return {name: getattr(keys, name) for name in ArchiveRange.__struct_fields__}


@pytest.fixture(params=[1, 4, 250_000])
def max_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the events that are read for a page, whether they are of the series or not."""
    monkeypatch.setattr(reading, "MAX_READ", request.param)


@pytest.mark.usefixtures("max_read")
@pytest.mark.parametrize("series", _SERIES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("versions", [False, True])
def test_a_series_is_whole_beside_others_with_the_same_times_and_ids(
    series: str, limit: int, *, ascending: bool, versions: bool
) -> None:
    archive = _Versions() if versions else FakeArchive()
    archive.keep("m", _LAYOUT, EVENTS)
    low, high = (f"{_START + timedelta(seconds=second):%Y-%m-%dT%H:%M:%S.%f}Z" for second in (1, 3))
    keys = ArchiveRange("m", low, high, series, versions=versions)
    expected = [event for event in EVENTS if event.series == series and event.data["n"] in (11, 12, 21, 22)]
    expected = expected if ascending else expected[::-1]
    rows = [(event, number) for event in expected for number in ((2, 1) if versions else (None,))]
    assert _walk(keys, archive, limit, ascending=ascending) == rows


@pytest.mark.usefixtures("max_read")
@pytest.mark.parametrize("series", _SERIES)
def test_a_ranking_of_a_series_has_its_events_beside_others_with_the_same_times_and_ids(series: str) -> None:
    archive = FakeArchive()
    archive.keep("m", _LAYOUT, EVENTS)
    keys = ArchiveRange("m", "", "~", series, rank=Rank("n"))
    ranked = [event for event, _ in _walk(keys, archive, 100, ascending=False)]
    assert sorted(ranked, key=lambda event: event.data["n"]) == [event for event in EVENTS if event.series == series]


def test_a_page_ends_at_what_may_be_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A series may be rare in its archive. A page without its events ends, and says how far it has read."""
    monkeypatch.setattr(reading, "MAX_READ", 6)
    archive = FakeArchive()
    archive.keep("m", _LAYOUT, EVENTS)
    page = read_archive(ArchiveRange("m", "", "~", "none"), archive, limit=10, ascending=True)
    assert (page.events, page.more) == ([], True)
    assert page.reached is not None
    assert from_text(page.reached.partition("#")[0]) == _START


def test_a_ranking_goes_on_after_an_event_and_not_with_it() -> None:
    """Both of two events of one number are answered, each once."""
    archive = FakeArchive()
    same = [Event("a", _START + timedelta(seconds=second), "1", {"n": 5}) for second in range(3)]
    archive.keep("m", _LAYOUT, same)
    for ascending, seconds in ((True, [2]), (False, [0])):
        rank = Rank("n", ("5", "2026-03-01T00:00:01.000000Z", "a", "1"))
        page = read_archive(ArchiveRange("m", "", "~", None, rank=rank), archive, limit=9, ascending=ascending)
        assert [event.time.second for event in page.events] == seconds


def test_a_ranking_that_an_answer_does_not_hold_is_cut_but_for_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = FakeArchive()
    large = [Event("a", _START + timedelta(seconds=n), "1", {"n": n, "text": "x" * 1_000}) for n in range(4)]
    archive.keep("m", _LAYOUT, large)
    keys = ArchiveRange("m", "", "~", None, rank=Rank("n"))
    for maximum, numbers, cut in ((100, [0], True), (2_500, [0, 1], True), (10_000, [0, 1, 2, 3], False)):
        monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", maximum)
        page = read_archive(keys, archive, limit=9, ascending=True)
        assert ([event.data["n"] for event in page.events], page.cut) == (numbers, cut)


@pytest.mark.parametrize(
    ("limit", "maximum", "sizes"),
    [(3, 10_000, [3, 1]), (4, 10_000, [4]), (9, 2_500, [2, 2]), (9, 100, [1, 1, 1, 1])],
    ids=["limit", "limit of all", "bytes", "an event above the bytes of a page"],
)
def test_a_page_has_its_limit_its_bytes_or_an_event(
    monkeypatch: pytest.MonkeyPatch, limit: int, maximum: int, sizes: list[int]
) -> None:
    archive = FakeArchive()
    archive.keep(
        "m", _LAYOUT, [Event("a", _START + timedelta(seconds=n), "1", {"text": "x" * 1_000}) for n in range(4)]
    )
    monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", maximum)
    seen: list[int] = []
    after: str | None = None
    for _ in sizes:
        keys = ArchiveRange("m", "", "~", "a", after=after)
        page = read_archive(keys, archive, limit=limit, ascending=True)
        assert page.more == (sum(seen) + len(page.events) < 4)
        seen.append(len(page.events))
        after = stored_place(_LAYOUT.partition_by, page.events[-1].time, "a", "1")
    assert seen == sizes


class _Corrected(FakeArchive):
    """An event whose first version had the status that is looked for, and whose newest has another."""

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        for event, _ in super().events(part, keys, layout, ascending=ascending):
            yield event, EventVersion(2, 2, newest=True)
            yield Event(event.series, event.time, event.id, {"status": "old"}), EventVersion(1, 1, newest=False)


def test_an_event_is_found_by_its_newest_version_alone() -> None:
    archive = _Corrected()
    archive.keep("m", _LAYOUT, [Event("a", _START, "1", {"status": "new"})])
    for status, numbers in (("old", []), ("new", [2, 1])):
        keys = ArchiveRange("m", "", "~", "a", conditions=(Condition("status", "eq", (status,)),), versions=True)
        page: Any = read_archive(keys, archive, limit=9, ascending=True)
        assert [version.number for version in page.versions or ()] == numbers


class _ById(FakeArchive):
    """A part of a stream by series, as it lies in its file: the events of a time by id, whatever their series."""

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        names = [(0, "b", "1"), (0, "a", "2"), (0, "b", "3"), (1, "c", "0"), (1, "a", "1")]
        rows: list[ArchivedEvent] = [
            (Event(series, _START + timedelta(seconds=second), id, {}), None) for second, series, id in names
        ]
        yield from sort_events(rows if part.key == "m 0" else [], keys, layout, ascending=ascending)


@pytest.mark.parametrize("ascending", [True, False])
def test_events_of_several_series_come_by_time_then_series_then_id(ascending: bool) -> None:
    archive = _ById()
    archive.keep("m", _LAYOUT, [])
    page = read_archive(ArchiveRange("m", "", "~"), archive, limit=99, ascending=ascending)
    names = [(event.time.second, event.series, event.id) for event in page.events]
    expected = [(0, "a", "2"), (0, "b", "1"), (0, "b", "3"), (1, "a", "1"), (1, "c", "0")]
    assert names == (expected if ascending else expected[::-1])


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"conditions": (Condition("n", "ge", ("30",)),)}, "a31 a32 a!31 a!32 b31 b32"),
        ({"names": NameConditions(series=("b",))}, "b1 b2 b11 b12 b21 b22 b31 b32"),
        ({"names": NameConditions(ids=("2",)), "series": "a"}, "a2 a12 a22 a32"),
        ({"names": NameConditions(series_prefix="a!", id_prefix="1")}, "a!1 a!11 a!21 a!31"),
        ({"conditions": (Condition("n", "lt", ("20",)),), "names": NameConditions(("b",), ("1",))}, "b1 b11"),
    ],
    ids=["condition", "series", "ids", "prefixes", "both"],
)
@pytest.mark.parametrize("rank", [None, Rank("n")], ids=["in order", "ranked"])
def test_a_page_has_the_events_that_meet_its_conditions_and_counts_all_that_it_read(
    chosen: dict[str, Any], found: str, rank: Rank | None
) -> None:
    archive = FakeArchive()
    archive.keep("m", _LAYOUT, EVENTS)
    page = read_archive(ArchiveRange("m", "", "~", rank=rank, **chosen), archive, limit=99, ascending=True)
    assert sorted(f"{event.series}{event.data['n']}" for event in page.events) == sorted(found.split())
    assert (page.more, page.read) == (False, 24)


def test_a_page_that_ends_at_its_limit_does_not_count_the_event_that_begins_the_next() -> None:
    archive = FakeArchive()
    archive.keep("m", _LAYOUT, EVENTS)
    page = read_archive(ArchiveRange("m", "", "~"), archive, limit=5, ascending=True)
    assert (len(page.events), page.more, page.read) == (5, True, 5)
