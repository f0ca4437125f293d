"""Encode and decode the query function's requests to the archive reader, and the pages that the archive reader answers."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any
from zlib import compress, decompress

import msgspec

from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.exact_json import decode_json, encode_json
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, EventVersion, WholeRange
from tidetable.times import from_text, to_text


def encode_request(range: ArchiveRange, limit: int, *, ascending: bool) -> dict[str, Any]:
    """Encode a request for a page as JSON values: a range, the greatest number of events, and the direction."""
    return {"keys": msgspec.to_builtins(range), "limit": limit, "ascending": ascending}


def decode_request(payload: Any) -> tuple[ArchiveRange, int, bool]:
    """Decode the request that ``encode_request`` wrote; msgspec.ValidationError for a range of other types."""
    return msgspec.convert(payload["keys"], ArchiveRange), payload["limit"], payload["ascending"]


def encode_page(page: ArchivePage) -> dict[str, Any]:
    """Encode a page as JSON values. Data becomes JSON text, so that numbers keep their digits."""
    rows = [[event.series, to_text(event.time), event.id, encode_json(event.data).decode()] for event in page.events]
    return msgspec.structs.asdict(page) | {"events": rows}


def decode_page(payload: Any) -> ArchivePage:
    """Decode the page that ``encode_page`` wrote. ArchiveBusy if an older reader wrote it, while both are deployed."""
    if payload["more"] and payload.get("reached") is None:
        raise ArchiveBusy("the archive's reader is being deployed")
    events = [Event(series, from_text(time), id, decode_json(data)) for series, time, id, data in payload["events"]]
    versions = payload.get("versions")
    known = None if versions is None else [EventVersion(*version) for version in versions]
    cut, read = payload.get("cut", False), payload.get("read", len(events))
    return ArchivePage(events, payload["more"], known, payload.get("reached"), cut, read)


def encode_whole_request(keys: WholeRange) -> dict[str, Any]:
    """Encode a request for the columns of a page."""
    return {"whole": msgspec.to_builtins(keys)}


def decode_whole_request(payload: Any) -> WholeRange | None:
    """Decode the request that ``encode_whole_request`` wrote; None for any other request."""
    return msgspec.convert(payload["whole"], WholeRange) if "whole" in payload else None


def encode_columns(text: str) -> dict[str, Any]:
    """Encode the JSON of columns as JSON values. Compressed it takes a third, and quotes are not doubled."""
    return {"columns": b64encode(compress(text.encode(), level=1)).decode()}


def decode_columns(payload: Any) -> ArchiveColumns:
    """Decode the columns that ``encode_columns`` wrote. Series are numbers of ``names``."""
    page = decode_json(decompress(b64decode(payload["columns"])))
    names = page.pop("names")
    return ArchiveColumns(series=[names[number] for number in page.pop("which")], **page)
