"""Packing: an event's item made small enough, or cheaper. AWS names three remedies for large items, and these are they."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from tidetable.config import Stream
from tidetable.events import Item
from tidetable.exact import encode_json
from tidetable.keys import Key, Layout
from tidetable.large.forms import MAX_EVENT_BYTES, blob_prefix, part_key, pieces, version_of
from tidetable.names import parts_table
from tidetable.ports import Blob, Compressor, Put
from tidetable.values import MAX_ITEM_BYTES, item_bytes

_UNIT = 1024
# What a version kept may still gain: its number, and the digests of those before it.
_GROWTH = 1_024
# A second version of N KB is one transaction that writes both items under one partition key: 4 N units, after the N of the
# condition that failed. A partition takes 1,000 units per second, so beyond 200 KB it would never be written.
_VERSION_BYTES = 100_000
# What stays in the item although its data is outside: keys, and what indexes hold once more.
_VERSION_BARE_BYTES = 160_000


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
        packed, parts = self._without_cold(item, place, self.cold)
        size = item_bytes(packed)
        versioned = place.layout.versioned
        limit = _VERSION_BYTES if versioned else MAX_ITEM_BYTES
        above = self.compress_above
        if size <= limit and (above is None or size <= max(above, _UNIT)):
            return Put(place.table, packed, parts)
        if above is None and self.beyond == "refuse" and not (versioned and size <= MAX_ITEM_BYTES):
            return None
        text = encode_json(packed["data"])
        if len(text) > MAX_EVENT_BYTES:
            return None
        if size <= limit and above is not None and len(text) <= above:
            return Put(place.table, packed, parts)
        payload = self.compressor.compress(text)
        smaller = {**_dataless(packed), "z": payload}
        after = item_bytes(smaller)
        # Every index that the event is in pays for the same bytes.
        if -(-after // _UNIT) < -(-size // _UNIT) and after <= limit:
            return Put(place.table, smaller, parts)
        if size <= limit:
            return Put(place.table, packed, parts)
        beyond = self.beyond if place.layout.parts or self.beyond != "chunks" else "refuse"
        if versioned and beyond == "refuse" and min(size, after) <= MAX_ITEM_BYTES - _GROWTH:
            # It would fit an item, so it is not what the policy refuses.
            beyond = "chunks" if place.layout.parts else "s3"
        # What indexes hold of it stays in the item, whatever becomes of its data.
        if beyond == "refuse" or item_bytes(_dataless(packed)) > (_VERSION_BARE_BYTES if versioned else limit) - _UNIT:
            return None
        return self._outside(packed, text, payload, place, parts, beyond)

    def put_again(self, item: Item, place: Place) -> Put:
        """A whole item of an archive, packed as it was before; in a table of another kind, in S3."""
        how = item.get("packed", {})
        bare = {name: value for name, value in item.items() if name != "packed"}
        packed, parts = self._without_cold(bare, place, how.get("cold", ()))
        form = how.get("data")
        if form is None:
            return Put(place.table, packed, parts)
        text = encode_json(packed["data"])
        payload = self.compressor.compress(text)
        if form == "z":
            return Put(place.table, {**_dataless(packed), "z": payload}, parts)
        beyond = "chunks" if form == "chunks" and place.layout.parts else "s3"
        return self._outside(packed, text, payload, place, parts, beyond)

    def _without_cold(self, item: Item, place: Place, cold: Sequence[str]) -> tuple[Item, tuple[Put, ...]]:
        """The item without its cold fields, and the parts that hold them."""
        data = item["data"]
        held = {name: data[name] for name in cold if name in data}
        if not held or not place.layout.parts:
            return item, ()
        text = encode_json(held)
        marker, parts = self._parts(item, text, self.compressor.compress(text), place)
        warm = {name: value for name, value in data.items() if name not in held}
        return {**item, "data": warm, "cold": marker}, parts

    def _outside(
        self, item: Item, text: bytes, payload: bytes, place: Place, parts: tuple[Put, ...], beyond: str
    ) -> Put:
        """The item with all of its data elsewhere: in chunks, or in S3."""
        bare = _dataless(item)
        if beyond == "chunks":
            marker, chunks = self._parts(item, text, payload, place)
            return Put(place.table, {**bare, "out": marker}, (*parts, *chunks))
        owner = Key(item["pk"], item["sk"])
        name = sha256(f"{owner.pk}\n{owner.sk}".encode()).hexdigest()[:32]
        key = f"{blob_prefix(place.stream, place.label)}{name}/{self.unique()}"
        return Put(place.table, {**bare, "out": {"o": key, "b": len(text)}}, parts, Blob(key, payload, owner))

    def _parts(self, item: Item, text: bytes, payload: bytes, place: Place) -> tuple[dict[str, Any], tuple[Put, ...]]:
        version = version_of(payload)
        key = Key(item["pk"], item["sk"])
        table = parts_table(place.table)
        chunks = pieces(payload)
        puts = tuple(Put(table, {"pk": part_key(key, version, n), "b": one}) for n, one in enumerate(chunks))
        return {"v": version, "n": len(chunks), "b": len(text)}, puts


def _dataless(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "data"}
