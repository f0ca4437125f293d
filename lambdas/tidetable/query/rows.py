"""The rows of an answer: events with their earlier versions, made whole and cut to what was asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.events import Event, Item, JsonObject
from tidetable.exact import encode_json
from tidetable.keys import Key, Ref
from tidetable.large.sweep import earlier_keys
from tidetable.large.whole import Unpacker, is_partial, size_outside
from tidetable.ports import EventStore, Version
from tidetable.times import from_micros, to_text

ALL = "*"
# What an event takes in an answer besides its data and its names.
_FRAME_BYTES = 400


@dataclass(frozen=True, slots=True)
class Shape:
    """What of the events is shown: ``fields`` of data (all but the ``cold`` ones, if none are named), and which versions."""

    fields: tuple[str, ...] = ()
    cold: frozenset[str] = frozenset()
    versions: bool = False

    @classmethod
    def of(cls, stream: Stream, fields: tuple[str, ...], *, versions: bool) -> Shape:
        """The shape of an answer about a stream."""
        return cls(fields, frozenset(stream.cold), versions)

    @property
    def wants_cold(self) -> bool:
        """Whether any cold field is asked for."""
        return ALL in self.fields or not self.cold.isdisjoint(self.fields)

    def cut(self, data: JsonObject) -> JsonObject:
        """Data as it is shown."""
        if ALL in self.fields:
            return data
        if self.fields:
            return {name: data[name] for name in self.fields if name in data}
        if self.cold.isdisjoint(data):
            return data
        return {name: value for name, value in data.items() if name not in self.cold}


EVERYTHING = Shape()


@dataclass(frozen=True, slots=True)
class Row:
    """An event on its way to an answer; ``item`` is what its table holds, as far as that is not all of it.

    ``earlier`` are its earlier versions, latest first.
    """

    event: Event
    entry: Entry
    item: Item | None = None
    version: Version | None = None
    earlier: tuple[Row, ...] = ()
    incomplete: bool = False

    @property
    def count(self) -> int:
        """How many events it is in an answer."""
        return 1 + len(self.earlier)

    def size(self, shape: Shape) -> int:
        """About how many bytes it takes in an answer."""
        event, item = self.event, self.item
        outside = size_outside(item, cold=shape.wants_cold) if item is not None else 0
        own = len(encode_json(event.data)) + 2 * (len(event.series) + len(event.id)) + _FRAME_BYTES
        return own + outside + sum(row.size(shape) for row in self.earlier)


class Shown(NamedTuple):
    """An event as it is shown."""

    event: Event
    ref: str
    version: Version | None = None
    incomplete: bool = False

    def document(self) -> dict[str, object]:
        """The event in an answer's body."""
        event, version = self.event, self.version
        document: dict[str, object] = {
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
        return document


def row_of(item: Item, entry: Entry, shape: Shape, earlier: Sequence[Item] = ()) -> Row:
    """The row of an item of a period table."""
    layout = entry.layout
    version = version_of(item) if layout.versioned and shape.versions else None
    partial = item if is_partial(item, cold=shape.wants_cold) else None
    return Row(layout.event_of(item), entry, partial, version, tuple(row_of(one, entry, shape) for one in earlier))


def version_of(item: Item) -> Version:
    """Which version of its event an item is, in a table that keeps them."""
    return Version(int(item.get("version", 1)), int(item.get("at", 0)), newest=item["sk"].startswith("v0#"))


def earlier_items(items: Sequence[Item], table: str, store: EventStore) -> Mapping[Key, Sequence[Item]]:
    """The earlier versions of some events, latest first, by the key of the newest."""
    keys = {Key(item["pk"], item["sk"]): earlier_keys(item) for item in items if int(item.get("version", 1)) > 1}
    found = store.get_many(table, [key for some in keys.values() for key in some]) if keys else {}
    return {newest: [found[key] for key in some if key in found] for newest, some in keys.items()}


def complete(rows: Sequence[Row], unpacker: Unpacker, shape: Shape) -> list[Row]:
    """The rows with all of their data; those whose data is not to be had are marked."""
    partial: defaultdict[str, list[Item]] = defaultdict(list)
    for row in _flat(rows):
        if row.item is not None:
            partial[row.entry.table].append(row.item)
    done: dict[int, tuple[Item, bool]] = {}
    for table, items in partial.items():
        wholes = unpacker.whole(items, table, cold=shape.wants_cold)
        for index, (item, whole) in enumerate(zip(items, wholes.items, strict=True)):
            done[id(item)] = whole, index in wholes.missing
    return [_completed(row, done) for row in rows]


def _completed(row: Row, done: Mapping[int, tuple[Item, bool]]) -> Row:
    earlier = tuple(_completed(one, done) for one in row.earlier)
    if row.item is None:
        return replace(row, earlier=earlier) if earlier else row
    whole, incomplete = done[id(row.item)]
    return replace(row, event=row.entry.layout.event_of(whole), item=None, earlier=earlier, incomplete=incomplete)


def shown(rows: Sequence[Row], stream: str, shape: Shape) -> list[Shown]:
    """Rows as they are shown: each event's newest version, then its earlier ones."""
    return [_shown(row, stream, shape) for row in _flat(rows)]


def _shown(row: Row, stream: str, shape: Shape) -> Shown:
    event = row.event
    ref = Ref(stream, row.entry.period, row.entry.layout.key_of(event)).encode()
    data = shape.cut(event.data)
    if data is not event.data:
        event = Event(event.series, event.time, event.id, data)
    return Shown(event, ref, row.version, row.incomplete)


def _flat(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        yield from row.earlier


def archived_rows(events: Sequence[Event], versions: Sequence[Version] | None, entry: Entry) -> Iterator[Row]:
    """The rows of a page of an archive, in which an event's newest version comes before its earlier ones."""
    if versions is None:
        for event in events:
            yield Row(event, entry)
        return
    gathered: list[Row] = []
    for event, version in zip(events, versions, strict=True):
        if version.newest and gathered:
            yield replace(gathered[0], earlier=tuple(gathered[1:]))
            gathered = []
        gathered.append(Row(event, entry, version=version))
    if gathered:
        yield replace(gathered[0], earlier=tuple(gathered[1:]))
