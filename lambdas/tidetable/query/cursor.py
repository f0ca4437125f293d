"""Cursors: where an answer ended, bound to its query."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidetable.errors import InvalidCursor
from tidetable.times import from_micros, to_micros

_VERSION = 1


class Position(NamedTuple):
    """A place in the order of events. Without series and id it is the bare instant: before every event of that time."""

    time: datetime
    series: str = ""
    id: str = ""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The query, its edges resolved to microseconds so that ``-15m`` does not wander, and the position reached."""

    version: int
    stream: str
    series: str | None
    ascending: bool
    start: int
    end: int
    time: int
    at_series: str
    at_id: str
    where: tuple[str, str] | None = None
    fields: tuple[str, ...] = ()
    versions: bool = False
    consistent: bool = False

    @property
    def position(self) -> Position:
        """Where to go on."""
        return Position(from_micros(self.time), self.at_series, self.at_id)


def encode_cursor(
    stream: str,
    series: str | None,
    start: datetime,
    end: datetime,
    position: Position,
    *,
    ascending: bool,
    where: tuple[str, str] | None = None,
    fields: tuple[str, ...] = (),
    versions: bool = False,
    consistent: bool = False,
) -> str:
    """The cursor as URL-safe text."""
    time = to_micros(position.time)
    edges = to_micros(start), to_micros(end)
    cursor = Cursor(
        _VERSION,
        stream,
        series,
        ascending,
        *edges,
        time,
        position.series,
        position.id,
        where,
        fields,
        versions,
        consistent,
    )
    return urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def decode_cursor(text: str) -> Cursor:
    """Read what ``encode_cursor`` wrote; InvalidCursor if it is anything else."""
    try:
        cursor = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Cursor)
        edges = from_micros(cursor.start), from_micros(cursor.end), from_micros(cursor.time)
    except (ValueError, OverflowError) as error:
        raise InvalidCursor("this is no cursor: use one that the API answered, whole and unchanged") from error
    if cursor.version != _VERSION or not edges[0] <= edges[2] <= edges[1]:
        raise InvalidCursor("this is no cursor: use one that the API answered, whole and unchanged")
    return cursor
