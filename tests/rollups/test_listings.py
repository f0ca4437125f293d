"""Listings: the series, fields and values of a range are those of the events that were sent, whatever happened to them since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import SEAL
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, PACKED, PLAIN, START, STREAM, World, reading
from tidetable.catalog import State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.keys import Layout
from tidetable.problems import ProblemError
from tidetable.query.listings import explain_listing, find_listing, parse_fields, parse_series, parse_values
from tidetable.query.listings.names import Names, Seen
from tidetable.query.listings.page import Listed
from tidetable.query.listings.parse import place_of
from tidetable.rollups.rebuild import rebuild
from tidetable.times import from_text, to_text

BY_HOUR = replace(HOURS, by=("series", "kind"))
LENGTHS = {
    "0s": timedelta(0),
    "10m": timedelta(minutes=10),
    "20m": timedelta(minutes=20),
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
}


def parsed(what: str, parameters: Mapping[str, str], now: datetime, stream: Stream = STREAM) -> Any:
    given = {name: [value] for name, value in parameters.items()}
    if what == "series":
        return parse_series(stream, given, now, SEAL)
    return parse_fields(stream, given, now, SEAL) if what == "fields" else parse_values(what, stream, given, now, SEAL)


def ask(
    world: World,
    what: str,
    remaining: Callable[[], float] = lambda: 100.0,
    stream: Stream = STREAM,
    /,
    **parameters: str,
) -> Listed:
    """A page of ``series``, of ``fields``, or of the values of a field."""
    now = max(world.time, START + timedelta(hours=1))
    return find_listing(parsed(what, parameters, now, stream), stream, world.reader, now, remaining)


def names_of(page: Listed) -> list[Any]:
    return [next(iter(row.values())) for row in page.rows]


def walked(world: World, what: str, **parameters: str) -> list[dict[str, Any]]:
    """The rows of all pages."""
    page = ask(world, what, **parameters)
    rows = list(page.rows)
    while page.next is not None:
        assert len(page.rows) == int(parameters["limit"])
        page = ask(world, what, cursor=page.next, limit=parameters["limit"])
        rows += page.rows
    return rows


def at(minutes: float) -> str:
    return to_text(START + timedelta(minutes=minutes))


def rolled(*events: Event, definitions: Iterable[Any] = (MINUTES, BY_HOUR), layout: Layout = PLAIN) -> World:
    """A world whose events are in sealed buckets, from 01:00 to 06:00."""
    world = World(tuple(definitions), layout)
    world.refresh()
    world.sleep(3_600)
    for event in events:
        world.write(event)
    world.sleep(5 * 3_600 + 300)
    world.refresh()
    assert not world.rollups.marks
    return world


EVENTS = (
    reading(65, 1, "a", kind="x"),
    Event("b", START + timedelta(minutes=70), "70", {"mag": "none", "kind": "y", "note": None}),
    reading(200, 1, "a", kind="x", tags=[]),
    reading(340, 2, "b/2", kind=True, place={"state": "CA"}),
)


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["items", "packs"])
def test_series_are_listed_with_the_buckets_in_which_they_were_seen(layout: Layout) -> None:
    world = rolled(*EVENTS, layout=layout)
    page = ask(world, "series", **{"from": at(60), "to": at(360)})
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
    world = rolled(*EVENTS)
    world.write(reading(364, 1, "young"), reading(364.5, 1, "a"))
    page = ask(world, "series", **{"from": at(64), "to": at(365)})
    assert page.rows == [
        {"series": "a", "first": at(65), "first_within": "0s", "last": at(364.5), "last_within": "0s"},
        {"series": "b", "first": at(70), "first_within": "10m", "last": at(80), "last_within": "10m"},
        {"series": "b/2", "first": at(300), "first_within": "1h", "last": at(360), "last_within": "1h"},
        {"series": "young", "first": at(364), "first_within": "0s", "last": at(364), "last_within": "0s"},
    ]
    assert {scan.entry.stream for scan in page.sources} == {"s", "s-m", "s-h"}


def test_fields_are_listed_with_the_types_that_they_had() -> None:
    world = rolled(*EVENTS)
    page = ask(world, "fields", **{"from": at(60), "to": at(360)})
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
    assert names_of(ask(world, "fields", prefix="n", **{"from": at(60), "to": at(360)})) == ["note"]


def test_cold_fields_are_not_listed() -> None:
    """Those that are kept apart are in no event that a rollup sees."""
    world = rolled(*EVENTS)
    cold = msgspec.structs.replace(STREAM, cold=("note",))
    for start in (at(60), at(61)):
        assert "note" not in names_of(ask(world, "fields", lambda: 100.0, cold, **{"from": start, "to": at(360)}))


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
    world = rolled(*(reading(65 + n, 1, kind=kind) for n, kind in enumerate(kinds)))
    long = sorted(["x" * 300 + "b", "x" * 300 + "a"])
    for start in (at(60), at(64)):
        rows = walked(world, "kind", limit="1", **{"from": start, "to": at(360)})
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
        assert names_of(ask(world, "kind", prefix="1", **{"from": start, "to": at(360)})) == ["10"]


def test_a_group_whose_events_are_gone_is_not_listed() -> None:
    """An event is overwritten, so that its kind and its field have no event any more."""
    world = rolled(reading(65, 1, "a", "i", kind="x", note=1), reading(66, 1, "a", kind="y"))
    world.sleep(1)
    world.write(reading(65, 1, "a", "i", kind="y"))
    for _ in range(2):
        assert names_of(ask(world, "kind", **{"from": at(60), "to": at(360)})) == ["y"]
        assert names_of(ask(world, "fields", **{"from": at(60), "to": at(360)})) == ["kind", "mag"]
        world.sleep(300)
        world.refresh()
    assert not world.rollups.marks


def test_cells_of_an_earlier_definition_are_not_read() -> None:
    """Its cells stay in the tables of a rebuilt range, and nobody changes them any more."""
    world = rolled(reading(65, 1, "a", "i", kind="x"), reading(66, 1, "a", kind="y"), definitions=[MINUTES])
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed]
    world.refresh()
    world.sleep(3_600)
    world.refresh()
    begin = START + timedelta(minutes=60)
    rebuild(changed, begin, begin + timedelta(hours=7), [changed], world.services(), "rebuild", LENGTH)
    world.write(reading(65, 1, "a", "i", kind="y"))
    world.sleep(300)
    world.refresh()
    assert not world.rollups.marks
    page = ask(world, "kind", **{"from": at(60), "to": at(120)})
    assert {scan.entry.stream for scan in page.sources} == {"s-m"}
    assert names_of(page) == ["y"]


def test_a_field_called_count_hides_no_series() -> None:
    """In its cell, `"count":0` is also the value that it is grouped by."""
    by_count = replace(HOURS, by=("series", "count"))
    world = rolled(reading(65, None, "a", count=0), reading(66, None, "b", count=1), definitions=[by_count])
    page = ask(world, "series", **{"from": at(60), "to": at(360)})
    assert names_of(page) == ["a", "b"]
    assert {scan.entry.stream for scan in page.sources} == {"s-h"}


def test_without_from_the_range_begins_with_the_first_bucket_that_is_kept() -> None:
    world = rolled(*EVENTS)
    world.forget("s", START)
    page = ask(world, "series", to=at(360))
    # The first edges are ten minutes ahead of the first run.
    assert page.about()["from"] == at(10)
    assert page.about()["to"] == at(360)
    assert names_of(page) == ["a", "b", "b/2"]
    assert list(page.gaps) == []


def test_before_anything_is_sealed_the_last_hour_is_listed() -> None:
    world = World((MINUTES,))
    world.sleep(7_200)
    world.write(reading(119, 1, "young"), reading(70, 1, "a"))
    assert world.rollups.marks
    page = ask(world, "series")
    assert page.about()["from"] == at(60)
    assert names_of(page) == ["a", "young"]


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
    page = ask(world, "series", **{"from": at(60), "to": at(180)})
    assert names_of(page) == ["a"]
    assert {scan.entry.stream for scan in page.sources} == {"s-n"}


def test_a_range_for_which_the_time_does_not_suffice_is_refused() -> None:
    world = rolled(*EVENTS)
    with pytest.raises(ProblemError) as refused:
        ask(world, "series", lambda: 1.0, **{"from": at(5), "to": at(360)})
    assert (refused.value.problem.status, refused.value.problem.code) == (422, "too_much")


def problem(world: World, what: str, stream: Stream = STREAM, /, **parameters: str) -> tuple[int, str, str]:
    with pytest.raises(ProblemError) as refused:
        ask(world, what, lambda: 100.0, stream, **parameters)
    found = refused.value.problem
    return found.status, found.code, found.detail


def test_a_stream_without_a_rollup_that_serves_it_is_told_which_to_add() -> None:
    world = rolled(definitions=[HOURS])
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
    assert names_of(ask(world, "kind", **{"from": at(60), "to": at(360)})) == []
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


PARAMETERS = [
    ({"limit": "10001"}, "bad_parameter", "limit must be a whole number from 1 to 10000"),
    ({"prefix": ""}, "bad_parameter", "prefix must have 1 to 480 bytes; leave it out to list everything"),
    (
        {"series": "a"},
        "unknown_parameter",
        "unknown parameter 'series'; known are consistent, cursor, escape, explain,",
    ),
    ({"from": at(60), "to": at(60)}, "bad_parameter", "from must lie before to: the range is [from, to)"),
]


@pytest.mark.parametrize(("parameters", "code", "detail"), PARAMETERS, ids=str)
def test_parameters_are_checked(parameters: dict[str, str], code: str, detail: str) -> None:
    status, found, text = problem(rolled(), "series", **parameters)
    assert (status, found) == (400, code)
    assert text.startswith(detail)


@pytest.mark.parametrize("path", ["series", "a..b", "data.kind"])
def test_a_path_of_no_field_is_refused(path: str) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_values(path, STREAM, {}, START, SEAL)
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "bad_parameter")


def test_a_cursor_is_of_one_listing_and_parameters_beside_it_may_repeat() -> None:
    world = rolled(*EVENTS)
    own = {"from": at(60), "to": at(360), "prefix": "b"}
    cursor = ask(world, "series", limit="1", **own).next
    assert cursor is not None
    assert names_of(ask(world, "series", cursor=cursor, **own)) == ["b/2"]
    # The rest of a walk reads what its first page read, also if time has passed.
    world.sleep(900)
    assert ask(world, "series", cursor=cursor, limit="3").about()["to"] == at(360)
    for changed in ({"prefix": "a"}, {"from": at(61)}, {"to": at(361)}, {"consistent": "true"}):
        status, code, detail = problem(world, "series", cursor=cursor, **changed)
        assert (status, code) == (400, "invalid_cursor")
        assert f"repeat its {next(iter(changed))}," in detail
    assert problem(world, "fields", cursor=cursor)[2] == "this cursor belongs to a listing of series: begin without it"
    assert problem(world, "kind", cursor=cursor)[:2] == (400, "invalid_cursor")


def test_a_plan_says_which_rollups_are_used() -> None:
    world = rolled(*EVENTS, definitions=[MINUTES, HOURS])

    class NoTables:
        def describe(self, table: str) -> None:
            """Nobody knows a table."""

    listing = parsed("series", {"from": at(60), "to": at(360)}, world.time)
    plan = explain_listing(listing, STREAM, world.reader, NoTables(), world.time)  # type: ignore[arg-type]
    assert plan["rollups"] == [
        {"rollup": "s-m", "used": True, "reason": None},
        {"rollup": "s-h", "used": False, "reason": "its by lacks series"},
    ]
    assert {stage["table"] for stage in plan["stages"]} == {"tidetable-t.s-m.2026-03-02"}


# Histories


@dataclass
class Sent:
    """What was stored: by series, time and id the data that was sent last."""

    events: dict[tuple[str, datetime, str], Mapping[str, Any]] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        self.events[event.series, event.time, event.id] = event.data

    def seen(self, what: str, start: datetime, end: datetime) -> dict[Any, list[tuple[datetime, Any]]]:
        """Of each name or value its times, each with the value of a field."""
        found: dict[Any, list[tuple[datetime, Any]]] = {}
        for (series, time, _), data in self.events.items():
            if start <= time < end:
                values = {"series": {series: None}, "fields": data}.get(what, {data.get(what): None})
                for name, value in values.items():
                    if name is not None:
                        found.setdefault(name, []).append((time, value))
        return found


AGES = st.sampled_from([0, 60, 121, 300, 1_800, 7_200])
DRAWN = st.tuples(
    AGES, st.sampled_from(["a", "b", "ba", "b#", "é"]), st.sampled_from([None, "x", "y"]), st.sampled_from([1, "n", None]),
    st.sampled_from("pq"),
)  # fmt: skip
ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.lists(DRAWN, min_size=1, max_size=4)),
    st.tuples(st.just("sleep"), st.sampled_from([30, 600, 3_600])),
    st.tuples(st.just("refresh"), st.none()),
    st.tuples(st.just("archive"), st.sampled_from(["s", "s-m"])),
    st.tuples(st.just("restore"), st.sampled_from(["s", "s-m"])),
    st.tuples(
        st.just("define"),
        st.sampled_from([MINUTES, replace(MINUTES, by=("kind",)), replace(MINUTES, every=timedelta(minutes=20))]),
    ),
    st.tuples(st.just("rebuild"), st.integers(0, 6)),
)
RANGES = st.tuples(st.integers(0, 30), st.integers(1, 30)).map(
    lambda drawn: (drawn[0] * 17, (drawn[0] + drawn[1]) * 17)
)
ASKED = st.tuples(
    st.sampled_from(["series", "fields", "kind"]), RANGES, st.sampled_from(["", "b", "m"]), st.integers(1, 4)
)
TYPES = {int: "number", str: "string", type(None): "null"}


def act(world: World, sent: Sent, action: tuple[Any, ...]) -> None:  # noqa: C901 - a table of actions
    kind, drawn = action
    match kind:
        case "write":
            for age, series, group, mag, id in drawn:
                world.sleep(1)
                minutes = max(int(((world.time - START).total_seconds() - age) / 60) // 5 * 5, 0)
                data = {"mag": mag} | ({} if group is None else {"kind": group})
                event = Event(series, START + timedelta(minutes=minutes), id, data)
                if world.entry("s", event.time).state is State.OPEN:
                    sent.note(event)
                world.write(event)
        case "sleep":
            world.sleep(drawn)
        case "refresh":
            world.refresh(owner=f"run {world.time}")
        case "archive":
            if world.entry(drawn, START).state is State.OPEN and world.time > START + timedelta(days=1):
                world.move_to_archive(drawn, START)
        case "restore":
            if world.entry(drawn, START).state is State.DELETED:
                world.restore(drawn, START)
        case "define":
            world.definitions["s"] = [drawn, BY_HOUR]
        case "rebuild":
            begin, definitions = START + timedelta(minutes=20 * drawn), world.definitions["s"]
            rebuild(definitions[0], begin, begin + timedelta(hours=2), definitions, world.services(), "rebuild", LENGTH)


def check(world: World, sent: Sent, drawn: tuple[str, tuple[int, int], str, int]) -> set[str]:
    """A listing is what was sent, page by page; returns the streams that were read."""
    what, (low, high), prefix, limit = drawn
    start, end = START + timedelta(minutes=low), START + timedelta(minutes=high)
    parameters = {"from": to_text(start), "to": to_text(end)} | ({"prefix": prefix} if prefix else {})
    rows = walked(world, what, limit=str(limit), **parameters)
    wanted = {name: times for name, times in sent.seen(what, start, end).items() if name.startswith(prefix)}
    assert [next(iter(row.values())) for row in rows] == sorted(wanted)
    for row, (_, seen) in zip(rows, sorted(wanted.items()), strict=True):
        times = [time for time, _ in seen]
        first, last = from_text(row["first"]), from_text(row["last"])
        assert first <= min(times) <= first + LENGTHS[row["first_within"]]
        assert last - LENGTHS[row["last_within"]] <= max(times) <= last
        if what == "fields":
            assert row["types"] == sorted({TYPES[type(value)] for _, value in seen})
    return {scan.entry.stream for scan in ask(world, what, **parameters).sources}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([PLAIN, PACKED]),
    st.lists(ACTIONS, min_size=4, max_size=20),
    st.lists(ASKED, min_size=1, max_size=4),
)
def test_a_listing_is_the_set_of_what_was_sent(layout: Any, actions: list[Any], asked: list[Any]) -> None:
    """Late, overwritten, archived, restored and rebuilt: at every moment, in pages of any length, with any prefix."""
    world, sent = World((MINUTES, BY_HOUR), layout), Sent()
    world.refresh()
    world.sleep(5_000)
    for action in actions:
        act(world, sent, action)
        if action[0] != "write":
            for one in asked:
                check(world, sent, one)
    world.sleep(90_000)
    world.refresh(owner="last")
    for what in ("series", "fields", "kind"):
        check(world, sent, (what, (10, 510), "", 2))


@pytest.mark.parametrize("step", [1, 7_919], ids=["in order", "in disorder"])
def test_many_names_are_held_no_longer_than_a_page_needs_them(step: int) -> None:
    """More series than are held at once, in pages: none is left out, and each has its first and last bucket."""
    names = [f"s{n * step % 20_011:05d}" for n in range(20_011)]
    after, found = None, []
    while True:
        held = Names(3_000, after)
        for time in ("1", "2"):
            for name in names:
                place = place_of(name)
                assert place is not None
                held.add(place, name, Seen(time, time, "1h"))
                assert len(held.sorted()) <= 8_001 if name == names[-1] else True
        page = held.sorted()
        found += [(one.value, one.first, one.last) for _, one in page[:3_000]]
        if len(page) <= 3_000:
            break
        after = page[2_999][0]
    assert found == [(f"s{n:05d}", "1", "2") for n in range(20_011)]
