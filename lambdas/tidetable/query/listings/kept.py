"""Kept names: a page that has read its range keeps the names that it found, and the pages after it take them from there.

Cells are in the order of time, so the first name of a range is only known when all of its cells were read. So a page
keeps the names in an object of the bucket, in frames in the order of names, and its cursor names the object. If the time
is up before the end of the range, the object has the names so far, and the next page goes on reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec

from tidetable.errors import StoreUnavailable
from tidetable.exact_json import decode_json, encode_json
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.query.listings.listing_parameters import Listing, Place, find_place
from tidetable.query.listings.names import NameRecord
from tidetable.query.model import Cost, Reader
from tidetable.query.scans import Gap

KEPT = timedelta(minutes=15)
# A range is read once for so many names. They take up to 100 MB while they are collected.
MOST_NAMES = 100_000
# A page decodes only the frames of its names.
_FRAME = 1_000
# AWS: a PUT of S3 costs as much as 40 read units of DynamoDB. A range that takes less is read for each page.
_WORTH = 40
_FOLDER, _DIGITS = "listings/", 32
_Names = Sequence[tuple[Place, NameRecord]]


class KeptNames(msgspec.Struct, array_like=True, tag=1):
    """The names of a listing after its place, found ``at`` an instant, for keys with this series ``prefix``.

    ``reached`` is the instant up to which the range was read; None if all of it was. ``is_whole`` says that what was read
    has no further names. ``lasts`` has the last place of each frame. A frame is the compressed JSON of its records. The tag
    is the format: objects of another format are not read.
    """

    at: datetime
    prefix: str
    reached: datetime | None
    is_whole: bool
    gaps: list[Gap]
    sources: list[dict[str, str]]
    lasts: list[tuple[str, str, str]] = []
    frames: list[bytes] = []

    def put(self, names: _Names, listing: Listing, reader: Reader) -> str:
        """Keep names, which are in order, for the next page. Return the name of the object; empty if S3 does not answer."""
        cut = [names[first : first + _FRAME] for first in range(0, len(names), _FRAME)]
        compress = reader.unpacker.compressor.compress
        frames = [compress(encode_json([record.as_list() for _, record in some])) for some in cut]
        kept = msgspec.structs.replace(self, lasts=[some[-1][0].texts for some in cut], frames=frames)
        asked = msgspec.structs.replace(listing, limit=0, kept="")
        name = sha256(msgspec.msgpack.encode((asked, self.prefix, self.at))).hexdigest()[:_DIGITS]
        blob = Blob(_make_key(listing, name), msgspec.msgpack.encode(kept), Key("", ""))
        return name if reader.unpacker.values.put(blob) else ""

    def list_names(self, after: Place | None, count: int, reader: Reader) -> list[tuple[Place, NameRecord]]:
        """List the first ``count`` names after a place."""
        names = list[tuple[Place, NameRecord]]()
        first = 0 if after is None else bisect_right(self.lasts, after, key=Place.parse)
        for frame in self.frames[first:]:
            if len(names) >= count:
                break
            for record in map(NameRecord.of_list, decode_json(reader.unpacker.compressor.expand(frame))):
                place = find_place(record.value)
                if place is not None and (after is None or place > after):
                    names.append((place, record))
        return names[:count]


def is_worth_keeping(cost: Cost, reader: Reader) -> bool:
    """True if it costs more to read a range once more than to keep its names.

    The cost depends on the events of all series, which a key with a series prefix must not notice.
    """
    return bool(reader.access.series_prefix) or cost.units + cost.requests > _WORTH


def find_kept(listing: Listing, reader: Reader, now: datetime) -> KeptNames | None:
    """Find the kept names of a cursor. They only save reads, so an outage of the bucket is no failure."""
    if not listing.kept:
        return None
    try:
        body = reader.unpacker.values.get(_make_key(listing, listing.kept))
        kept = None if body is None else msgspec.msgpack.decode(body, type=KeptNames)
    except (StoreUnavailable, msgspec.DecodeError):
        return None
    # A key with a series prefix sees widened times. The times of another key would tell of other series.
    if kept is None or kept.prefix != reader.access.series_prefix or now >= kept.at + KEPT:
        return None
    return kept


def _make_key(listing: Listing, name: str) -> str:
    return f"{_FOLDER}{listing.stream}/{name}"
