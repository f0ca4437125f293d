"""The sections of a range are made some at a time, and the answer is the same, however few are made at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.worlds.rolled import HOURS, MINUTES, QUERIES, SERIES, START, World, begin_rollups, reading, show_edges
from tidetable.catalog import GapReason
from tidetable.exact_json import encode_json
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind
from tidetable.ports import Noting
from tidetable.problems import ProblemError
from tidetable.query import rollup_sources, sections
from tidetable.query.aggregates import aggregate_run, explain_aggregate, parse_aggregation
from tidetable.query.sections import CatalogWalk, EventSections
from tidetable.times import to_text

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LIMITS = (
    {"_WINDOW": 1, "_MOST_ENTRIES": 1, "_AT_ONCE": 1, "_MADE_AHEAD": 1, "_FAR": timedelta(0)},
    {"_WINDOW": 2, "_MOST_ENTRIES": 2, "_AT_ONCE": 3, "_MADE_AHEAD": 3, "_FAR": DAY},
)


def limit(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Set the most entries that are looked at together."""
    for name, value in values.items():
        monkeypatch.setattr(rollup_sources if name == "_WINDOW" else sections, name, value)


@pytest.fixture(scope="module")
def world() -> World:
    """Three of four days have events, late ones also. The first is archived, the second's minutes are deleted."""
    world = begin_rollups()
    for day in range(3):
        for hour in range(0, 24, 5):
            minutes = max((day * 24 + hour) * 60, 62)
            world.write(reading(minutes, day + hour, kind="xy"[hour % 2]), reading(minutes + 7, hour / 7, "b"))
        world.sleep(86_400 - (4_800 if day == 0 else 0))
        world.refresh()
        world.refresh()
    for minutes in (300, 1_500, 2_400, 2_995):
        world.write(reading(minutes, 5, kind="x"))
    assert show_edges(world, "h") == ["01:00-23:00"]
    world.move_to_archive("s", START)
    world.forget("s-m", START + DAY)
    return world


def read_pages(world: World, **asked: str) -> Iterator[Any]:
    page = world.ask(**asked)
    yield page
    while page.next is not None:
        page = world.ask(cursor=page.next, limit=asked["limit"])
        yield page


def answer(world: World, **asked: str) -> tuple[bytes, set[Any], list[int]]:
    """The rows of all pages, their gaps, and the number of rows of each page."""
    pages = list(read_pages(world, **asked))
    rows = [row for page in pages for row in page.rows]
    gaps = {(gap.start, gap.end, gap.reason) for page in pages for gap in page.gaps}
    assert sum(len(page.gaps) for page in pages) == len(gaps), "each gap is on one page"
    return encode_json(rows), gaps, [page.count for page in pages]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "&".join(map("=".join, query.items())))
def test_an_answer_is_the_same_however_few_entries_are_looked_at_together(
    world: World, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"from": to_text(START - DAY), "to": to_text(START + 4 * DAY), "limit": "100"} | query
    expected = answer(world, **asked)
    assert ("from" in query) is (GapReason.NO_TABLE not in {reason for *_, reason in expected[1]})
    for values in LIMITS:
        limit(monkeypatch, **values)
        assert answer(world, **asked) == expected


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "&".join(map("=".join, query.items())))
def test_a_page_that_looked_at_enough_entries_ends_with_a_step(
    world: World, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"from": to_text(START - DAY), "to": to_text(START + 4 * DAY), "limit": "100"} | query
    rows, gaps, counts = answer(world, **asked)
    limit(monkeypatch, **LIMITS[0])
    monkeypatch.setattr(aggregate_run, "MAX_LOOKED", 1)
    # Groups of the whole range, and a single step, are on one page.
    parted = "step" in query and "top" not in query
    found = answer(world, **asked)
    assert found[:2] == (rows, gaps)
    assert (len(found[2]) > len(counts)) is parted
    monkeypatch.setattr(aggregate_run, "MAX_LOOKED", 1_000)
    assert answer(world, **asked) == (rows, gaps, counts)


def test_a_page_has_the_gaps_of_its_own_part_of_the_range(world: World) -> None:
    asked = {"from": to_text(START - 40 * DAY), "to": to_text(START + 50 * DAY), "step": "1d", "limit": "1"}
    gaps = [[(gap.start, gap.end) for gap in page.gaps] for page in read_pages(world, **asked)]
    assert gaps[0] == [(START - 40 * DAY, START)]
    assert gaps[1:-1] == [[]] * (len(gaps) - 2)
    assert len(gaps) == 3
    bare = World()
    bare.forget("s", START + DAY)
    bare.sleep(4 * 86_400)
    filled = {"from": to_text(START), "to": to_text(START + 3 * DAY), "step": "1d", "limit": "1", "fill": "zero"}
    gaps = [[(gap.start, gap.end) for gap in page.gaps] for page in read_pages(bare, **filled)]
    assert gaps == [[], [(START + DAY, START + 2 * DAY)], []]


def list_looks(world: World, monkeypatch: pytest.MonkeyPatch, **asked: str) -> list[str]:
    """Ask, and list the streams of whose entries a walk was begun."""
    looked, walk = list[str](), world.catalog.walk

    def note(stream: str, *span: Any, **how: Any) -> Any:
        looked.append(stream)
        return walk(stream, *span, **how)

    monkeypatch.setattr(world.catalog, "walk", note)
    world.ask(**asked)
    return looked


def test_the_entries_of_the_events_are_not_read_where_rollups_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = {"from": to_text(START + 6 * HOUR), "to": to_text(START + 20 * HOUR), "step": "1h", "by": "kind"}
    assert list_looks(world, monkeypatch, **sealed) == ["s-m", "s-h"]
    # The late events of the second day, at 1:00 and 16:00, are in one walk over the entries of the events.
    marked = sealed | {"from": to_text(START + DAY), "to": to_text(START + 2 * DAY)}
    assert list_looks(world, monkeypatch, **marked) == ["s-m", "s-h", "s"]
    assert list_looks(world, monkeypatch, **sealed, rollups="false") == ["s"]


def test_the_entries_between_two_distant_sections_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Periods of days, from March 2nd to 5th; the second section begins a month later."""
    world, looked = World(), list[tuple[Any, ...]]()
    walk = world.catalog.walk
    monkeypatch.setattr(world.catalog, "walk", lambda *given, **how: looked.append(given[1:]) or walk(*given, **how))  # type: ignore[func-returns-value]
    asked = {"from": [to_text(START)], "to": [to_text(START + 60 * DAY)]}
    query = parse_aggregation(world.stream, asked, START + 60 * DAY, SEAL).query
    events = EventSections(query, CatalogWalk(world.catalog, consistent=True), lambda: None)
    spans = [(START, START + HOUR), (START + 2 * HOUR, START + 25 * HOUR), (START + 40 * DAY, START + 41 * DAY)]
    made = [[(section.start, section.query.end) for section in events.make(*span)] for span in spans]
    assert made == [[span] for span in spans]
    assert looked == [(START, query.end), (START + 40 * DAY, query.end)]


def test_a_section_that_cannot_be_read_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archived day needs no noted series; the days after it do."""
    world = begin_rollups((MINUTES,), SERIES)
    world.rollups.noting["s"] = Noting(START, START)
    world.write(reading(62, 1))
    world.move_to_archive("s", START)
    limit(monkeypatch, _MOST_ENTRIES=1)
    asked = {"from": to_text(START), "to": to_text(START + 4 * DAY), "step": "1h"}
    assert world.ask(**asked).count == 1
    world.rollups.noting["s"] = Noting(START + 5 * DAY, START + 5 * DAY)
    read: list[Any] = []
    monkeypatch.setattr(sections.SectionReader, "read", lambda *given, **_: read.append(given) or iter(()))  # type: ignore[func-returns-value]
    with pytest.raises(ProblemError, match="400 needs_series"):
        world.ask(**asked)
    assert read == []


def test_an_explanation_ends_after_so_many_entries_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, **LIMITS[0])
    asked = {"from": [to_text(START)], "to": [to_text(START + 4 * DAY)], "step": ["1h"]}
    aggregation = parse_aggregation(world.stream, asked, world.time, SEAL)
    tables: Any = SimpleNamespace(describe=lambda _: None)
    whole = explain_aggregate(aggregation, world.stream, world.reader, tables, world.time)
    assert ("explained_to" in whole, len(whole["stages"])) == (False, 21)
    monkeypatch.setattr(sections, "MAX_LOOKED", 4)
    begun = explain_aggregate(aggregation, world.stream, world.reader, tables, world.time)
    assert begun["explained_to"] == whole["stages"][len(begun["stages"])]["from"]
    assert begun["stages"] == whole["stages"][: len(begun["stages"])]
    assert 0 < len(begun["stages"]) < 21


def test_a_long_bucket_is_not_cut_where_the_periods_of_another_rollup_end(monkeypatch: pytest.MonkeyPatch) -> None:
    days = replace(HOURS, name="d", every=DAY, stream="s-d")
    world = World((MINUTES, days))
    for key in [key for key in world.catalog.items if key[0] == "s-m"]:
        del world.catalog.items[key]
    layout = Layout("time", 1, "id", 3_600, pack=Packing(600, 65_536))
    for hour in range(72):
        world.add_period("s-m", Kind.HOUR, START + hour * HOUR, layout)
    world.add_period("s-d", Kind.MONTH, START, layout)
    world.refresh()
    world.write(*(reading(60 * hour, hour, kind="x") for hour in range(48)))
    world.sleep(2 * 86_400 + 4_800)
    world.refresh()
    asked = {"from": to_text(START), "to": to_text(START + 2 * DAY), "step": "1d", "by": "kind"}
    limit(monkeypatch, _WINDOW=29)
    page = world.ask(**asked)
    assert [row["count"] for row in page.rows] == [24, 24]
    # The first buckets of rollups that begin now are read from the events.
    assert {scan.entry.stream for scan in page.sources if scan.start >= START + DAY} == {"s-d"}
