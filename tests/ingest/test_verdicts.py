"""Verdicts: the accepted events, and the errors of the others."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.ingest.streams import NOW, QUAKES
from tidetable.access import Access
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.bodies import decode_body, read_body
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.rejection import Rejection
from tidetable.ingest.unreadable import read_line
from tidetable.layout import Index
from tidetable.times import to_text
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes
from tidetable.window import Window

CONTEXT = RequestContext(QUAKES, StreamRules.of(QUAKES, QUAKES.layout), Window.of(QUAKES, NOW), NOW)


def judge_all(context: RequestContext, values: list[Any], *, small: bool = False) -> list[Event | Rejection]:
    """The verdict on each value of a request: an event that may be written, or its rejection."""
    batch = check_batch(context, SentBatch.of_values(values), small=small)
    return [batch.rejections.get(number) or batch.make_event(number) for number in range(len(values))]


def verdict(candidate: Any) -> Event | Rejection:
    """The verdict on the fourth value of a request."""
    return judge_all(CONTEXT, [None, None, None, candidate])[3]


def taken(candidate: Any) -> Event:
    event = verdict(candidate)
    assert isinstance(event, Event), event
    return event


def test_an_event_is_taken_as_it_was_sent() -> None:
    time = to_text(NOW - timedelta(hours=1))
    event = taken({"series": "a", "time": time, "id": "x", "data": {"mag": Decimal("1.10")}})
    assert event == Event("a", NOW - timedelta(hours=1), "x", {"mag": Decimal("1.10")})


def test_an_absent_time_is_the_time_of_arrival_and_null_is_absent() -> None:
    assert taken({"series": "a"}).time == taken({"series": "a", "time": None, "id": None}).time == NOW


def test_an_absent_id_follows_from_the_content_whatever_the_order_of_its_fields() -> None:
    time = to_text(NOW)
    first = taken({"series": "a", "time": time, "data": {"x": 1, "y": {"p": 1, "q": 2}}})
    same = taken({"data": {"y": {"q": 2, "p": 1}, "x": 1}, "time": time, "series": "a"})
    other = taken({"series": "a", "time": time, "data": {"x": 1, "y": {"p": 1, "q": 3}}})
    assert first.id == same.id != other.id


def test_an_id_that_follows_from_the_content_is_the_same_in_every_release() -> None:
    """Who sends an event again after a deploy must meet the event. Half of SHA-256 of series, time and data as JSON."""
    sent = {"series": "a", "time": "2026-03-01T00:00:00Z", "data": {"n": 1}}
    assert taken(sent).id == "a465c4527a64264f6d4064032b79a863"
    # The time of arrival is not what was sent.
    assert taken({"series": "a", "data": {"n": 1}}).id == "bcb16bf0fa6a65dced91ed99da52b066"


@pytest.mark.parametrize("name", ["n" * 480, "é" * 240, "#" * 160, "%" * 160, "\U0001f600" * 120])
def test_a_name_has_at_most_480_bytes(name: str) -> None:
    event = taken({"series": name, "id": name})
    assert (event.series, event.id) == (name, name)
    for field in ("series", "id"):
        outcome = verdict({"series": "a", "id": "x"} | {field: name + "n"})
        assert isinstance(outcome, Rejection)
        assert outcome.detail == f"{field} is too long: at most 480 bytes of UTF-8, # and % counting three each"


def test_a_long_name_of_an_unknown_field_is_cut_in_the_error() -> None:
    outcome = verdict({"series": "a", "z": 1, "x" * 100: 1})
    assert isinstance(outcome, Rejection)
    assert outcome.detail.startswith(f"unknown field '{'x' * 64}': an event has")


# NOW is 2026-03-01T00:05:00Z; the stream takes events up to two days late and five minutes ahead.
EDGES = [
    ("the oldest instant of the window", "2026-02-27T00:05:00Z", None),
    ("a microsecond before the window", "2026-02-27T00:04:59.999999Z", "too_old"),
    ("four minutes ahead", "2026-03-01T00:09:00Z", None),
    ("the newest instant of the window", "2026-03-01T00:10:00Z", None),
    ("a microsecond after the window", "2026-03-01T00:10:00.000001Z", "too_new"),
    ("six minutes ahead", "2026-03-01T00:11:00Z", "too_new"),
    ("the same in another zone", "2026-03-01T05:41:00+05:30", "too_new"),
]


@pytest.mark.parametrize(("name", "time", "code"), EDGES, ids=[name for name, *_ in EDGES])
def test_the_window_includes_both_its_edges(name: str, time: str, code: str | None) -> None:
    outcome = verdict({"series": "a", "time": time, "id": "x"})
    assert (outcome.code if isinstance(outcome, Rejection) else None) == code


def test_events_without_an_id_that_differ_in_time_or_series_alone_are_different_events() -> None:
    sent = {"series": "a", "time": "2026-03-01T00:00:00Z", "data": {"n": 1}}
    others = [sent | {"time": "2026-03-01T00:00:00.000001Z"}, sent | {"series": "b"}, sent | {"data": {"n": 2}}]
    ids = [taken(event).id for event in (sent, *others)]
    assert len(set(ids)) == 4
    same_instant = sent | {"time": "2026-03-01T01:00:00+01:00"}
    assert taken(same_instant).id == ids[0]


INVALID = [
    ("a number", 3, "JSON object"),
    ("no series", {"id": "x"}, "series is missing"),
    ("an empty series", {"series": ""}, "at least one character"),
    ("a series that is no text", {"series": 7}, "series must be a text"),
    ("a series too long", {"series": "é" * 241}, "480 bytes"),
    ("a series too long once escaped", {"series": "#" * 161}, "480 bytes"),
    ("an id that is a number", {"series": "a", "id": 7}, "id must be a text"),
    ("an unknown field", {"series": "a", "timestamp": 1}, "timestamp"),
    ("a time without an offset", {"series": "a", "time": "2026-03-01T00:00:00"}, "RFC 3339"),
    ("a time that is a fraction", {"series": "a", "time": Decimal("1.5")}, "time"),
    ("data that is a list", {"series": "a", "data": []}, "data must be a JSON object"),
    ("a number of 39 digits", {"series": "a", "data": {"n": 10**38 + 1}}, "data.n has more than 38 digits"),
    ("a number too large", {"series": "a", "data": {"n": Decimal("1E+126")}}, "data.n lies outside"),
    ("a number too small", {"series": "a", "data": {"n": [Decimal("1E-131")]}}, "data.n[0] lies outside"),
    ("a number beyond all bounds", {"series": "a", "data": {"n": Decimal("NaN")}}, "lies outside 1E-130"),
    ("a field without a name", {"series": "a", "data": {"": 1}}, "field without a name"),
]


@pytest.mark.parametrize(("name", "candidate", "detail"), INVALID)
def test_the_error_of_an_invalid_event_names_the_value_and_the_reason(name: str, candidate: Any, detail: str) -> None:
    outcome = verdict(candidate)
    assert isinstance(outcome, Rejection)
    assert (outcome.index, outcome.code) == (3, "invalid")
    assert detail in outcome.detail


def test_data_nested_deeper_than_dynamodb_holds_is_invalid() -> None:
    def nested(levels: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for _ in range(levels - 1):
            value = {"x": value}
        return {"series": "a", "data": value}

    assert isinstance(verdict(nested(31)), Event)
    assert isinstance(verdict(nested(32)), Rejection)


def test_an_event_beyond_an_items_size_is_too_large() -> None:
    room = MAX_ITEM_BYTES - count_item_bytes(
        QUAKES.layout.make_item(taken({"series": "a", "id": "x", "data": {"t": ""}}))
    )
    assert isinstance(verdict({"series": "a", "id": "x", "data": {"t": "x" * room}}), Event)
    outcome = verdict({"series": "a", "id": "x", "data": {"t": "x" * (room + 1)}})
    assert isinstance(outcome, Rejection)
    assert (outcome.code, outcome.id) == ("too_large", "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_any_json_value_gets_a_verdict(candidate: Any) -> None:
    assert isinstance(verdict(candidate), Event | Rejection)
    assert isinstance(verdict({"series": "a", "data": candidate}), Event | Rejection)


names = st.sampled_from(["a", "", "x#y", "é", "n" * 130, "n" * 500])
FORMS = (
    *(
        "2026-03-15T11:00:00.123456Z",
        "2026-03-15T11:00:00.123456+00:00",
        "2026-03-15T11:00:00Z",
        "2026-03-15 11:00:00+02:00",
    ),
    *(
        "2026-03-15T11:00:00.1234567Z",
        "2026-02-30T11:00:00.123456Z",
        "2026-03-15T25:00:00.123456Z",
        "0001-03-15T11:00:00.123456Z",
    ),
    *("2026x03-15T11:00:00.123456Z", "2026-03-15T11:00:00.12345xZ", "20260315T110000.00000000000Z", "", " "),
)
times: Any = st.sampled_from([None, *FORMS, 1_773_572_400_000, True, 1.5])
numbers = st.sampled_from([0, 1, -5, 10**18, 10**37, 10**39, 1.5, 1e300, 0.1])
leaves = st.none() | st.booleans() | numbers | st.text(max_size=3)
datas = st.dictionaries(st.sampled_from(["a", "", "b"]), leaves | st.lists(leaves, max_size=2), max_size=3)
sent = st.fixed_dictionaries(
    {"series": names}, optional={"time": times, "id": names | st.none(), "data": datas | st.none()}
)


@settings(max_examples=300, deadline=None)
@given(st.lists(sent, min_size=1, max_size=4))
def test_the_short_check_gives_the_same_verdicts_as_the_full_check(events: list[dict[str, Any]]) -> None:
    """Compares the typed decoder, times that are kept as text and the short check of values with the plain checks."""
    body = json.dumps(events).encode()
    candidates = decode_body(read_body(body, "application/json", max_body=10**6), max_events=10)
    short, full = judge_all(CONTEXT, candidates, small=True), judge_all(CONTEXT, decode_json(body))
    assert short == full


def test_a_long_prefix_of_a_key_is_cut_in_the_error() -> None:
    (outcome,) = judge_all(replace(CONTEXT, access=Access(series_prefix="p" * 100)), [{"series": "a"}])
    assert isinstance(outcome, Rejection)
    assert (outcome.code, outcome.detail) == (
        "forbidden_series",
        f"this key is for series that begin with '{'p' * 64}'",
    )


@pytest.mark.parametrize("series", ["mine/", "mine/a", "other", "other/mine/", "min", ""])
def test_a_prefix_is_the_beginning_of_every_series_of_a_key(series: str) -> None:
    (outcome,) = judge_all(replace(CONTEXT, access=Access(series_prefix="mine/")), [{"series": series}])
    code = outcome.code if isinstance(outcome, Rejection) else None
    assert code == {"mine/": None, "mine/a": None, "": "invalid"}.get(series, "forbidden_series")


@pytest.mark.parametrize("time", ["2026-02-30T00:00:00Z", "soon", -1, 10**30, ""])
def test_a_time_that_is_none_is_named_as_the_time(time: Any) -> None:
    (outcome,) = judge_all(CONTEXT, [{"series": "a", "time": time}])
    assert isinstance(outcome, Rejection)
    assert (outcome.code, outcome.detail[:6]) == ("invalid", "time: ")


def test_an_event_of_a_stream_with_indexes_may_be_as_large_as_an_item() -> None:
    layout = replace(QUAKES.layout, indexes=(Index("by_kind", "kind", 1),))
    bare = {"series": "a", "id": "x", "data": {"t": ""}}
    room = MAX_ITEM_BYTES - count_item_bytes(layout.make_item(taken(bare)))
    sent = [bare | {"data": {"t": "x" * (room + more)}} for more in (0, 1)]
    exact, beyond = judge_all(replace(CONTEXT, rules=StreamRules.of(QUAKES, layout)), sent)
    assert isinstance(exact, Event)
    assert isinstance(beyond, Rejection)
    assert beyond.code == "too_large"


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b"{nope", "this line is not JSON"),
        (b'{"series": "\\ud83d"}', "\\ud83d is half of a surrogate pair"),
        # Python's decoder would take NaN, and find the half behind it: the line is no JSON at all.
        (b'{"series": NaN, "id": "\\ud83d"}', "this line is not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: bytes, detail: str) -> None:
    rejected = verdict(read_line(line))
    assert isinstance(rejected, Rejection)
    assert rejected.detail.startswith(detail)
