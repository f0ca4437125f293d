"""What a process knows of the notes of others, which pages it puts notes on, and how long it relies on notes."""

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.rollups import FakeRollups
from tests.ingest.streams import NOW
from tidetable.catalog import Entry, State
from tidetable.errors import Outage, StoreUnavailable
from tidetable.ingest.series_index import SeriesIndex
from tidetable.layout import Layout, compute_suffix
from tidetable.periods import Kind, find_containing
from tidetable.ports import NotePage

AT = 1_772_323_500_000
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ENTRY = Entry("s", find_containing(NOW, Kind.DAY), "table", Layout("series", 1, "id"), State.OPEN, NOW)
# A period whose table was deleted and restored.
RESTORED = replace(ENTRY, deleted_at=NOW)


class Calls(FakeRollups):
    """Keeps what was put and read; it fails once after the first page of a put, if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.put: list[str] = []
        self.read: list[Mapping[int, int]] = []
        self.fails = False

    def put_notes(self, stream: str, period: str, pages: Sequence[NotePage], at: int) -> None:
        assert pages
        if self.fails:
            self.fails = False
            super().put_notes(stream, period, pages[:1], at)
            raise StoreUnavailable(Outage.NO_ANSWER, "time-out")
        self.put += [name for page in pages for name in page.series]
        super().put_notes(stream, period, pages, at)

    def read_chains(self, stream: str, period: str, first: Mapping[int, int]) -> Iterable[NotePage]:
        self.read.append(dict(first))
        return super().read_chains(stream, period, first)


def note(process: SeriesIndex, *series: str, entry: Entry = ENTRY, now: datetime = NOW) -> bool:
    return process.note([(entry, series)], now)


def names_of(chain: int, count: int, length: int = 8) -> list[str]:
    """Names of a chain."""
    names = (f"{number:0{length}}" for number in range(1_000_000))
    mine = (name for name in names if compute_suffix(name, 64) == chain)
    return [next(mine) for _ in range(count)]


def test_a_series_is_noted_once_however_many_processes_there_are_and_however_long_they_live() -> None:
    rollups = Calls()
    processes = [SeriesIndex(rollups) for _ in range(3)]
    for days in range(40):
        for process in processes:
            assert note(process, "a", "b", now=NOW + days * DAY)
    assert rollups.put == ["a", "b"]
    assert len(rollups.read) == 3
    assert rollups.notes == {("s", "2026-03-01"): {"a": AT, "b": AT}}


def test_a_process_reads_only_what_was_noted_since_it_read_last() -> None:
    rollups = Calls()
    mine, other = SeriesIndex(rollups), SeriesIndex(rollups)
    # Two series of 400 bytes fill a page.
    names = names_of(5, 7, 400)
    for name in names[:5]:
        note(other, name)
    note(mine, names[4])
    note(other, names[5])
    note(mine, names[6])
    note(mine, *names)
    assert rollups.put == [*names[:6], names[6]]
    assert rollups.read == [{5: 0}, {5: 0}, {5: 0}, {5: 1}, {5: 1}, {5: 0}, {5: 2}, {5: 2}]
    pages = rollups.pages["s", "2026-03-01"]
    assert {key: page.series for key, page in pages.items()} == {
        (5, 0, ""): names[:2],
        (5, 1, ""): names[2:4],
        (5, 2, ""): names[4:6],
        (5, 3, ""): names[6:],
    }


@pytest.mark.parametrize(("length", "most"), [(100, 9), (101, 8), (450, 2), (451, 1), (600, 1)])
def test_a_page_has_at_most_900_bytes_of_series(length: int, most: int) -> None:
    """A write unit is 1 KB, and the key, the time and the names of the attributes have up to 124 bytes."""
    rollups = Calls()
    note(SeriesIndex(rollups), *names_of(9, 10, length))
    sizes = [len(page.series) for page in rollups.pages["s", "2026-03-01"].values()]
    assert (sizes[0], sum(sizes), max(sizes)) == (most, 10, most)


def test_bytes_count_and_not_characters() -> None:
    rollups = Calls()
    names = [name for name in (f"{'ü' * 225}{number}" for number in range(2_000)) if compute_suffix(name, 64) == 3][:3]
    assert len(names) == 3
    note(SeriesIndex(rollups), *names)
    assert [len(page.series) for page in rollups.pages["s", "2026-03-01"].values()] == [1, 1, 1]


def test_what_was_not_surely_noted_is_not_remembered() -> None:
    rollups = Calls()
    process = SeriesIndex(rollups)
    note(process, "a")
    rollups.fails = True
    assert not note(process, "a", "b", "c")
    assert process.trouble == "no answer: time-out"
    # One of the two was noted all the same: the next read finds it.
    assert note(process, "a", "b", "c")
    assert rollups.put in (["a", "b"], ["a", "c"])
    assert set(rollups.notes["s", "2026-03-01"]) == {"a", "b", "c"}


def test_a_page_that_was_not_surely_put_is_read_again() -> None:
    """Others may have added notes to the page before it."""
    rollups = Calls()
    process, names = SeriesIndex(rollups), names_of(5, 3, 500)
    note(process, names[0])
    rollups.fails = True
    assert not note(process, names[1])
    note(process, names[2])
    assert rollups.read == [{5: 0}, {5: 0}, {5: 0}]
    assert rollups.put == [names[0], names[2]]


def test_chains_that_cannot_be_read_are_no_notes() -> None:
    rollups = Calls()
    process = SeriesIndex(rollups)
    note(process, "a")
    rollups.refuses = True
    assert note(process, "a")
    assert not note(process, "b")


def test_periods_are_told_apart_and_those_that_could_be_noted_are_remembered() -> None:
    rollups = Calls()
    process = SeriesIndex(rollups)
    following = replace(ENTRY, period=ENTRY.period.shift(1))
    assert note(process, "a")
    rollups.fails = True
    assert not process.note([(ENTRY, ["a", "b"]), (following, ["a"])], NOW)
    assert process.note([(ENTRY, ["a", "b"]), (following, ["a"])], NOW)
    assert process.note([(replace(ENTRY, stream="other"), ["a"])], NOW)
    assert {key: sorted(noted) for key, noted in rollups.notes.items()} == {
        ("s", "2026-03-01"): ["a", "b"],
        ("s", "2026-03-02"): ["a"],
        ("other", "2026-03-01"): ["a"],
    }


def test_after_a_restore_the_notes_of_before_do_not_count() -> None:
    """The removal of the notes of the first table may be under way: it spares what was put a day after the deletion."""
    rollups = Calls()
    process = SeriesIndex(rollups)
    note(process, "a", now=NOW - HOUR)
    note(process, "a", entry=RESTORED, now=NOW + 3 * DAY)
    assert rollups.put == ["a", "a"]
    assert rollups.notes["s", "2026-03-01"] == {"a": AT + 3 * 86_400_000}
    rollups.clear_notes("s", "2026-03-01", AT + 86_400_000, 100)
    note(process, "a", entry=RESTORED, now=NOW + 9 * DAY)
    note(SeriesIndex(rollups), "a", entry=RESTORED, now=NOW + 9 * DAY)
    assert (rollups.put, list(rollups.notes["s", "2026-03-01"])) == (["a", "a"], ["a"])


@pytest.mark.parametrize(("millis", "puts"), [(86_399_999, 1), (86_400_000, 0)])
def test_a_restored_period_relies_on_the_notes_that_the_removal_spares(millis: int, puts: int) -> None:
    rollups = Calls()
    rollups.put_notes("s", "2026-03-01", [NotePage(compute_suffix("a", 64), 4, ["a"])], AT + millis)
    rollups.put.clear()
    note(SeriesIndex(rollups), "a", entry=RESTORED, now=NOW + 3 * DAY)
    assert len(rollups.put) == puts
    # It went to the last page, which the removal then spares.
    assert [key[1] for key in rollups.pages["s", "2026-03-01"]] == [4]


def test_a_second_deletion_begins_anew() -> None:
    rollups = Calls()
    process = SeriesIndex(rollups)
    note(process, "a", entry=RESTORED, now=NOW + 2 * DAY)
    again = replace(ENTRY, deleted_at=NOW + 5 * DAY)
    note(process, "a", entry=again, now=NOW + 5 * DAY + HOUR)
    assert rollups.put == ["a", "a"]


def test_a_process_whose_memory_is_full_notes_other_series_alone_and_reads_nothing() -> None:
    """Each of two series takes 100 bytes and its text."""
    rollups = Calls()
    process = SeriesIndex(rollups, most=210)
    note(process, "a")
    note(process, "b")
    note(process, "c")
    rollups.read.clear()
    for _ in range(2):
        note(process, "a", "b", "c", "d")
    assert (rollups.put, rollups.read) == (["a", "b", "c", "d", "d"], [])
    assert rollups.pages["s", "2026-03-01"][-1, -1, "d"] == NotePage(compute_suffix("d", 64), None, ["d"], AT)


def test_a_request_reads_a_quarter_of_the_memory_and_the_next_goes_on() -> None:
    """A page has nine series, each of which takes its text, a byte and 100 bytes of a slot."""
    rollups = Calls()
    names = names_of(5, 200, 100)
    note(SeriesIndex(rollups), *names)
    taken: list[int | None] = []

    def read_chains(*given: Any) -> Iterable[NotePage]:
        for page in Calls.read_chains(rollups, *given):
            taken.append(page.number)
            yield page

    rollups.read_chains = read_chains  # type: ignore[method-assign, assignment]
    process = SeriesIndex(rollups, most=40_000)
    for number, pages, puts in (
        (0, [0, 1, 2, 3, 4, 5], []),
        (199, [5, 6, 7, 8, 9, 10, 11], [names[199]]),
        (199, [], []),
        (198, [11, 12, 13, 14, 15, 16, 17], [names[198]]),
        (197, [17, 18, 19, 20, 21, 22], []),
    ):
        taken.clear()
        rollups.put.clear()
        note(process, names[number])
        assert (taken, rollups.put) == (pages, puts)
    assert rollups.pages["s", "2026-03-01"][-1, -1, names[199]].series == [names[199]]


def test_the_memory_of_a_period_that_is_not_used_for_an_hour_is_used_for_others() -> None:
    rollups = Calls()
    process = SeriesIndex(rollups, most=90)
    following = replace(ENTRY, period=ENTRY.period.shift(1))
    note(process, "a")
    for minutes in (1, 2, 59):
        note(process, "b", entry=following, now=NOW + minutes * timedelta(minutes=1))
    assert rollups.put == ["a", "b", "b", "b"]
    for minutes in (60, 61):
        note(process, "b", entry=following, now=NOW + minutes * timedelta(minutes=1))
    assert rollups.put == ["a", "b", "b", "b", "b"]
    # A note alone on its page is not read: the series is noted once more, then it is known.
    assert rollups.read == [{compute_suffix("a", 64): 0}, {compute_suffix("b", 64): 0}]


def test_a_series_of_an_acknowledged_event_always_has_its_note() -> None:
    """Four processes of all ages, with little memory or much, throttled or not; 600 series, 40 at a time."""
    chance = random.Random(11)
    rollups, promised = Calls(), set[str]()
    processes = [SeriesIndex(rollups, most) for most in (64_000, 64_000, 9_000, 64_000)]
    for _ in range(300):
        if chance.random() < 0.02:
            processes[chance.randrange(4)] = SeriesIndex(rollups, 64_000)
        rollups.fails = chance.random() < 0.1
        series = {f"{chance.randrange(600):03}" for _ in range(chance.choice((1, 40)))}
        if note(chance.choice(processes), *series):
            promised |= series
            assert promised <= rollups.notes["s", "2026-03-01"].keys()
    assert len(promised) == 600
