"""Parse a listing: its subject, its range, and the name or value after which it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import msgspec

from tidetable.conditions import ANY, NameConditions
from tidetable.config import Stream
from tidetable.large.searched import refuse_unsearched
from tidetable.layout import MAX_NAME_BYTES
from tidetable.problems import ProblemError, refuse_parameter, refuse_request
from tidetable.query.cursor import Seal
from tidetable.query.model import Query, QueryBased
from tidetable.query.parse import Parameters
from tidetable.rollup_model.definition import SERIES, Definition
from tidetable.rollup_model.group_values import make_group_value
from tidetable.times import EPOCH
from tidetable.where import parse_path

KNOWN = ("from", "to", "tz", "prefix", "limit", "consistent", "format", "flat", "escape", "explain", "cursor")
DEFAULT_LIMIT, MAX_LIMIT = 100, 10_000
# A cursor holds the first characters of a text; for a longer text, also its hash.
_HEAD, _HASH_DIGITS = 256, 32
Kind = Literal["series", "fields", "values"]


class Place(NamedTuple):
    """The place of a name or a value in a listing: numbers come first, then texts, then booleans.

    A text longer than 256 characters is sorted by its first 256 characters, and then by its hash.
    """

    kind: str
    head: Decimal | str
    hash: str = ""

    @property
    def texts(self) -> tuple[str, str, str]:
        """The place as texts, for a cursor."""
        return self.kind, str(self.head), self.hash

    @classmethod
    def parse(cls, texts: tuple[str, str, str]) -> Place:
        """Read ``texts``."""
        kind, head, hash = texts
        return cls(kind, Decimal(head) if kind == "number" else head, hash)


def find_place(value: Any) -> Place | None:
    """Find the place of a value; None if the value is not plain."""
    if type(value) is str and len(value) <= _HEAD:
        # Nearly all values are short texts, and there may be millions: this is the fast path.
        return Place("text", value)
    kind, value = make_group_value(value)
    match kind:
        case "text":
            return Place(kind, value[:_HEAD], sha256(value.encode()).hexdigest()[:_HASH_DIGITS])
        case "number":
            return Place(kind, Decimal(value))
        case "truth":
            return Place(kind, "true" if value else "false")
    return None


class Listing(QueryBased, msgspec.Struct, frozen=True, array_like=True, tag="listing"):
    """A list of the series, of the fields of data, or of the values of a ``field`` that the events of a range have.

    ``query`` has the range. If the listing is ``whole``, the rollups decide where the range begins. Only texts that
    begin with ``prefix`` are listed. ``after`` is the place where an earlier page ended; it has numbers as text. ``kept``
    is the name of the object with the names that an earlier page found; empty if there is none.
    """

    query: Query
    kind: Kind
    field: str | None = None
    prefix: str = ""
    whole: bool = False
    after: tuple[str, str, str] | None = None
    limit: int = DEFAULT_LIMIT
    kept: str = ""

    @property
    def place(self) -> Place | None:
        """The place where an earlier page ended."""
        return None if self.after is None else Place.parse(self.after)

    def make_cursor(self, place: Place | None) -> Listing:
        """Make the listing for a cursor, with the place where its page ended; None if it had no row yet."""
        return msgspec.structs.replace(self, limit=0, after=None if place is None else place.texts)

    @property
    def needed(self) -> str | None:
        """The name that a rollup must have in its ``by`` to answer the listing; None if every rollup can."""
        return SERIES if self.kind == "series" else self.field

    def find_misfit(self, definition: Definition) -> str | None:
        """Find the reason why a rollup cannot answer the listing; None if it can."""
        return None if self.needed is None or self.needed in definition.by else f"its by lacks {self.needed}"


def parse_series(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> Listing:
    """Read the query string of a listing of series; ProblemError says what to change."""
    return _parse_listing(stream, parameters, now, seal, "series", None)


def parse_fields(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> Listing:
    """Read the query string of a listing of fields; ProblemError says what to change."""
    return _parse_listing(stream, parameters, now, seal, "fields", None)


def parse_values(
    field: str, stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal
) -> Listing:
    """Read the query string of a listing of the values of a field; ProblemError says what to change."""
    path = parse_path(field)
    if path == SERIES or not all(path.split(".")):
        other = f"GET /v1/streams/{stream.name}/series lists series"
        raise refuse_parameter(f"{path[:64]!r} is not the path of a field of data, such as mag or place.state; {other}")
    refuse_unsearched(stream, [path])
    return _parse_listing(stream, parameters, now, seal, "values", path)


def _parse_listing(
    stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal, kind: Kind, field: str | None
) -> Listing:
    request = Parameters.read(stream, parameters, KNOWN, where=False)
    limit, prefix = request.parse_count("limit", MAX_LIMIT) or DEFAULT_LIMIT, _parse_prefix(request.values)
    consistent = request.parse_flag("consistent")

    def list_repeats(listing: Listing) -> dict[str, bool]:
        if (listing.kind, listing.field) != (kind, field):
            detail = f"this cursor belongs to a listing of {listing.kind}: begin without it"
            raise refuse_request(400, "invalid_cursor", detail)
        return {
            "from": request.parse_instant("from", now) == listing.query.start,
            "to": request.parse_instant("to", now) == listing.query.end,
            "tz": request.tz == listing.query.tz,
            "prefix": prefix == listing.prefix,
            "consistent": consistent == listing.query.consistent,
        }

    if "cursor" in request.values:
        cursor = request.open_cursor(Listing, seal, list_repeats)
        return msgspec.structs.replace(cursor, limit=limit)
    start, end = request.parse_range(now, EPOCH)
    names = NameConditions(series_prefix=prefix) if kind == "series" else ANY
    query = Query(stream.name, start, end, names, ascending=True, limit=0, consistent=consistent, tz=request.tz)
    return Listing(query, kind, field, prefix, "from" not in request.values, limit=limit)


def _parse_prefix(values: Mapping[str, str]) -> str:
    prefix = values.get("prefix", "")
    if "prefix" in values and not 0 < len(prefix.encode()) <= MAX_NAME_BYTES:
        raise refuse_parameter(f"prefix must have 1 to {MAX_NAME_BYTES} bytes; leave it out to list everything")
    return prefix


def refuse_unrolled(listing: Listing, stream: Stream) -> ProblemError:
    """Make the error 400 for a listing that no rollup of the stream can answer. It names the rollup to add."""
    what = f"{listing.kind} of {listing.field}" if listing.field is not None else listing.kind
    if stream.source:
        detail = f"{stream.name} is a rollup: list the {what} of its stream {stream.source}"
    else:
        by = msgspec.json.encode([listing.needed] if listing.needed else []).decode()
        keys = f'name = "{listing.kind}", every = "1h", by = {by}'
        detail = (
            f"no rollup of {stream.name} knows its {what}: add [[streams.{stream.name}.rollup]] with {keys} and"
            ' retention = "365d"; docs/design/rollups.md says what it costs'
        )
    return refuse_request(400, "needs_rollup", detail)
