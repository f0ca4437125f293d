"""Listings: what a page of series, fields or values says, how it is read, and which parameters it takes."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.worlds.listings import BY_HOUR, ask_listing, at, names_of, parse_listing, roll_up, walk_listing
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import HOURS, MINUTES, PACKED, PLAIN, START, STREAM, World, reading
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.problems import ProblemError
from tidetable.query.listings import explain_listing
from tidetable.query.listings.listing_parameters import find_place
from tidetable.query.listings.names import NameCollector, SeenTimes

EVENTS = (
    reading(65, 1, "a", kind="x"),
    Event("b", START + timedelta(minutes=70), "70", {"mag": "none", "kind": "y", "note": None}),
    reading(200, 1, "a", kind="x", tags=[]),
    reading(340, 2, "b/2", kind=True, place={"state": "CA"}),
)


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["items", "packs"])
def test_series_are_listed_with_the_buckets_in_which_they_were_seen(layout: Layout) -> None:
    world = roll_up(*EVENTS, layout=layout)
    page = ask_listing(world, "series", **{"from": at(60), "to": at(360)})
    assert page.rows == [
        {"series": "a", "first": at(60), "first_within": "1h", "last": at(240), "last_within": "1h"},
        {"series": "b", "first": at(60), "first_within": "1h", "last": at(120), "last_within": "1h"},
        {"series": "b/2", "first": at(300), "first_within": "1h", "last": at(360), "last_within": "1h"},
    ]
    assert {scan.entry.stream for scan in page.sources} == {"s-h"}
    assert page.next is None
    assert list(page.gaps) == []


def test_what_is_read_from_events_has_its_own_times() -> None:
    """The range is cut within a bucket of ten minutes, and a young event is in no bucket that is sealed."""
    world = roll_up(*EVENTS)
    world.write(reading(364, 1, "young"), reading(364.5, 1, "a"))
    page = ask_listing(world, "series", **{"from": at(64), "to": at(365)})
    assert page.rows == [
        {"series": "a", "first": at(65), "first_within": "0s", "last": at(364.5), "last_within": "0s"},
        {"series": "b", "first": at(70), "first_within": "10m", "last": at(80), "last_within": "10m"},
        {"series": "b/2", "first": at(300), "first_within": "1h", "last": at(360), "last_within": "1h"},
        {"series": "young", "first": at(364), "first_within": "0s", "last": at(364), "last_within": "0s"},
    ]
    assert {scan.entry.stream for scan in page.sources} == {"s", "s-m", "s-h"}


def test_an_event_at_the_end_of_a_bucket_is_known_exactly() -> None:
    world = roll_up(*EVENTS)
    world.write(reading(360, 1, "b/2"))
    page = ask_listing(world, "series", prefix="b/", **{"from": at(60), "to": at(361)})
    assert page.rows == [
        {"series": "b/2", "first": at(300), "first_within": "1h", "last": at(360), "last_within": "0s"}
    ]


def test_fields_are_listed_with_the_types_that_they_had() -> None:
    world = roll_up(*EVENTS)
    page = ask_listing(world, "fields", **{"from": at(60), "to": at(360)})
    assert [(row["field"], row["types"]) for row in page.rows] == [
        ("kind", ["boolean", "string"]),
        ("mag", ["number", "string"]),
        ("note", ["null"]),
        ("place", ["object"]),
        ("tags", ["array"]),
    ]
    assert page.rows[3] == {
        "field": "place", "types": ["object"], "first": at(300), "first_within": "1h", "last": at(360), "last_within": "1h",
    }  # fmt: skip
    assert names_of(ask_listing(world, "fields", prefix="n", **{"from": at(60), "to": at(360)})) == ["note"]


def test_cold_fields_are_not_listed() -> None:
    """Those that are kept apart are in no event that a rollup sees."""
    world = roll_up(*EVENTS)
    cold = msgspec.structs.replace(STREAM, cold=("note",))
    for start in (at(60), at(61)):
        assert "note" not in names_of(
            ask_listing(world, "fields", lambda: 100.0, cold, **{"from": start, "to": at(360)})
        )


def test_values_are_listed_in_order_with_their_type() -> None:
    kinds: tuple[Any, ...] = (
        "x",
        10,
        Decimal("2.50"),
        True,
        None,
        [1],
        "10",
        False,
        -3,
        "x" * 300 + "b",
        "x" * 300 + "a",
    )
    world = roll_up(*(reading(65 + n, 1, kind=kind) for n, kind in enumerate(kinds)))
    long = sorted(["x" * 300 + "b", "x" * 300 + "a"])
    for start in (at(60), at(64)):
        rows = walk_listing(world, "kind", limit="1", **{"from": start, "to": at(360)})
        assert [(row["value"], row["type"]) for row in rows[:5]] == [
            (-3, "number"),
            (Decimal("2.5"), "number"),
            (10, "number"),
            ("10", "string"),
            ("x", "string"),
        ]
        # Texts that begin with the same 256 characters are in an order of their own.
        assert sorted(row["value"] for row in rows[5:7]) == long
        assert [(row["value"], row["type"]) for row in rows[7:]] == [(False, "boolean"), (True, "boolean")]
        assert names_of(ask_listing(world, "kind", prefix="1", **{"from": start, "to": at(360)})) == ["10"]


def test_a_group_whose_events_are_gone_is_not_listed() -> None:
    """An event is overwritten, so that its kind and its field have no event any more."""
    world = roll_up(reading(65, 1, "a", "i", kind="x", note=1), reading(66, 1, "a", kind="y"))
    world.sleep(1)
    world.write(reading(65, 1, "a", "i", kind="y"))
    for _ in range(2):
        assert names_of(ask_listing(world, "kind", **{"from": at(60), "to": at(360)})) == ["y"]
        assert names_of(ask_listing(world, "fields", **{"from": at(60), "to": at(360)})) == ["kind", "mag"]
        world.sleep(300)
        world.refresh()
    assert not world.rollups.marks


def test_cells_of_an_earlier_definition_are_not_read() -> None:
    """Its cells stay in the tables of a rebuilt range, and nobody changes them any more."""
    world = roll_up(reading(65, 1, "a", "i", kind="x"), reading(66, 1, "a", kind="y"), definitions=[MINUTES])
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed]
    world.refresh()
    world.sleep(3_600)
    world.refresh()
    begin = START + timedelta(minutes=60)
    rebuild(world, changed, begin, begin + timedelta(hours=7))
    world.write(reading(65, 1, "a", "i", kind="y"))
    world.sleep(300)
    world.refresh()
    assert not world.rollups.marks
    page = ask_listing(world, "kind", **{"from": at(60), "to": at(120)})
    assert {scan.entry.stream for scan in page.sources} == {"s-m"}
    assert names_of(page) == ["y"]


def test_a_field_called_count_hides_no_series() -> None:
    """In its cell, `"count":0` is also the value that it is grouped by."""
    by_count = replace(HOURS, by=("series", "count"))
    world = roll_up(reading(65, None, "a", count=0), reading(66, None, "b", count=1), definitions=[by_count])
    page = ask_listing(world, "series", **{"from": at(60), "to": at(360)})
    assert names_of(page) == ["a", "b"]
    assert {scan.entry.stream for scan in page.sources} == {"s-h"}


def test_without_from_the_range_begins_with_the_first_bucket_that_is_kept() -> None:
    world = roll_up(*EVENTS)
    world.forget("s", START)
    page = ask_listing(world, "series", to=at(360))
    # The first edges are ten minutes ahead of the first run.
    assert page.describe_rest()["from"] == at(10)
    assert page.describe_rest()["to"] == at(360)
    assert names_of(page) == ["a", "b", "b/2"]
    assert list(page.gaps) == []


def test_before_anything_is_sealed_the_last_hour_is_listed() -> None:
    world = World((MINUTES,))
    world.sleep(7_200)
    world.write(reading(119, 1, "young"), reading(70, 1, "a"))
    assert world.rollups.marks
    page = ask_listing(world, "series")
    assert page.describe_rest()["from"] == at(60)
    assert names_of(page) == ["a", "young"]


def test_up_to_the_first_bucket_that_is_kept_the_last_hour_is_listed() -> None:
    world = roll_up(*EVENTS)
    assert ask_listing(world, "series", to=at(10)).describe_rest()["from"] == at(-50)
    assert ask_listing(world, "series", to=at(11)).describe_rest()["from"] == at(10)


def test_of_rollups_that_are_equally_long_the_one_of_fewer_groups_is_read() -> None:
    narrow = replace(HOURS, name="n", stream="s-n", by=("series",))
    world = World((BY_HOUR, narrow))
    hours = world.entry("s-h", START)
    world.add_period("s-n", hours.period.kind, START, hours.layout)
    world.refresh()
    world.sleep(7_500)
    world.write(reading(65, 1, kind="x"))
    world.sleep(7_500)
    world.refresh()
    page = ask_listing(world, "series", **{"from": at(60), "to": at(180)})
    assert names_of(page) == ["a"]
    assert {scan.entry.stream for scan in page.sources} == {"s-n"}


@pytest.mark.parametrize("consistent", ["true", "false"])
def test_the_catalog_is_read_as_consistently_as_a_listing_wants(consistent: str) -> None:
    """The range has one entry of the stream and one of the rollup, and each is read once."""
    world = roll_up(*EVENTS)
    world.catalog.reads.clear()
    page = ask_listing(world, "series", consistent=consistent, **{"from": at(60), "to": at(360)})
    assert names_of(page) == ["a", "b", "b/2"]
    assert {consistently for _, _, consistently in world.catalog.reads} == {consistent == "true"}


def test_a_range_for_which_the_time_does_not_suffice_is_refused() -> None:
    world = roll_up(*EVENTS)
    with pytest.raises(ProblemError) as refused:
        ask_listing(world, "series", lambda: 1.0, consistent="true", **{"from": at(5), "to": at(360)})
    assert (refused.value.problem.status, refused.value.problem.code) == (422, "too_much")


def test_with_three_seconds_left_a_listing_and_an_aggregate_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The range has sections of both rollups and of events, of which the last has several batches."""
    monkeypatch.setattr("tidetable.query.whole.PAGES", 1)
    world = roll_up(*EVENTS)
    world.write(*[reading(362 + number / 20, 1, "young") for number in range(40)])
    span = {"from": at(64), "to": at(365)}
    assert names_of(ask_listing(world, "series", lambda: 3.0, **span)) == ["a", "b", "b/2", "young"]
    with pytest.raises(ProblemError, match="422 too_much"):
        ask_listing(world, "series", lambda: 2.99, **span)
    page = world.ask(lambda: 3.0, **span, step="1h")
    assert ([row["count"] for row in page.rows], page.next) == ([2, 1, 1, 40], None)
    with pytest.raises(ProblemError, match="422 too_much"):
        world.ask(lambda: 2.99, **span, step="1h")


def problem(world: World, what: str, stream: Stream = STREAM, /, **parameters: str) -> tuple[int, str, str]:
    with pytest.raises(ProblemError) as refused:
        ask_listing(world, what, lambda: 100.0, stream, **parameters)
    found = refused.value.problem
    return found.status, found.code, found.detail


def test_a_stream_without_a_rollup_that_serves_it_is_told_which_to_add() -> None:
    world = roll_up(definitions=[HOURS])
    added = problem(world, "series")
    assert added[:2] == (400, "needs_rollup")
    assert added[2] == (
        'no rollup of s knows its series: add [[streams.s.rollup]] with name = "series", every = "1h", by = ["series"] and'
        ' retention = "365d"; docs/design/rollups.md says what it costs'
    )
    assert (
        'values of place.state: add [[streams.s.rollup]] with name = "values", every = "1h", by = ["place.state"]'
        in (problem(world, "place.state")[2])
    )
    assert names_of(ask_listing(world, "kind", **{"from": at(60), "to": at(360)})) == []
    world = World(())
    assert (
        'fields: add [[streams.s.rollup]] with name = "fields", every = "1h", by = [] and'
        in problem(world, "fields")[2]
    )
    # What is named can be added.
    keys = 'name = "fields"\nevery = "1h"\nby = []\nretention = "365d"\n'
    text = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\nkey = { partition_by = "time", bucket = "6h" }\n'
    assert list(parse(f"{text}[[streams.s.rollup]]\n{keys}").streams) == ["s", "s-fields"]
    rollup = parse(f"{text}[[streams.s.rollup]]\n{keys}").streams["s-fields"]
    assert problem(world, "series", rollup)[2] == "s-fields is a rollup: list the series of its stream s"


def test_a_plan_says_which_rollups_are_used() -> None:
    world = roll_up(*EVENTS, definitions=[MINUTES, HOURS])

    class NoTables:
        def describe(self, table: str) -> None:
            """Nobody knows a table."""

    listing = parse_listing("series", {"from": at(60), "to": at(360)}, world.time)
    plan = explain_listing(listing, STREAM, world.reader, NoTables(), world.time)  # type: ignore[arg-type]
    assert plan["rollups"] == [
        {"rollup": "s-m", "used": True, "reason": None},
        {"rollup": "s-h", "used": False, "reason": "its by lacks series"},
    ]
    assert {stage["table"] for stage in plan["stages"]} == {"tidetable-t.s-m.2026-03-02"}


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_sightings_that_end_at_one_time_the_exact_one_counts(turned: bool) -> None:
    held, place = NameCollector(10, None), find_place("a")
    assert place is not None
    sightings = [SeenTimes("1", "2", "10m"), SeenTimes("2", "2", "0s")]
    for seen in sightings[::-1] if turned else sightings:
        held.add(place, "a", seen)
    ((_, record),) = held.list_sorted()
    assert (record.earliest.first, record.earliest.within, record.latest.last, record.latest.within) == (
        "1",
        "10m",
        "2",
        "0s",
    )


@pytest.mark.parametrize("step", [1, 7_919], ids=["in order", "in disorder"])
def test_many_names_are_held_no_longer_than_a_page_needs_them(step: int) -> None:
    """More series than are held at once, in pages: none is left out, and each has its first and last bucket."""
    names = [f"s{n * step % 20_011:05d}" for n in range(20_011)]
    after, found = None, []
    while True:
        held = NameCollector(3_001, after)
        for time in ("1", "2"):
            for name in names:
                place = find_place(name)
                assert place is not None
                held.add(place, name, SeenTimes(time, time, "1h"))
                assert len(held.list_sorted()) <= 8_001 if name == names[-1] else True
        page = held.list_sorted()
        found += [(row.value, row.earliest.first, row.latest.last) for _, row in page[:3_000]]
        if len(page) <= 3_000:
            break
        after = page[2_999][0]
    assert found == [(f"s{n:05d}", "1", "2") for n in range(20_011)]
