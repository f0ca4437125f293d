"""The verdict on one event of a request: what is to be written, or the reason why it is refused, with a stable code."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from tidetable.access import describe_prefix
from tidetable.batch import decode_data
from tidetable.errors import InvalidTime
from tidetable.events import Event, JsonObject
from tidetable.exact_json import canonical_json, encode_json
from tidetable.forms.choose import choose_form
from tidetable.ingest.bodies import Sent
from tidetable.ingest.context import RequestContext
from tidetable.ingest.rejection import Code
from tidetable.ingest.unreadable import Unreadable, find_lone_surrogate
from tidetable.layout import MAX_NAME_BYTES, escape
from tidetable.times import from_text, identify_time, parse_stamp, to_text
from tidetable.values import MAX_ITEM_BYTES

# A text of at most this many characters is never too long: a character takes at most four bytes, escaped and in UTF-8.
SURELY_SHORT = MAX_NAME_BYTES // 4
_FIELDS = frozenset({"series", "time", "id", "data"})


class Judged(NamedTuple):
    """An event that is accepted: its time as text, its series, its id, its data, and its bytes as an item."""

    time: str
    series: str
    id: str
    data: JsonObject
    size: int


def judge_event(context: RequestContext, value: Any) -> Judged | tuple[Code, str]:
    """Return the event of a decoded value, or the code and the detail of its rejection."""
    try:
        time, series, id, data = _read_event(value, context)
        event = Event(series, from_text(time), id, data)
        size = choose_form(context.rules.layout).measure(event, context.at)
    except ValueError as error:
        return "invalid", str(error)
    return _find_refusal(context, event, size) or Judged(time, series, id, data, size)


def _find_refusal(context: RequestContext, event: Event, size: int) -> tuple[Code, str] | None:
    """Return why a readable event is refused; None if it is accepted."""
    if not context.access.covers(event.series):
        return "forbidden_series", describe_prefix(context.access.series_prefix)
    for index in context.rules.layout.indexes:
        if (problem := index.find_problem(event)) is not None:
            return "invalid", problem
    if size > MAX_ITEM_BYTES and not context.stream.shrinks:
        entries = " and its entries in local indexes" if context.rules.layout.local_indexes else ""
        return "too_large", f"the event takes {size} bytes as an item{entries}; DynamoDB holds at most {MAX_ITEM_BYTES}"
    time, window = event.time, context.window
    if window.is_too_old(time) and not context.takes_import(time):
        reason = f"this stream takes events up to {context.stream.late} late; to import history, open its time with"
        reason += f" `tidetable backfill {context.stream.name} FROM TO`"
        return "too_old", f"{to_text(time)} is before {to_text(window.oldest)}: {reason}"
    if window.is_too_new(time):
        return "too_new", f"{to_text(time)} is after {to_text(window.newest)}: check the sender's clock"
    return None


def _read_event(value: Any, context: RequestContext) -> tuple[str, str, str, JsonObject]:
    """Return the time as text, the series, the id and the data of a decoded value; ValueError says what is wrong."""
    sent = value if type(value) is Sent else _read_fields(value)
    series = _check_name(sent.series, "series")
    try:
        time = to_text(context.now) if sent.time is None else parse_stamp(sent.time)[1]
    except InvalidTime as error:
        raise ValueError(f"time: {error}") from error
    try:
        data = decode_data(sent.data)
    except ValueError as error:
        raise ValueError(find_lone_surrogate(encode_json(sent)) or f"this event cannot be read: {error}") from error
    if sent.id is not None:
        return time, series, _check_name(sent.id, "id"), data
    return time, series, hash_content(series, None if sent.time is None else identify_time(sent.time, time), data), data


def _read_fields(value: Any) -> Sent:
    """Read the fields of a value that the typed decoder did not accept."""
    if isinstance(value, Unreadable):
        raise ValueError(value.reason)
    if not isinstance(value, dict):
        raise ValueError("an event is a JSON object with series, and optionally time, id and data")
    unknown = value.keys() - _FIELDS
    if unknown:
        raise ValueError(
            f"unknown field {min(unknown)[:64]!r}: an event has series, time, id and data; put the rest into data"
        )
    if "series" not in value:
        raise ValueError("series is missing: say what the event is about, such as a device or a user")
    data = value.get("data", {})
    if not isinstance(data, dict):
        raise ValueError("data must be a JSON object")
    return Sent(value["series"], value.get("time"), value.get("id"), data)


def _check_name(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field} must be a text of at least one character")
    if len(value) <= SURELY_SHORT:
        return value
    if len(value) > MAX_NAME_BYTES or len(escape(value).encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{field} is too long: at most {MAX_NAME_BYTES} bytes of UTF-8, # and % counting three each")
    return value


def hash_content(series: str, time: str | None, data: JsonObject) -> str:
    """Return a hash of the sent content: 128 bits as 32 hexadecimal digits. So it is harmless to send the event again.

    ``time`` is the text of ``identify_time``, None for an event without a time.
    """
    return sha256(canonical_json((series, time, data))).hexdigest()[:32]
