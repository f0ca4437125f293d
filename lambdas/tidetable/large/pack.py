"""Packing: an event's item made small enough, or cheaper. AWS names three remedies for large items, and these are they."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from tidetable.config import Stream
from tidetable.events import Item
from tidetable.keys import Key, Layout
from tidetable.large.forms import MAX_EVENT_BYTES, blob_prefix, encoded, part_key, pieces, version_of
from tidetable.names import parts_table
from tidetable.ports import Blob, Compressor, Put
from tidetable.values import MAX_ITEM_BYTES, item_bytes

_UNIT = 1024
# What a version kept may still gain: its number, and the digests of those before it.
_GROWTH = 1_024


class Place(NamedTuple):
    """Where an item goes."""

    stream: str
    label: str
    table: str
    layout: Layout


@dataclass(slots=True)
class Packer:
    """Packs the events of one stream by its policy. ``unique`` names objects, each only once."""

    compress_above: int | None
    beyond: str
    cold: Sequence[str]
    compressor: Compressor
    unique: Callable[[], str]

    @classmethod
    def of(cls, stream: Stream, compressor: Compressor, unique: Callable[[], str]) -> Packer:
        """The packer of a stream."""
        return cls(stream.large.compress_above, stream.large.beyond, stream.cold, compressor, unique)

    @property
    def packs(self) -> bool:
        """Whether there is any remedy for what is larger than an item."""
        return self.beyond != "refuse" or self.compress_above is not None or bool(self.cold)

    @property
    def plain(self) -> int:
        """Up to how many bytes an item needs no look: it stays as it is."""
        return -1 if self.cold else self.compress_above or MAX_ITEM_BYTES - _GROWTH

    def put(self, item: Item, place: Place) -> Put | None:
        """An item that has all of its data as a put that may be sent; None if it is too large for the policy."""
        packed, parts = self.without_cold(item, place)
        size = item_bytes(packed)
        limit = MAX_ITEM_BYTES - (_GROWTH if place.layout.versioned else 0)
        if self._tries(packed, size, limit):
            smaller, text, payload = self._compressed(packed)
            if len(text) > MAX_EVENT_BYTES:
                return None
            after = item_bytes(smaller)
            # Every index that the event is in pays for the same bytes.
            if -(-after // _UNIT) < -(-size // _UNIT) and after <= limit:
                packed, size = smaller, after
            elif size > limit:
                return self.outside(packed, text, payload, place, parts)
        return Put(place.table, packed, parts) if size <= limit else None

    def put_again(self, item: Item, place: Place) -> Put:
        """A whole item of an archive, packed as it was before; in a table of another kind, in S3."""
        how = item.get("packed", {})
        if not how:
            return Put(place.table, item)
        bare = {name: value for name, value in item.items() if name != "packed"}
        packer = replace(self, cold=tuple(how.get("cold", ())))
        packed, parts = packer.without_cold(bare, place)
        smaller, text, payload = self._compressed(packed)
        match how.get("data"):
            case None:
                return Put(place.table, packed, parts)
            case "z":
                return Put(place.table, smaller, parts)
            case form:
                beyond = "chunks" if form == "chunks" and place.layout.parts else "s3"
                return replace(self, beyond=beyond).outside(packed, text, payload, place, parts) or Put(
                    place.table, smaller, parts
                )

    def _tries(self, item: Item, size: int, limit: int) -> bool:
        if size > limit:
            return self.beyond != "refuse" or self.compress_above is not None
        above = self.compress_above
        return above is not None and size > max(above, _UNIT) and len(encoded(item["data"])) > above

    def without_cold(self, item: Item, place: Place) -> tuple[Item, tuple[Put, ...]]:
        """The item without its cold fields, and the parts that hold them."""
        data = item["data"]
        held = {name: data[name] for name in self.cold if name in data}
        if not held or not place.layout.parts:
            return item, ()
        text = encoded(held)
        marker, parts = self._parts(item, text, self.compressor.compress(text), place)
        warm = {name: value for name, value in data.items() if name not in held}
        return {**item, "data": warm, "cold": marker}, parts

    def _compressed(self, item: Item) -> tuple[Item, bytes, bytes]:
        """The item with its data compressed, and the data before and after."""
        text = encoded(item["data"])
        payload = self.compressor.compress(text)
        return {**_dataless(item), "z": payload}, text, payload

    def outside(self, item: Item, text: bytes, payload: bytes, place: Place, parts: tuple[Put, ...]) -> Put | None:
        """The item with all of its data elsewhere."""
        bare = _dataless(item)
        if self.beyond == "chunks" and place.layout.parts:
            marker, chunks = self._parts(item, text, payload, place)
            return Put(place.table, {**bare, "out": marker}, (*parts, *chunks))
        if self.beyond == "s3":
            owner = Key(item["pk"], item["sk"])
            name = sha256(f"{owner.pk}\n{owner.sk}".encode()).hexdigest()[:32]
            key = f"{blob_prefix(place.stream, place.label)}{name}/{self.unique()}"
            marker = {"o": key, "b": len(text)}
            return Put(place.table, {**bare, "out": marker}, parts, Blob(key, payload, owner))
        return None

    def _parts(self, item: Item, text: bytes, payload: bytes, place: Place) -> tuple[dict[str, Any], tuple[Put, ...]]:
        version = version_of(payload)
        key = Key(item["pk"], item["sk"])
        table = parts_table(place.table)
        chunks = pieces(payload)
        puts = tuple(Put(table, {"pk": part_key(key, version, n), "b": one}) for n, one in enumerate(chunks))
        return {"v": version, "n": len(chunks), "b": len(text)}, puts


def _dataless(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "data"}
