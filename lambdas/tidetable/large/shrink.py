"""Make an event's item small enough, or cheaper, by AWS's three remedies: compression, chunks and S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from tidetable.config import Stream
from tidetable.events import Item
from tidetable.exact import encode_json
from tidetable.keys import Key, Layout
from tidetable.large.forms import MAX_EVENT_BYTES, derive_version, make_blob_prefix, make_chunk_key, split_payload
from tidetable.names import name_chunks_table
from tidetable.ports import Blob, Compressor, Put
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

_UNIT = 1024
# A kept version may still grow by this number of bytes: for its number, and the digests of the versions before it.
_GROWTH = 1_024
# A second version of N KB is written by one transaction, which writes both items under one partition key: 4 N units.
# Before that, the put whose condition failed took N units. A partition takes 1,000 units per second, so a version of
# more than 200 KB would never be written.
_VERSION_BYTES = 100_000
# The limit of an item whose data is outside: it keeps its keys, and the copies of fields for indexes.
_VERSION_BARE_BYTES = 160_000


class Place(NamedTuple):
    """The table that an item is written to, and its period."""

    stream: str
    label: str
    table: str
    layout: Layout


class Shrinker(msgspec.Struct):
    """Shrinks the items of one stream by its policy. ``unique`` returns a new object name at every call."""

    compress_above: int | None
    beyond: str
    cold: Sequence[str]
    compressor: Compressor
    unique: Callable[[], str]

    @classmethod
    def of(cls, stream: Stream, compressor: Compressor, unique: Callable[[], str]) -> Shrinker:
        return cls(stream.large.compress_above, stream.large.beyond, stream.cold, compressor, unique)

    @property
    def plain(self) -> int:
        """The size in bytes up to which an item need not be shrunk."""
        return -1 if self.cold else self.compress_above or MAX_ITEM_BYTES - _GROWTH

    def put(self, item: Item, place: Place) -> Put | None:
        """Shrink an item that has all of its data, and make its put; None if it is too large for the policy."""
        warm, chunks = self._split_cold(item, place, self.cold)
        size = count_item_bytes(warm)
        versioned = place.layout.versioned
        limit = _VERSION_BYTES if versioned else MAX_ITEM_BYTES
        above = self.compress_above
        if size <= limit and (above is None or size <= max(above, _UNIT)):
            return Put(place.table, warm, chunks)
        if above is None and self.beyond == "refuse" and not (versioned and size <= MAX_ITEM_BYTES):
            return None
        text = encode_json(warm["data"])
        if len(text) > MAX_EVENT_BYTES:
            return None
        if size <= limit and above is not None and len(text) <= above:
            return Put(place.table, warm, chunks)
        payload = self.compressor.compress(text)
        smaller = {**_remove_data(warm), "z": payload}
        after = count_item_bytes(smaller)
        # Every index that holds the event costs units for the same bytes.
        if -(-after // _UNIT) < -(-size // _UNIT) and after <= limit:
            return Put(place.table, smaller, chunks)
        if size <= limit:
            return Put(place.table, warm, chunks)
        beyond = self.beyond if place.layout.parts or self.beyond != "chunks" else "refuse"
        if versioned and beyond == "refuse" and min(size, after) <= MAX_ITEM_BYTES - _GROWTH:
            # It would fit an item, so the policy does not refuse it.
            beyond = "chunks" if place.layout.parts else "s3"
        # The copies of fields for indexes stay in the item, wherever its data goes.
        if (
            beyond == "refuse"
            or count_item_bytes(_remove_data(warm)) > (_VERSION_BARE_BYTES if versioned else limit) - _UNIT
        ):
            return None
        return self._put_outside(warm, text, payload, place, chunks, beyond)

    def put_again(self, item: Item, place: Place) -> Put:
        """Shrink a whole item of an archive to the same form as before.

        Chunks go to S3 if the table has no table for them.
        """
        how = item.get("packed", {})
        bare = {name: value for name, value in item.items() if name != "packed"}
        warm, chunks = self._split_cold(bare, place, how.get("cold", ()))
        form = how.get("data")
        if form is None:
            return Put(place.table, warm, chunks)
        text = encode_json(warm["data"])
        payload = self.compressor.compress(text)
        if form == "z":
            return Put(place.table, {**_remove_data(warm), "z": payload}, chunks)
        beyond = "chunks" if form == "chunks" and place.layout.parts else "s3"
        return self._put_outside(warm, text, payload, place, chunks, beyond)

    def _split_cold(self, item: Item, place: Place, cold: Sequence[str]) -> tuple[Item, tuple[Put, ...]]:
        """Split an item into the item without its cold fields, and the puts of the chunks that hold them."""
        data = item["data"]
        cold_data = {name: data[name] for name in cold if name in data}
        if not cold_data or not place.layout.parts:
            return item, ()
        text = encode_json(cold_data)
        marker, chunks = self._put_chunks(item, text, self.compressor.compress(text), place)
        warm = {name: value for name, value in data.items() if name not in cold_data}
        return {**item, "data": warm, "cold": marker}, chunks

    def _put_outside(
        self, item: Item, text: bytes, payload: bytes, place: Place, cold_chunks: tuple[Put, ...], beyond: str
    ) -> Put:
        """Make the put of an item whose data goes to chunks, or to S3."""
        bare = _remove_data(item)
        if beyond == "chunks":
            marker, chunks = self._put_chunks(item, text, payload, place)
            return Put(place.table, {**bare, "out": marker}, (*cold_chunks, *chunks))
        owner = Key(item["pk"], item["sk"])
        name = sha256(f"{owner.pk}\n{owner.sk}".encode()).hexdigest()[:32]
        key = f"{make_blob_prefix(place.stream, place.label)}{name}/{self.unique()}"
        marker = {"o": key, "b": len(text)}
        return Put(place.table, {**bare, "out": marker}, cold_chunks, Blob(key, payload, owner))

    def _put_chunks(
        self, item: Item, text: bytes, payload: bytes, place: Place
    ) -> tuple[dict[str, Any], tuple[Put, ...]]:
        """Make the marker of a payload, and the puts of its chunks."""
        version = derive_version(payload)
        key = Key(item["pk"], item["sk"])
        table = name_chunks_table(place.table)
        chunks = split_payload(payload)
        puts = tuple(
            Put(table, {"pk": make_chunk_key(key, version, number), "b": chunk}) for number, chunk in enumerate(chunks)
        )
        return {"v": version, "n": len(chunks), "b": len(text)}, puts


def _remove_data(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "data"}
