"""Convert CloudEvents 1.0 to events, in the three content modes over HTTP, and answer the handshake of webhooks.

An event is identified by its source and id. Its JSON object is the event's data, and its attributes are the field ``ce``.
Source of the rules: cloudevents/spec, "HTTP protocol binding", "JSON event format", "HTTP 1.1 web hooks".
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

from tidetable.config import Stream
from tidetable.config.stream import CloudEventsPolicy
from tidetable.dialects.door import Answer, Intake, Request
from tidetable.dialects.reading import Limits, Reading, refuse_too_many
from tidetable.dialects.series import fit_name
from tidetable.events import JsonObject
from tidetable.exact import decode_json, encode_json
from tidetable.ingest.bodies import Sent
from tidetable.ingest.outcome import LISTED, list_errors
from tidetable.ingest.unreadable import Unreadable
from tidetable.keys import MAX_NAME_BYTES, escape
from tidetable.problems import CONTENT_TYPE, Problem, refuse_request

_STRUCTURED, _BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
_PREFIX = "ce-"
_REQUIRED = ("id", "source", "specversion", "type")
_PAYLOAD = frozenset({"data", "data_base64"})
# An event has its own places for these attributes, so the field ``ce`` leaves them out.
_OWN = frozenset({"id", "time", "specversion"}) | _PAYLOAD
_ESCAPED = re.compile(r"\\(.)")
ATTRIBUTES, VALUE, OBJECT = "ce", "value", "object"


class CloudEventsDoor:
    """The door of CloudEvents. An event's place is its index.

    It answers 204 if all events are stored, 202 if some wait in the queue, otherwise with a problem that lists the
    refused events.
    """

    def find_stream(self, request: Request) -> str:
        return request.stream

    def read(self, request: Request, body: bytes, stream: Stream, limits: Limits) -> Reading:
        kind, headers = request.kind, request.headers
        if kind == _BATCH:
            events = _decode_body(body)
            if not isinstance(events, list):
                raise refuse_request(400, "unparseable", "a batch of CloudEvents is a JSON array")
            if len(events) > limits.most:
                raise refuse_too_many(limits.most)
        elif kind == _STRUCTURED:
            events = [_decode_body(body)]
        elif kind.startswith("application/cloudevents"):
            detail = f"Content-Type {kind[:64]!r} is not understood: send {_STRUCTURED}, {_BATCH}, or the binary mode"
            raise refuse_request(415, "unsupported_media_type", detail)
        elif f"{_PREFIX}specversion" in headers or f"{_PREFIX}id" in headers:
            events = [_read_binary(request, body)]
        else:
            modes = f"{_STRUCTURED}, {_BATCH}, or the headers of the binary mode, such as ce-id"
            raise refuse_request(415, "unsupported_media_type", f"this is not a CloudEvent: send {modes}")
        reading = Reading()
        for index, event in enumerate(events):
            reading.add(_read_event(event, stream.cloudevents), index)
        return reading

    def answer(self, intake: Intake) -> Answer:
        outcome = intake.outcome
        if not outcome.rejections:
            return Answer(202 if outcome.queued else 204)
        refused = len(outcome.rejections)
        counts = {"accepted": outcome.accepted, "queued": outcome.queued, "rejected": refused}
        more = counts | {"errors": list_errors(outcome.rejections[:LISTED])}
        if refused == len(intake.reading.values):
            problem = Problem(422, "all_refused", "every event was refused; nothing was written", more)
        else:
            problem = Problem(422, "some_refused", f"{refused} events are refused; the others are stored", more)
        return self.refuse(intake.request, problem)

    def refuse(self, _request: Request, problem: Problem) -> Answer:
        return Answer(problem.status, encode_json(problem.document()), CONTENT_TYPE, problem.headers)


def make_consent_headers(headers: Mapping[str, str], rate: float) -> Mapping[str, str]:
    """Return the headers that answer a webhook's handshake. Any origin may send, as each delivery needs a key."""
    origin = headers.get("webhook-request-origin")
    if not origin:
        return {}
    return {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": str(max(int(rate * 60), 1))}


def _decode_body(body: bytes) -> Any:
    try:
        return decode_json(body)
    except ValueError as error:
        raise refuse_request(400, "unparseable", f"the body is not JSON: {error}") from error


def _read_binary(request: Request, body: bytes) -> JsonObject:
    """Return the attributes from the headers and the data from the body, in the form of the structured mode."""
    kind = request.kind
    event: JsonObject = {
        name.removeprefix(_PREFIX): _decode_header(value)
        for name, value in request.headers.items()
        if name.startswith(_PREFIX)
    }
    if request.content_type:
        event["datacontenttype"] = request.content_type
    if not body:
        return event
    if kind == "application/json" or kind.endswith("+json"):
        event["data"] = _decode_body(body)
    elif not kind and (value := _try_json(body)) is not None:
        event["data"] = value
    elif kind.startswith("text/"):
        try:
            event["data"] = body.decode()
        except UnicodeDecodeError:
            event["data_base64"] = b64encode(body).decode()
    else:
        event["data_base64"] = b64encode(body).decode()
    return event


def _decode_header(value: str) -> str:
    """Decode an attribute in a header: percent-encoded and, in earlier versions, also quoted (RFC 7230, 3.2.6)."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    return unquote(value)


def _try_json(body: bytes) -> Any:
    """Return the JSON value of a body without a content type; None if the body is not JSON."""
    try:
        return decode_json(body)
    except ValueError:
        return None


def _read_event(event: Any, policy: CloudEventsPolicy) -> Sent | Unreadable:
    if not isinstance(event, dict):
        return Unreadable("a CloudEvent is a JSON object")
    # The JSON event format: an attribute that is null is not set. Data may be null.
    event = {name: value for name, value in event.items() if value is not None or name == "data"}
    for name in _REQUIRED:
        if not isinstance(event.get(name), str) or not event[name]:
            return Unreadable(f"{name} is missing: a CloudEvent has the texts {', '.join(_REQUIRED)}")
    if event["specversion"] != "1.0":
        return Unreadable(f"specversion {event['specversion'][:16]!r} is not understood: send 1.0")
    if event.keys() >= _PAYLOAD:
        return Unreadable("an event has data or data_base64, not both")
    subject = event.get("subject")
    if subject is not None and not (isinstance(subject, str) and subject):
        return Unreadable("subject must be a text of at least one character")
    series = event[policy.series] if event.get(policy.series) else event["source"]
    time = event.get("time")
    if time is not None and not isinstance(time, str):
        return Unreadable("time: a CloudEvent's time is RFC 3339 text with an offset")
    return Sent(fit_name(series), time, _make_id(event["source"], event["id"]), _make_data(event))


def _make_id(source: str, id: str) -> str:
    """Join source and id to one text. A source is a URI reference, without spaces, so each pair has its own text."""
    text = f"{source} {id}"
    if " " in source or len(escape(text).encode()) > MAX_NAME_BYTES:
        return sha256(f"{len(source)} {text}".encode()).hexdigest()[:32]
    return text


def _make_data(event: JsonObject) -> JsonObject:
    attributes = {name: value for name, value in event.items() if name not in _OWN}
    if "data_base64" in event:
        return {"data_base64": event["data_base64"], ATTRIBUTES: attributes}
    payload = event.get("data")
    if isinstance(payload, dict):
        data = payload if ATTRIBUTES not in payload else {OBJECT: payload}
        return {**data, ATTRIBUTES: attributes}
    return {ATTRIBUTES: attributes} if "data" not in event else {VALUE: payload, ATTRIBUTES: attributes}
