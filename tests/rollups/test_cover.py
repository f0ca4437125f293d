"""Which parts of a range rollups answer."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import Edge, Mark, RollupState
from tidetable.rollup_model.cover import (
    Usable,
    cover_with_rollups,
    find_marked_buckets,
    find_readable_spans,
    find_usable_spans,
    intersect_spans,
    join_spans,
    list_versions,
    subtract_spans,
)
from tidetable.rollup_model.definition import Definition

DAY = replace(HOURS, name="d", every=timedelta(days=1), stream="s-d")


def at(text: str) -> datetime:
    """An instant of March: the day, the hour and the minute, such as 02T13:30."""
    return datetime.strptime(f"2026-03-{text}+0000", "%Y-%m-%dT%H:%M%z").astimezone(UTC)


def show(time: datetime) -> str:
    return f"{time:%dT%H:%M}"


def spans(text: str) -> list[tuple[datetime, datetime]]:
    """Spans such as 02T00:00-03T00:00 02T..."""
    return [(at(start), at(end)) for start, _, end in (span.partition("-") for span in text.split())]


CASES = [
    ("nothing is sealed", [], "02T00:00", "02T02:00", "02T00:00-02T02:00 raw"),
    ("whole buckets", [(HOURS, "02T00:00-02T05:00")], "02T01:00", "02T03:00", "02T01:00-02T03:00 h"),
    (
        "cut edges are read from the events",
        [(HOURS, "02T00:00-02T05:00")],
        "02T00:20",
        "02T03:40",
        "02T00:20-02T01:00 raw, 02T01:00-02T03:00 h, 02T03:00-02T03:40 raw",
    ),
    (
        "a finer rollup has the edges of a coarser one",
        [(MINUTES, "02T00:00-02T05:00"), (HOURS, "02T00:00-02T05:00")],
        "02T00:25",
        "02T02:10",
        "02T00:25-02T00:30 raw, 02T00:30-02T01:00 m, 02T01:00-02T02:00 h, 02T02:00-02T02:10 m",
    ),
    ("less than a bucket", [(HOURS, "02T00:00-02T05:00")], "02T01:10", "02T01:50", "02T01:10-02T01:50 raw"),
    (
        "a hole in a coarser rollup is filled by a finer one",
        [(HOURS, "02T00:00-02T01:00 02T02:00-02T03:00"), (MINUTES, "02T01:10-02T03:00")],
        "02T00:00",
        "02T03:00",
        "02T00:00-02T01:00 h, 02T01:00-02T01:10 raw, 02T01:10-02T02:00 m, 02T02:00-02T03:00 h",
    ),
    (
        "three rollups, beyond what is sealed",
        [(DAY, "01T00:00-03T00:00"), (HOURS, "01T00:00-03T02:00"), (MINUTES, "01T00:00-03T02:40")],
        "01T23:50",
        "03T03:00",
        "01T23:50-02T00:00 m, 02T00:00-03T00:00 d, 03T00:00-03T02:00 h, 03T02:00-03T02:40 m, 03T02:40-03T03:00 raw",
    ),
]


@pytest.mark.parametrize(("name", "usable", "start", "end", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_the_coarsest_rollup_answers_whole_buckets(
    name: str, usable: list[tuple[Definition, str]], start: str, end: str, wanted: str
) -> None:
    found = cover_with_rollups(at(start), at(end), [Usable(rollup, spans(text)) for rollup, text in usable])
    shown = [
        f"{show(segment.start)}-{show(segment.end)} {'raw' if segment.definition is None else segment.definition.name}"
        for segment in found
    ]
    assert ", ".join(shown) == wanted


def edge(definition: Definition, start: str, sealed: str) -> Edge:
    return Edge(definition.name, at(start), at(sealed), definition.text)


def test_marks_and_buckets_with_too_many_groups_are_read_from_the_events() -> None:
    state = RollupState(
        [edge(HOURS, "02T00:00", "02T06:00")],
        [Mark(at("02T01:20"), 5, timedelta(minutes=10))],
        [("h", at("02T04:00")), ("m", at("02T00:00"))],
    )
    (version,) = list_versions(HOURS, state)
    found = find_usable_spans(version, state, spans("01T00:00-03T00:00"))
    assert found == spans("02T00:00-02T01:00 02T02:00-02T04:00 02T05:00-02T06:00")


def test_a_rollup_whose_tables_are_gone_answers_nothing_of_them() -> None:
    state = RollupState([edge(HOURS, "02T00:00", "04T00:00")], [], [])
    (version,) = list_versions(HOURS, state)
    assert find_usable_spans(version, state, spans("01T00:00-02T00:00 03T00:00-04T00:00")) == spans("03T00:00-04T00:00")


def test_a_newer_definition_counts_where_it_is_sealed_or_will_be() -> None:
    """The newer one was rebuilt to before the older one's end."""
    newer = replace(HOURS, by=())
    state = RollupState([edge(HOURS, "02T00:00", "02T06:00"), edge(newer, "02T04:00", "02T09:00")], [], [])
    first, second = list_versions(newer, state)
    assert (first.definition.by, show(first.start), show(first.end), first.limit) == ((), "02T04:00", "02T09:00", None)
    assert (second.definition.by, show(second.start), show(second.end)) == (("kind",), "02T00:00", "02T04:00")


def test_a_newer_definition_that_was_rebuilt_to_the_beginning_hides_the_older_one() -> None:
    newer = replace(HOURS, by=())
    state = RollupState([edge(HOURS, "02T02:00", "02T06:00"), edge(newer, "02T00:00", "02T09:00")], [], [])
    first, second = list_versions(newer, state)
    assert first.definition.by == ()
    assert second.start == second.end


def test_of_three_definitions_the_newest_counts_wherever_it_is_sealed() -> None:
    """The newest was rebuilt to before the first, and the one between them was not."""
    between, newest = replace(HOURS, by=()), replace(HOURS, by=("kind", "series"))
    edges = [
        edge(HOURS, "02T01:00", "02T04:00"),
        edge(between, "02T02:00", "02T06:00"),
        edge(newest, "02T00:00", "02T09:00"),
    ]
    found = list_versions(newest, RollupState(edges, [], []))
    assert [version.definition.by for version in found] == [("kind", "series"), (), ("kind",)]
    assert [(show(version.start), show(version.end)) for version in found] == [
        ("02T00:00", "02T09:00"),
        ("02T02:00", "02T02:00"),
        ("02T01:00", "02T01:00"),
    ]


def test_the_edges_of_other_rollups_of_a_stream_are_not_versions_of_one() -> None:
    state = RollupState([edge(HOURS, "02T00:00", "02T06:00"), edge(MINUTES, "02T00:00", "02T09:00")], [], [])
    assert [version.edge.rollup for version in list_versions(HOURS, state)] == ["h"]


@pytest.mark.parametrize(
    ("state", "archived", "readable"),
    [
        (State.OPEN, False, True),
        (State.CLOSED, False, True),
        (State.ARCHIVED, True, True),
        (State.DELETED, True, True),
        (State.DELETED, False, False),
    ],
)
def test_a_period_with_a_table_or_an_archive_can_be_read(state: State, archived: bool, readable: bool) -> None:
    day = find_containing(at("02T00:00"), Kind.DAY)
    facts = ArchiveFacts("m", 1, 1, at("05T00:00")) if archived else None
    entry = Entry("s-h", day, "t", Layout("time", 1, "id", 86_400), state, at("01T00:00"), archive=facts)
    assert find_readable_spans([entry]) == (spans("02T00:00-03T00:00") if readable else [])


def test_a_definition_that_has_sealed_nothing_is_newer_than_the_one_that_reaches_it() -> None:
    newer = replace(HOURS, by=())
    state = RollupState([edge(HOURS, "02T00:00", "02T06:00"), edge(newer, "02T06:00", "02T06:00")], [], [])
    assert [version.definition.by for version in list_versions(newer, state)] == [(), ("kind",)]


MARKS = [
    ("a mark of a finer rollup is of the bucket that holds it", HOURS, "02T03:20", 10, ["03:00"]),
    ("a mark of its own rollup is of its own bucket", MINUTES, "02T03:20", 10, ["03:20"]),
    ("a mark may be of a coarser bucket than any that is sealed", MINUTES, "02T03:00", 30, ["03:00", "03:10", "03:20"]),
    ("a mark of a point is of the bucket that holds it", MINUTES, "02T03:10", 0.1, ["03:10"]),
]


@pytest.mark.parametrize(("name", "definition", "mark", "minutes", "expected"), MARKS, ids=[case[0] for case in MARKS])
def test_a_mark_covers_every_bucket_that_its_writer_may_mean(
    name: str, definition: Definition, mark: str, minutes: float, expected: list[str]
) -> None:
    (version,) = list_versions(definition, RollupState([edge(definition, "02T00:00", "02T06:00")], [], []))
    buckets = find_marked_buckets(version, [Mark(at(mark), 1, timedelta(minutes=minutes))])
    assert [f"{bucket:%H:%M}" for bucket in sorted(buckets)] == expected


SETS = [
    (join_spans, "02T00:00-02T01:00 02T01:00-02T02:00 02T03:00-02T04:00", "", "02T00:00-02T02:00 02T03:00-02T04:00"),
    (join_spans, "02T02:00-02T03:00 02T00:00-02T05:00 02T04:00-02T06:00", "", "02T00:00-02T06:00"),
    (
        intersect_spans,
        "02T00:00-02T03:00",
        "01T00:00-02T00:00 02T01:00-02T02:00 02T03:00-02T04:00",
        "02T01:00-02T02:00",
    ),
    (subtract_spans, "02T00:00-02T04:00", "02T01:00-02T02:00 02T04:00-02T05:00", "02T00:00-02T01:00 02T02:00-02T04:00"),
    (subtract_spans, "02T00:00-02T04:00", "01T00:00-02T00:00 02T00:00-02T01:00 02T03:00-02T06:00", "02T01:00-02T03:00"),
    (subtract_spans, "02T01:00-02T02:00", "02T00:00-02T03:00", ""),
]


@pytest.mark.parametrize(("operate", "left", "right", "wanted"), SETS)
def test_spans_are_sets_of_instants(operate: Callable[..., Any], left: str, right: str, wanted: str) -> None:
    """Spans that touch become one span: a period's end cuts nothing."""
    given = (spans(left),) if operate is join_spans else (spans(left), spans(right))
    assert operate(*given) == spans(wanted)


def test_touching_periods_are_read_as_one() -> None:
    state = RollupState([edge(HOURS, "02T00:00", "04T00:00")], [], [])
    (version,) = list_versions(HOURS, state)
    assert find_usable_spans(version, state, spans("02T00:00-03T00:00 03T00:00-04T00:00")) == spans("02T00:00-04T00:00")
