"""The tools with which every dialect makes events: times, names, numbers and nested attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from math import isfinite, isnan
from operator import itemgetter
from typing import Any

from tidetable.events import JsonObject
from tidetable.exact_json import canonical_json
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.rejection import Rejection
from tidetable.ingest.unreadable import Unreadable
from tidetable.problems import ProblemError, refuse_request
from tidetable.times import EPOCH, LATEST, from_micros, to_micros, to_text

# A request has at most ten times `max_events` points, but never more than 10,000. OpenTelemetry's collectors send 8,192
# points by default, and do not split a request that is refused as too large.
BATCHES, MOST_POINTS = 10, 10_000
# Data that points share is written into each event. All copies together may be this many times as large as a body.
GROWTH = 4
# The series, the time, the id and the data of an event.
Row = tuple[str, Any, str | None, JsonObject]
_LATEST_MICROS = to_micros(LATEST)
_DEEPEST = 8
_FRACTIONS = (float, Decimal)
_TINIEST, _LARGEST = 1e-130, 9.9e125


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a request may hold: ``most`` events, and ``max_body`` bytes after decompression."""

    most: int
    max_body: int


@dataclass(slots=True)
class Reading:
    """The batch of a body, and the places of each of its candidates: numbers of its lines, points or records.

    ``shared`` counts the bytes that events share with others. ``strict`` says that nothing is stored if any candidate is
    refused.
    """

    limits: Limits
    batch: SentBatch = field(default_factory=SentBatch.begin)
    places: list[Sequence[int]] = field(default_factory=list)
    shared: int = 0
    strict: bool = False

    def take(
        self, places: Sequence[int], read: Callable[..., Row], *values: Any, what: str = "", shared: int = 0
    ) -> None:
        """Add the event that ``read`` makes of these values, or refuse it with the reason of its ValueError.

        ``what`` names the candidate in the reason. ``shared`` are the bytes that the event shares with others.
        ProblemError if the body has too many candidates, or if the shared bytes are too many.
        """
        self.shared += shared
        if len(self.places) == self.limits.most:
            raise refuse_too_many(self.limits.most)
        if self.shared > GROWTH * self.limits.max_body:
            detail = "the attributes of resources and scopes, repeated in each event, exceed the limit: send fewer points at once"
            raise refuse_request(413, "too_large", detail)
        try:
            row = read(*values)
        except (ValueError, RecursionError) as error:
            self.refuse(places, f"{what}{error}")
        else:
            self.batch.add(*row)
            self.places.append(places)

    def refuse(self, places: Sequence[int], reason: str) -> None:
        """Add a candidate that cannot be read."""
        self.batch.add_odd(Unreadable(reason))
        self.places.append(places)

    def list_refusals(self, rejections: Iterable[Rejection]) -> list[Refusal]:
        """Return the rejections of the candidates by place, in the order of the places."""
        return sorted(
            (
                Refusal(place, rejection.detail, rejection.index in self.batch.odd)
                for rejection in rejections
                for place in self.places[rejection.index]
            ),
            key=lambda refusal: refusal.place,
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why the candidate at a place is refused; ``malformed`` says that the candidate could not be read."""

    place: int
    detail: str
    malformed: bool


def describe_refusals(refusals: Sequence[Refusal], place: str, most: int, rest: str = "more") -> str:
    """Describe the first ``most`` refusals by place and reason, and count the others.

    ``place`` is the word for a place: line or record.
    """
    reasons = "; ".join(f"{place} {refusal.place}: {refusal.detail}" for refusal in refusals[:most])
    return reasons + (f"; and {len(refusals) - most} {rest}" if len(refusals) > most else "")


def refuse_too_many(most: int) -> ProblemError:
    """Return the error for a request with more events than ``most``."""
    return refuse_request(413, "too_many_events", f"more than {most} points in one request: send fewer at once")


def split_nanos(nanos: int) -> tuple[str, int]:
    """Split nanoseconds since 1970 into a time as text (whole microseconds) and the remaining nanoseconds.

    The remainder must become part of the id: keys have microseconds, and two points of one microsecond must not replace
    each other. ValueError outside the calendar.
    """
    micros, rest = divmod(nanos, 1000)
    if not 0 <= micros < _LATEST_MICROS:
        raise ValueError(f"time: {str(nanos)[:30]} nanoseconds lie outside the years {EPOCH.year} to {LATEST.year}")
    seconds, micros = divmod(micros, 10**6)
    return f"{_show_second(seconds)}.{micros:06d}Z", rest


@lru_cache(1_024)
def _show_second(seconds: int) -> str:
    """Return a second since 1970 as text, without its fraction. Many points share it, so it is cached."""
    return to_text(from_micros(seconds * 10**6))[:19]


def make_id(identity: Any, rest: int = 0) -> str:
    """Return an id: a hash of ``identity`` in 16 hexadecimal digits, and the remaining nanoseconds, if any.

    ``identity`` has all data in which events of one series and time may differ. 64 bits suffice, as ids need to differ
    only within one series and one microsecond.
    """
    digest = sha256(canonical_json(identity)).hexdigest()[:16]
    return f"{digest}-{rest:03d}" if rest else digest


def set_values(entries: Iterable[tuple[JsonObject, str, Any]]) -> None:
    """Set values in objects: each entry is an object, a name and a value. A float becomes an exact number.

    DynamoDB cannot hold NaN, infinities and numbers beyond 1E-130 to 9.9E+125. Such a number becomes a text under
    ``name_text``, after all other values, because the text must not replace a field. So the field itself holds only
    numbers: indexes, filters and aggregates leave out an event whose number is a text.
    """
    texts: list[tuple[JsonObject, str, str]] = []
    for node, name, value in entries:
        if isinstance(value, _FRACTIONS):
            value = read_exact(value)
            if isinstance(value, str):
                texts.append((node, name, value))
                continue
        node[name] = value
    for node, name, text in texts:
        set_beside(node, f"{name}_text", text, "_text")


def set_beside(node: JsonObject, name: str, value: Any, ending: str) -> None:
    """Set a value under its name, or under a longer name that is free."""
    while name in node:
        name += ending
    node[name] = value


def read_exact(value: float | Decimal) -> Decimal | str:
    """Return a number in the form in which it is stored, or its text if DynamoDB cannot hold the number."""
    size: Any = abs(value)
    if _TINIEST <= size <= _LARGEST or not size:
        return Decimal(str(value))
    if isfinite(value):
        return str(value)
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def nest_attributes(pairs: Iterable[tuple[str, Any]]) -> JsonObject:
    """Return attributes whose names have dots as nested objects: ``http.method`` becomes ``{"http": {"method": …}}``.

    So conditions reach them by their path. If a name has a value and is also the beginning of longer names, the longer
    names are not split. The order of the pairs does not matter. If a name is there several times, its value is the list
    of its different values.
    """
    ordered = sorted(pairs, key=itemgetter(0))
    root: JsonObject = dict(ordered)
    if len(root) < len(ordered):
        ordered = list(_join_repeated(ordered))
    elif "." not in "".join(root) and float not in map(type, root.values()):
        return root  # most attributes
    root = {}
    set_values(_place_attributes(root, ordered))
    return root


def _place_attributes(root: JsonObject, ordered: Iterable[tuple[str, Any]]) -> Iterator[tuple[JsonObject, str, Any]]:
    """Yield for each attribute, in the order of their names, the object and the name that take its value."""
    nested_ids: set[int] = set()
    for key, value in ordered:
        *front, last = key.split(".")
        node: JsonObject | None = root
        if len(front) > _DEEPEST or not (last and all(front)):
            node, last = root, key
        else:
            for name in front:
                child = node.get(name) if node is not None else None
                if node is not None and name not in node:
                    child = node[name] = {}
                    nested_ids.add(id(child))
                node = child if id(child) in nested_ids else None
            if node is None or id(node.get(last)) in nested_ids:
                node, last = root, key
        yield node, last, value


def _join_repeated(pairs: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    """Yield each name once, with its value or with the list of its different values."""
    for name, group in groupby(pairs, key=itemgetter(0)):
        values: list[Any] = []
        for _, value in group:
            if not any(type(value) is type(known) and value == known for known in values):
                values.append(value)
        yield name, values[0] if len(values) == 1 else [read_exact(v) if type(v) is float else v for v in values]
