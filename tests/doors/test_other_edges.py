"""CloudEvents and Firehose at their edges: names and ids of any length, and what an answer lists."""

import base64
import json
from typing import Any

import pytest

from doors.cloudevents import make_consent_headers
from tests.worlds.doors import Doors, Reply

EVENTS, FIREHOSE = "/v1/streams/{stream}/cloudevents", "/v1/streams/{stream}/firehose"
BATCH = "application/cloudevents-batch+json"
TIME, OLD = "2026-03-01T00:04:00Z", "2026-01-01T00:00:00Z"


def event(id: str = "1", **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.paid", "time": TIME} | more


def send_events(doors: Doors, *events: Any, **more: Any) -> Reply:
    return doors.call("POST", EVENTS, json.dumps(events), stream="quakes", content_type=BATCH, **more)


def send_records(doors: Doors, *values: Any) -> Reply:
    records = [{"data": base64.b64encode(json.dumps(value).encode()).decode()} for value in values]
    document = {"requestId": "r", "timestamp": 1_772_323_440_000, "records": records}
    return doors.call("POST", FIREHOSE, json.dumps(document), stream="quakes", content_type="application/json")


def test_a_long_id_is_hashed_by_the_length_that_its_key_has(doors: Doors) -> None:
    """Three bytes of a key for each number sign: 300 of them do not fit into 480 bytes."""
    assert send_events(doors, event("#" * 300), event("#" * 150)).status == 204
    short, long = sorted((stored["id"] for stored in doors.events()), key=len, reverse=True)
    assert (short, len(long)) == ("/shop " + "#" * 150, 32)


def test_hashed_ids_tell_the_source_from_the_id(doors: Doors) -> None:
    long = "x" * 600
    assert send_events(doors, event(f"b {long}", source="a"), event(long, source="a")).status == 204
    assert len({stored["id"] for stored in doors.events()}) == 2


def test_a_long_subject_is_cut_and_stays_a_name_of_its_own(doors: Doors) -> None:
    assert send_events(doors, event("1", subject="x" * 600), event("2", subject="x" * 601)).status == 204
    names = {stored["series"] for stored in doors.events()}
    assert len(names) == 2
    assert all(name.startswith("x" * 90 + "~") for name in names)


def test_a_binary_event_without_its_version_is_refused_as_an_event(doors: Doors) -> None:
    headers: dict[str, Any] = {"ce_id": "1", "ce_source": "/shop", "ce_type": "t"}
    reply = doors.call("POST", EVENTS, b"{}", stream="quakes", content_type="application/json", **headers)
    assert reply.status == 422
    assert reply.document["errors"][0]["detail"].startswith("specversion is missing")


def test_a_hundred_refused_events_are_listed(doors: Doors) -> None:
    reply = send_events(doors, *[event(str(number), time=OLD) for number in range(120)])
    assert (reply.document["rejected"], len(reply.document["errors"])) == (120, 100)


def test_queued_events_are_counted_beside_refused_ones(doors: Doors) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    found = send_events(doors, event("1"), event("2"), event("3", time=OLD), seconds=14).document
    assert (found["accepted"], found["queued"], found["rejected"]) == (0, 2, 1)


@pytest.mark.parametrize(("rate", "minutely"), [(200, "12000"), (0.5, "30"), (0.001, "1")])
def test_a_webhook_may_deliver_at_least_once_per_minute(rate: float, minutely: str) -> None:
    origin = {"webhook-request-origin": "events.example.com"}
    assert make_consent_headers(origin, rate)["WebHook-Allowed-Rate"] == minutely


@pytest.mark.parametrize(
    ("record", "detail"),
    [
        ({"series": None}, "the record has no field 'series'"),
        ({"data": {"series": "a"}}, "the record has no field 'series'"),
        ({"series": 10**40}, "the field 'series' is neither a text nor a whole number of at most 38 digits"),
        ({"series": ""}, "the field 'series' is neither a text"),
        ({"series": 1.5}, "the field 'series' is neither a text"),
        ({"series": ["a"]}, "the field 'series' is neither a text"),
        # Without its id, this event would be the same as the next one with the same data.
        ({"series": "a", "id": 1.5, "data": {"v": 1}}, "the field 'id' is neither a text"),
        ({"series": "a", "id": 10**38, "data": {"v": 1}}, "the field 'id' is neither a text"),
        ({"series": "a", "id": False, "data": {"v": 1}}, "the field 'id' is neither a text"),
        ({"series": "a", "id": [1], "v": 1}, "the field 'id' is neither a text"),
        ({"series": "a", "id": {"n": 1}, "v": 1}, "the field 'id' is neither a text"),
        ({"series": "a", "time": True}, "time: the field 'time' is neither"),
        ({"series": "a", "time": 1.5}, "time: the field 'time' is neither"),
    ],
)
def test_a_record_with_another_type_of_name_or_time_is_refused(doors: Doors, record: Any, detail: str) -> None:
    reply = send_records(doors, record)
    assert reply.status == 400
    assert f"record 0: {detail}" in reply.document["errorMessage"]
    assert doors.events() == []


def test_a_record_whose_data_is_no_object_is_kept_whole(doors: Doors) -> None:
    assert send_records(doors, {"series": "a", "data": 5}).status == 200
    assert doors.events()[0]["data"] == {"series": "a", "data": 5}


@pytest.mark.parametrize("id", ["", None])
def test_a_record_with_an_empty_id_has_the_id_of_its_content(doors: Doors, id: str | None) -> None:
    records = {"series": "a", "id": id, "data": {"v": 1}}, {"series": "a", "data": {"v": 2}}
    assert send_records(doors, *records).status == 200
    assert sorted((len(stored["id"]), stored["data"]["v"]) for stored in doors.events()) == [(32, 1), (32, 2)]


@pytest.mark.parametrize("name", ["series", "id"])
def test_a_record_whose_name_is_cut_keeps_it_in_its_data(doors: Doors, name: str) -> None:
    sent = {"series": "a", "id": "b", "data": {"v": 1}} | {name: "x" * 600}
    assert send_records(doors, sent).status == 200
    (stored,) = doors.events()
    assert (len(stored[name]), stored["data"]) == (90 + 1 + 32, sent)


def test_long_ids_of_records_are_cut_and_stay_apart(doors: Doors) -> None:
    assert send_records(doors, {"series": "a", "id": "x" * 600}, {"series": "a", "id": "x" * 601}).status == 200
    assert len({stored["id"] for stored in doors.events()}) == 2


@pytest.mark.parametrize(("count", "more"), [(5, False), (6, True)])
def test_the_message_counts_more_refusals_only_if_there_are_more(doors: Doors, count: int, more: bool) -> None:
    message = send_records(doors, *[{"n": number} for number in range(count)]).document["errorMessage"]
    assert message.endswith("; and 1 more") == more
    assert "and 0 more" not in message


def send_binary(doors: Doors, content_type: str, **headers: Any) -> Reply:
    return doors.call("POST", EVENTS, b"{}", stream="quakes", content_type=content_type, **headers)


BINARY = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop", "ce_type": "t", "ce_time": TIME}


@pytest.mark.parametrize("kind", ["application/cloudevents+xml", "Application/CloudEvents" + "x" * 60])
def test_another_form_of_cloudevents_is_not_the_binary_mode(doors: Doors, kind: str) -> None:
    reply = send_binary(doors, kind, **BINARY)
    assert (reply.status, doors.events()) == (415, [])
    assert reply.document["detail"].startswith(
        f"Content-Type {kind.lower()[:64]!r} is not understood: send application/"
    )
    assert send_binary(doors, "application/json", **BINARY).status == 204


@pytest.mark.parametrize(
    ("headers", "status", "detail"),
    [
        ({"ce_specversion": "1.0"}, 422, "id is missing"),
        ({"ce_id": "1"}, 422, "source is missing"),
        ({"ce_source": "/shop"}, 415, "this is not a CloudEvent"),
        (
            BINARY | {"ce_specversion": "0.3" + "x" * 20},
            422,
            "specversion '0.3xxxxxxxxxxxxx' is not understood: send 1.0",
        ),
        (BINARY | {"ce_subject": '""'}, 422, "subject must be a text of at least one character"),
    ],
)
def test_a_binary_event_that_lacks_something_is_told_what(
    doors: Doors, headers: dict[str, str], status: int, detail: str
) -> None:
    reply = send_binary(doors, "application/json", **headers)
    found = reply.document["errors"][0]["detail"] if status == 422 else reply.document["detail"]
    assert (reply.status, found[: len(detail)]) == (status, detail)


@pytest.mark.parametrize(
    ("subject", "series"),
    [('"a%20b"', "a b"), ('"a\\"b\\\\c"', 'a"b\\c'), ("%22a%22", '"a"'), ('"', '"'), ("a\\b", "a\\b")],
)
def test_an_attribute_in_a_header_is_decoded(doors: Doors, subject: str, series: str) -> None:
    """Percent-encoded and, in earlier versions of CloudEvents, in quotes."""
    assert send_binary(doors, "application/json", **BINARY, ce_subject=subject).status == 204
    assert [stored["series"] for stored in doors.events()] == [series]


@pytest.mark.parametrize(("series", "status"), [(10**38 - 1, 200), (1 - 10**38, 200), (10**38, 400), (-(10**38), 400)])
def test_a_whole_number_of_38_digits_is_a_name(doors: Doors, series: int, status: int) -> None:
    """DynamoDB holds no more digits."""
    assert send_records(doors, {"series": series}).status == status
    assert [stored["series"] for stored in doors.events()] == ([str(series)] if status == 200 else [])


def test_a_delivery_that_is_nested_too_deeply_is_refused_whole(doors: Doors) -> None:
    body = b'{"requestId":"r","more":' + b"[" * 40_000 + b"]" * 40_000 + b',"records":[]}'
    reply = doors.call("POST", FIREHOSE, body, stream="quakes", content_type="application/json")
    assert (reply.status, reply.document["errorMessage"][:38]) == (400, "the body is not a request of Firehose:")
