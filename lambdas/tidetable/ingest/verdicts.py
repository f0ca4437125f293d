"""The verdict on each value of a request: an event that may be written, or a rejection with a stable code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from tidetable.access import describe_prefix
from tidetable.errors import InvalidTime
from tidetable.events import Event, JsonObject
from tidetable.exact_json import canonical_json
from tidetable.ingest.bodies import Sent
from tidetable.ingest.context import RequestContext
from tidetable.ingest.submission import Code, Rejection, Submission
from tidetable.ingest.unreadable import Unreadable
from tidetable.layout import MAX_NAME_BYTES, escape
from tidetable.times import identify_time, parse_stamp, to_text
from tidetable.values import MAX_ITEM_BYTES, is_plain

# A text of at most this many characters is never too long: a character takes at most four bytes, escaped and in UTF-8.
SURELY_SHORT = MAX_NAME_BYTES // 4
_FIELDS = frozenset({"series", "time", "id", "data"})


def judge_all(context: RequestContext, values: Sequence[Any], *, small: bool = False) -> list[Submission | Rejection]:
    """Return the verdict on each value. The default time is the arrival, the default id a hash of the content.

    ``small`` says that no event needs to be measured: the request is too small to hold an event beyond DynamoDB's limit.
    """
    now, at, prefix, indexes = context.now, context.at, context.access.series_prefix, context.layout.indexes
    make_item, oldest, newest = context.layout.make_item, context.window.oldest, context.window.newest
    measure = context.layout.measure
    verdicts: list[Submission | Rejection] = []
    for index, sent in enumerate(values):
        try:
            event, stamp = _read_event(sent, now)
            item = make_item(event, stamp, at)
            # A value of usual types and numbers is measured only if an event of a request of this size can exceed the
            # limit.
            size = 0 if small and type(sent) is Sent and is_plain(event.data) else measure(item)
        except ValueError as error:
            verdicts.append(Rejection.of(index, sent, "invalid", str(error)))
            continue
        # Only an event that may be refused is checked closely. These are the tests of ``Window`` and ``Access``
        # without a call per event.
        doubtful = indexes or size > MAX_ITEM_BYTES or not oldest <= event.time <= newest
        doubtful = doubtful or not event.series.startswith(prefix)
        refusal = _find_refusal(context, event, size) if doubtful else None
        if refusal is None:
            verdicts.append(Submission(index, sent, event, item, size))
        else:
            verdicts.append(Rejection.of(index, sent, *refusal))
    return verdicts


def _find_refusal(context: RequestContext, event: Event, size: int) -> tuple[Code, str] | None:
    """Return why a readable event is refused; None if it is accepted."""
    if not context.access.covers(event.series):
        return "forbidden_series", describe_prefix(context.access.series_prefix)
    for index in context.layout.indexes:
        if (problem := index.find_problem(event)) is not None:
            return "invalid", problem
    if size > MAX_ITEM_BYTES and not context.stream.shrinks:
        entries = " and its entries in local indexes" if context.layout.local_indexes else ""
        return "too_large", f"the event takes {size} bytes as an item{entries}; DynamoDB holds at most {MAX_ITEM_BYTES}"
    time, window = event.time, context.window
    if window.is_too_old(time) and not context.takes_import(time):
        reason = f"this stream takes events up to {context.stream.late} late; to import history, open its time with"
        reason += f" `tidetable backfill {context.stream.name} FROM TO`"
        return "too_old", f"{to_text(time)} is before {to_text(window.oldest)}: {reason}"
    if window.is_too_new(time):
        return "too_new", f"{to_text(time)} is after {to_text(window.newest)}: check the sender's clock"
    return None


def _read_event(value: Any, now: datetime) -> tuple[Event, str]:
    """Return a decoded value as an event, and the event's time as text; ValueError says what is wrong with it."""
    if type(value) is not Sent:
        value = _read_fields(value)
    series, sent, own, data = value.series, value.time, value.id, value.data
    if not (type(series) is str and 0 < len(series) <= SURELY_SHORT):
        series = _check_name(series, "series")
    try:
        time, stamp = (now, to_text(now)) if sent is None else parse_stamp(sent)
    except InvalidTime as error:
        raise ValueError(f"time: {error}") from error
    if own is None:
        id = hash_content(series, None if sent is None else identify_time(sent, stamp), data)
    else:
        id = own if type(own) is str and 0 < len(own) <= SURELY_SHORT else _check_name(own, "id")
    return Event(series, time, id, data), stamp


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
