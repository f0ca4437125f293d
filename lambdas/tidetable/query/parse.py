"""Parse and check the parameters of a query. Every refusal says what to change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import msgspec

from tidetable.conditions import ANY, NAMES
from tidetable.config import Stream
from tidetable.errors import InvalidCursor, InvalidTime, UnknownZone
from tidetable.problems import ProblemError, refuse_parameter, refuse_request
from tidetable.query.access_path import choose_access_path
from tidetable.query.cursor import Cursor, Seal, refuse_long
from tidetable.query.model import Position, Projection, Query, RangeSelection
from tidetable.query.readings import choose_reading
from tidetable.times import EPOCH, parse_point
from tidetable.where import REPEATED, WHERE, is_condition, parse_conditions, parse_names, parse_path

KNOWN = (
    "from", "to", "tz", "series", "series:prefix", "id", "id:prefix", "order", "limit", "fields", "versions", "consistent",
    "priority", "format", "flat", "escape", "refs", "explain",
    "cursor",
)  # fmt: skip
# The parameters that choose the form of an answer.
FORMAT = ("format", "flat", "escape", "refs")
_OF_PAGES = frozenset({"cursor", "limit", "explain", *FORMAT})
DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000
MAX_FIELDS = 50
# AWS takes at most 10,240 bytes of request line and headers, and a cursor in the request holds its query.
MAX_FIELDS_BYTES = 1024
_DEFAULT_SPAN = timedelta(hours=1)
# Parameters with two words, the default first; and what to write.
_FLAGS = {
    "order": ("desc", "asc", "order must be asc (oldest first) or desc (newest first)"),
    "consistent": ("false", "true", "consistent must be true or false"),
    "priority": (
        "normal", "low", "priority must be normal or low: with low, a read replica answers if the table has one"
    ),
    "versions": ("newest", "all", "versions must be newest or all"),
    "align": ("false", "true", "align must be true or false"),
}  # fmt: skip
_Choice = TypeVar("_Choice", bound=str)
_Kind = TypeVar("_Kind", bound=Cursor)


class Parameters(msgspec.Struct, frozen=True):
    """The parameters of a request to a stream: all of their values, and the first value of each parameter.

    ``conditions`` are the parameters that are conditions on data. ``tz`` is the zone; empty for UTC. Each method parses
    some of them. ProblemError says what to change.
    """

    stream: Stream
    texts: Mapping[str, Sequence[str]]
    values: Mapping[str, str]
    conditions: Mapping[str, str]
    tz: str = ""

    @classmethod
    def read(
        cls, stream: Stream, texts: Mapping[str, Sequence[str]], known: Collection[str], *, where: bool = True
    ) -> Parameters:
        """Read the parameters of a query string. Conditions are among the ``known`` parameters unless ``where`` is False.

        Raises ProblemError for an unknown parameter, and for a repeated parameter that must not be repeated.
        """
        for name, values in texts.items():
            if name not in known and not (where and is_condition(name)):
                raise _refuse_unknown(name, known, where=where)
            if len(values) != 1 and name not in REPEATED:
                raise refuse_parameter(f"{name} is given {len(values)} times; give it once")
            if name == "explain" and values[0] != "true":
                raise refuse_parameter("explain must be true, or left out")
        first = {name: texts[name][0] for name in texts}
        conditions = {name: value for name, value in first.items() if name not in known}
        return cls(stream, texts, first, conditions, _parse_zone(first["tz"]) if "tz" in first else "")

    def open_cursor(self, kind: type[_Kind], seal: Seal, list_repeats: Callable[[_Kind], dict[str, bool]]) -> _Kind:
        """Return the query and the position of the request's cursor. The request must have a cursor.

        ``list_repeats`` lists the parameters by name, with True for each parameter that repeats the cursor's query.
        """
        try:
            cursor = seal.open(self.values["cursor"], kind)
        except InvalidCursor as error:
            raise refuse_request(400, "invalid_cursor", str(error)) from error
        if cursor.stream != self.stream.name:
            # The caller may have no right on the cursor's stream, so this does not name it.
            raise refuse_request(400, "invalid_cursor", "this cursor belongs to another stream: begin without it")
        repeats = list_repeats(cursor)
        # A cursor holds the query and a position, so only the parameters of a single page, such as limit, may differ.
        changed = [name for name in self.values if name not in _OF_PAGES and not repeats.get(name, False)]
        if changed:
            names = " and ".join(sorted(changed))
            detail = f"this cursor belongs to another query: repeat its {names}, leave {names} out, or begin without the cursor"
            raise refuse_request(400, "invalid_cursor", detail)
        return cursor

    def parse_count(self, name: str, most: int) -> int | None:
        """Parse a parameter that must be a whole number from 1 to ``most``; None if the request does not have it."""
        text = self.values.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:10]) <= most and len(text) < 10):
            raise refuse_parameter(f"{name} must be a whole number from 1 to {most}")
        return int(text)

    def read_choice(self, name: str, choices: Sequence[_Choice], detail: str) -> _Choice:
        """The value of a parameter that is one of a few words; the first word if the parameter is missing."""
        text = self.values.get(name, choices[0])
        for choice in choices:
            if choice == text:
                return choice
        raise refuse_parameter(detail)

    def parse_flag(self, name: str) -> bool:
        """Parse a parameter with two words: False for its default, which need not be in the request."""
        default, other, detail = _FLAGS[name]
        text = self.values.get(name, default)
        if text not in (default, other):
            raise refuse_parameter(detail)
        return text == other

    def parse_instant(self, name: str, now: datetime) -> datetime | None:
        """Parse a parameter that is an instant; None if the request does not have it."""
        if name not in self.values:
            return None
        try:
            if self.tz:
                from tidetable.zones import find_zone, parse_local_point

                return parse_local_point(self.values[name], now, find_zone(self.tz))
            return parse_point(self.values[name], now)
        except InvalidTime as error:
            raise refuse_parameter(
                f"{name}: {error}; or an age such as -15m, epoch milliseconds, now, today or yesterday; with tz= a time"
                " needs no offset"
            ) from error

    def parse_range(
        self, now: datetime, oldest: datetime | None = None, latest: datetime | None = None
    ) -> tuple[datetime, datetime]:
        """Parse the range ``[from, to)``.

        By default it begins an hour ago (or at ``oldest``) and ends with the window (or at ``latest``).
        """
        end = self.parse_instant("to", now) or latest or now + self.stream.ahead
        default = min(now, end) - _DEFAULT_SPAN if oldest is None else min(oldest, end - _DEFAULT_SPAN)
        start = self.parse_instant("from", now) or max(default, EPOCH)
        if start >= end:
            raise refuse_parameter("from must lie before to: the range is [from, to)")
        return start, end

    def parse_projection(self) -> Projection:
        """Parse which data and which versions of events the answer shows."""
        values = self.values
        fields = tuple(map(parse_path, values["fields"].split(","))) if "fields" in values else ()
        if "" in fields or len(fields) > MAX_FIELDS:
            raise refuse_parameter(f"fields is a list such as mag,place: 1 to {MAX_FIELDS} names, or *")
        if len(values.get("fields", "").encode()) > MAX_FIELDS_BYTES:
            raise refuse_parameter(f"fields has at most {MAX_FIELDS_BYTES} bytes: ask for less, or for *")
        projection = Projection(fields, versions=self.parse_flag("versions"))
        return projection.of(self.stream) if projection.versions or self.stream.cold else projection

    def list_repeats(self, query: RangeSelection, now: datetime) -> dict[str, bool]:
        """List the parameters by name, with True for each parameter that repeats the cursor's query."""
        projection, names = self.parse_projection(), parse_names(self.texts)
        conditions = {name: parse_conditions(self.stream, {name: text}) for name, text in self.conditions.items()}
        return {
            "from": self.parse_instant("from", now) == query.start,
            "to": self.parse_instant("to", now) == query.end,
            "order": self.parse_flag("order") == query.ascending,
            **projection.list_repeats(query.projection),
            "consistent": self.parse_flag("consistent") == query.consistent,
            "priority": self.parse_flag("priority") == query.low_priority,
            "tz": self.tz == query.tz,
            **{name: names[number] == query.names[number] for number, name in enumerate(NAMES)},
            **{name: condition in query.conditions for name, (condition,) in conditions.items()},
        }

    def parse_query(self, now: datetime, limit: int, latest: datetime | None = None) -> Query:
        """Read a query without a cursor. It may still need a scan, or be too long for a cursor: the caller checks both.

        By default its range ends with the window, or at ``latest``.
        """
        names = ANY if self.values.keys().isdisjoint(NAMES) else parse_names(self.texts)
        start, end = self.parse_range(now, latest=latest)
        query = Query(
            self.stream.name,
            start,
            end,
            names,
            self.parse_flag("order"),
            limit,
            conditions=parse_conditions(self.stream, self.conditions) if self.conditions else (),
            projection=self.parse_projection(),
            consistent=self.parse_flag("consistent"),
            low_priority=self.parse_flag("priority"),
            tz=self.tz,
        )
        if query.consistent and query.low_priority:
            raise refuse_parameter("a read replica is read eventually: leave out consistent, or priority")
        return query


def _parse_zone(text: str) -> str:
    """Parse the name of a zone. Raises ProblemError for a name that is not a zone's."""
    from tidetable.zones import find_zone  # only a request with a zone waits for the import

    try:
        return find_zone(text).key
    except UnknownZone as error:
        raise refuse_parameter(f"tz: {error}") from error


def parse_query(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> Query:
    """Read the query string. Without ``from`` and ``to`` the range is the last hour, and up to ``ahead`` from now."""
    request = Parameters.read(stream, parameters, KNOWN)
    limit = request.parse_count("limit", MAX_LIMIT) or DEFAULT_LIMIT
    if "cursor" in request.values:
        cursor = request.open_cursor(Query, seal, lambda query: request.list_repeats(query, now))
        return msgspec.structs.replace(cursor, limit=limit, projection=cursor.projection.of(stream))
    query = request.parse_query(now, limit)
    if stream.key.partition_by == "series" and not query.names.series:
        refuse_scan(stream, query)
    if query.names != ANY:
        # Conditions have 2,048 bytes and fields 1,024 at most, so no query without names is too long.
        refuse_long(query.make_cursor(Position(query.start)))
    return query


def refuse_scan(stream: Stream, query: Query) -> None:
    """Raise ProblemError, with the index to add, if the query needs a scan of a table with the present layout."""
    if stream.key.partition_by == "time" or query.names.series:
        return  # a table by time can always be read, and a table by series if the query names series
    layout, conditions = stream.layout, query.conditions
    choose = partial(choose_access_path, layout, query.names, conditions)
    if choose(consistent=query.consistent, low=query.low_priority) is not None:
        return
    if query.consistent and choose(consistent=False, low=False) is not None:
        detail = (
            "only an index answers this, and DynamoDB reads indexes eventually: leave consistent out, or add series="
        )
        raise refuse_parameter(detail)
    indexed = any(condition.equals for condition in conditions)
    why = f"{stream.name} is partitioned by series, so a query without series would scan whole tables"
    if query.names.series_prefix:
        why = f"{why}, and series:prefix names no series"
    suggested = choose_reading(layout).suggest_index(stream.name, layout, conditions)
    detail = f"add series=: {why}; or {suggested}"
    raise refuse_request(400, "needs_index" if indexed else "needs_series", detail)


def refuse_unwritable(parameters: Mapping[str, Sequence[str]]) -> None:
    """Raise ProblemError for text with half of a surrogate pair: no event and no answer can hold it."""
    for name, values in parameters.items():
        for text in (name, *values):
            try:
                text.encode()
            except UnicodeEncodeError:
                detail = f"{name[:64]!a} or its value has half of a surrogate pair: percent-encode text as UTF-8"
                raise refuse_parameter(detail) from None


def _refuse_unknown(name: str, known: Collection[str], *, where: bool) -> ProblemError:
    """Make the error 400 for an unknown parameter; it suggests a known parameter of a similar name."""
    from difflib import get_close_matches  # only a refusal needs this import

    close = get_close_matches(name[:64].lower(), known, 1, 0.75)
    meant = f"; did you mean {close[0]}?" if close else ""
    if not close and where and name not in ("series", "time", "id") and is_condition(WHERE + name):
        meant = f"; a condition on a field of data is {WHERE}{name[:64]}="
    names = ", ".join([*known, f"{WHERE}FIELD", f"{WHERE}FIELD:OPERATOR"] if where else sorted(known))
    return refuse_request(400, "unknown_parameter", f"unknown parameter {name[:64]!r}{meant}; known are {names}")
