"""CloudEvents: the three content modes, the answers, and the handshake of webhooks."""

import json
from typing import Any

import pytest

from tests.worlds.doors import Doors, Reply, config
from tidetable.config.stream import CloudEventsPolicy

ROUTE = "/v1/streams/{stream}/cloudevents"
ONE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
TIME, OLD = "2026-03-01T00:04:00Z", "2026-01-01T00:00:00Z"


def event(id: str = "1", **more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.paid", "time": TIME} | more


def send(doors: Doors, document: Any, kind: str = ONE, **headers: Any) -> Reply:
    body = document if isinstance(document, bytes) else json.dumps(document)
    return doors.call("POST", ROUTE, body, stream="quakes", content_type=kind, **headers)


def test_a_structured_event_is_stored(doors: Doors) -> None:
    sent = event(subject="o-17", dataschema="http://s", traceparent="00-1", data={"total": 4.5, "lines": [1]})
    reply = send(doors, sent, f"{ONE}; charset=utf-8")
    assert (reply.status, reply.body) == (204, b"")
    assert "content-type" not in reply.headers
    (stored,) = doors.events()
    assert (stored["series"], stored["id"], stored["time"]) == ("o-17", "/shop 1", "2026-03-01T00:04:00.000000Z")
    assert stored["data"]["ce"] == {
        "source": "/shop", "type": "order.paid", "subject": "o-17", "dataschema": "http://s", "traceparent": "00-1",
    }  # fmt: skip
    assert (float(stored["data"]["total"]), stored["data"]["lines"]) == (4.5, [1])


def test_a_binary_event_is_stored_with_its_headers_decoded(doors: Doors) -> None:
    headers: dict[str, Any] = {
        "ce_id": "2",
        "ce_specversion": "1.0",
        "ce_source": "/shop",
        "ce_type": "t",
        "ce_time": TIME,
    }
    reply = send(doors, b'{"n": 1}', "application/json", ce_subject="caf%C3%A9%20%25", **headers)
    assert reply.status == 204
    (stored,) = doors.events()
    assert stored["series"] == "café %"
    assert stored["data"] == {
        "n": 1,
        "ce": {"source": "/shop", "type": "t", "subject": "café %", "datacontenttype": "application/json"},
    }


def test_header_values_in_quotes_are_decoded(doors: Doors) -> None:
    """The protocol binding, 3.1.3.2: they MUST be supported, as earlier versions of it allowed them. Percents come after."""
    headers: dict[str, Any] = {"ce_id": '"2"', "ce_specversion": '"1.0"', "ce_source": "/shop", "ce_type": "t"}
    assert send(doors, b"{}", "application/json", ce_subject=r'"a \"b\" \\%20c"', ce_time=TIME, **headers).status == 204
    (stored,) = doors.events()
    assert (stored["series"], stored["id"]) == (r'a "b" \ c', "/shop 2")


def test_an_attribute_that_is_null_is_not_set(doors: Doors) -> None:
    """The JSON event format, 2.2: a null value MUST be treated as an unset attribute."""
    assert send(doors, event(subject=None, dataschema=None, data={"n": 1}, data_base64=None)).status == 204
    (stored,) = doors.events()
    assert (stored["series"], stored["data"]) == ("/shop", {"n": 1, "ce": {"source": "/shop", "type": "order.paid"}})


@pytest.mark.parametrize(
    ("kind", "body", "data"),
    [
        ("text/plain", b"hello", {"value": "hello"}),
        ("image/png", b"\x89P", {"data_base64": "iVA="}),
        ("text/plain", b"\xff", {"data_base64": "/w=="}),
        ("application/vnd.x+json", b"[1]", {"value": [1]}),
        ("application/json", b"null", {"value": None}),
        ("", b"", {}),
        ("", b'{"n": 1}', {"n": 1}),
        ("", b"\xff", {"data_base64": "/w=="}),
    ],
)
def test_other_bodies_of_the_binary_mode_are_kept(doors: Doors, kind: str, body: bytes, data: dict[str, Any]) -> None:
    headers: dict[str, Any] = {
        "ce_id": "2",
        "ce_specversion": "1.0",
        "ce_source": "/shop",
        "ce_type": "t",
        "ce_time": TIME,
    }
    assert send(doors, body, kind, **headers).status == 204
    stored = doors.events()[0]["data"]
    del stored["ce"]
    assert stored == data


def test_a_batch_is_stored_and_the_same_again_changes_nothing(doors: Doors) -> None:
    batch = [event(str(n), data={"n": n}) for n in range(20)]
    for _ in range(2):
        assert send(doors, batch, BATCH).status == 204
    assert sorted(stored["data"]["n"] for stored in doors.events()) == list(range(20))
    assert send(doors, [], BATCH).status == 204


def test_source_and_id_identify_an_event_whatever_they_hold(doors: Doors) -> None:
    batch = [
        event("b c", source="a"),
        event("c", source="a%20b"),
        event("x" * 600),
        event("x" * 601),
        event("c", source="a"),
    ]
    assert send(doors, batch, BATCH).status == 204
    assert len({stored["id"] for stored in doors.events()}) == 5


@pytest.mark.parametrize(("policy", "series"), [("subject", "s"), ("source", "/shop"), ("type", "order.paid")])
def test_the_configuration_chooses_the_series(policy: Any, series: str) -> None:
    doors = Doors(config(cloudevents=CloudEventsPolicy(series=policy)))
    send(doors, event(subject="s"))
    assert doors.events()[0]["series"] == series


def test_without_a_subject_the_source_is_the_series(doors: Doors) -> None:
    send(doors, event())
    assert doors.events()[0]["series"] == "/shop"


def test_data_with_a_field_ce_is_kept_whole(doors: Doors) -> None:
    send(doors, event(data={"ce": 1, "n": 2}))
    assert doors.events()[0]["data"]["object"] == {"ce": 1, "n": 2}


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"id": ""}, "id is missing"),
        ({"source": None}, "source is missing"),
        ({"type": 5}, "type is missing"),
        ({"specversion": "0.3"}, "send 1.0"),
        ({"data": 1, "data_base64": "AA=="}, "not both"),
        ({"subject": ""}, "subject must be"),
        ({"time": 5}, "RFC 3339"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": OLD}, "is before"),
    ],
)
def test_an_event_that_is_none_is_refused_with_the_reason(doors: Doors, change: dict[str, Any], detail: str) -> None:
    reply = send(doors, event(**change))
    assert (reply.status, reply.headers["content-type"]) == (422, "application/problem+json")
    assert reply.document["code"] == "all_refused"
    assert detail in reply.document["errors"][0]["detail"]
    assert doors.events() == []


def test_the_good_events_of_a_batch_are_stored_before_it_is_answered(doors: Doors) -> None:
    reply = send(doors, [event("1"), event("2", time=OLD), 5, event("3")], BATCH)
    assert (reply.status, reply.document["code"], reply.document["accepted"]) == (422, "some_refused", 2)
    assert [(error["index"], error["code"]) for error in reply.document["errors"]] == [(1, "too_old"), (2, "invalid")]
    assert len(doors.events()) == 2


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        (ONE, b"{", 400),
        (BATCH, b"{}", 400),
        ("application/cloudevents+xml", b"<e/>", 415),
        ("application/json", b"{}", 415),
        (BATCH, json.dumps([event()] * 501).encode(), 413),
    ],
)
def test_a_request_that_is_none_is_refused_whole(doors: Doors, kind: str, body: bytes, status: int) -> None:
    assert send(doors, body, kind).status == status


def test_what_is_queued_is_202_and_what_is_lost_503(doors: Doors) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    assert doors.call("POST", ROUTE, json.dumps(event()), stream="quakes", content_type=ONE, seconds=14).status == 202
    doors.overflow.refuses = True
    reply = doors.call("POST", ROUTE, json.dumps(event()), stream="quakes", content_type=ONE, seconds=14)
    assert (reply.status, reply.headers["retry-after"], reply.document["code"]) == (503, "5", "not_durable")


def test_the_handshake_of_webhooks_is_answered(doors: Doors) -> None:
    reply = doors.call("OPTIONS", ROUTE, stream="quakes", webhook_request_origin="events.example.com")
    assert reply.status == 204
    assert reply.headers["webhook-allowed-origin"] == "events.example.com"
    assert reply.headers["webhook-allowed-rate"] == "3000"
    assert "webhook-allowed-origin" not in doors.call("OPTIONS", ROUTE, stream="quakes").headers


def test_another_streams_key_is_403(doors: Doors) -> None:
    doors.caller = {"key_id": "k", "streams": "other", "can": "write", "series_prefix": ""}
    assert send(doors, event()).document["code"] == "forbidden"


def test_a_batch_has_as_many_events_as_the_door_takes(doors: Doors) -> None:
    """Five requests of 100 events, which is what this configuration takes."""
    assert send(doors, [event(str(number)) for number in range(501)], BATCH).status == 413
    assert doors.events() == []
    assert send(doors, [event(str(number)) for number in range(500)], BATCH).status == 204
    assert len(doors.events()) == 500
