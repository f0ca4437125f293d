"""Where a page of an archive ends, which parts are opened for it, and which versions it has."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from tests.fakes import FakeArchive
from tests.fakes.archive import sort_events
from tests.worlds.places import stored_place
from tidetable.archive import reading
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.archive.wire import encode_page
from tidetable.events import Event
from tidetable.exact_json import encode_json
from tidetable.layout import Layout
from tidetable.ports import ArchivePage, ArchiveRange, EventVersion, Rank
from tidetable.times import from_text

START = datetime(2026, 3, 1, tzinfo=UTC)
BY_SERIES = Layout("series", 2, "id")
BY_TIME = Layout("time", 2, "id", 3_600)
# AWS: the largest answer of a function.
LAMBDA_BYTES = 6 * 1024 * 1024


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def archive_of(layout: Layout, events: Sequence[Event]) -> FakeArchive:
    archive = FakeArchive()
    archive.keep("m", layout, events)
    return archive


def test_a_ranking_ends_at_what_may_be_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second has two ids, which are the keys of three series each: six events are those of the first second."""
    monkeypatch.setattr(reading, "MAX_READ", 6)
    events = [Event(series, at(second), id, {"n": 1}) for second, id, series in product(range(4), "12", "abc")]
    keys = ArchiveRange("m", "", "~", "a", rank=Rank("n"))
    page = read_archive(keys, archive_of(BY_SERIES, events), limit=10, ascending=True)
    assert ([event.id for event in page.events], page.more) == (["1", "2"], True)
    assert page.reached == stored_place("series", at(0), "a", "2")


@pytest.mark.parametrize("rank", [None, Rank("n")], ids=["in order", "ranked"])
def test_a_page_of_text_with_quotes_fits_the_answer_of_a_function(rank: Rank | None) -> None:
    """A quote is two bytes in JSON, and four in the JSON text of an answer that is JSON itself."""
    events = [Event("a", at(second), "1", {"n": second, "text": '"' * 100_000}) for second in range(40)]
    keys = ArchiveRange("m", "", "~", None, rank=rank)
    page = read_archive(keys, archive_of(BY_TIME, events), limit=100, ascending=True)
    assert 0.8 * LAMBDA_BYTES < len(encode_json(encode_page(page))) < LAMBDA_BYTES
    assert page.cut if rank else page.more


@pytest.mark.parametrize("names", [("a", "1"), ("s" * 200, "1"), ("a", "i" * 200)], ids=["short", "series", "id"])
def test_a_page_of_events_without_data_counts_their_times_and_names(
    names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", 5_000)
    events = [Event(names[0], at(number), names[1], {}) for number in range(100)]
    page = read_archive(ArchiveRange("m", "", "~"), archive_of(BY_TIME, events), limit=1_000, ascending=True)
    assert 2_000 < len(encode_json(encode_page(page))) <= 5_000


class Parts(FakeArchive):
    """Parts that say where they begin and end. ``opened`` are those that are read, ``ranges`` what is read of them."""

    def __init__(self, layout: Layout, seconds: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.seconds = seconds
        self.opened: list[int] = []
        self.ranges: list[ArchiveRange] = []
        self.keep("m", layout, [])

    def manifest(self, key: str) -> Manifest:
        manifest = super().manifest(key)
        by = self.layouts["m"].partition_by
        parts = tuple(
            msgspec.structs.replace(
                manifest.parts[0],
                key=str(number),
                first=stored_place(by, at(seconds[0]), "a", "1"),
                last=stored_place(by, at(seconds[-1]), "a", "1"),
            )
            for number, seconds in enumerate(self.seconds)
        )
        return msgspec.structs.replace(manifest, parts=parts)

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        self.opened.append(int(part.key))
        self.ranges.append(keys)
        seconds = self.seconds[int(part.key)]
        for second in seconds if ascending else seconds[::-1]:
            yield Event("a", at(second), "1", {"n": second}), None


# As the parts of segments are, these overlap.
SECONDS = [(0, 3, 5), (1, 2, 4), (6, 8), (7, 9)]


@pytest.mark.parametrize("layout", [BY_SERIES, BY_TIME], ids=["by series", "by time"])
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    ("first", "last", "opened"),
    [(0, 9, [0, 1, 2, 3]), (5, 6, [0, 2]), (9, 9, [3]), (0, 0, [0]), (4, 4, [0, 1]), (8, 8, [2, 3]), (10, 12, [])],
)
def test_parts_that_a_range_touches_are_opened_and_their_events_merged(
    first: int, last: int, opened: list[int], ascending: bool, layout: Layout
) -> None:
    by = layout.partition_by
    archive = Parts(layout, SECONDS)
    keys = ArchiveRange("m", stored_place(by, at(first), "a", "1"), stored_place(by, at(last), "a", "1"), "a")
    page = read_archive(keys, archive, limit=99, ascending=ascending)
    assert sorted(archive.opened) == opened
    numbers = [number for number in range(10) if first <= number <= last]
    assert [event.data["n"] for event in page.events] == (numbers if ascending else numbers[::-1])


@pytest.mark.parametrize(("ascending", "numbers"), [(True, [7, 8, 9]), (False, [5, 4, 3, 2, 1, 0])])
def test_a_later_page_does_not_read_again_what_earlier_pages_had(ascending: bool, numbers: list[int]) -> None:
    archive = Parts(BY_TIME, SECONDS)
    after = stored_place("time", at(6), "a", "1")
    page = read_archive(ArchiveRange("m", "", "~", None, after), archive, limit=99, ascending=ascending)
    assert [event.data["n"] for event in page.events] == numbers
    edges = {(keys.low, keys.high) for keys in archive.ranges}
    assert edges == ({(after, "~")} if ascending else {("", after)})


class Versions(FakeArchive):
    """Three events: the versions of each as the lengths of their texts, the newest first."""

    lengths: tuple[tuple[int, ...], ...] = ((100, 100), (100, 2_000), (100, 100))

    def manifest(self, key: str) -> Manifest:
        """One part that says nothing of times: its keys begin with the version."""
        manifest = super().manifest(key)
        return msgspec.structs.replace(
            manifest, parts=(msgspec.structs.replace(manifest.parts[0], first="v0#", last="v1#"),)
        )

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        rows: list[ArchivedEvent] = []
        for second, lengths in enumerate(self.lengths):
            for back, length in enumerate(lengths):
                version = EventVersion(len(lengths) - back, 1, newest=not back)
                rows.append((Event("a", at(second), "1", {"text": "x" * length}), version))
        # The versions of an event come together, in any order.
        yield from sort_events(rows[::-1], keys, layout, ascending=ascending)


def read_numbers(page: ArchivePage) -> list[tuple[int, int]]:
    assert page.versions is not None
    return [(event.time.second, version.number) for event, version in zip(page.events, page.versions, strict=True)]


def versions_archive(lengths: tuple[tuple[int, ...], ...]) -> Versions:
    archive = Versions()
    archive.lengths = lengths
    archive.keep("m", BY_TIME, [])
    return archive


def test_an_event_whose_versions_do_not_fit_begins_the_next_page_and_lacks_its_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", 1_000)
    archive = versions_archive(((100, 100), (100, 2_000, 10), (100, 100)))
    pages: list[Any] = []
    after: str | None = None
    for _ in range(3):
        keys = ArchiveRange("m", "", "~", None, after, versions=True)
        page = read_archive(keys, archive, limit=9, ascending=True)
        pages.append((read_numbers(page), page.more))
        after = stored_place("time", page.events[-1].time, "a", "1")
    assert pages == [([(0, 2), (0, 1)], True), ([(1, 3)], True), ([(2, 2), (2, 1)], False)]


@pytest.mark.parametrize(("version", "numbers"), [(None, [3, 2, 1]), (3, [3, 2, 1]), (2, [2, 1]), (1, [1])])
@pytest.mark.parametrize("ascending", [True, False])
def test_a_version_is_read_with_those_before_it(version: int | None, numbers: list[int], ascending: bool) -> None:
    low, high = (stored_place("time", at(0), "a", id) for id in "02")
    keys = ArchiveRange("m", low, high, versions=True, version=version)
    page = read_archive(keys, versions_archive(((10, 10, 10),)), limit=9, ascending=ascending)
    assert [number for _, number in read_numbers(page)] == numbers


def test_without_earlier_versions_a_page_has_the_newest_and_no_numbers() -> None:
    archive = versions_archive(((10, 20), (30,)))
    page = read_archive(ArchiveRange("m", "", "~"), archive, limit=9, ascending=True)
    assert [(event.time.second, len(str(event.data["text"]))) for event in page.events] == [(0, 10), (1, 30)]
    assert page.versions is None


def test_of_a_period_without_versions_no_event_has_one() -> None:
    archive = archive_of(BY_TIME, [Event("a", from_text("2026-03-01T00:00:00Z"), "1", {})])
    page = read_archive(ArchiveRange("m", "", "~", versions=True), archive, limit=9, ascending=True)
    assert (len(page.events), page.versions) == (1, None)
