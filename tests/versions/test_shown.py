"""How much of an event's versions is fetched and shown, and the room that rows take in an answer."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from aws.zstd import Zstd
from tests.fakes import SEAL
from tests.worlds.days import Days
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.events import Item
from tidetable.layout import Key, Layout
from tidetable.periods import parse_label
from tidetable.query import page as pages
from tidetable.query import parse_query, run_query
from tidetable.query.earlier import make_rows_with_versions
from tidetable.query.model import Projection
from tidetable.query.page import take_earlier
from tidetable.query.rows import Row, Rows
from tidetable.query.session import ReadSession

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
DAY = parse_label("2026-03-05")
KEPT = Entry("s", DAY, "tidetable-t.s.2026-03-05", Layout("series", 1, "id", versioned=True), State.OPEN, NOON)
PLAIN = Entry("s", DAY, "tidetable-t.s.2026-03-05", Layout("series", 1, "id"), State.OPEN, NOON)
SHOWN = Projection(versions=True)


def item_of(id: str, number: int, *, newest: bool = False, text: str = "") -> Item:
    prefix = "v0" if newest else f"v{number}"
    sk = f"{prefix}#2026-03-05T12:00:00.000000Z#{id}"
    return {"pk": "a#0", "sk": sk, "version": number, "at": 1, "data": {"n": number, "t": text}}


def row(number: int, *, newest: bool = False, text: str = "") -> Row:
    return Row.of(item_of("1", number, newest=newest, text=text), KEPT, SHOWN)


def test_a_row_takes_its_data_its_names_thrice_and_four_hundred_bytes() -> None:
    """Each quote takes two bytes. A row with earlier versions takes their bytes, too."""
    alone = row(7, newest=True, text="é")
    # {"n":7,"t":"é"} has 15 characters, one of which has two bytes, and six quotes. Its names are a and 1.
    assert alone.measure_own_size() == 16 + 6 + 3 * 2 + 400
    alone.earlier = (row(6), row(5))
    assert alone.measure_size() == 428 + 2 * 426
    assert Rows.of_rows([alone], KEPT).measure_sizes() == [1_280]


def test_a_plain_event_takes_its_text_its_quotes_and_a_comma() -> None:
    rows = Rows(PLAIN, ["a#0"] * 2, ["2026-03-05T12:00:00.000000Z#1"] * 2, ['{"t":"é"}', "{}"])
    first, second = rows.list_texts()
    # Sixteen quotes are around the names of the members and their values, without those of the data.
    assert (first.count('"'), second.count('"')) == (22, 18)
    assert rows.measure_sizes() == [len(first) + 1 + 22 + 1, len(second) + 18 + 1]


@pytest.mark.parametrize(
    ("room", "versions", "shown", "left_out"),
    [
        # The newest and an earlier version with n of one digit take 426 bytes each.
        (3 * 426, [4, 3, 2, 1], [4, 3], 2),
        (3 * 426 - 1, [4, 3, 2, 1], [4], 3),
        (426, [4, 3, 2, 1], [], 4),
        (10_000, [4, 3, 2, 1], [4, 3, 2, 1], 0),
        # A version that is gone is not left out: no later request can show it.
        (10_000, [4, None, 2, None], [4, 2], 0),
        (2 * 426, [None, 3, 2, 1], [3], 2),
        (10_000, [], [], 4),
    ],
)
def test_earlier_versions_are_shown_as_far_as_an_answer_has_room(
    room: int, versions: list[int | None], shown: list[int], left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading stops at the first version that does not fit."""
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", room)
    newest, read = row(5, newest=True), list[int | None]()

    def fetch() -> Iterator[Row | None]:
        for number in versions:
            read.append(number)
            yield None if number is None else row(number)

    take_earlier(newest, fetch(), 4)
    assert ([version.item["version"] for version in newest.earlier], newest.left_out) == (shown, left_out)
    assert len(read) <= 4 - left_out + 1


class Store:
    """The days' store, which notes how many items each request fetches, and how consistently."""

    def __init__(self, days: Days) -> None:
        self._store = days.store
        self.fetched: list[tuple[int, bool]] = []

    def get_many(self, table: str, keys: Sequence[Key], *, consistent: bool = True) -> Any:
        self.fetched.append((len(keys), consistent))
        return self._store.get_many(table, keys, consistent=consistent)


def test_versions_are_fetched_in_batches_that_no_event_is_divided_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS: a request takes a hundred keys; here it takes three. The last event has more versions than that."""
    monkeypatch.setattr("tidetable.query.earlier.GET_ITEMS", 3)
    counts = {"a": 2, "b": 3, "c": 1, "d": 2, "e": 3, "f": 6}
    newest = [item_of(id, count, newest=True) for id, count in counts.items()]
    earlier = [item_of(id, number) for id, count in counts.items() for number in range(1, count)]
    days = Days()
    days.add_table(DAY, KEPT.layout, newest + earlier)
    store: Any = Store(days)
    session = ReadSession(replace(days.reader, store=store))
    rows = list(make_rows_with_versions(newest, KEPT, SHOWN, session))
    assert [[version.item["version"] for version in (row, *row.earlier)] for row in rows] == [
        list(range(count, 0, -1)) for count in counts.values()
    ]
    # The earlier versions of a, b and c; of d and e; and of f.
    assert store.fetched == [(3, True), (3, True), (3, True), (2, True)]
    # A version costs a whole unit, as it is read consistently.
    assert (session.cost.requests, session.cost.units) == (4, 11.0)
    assert {row.left_out for row in rows} == {0}


def test_an_event_whose_versions_do_not_fit_takes_none_of_those_of_the_next_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The versions of both events are fetched together. Two versions fit into an answer."""
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 2 * 426)
    newest = [item_of("a", 4, newest=True), item_of("b", 2, newest=True)]
    days = Days()
    earlier = [item_of("a", 3), item_of("a", 2), item_of("a", 1), item_of("b", 1)]
    days.add_table(DAY, KEPT.layout, newest + earlier)
    rows = make_rows_with_versions(newest, KEPT, SHOWN, ReadSession(days.reader))
    assert [
        ([(version.names[2], version.item["version"]) for version in row.earlier], row.left_out) for row in rows
    ] == [
        ([("a", 3)], 2),
        ([("b", 1)], 0),
    ]


def test_of_an_event_with_many_versions_no_more_are_fetched_than_an_answer_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two of the earlier versions fit. A request takes three keys here."""
    monkeypatch.setattr("tidetable.query.earlier.GET_ITEMS", 3)
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 3 * 426)
    days = Days()
    days.add_table(DAY, KEPT.layout, [item_of("a", 9, newest=True), *(item_of("a", number) for number in range(1, 9))])
    store: Any = Store(days)
    session = ReadSession(replace(days.reader, store=store))
    (row,) = make_rows_with_versions([item_of("a", 9, newest=True)], KEPT, SHOWN, session)
    assert ([version.item["version"] for version in row.earlier], row.left_out) == ([8, 7], 6)
    assert store.fetched == [(3, True)]


def test_an_event_without_earlier_versions_fetches_nothing() -> None:
    days = Days()
    store: Any = Store(days)
    item = item_of("1", 1, newest=True)
    (found,) = make_rows_with_versions([item], KEPT, SHOWN, ReadSession(replace(days.reader, store=store)))
    assert (found.earlier, store.fetched) == ((), [])


def test_an_earlier_version_is_shown_with_its_own_cold_field() -> None:
    """Its newest version has another value of the field. Each is in the table of chunks."""
    stream = parse(
        '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\nversions = "keep"\ncold = ["raw"]\n'
        'key = { partition_by = "series" }'
    ).streams["s"]
    days, items = Days(), []
    table = days.store.tables[f"{KEPT.table}.parts"] = {}
    for number, newest, text in ((2, True, b'{"raw":"new"}'), (1, False, b'{"raw":"old"}')):
        mark = f"{number}" * 24
        items.append(item_of("1", number, newest=newest) | {"cold": {"v": mark, "n": 1, "b": len(text)}})
        key = Key(f"a#0#2026-03-05T12:00:00.000000Z#1#{mark}#0", "")
        table[key] = {"pk": key.pk, "b": Zstd().compress(text)}
    days.add_table(DAY, KEPT.layout, items)
    span = {"from": ["2026-03-05T00:00:00Z"], "to": ["2026-03-06T00:00:00Z"], "series": ["a"]}
    query = parse_query(stream, span | {"versions": ["all"], "fields": ["raw,n"]}, NOON, SEAL)
    answer = run_query(query, stream, days.reader, NOON, lambda: 100.0)
    assert [event["data"] for event in answer.document()["events"]] == [{"raw": "new", "n": 2}, {"raw": "old", "n": 1}]
    assert answer.losses == []


@pytest.mark.parametrize("series", ['a"b', "a\\b", "a\nb", "é"])
def test_a_name_that_json_escapes_is_escaped_although_it_is_in_the_partition_key_alone(series: str) -> None:
    rows = Rows(PLAIN, [f"{series}#0"], ["2026-03-05T12:00:00.000000Z#1"], ["{}"])
    event = json.loads(rows.join_texts())
    assert (event["series"], event["id"], event["time"]) == (series, "1", "2026-03-05T12:00:00.000000Z")
