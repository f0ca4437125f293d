"""Which copy of an event counts, as if all copies had been written into a table one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from aws.dynamodb.wire import decode_item, encode_item
from tidetable.events import Item
from tidetable.ports import Put
from tidetable.versions.writing import is_repeat, make_successors

_ITEM = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode
# A page of some hundred kilobytes.
_PAGE = 2_000


class _Accepted(msgspec.Struct):
    at: dict[str, str] = {}


_ACCEPTED = msgspec.json.Decoder(_Accepted).decode


def settle_items(pairs: Iterable[tuple[str, str]], *, versioned: bool) -> Iterator[list[str]]:
    """Yield pages of items from pairs of key and item, of which equal keys follow each other in the order of writing."""
    page: list[str] = []
    copies: list[str] = []
    before: str | None = None
    for key, text in pairs:
        if key == before:
            copies.append(text)
            continue
        page += copies if len(copies) == 1 else _settle(copies, versioned=versioned)
        copies, before = [text], key
        if len(page) >= _PAGE:
            yield page
            page = []
    page += _settle(copies, versioned=versioned)
    if page:
        yield page


def _settle(copies: Sequence[str], *, versioned: bool) -> Sequence[str]:
    """Return what is left of the copies of an event."""
    if len(copies) < 2:
        return copies
    if versioned:
        return _settle_versions(copies)
    # Of those that were accepted last, the last one wins.
    return [max(enumerate(copies), key=lambda copy: (_read_acceptance(copy[1]), copy[0]))[1]]


def _read_acceptance(text: str) -> int:
    return int(_ACCEPTED(text).at.get("N", "0"))


def _settle_versions(copies: Sequence[str]) -> list[str]:
    """Add each copy as a version, unless it repeats one. Stored versions come before new ones, and have a key each."""
    stored: dict[str, Item] = {}
    for text in copies:
        item = decode_item(_ITEM(text))
        existing = stored.get(item["sk"])
        if existing is None:
            stored[item["sk"]] = item
        elif not is_repeat(item, existing):
            for guarded in make_successors(Put("", item), existing):
                stored[guarded.put.item["sk"]] = guarded.put.item
    return [encode_item(item) for item in stored.values()]
