"""Make an event's item small enough, or cheaper, by AWS's three remedies: compression, chunks and S3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.events import Item
from tidetable.exact_json import encode_json
from tidetable.large.forms import MAX_EVENT_BYTES, derive_version, make_blob_prefix, make_chunk_key, split_payload
from tidetable.large.table_names import name_chunks_table
from tidetable.layout.period_layout import GROWTH, ItemSize
from tidetable.ports import Blob, Compressor, Put, Values
from tidetable.values import MAX_ITEM_BYTES

_UNIT = 1024


class LargeValueServices(msgspec.Struct, frozen=True):
    """The services for large values, besides the tables. ``unique`` returns a new object name at every call."""

    values: Values
    compressor: Compressor
    unique: Callable[[], str]


class Shrinker(msgspec.Struct):
    """Shrinks the items of one stream by its policy. ``unique`` returns a new object name at every call."""

    compress_above: int | None
    beyond: str
    cold: Sequence[str]
    compressor: Compressor
    unique: Callable[[], str]

    @classmethod
    def of(cls, stream: Stream | None, services: LargeValueServices) -> Shrinker:
        """Make the shrinker of a stream. If the configuration no longer has the stream, its events may have any size."""
        compressor, unique = services.compressor, services.unique
        if stream is None:
            return cls(None, "s3", (), compressor, unique)
        return cls(stream.large.compress_above, stream.large.beyond, stream.cold, compressor, unique)

    def shrink_item(self, item: Item, entry: Entry) -> Put | None:
        """Shrink a whole item by the policy, and make its put; None if it is too large for the policy."""
        warm, layout = self._split_cold(item, entry, self.cold), entry.layout
        own, above = ItemSize.of(warm.item, layout), self.compress_above
        fits = own.is_within()
        if fits and (above is None or own.bytes <= max(above, _UNIT)):
            return warm
        if above is None and self.beyond == "refuse" and not own.fits_item():
            return None
        text = encode_json(warm.item["data"])
        if len(text) > MAX_EVENT_BYTES:
            return None
        if fits and above is not None and len(text) <= above:
            return warm
        payload = self.compressor.compress(text)
        smaller = _replace_data(warm, z=payload)
        after = ItemSize.of(smaller.item, layout)
        # Every index that holds the event costs units for the same bytes.
        if -(-after.bytes // _UNIT) < -(-own.bytes // _UNIT) and after.is_within():
            return smaller
        if fits:
            return warm
        beyond = self.beyond if layout.parts or self.beyond != "chunks" else "refuse"
        if beyond == "refuse" and (own.fits_item(GROWTH) or after.fits_item(GROWTH)):
            # It would fit an item, so the policy does not refuse it.
            beyond = "chunks" if layout.parts else "s3"
        # The copies of fields for indexes stay in the item, wherever its data goes. The marker of the data is in every
        # copy of the item, and takes less than a kilobyte.
        bare = ItemSize.of({**_replace_data(warm).item, "out": bytes(_UNIT - len("out"))}, layout)
        if beyond == "refuse" or not bare.is_within(bare=True):
            return None
        return self._put_outside(warm, text, payload, entry, beyond)

    def shrink_archived_item(self, item: Item, entry: Entry) -> Put:
        """Shrink an archive's whole item to its former form, but to S3 if the table has no table for chunks."""
        how = item.get("packed", {})
        bare = {name: value for name, value in item.items() if name != "packed"}
        warm = self._split_cold(bare, entry, how.get("cold", ()))
        form = how.get("data")
        if form is None:
            return warm
        text = encode_json(warm.item["data"])
        payload = self.compressor.compress(text)
        if form == "z":
            return _replace_data(warm, z=payload)
        beyond = "chunks" if form == "chunks" and entry.layout.parts else "s3"
        return self._put_outside(warm, text, payload, entry, beyond)

    def _split_cold(self, item: Item, entry: Entry, cold: Sequence[str]) -> Put:
        """Make the put of an item without its cold fields, which go to chunks."""
        data, put = item["data"], Put(entry.table, item)
        cold_data = {name: data[name] for name in cold if name in data}
        if not cold_data or not entry.layout.parts:
            return put
        text = encode_json(cold_data)
        marker, chunks = _make_chunks(put, text, self.compressor.compress(text))
        warm = {name: value for name, value in data.items() if name not in cold_data}
        return Put(entry.table, {**item, "data": warm, "cold": marker}, chunks)

    def _put_outside(self, warm: Put, text: bytes, payload: bytes, entry: Entry, beyond: str) -> Put:
        """Make the put of an item whose data goes to chunks, or to S3."""
        if beyond == "chunks":
            marker, chunks = _make_chunks(warm, text, payload)
            return replace(_replace_data(warm, out=marker), outside=(*warm.outside, *chunks))
        owner = warm.key
        name = sha256(f"{owner.pk}\n{owner.sk}".encode()).hexdigest()[:32]
        key = f"{make_blob_prefix(entry.stream, entry.period.label)}{name}/{self.unique()}"
        blob = Blob(key, payload, owner)
        return replace(_replace_data(warm, out={"o": key, "b": len(text)}), outside=(*warm.outside, blob))


def find_unshrunk_bytes(stream: Stream) -> int:
    """Find the size in bytes up to which an item of the stream need not be shrunk."""
    return -1 if stream.cold else stream.large.compress_above or MAX_ITEM_BYTES - GROWTH


def _make_chunks(put: Put, text: bytes, payload: bytes) -> tuple[dict[str, Any], tuple[Put, ...]]:
    """Make the marker of a payload of the put's item, and the puts of its chunks."""
    version, chunks = derive_version(payload), split_payload(payload)
    table = name_chunks_table(put.table)
    keys = [make_chunk_key(put.key, version, number) for number in range(len(chunks))]
    puts = tuple(Put(table, {"pk": key, "b": chunk}) for key, chunk in zip(keys, chunks, strict=True))
    return {"v": version, "n": len(chunks), "b": len(text)}, puts


def _replace_data(put: Put, **attributes: Any) -> Put:
    """Return a put whose item has these attributes in place of its data."""
    bare = {name: value for name, value in put.item.items() if name != "data"}
    return replace(put, item=bare | attributes)
