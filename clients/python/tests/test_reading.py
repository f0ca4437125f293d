"""Reading: pages, cursors, repetitions, frames."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from doubles import ROWS, ManualClock, Reader, answer, make_columns, problem
from halves import Connect
from tidetable_client import ApiError, Client, Unreachable


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def client(reader: Reader, clock: ManualClock, connect: Connect) -> Any:
    return connect(reader, clock)


def test_an_iterator_follows_the_cursors(reader: Reader, client: Any) -> None:
    query = client.events(
        "quakes",
        start=datetime(2026, 3, 15, tzinfo=UTC),
        end="now",
        series=["a", "b"],
        series_prefix="c",
        where={"mag:ge": 4.5, "state:in": ["CA", "NV"], "felt": True},
        fields=["mag", "place"],
        consistent=True,
        page_size=3,
    )
    assert list(query) == ROWS
    assert reader.requests == [
        {
            "from": ["2026-03-15T00:00:00+00:00"],
            "to": ["now"],
            "series": ["a", "b"],
            "series:prefix": ["c"],
            "where.mag:ge": ["4.5"],
            "where.state:in": ["CA,NV"],
            "where.felt": ["true"],
            "fields": ["mag,place"],
            "consistent": ["true"],
            "limit": ["3"],
        },
        {"limit": ["3"], "cursor": ["3"]},
        {"limit": ["3"], "cursor": ["6"]},
    ]
    assert (query.is_done, query.cursor, query.read_units) == (True, None, 4.5)
    # A plus in a query string is a space for some, and SigV4 signs %20.
    assert "place%2C" not in reader.addresses[0] or "+" not in reader.addresses[0].partition("?")[2]


def test_an_answer_to_a_key_with_a_series_prefix_has_neither_a_cost_nor_sources(reader: Reader, client: Any) -> None:
    reader.faults = [lambda _: httpx.Response(200, json={"events": ROWS, "next": None, "gaps": []})]
    query = client.events("quakes")
    assert list(query) == ROWS
    assert (query.is_done, query.read_units, query.gaps) == (True, 0.0, [])


def test_a_limit_is_that_of_all_rows(reader: Reader, client: Any) -> None:
    assert [row["id"] for row in client.events("quakes", limit=5, page_size=3)] == ["e0", "e1", "e2", "e3", "e4"]
    assert [request["limit"] for request in reader.requests] == [["3"], ["2"]]
    assert list(client.events("quakes", limit=0)) == []


def test_a_ranking_ends_after_ten_unless_told(reader: Reader, client: Any) -> None:
    list(client.top("quakes", index="strongest"))
    assert reader.requests == [{"index": ["strongest"], "limit": ["10"]}]


def test_a_walk_that_was_interrupted_goes_on_and_misses_nothing(client: Any) -> None:
    query = client.events("quakes", page_size=3)
    seen = [row["id"] for row in islice(query, 4)]
    assert (seen, query.cursor, query.is_done) == (["e0", "e1", "e2", "e3"], "3", False)
    rest = [row["id"] for row in client.events("quakes", cursor=query.cursor, page_size=3)]
    assert rest == ["e3", "e4", "e5", "e6"]


def test_gaps_are_kept_for_who_looks(reader: Reader, client: Any) -> None:
    reader.gaps = [{"from": "a", "to": "b", "reason": "table missing"}]
    query = client.events("quakes")
    assert len(list(query)) == 7
    assert query.gaps == reader.gaps


def test_a_read_is_repeated_while_the_api_says_so(reader: Reader, client: Any, clock: ManualClock) -> None:
    def die(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("reset", request=request)

    reader.faults = [answer(429, Retry_After="7"), answer(503), die]
    assert len(list(client.events("quakes"))) == 7
    assert clock.waits == [7.5, 1.0, 2.0]


def test_a_read_ends_with_the_last_answer_when_the_time_is_over(reader: Reader, client: Any) -> None:
    reader.faults = [answer(503, "unavailable")] * 1000
    with pytest.raises(ApiError, match="503 unavailable: no") as error:
        list(client.events("quakes"))
    assert (error.value.status, error.value.code) == (503, "unavailable")


def test_a_read_of_nobody_is_an_error_of_its_own(reader: Reader, client: Any) -> None:
    def die(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    reader.faults = [die] * 1000
    with pytest.raises(Unreachable, match="no answer within 300 s: ConnectError: refused"):
        list(client.events("quakes"))


def test_a_refusal_is_not_repeated(reader: Reader, client: Any) -> None:
    reader.faults = [answer(400, "needs_series")]
    with pytest.raises(ApiError, match="400 needs_series"):
        list(client.events("quakes"))
    assert len(reader.requests) == 1


def test_an_answer_that_is_not_the_apis_is_an_error(reader: Reader, client: Any) -> None:
    reader.faults = [lambda _: httpx.Response(200, content=b"<html>"), lambda _: httpx.Response(200, json={"x": 1})]
    for _ in range(2):
        with pytest.raises(ApiError, match="the answer is not"):
            list(client.events("quakes"))


def test_latest_answers_by_series_and_a_hundred_names_per_request(reader: Reader, client: Any) -> None:
    assert client.latest("quakes", ["a", "none"]) == {"a": ROWS[0], "none": None}
    client.latest("quakes", [f"s{number}" for number in range(150)])
    assert [len(request["series"]) for request in reader.requests] == [2, 100, 50]


def stop(start: str, *names: str) -> Any:
    """An answer of ``latest`` that found no event of these series, and searched back to ``start``."""
    rows = [{"series": name, "event": None, "stopped": True} for name in names]
    found = {"series": "found", "event": ROWS[1]}
    return lambda _: httpx.Response(200, json={"latest": [*rows, found], "searched_back_to": start})


def test_latest_goes_on_for_the_series_whose_search_was_stopped(reader: Reader, client: Any) -> None:
    reader.faults = [stop("2026-03-03T00:00:00Z", "a", "none"), stop("2026-03-02T00:00:00Z", "none")]
    latest = client.latest("quakes", ["a", "none"], fields=["n"])
    assert latest == {"a": None, "found": ROWS[1], "none": None}
    assert [(request["series"], request.get("before")) for request in reader.requests] == [
        (["a", "none"], None),
        (["a", "none"], ["2026-03-03T00:00:00Z"]),
        (["none"], ["2026-03-02T00:00:00Z"]),
    ]
    assert all(request["fields"] == ["n"] for request in reader.requests)


def test_one_event_and_the_latest_events_may_keep_all_their_digits(reader: Reader, client: Any) -> None:
    digits = "0.10000000000000000000001"
    text = f'{{"latest":[{{"series":"a","event":{{"data":{{"n":{digits}}}}}}}],"searched_back_to":null}}'
    for decimals, number in ((True, Decimal(digits)), (False, 0.1)):
        reader.faults = [
            lambda _: httpx.Response(200, content=text),
            lambda _: httpx.Response(200, content=f'{{"n":{digits}}}'),
        ]
        assert client.latest("quakes", "a", decimals=decimals) == {"a": {"data": {"n": number}}}
        assert client.event("quakes", "a ref/", decimals=decimals) == {"n": number}
    assert reader.addresses[-1] == "/v1/streams/quakes/events/a%20ref%2F"
    assert client.streams() == [{"stream": "quakes"}]


def test_names_are_escaped(reader: Reader, client: Any) -> None:
    list(client.values("qua kes", "place/state", prefix="a b"))
    assert reader.addresses == ["/v1/streams/qua%20kes/fields/place%2Fstate/values?prefix=a%20b&limit=1000"]


def test_numbers_may_keep_all_their_digits(reader: Reader, client: Any) -> None:
    text = json.dumps({"events": [{"data": {"n": 0.0}}], "next": None}).replace("0.0", "0.10000000000000000000001")
    reader.faults = [lambda _: httpx.Response(200, content=text)]
    (row,) = client.events("quakes", decimals=True)
    assert row["data"]["n"] == Decimal("0.10000000000000000000001")


@pytest.mark.parametrize("arrow", [True, False])
def test_frames_come_by_arrow_or_else_by_json(reader: Reader, client: Any, *, arrow: bool) -> None:
    reader.arrow = arrow
    name = "n"
    first = datetime(2026, 3, 15, 12, tzinfo=UTC)

    table = pa.table(client.events("quakes", page_size=3).to_arrow())
    assert table.schema.field("time").type == pa.timestamp("us", "UTC")
    assert table.column(name).to_pylist() == list(range(7))

    pandas = client.events("quakes", page_size=3).to_pandas()
    assert isinstance(pandas, pd.DataFrame)
    assert list(pandas[name]) == list(range(7))
    assert pandas["time"][0] == first

    polars = client.events("quakes", page_size=3).to_polars()
    assert isinstance(polars, pl.DataFrame)
    assert polars[name].to_list() == list(range(7))
    assert polars["time"][0] == first
    assert polars["time"].dtype == pl.Datetime("us", "UTC")

    # Each field is a column if a program needs that, whatever the stage answers.
    reader.requests.clear()
    assert client.events("quakes").to_polars(every_field=True)["n"].to_list() == list(range(7))
    assert reader.requests[0]["format"] == ["columns"]

    # Any other library takes the same object by the PyCapsule protocol.
    assert pl.DataFrame(client.events("quakes").to_arrow()).height == 7


def test_a_frame_of_mixed_values_has_a_type_for_each_column(reader: Reader, client: Any) -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": 1, "c": 1}, {"a": 2.5, "b": "x"}, {"d": True}]
    for _ in range(3):
        reader.faults += [
            lambda _: problem(400, "bad_parameter", "no such format"),
            lambda _: httpx.Response(200, json={"columns": make_columns(rows), "next": None}),
        ]
    expected = {"a": [1.0, 2.5, None], "b": ["1", "x", None], "c": [1, None, None], "d": [None, None, True]}
    assert pa.table(client.events("quakes").to_arrow()).to_pydict() == expected
    assert client.events("quakes").to_polars().to_dict(as_series=False) == expected
    assert client.events("quakes").to_pandas()["d"][2]


def test_a_tail_shows_each_event_once_and_misses_none_within_the_overlap(
    reader: Reader, client: Any, clock: ManualClock
) -> None:
    def page(*numbers: int) -> Any:
        document = {"events": [ROWS[number] for number in numbers], "next": None}

        def serve(request: httpx.Request) -> httpx.Response:
            clock.seconds += 3  # the reading takes its time
            return httpx.Response(200, json=document)

        return serve

    # The third event arrives late, behind the fourth.
    reader.faults = [page(0, 1), page(0, 1, 3), page(), page(1, 2, 3, 4)]
    shown = [row["id"] for row in islice(client.tail("quakes", overlap=60, interval=2), 3)]
    assert shown == ["e0", "e1", "e3"]
    assert [request["from"] for request in reader.requests] == [["-60s"], ["-65s"]]

    reader.faults = [page(0, 1), page(0, 1, 3), page(1, 2, 3, 4)]
    assert [row["id"] for row in islice(client.tail("quakes"), 5)] == ["e0", "e1", "e3", "e2", "e4"]


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("tides.test", {}, "is not an address"),
        ("http://t.test", {"key": "k", "sigv4": True}, "either key or sigv4"),
        ("http://t.test", {"key": "k\n"}, "copy it again"),
    ],
)
def test_a_wrong_connection_is_an_error_at_once(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Client(url, **options)
