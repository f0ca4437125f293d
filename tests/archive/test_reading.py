"""Reading an archived period of a stream by series, in which events of several series have the same sort key."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from tests.fakes import FakeArchive
from tidetable.archive import reading
from tidetable.archive.manifest import Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.events import Event
from tidetable.keys import Layout
from tidetable.ports import ArchiveRange, Rank, Version
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

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[ArchivedEvent]:
        for event, _ in super().events(part, keys, layout, ascending=ascending):
            for number in (2, 1):
                yield event, Version(number, 1, newest=number == 2)


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
        after = page.reached or (last and _LAYOUT.sort_key(last.time, last.series, last.id))
        assert after is not None
    raise AssertionError("the pages have no end")


def _fields(keys: ArchiveRange) -> dict[str, Any]:
    return {name: getattr(keys, name) for name in ArchiveRange.__dataclass_fields__}


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
