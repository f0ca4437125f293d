"""Requests of Amazon Data Firehose to an HTTP endpoint: records of JSON as events.

Source: "Understand HTTP endpoint delivery request and response specifications" in Firehose's developer guide. After an
error Firehose sends the whole request again, and in the end keeps it in the delivery stream's bucket. Only the answer
413 is final: Firehose does not send the request again, and does not keep it.
"""

from __future__ import annotations

from base64 import b64decode
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from doors.door import Door, DoorAnswer, DoorRequest, Intake
from doors.reading import Limits, Reading, Row, describe_refusals
from doors.series import fit_name
from tidetable.config import Stream
from tidetable.config.stream import FirehosePolicy
from tidetable.events import JsonObject
from tidetable.exact_json import decode_json
from tidetable.ingest.unreadable import Unreadable, find_lone_surrogate
from tidetable.layout import find_value
from tidetable.problems import Problem, refuse_request
from tidetable.times import to_micros

_EVENT = frozenset({"series", "time", "id", "data"})
_BEYOND = 10**38
# A message has at most this many reasons.
_NAMED = 5


class FirehoseRecord(msgspec.Struct, gc=False):
    data: str


class FirehoseDelivery(msgspec.Struct, rename="camel"):
    """A request: its records in base64, its id (the same in each attempt), and its time in epoch milliseconds.

    ``records`` has no default: the answer 200 to JSON that is not a request of Firehose would say that it is stored.
    """

    records: Sequence[FirehoseRecord]
    request_id: str = ""
    timestamp: int = 0


class FirehoseDoor(Door):
    """The door of Firehose, which wants its request's id and a time in each answer.

    An event's place is the number of its record, from 0. A record may hold lines of JSON.
    """

    def read(self, _request: DoorRequest, body: bytes, stream: Stream, limits: Limits) -> Reading:
        try:
            delivery = msgspec.json.decode(body.removeprefix(BOM_UTF8), type=FirehoseDelivery)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise refuse_request(400, "unparseable", f"the body is not a request of Firehose: {error}") from error
        reading = Reading(limits)
        for number, record in enumerate(delivery.records):
            for value in _list_values(record):
                reading.take([number], _read_value, value, stream.firehose, delivery.timestamp or None)
        return reading

    def answer(self, intake: Intake) -> DoorAnswer:
        refusals = intake.refusals
        if not refusals:
            return _make_answer(intake.request, 200)
        stored = len(intake.reading.places) - len(refusals)
        reasons = describe_refusals(refusals, "record", _NAMED)
        message = f"{len(refusals)} events are refused, {stored} are stored: {reasons}"
        return _make_answer(intake.request, 400, message)

    def refuse(self, request: DoorRequest, problem: Problem) -> DoorAnswer:
        # After 413 Firehose loses the records; after any other error it keeps them in the delivery stream's bucket.
        status = 400 if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else problem.status
        return _make_answer(request, status, problem.detail)


def _make_answer(request: DoorRequest, status: int, message: str = "") -> DoorAnswer:
    id = request.headers.get("x-amz-firehose-request-id", "")
    document = {"requestId": id, "timestamp": to_micros(request.now) // 1000}
    return DoorAnswer.json(status, document | ({"errorMessage": message} if message else {}))


def _list_values(record: FirehoseRecord) -> Iterator[Any]:
    """Yield the values of a record: one, or one per line; ``Unreadable`` for what cannot be decoded."""
    try:
        content = b64decode(record.data, validate=True).removeprefix(BOM_UTF8)
    except ValueError:
        yield Unreadable("data is not base64")
        return
    if not content or content.isspace():
        return  # an empty record has nothing that could be lost; Firehose would send a refused request again and again
    try:
        yield decode_json(content)
        return
    except ValueError as error:
        lines = [line for line in content.split(b"\n") if line and not line.isspace()]
        if len(lines) < 2:
            reason = find_lone_surrogate(content) or error
            yield Unreadable(f"a record is a JSON object, or lines of them: {reason}")
            return
    for line in lines:
        try:
            yield decode_json(line.removeprefix(BOM_UTF8))
        except ValueError as error:
            yield Unreadable(find_lone_surrogate(line) or f"a line of the record is not JSON: {error}")


def _read_value(value: Any, policy: FirehosePolicy, timestamp: int | None) -> Row:
    """Return the series, the time, the id and the data of a value; ValueError says what is wrong."""
    if isinstance(value, Unreadable):
        raise ValueError(value.reason)
    if not isinstance(value, dict):
        raise ValueError("a record is a JSON object")
    series, time, id = (find_value(value, path) for path in (policy.series, policy.time, policy.id))
    if series is None:
        raise ValueError(
            f"the record has no field {policy.series!r}: name its series in [streams.NAME.firehose] series"
        )
    id = None if id == "" else id
    names = _convert_name(series), _convert_name(id)
    for path, sent, name in zip((policy.series, policy.id), (series, id), names, strict=True):
        # Without its id, an event could be the same as another one.
        if sent is not None and name is None:
            raise ValueError(f"the field {path!r} is neither a text nor a whole number of at most 38 digits")
    fitted = tuple(name and fit_name(name) for name in names)
    data: JsonObject = value.get("data", {})
    # If a name is cut, or another field has its place, the whole record is the data, so that no value is lost.
    own = _EVENT & {policy.series, policy.time, policy.id, "data"}
    if not (value.keys() <= own and isinstance(data, dict) and fitted == names):
        data = value
    if time is None:
        time = timestamp
    if not (time is None or type(time) is int or isinstance(time, str)):
        raise ValueError(f"time: the field {policy.time!r} is neither RFC 3339 text nor whole epoch milliseconds")
    return fitted[0] or "", time, fitted[1], data


def _convert_name(value: Any) -> str | None:
    """Return a text or a whole number as a name; None for any other value."""
    if type(value) is int:
        return str(value) if abs(value) < _BEYOND else None
    return value if isinstance(value, str) and value else None
