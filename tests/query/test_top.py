"""Rankings: refusals, the number of items read, ties, and indexes that lag behind their tables."""

import random
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.stored_events import ARCHIVED, DAYS, NOW, SERIAL, START, TIMELY, StoredEvents
from tidetable.config import parse
from tidetable.events import Event
from tidetable.layout import Index, Layout
from tidetable.problems import ProblemError
from tidetable.query import AnswerForm, render_answer
from tidetable.query.rankings import Top, find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
LIVE = [day for day in range(DAYS) if day not in ARCHIVED]


def scored(day: int, number: int, mag: Any, **data: Any) -> Event:
    return Event(f"p{number % 7}", START + timedelta(days=day, seconds=number), f"{day}-{number}", {"mag": mag, **data})


def ask(base: StoredEvents, **parameters: str) -> Top:
    query_string = {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()}
    query_string |= {name: [value] for name, value in parameters.items()}
    ranking = parse_ranking(base.policy, query_string, NOW, SEAL)
    return find_top(ranking, base.policy, base.reader, NOW, lambda: 100.0)


REFUSED = [
    ("no index among several", {}, "bad_parameter", "best, best_of_all"),
    ("an index that there is not", {"index": "worst"}, "bad_parameter", "there are: best"),
    ("an index that is no ranking", {"index": "by_status"}, "bad_parameter", "the index by_status is sorted by time"),
    ("no value", {"index": "best"}, "bad_parameter", "one status"),
    ("a value of all", {"index": "best_of_all", "value": "x"}, "bad_parameter", "leave value out"),
    ("a kind of none", {"index": "best", "value": "x", "kind": "y"}, "bad_parameter", "no kinds"),
    ("too many", {"index": "best_of_all", "limit": "1001"}, "bad_parameter", "1000"),
    ("a series", {"index": "best_of_all", "series": "a"}, "unknown_parameter", "series"),
    ("an explanation of no kind", {"index": "best_of_all", "explain": "1"}, "bad_parameter", "explain must be true"),
    ("a cursor that is none", {"cursor": "x"}, "invalid_cursor", "not a cursor"),
]


@pytest.mark.parametrize(("name", "parameters", "code", "detail"), REFUSED)
def test_a_refusal_says_what_to_change(name: str, parameters: dict[str, str], code: str, detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        ask(StoredEvents(TIMELY, [], [TIMELY.layout] * DAYS), **parameters)
    assert (caught.value.problem.status, caught.value.problem.code) == (400, code)
    assert detail in caught.value.problem.detail


def test_a_stream_without_a_ranking_is_told_how_it_would_have_one() -> None:
    bare = parse('[streams.d]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }').streams[
        "d"
    ]
    with pytest.raises(ProblemError, match="sort_by") as caught:
        parse_ranking(bare, {}, NOW, SEAL)
    assert caught.value.problem.code == "needs_index"


@pytest.mark.parametrize("spread", ["evenly", "in one suffix", "tied"])
def test_the_first_fifty_of_many_partitions_read_little_more_than_fifty(spread: str) -> None:
    """Eight suffixes and three periods with tables."""
    index = Index("best_of_all", "*", 8, "mag")
    layout = Layout("time", 4, "id", 21_600, (index,))
    chance = random.Random(1)
    many: list[Event] = []
    for day in LIVE:
        for number in range(1000):
            event = scored(day, number, 0)
            mag = chance.randrange(10**6)
            if spread == "in one suffix":
                in_one = day == 1 and index.make_attributes(event)[index.pk].endswith("#3")
                mag = number if not in_one else 10**6 + number
            elif spread == "tied":
                mag = number // 100
            many.append(Event(event.series, event.time, event.id, {"mag": mag}))
    base = StoredEvents(TIMELY, many, [layout] * DAYS)
    top = ask(base, index="best_of_all", limit="50")
    wanted = sorted(many, key=lambda event: (event.data["mag"], event.time, event.series, event.id), reverse=True)[:50]
    assert [row["id"] for row in top.rows] == [event.id for event in wanted]
    if spread != "tied":
        assert base.store.items_read <= 400


def test_ties_that_are_too_many_are_told_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.rankings.ranking_run._TIES_LEAST", 100)
    many = [scored(day, number, 7 if number < 1500 else 8) for day in LIVE for number in range(1502)]
    base = StoredEvents(TIMELY, many, [TIMELY.layout] * DAYS)
    top = ask(base, index="best_of_all", limit="10")
    assert (top.extras["tied"], top.next, len(top.rows)) == (True, None, 10)
    assert [row["value"] for row in top.rows] == [8] * 6 + [7] * 4
    assert base.store.items_read < 1000


def test_an_event_that_has_another_number_by_now_is_not_shown_with_its_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index still has the old entry; the item from the table shows the new number."""
    events = [scored(1, number, number, status="new", long="x") for number in range(5)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    table = base.store.tables["tidetable-t.s.2026-03-02"]
    changed, removed = (TIMELY.layout.make_key(events[number]) for number in (4, 3))
    real = base.store.get_many

    def ahead(name: str, keys: Sequence[Any], *, consistent: bool = True) -> Any:
        items = dict(real(name, keys, consistent=consistent))
        items.pop(removed, None)
        if changed in items:
            items[changed] = {**items[changed], "sk_best": Decimal(-1)}
        return items

    monkeypatch.setattr(base.store, "get_many", ahead)
    assert {changed, removed} <= table.keys(), "both are there until the reads say otherwise"
    top = ask(base, index="best", value="new")
    assert [(row["rank"], row["value"]) for row in top.rows] == [(1, 2), (2, 1), (3, 0)]


def test_what_the_index_holds_is_not_fetched() -> None:
    events = [scored(1, number, number, status="new", long="x") for number in range(5)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("the index holds it")

    whole = ask(base, index="best", value="new").rows
    base.store.get_many = never  # type: ignore[method-assign]
    slim = ask(base, index="best", value="new", fields="status").rows
    assert [row["id"] for row in slim] == [row["id"] for row in whole]
    assert {tuple(row["data"]) for row in slim} == {("status",)}


@pytest.mark.parametrize("events", [[], [scored(1, 1, 5)], [scored(1, 1, 5, place={"state": "CA"})]])
def test_csv_of_a_ranking_has_a_column_for_each_of_its_fields(events: list[Event]) -> None:
    top = ask(StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS), index="best_of_all", fields="place.state,mag")
    header = render_answer(top, AnswerForm("csv"), encode_stream).body.splitlines()[0]
    assert header == "rank,value,series,time,id,data.place.state,data.mag,ref"


def test_conditions_on_the_number_narrow_what_is_read() -> None:
    base = StoredEvents(TIMELY, [scored(1, number, number) for number in range(400)], [TIMELY.layout] * DAYS)
    top = ask(base, index="best_of_all", limit="5", **{"where.mag:lt": "100", "where.mag:ge": "97"})
    assert [row["value"] for row in top.rows] == [99, 98, 97]
    assert base.store.items_read < 30


def test_by_default_it_is_what_the_tables_keep() -> None:
    base = StoredEvents(TIMELY, [scored(day, 1, day) for day in range(DAYS)], [TIMELY.layout] * DAYS)
    ranking = parse_ranking(TIMELY, {"index": ["best_of_all"]}, NOW, SEAL)
    assert ranking.start == START - timedelta(days=4)
    top = find_top(ranking, TIMELY, base.reader, NOW, lambda: 100.0)
    assert [row["value"] for row in top.rows] == [4, 3, 2, 1, 0]
    assert {source["from"] for source in top.describe_rest()["sources"]} == {"index", "archive"}


def test_a_ranking_that_ends_before_what_the_tables_keep_is_of_the_hour_before_its_end() -> None:
    """Older periods are in archives. Nine days are kept."""
    end = NOW - timedelta(days=30)
    ranking = parse_ranking(TIMELY, {"index": ["best_of_all"], "to": [to_text(end)]}, NOW, SEAL)
    assert (ranking.start, ranking.end) == (end - timedelta(hours=1), end)


def test_periods_without_the_ranking_are_named() -> None:
    without = Layout("time", 1, "id", 3600)
    base = StoredEvents(SERIAL, [], [TIMELY.layout, without, TIMELY.layout, TIMELY.layout, TIMELY.layout])
    top = ask(base, index="best_of_all")
    assert [(gap["from"][:10], gap["reason"]) for gap in top.describe_rest()["gaps"]] == [("2026-03-02", "no index")]


def test_a_parameter_beside_a_cursor_may_repeat_what_its_ranking_says() -> None:
    events = [scored(1, number, number, status="red") for number in range(30)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    parameters = {"index": "best", "value": "red", "order": "asc", "where.mag:ge": "3", "fields": "mag", **SPAN}
    following = ask(base, limit="4", **parameters).next or ""
    assert [row["value"] for row in ask(base, cursor=following, limit="2").rows] == [7, 8]
    for name, value in parameters.items():
        assert [row["value"] for row in ask(base, cursor=following, limit="2", **{name: value}).rows] == [7, 8]
    others = {
        "index": "best_of_all",
        "value": "green",
        "kind": "x",
        "order": "desc",
        "where.mag:ge": "4",
        "fields": "a",
    }
    for name, value in {**others, "from": "2026-01-01T00:00:00Z", "to": "-1h"}.items():
        with pytest.raises(ProblemError, match=f"another query: repeat its {name}, leave {name} out"):
            ask(base, cursor=following, **{name: value})


def test_a_cursor_ends_with_the_definition_of_its_index() -> None:
    base = StoredEvents(TIMELY, [scored(1, number, number) for number in range(30)], [TIMELY.layout] * DAYS)
    following = ask(base, index="best_of_all").next
    assert following
    text = TIMELY.__class__(
        **{
            **{name: getattr(TIMELY, name) for name in TIMELY.__struct_fields__},
            "index": tuple(index for index in TIMELY.index if index.name != "best_of_all"),
        }
    )
    with pytest.raises(ProblemError, match="has changed"):
        parse_ranking(text, {"cursor": [following]}, NOW, SEAL)


def test_a_ranking_that_takes_too_long_is_refused_with_what_to_change() -> None:
    """A repeated request would take the same time."""
    base = StoredEvents(TIMELY, [scored(1, number, number) for number in range(30)], [TIMELY.layout] * DAYS)
    for day, what in ((1, "the ranking takes"), (2, "ranking the archived period 2026-03-03 takes")):
        span = {"from": [to_text(START + timedelta(days=day))], "to": [to_text(START + timedelta(days=day + 1))]}
        ranking = parse_ranking(TIMELY, {"index": ["best_of_all"], **span}, NOW, SEAL)
        with pytest.raises(ProblemError) as caught:
            find_top(ranking, TIMELY, base.reader, NOW, lambda: 0.0)
        assert (caught.value.problem.status, caught.value.problem.code) == (422, "too_much")
        assert caught.value.problem.detail.startswith(
            f"{what} longer than an answer may: narrow from and to, lower limit"
        )


def test_a_missing_table_is_a_gap_as_far_as_the_range_meets_it() -> None:
    base = StoredEvents(TIMELY, [scored(1, number, number) for number in range(30)], [TIMELY.layout] * DAYS)
    del base.store.tables["tidetable-t.s.2026-03-02"]
    top = ask(base, index="best_of_all", **{"from": "2026-03-02T10:00:00Z", "to": "2026-03-02T10:02:00Z"})
    assert top.describe_rest()["gaps"] == [
        {"from": "2026-03-02T10:00:00.000000Z", "to": "2026-03-02T10:02:00.000000Z", "reason": "table missing"}
    ]


def test_a_ranking_with_a_condition_names_an_event_whose_data_is_damaged() -> None:
    events = [Event("a", START + timedelta(days=1, seconds=n), f"e{n}", {"mag": n, "ok": True}) for n in range(5)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    table = base.store.tables["tidetable-t.s.2026-03-02"]
    (key,) = (key for key in table if key.sk.endswith("#e3"))
    table[key] = {**{name: value for name, value in table[key].items() if name != "data"}, "z": b"damaged"}

    def first(**conditions: str) -> tuple[list[str], Any]:
        top = ask(base, index="best_of_all", **conditions)
        return [row["id"] for row in top.rows], top.describe_rest()["gaps"]

    gap = {"from": "2026-03-02T00:00:03.000000Z", "to": "2026-03-02T00:00:03.000001Z", "reason": "damaged data"}
    assert first(**{"where.ok": "true"}) == (["e4", "e2", "e1", "e0"], [gap])
    # Its number is in the index, so without a condition it has its rank, and is incomplete.
    assert first() == (["e4", "e3", "e2", "e1", "e0"], [])
