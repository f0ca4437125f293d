"""Complete the pages of a scan: an archive's content does not depend on where the table kept an item's data."""

from __future__ import annotations

from typing import Any

import msgspec

from aws.dynamodb.wire import decode_item, encode_item
from tidetable.errors import ArchiveFailed, Outage, StoreUnavailable, TableMissing, TableThrottled, ValueMissing
from tidetable.large.tables import name_chunks_table
from tidetable.large.unpack import Unpacker

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_ENCODE = msgspec.json.Encoder().encode
_FORMS = ("z", "out", "cold")
# A page without these bytes has no item whose data is compressed or kept elsewhere.
_MARKS = (b'"z"', b'"out"', b'"cold"')


def complete_page(unpacker: Unpacker, items: bytes, table: str) -> bytes:
    """Return a page with all data of its items, unpacked as for a query; the same bytes if no item lacks data.

    Raises TableThrottled if the data beside the items cannot be read for now, ArchiveFailed if it cannot be read.
    """
    if not any(mark in items for mark in _MARKS):
        return items
    decoded = _PAGE(items)
    packed = [index for index, item in enumerate(decoded) if any(form in item for form in _FORMS)]
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
