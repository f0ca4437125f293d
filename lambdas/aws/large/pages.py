"""Complete the pages of a scan: an archive's content does not depend on where the table kept an item's data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import msgspec

from aws.dynamodb.wire import decode_item, encode_item
from tidetable.archive.ports import RawPage
from tidetable.errors import ArchiveFailed, Outage, StoreUnavailable, TableMissing, TableThrottled, ValueMissing
from tidetable.large.forms import FORMS, OUTSIDE
from tidetable.large.table_names import name_chunks_table
from tidetable.large.unpack import Unpacker

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_ENCODE = msgspec.json.Encoder().encode
# A page without these bytes has no item whose data is compressed or kept elsewhere.
_MARKS = tuple(f'"{name}"'.encode() for name in FORMS)
# The data outside of a page's items takes at most this number of bytes. Each segment has one page in memory.
_OUTSIDE_BYTES = 16_000_000


def complete_page(unpacker: Unpacker, items: bytes, table: str) -> bytes:
    """Return a page with all data of its items, unpacked as for a query; the same bytes if no item lacks data.

    Raises TableThrottled if the data beside the items cannot be read for now, ArchiveFailed if it cannot be read.
    """
    if not any(mark in items for mark in _MARKS):
        return items
    decoded = _PAGE(items)
    packed = [index for index, item in enumerate(decoded) if any(form in item for form in FORMS)]
    if not packed:
        return items
    try:
        wholes = unpacker.complete_for_archive([decode_item(decoded[index]) for index in packed], table)
    except (ValueMissing, TableMissing, StoreUnavailable) as error:
        if isinstance(error, StoreUnavailable) and error.cause is Outage.THROTTLED:
            raise TableThrottled(name_chunks_table(table)) from error
        raise ArchiveFailed(f"{table} is not complete: {error}") from error
    texts = [_ENCODE(item) for item in decoded]
    for index, whole in zip(packed, wholes, strict=True):
        texts[index] = encode_item(whole).encode()
    return b"[" + b",".join(texts) + b"]"


def cut_page(page: RawPage) -> RawPage:
    """Cut a page after the items whose data outside fits into memory, but keep at least one item.

    The next page begins after these items. AWS: a scan may start after any key of its segment.
    """
    if not any(f'"{name}"'.encode() in page.items for name in OUTSIDE):
        return page
    items = _PAGE(page.items)
    fitting = sum(size <= _OUTSIDE_BYTES for size in accumulate(map(_measure_outside, items))) or 1
    if fitting >= len(items):
        return page
    last = {name: items[fitting - 1][name] for name in ("pk", "sk")}
    return replace(page, items=_ENCODE(items[:fitting]), count=fitting, after=last)


def _measure_outside(item: Mapping[str, Any]) -> int:
    """Measure the bytes of an item's data that is outside of the item."""
    markers = (item.get(name, {}).get("M", {}) for name in OUTSIDE)
    return sum(int(marker.get("b", {}).get("N", "0")) for marker in markers)
