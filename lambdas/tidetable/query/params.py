"""A query's parameters, checked; every refusal says what to change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.config import Stream
from tidetable.errors import InvalidCursor, InvalidTime
from tidetable.events import Event
from tidetable.keys import MAX_NAME_BYTES, value_text
from tidetable.problems import refuse
from tidetable.query.cursor import Position, decode_cursor
from tidetable.query.rows import EVERYTHING, Shape
from tidetable.times import from_micros, parse_point

KNOWN = ("from", "to", "series", "order", "limit", "fields", "versions", "consistent", "format", "explain", "cursor")
WHERE = "where."
DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_FIELDS = 50
_WITH_CURSOR = frozenset(
    {"cursor", "limit", "series", "order", "fields", "versions", "consistent", "format", "explain"}
)
_DEFAULT_SPAN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Query:
    """Events of a stream in ``[start, end)``, of one series if given, newest first unless ``ascending``.

    ``after`` is where an earlier page ended. ``where`` is a field of ``data`` and the value that it must have, as text;
    ``shape`` says what of the events is shown, ``consistent`` that everything acknowledged before is among them.
    """

    stream: str
    start: datetime
    end: datetime
    series: str | None
    ascending: bool
    limit: int
    after: Position | None = None
    where: tuple[str, str] | None = None
    shape: Shape = EVERYTHING
    consistent: bool = False

    def wants(self, event: Event) -> bool:
        """Whether an event has the value asked for, of which key ranges say nothing unless an index does."""
        return self.where is None or value_text(event.data, self.where[0]) == self.where[1]


def parse_query(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime) -> Query:
    """Read the query string. Without edges it is the last hour, up to the newest time that the stream accepts."""
    given = single(parameters, KNOWN)
    limit = _limit(given.get("limit"))
    if given.get("explain", "true") != "true":
        raise refuse(400, "bad_parameter", "explain must be true, or left out")
    if "cursor" in given:
        return _continued(stream, given, limit)
    end = _point(given, "to", now) if "to" in given else now + stream.ahead
    start = _point(given, "from", now) if "from" in given else min(now, end) - _DEFAULT_SPAN
    if start >= end:
        raise refuse(400, "bad_parameter", "from must lie before to: the range is [from, to)")
    series = given.get("series")
    if series is not None and not 0 < len(series.encode()) <= MAX_NAME_BYTES:
        raise refuse(400, "bad_parameter", f"series must have 1 to {MAX_NAME_BYTES} bytes")
    where = _where(given)
    if where is not None and where[0].partition(".")[0] in stream.cold:
        raise refuse(
            400, "bad_parameter", f"{where[0]} is a cold field of {stream.name}: it is shown, and not searched"
        )
    if series is None and stream.key.partition_by == "series":
        if where is None:
            detail = (
                f"add series=: {stream.name} is partitioned by series, so a query without one would scan whole tables"
            )
            raise refuse(400, "needs_series", detail)
        if stream.layout.index_on(where[0]) is None:
            detail = (
                f"add series=, or an index to the stream: [[streams.{stream.name}.index]] with partition_by = "
                f'"{where[0]}" would serve where.{where[0]} without a scan'
            )
            raise refuse(400, "needs_index", detail)
    consistent = parse_consistent(given)
    if consistent and where is not None and series is None and stream.layout.index_on(where[0]) is not None:
        detail = (
            f"where.{where[0]} is answered by an index, and DynamoDB reads indexes eventually: leave consistent out"
        )
        raise refuse(400, "bad_parameter", detail)
    shape = parse_shape(stream, given)
    ascending = _ascending(given)
    return Query(stream.name, start, end, series, ascending, limit, where=where, shape=shape, consistent=consistent)


def parse_consistent(given: Mapping[str, str]) -> bool:
    """Whether everything that was acknowledged must be readable."""
    consistent = given.get("consistent", "false")
    if consistent not in ("true", "false"):
        raise refuse(400, "bad_parameter", "consistent must be true or false")
    return consistent == "true"


def _continued(stream: Stream, given: Mapping[str, str], limit: int) -> Query:
    where = _where(given)
    extra = {name for name in given.keys() - _WITH_CURSOR if not name.startswith(WHERE)}
    if extra:
        detail = f"a cursor holds its query's {' and '.join(sorted(extra))}: leave them out, or begin without a cursor"
        raise refuse(400, "invalid_cursor", detail)
    try:
        cursor = decode_cursor(given["cursor"])
    except InvalidCursor as error:
        raise refuse(400, "invalid_cursor", str(error)) from error
    shape = Shape.of(stream, cursor.fields, versions=cursor.versions)
    same = given.get("series", cursor.series) == cursor.series and where in (None, cursor.where)
    if {"fields", "versions"} & given.keys():
        same = same and parse_shape(stream, given) == shape
    if "consistent" in given:
        same = same and parse_consistent(given) == cursor.consistent
    if cursor.stream != stream.name or not same or ("order" in given and _ascending(given) != cursor.ascending):
        raise refuse(
            400, "invalid_cursor", "this cursor belongs to another query: repeat that one, or begin without it"
        )
    start, end = from_micros(cursor.start), from_micros(cursor.end)
    return Query(
        stream.name,
        start,
        end,
        cursor.series,
        cursor.ascending,
        limit,
        cursor.position,
        cursor.where,
        shape,
        cursor.consistent,
    )


def parse_shape(stream: Stream, given: Mapping[str, str]) -> Shape:
    """What of the events is asked for."""
    fields = tuple(given["fields"].split(",")) if "fields" in given else ()
    if "" in fields or len(fields) > MAX_FIELDS:
        raise refuse(400, "bad_parameter", f"fields is a list such as mag,place: 1 to {MAX_FIELDS} names, or *")
    versions = given.get("versions", "newest")
    if versions not in ("newest", "all"):
        raise refuse(400, "bad_parameter", "versions must be newest or all")
    if versions == "all" and stream.versions != "keep":
        detail = f'{stream.name} keeps no earlier versions: versions = "keep" in its configuration would'
        raise refuse(400, "bad_parameter", detail)
    return Shape.of(stream, fields, versions=versions == "all")


def single(parameters: Mapping[str, Sequence[str]], known: Collection[str]) -> dict[str, str]:
    """Each parameter with its one value; ProblemError names one that is not known, or not given once."""
    for name, values in parameters.items():
        filters = WHERE + "FIELD" if "cursor" in known else None
        if name not in known and not (filters and name.startswith(WHERE) and all(name.removeprefix(WHERE).split("."))):
            names = ", ".join(sorted(known) if filters is None else [*known, filters])
            raise refuse(400, "unknown_parameter", f"unknown parameter {name[:64]!r}; known are {names}")
        if len(values) != 1:
            raise refuse(400, "bad_parameter", f"{name} is given {len(values)} times; give it once")
    return {name: values[0] for name, values in parameters.items()}


def _where(given: Mapping[str, str]) -> tuple[str, str] | None:
    fields = [name.removeprefix(WHERE) for name in given if name.startswith(WHERE)]
    if len(fields) > 1:
        raise refuse(400, "bad_parameter", f"one {WHERE}FIELD at a time; there are {len(fields)}")
    return (fields[0], given[WHERE + fields[0]]) if fields else None


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_LIMIT and len(text) < 9):
        raise refuse(400, "bad_parameter", f"limit must be a whole number from 1 to {MAX_LIMIT}")
    return int(text)


def _ascending(given: Mapping[str, str]) -> bool:
    order = given.get("order", "desc")
    if order not in ("asc", "desc"):
        raise refuse(400, "bad_parameter", "order must be asc (oldest first) or desc (newest first)")
    return order == "asc"


def _point(given: Mapping[str, str], name: str, now: datetime) -> datetime:
    try:
        return parse_point(given[name], now)
    except InvalidTime as error:
        detail = f"{name}: {error}; or an age such as -15m, epoch milliseconds, or now"
        raise refuse(400, "bad_parameter", detail) from error
