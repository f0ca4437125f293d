"""Instants: parse the forms that the API accepts, and write the text of fixed width that sorts in keys.

In the program, every instant is an aware ``datetime`` in UTC with microseconds. Times without an offset are refused.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec

from tidetable.durations import parse_length
from tidetable.errors import InvalidTime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The year 9999 is not allowed, so that a period's end and a window's edge never exceed what datetime can hold.
LATEST = datetime(9998, 12, 31, tzinfo=UTC)

# Times are whole microseconds: the next instant is one microsecond later.
MOMENT = timedelta(microseconds=1)
# The length of a time as text. Sort keys begin with it.
TEXT_LENGTH = 27
_EPOCH_TEXT, _LATEST_TEXT = "1970-01-01T00:00:00.000000Z", "9998-12-31T00:00:00.000000Z"
# Usual forms of a time, by length: the number of characters to keep, the text to append, and the characters that the form
# has at some places.
_DATE = ((4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"))
_FORMS = {
    20: (19, ".000000Z", (*_DATE, (19, "Z"))),
    24: (23, "000Z", (*_DATE, (19, "."), (23, "Z"))),
    27: (26, "Z", (*_DATE, (19, "."), (26, "Z"))),
    32: (26, "Z", (*_DATE, (19, "."), *enumerate("+00:00", 26))),
}
_MOST_DIGITS = 32
_encode = msgspec.json.Encoder().encode
# Reads the instant of a text that ``to_text`` made.
from_text = datetime.fromisoformat
_DAYS = {"today": timedelta(0), "yesterday": timedelta(days=1)}
# RFC 3339, and four forms that usual programs write: a date, a time without seconds, a blank before the offset, and
# an offset without a colon or without minutes (`+0000`, `+00`).
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?(?:[Zz]| ?([+-]\d\d)(?::?([0-5]\d))?))?",
    re.ASCII,
)
# In a URL, a "+" that is not escaped arrives as a space.
_LOST_PLUS = re.compile(r"(:[\d.]+) (\d\d(?::?\d\d)?)", re.ASCII)
# As milliseconds these numbers are times from 2 January to 26 April 1970. Nearly always they are seconds, of the years
# 1973 to 2286.
_SECONDS = range(10**8, 10**10)
_MILLIS = ": a number is a time in milliseconds, not in microseconds or nanoseconds"


def parse_instant(value: object) -> datetime:
    """Read RFC 3339 text with an offset, or epoch milliseconds as a whole number; InvalidTime otherwise.

    A date without a time means its midnight in UTC. Digits beyond the microsecond are cut off, never rounded up: an
    event must not move into the next period. ``identify_time`` keeps these digits.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidTime("a time is RFC 3339 text with an offset, or whole epoch milliseconds")
    instant = _parse_millis(value) if isinstance(value, int) else _parse_text(value)
    if not EPOCH <= instant < LATEST:
        raise InvalidTime(f"{value!r} lies outside the years 1970 to 9998{_MILLIS if isinstance(value, int) else ''}")
    return instant


def parse_point(text: str, now: datetime) -> datetime:
    """Read a query's edge: an instant, epoch milliseconds as digits, ``now``, or an age such as ``-15m``.

    ``today`` and ``yesterday`` are the instants at which these days begin in UTC.
    """
    if text == "now":
        return now
    if text in _DAYS:
        return max(now.replace(hour=0, minute=0, second=0, microsecond=0) - _DAYS[text], EPOCH)
    if text.startswith("-"):
        try:
            age = parse_length(text[1:])
        except ValueError as error:
            raise InvalidTime(f"{text!r} is not an age: write such as -15m, -6h, -7d or -2w") from error
        return now - age if age < now - EPOCH else EPOCH
    if text.isascii() and text.isdigit():
        # Python refuses to read numbers of thousands of digits, and no instant has this many.
        return parse_instant(int(text) if len(text) < _MOST_DIGITS else text)
    return parse_instant(_LOST_PLUS.sub(r"\1+\2", text))


def to_text(instant: datetime) -> str:
    """Write an instant as 27 characters of UTC ISO 8601, which sort in the order of the instants.

    msgspec writes no microseconds if there are none. ``isoformat`` takes four times as long.
    """
    text = _encode(instant).decode()
    return f"{text[1:27]}Z" if instant.microsecond else f"{text[1:20]}.000000Z"


def identify_time(value: object, text: str) -> str:
    """Return ``text``, the canonical text of the time ``value``, with all digits that the sender wrote.

    Keys have microseconds. The id of an event that was sent without an id is a hash, and this text is a part of it. So
    two events of one microsecond that differ only in the time's further digits stay two events.
    """
    if type(value) is not str or len(value) <= TEXT_LENGTH or "." not in value:
        return text
    match = _TIME.fullmatch(value)
    rest = (match[4] or "")[6:].rstrip("0") if match is not None else ""
    return f"{text[:-1]}{rest}Z"


def parse_stamp(value: object) -> tuple[datetime, str]:
    """Parse an instant; return it with its canonical text. Most texts are canonical already."""
    if type(value) is str and len(value) in (27, 32) and value[4:20:3] == "--T::." and value[26:] in ("Z", "+00:00"):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            instant = parse_instant(value)  # this error says what is wrong
        if EPOCH <= instant < LATEST:
            return instant, value[:26] + "Z"
    instant = parse_instant(value)
    return instant, to_text(instant)


def parse_stamps(values: Sequence[object]) -> list[str]:
    """Parse instants; return their canonical texts, and an empty text for a value that is not an instant.

    Texts of one usual form, which most senders use, are checked all at once.
    """
    return _parse_alike(values) or list(map(_parse_or_empty, values))


def _parse_or_empty(value: object) -> str:
    try:
        return parse_stamp(value)[1]
    except InvalidTime:
        return ""


def _parse_alike(values: Sequence[object]) -> list[str]:
    """Return the canonical texts of instants of one usual form; empty if any value has another form."""
    texts = cast("Sequence[str]", values)
    try:
        whole = "".join(texts)
    except TypeError:
        return []
    length = len(texts[0]) if texts else 0
    if length not in _FORMS or len({*map(len, texts)}) > 1:
        return []
    cut, filled, signs = _FORMS[length]
    if any(whole[place::length] != sign * len(texts) for place, sign in signs):
        return []
    try:
        deque(map(datetime.fromisoformat, texts), maxlen=0)
    except ValueError:
        return []
    stamps = [text[:cut] + filled for text in texts]
    # Nearly always all are of this millennium.
    is_allowed = whole[::length] == "2" * len(texts) or (min(stamps) >= _EPOCH_TEXT and max(stamps) < _LATEST_TEXT)
    return stamps if is_allowed else []


def divide_time(start: datetime, end: datetime, count: int) -> list[datetime]:
    """Return the edges of equal parts of a range of time, ``start`` and ``end`` among them."""
    return [start + (end - start) * number / count for number in range(count + 1)]


def to_micros(instant: datetime) -> int:
    """Convert an instant to whole microseconds since 1970, exactly: a float of seconds would not be exact."""
    return (instant - EPOCH) // MOMENT


def from_micros(micros: int) -> datetime:
    """Return the instant that lies ``micros`` microseconds after the beginning of 1970."""
    return EPOCH + timedelta(microseconds=micros)


def _parse_millis(millis: int) -> datetime:
    if millis in _SECONDS:
        raise InvalidTime(
            f"{millis} looks like seconds: send milliseconds ({millis * 1000}), or RFC 3339 text for a time in 1970"
        )
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError as error:
        raise InvalidTime(f"{str(millis)[:40]} is not a time{_MILLIS}") from error


def _parse_text(text: str) -> datetime:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InvalidTime(f"{text[:40]!r} is not an RFC 3339 time with an offset, such as 2026-01-31T12:00:00Z")
    day, clock, seconds, fraction, hours, minutes = match.groups()
    if seconds == "60":
        raise InvalidTime(
            f"{text[:40]!r} is a leap second, which no calendar here has: send the second before or after"
        )
    zone = f"{hours}:{minutes or '00'}" if hours else "+00:00"
    micros = ((fraction or "") + "000000")[:6]
    try:
        return datetime.fromisoformat(f"{day}T{clock or '00:00'}:{seconds or '00'}.{micros}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(f"{text[:80]!r} is not a time: {error}") from error
