"""Convert CloudEvents 1.0 to events, in the three content modes over HTTP, and answer the handshake of webhooks.

An event is identified by its source and id. Its JSON object is the event's data, and its attributes are the field ``ce``.
Source of the rules: cloudevents/spec, "HTTP protocol binding", "JSON event format", "HTTP 1.1 web hooks".
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any

from doors.cloudevents_rules import PAYLOAD, decode_header, find_problem
from doors.door import Door, DoorAnswer, DoorRequest, Intake
from doors.reading import Limits, Reading, Row
from doors.series import fit_name
from tidetable.config import Stream
from tidetable.config.stream import CloudEventsPolicy
from tidetable.events import JsonObject
from tidetable.exact_json import decode_json, encode_json
from tidetable.ingest.outcome import LISTED, list_errors
from tidetable.ingest.unreadable import Unreadable, read_elements
from tidetable.layout import MAX_NAME_BYTES, escape
from tidetable.problems import CONTENT_TYPE, Problem, refuse_request

_STRUCTURED, _BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
_PREFIX = "ce-"
# An event has its own places for these attributes, so the field ``ce`` leaves them out.
_OWN = frozenset({"id", "time", "specversion"}) | PAYLOAD
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
# Names of the character sets that are decoded, and Python's names of them.
_CHARSETS = {
    **dict.fromkeys(("utf-8", "utf8", "us-ascii", "ascii"), "utf-8-sig"),
    **dict.fromkeys(("iso-8859-1", "latin1"), "latin-1"),
    **{name: name for name in ("windows-1252", "utf-16", "utf-16le", "utf-16be")},
}
ATTRIBUTES, VALUE, OBJECT = "ce", "value", "object"


class CloudEventsDoor(Door):
    """The door of CloudEvents. An event's place is its index.

    It answers 204 if all events are stored, 202 if some wait in the queue, otherwise with a problem that lists the
    refused events.
    """

    def read(self, request: DoorRequest, body: bytes, stream: Stream, limits: Limits) -> Reading:
        kind, headers = request.kind, request.headers
        if kind == _BATCH:
            events = _decode_body(request, body, partial(_decode_elements, most=limits.most))
            if not isinstance(events, list):
                raise refuse_request(400, "unparseable", "a batch of CloudEvents is a JSON array")
        elif kind == _STRUCTURED:
            events = [_decode_body(request, body)]
        elif kind.startswith("application/cloudevents"):
            detail = f"Content-Type {kind[:64]!r} is not understood: send {_STRUCTURED}, {_BATCH}, or the binary mode"
            raise refuse_request(415, "unsupported_media_type", detail)
        elif f"{_PREFIX}specversion" in headers or f"{_PREFIX}id" in headers:
            events = [_read_binary(request, body)]
        else:
            modes = f"{_STRUCTURED}, {_BATCH}, or the headers of the binary mode, such as ce-id"
            raise refuse_request(415, "unsupported_media_type", f"this is not a CloudEvent: send {modes}")
        reading = Reading(limits)
        for index, event in enumerate(events):
            reading.take([index], _read_event, event, stream.cloudevents)
        return reading

    def answer(self, intake: Intake) -> DoorAnswer:
        outcome = intake.outcome
        if not outcome.rejections:
            return DoorAnswer(202 if outcome.queued else 204)
        refused = len(outcome.rejections)
        counts = {"accepted": outcome.accepted, "queued": outcome.queued, "rejected": refused}
        more = counts | {"errors": list_errors(outcome.rejections[:LISTED])}
        if refused == len(intake.reading.places):
            problem = Problem(422, "all_refused", "every event was refused; nothing was written", more)
        else:
            problem = Problem(422, "some_refused", f"{refused} events are refused; the others are stored", more)
        return self.refuse(intake.request, problem)

    def refuse(self, _request: DoorRequest, problem: Problem) -> DoorAnswer:
        return DoorAnswer(problem.status, encode_json(problem.document()), CONTENT_TYPE, problem.headers)


def make_consent_headers(headers: Mapping[str, str], rate: float) -> Mapping[str, str]:
    """Return the headers that answer a webhook's handshake. Any origin may send, as each delivery needs a key."""
    origin = headers.get("webhook-request-origin")
    if not origin:
        return {}
    return {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": str(max(int(rate * 60), 1))}


def _decode_elements(text: str, most: int) -> Any:
    """Decode a batch; ``Unreadable`` for an element that cannot be decoded. ValueError if the batch is not JSON."""
    try:
        return decode_json(text)
    except ValueError:
        if not text.lstrip().startswith("["):
            raise
        return list(islice(read_elements(text), most + 1))


def _decode_body(request: DoorRequest, body: bytes, decode: Callable[[str], Any] = decode_json) -> Any:
    try:
        return decode(_decode_text(request, body))
    except ValueError as error:
        raise refuse_request(400, "unparseable", f"the body is not JSON: {error}") from error


def _decode_text(request: DoorRequest, body: bytes) -> str:
    """Decode a body by the character set of its type, by default UTF-8; ValueError if that fails."""
    charset = _CHARSET.search(request.content_type)
    name = charset[1].lower() if charset is not None else "utf-8"
    if name not in _CHARSETS:
        raise ValueError(f"the charset {name[:32]!r} is not understood: send UTF-8")
    return body.decode(_CHARSETS[name])


def _read_binary(request: DoorRequest, body: bytes) -> JsonObject | Unreadable:
    """Return the attributes from the headers and the data from the body, in the form of the structured mode."""
    event: JsonObject = {}
    for header, value in request.headers.items():
        name = header.removeprefix(_PREFIX)
        if name == header:
            continue
        if name in PAYLOAD or name == "datacontenttype":
            return Unreadable(
                f"{header} is not an attribute in a header: the data is the body, its type is Content-Type"
            )
        try:
            event[name] = decode_header(value)
        except ValueError as error:
            return Unreadable(f"{header[:64]} {error}")
    if request.content_type:
        event["datacontenttype"] = request.content_type
    return event | _read_payload(request, body)


def _read_payload(request: DoorRequest, body: bytes) -> JsonObject:
    """Return the data of a body, as JSON, text or base64."""
    kind = request.kind
    if not body:
        return {}
    if kind.endswith(("/json", "+json")):
        return {"data": _decode_body(request, body)}
    if not kind and (value := _try_json(body)) is not None:
        return {"data": value}
    if kind.startswith("text/"):
        with suppress(ValueError):
            return {"data": _decode_text(request, body)}
    return {"data_base64": b64encode(body).decode()}


def _try_json(body: bytes) -> Any:
    """Return the JSON value of a body without a content type; None if the body is not JSON."""
    try:
        return decode_json(body)
    except ValueError:
        return None


def _read_event(event: Any, policy: CloudEventsPolicy) -> Row:
    """Return the series, the time, the id and the data of an event; ValueError says what is wrong."""
    if isinstance(event, Unreadable):
        raise ValueError(event.reason)
    if not isinstance(event, dict):
        raise ValueError("a CloudEvent is a JSON object")
    # The JSON event format: an attribute that is null is not set. Data may be null.
    event = {name: value for name, value in event.items() if value is not None or name == "data"}
    if (problem := find_problem(event)) is not None:
        raise ValueError(problem)
    series = event.get(policy.series) or event["source"]
    # A source is a URI reference, without spaces, so each pair has its own text.
    id = f"{event['source']} {event['id']}"
    is_long = len(escape(id).encode()) > MAX_NAME_BYTES
    # Otherwise the event's own id could not be read any more.
    own = _OWN - {"id"} if is_long else _OWN
    id = sha256(id.encode()).hexdigest()[:32] if is_long else id
    return fit_name(series), event.get("time"), id, _make_data(event, own)


def _make_data(event: JsonObject, left_out: Set[str]) -> JsonObject:
    attributes = {name: value for name, value in event.items() if name not in left_out}
    if "data_base64" in event:
        return {"data_base64": event["data_base64"], ATTRIBUTES: attributes}
    payload = event.get("data")
    if isinstance(payload, dict):
        data = payload if ATTRIBUTES not in payload else {OBJECT: payload}
        return {**data, ATTRIBUTES: attributes}
    return {ATTRIBUTES: attributes} if "data" not in event else {VALUE: payload, ATTRIBUTES: attributes}
