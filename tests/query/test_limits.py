"""Limits of answers, requests and sketches."""

import io
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest

from aws.arrow import encode_stream
from tests.api.gateway import Gateway, gateway
from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import AnswerForm, parse_query, render_answer, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.model import Position
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}


@pytest.fixture(scope="module")
def app() -> Iterator[Gateway]:
    yield from gateway()


def get(app: Gateway, path: str, **parameters: Any) -> tuple[int, Any]:
    """Status and body of an answer; a parameter may have several values."""
    head: dict[str, Any] = {}

    def start(status: str, headers: Any) -> None:
        head.update(status=int(status.split()[0]), headers=headers)

    environ = {
        "PATH_INFO": path,
        "QUERY_STRING": urlencode(parameters, doseq=True),
        "REQUEST_METHOD": "GET",
        "wsgi.input": io.BytesIO(),
    }
    body = b"".join(app(environ, start)).decode()
    return head["status"], json.loads(body)


@pytest.mark.parametrize("path", ["events", "top", "aggregate"])
@pytest.mark.parametrize("end", ["0", "1", "1800000", "-9999999d", "1970-01-01T00:30:00Z"])
def test_a_range_that_ends_with_the_beginning_of_time_is_empty_or_refused(app: Gateway, path: str, end: str) -> None:
    stream = "stations" if path == "top" else "quakes"
    status, body = get(app, f"/v1/streams/{stream}/{path}", to=end)
    assert status == (400 if end in ("0", "-9999999d") else 200), body


@pytest.mark.parametrize("label", ["1969-12-31", "0001-01-01", "1969-12", "9998-12-31"])
def test_a_ref_of_a_period_that_never_was_finds_nothing(app: Gateway, label: str) -> None:
    ref = urlsafe_b64encode(json.dumps([1, "quakes", label, "x#0", "y"]).encode()).decode().rstrip("=")
    status, body = get(app, f"/v1/streams/quakes/events/{ref}")
    assert (status, body["code"]) == (404, "unknown_event")


def test_the_latest_events_are_refused_if_no_answer_holds_them(app: Gateway) -> None:
    names = [f"large-{number}" for number in range(30)]
    for start in range(0, 30, 10):
        events = [{"series": name, "data": {"text": "x" * 300_000, "n": 1}} for name in names[start : start + 10]]
        assert app.stage.send("stations", json.dumps(events).encode()).accepted == 10
    status, body = get(app, "/v1/streams/stations/latest", series=names)
    assert (status, body["code"]) == (422, "too_much")
    status, body = get(app, "/v1/streams/stations/latest", series=names, fields="n")
    assert (status, len(body["latest"])) == (200, 30)


def test_an_answer_that_cannot_be_divided_is_refused_and_not_repeated_for_ever(app: Gateway) -> None:
    groups = [{"series": "wide", "id": str(n), "data": {"text": f"{n:04d}" + "ü" * 900, "n": n}} for n in range(4000)]
    for start in range(0, len(groups), 500):
        assert app.stage.send("stations", json.dumps(groups[start : start + 500]).encode()).accepted == 500
    status, body = get(app, "/v1/streams/stations/aggregate", series="wide", by="text", field="n", stat="sum,min,max")
    assert (status, body["code"]) == (422, "too_much"), str(body)[:300]


def test_conditions_and_fields_are_bounded_so_that_a_cursor_can_be_sent() -> None:
    for parameters, detail in (
        ({f"where.f{n}:in": ",".join(f"{m:051d}" for m in range(15)) for n in range(10)}, "together"),
        ({"fields": ",".join(f"{n:050d}" for n in range(40))}, "1024 bytes"),
    ):
        with pytest.raises(ProblemError, match=detail):
            parse_query(TIMELY, {name: [value] for name, value in parameters.items()}, NOW, SEAL)
    with pytest.raises(ProblemError, match="together"):
        parse_aggregation(TIMELY, {"by": ["x" * 1025]}, NOW, SEAL)
    most = {f"where.{n:0150d}": "x" for n in range(10)} | {"fields": ",".join(f"{n:029d}" for n in range(34))}
    base = StoredEvents(
        TIMELY, [Event("s" * 480, START, "i" * 480, {}), Event("s", START, "", {})], [TIMELY.layout] * DAYS
    )
    query = parse_query(TIMELY, SPAN | {name: [value] for name, value in most.items()} | {"limit": ["1"]}, NOW, SEAL)
    assert len(SEAL.seal(query.make_cursor(Position(START, "s" * 480, "i" * 480)))) < 8_000
    assert run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).count == 0


def test_percentiles_keep_their_bound_over_many_decades() -> None:
    numbers = [Decimal(1)] * 30 + [Decimal("1E+20")] * 30 + [Decimal("-1E-20")] * 30
    base = StoredEvents(
        TIMELY,
        [Event("a", START + timedelta(seconds=n), f"{n}", {"mag": number}) for n, number in enumerate(numbers)],
        [TIMELY.layout] * DAYS,
    )
    aggregation = parse_aggregation(TIMELY, SPAN | {"stat": ["p0,p10,p50,p90,p100"], "field": ["mag"]}, NOW, SEAL)
    (row,) = find_aggregate(aggregation, TIMELY, base.reader, NOW, lambda: 100.0).rows
    assert (row["p0"], row["p100"]) == (Decimal("-1E-20"), Decimal("1E+20"))
    assert [float(row[name]) for name in ("p10", "p50", "p90")] == pytest.approx([-1e-20, 1.0, 1e20], rel=0.01)


def test_paths_of_names_with_dots_are_told_apart_in_flat_rows() -> None:
    data = {"a.b": 1, "a": {"b": 2, '"': 3}, '"a': {"b": 4}}
    base = StoredEvents(TIMELY, [Event("s", START, "1", data)], [TIMELY.layout] * DAYS)
    answer = run_query(parse_query(TIMELY, SPAN, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0)
    _, _, body, *_ = render_answer(answer, AnswerForm("json", flat=True), encode_stream)
    (row,) = json.loads(body)["events"]
    assert {name: value for name, value in row.items() if name.startswith("data")} == {
        'data."a.b"': 1,
        "data.a.b": 2,
        'data.a.""""': 3,
        'data."""a".b': 4,
    }


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ("a", {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ("a.b.c", {"a": {"b": {"c": 1}}}),
        ("a.e,a.b.d", {"a": {"e": 3, "b": {"d": 2}}}),
        ("a,a.e", {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ("a.e,a", {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ("x.y,f", {"x.y": 4, "f": 5}),
        ("a.none,f.none,none", {}),
    ],
)
@pytest.mark.parametrize("day", [0, 1])
def test_fields_are_shown_by_their_paths(fields: str, wanted: dict[str, Any], day: int) -> None:
    """From the archive and from a table."""
    data = {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "x.y": 4, "f": 5}
    base = StoredEvents(TIMELY, [Event("s", START + timedelta(days=day), "1", data)], [TIMELY.layout] * DAYS)
    query = parse_query(TIMELY, SPAN | {"fields": [fields]}, NOW, SEAL)
    (row,) = run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).document()["events"]
    assert row["data"] == wanted
