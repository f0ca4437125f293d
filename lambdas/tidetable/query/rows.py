"""The rows of an answer: events with their earlier versions, made whole and cut to what was asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.events import Event, Item, JsonObject
from tidetable.exact import encode_json
from tidetable.keys import Ref
from tidetable.large.whole import Unpacker, is_partial, size_outside
from tidetable.ports import Version
from tidetable.query.cursor import Position
from tidetable.times import from_micros, from_text, to_text

ALL = "*"
# What an event takes in an answer besides its data and its names.
_FRAME_BYTES = 400


@dataclass(frozen=True, slots=True)
class Shape:
    """What of the events is shown: ``fields`` of data by their paths (all but the ``cold`` ones, if none are named), and which
    versions.

    A ``bare`` one is of no data but those fields, even if none are named.
    """

    fields: tuple[str, ...] = ()
    cold: frozenset[str] = frozenset()
    versions: bool = False
    bare: bool = False

    @classmethod
    def of(cls, stream: Stream, fields: tuple[str, ...], *, versions: bool) -> Shape:
        """The shape of an answer about a stream."""
        return cls(fields, frozenset(stream.cold), versions)

    @property
    def wants_cold(self) -> bool:
        """Whether any cold field is asked for."""
        return ALL in self.fields or not self.cold.isdisjoint(self.tops)

    @property
    def tops(self) -> set[str]:
        """The fields of data that those asked for are in."""
        return {field.partition(".")[0] for field in self.fields}

    def cut(self, data: JsonObject) -> JsonObject:
        """Data as it is shown."""
        if ALL in self.fields:
            return data
        if self.fields:
            return _picked(data, self.fields)
        if self.cold.isdisjoint(data):
            return data
        return {name: value for name, value in data.items() if name not in self.cold}


def _picked(data: JsonObject, fields: Sequence[str]) -> JsonObject:
    """Some fields of data where they stand, given by their paths."""
    shown: JsonObject = {}
    for field in fields:
        *outer, last = [field] if field in data else field.split(".")
        held: Any = data
        for name in outer:
            held = held.get(name) if isinstance(held, dict) else None
        if isinstance(held, dict) and last in held:
            place = shown
            for name in outer:
                place = place.setdefault(name, {})
            place[last] = held[last]
    return shown


EVERYTHING = Shape()


class Row(msgspec.Struct, gc=False):
    """An event on its way to an answer: an item of a table, or an archived event.

    ``partial`` items have data elsewhere; ``earlier`` are the event's earlier versions, latest first, but for the oldest that
    were ``left_out`` because no answer holds them all.
    """

    entry: Entry
    item: Item | None = None
    archived: Event | None = None
    version: Version | None = None
    earlier: tuple[Row, ...] = ()
    partial: bool = False
    incomplete: bool = False
    left_out: int = 0

    @property
    def names(self) -> tuple[str, str, str]:
        """The text of its time, its series and its id."""
        if self.item is not None:
            return self.entry.layout.names_of(self.item)
        event = self.event
        return to_text(event.time), event.series, event.id

    @property
    def event(self) -> Event:
        """The event, with as much of its data as is at hand."""
        if self.archived is not None:
            return self.archived
        return self.entry.layout.event_of(self.item or {})

    @property
    def position(self) -> Position:
        """Its place in the order of events."""
        time, series, id = self.names
        return Position(from_text(time), series, id)

    def size(self, shape: Shape) -> int:
        """How many bytes it takes in an answer, at the most: names are there twice, once within the ref."""
        return self.own_size(shape) + sum(row.size(shape) for row in self.earlier)

    def own_size(self, shape: Shape) -> int:
        """The same without its earlier versions."""
        item = self.item
        outside = size_outside(item, cold=shape.wants_cold) if item is not None and self.partial else 0
        event = self.event
        names = escaped_bytes(event.series) + escaped_bytes(event.id)
        # What is elsewhere is known by its length alone: every character of it may be a quote.
        return escaped_bytes(encode_json(shape.cut(event.data)).decode()) + 2 * outside + 3 * names + _FRAME_BYTES

    def cut_earlier(self, shape: Shape, most: int) -> None:
        """Leave out the oldest versions until what is left fits into an answer of so many bytes."""
        sizes = accumulate([self.own_size(shape), *(row.size(shape) for row in self.earlier)])
        kept = max(sum(size <= most for size in sizes) - 1, 0)
        self.left_out += len(self.earlier) - kept
        self.earlier = self.earlier[:kept]


class Shown(NamedTuple):
    """An event as it is shown."""

    event: Event
    ref: str
    version: Version | None = None
    incomplete: bool = False
    left_out: int = 0

    def document(self) -> dict[str, Any]:
        """The event in an answer's body."""
        event, version = self.event, self.version
        document: dict[str, Any] = {
            "series": event.series,
            "time": to_text(event.time),
            "id": event.id,
            "data": event.data,
            "ref": self.ref,
        }
        if version is not None:
            accepted = to_text(from_micros(version.at * 1000))
            document |= {"version": version.number, "newest": version.newest, "accepted": accepted}
        if self.incomplete:
            document["incomplete"] = True
        if self.left_out:
            document["versions_left_out"] = self.left_out
        return document


def escaped_bytes(text: str) -> int:
    """What text takes in an answer: on the way to the gateway it is escaped once more."""
    size = (len(text) if text.isascii() else len(text.encode())) + text.count('"')
    return size + text.count("\\") if "\\" in text else size


def row_of(item: Item, entry: Entry, shape: Shape, earlier: Sequence[Item] = ()) -> Row:
    """The row of an item of a period table."""
    version = version_of(item) if entry.layout.versioned and shape.versions else None
    others = tuple(row_of(one, entry, shape) for one in earlier)
    return Row(entry, item, None, version, others, is_partial(item, cold=shape.wants_cold))


def version_of(item: Item) -> Version:
    """Which version of its event an item is, in a table that keeps them."""
    return Version(int(item.get("version", 1)), int(item.get("at", 0)), newest=item["sk"].startswith("v0#"))


def complete(rows: Sequence[Row], unpacker: Unpacker, shape: Shape) -> None:
    """Give the rows all of their data; those whose data is not to be had are marked."""
    partial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in _flat(rows):
        if row.partial:
            partial[row.entry.table].append(row)
    for table, some in partial.items():
        wholes = unpacker.whole([row.item or {} for row in some], table, cold=shape.wants_cold)
        for index, (row, item) in enumerate(zip(some, wholes.items, strict=True)):
            row.item, row.partial, row.incomplete = item, False, index in wholes.missing


def shown(rows: Sequence[Row], stream: str, shape: Shape) -> list[Shown]:
    """Rows as they are shown: each event's newest version, then its earlier ones."""
    return [_shown(row, stream, shape) for row in _flat(rows)]


def _shown(row: Row, stream: str, shape: Shape) -> Shown:
    event = row.event
    ref = Ref(stream, row.entry.period, row.entry.layout.key_of(event)).encode()
    data = shape.cut(event.data)
    if data is not event.data:
        event = Event(event.series, event.time, event.id, data)
    return Shown(event, ref, row.version, row.incomplete, row.left_out)


def _flat(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        yield from row.earlier


def archived_rows(events: Sequence[Event], versions: Sequence[Version] | None, entry: Entry) -> Iterator[Row]:
    """The rows of a page of an archive, in which an event's newest version comes before its earlier ones."""
    if versions is None:
        for event in events:
            yield Row(entry, archived=event)
        return
    gathered: list[Row] = []
    for event, version in zip(events, versions, strict=True):
        if version.newest and gathered:
            yield _with_earlier(gathered)
            gathered = []
        gathered.append(Row(entry, archived=event, version=version))
    if gathered:
        yield _with_earlier(gathered)


def _with_earlier(rows: Sequence[Row]) -> Row:
    newest, *earlier = rows
    newest.earlier = tuple(earlier)
    # Versions are counted from 1 without a hole: what a page of the archive had no room for is the oldest.
    last = rows[-1].version
    newest.left_out = 0 if last is None else last.number - 1
    return newest
