"""Firehose: records become events, and each answer has the form that Firehose takes."""

import base64
import gzip
import json
from typing import Any

import pytest

from tests.worlds.doors import Doors, Reply, config
from tidetable.config.stream import FirehosePolicy

ROUTE = "/v1/streams/{stream}/firehose"
# 2026-03-01T00:04:00Z, as Firehose's documentation shows a request: requestId, timestamp, records.
STAMP = 1_772_323_440_000
# 2026-03-01T00:05:00Z, the worlds' time.
NOW = 1_772_323_500_000
REQUEST = "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"


def record(value: Any) -> dict[str, str]:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return {"data": base64.b64encode(content).decode()}


def send(doors: Doors, *records: Any, body: bytes | None = None) -> Reply:
    document = {"requestId": REQUEST, "timestamp": STAMP, "records": list(records)}
    return doors.call(
        "POST",
        ROUTE,
        json.dumps(document) if body is None else body,
        stream="quakes",
        content_type="application/json",
        x_amz_firehose_request_id=REQUEST,
        x_amz_firehose_protocol_version="1.0",
    )


def test_records_are_events_and_the_answer_repeats_the_id(doors: Doors) -> None:
    reply = send(
        doors,
        record({"series": "a", "time": "2026-03-01T00:03:00Z", "id": "1", "data": {"n": 1}}),
        record({"series": "b", "id": 2, "n": 5}),
        record(b'{"series": "c", "n": 1}\n{"series": "c", "n": 2}\n\n'),
    )
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.document == {"requestId": REQUEST, "timestamp": NOW}
    found = {(event["series"], event["id"]): (event["time"], event["data"]) for event in doors.events()}
    assert found["a", "1"] == ("2026-03-01T00:03:00.000000Z", {"n": 1})
    assert found["b", "2"] == ("2026-03-01T00:04:00.000000Z", {"series": "b", "id": 2, "n": 5})
    assert len(found) == 4


def test_the_same_request_again_changes_nothing(doors: Doors) -> None:
    for _ in range(2):
        assert send(doors, record({"series": "b", "n": 5}), record({"series": "b", "n": 6})).status == 200
    assert len(doors.events()) == 2


def test_the_configuration_names_the_fields() -> None:
    doors = Doors(config(firehose=FirehosePolicy(series="device.id", time="at", id="seq")))
    sent = {"device": {"id": 7}, "at": STAMP - 5000, "seq": "s1", "data": 3}
    assert send(doors, record(sent)).status == 200
    assert doors.events() == [
        {"series": "7", "time": "2026-03-01T00:03:55.000000Z", "id": "s1", "data": sent},
    ]


@pytest.mark.parametrize("name", ["series", "time", "id"])
def test_a_field_whose_place_another_field_has_is_kept(name: str) -> None:
    doors = Doors(config(firehose=FirehosePolicy(**{name: "data.key"})))
    sent = {"series": "a", "time": "2026-03-01T00:03:00Z", "id": "b", "data": {"key": "2026-03-01T00:02:00Z"}}
    assert send(doors, record(sent)).status == 200
    assert [event["data"] for event in doors.events()] == [sent]


def test_a_gzip_body_is_inflated(doors: Doors) -> None:
    body = gzip.compress(json.dumps({"records": [record({"series": "a"})]}).encode())
    assert send(doors, body=body).status == 200


def test_refused_records_make_the_whole_request_come_again_with_the_others_stored(doors: Doors) -> None:
    reply = send(
        doors,
        record({"series": "a"}),
        record(b"no json"),
        record({"n": 1}),
        {"data": "%"},
        record([1]),
        record({"series": "a", "time": 5}),
    )
    assert reply.status == 400
    message = reply.document["errorMessage"]
    assert message.startswith("5 events are refused, 1 are stored: record 1: a record is a JSON object")
    assert "record 2: the record has no field 'series': name its series in [streams.NAME.firehose] series" in message
    assert "record 3: data is not base64" in message
    assert "record 5: 1970-01-01T00:00:00.005000Z is before" in message
    assert reply.document["requestId"] == REQUEST
    assert len(doors.events()) == 1


def test_five_refusals_are_described_and_the_others_counted(doors: Doors) -> None:
    reply = send(doors, *[record({"n": number}) for number in range(7)])
    message = reply.document["errorMessage"]
    assert message.startswith("7 events are refused, 0 are stored: record 0: ")
    assert "; record 4: " in message
    assert "record 5" not in message
    assert message.endswith("; and 2 more")


@pytest.mark.parametrize("body", [b"", b"{", b'{"records": 1}', b'{"records": [{"data": 5}]}', b'{"series": "a"}'])
def test_a_body_that_is_no_request_is_400_in_its_form(doors: Doors, body: bytes) -> None:
    reply = send(doors, body=body)
    assert (reply.status, reply.document["requestId"]) == (400, REQUEST)
    assert "not a request of Firehose" in reply.document["errorMessage"]


def test_too_much_is_not_413_because_firehose_would_drop_it(doors: Doors) -> None:
    assert send(doors, *[record({"series": "a", "n": n}) for n in range(501)]).status == 400
    assert send(doors, body=b"x" * 100_001).status == 400
    assert doors.events() == []
    assert send(doors, *[record({"series": "a", "n": n}) for n in range(500)]).status == 200
    assert len(doors.events()) == 500


def test_what_is_lost_is_503(doors: Doors) -> None:
    doors.store.throttles, doors.overflow.refuses = {"tidetable-t.quakes.2026-03-01"}, True
    reply = send(doors, record({"series": "a"}))
    assert (reply.status, reply.document["requestId"]) == (503, REQUEST)


@pytest.mark.parametrize("empty", [b"", b"\n", b" \r\n\t", b"\xef\xbb\xbf"])
def test_an_empty_record_is_skipped(doors: Doors, empty: bytes) -> None:
    """Otherwise Firehose would send its whole request again, until its retries end."""
    assert send(doors, record(empty), record({"series": "a"}), record(empty)).status == 200
    assert [event["series"] for event in doors.events()] == ["a"]
    assert send(doors, record(empty)).status == 200


def test_byte_order_marks_are_skipped(doors: Doors) -> None:
    mark = b"\xef\xbb\xbf"
    one, lines = mark + b'{"series": "a"}', mark + b'{"series": "b"}\n' + mark + b'{"series": "c"}\n'
    document = {"requestId": REQUEST, "timestamp": STAMP, "records": [record(one), record(lines)]}
    assert send(doors, body=mark + json.dumps(document).encode()).status == 200
    assert [event["series"] for event in doors.events()] == ["a", "b", "c"]


def test_records_that_differ_only_beyond_the_microsecond_stay_apart(doors: Doors) -> None:
    times = [f"2026-03-01T00:03:00.123456{rest}Z" for rest in ("", "7", "78")]
    assert send(doors, *[record({"series": "a", "time": time, "data": {"n": 1}}) for time in times]).status == 200
    assert [event["time"] for event in doors.events()] == ["2026-03-01T00:03:00.123456Z"] * 3
