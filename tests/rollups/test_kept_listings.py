"""The names that a page of a listing found are kept in the bucket, and the pages after it take them from there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.listings import ask_listing, at, names_of, parse_listing, roll_up
from tests.worlds.noted import begin_noting
from tests.worlds.rolled import BY_SERIES, MINUTES, START, World, reading
from tidetable.access import Access
from tidetable.catalog import GapReason
from tidetable.errors import Outage, StoreUnavailable
from tidetable.forms.field_columns import DATA, FieldColumns
from tidetable.problems import ProblemError
from tidetable.query import whole as whole_reads
from tidetable.query.listings import kept, listing_run
from tidetable.query.listings.listing_page import Listed
from tidetable.query.listings.sightings import CellReader

SPAN = {"from": at(60), "to": at(360)}
WIDE = {"from": at(60), "to": at(320)}
# Five series, six values of a field and two fields, in buckets of ten minutes.
EVENTS = [reading(65 + 30 * n, n, f"s{n % 5}", kind=kind) for n, kind in enumerate(["x", 10, "10", True, -3, "y", "x"])]
LONG = replace(MINUTES, every=timedelta(minutes=20))
ALL = ["s0", "s1", "s2", "s3", "s4"]


@pytest.fixture(autouse=True)
def _keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the names of small ranges, too, in frames of two."""
    monkeypatch.setattr(kept, "_WORTH", 0)
    monkeypatch.setattr(kept, "_FRAME", 2)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world of twenty series, each in two buckets, of whose names three are kept."""
    monkeypatch.setattr(listing_run, "MOST_NAMES", 3)
    monkeypatch.setattr("tidetable.query.listings.names._SLACK", 0)
    events = [reading(start + n * 5, n, f"s{n * 7 % 20:02d}") for start in (65, 215) for n in range(20)]
    return roll_up(*events, definitions=[LONG])


def follow_rows(world: World, page: Listed) -> list[dict[str, Any]]:
    """The rows of all pages after a page."""
    rows = list[dict[str, Any]]()
    while page.next is not None:
        page = ask_listing(world, "series", cursor=page.next, limit="1")
        rows += page.rows
    return rows


def follow(world: World, page: Listed, **parameters: str) -> list[Any]:
    """The names of a page and of all pages after it."""
    names = names_of(page)
    while page.next is not None:
        page = ask_listing(world, "series", cursor=page.next, **{"limit": "1", **parameters})
        names += names_of(page)
    return names


def expire_after(looks: int) -> Callable[[], float]:
    """A clock by which the time is up after some looks at it."""
    seen = count()
    return lambda: 100.0 if next(seen) < looks else 0.0


@pytest.mark.parametrize("what", ["series", "fields", "kind"])
def test_the_pages_after_the_first_have_the_same_rows_and_read_one_object(what: str) -> None:
    world = roll_up(*EVENTS)
    whole = ask_listing(world, what, limit="100", **SPAN)
    assert not world.values.blobs, "all names fit onto the page, so nobody needs them again"
    page = ask_listing(world, what, limit="1", **SPAN)
    (stored,) = world.values.blobs
    assert stored.startswith("listings/s/")
    rows = list(page.rows)
    world.store.tables.clear()
    while page.next is not None:
        page = ask_listing(world, what, cursor=page.next, limit="1")
        assert (page.cost.units, page.cost.requests) == (0, 1)
        assert page.describe_rest()["sources"] == whole.describe_rest()["sources"]
        assert page.describe_rest()["from"] == at(60)
        rows += page.rows
    assert rows == whole.rows
    assert len(rows) == {"series": 5, "fields": 2, "kind": 6}[what]
    assert list(world.values.blobs) == [stored]


def test_a_page_may_have_the_names_of_several_frames() -> None:
    world = roll_up(*EVENTS)
    first = ask_listing(world, "series", limit="1", **SPAN)
    assert first.next is not None
    world.store.tables.clear()
    second = ask_listing(world, "series", cursor=first.next, limit="3")
    assert second.next is not None
    third = ask_listing(world, "series", cursor=second.next, limit="3")
    assert [names_of(page) for page in (first, second, third)] == [["s0"], ["s1", "s2", "s3"], ["s4"]]
    assert third.next is None


def test_kept_pages_have_the_gaps_of_their_range() -> None:
    world = roll_up(*EVENTS)
    world.forget("s", world.time)
    world.write(*EVENTS[:0])
    page = ask_listing(world, "series", limit="1", **{"from": at(60), "to": at(365)})
    assert [gap.reason for gap in page.gaps] == [GapReason.DELETED]
    assert page.next is not None
    assert ask_listing(world, "series", cursor=page.next).gaps == page.gaps


def test_a_cheap_range_is_read_for_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_WORTH", 40)
    world = roll_up(*EVENTS)
    page = ask_listing(world, "series", limit="1", **SPAN)
    assert 0 < page.cost.units + page.cost.requests <= 40
    assert follow(world, page) == ALL
    assert not world.values.blobs
    # What a key with a prefix sees must not depend on what reading other series cost.
    world.reader = replace(world.reader, access=Access("k", None, frozenset({"read"}), "s"))
    assert ask_listing(world, "series", limit="1", prefix="s", **SPAN).next is not None
    assert len(world.values.blobs) == 1


def test_a_series_that_comes_between_two_pages_is_on_none_of_the_kept_pages() -> None:
    world = roll_up(*EVENTS)
    world.write(reading(364, 1, "s2"))
    span = {"from": at(60), "to": at(400)}
    page = ask_listing(world, "series", limit="1", **span)
    strict = ask_listing(world, "series", limit="1", consistent="true", **span)
    world.write(reading(365, 1, "s9"))
    assert follow(world, page) == ALL
    assert follow(world, strict, consistent="true") == [*ALL, "s9"], "such a page is always read"
    assert follow(world, ask_listing(world, "series", limit="1", **span)) == [*ALL, "s9"]


@pytest.mark.parametrize(("seconds", "is_kept"), [(899, True), (900, False)])
def test_names_are_kept_for_fifteen_minutes(seconds: int, is_kept: bool) -> None:
    world = roll_up(*EVENTS)
    page = ask_listing(world, "series", limit="1", **{"from": at(60), "to": at(400)})
    world.write(reading(365, 1, "s9"))
    world.sleep(seconds)
    assert follow(world, page) == (ALL if is_kept else [*ALL, "s9"])


@pytest.mark.parametrize("fault", ["lost", "cut", "other", "newer", "unreachable"])
def test_without_the_object_the_range_is_read_again(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = roll_up(*EVENTS)
    page = ask_listing(world, "series", limit="1", **SPAN)
    (key,) = world.values.blobs
    blob = world.values.blobs.pop(key)
    if fault == "cut":
        world.values.blobs[key] = replace(blob, body=blob.body[:-1])
    elif fault == "other":
        world.values.blobs[key] = replace(blob, body=b"\x80")
    elif fault == "newer":
        # The first element of the array is the format.
        assert blob.body[1] == 1
        world.values.blobs[key] = replace(blob, body=blob.body[:1] + b"\2" + blob.body[2:])
    elif fault == "unreachable":

        def refuse(_: str) -> bytes:
            raise StoreUnavailable(Outage.NO_ANSWER, "no answer")

        monkeypatch.setattr(world.values, "get", refuse)
    assert follow(world, page) == ALL


def test_a_bucket_that_takes_no_object_costs_only_reads() -> None:
    world = roll_up(*EVENTS)
    world.values.refuses = True
    assert follow(world, ask_listing(world, "series", limit="1", **SPAN)) == ALL


def test_more_names_than_are_kept_are_found_by_another_reading(few: World) -> None:
    page = ask_listing(few, "series", limit="1", **WIDE)
    rows = [*page.rows, *follow_rows(few, page)]
    # The series of the number n has the events of the number 3 n, because 3 times 7 is 1, modulo 20.
    minutes = [5 * (3 * n % 20) for n in range(20)]
    assert [(row["series"], row["first"], row["last"]) for row in rows] == [
        (f"s{n:02d}", at((65 + add) // 20 * 20), at((215 + add) // 20 * 20 + 20)) for n, add in enumerate(minutes)
    ]
    # Three or four names are kept each time: half as many more may wait before the last are dropped.
    assert 5 <= len(few.values.blobs) <= 7


def test_the_names_of_a_key_are_not_those_of_a_key_with_a_prefix() -> None:
    """A key with a prefix sees whole buckets only: the times of events would tell of the late events of other series."""
    world = roll_up(*EVENTS)
    parameters = {"limit": "1", "prefix": "s", "from": at(91), "to": at(350)}
    full, tenant = world.reader, replace(world.reader, access=Access("k", None, frozenset({"read"}), "s"))
    for asking, going_on, within in ((full, tenant, "1h"), (tenant, full, "0s")):
        world.reader = asking
        page = ask_listing(world, "series", **parameters)
        world.reader = going_on
        assert page.next is not None
        (row,) = ask_listing(world, "series", cursor=page.next, limit="1").rows
        assert (row["series"], row["first_within"]) == ("s1", within)


@pytest.mark.parametrize("what", ["series", "fields", "kind"])
def test_a_page_whose_time_is_up_has_no_rows_and_the_next_goes_on(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look: all pages together have the rows of a page that had time, and each event is read at most twice."""
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    world = roll_up(*EVENTS, definitions=[LONG])
    span = {"from": at(-30), "to": at(355)}
    whole = ask_listing(world, what, limit="100", **span)
    ends = set[Any]()
    for looks in range(40):
        parameters, rows, pages = {**span, "limit": "100"}, list[Any](), 0
        try:
            for _ in range(20):
                page = ask_listing(world, what, expire_after(looks), **parameters)
                assert page.describe_rest()["from"] == at(-30)
                rows, pages = [*rows, *page.rows], pages + 1
                if page.next is None:
                    break
                assert not page.rows
                parameters = {"cursor": page.next, "limit": "100"}
        except ProblemError as error:
            ends.add(error.problem.code)
            rows = whole.rows
        else:
            ends.add(min(pages, 2))
            assert [gap.end for gap in page.gaps] == [START]
            assert page.describe_rest()["sources"] == whole.describe_rest()["sources"]
        assert rows == whole.rows
    assert ends == {"too_much", 1, 2}


@pytest.mark.usefixtures("few")
def test_a_reading_that_goes_on_drops_the_names_that_were_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name is in one bucket, so a name that was dropped is not seen again."""
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    world = roll_up(*[reading(65 + n * 10, n, f"s{n * 7 % 20:02d}") for n in range(20)], definitions=[LONG])
    whole = ask_listing(world, "series", limit="100", consistent="true", **WIDE)
    assert len(whole.rows) == 20
    stops = 0
    for looks in range(1, 24):
        try:
            page = ask_listing(world, "series", expire_after(looks), limit="1", **WIDE)
        except ProblemError:
            continue
        stops += not page.rows
        assert [*page.rows, *follow_rows(world, page)] == whole.rows
    assert stops > 5


def test_the_range_of_a_reading_that_goes_on_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without from, the range begins with the first sealed bucket that can be read."""
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    world = roll_up(*EVENTS, definitions=[LONG])
    page = ask_listing(world, "series", expire_after(6))
    assert (page.rows, page.describe_rest()["from"], page.next is None) == ([], at(20), False)
    ((place, edge),) = world.rollups.edges.items()
    world.rollups.edges[place] = edge._replace(start=edge.start + timedelta(minutes=20))
    page = ask_listing(world, "series", cursor=page.next or "")
    assert (names_of(page), page.describe_rest()["from"]) == (ALL, at(20))
    assert ask_listing(world, "series").describe_rest()["from"] == at(40)


def test_what_a_reading_that_went_on_has_found_is_kept_although_its_last_page_was_cheap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    monkeypatch.setattr(kept, "_WORTH", 1_000)
    world = roll_up(*EVENTS, definitions=[LONG])
    page = ask_listing(world, "series", expire_after(6), **SPAN)
    page = ask_listing(world, "series", cursor=page.next or "", limit="1")
    assert names_of(page) == ["s0"]
    page = ask_listing(world, "series", cursor=page.next or "", limit="1")
    assert (names_of(page), page.cost.units, page.cost.requests) == (["s1"], 0, 1)


def test_noted_series_are_not_lost_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A series of a marked bucket is only known from the notes of its day, which are used at the end of the reading."""
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    world = begin_noting()
    world.sleep(26 * 3_600)
    world.refresh()
    world.write(reading(70, 1, "late"))
    assert world.rollups.marks
    outcomes = set()
    for looks in [*range(1, 40), 1_000]:
        parameters = {"from": at(0), "to": at(1_500)}
        try:
            while True:
                page = ask_listing(world, "series", expire_after(looks), BY_SERIES, **parameters)
                if page.next is None:
                    break
                parameters = {"cursor": page.next}
        except ProblemError as error:
            outcomes.add(error.problem.code)
        else:
            assert "late" in names_of(page)
            outcomes.add("whole")
    assert outcomes == {"too_much", "whole"}


def test_the_first_and_the_last_bucket_of_a_series_are_found_in_any_order() -> None:
    listing = parse_listing("series", SPAN, World().time)
    cells = CellReader(listing, MINUTES)
    times = [at(minutes) for minutes in (80, 100, 70, 90)]
    columns = FieldColumns(times, ["a"] * 4, {DATA: ['{"by":{},"count":1}'] * 4}, lambda: [f"{MINUTES.key}[]"] * 4)
    assert list(cells.read(columns)) == []
    seen = [(value, sighting.first, sighting.last, sighting.within) for value, sighting in cells.list_rest()]
    assert seen == [("a", at(70), at(80), "10m"), ("a", at(100), at(110), "10m")]
    assert list(cells.list_rest()) == []


@pytest.mark.parametrize("hinder", ["consistent", "refuses"])
def test_a_page_that_cannot_keep_its_names_is_refused_when_its_time_is_up(hinder: str) -> None:
    world = roll_up(*EVENTS)
    world.values.refuses = hinder == "refuses"
    consistent = "true" if hinder == "consistent" else "false"
    with pytest.raises(ProblemError, match="422 too_much"):
        ask_listing(world, "series", lambda: 1.0, consistent=consistent, **{"from": at(61), "to": at(355)})
