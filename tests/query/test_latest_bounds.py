"""How far a search for the latest events goes in one request, and how the next request continues it."""

from datetime import timedelta
from typing import Any

import pytest

from tests.worlds.latest_hours import PLAIN, START, ask, list_stopped, make_reader
from tidetable.events import Event
from tidetable.layout import Layout, Packing
from tidetable.problems import ProblemError
from tidetable.query import latest, lookups

SHARDED = Layout("series", 4, "id")
PACKED = Layout("series", 1, "id", pack=Packing(60, 65_536))
BY_SUFFIX = Layout("time", 4, "series", 3_600, pack=Packing(60, 65_536))


def test_a_hundred_silent_series_are_searched_in_twenty_tables_and_the_answer_says_so() -> None:
    """Ninety days of hours: 216,000 requests without a bound."""
    hours = 24 * 90
    found = ask(make_reader(hours), hours, *(f"s{n}" for n in range(100)))
    assert found.cost.requests == 2_000
    document = found.document()
    assert document["searched_back_to"] == "2026-05-29T04:00:00.000000Z"
    assert len(list_stopped(document)) == 100


def test_one_silent_series_is_searched_in_two_thousand_tables() -> None:
    hours = 2_100
    found = ask(make_reader(hours), hours, "a")
    assert (found.cost.requests, list_stopped(found.document())) == (2_000, ["a"])
    assert found.searched == START + timedelta(hours=100)


def test_a_search_that_ends_at_the_oldest_table_was_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "MAX_REQUESTS", 10)
    found = ask(make_reader(10), 10, "a").document()
    assert found == {"latest": [{"series": "a", "event": None}], "searched_back_to": "2026-03-01T00:00:00.000000Z"}
    assert list_stopped(ask(make_reader(11), 11, "a").document()) == ["a"]


@pytest.mark.parametrize("layout", [PLAIN, SHARDED, PACKED, BY_SUFFIX])
def test_requests_that_continue_find_every_event_that_one_search_finds(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    monkeypatch.setattr(latest, "MAX_REQUESTS", 13)
    events = [Event(f"s{n}", START + timedelta(hours=3 * n, minutes=n), f"e{n}", {"n": n}) for n in range(8)]
    reader, names = make_reader(30, *events, layout=layout), [*(f"s{n}" for n in range(8)), "silent"]
    rows: dict[str, Any] = {}
    waiting, rounds = names, 0
    options: Any = {}
    while waiting:
        found = ask(reader, 30, *waiting, **options)
        document = found.document()
        rounds += 1
        rows |= {row["series"]: row["event"] for row in document["latest"]}
        waiting = list_stopped(document)
        assert rounds < 40
        options = {"before": str(document["searched_back_to"])}
    assert rounds > 3
    assert {name: row and row["id"] for name, row in rows.items()} == {f"s{n}": f"e{n}" for n in range(8)} | {
        "silent": None
    }


def test_the_newest_table_is_searched_for_all_series_whatever_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an answer could have nothing, and the next request could not continue."""
    monkeypatch.setattr(latest, "MAX_REQUESTS", 5)
    events = [Event(f"s{n}", START + timedelta(hours=1), "e", {}) for n in range(10)]
    found = ask(make_reader(2, *events), 2, *(f"s{n}" for n in range(10)))
    assert len(found.events) == 10
    assert list_stopped(found.document()) == []


@pytest.mark.parametrize("layout", [PLAIN, PACKED, BY_SUFFIX])
@pytest.mark.parametrize(
    ("before", "id"),
    [
        ("2026-03-01T05:00:00Z", "late"),
        ("2026-03-01T04:30:00.000001Z", "late"),
        ("2026-03-01T04:30:00Z", "early"),
        ("2026-03-01T04:00:00Z", "old"),
        ("2026-03-01T01:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("2027-01-01T00:00:00Z", "late"),
    ],
)
def test_before_is_an_instant_that_the_event_is_earlier_than(before: str, id: str | None, layout: Layout) -> None:
    events = [
        Event("a", START + timedelta(hours=1), "old", {}),
        Event("a", START + timedelta(hours=4, minutes=10), "early", {}),
        Event("a", START + timedelta(hours=4, minutes=30), "late", {}),
    ]
    (row,) = ask(make_reader(6, *events, layout=layout), 6, "a", before=before).document()["latest"]
    assert (row["event"] and row["event"]["id"]) == id


def test_an_instant_that_is_none_is_refused() -> None:
    with pytest.raises(ProblemError, match="400 bad_parameter: before: "):
        ask(make_reader(1), 1, "a", before="soon")


def test_a_request_whose_time_is_up_before_the_newest_table_is_an_error_that_may_be_repeated() -> None:
    """Nothing was searched: an answer of nulls would be wrong."""
    events = [Event("a", START, "e", {})]
    with pytest.raises(ProblemError) as refused:
        ask(make_reader(1, *events), 1, "a", remaining=lambda: 2.9)
    problem = refused.value.problem
    assert (problem.status, problem.code, problem.headers) == (503, "unavailable", {"Retry-After": "2"})
    assert "ask again" in problem.detail
    assert ask(make_reader(1, *events), 1, "a", remaining=lambda: 3.0).events["a"]["id"] == "e"


def test_without_any_table_nothing_can_be_searched_and_that_is_no_error() -> None:
    found = ask(make_reader(0), 1, "a", remaining=lambda: 0.0).document()
    assert found == {"latest": [{"series": "a", "event": None}], "searched_back_to": None}


def test_a_newest_table_that_takes_all_the_time_needs_fewer_series(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is looked at between the series of a table, too: 100 series of 256 shards are 25,600 requests."""
    monkeypatch.setattr(lookups, "_RANGES", 8)
    time = iter([100.0, 100.0, 2.9])
    with pytest.raises(ProblemError, match=r"422 too_much: .*ask for fewer series"):
        ask(make_reader(2, layout=SHARDED), 2, *(f"s{n}" for n in range(6)), remaining=lambda: next(time))


def test_an_older_table_that_takes_all_the_time_is_not_counted_as_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series that were found in its first part are answered. The others stopped at the table before."""
    monkeypatch.setattr(lookups, "_RANGES", 2)
    events = [Event(f"s{n}", START + timedelta(minutes=n), "e", {}) for n in range(6)]
    time = iter([100.0] * 4 + [2.9])
    found = ask(make_reader(2, *events), 2, *(f"s{n}" for n in range(6)), remaining=lambda: next(time))
    document = found.document()
    assert document["searched_back_to"] == "2026-03-01T01:00:00.000000Z"
    assert sorted(found.events) == ["s0", "s1"]
    assert list_stopped(document) == ["s2", "s3", "s4", "s5"]


@pytest.mark.parametrize("layout", [PLAIN, SHARDED, Layout("series", 256, "id")], ids=["1", "4", "256"])
def test_at_most_48_items_of_400_kb_are_in_memory_before_they_are_counted(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """A hundred series may have a hundred large events, and 25,600 items that are compared."""
    names = [f"s{n:02}" for n in range(100)]
    events = [Event(name, START, f"e{n}", {"text": "x" * 200_000}) for name in names for n in range(2)]
    reader, counts = make_reader(1, *events, layout=layout), list[int]()
    read = reader.store.query_many

    def count_reads(reads: Any, **options: Any) -> Any:
        counts.append(len(reads))
        return read(reads, **options)

    monkeypatch.setattr(reader.store, "query_many", count_reads)
    with pytest.raises(ProblemError, match="422 too_much: these events are larger than an answer may be"):
        ask(reader, 1, *names)
    # 25 events of 200 KB are more than an answer has: no further group is read.
    assert max(counts) <= 48
    assert sum(counts) <= 48 * layout.shards
    shown = ask(reader, 1, *names, fields="other")
    assert [shown.events[name]["id"] for name in names] == ["e1"] * 100
