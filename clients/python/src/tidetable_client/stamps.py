"""Turn events into lines of NDJSON, with a time and an id, so that sending them again is harmless."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from itertools import count
from typing import Any, NoReturn

import msgspec

from tidetable_client.errors import EventInvalid

_FIELDS = frozenset({"series", "time", "id", "data"})
# msgspec writes a float that is NaN or infinite as null. It writes such a Decimal as NaN or Infinity, which is not
# JSON.
_SUSPECT = (b"null", b"NaN", b"Infinity")
# The type of a length of time of numpy, such as m8[ns] or m8[25s]; and its units: a number of seconds, or of the
# fractions of a second with so many decimal places. Months and years have no fixed length.
_LENGTH = re.compile(r"m8\[(\d*)(W|D|h|m|s|ms|us|ns|ps|fs|as)\]", re.ASCII)
_UNITS = {"W": (604_800, 0), "D": (86_400, 0), "h": (3600, 0), "m": (60, 0), "s": (1, 0)} | {
    unit: (1, places) for unit, places in (("ms", 3), ("us", 6), ("ns", 9), ("ps", 12), ("fs", 15), ("as", 18))
}
_EXACT = Context(prec=420)


class Stamper:
    """Gives events their time and id before the first attempt, so that every repetition is the same event.

    An event without a time gets the present time. If it has no id either, it gets the id ``<name>-<number>``. No other
    event has this id, and in a pack it compresses to some bits, because the ids of its neighbours have the same name.
    An event with a time and without an id gets no id here: the API takes the hash of its content as its id. So it stays
    one event, even if the program that reads it from a file runs twice. ``read_process`` returns the number of the
    present process.
    """

    def __init__(
        self, *, unique_ids: bool = False, name: str | None = None, read_process: Callable[[], int] = lambda: 0
    ) -> None:
        self._given, self._name = name, ""
        self._read_process = read_process
        self._process: int | None = None
        self._numbers = count()
        self._unique_ids = unique_ids

    def encode(self, event: Any, now: datetime) -> bytes:
        """Encode an event as a line of JSON; EventInvalid says what to correct in the event."""
        if not isinstance(event, Mapping):
            event = _read_fields(event)
        unknown = event.keys() - _FIELDS
        if unknown:
            names = ", ".join(sorted(map(str, unknown)))
            raise EventInvalid(f"an event has series, time, id and data; put {names} into data")
        series, time, id = event.get("series"), event.get("time"), event.get("id")
        if not isinstance(series, str) or not series:
            raise EventInvalid('an event needs its series, as text: {"series": "boiler-7", "data": {...}}')
        line: dict[str, Any] = {"series": series, "time": now if time is None else _read_time(time)}
        if id is not None:
            line["id"] = id if isinstance(id, str) else _refuse_id(id)
        elif time is None or self._unique_ids:
            line["id"] = self._make_id()
        line["data"] = {} if event.get("data") is None else event["data"]
        try:
            text = _ENCODER.encode(line)
        except (TypeError, ValueError, RecursionError, UnicodeError) as error:
            raise EventInvalid(f"the data of {series} cannot be written as JSON: {error}") from error
        if any(suspect in text for suspect in _SUSPECT):
            # Sets, dataclasses and numpy's arrays become lists and mappings, because the search looks only into these.
            _refuse_not_finite(_make_plain(line["data"]), "data")
        return text

    def _make_id(self) -> str:
        """Make an id that no other event has. Each process chooses its own name when it makes its first id: a name that
        was chosen earlier would be copied by a fork, or by a snapshot of AWS Lambda (SnapStart).
        """
        process = self._read_process()
        if self._process != process:
            self._name = self._given or secrets.token_hex(8)
            self._process = process
        return f"{self._name}-{next(self._numbers)}"


def _read_time(time: Any) -> Any:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise EventInvalid(f"the time {time.isoformat()} has no offset: use datetime.now(UTC)")
        return time.isoformat()
    if isinstance(time, bool) or not isinstance(time, str | int):
        raise EventInvalid(f"the time {time!r} is neither a datetime, nor RFC 3339 text, nor epoch milliseconds (int)")
    return time


def _refuse_id(id: Any) -> NoReturn:
    raise EventInvalid(f"the id {id!r} is not text")


def _read_fields(event: Any) -> Mapping[str, Any]:
    """Read the fields of a dataclass or a msgspec structure."""
    try:
        fields = msgspec.to_builtins(event, builtin_types=(datetime, Decimal, bytes))
    except TypeError:
        fields = None
    if not isinstance(fields, dict):
        raise EventInvalid(f"an event is a mapping with series and data, not {type(event).__name__}")
    return fields


def _convert_value(value: Any) -> Any:
    """Convert a value that msgspec does not know: values of numpy and pandas, and subclasses of datetime."""
    if isinstance(value, datetime):
        if value != value:  # the missing time of pandas, NaT, is a datetime that is not equal to itself
            raise TypeError(f"{value} has no form in JSON: leave the field out")
        return value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):  # that of pandas has nanoseconds, too
        nanos = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
        return _show_seconds(nanos + getattr(value, "nanoseconds", 0), 9)
    if type(value).__module__ == "numpy" and value.dtype.kind in "Mm":
        return _convert_numpy_time(value)
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _convert_numpy_time(value: Any) -> Any:
    """Convert numpy's instants to text and its lengths of time to seconds, in every unit. TypeError for NaT."""
    if value.shape:
        return list(value)
    if value != value:
        raise TypeError(f"{value} has no form in JSON: leave the field out")
    if value.dtype.kind == "M":
        micros = value.astype("datetime64[us]")
        plain = micros.tolist()
        # Python has no year beyond 9999, and no nanoseconds.
        return plain.isoformat() if isinstance(plain, datetime) and micros == value else str(value)
    match = _LENGTH.fullmatch(value.dtype.str[1:])
    if match is None:
        raise TypeError(f"{value!r} has no fixed length: write a number")
    count = int(value.astype("int64")) * int(match[1] or 1)
    whole, places = _UNITS[match[2]]
    return _show_seconds(count * whole, places)


def _show_seconds(count: int, places: int) -> int | Decimal:
    """Show a number of units, each of 10**-places seconds, as seconds."""
    whole, rest = divmod(count, 10**places)
    return _EXACT.scaleb(Decimal(count), -places) if rest else whole


def _refuse_not_finite(value: Any, path: str) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _refuse_not_finite(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            _refuse_not_finite(inner, f"{path}[{place}]")
    elif isinstance(value, float | Decimal) and not _is_finite(value):
        raise EventInvalid(f"{path} is {value}, which JSON cannot hold: leave the field out, or write text")


def _is_finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def _make_plain(data: Any) -> Any:
    return msgspec.to_builtins(data, builtin_types=(datetime, Decimal), str_keys=True, enc_hook=_convert_value)


_ENCODER = msgspec.json.Encoder(enc_hook=_convert_value, decimal_format="number")
