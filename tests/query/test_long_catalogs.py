"""What a stream of ten years of hours costs the catalog: no answer reads more of it than it needs."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from aws.sketches import DDSketches
from cli.choose import NoChoice, find_entries
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.serial import Serial
from tests.worlds.long_catalogs import END, START, LongCatalog, make_entry
from tidetable.catalog import State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Key, Layout
from tidetable.periods import parse_label
from tidetable.problems import ProblemError
from tidetable.query import (
    Reader,
    describe_periods,
    explain_query,
    find_latest,
    parse_periods,
    parse_query,
    plan,
    run_query,
)
from tidetable.query.rankings import explain_top, find_top, parse_ranking, ranking_reads
from tidetable.times import to_text

LAYOUT = Layout("series", 1, "id")
STREAM: Stream = parse(
    """
    [streams.s]
    period = "hour"
    late = "1h"
    retention = 2200
    key = { partition_by = "series" }
    """
).streams["s"]
NOW = END - timedelta(minutes=30)
HOUR = timedelta(hours=1)


class Hourly(dict[str, Any]):
    """Tables that each have one event, at the beginning of their hour."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        start = parse_label(name.rpartition(".")[2]).start
        item = LAYOUT.make_item(Event("a", start, "e", {}), at=1)
        return {Key(item["pk"], item["sk"]): item}


@pytest.fixture(scope="module")
def ten_years() -> LongCatalog:
    return LongCatalog("s", lambda _: State.CLOSED, LAYOUT)


def make_reader(hours: LongCatalog) -> Reader:
    store = FakeStore(FakeCatalog())
    store.tables = Hourly()
    hours.units = 0.0
    return Reader(hours.catalog, store, FakeArchive(), unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)


def read_pages(reader: Reader, **given: str) -> Iterator[Any]:
    """Read the pages of a query, each with its events, its gaps and the instant at which it ended."""
    parameters = {name: [text] for name, text in given.items()}
    while True:
        query = parse_query(STREAM, parameters, NOW, SEAL)
        page = run_query(query, STREAM, reader, NOW, lambda: 100.0)
        yield page
        if page.next is None:
            return
        parameters = {"cursor": [page.next], "limit": [given["limit"]]}


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_the_first_and_the_hundredth_page_read_a_few_entries(ten_years: LongCatalog, order: str) -> None:
    reader, shown = make_reader(ten_years), list[str]()
    pages = read_pages(reader, **{"from": "2016-01-01T00:00:00Z", "series": "a", "order": order, "limit": "10"})
    for number in range(1, 101):
        ten_years.units = 0.0
        page = next(pages)
        shown += [json.loads(text)["time"] for text in page.list_texts()]
        # An entry has 0.4 KB. A page reads 16 entries and then 32.
        assert ten_years.units <= 4.0, number
    assert len(set(shown)) == 1_000
    first = START if order == "asc" else END - HOUR
    step = HOUR if order == "asc" else -HOUR
    assert [datetime.fromisoformat(time) for time in shown] == [first + step * number for number in range(1_000)]


def list_gaps(page: Any) -> list[tuple[str, str, str]]:
    """List the gaps of a page, in hours of March 2026."""
    return [(f"{gap.start:%dT%H}", f"{gap.end:%dT%H}", gap.reason) for gap in page.gaps]


def read_all_gaps(states: str, order: str, limit: int) -> list[tuple[list[int], list[tuple[str, str, str]]]]:
    """Read all pages of hours with these states: an event's table, a deleted one, or none at all."""
    layout = LAYOUT
    catalog = FakeCatalog()
    store = FakeStore(catalog)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for number, state in enumerate(states):
        entry = make_entry("s", start + number * HOUR, State.DELETED if state == "d" else State.CLOSED, layout)
        if state != ".":
            catalog.add(entry)
        if state == "t":
            item = layout.make_item(Event("a", entry.period.start, str(number), {}), at=1)
            store.tables[entry.table] = {Key(item["pk"], item["sk"]): item}
    reader = Reader(catalog, store, FakeArchive(), unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)
    given = {"from": "2026-03-01T00:00:00Z", "to": f"2026-03-01T{len(states):02}:00:00Z", "order": order}
    given["series"] = "a"
    pages = []
    parameters = {name: [text] for name, text in given.items()}
    now = start + timedelta(days=1)
    while True:
        page = run_query(
            parse_query(STREAM, parameters | {"limit": [str(limit)]}, now, SEAL), STREAM, reader, now, lambda: 100.0
        )
        pages.append(([int(json.loads(text)["id"]) for text in page.list_texts()], list_gaps(page)))
        if page.next is None:
            return pages
        parameters = {"cursor": [page.next]}


def test_a_page_has_the_gaps_of_its_own_part_of_the_range() -> None:
    assert read_all_gaps("t.tdt.td", "asc", 2) == [
        ([0, 2], [("01T01", "01T02", "no table")]),
        ([4, 6], [("01T03", "01T04", "deleted"), ("01T05", "01T06", "no table"), ("01T07", "01T08", "deleted")]),
    ]
    assert read_all_gaps("t.tdt.td", "desc", 2) == [
        ([6, 4], [("01T05", "01T06", "no table"), ("01T07", "01T08", "deleted")]),
        ([2, 0], [("01T01", "01T02", "no table"), ("01T03", "01T04", "deleted")]),
    ]
    every = [(f"01T{at:02}", f"01T{at + 1:02}", "no table" if at % 2 else "deleted") for at in range(6)]
    for order in ("asc", "desc"):
        assert read_all_gaps("d.d.d.", order, 2) == [([], every)]


# A descending walk also yields the period that begins where the page before it ended.
@pytest.mark.parametrize(("order", "count"), [("asc", 3), ("desc", 4)])
def test_a_page_ends_after_so_many_entries_and_the_next_page_goes_on(
    monkeypatch: pytest.MonkeyPatch, order: str, count: int
) -> None:
    """Otherwise a page could read ten years of deleted periods before its first event."""
    monkeypatch.setattr(plan, "MAX_LOOKED", 2)
    pages = read_all_gaps("td.ddtd", order, 5)
    assert [number for numbers, _ in pages for number in numbers] == ([0, 5] if order == "asc" else [5, 0])
    gaps = {gap for _, some in pages for gap in some}
    assert len(pages) == count
    assert gaps == {
        ("01T01", "01T02", "deleted"),
        ("01T02", "01T03", "no table"),
        ("01T03", "01T04", "deleted"),
        ("01T04", "01T05", "deleted"),
        ("01T06", "01T07", "deleted"),
    }
    assert all(len(some) <= 3 for _, some in pages)


def test_a_search_for_latest_events_reads_the_entries_of_the_tables_that_it_searches(ten_years: LongCatalog) -> None:
    reader = make_reader(ten_years)
    assert find_latest(STREAM, {"series": ["a"]}, reader, NOW, lambda: 100.0).cost.requests == 1
    assert ten_years.units == 1.0


def test_a_page_of_periods_and_the_choice_of_a_period_read_a_few_entries(ten_years: LongCatalog) -> None:
    reader = make_reader(ten_years)
    tables: Any = SimpleNamespace(describe=lambda _: None)
    options: Any = {"catalog": reader.catalog, "tables": tables, "now": NOW, "seal": SEAL, "pools": Serial}
    given: dict[str, list[str]] = {"limit": ["100"]}
    for _ in range(3):
        ten_years.units = 0.0
        page = describe_periods(parse_periods(STREAM, given, NOW, SEAL), STREAM, **options)
        assert len(page["periods"]) == 100
        # The entries are read eventually consistent; the backfills, of which there are none, are not.
        assert ten_years.units <= 7.0
        given = {"limit": ["100"], "cursor": [page["next"]]}
    ten_years.units = 0.0
    catalog: Any = reader.catalog
    (chosen,) = find_entries(catalog, "s", "2020-02-03T04", None)
    assert chosen.period.start == datetime(2020, 2, 3, 4, tzinfo=UTC)
    assert ten_years.units <= 4.0
    with pytest.raises(NoChoice, match="it has 2016-03-03T00 to 2026-02-28T23"):
        find_entries(catalog, "s", "2012-02-03T04", None)


def test_an_explanation_looks_at_two_thousand_periods_and_says_so(ten_years: LongCatalog) -> None:
    reader = make_reader(ten_years)
    tables: Any = SimpleNamespace(describe=lambda _: None)
    query = parse_query(STREAM, {"from": ["2016-01-01"], "series": ["a"]}, NOW, SEAL)
    explained = explain_query(query, STREAM, reader, tables, NOW)
    assert explained["explained_to"] == to_text(END - 2_000 * HOUR)
    assert explained["stages_left_out"] == 1_500
    assert ten_years.units <= 130


def test_a_ranking_of_too_many_periods_is_refused(ten_years: LongCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_reads, "MAX_PERIODS", 1_000)
    ranked = parse(
        """
        [streams.s]
        period = "hour"
        late = "1h"
        retention = 2200
        key = { partition_by = "series" }
        [[streams.s.index]]
        name = "score"
        partition_by = "kind"
        sort_by = "score"
        """
    ).streams["s"]
    reader, most = make_reader(ten_years), END - 1_000 * HOUR
    tables: Any = SimpleNamespace(describe=lambda _: None)
    for start, refused in ((START, True), (most - HOUR, True), (most, False)):
        given = {"from": [to_text(start)], "to": [to_text(END)], "value": ["x"]}
        ranking = parse_ranking(ranked, given, END, SEAL)
        ten_years.units = 0.0
        if refused:
            with pytest.raises(ProblemError, match="422 too_much: the range has more than 1,000 periods"):
                explain_top(ranking, ranked, reader, tables, END)
            with pytest.raises(ProblemError, match="422 too_much: the range has more than 1,000 periods"):
                find_top(ranking, ranked, reader, END, lambda: 100.0)
            assert ten_years.units < 150
        else:
            reasons = {found["reason"] for found in explain_top(ranking, ranked, reader, tables, END)["gaps"]}
            assert reasons == {"no index"}
