"""Times of files in the form of the API: RFC 3339 with an offset and with all digits, or whole epoch milliseconds."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

from tidetable.exact_json import EXACT

# The number of milliseconds in a unit of time.
UNITS = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001"), "ns": Decimal("0.000001")}
# A time after the year 9998 has more digits, in every unit. The API takes 30 digits after the point.
_MOST_DIGITS, _MOST_PLACES = 24, 30
# As milliseconds, numbers in this range are instants of 1970 to 1973. Seconds of this century are in this range, and
# dates such as 20261127.
_DOUBTFUL = (Decimal(10) ** 7, Decimal(10) ** 11)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
# The form of most times, which the API takes as it is; its first 19 characters are a date and a time of day.
_USUAL, _SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII), 19
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_SECOND = r"(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?"
_OFFSET = r"\s*(?P<offset>Z|UTC|GMT|[+-]\d\d(?::?[0-5]\d)?)?"
_CLOCK = rf"(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::{_SECOND})?\s*(?P<half>[ap]\.?m\.?)?{_OFFSET}"
_BEFORE_CLOCK = r"(?:[T:]|,?\s+)"
_WEEKDAY = r"(?:[a-z]{3,9},?\s+)?"
_NAME = r"(?P<name>[a-z]{3,9})\.?"
# Forms of a date in which no day can be taken for a month.
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"(?P<year>\d{{4}})(?P<sign>[-/.])(?P<month>\d{{1,2}})(?P=sign)(?P<day>\d{{1,2}})(?:{_BEFORE_CLOCK}{_CLOCK})?",
        rf"(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)T(?P<hour>\d\d)(?P<minute>\d\d){_SECOND}{_OFFSET}",
        rf"{_WEEKDAY}{_NAME}\s+(?P<day>\d{{1,2}}),?\s+(?P<year>\d{{4}})(?:{_BEFORE_CLOCK}{_CLOCK})?",
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})[-/\s]{_NAME}[-/\s](?P<year>\d{{4}})(?:{_BEFORE_CLOCK}{_CLOCK})?",
        rf"[a-z]{{3}}\s+{_NAME}\s+(?P<day>\d{{1,2}})\s+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\s+(?P<year>\d{{4}})",
    )
)
# The groups that some of the forms do not have.
_OPTIONAL = ("month", "name", "hour", "second", "fraction", "half", "offset")
# Directives of strptime that read a time of day.
_OF_DAY = re.compile(r"%[HIMSfpcX]")
# The directives of a form, and the texts between them.
_PARTS = re.compile(r"%.|[^%]+", re.DOTALL)


def parse_epoch(value: Any, unit: str | None) -> str | int | None:
    """Parse a number since 1970, also as text; None if the value is not a number.

    Without ``unit`` it is milliseconds. Then ValueError refuses numbers that are more likely seconds or dates.
    Times that are finer than milliseconds become text, because the API accepts only whole milliseconds as numbers.
    """
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return None
    if not isinstance(value, str | int | float | Decimal):
        return None
    number = _parse_number(str(value).strip())
    if unit is None and _is_doubtful(number):
        raise ValueError(
            f"the time {value} would be in 1970 to 1973 as milliseconds: say --time-unit s if it is seconds, "
            "--time-unit ms if not, --time-format %Y%m%d if it is a date"
        )
    milliseconds = EXACT.multiply(number, UNITS[unit or "ms"])
    # The API refuses numbers of this range, because they look like seconds. It takes the same times as text.
    if milliseconds == milliseconds.to_integral_value(context=EXACT) and not _is_doubtful(milliseconds):
        return int(milliseconds)
    seconds = EXACT.scaleb(milliseconds, -3)
    whole = seconds.to_integral_value(ROUND_FLOOR, context=EXACT)
    rest = format(EXACT.subtract(seconds, whole), "f").removeprefix("0.").rstrip("0").ljust(6, "0")
    return f"{_EPOCH + timedelta(seconds=int(whole)):%Y-%m-%dT%H:%M:%S}.{rest}Z"


def _parse_number(text: str) -> Decimal:
    """Parse a number; ValueError if no time has so many digits: it would take all memory as a whole number."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # its exponent has too many digits
        number = Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"the time {text[:40]} is not a time")
    if number.adjusted() > _MOST_DIGITS:
        raise ValueError(f"the time {text[:40]} lies outside the years 1970 to 9998")
    if int(number.as_tuple().exponent) < -_MOST_PLACES:
        raise ValueError(f"the time {text[:40]} has more than {_MOST_PLACES} digits after the point")
    return number


def _is_doubtful(milliseconds: Decimal) -> bool:
    low, high = _DOUBTFUL
    return low <= abs(milliseconds) < high


def parse_text(value: Any, *, utc: bool) -> str:
    """Parse a time as text, in a usual form that has one meaning only; ValueError otherwise.

    A date is its midnight in UTC. A time of day needs an offset; with ``utc`` it is UTC without one.
    """
    text = value.strip() if isinstance(value, str) else ""
    if _USUAL.fullmatch(text):
        with suppress(ValueError):
            datetime.fromisoformat(text[:_SECONDS])
            return text
    match = next((match for form in _FORMS if (match := form.fullmatch(text)) is not None), None)
    if match is None:
        raise ValueError(f"the time {str(value)[:40]!r} has no known form: name it with --time-format")
    parts: dict[str, Any] = dict.fromkeys(_OPTIONAL) | match.groupdict()
    try:
        day = date(int(match["year"]), _read_month(parts["month"], parts["name"]), int(match["day"]))
        if parts["hour"] is None:
            return f"{day.isoformat()}T00:00:00Z"
        hour = _read_hour(int(parts["hour"]), parts["half"])
        moment = datetime(day.year, day.month, day.day, hour, int(match["minute"]), int(parts["second"] or 0))  # noqa: DTZ001 - its offset follows
    except ValueError as error:
        raise ValueError(f"the time {text!r} does not exist: {error}") from error
    fraction = f".{parts['fraction']}" if parts["fraction"] else ""
    return f"{moment.isoformat()}{fraction}{_write_offset(parts['offset'], text, utc=utc)}"


def _read_month(number: str | None, name: str | None) -> int:
    if name is None:
        return int(number or 0)
    for month, full in enumerate(_MONTHS, 1):
        if name.lower() in (full, full[:3]) or name.lower() == "sept" == full[:4]:
            return month
    raise ValueError(f"{name} is not a month")


def _read_hour(hour: int, half: str | None) -> int:
    if half is None:
        return hour
    if not 1 <= hour <= 12:
        raise ValueError(f"hour {hour} is not within 1 to 12")
    return hour % 12 + (12 if half[0] in "pP" else 0)


def _write_offset(offset: str | None, text: str, *, utc: bool) -> str:
    if offset is None:
        if not utc:
            raise ValueError(f"the time {text} has no offset: --utc reads such times as UTC")
        return "Z"
    if offset.upper() in ("Z", "UTC", "GMT"):
        return "Z"
    return f"{offset[:3]}:{offset[-2:] if len(offset) > len('+hh') else '00'}"


def check_format(form: str) -> None:
    """Raise ValueError if strptime does not know a form, or if times in this form have no date."""
    sample = datetime(2026, 3, 15, 11, 12, 13, tzinfo=UTC)
    read = datetime.strptime(sample.strftime(form), form)  # noqa: DTZ007 - only its date counts
    if read.date() != sample.date():
        raise ValueError("it does not hold a whole date")


def parse_formatted(text: str, form: str, *, utc: bool) -> str:
    """Parse a time in a form of strptime. A form without a time of day is a date: its midnight in UTC."""
    if "%Z" in _PARTS.findall(form):
        return _parse_zoned(text.strip(), form)
    moment = datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the offset is checked below
    if moment.tzinfo is None and not utc and _OF_DAY.search(form):
        raise ValueError(f"the time {text} has no offset: --utc reads such times as UTC")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _parse_zoned(text: str, form: str) -> str:
    """Parse a time with the name of its zone, which must be UTC or GMT.

    Python would also take the names of this machine's own zone, and read the time as if it had none.
    """
    for zone in ("UTC", "GMT"):
        named = "".join([zone if part == "%Z" else part for part in _PARTS.findall(form)])
        with suppress(ValueError):
            moment = datetime.strptime(text, named)  # noqa: DTZ007 - its zone is known
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
    raise ValueError(f"the time {text!r} does not have the form {form!r}: the only names for %Z are UTC and GMT")
