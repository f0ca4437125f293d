"""CloudEvents: the rules of the specification for attributes, headers, data and character sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worlds.doors import Doors, Reply

ROUTE = "/v1/streams/{stream}/cloudevents"
ONE, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
TIME = "2026-03-01T00:04:00Z"
HEADERS = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop", "ce_type": "t", "ce_time": TIME}


def event(**more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.paid", "time": TIME} | more


def post(doors: Doors, body: bytes | str, kind: str, **headers: Any) -> Reply:
    return doors.call("POST", ROUTE, body, stream="quakes", content_type=kind, **headers)


def send(doors: Doors, *events: Any) -> Reply:
    return post(doors, json.dumps(events), BATCH)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"specversion": ""}, "specversion is missing"),
        ({"specversion": 1.0}, "specversion is missing"),
        ({"specversion": "1"}, "specversion '1' is not understood"),
        ({"type": ""}, "type is missing"),
        ({"id": 5}, "id is missing"),
        ({"source": ""}, "source is missing"),
        ({"source": "a b"}, "source is not a URI reference"),
        ({"source": "/caf\u00e9"}, "source is not a URI reference"),
        ({"source": "/a%2"}, "source is not a URI reference"),
        ({"source": "/a#b#c"}, "source is not a URI reference"),
        ({"source": "<x>"}, "source is not a URI reference"),
        ({"subject": ""}, "subject must be a text of at least one character"),
        ({"subject": 5}, "subject must be a text of at least one character"),
        ({"dataschema": ""}, "dataschema is not a URI"),
        ({"dataschema": "/relative"}, "dataschema is not a URI"),
        ({"dataschema": 5}, "dataschema must be a text"),
        ({"datacontenttype": ""}, "datacontenttype is not a media type"),
        ({"datacontenttype": "json"}, "datacontenttype is not a media type"),
        ({"datacontenttype": "a/b;c"}, "datacontenttype is not a media type"),
        ({"datacontenttype": True}, "datacontenttype must be a text"),
        ({"time": "2026-03-01"}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": "2026-03-01 00:04:00Z"}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": "2026-03-01T00:04Z"}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": "2026-03-01T00:04:00+0000"}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": "2026-03-01T00:04:00"}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": ""}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": 1772323440000}, "time: a CloudEvent's time is RFC 3339"),
        ({"time": "2026-02-30T00:00:00Z"}, "time: "),
        ({"traceParent": "x"}, "the attribute 'traceParent' has a wrong name"),
        ({"trace-parent": "x"}, "the attribute 'trace-parent' has a wrong name"),
        ({"trace_parent": "x"}, "the attribute 'trace_parent' has a wrong name"),
        ({"": "x"}, "the attribute '' has a wrong name"),
        ({"caf\u00e9": "x"}, "the attribute 'caf\u00e9' has a wrong name"),
        ({"more": 1.5}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": 1.0}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": 2**31}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": -(2**31) - 1}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": {}}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": []}, "more must be a text, a boolean or a whole number of 32 bits"),
        ({"more": "a\nb"}, "more has a control character"),
        ({"id": "a\u0000"}, "id has a control character"),
        ({"type": "\u0085"}, "type has a control character"),
        ({"subject": "\ufffe"}, "subject has a control character, or a code point that is not a character"),
        ({"subject": "\U0010ffff"}, "subject has a control character, or a code point that is not a character"),
        ({"data": None, "data_base64": "AA=="}, "an event has data or data_base64, not both"),
        ({"data_base64": "*"}, "data_base64 is not a text in base64"),
        ({"data_base64": "AAA"}, "data_base64 is not a text in base64"),
        ({"data_base64": "-_8="}, "data_base64 is not a text in base64"),
        ({"data_base64": 5}, "data_base64 is not a text in base64"),
        ({"data_base64": "\u00e9"}, "data_base64 is not a text in base64"),
    ],
    ids=str,
)
def test_an_event_that_breaks_a_rule_is_refused_alone(doors: Doors, change: dict[str, Any], detail: str) -> None:
    reply = send(doors, event(id="0"), event(**change), event(id="2"))
    assert (reply.status, reply.document["accepted"]) == (422, 2)
    (error,) = reply.document["errors"]
    assert (error["index"], error["code"], error["detail"][: len(detail)]) == (1, "invalid", detail)


@pytest.mark.parametrize(
    "more",
    [
        {"source": "1-555-123-4567"},
        {"source": "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"},
        {"source": "https://user@[::1]:8080/a;b?c=d%20e&f#g"},
        {"source": "mailto:a@b.org"},
        {"dataschema": "urn:x"},
        {"datacontenttype": 'text/plain; charset="utf-8"; a=b'},
        {"datacontenttype": "application/vnd.x+json"},
        {"time": "2026-03-01t00:04:00.123456789z"},
        {"time": "2026-03-01T01:04:00+01:00"},
        {"comexampleextension1": "", "number": -(2**31), "more": 2**31 - 1, "flag": False, "0": "x"},
        {"averyverylongnameofanextension": "x"},
        {"data_base64": ""},
        {"data": None},
        {"subject": "\U0001f600 \u00e9"},
    ],
    ids=str,
)
def test_what_the_specification_allows_is_stored(doors: Doors, more: dict[str, Any]) -> None:
    assert send(doors, event(**more)).status == 204
    assert len(doors.events()) == 1


@pytest.mark.parametrize(
    "subject", ["%C3%28x", "%C0%A0", "%ED%A0%80", "%FF", "100%", "%zz", "%2", '"%C3%28"', "%F4%90%80%80", "a%0Ab"]
)
def test_a_header_that_cannot_be_decoded_is_refused(doors: Doors, subject: str) -> None:
    reply = post(doors, b"{}", "application/json", **HEADERS, ce_subject=subject)
    assert (reply.status, doors.events()) == (422, [])
    assert "subject" in reply.document["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("subject", "series"),
    [
        ("%c3%a9", "\u00e9"),
        ("%41", "A"),
        ("%25zz", "%zz"),
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro \u20ac \U0001f600"),
    ],
)
def test_a_header_is_decoded_once(doors: Doors, subject: str, series: str) -> None:
    assert post(doors, b"{}", "application/json", **HEADERS, ce_subject=subject).status == 204
    assert [stored["series"] for stored in doors.events()] == [series]


@pytest.mark.parametrize("header", ["ce_datacontenttype", "ce_data", "ce_two_words"])
def test_a_header_that_is_not_an_attribute_is_refused(doors: Doors, header: str) -> None:
    assert post(doors, b"{}", "application/json", **HEADERS, **{header: "text/plain"}).status == 422
    assert doors.events() == []


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("ISO-8859-1", "latin-1"),
        ("utf-16", "utf-16"),
        ("utf-16le", "utf-16-le"),
        ('"UTF-8"', "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("windows-1252", "cp1252"),
    ],
)
def test_a_body_is_decoded_by_its_charset(doors: Doors, charset: str, encoding: str) -> None:
    word = "caf\u00e9"
    batch = json.dumps([event(subject=word)], ensure_ascii=False).encode(encoding)
    assert post(doors, batch, f"{BATCH}; charset={charset}").status == 204
    assert (
        post(
            doors,
            json.dumps({"n": word}, ensure_ascii=False).encode(encoding),
            f"application/json;charset={charset}",
            **HEADERS,
        ).status
        == 204
    )
    assert (
        post(doors, word.encode(encoding), f"text/plain; charset={charset}", **(HEADERS | {"ce_id": "2"})).status == 204
    )
    assert [stored["series"] for stored in doors.events()] == ["/shop", "/shop", word]
    assert [stored["data"].get("n", stored["data"].get("value")) for stored in doors.events()[:2]] == [word, word]


def test_an_unknown_charset_loses_nothing(doors: Doors) -> None:
    """JSON is refused. A text is kept as bytes."""
    reply = post(doors, json.dumps(event()), f"{ONE}; charset=ebcdic")
    assert (reply.status, reply.document["code"]) == (400, "unparseable")
    assert "the charset 'ebcdic' is not understood: send UTF-8" in reply.document["detail"]
    assert post(doors, b"\xff", "text/plain; charset=ebcdic", **HEADERS).status == 204
    assert doors.events()[0]["data"]["data_base64"] == "/w=="


@pytest.mark.parametrize("kind", [ONE, BATCH])
def test_a_byte_order_mark_is_skipped(doors: Doors, kind: str) -> None:
    document: Any = event(data={"n": 1}) if kind == ONE else [event(data={"n": 1})]
    assert post(doors, b"\xef\xbb\xbf" + json.dumps(document).encode(), kind).status == 204
    assert doors.events()[0]["data"]["n"] == 1


def test_an_id_that_is_hashed_is_kept_as_an_attribute(doors: Doors) -> None:
    long = "x" * 600
    assert send(doors, event(id=long), event(id="short")).status == 204
    found = {stored["id"]: stored["data"]["ce"].get("id") for stored in doors.events()}
    assert found.pop("/shop short") is None
    assert list(found.values()) == [long]


@pytest.mark.parametrize("bad", ['"\\ud83d"', "1e999999999999999999999"])
def test_an_event_that_cannot_be_decoded_is_refused_alone(doors: Doors, bad: str) -> None:
    batch = json.dumps([event(id="0"), event(subject="BAD"), event(id="2")]).replace('"BAD"', bad)
    reply = post(doors, batch, BATCH)
    assert (reply.status, reply.document["accepted"], reply.document["errors"][0]["index"]) == (422, 2, 1)
    assert post(doors, batch + "]", BATCH).status == 400
    assert post(doors, json.dumps([event(subject="BAD"), *[event()] * 500]).replace('"BAD"', bad), BATCH).status == 413
