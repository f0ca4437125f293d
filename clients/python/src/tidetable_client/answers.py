"""Decide from an answer of the API what happened to the events of its request. This needs no clock and no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

# With these statuses, and with every 5xx, the same request may succeed later: it came too early, took too long, or was
# one of too many requests.
_LATER = frozenset({408, 425, 429})
# These statuses mean that the whole stage is in trouble, not only this request.
_WIDE = frozenset({408, 425, 429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal of the event at ``index`` of a request."""

    index: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stored:
    """The request is acknowledged, except the events ``refused``.

    ``queued`` events are durable, and will be stored soon.
    """

    accepted: int
    queued: int
    refused: Sequence[Refused] = ()
    window: Mapping[str, Any] | None = None
    write_units: float = 0.0


@dataclass(frozen=True, slots=True)
class Rejected:
    """No event of the request is stored. ``refused`` are the refused events that the answer names.

    With ``again`` the answer does not name all of them, so the other events must be sent again.
    """

    status: int
    code: str
    detail: str
    refused: Sequence[Refused] = ()
    again: bool = False
    window: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The request has too many events or bytes for the API. Each half of it, sent alone, may be small enough."""

    detail: str


@dataclass(frozen=True, slots=True)
class Later:
    """The request is not acknowledged. The same body may be sent again ``after`` seconds later.

    If ``wide``, other requests would fail in the same way. ``status`` is 0 if there was no answer.
    """

    reason: str
    after: float = 0.0
    wide: bool = True
    status: int = 0


Verdict = Stored | Rejected | TooLarge | Later


def is_later(status: int) -> bool:
    """True if the same request may succeed later."""
    return status in _LATER or status >= 500


def judge_write(status: int, headers: Mapping[str, str], body: bytes, count: int, now: datetime) -> Verdict:
    """Judge the answer to a request of ``count`` events.

    ``headers`` ignore upper and lower case. ``now`` is needed because a Retry-After header may be a date.
    """
    document = read_document(body)
    if status in (200, 202):
        return _judge_stored(document, headers, count) or _judge_foreign_answer(status, body)
    if status == 413:
        return TooLarge(describe_problem(document, body))
    if is_later(status):
        return judge_later(status, headers, document, body, now)
    refused = _read_refused(document, count)
    code = str(document.get("code") or f"http_{status}")
    # If the API refuses all events of a request, its answer lists the first hundred refusals only.
    again = code == "all_refused" and 0 < len(refused) < count
    window = document.get("window")
    return Rejected(status, code, describe_problem(document, body), refused, again, window)


def judge_later(
    status: int, headers: Mapping[str, str], document: Mapping[str, Any], body: bytes, now: datetime
) -> Later:
    """Judge an answer whose request may be repeated."""
    after = read_retry_after(headers.get("Retry-After"), now)
    return Later(f"{status} {describe_problem(document, body)}".strip(), after, status in _WIDE, status)


def read_retry_after(text: str | None, now: datetime) -> float:
    """Read the seconds to wait from a Retry-After header. RFC 9110 allows a number or a date; 0 for any other text."""
    if not text:
        return 0.0
    try:
        return max(float(int(text)), 0.0)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)


def read_document(body: bytes) -> dict[str, Any]:
    """Read the JSON object in a body; an empty object if the body is not a JSON object."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def describe_problem(document: Mapping[str, Any], body: bytes) -> str:
    """Return the detail of a problem document, or the beginning of the body if there is no such document."""
    detail = document.get("detail") or document.get("title") or document.get("message")
    return str(detail) if detail else body[:200].decode(errors="replace")


def _judge_stored(document: Mapping[str, Any], headers: Mapping[str, str], count: int) -> Stored | None:
    """Judge an answer 200 or 202.

    None if this is not the API's answer to ``count`` events: then the fate of the events is unknown.
    """
    accepted, queued, rejected = (document.get(name) for name in ("accepted", "queued", "rejected"))
    if not (isinstance(accepted, int) and isinstance(queued, int) and isinstance(rejected, int)):
        return None
    refused = _read_refused(document, count)
    if len(refused) != rejected or accepted + queued + rejected != count:
        return None
    try:
        units = float(headers.get("Tidetable-Write-Units", "0"))
    except ValueError:
        units = 0.0
    return Stored(accepted, queued, refused, document.get("window"), units)


def _judge_foreign_answer(status: int, body: bytes) -> Later:
    """Judge an answer of a proxy or a login page, or an answer that is cut: the events may be stored or not."""
    text = body[:100].decode(errors="replace")
    return Later(f"{status}, but the answer is not that of the API to this request: {text}", 0.0, True, status)


def _read_refused(document: Mapping[str, Any], count: int) -> list[Refused]:
    errors = document.get("errors")
    refused: dict[int, Refused] = {}
    for error in errors if isinstance(errors, list) else ():
        index = error.get("index") if isinstance(error, dict) else None
        if isinstance(index, int) and 0 <= index < count:
            refused[index] = Refused(index, str(error.get("code")), str(error.get("detail")))
    return list(refused.values())
