"""Complete items: decompress their data, or fetch it from chunks or from S3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from tidetable.errors import ValueMissing
from tidetable.events import Item
from tidetable.exact_json import decode_json
from tidetable.groups import group_by_size
from tidetable.large.chunks import GET_CHUNKS, ChunkStore
from tidetable.large.forms import list_chunk_keys
from tidetable.large.table_names import name_chunks_table
from tidetable.ports import Compressor, Values
from tidetable.values import count_item_bytes

# At most this number of bytes is fetched at a time, because they are in memory together.
_AT_ONCE_BYTES = 16_000_000
# Is called with an item whose data is missing or damaged.
NoteLost = Callable[[Item], None]


class FetchCost(Protocol):
    """Counts the cost of fetching items."""

    def add_fetch(self, sizes: Sequence[int], *, consistent: bool, most: int) -> None: ...


class Wholes(NamedTuple):
    """Items with their data. ``missing`` maps an item's number to the reason why its data could not be read.

    ``chunks`` are the sizes of the fetched chunks, 0 for a chunk that does not exist.
    """

    items: Sequence[Item]
    missing: Mapping[int, str]
    chunks: Sequence[int] = ()

    def add_cost(self, cost: FetchCost) -> None:
        """Add the cost of fetching the chunks."""
        cost.add_fetch(self.chunks, consistent=True, most=GET_CHUNKS)


class Unpacker(msgspec.Struct):
    """Completes items: inflates compressed data, and fetches data that is kept elsewhere."""

    store: ChunkStore
    values: Values
    compressor: Compressor

    def inflate_item(self, item: Item) -> Item:
        """Return an item with its data decompressed, if it is compressed; ValueMissing if it is damaged."""
        if "z" not in item:
            return item
        try:
            data = decode_json(self.compressor.expand(bytes(item["z"])))
        except ValueError as error:
            raise ValueMissing(f"the data of {item['pk']}, {item['sk']} is damaged") from error
        return {**{name: value for name, value in item.items() if name != "z"}, "data": data}

    def inflate_or_keep(self, item: Item) -> Item:
        """Decompress an item; an item with damaged data is returned unchanged, and ``complete_items`` reports it."""
        try:
            return self.inflate_item(item)
        except ValueMissing:
            return item

    def complete_searched(
        self, items: Sequence[Item], table: str, note_lost: NoteLost = lambda _: None, cost: FetchCost | None = None
    ) -> Sequence[Item]:
        """Return the items of one table with the data that conditions and aggregates may ask for.

        ``note_lost`` is called with each item whose data is missing or damaged. ``cost`` counts what is fetched.
        """
        if not lack_searched(items):
            return items
        wholes = self.complete_items(items, table, cold=False)
        for number in wholes.missing:
            note_lost(items[number])
        if cost is not None:
            wholes.add_cost(cost)
        return wholes.items

    def complete_items(self, items: Sequence[Item], table: str, *, cold: bool = True) -> Wholes:
        """Return the items of one table with all of their data, but with cold fields only if ``cold`` is true."""
        result: list[Item] = []
        missing: dict[int, str] = {}
        chunks: list[int] = []
        for group in group_items(items, cold=cold):
            bodies = self._fetch_bodies(group, table, cold=cold)
            chunks += [0 if body is None else count_item_bytes({"pk": key, "b": body}) for key, body in bodies.items()]
            for item in group:
                try:
                    result.append(self._complete_item(item, bodies, cold=cold))
                except ValueMissing as error:
                    missing[len(result)] = str(error)
                    result.append({**item, "data": item.get("data", {})})
        return Wholes(result, missing, chunks)

    def complete_for_archive(self, items: Sequence[Item], table: str) -> list[Item]:
        """Return whole items, with ``packed``: how the data was stored. ValueMissing if any data is missing."""
        wholes = self.complete_items(items, table)
        for reason in wholes.missing.values():
            raise ValueMissing(reason)
        return [self.note_packing(item, whole) for item, whole in zip(items, wholes.items, strict=True)]

    def note_packing(self, item: Item, whole: Item) -> Item:
        """Add ``packed`` to a whole item: how its data was stored, so that a restore stores it in the same way."""
        packed: dict[str, Any] = {}
        if "out" in item:
            packed["data"] = "s3" if "o" in item["out"] else "chunks"
        elif "z" in item:
            packed["data"] = "z"
        if "cold" in item and "out" not in item:
            warm = self.inflate_item(item)["data"]
            packed["cold"] = sorted(name for name in whole["data"] if name not in warm)
        return {**whole, "packed": packed}

    def _fetch_bodies(self, items: Iterable[Item], table: str, *, cold: bool) -> Mapping[str, bytes | None]:
        """Fetch the bodies of all chunks that these items refer to, by the chunks' keys; None for a chunk that does not
        exist.

        A chunk's key is calculated from its content, so versions of an event with the same content share their chunks.
        """
        keys = {
            key: None
            for item in items
            for marker in _list_markers(item, cold=cold)
            if "v" in marker
            for key in list_chunk_keys(item, marker)
        }
        bodies = self.store.get_chunks(name_chunks_table(table), list(keys)) if keys else {}
        return {key: bodies.get(key) for key in keys}

    def _complete_item(self, item: Item, bodies: Mapping[str, bytes | None], *, cold: bool) -> Item:
        whole = dict(self.inflate_item(item))
        if "out" in whole:
            whole["data"] = self._join_payload(item, whole.pop("out"), bodies)
        if cold and "cold" in whole:
            whole["data"] = {**whole["data"], **self._join_payload(item, whole.pop("cold"), bodies)}
        return whole

    def _join_payload(self, item: Item, marker: Any, bodies: Mapping[str, bytes | None]) -> dict[str, Any]:
        where = f"the data of {item['pk']}, {item['sk']}"
        if "o" in marker:
            payload = self.values.get(marker["o"])
        else:
            chunks = [bodies.get(key) for key in list_chunk_keys(item, marker)]
            payload = None if None in chunks else b"".join(chunk for chunk in chunks if chunk is not None)
        if payload is None:
            raise ValueMissing(f"{where} is missing: {marker.get('o') or marker['v']}")
        try:
            text = self.compressor.expand(payload)
            if len(text) != int(marker["b"]):
                raise ValueError("another length")
            data: dict[str, Any] = decode_json(text)
        except ValueError as error:
            raise ValueMissing(f"{where} is damaged: {error}") from error
        return data


def is_partial(item: Item, *, cold: bool) -> bool:
    """True if an item lacks data: it must be fetched or decompressed first."""
    return "out" in item or "z" in item or (cold and "cold" in item)


def lack_searched(items: Iterable[Item]) -> bool:
    """True if one of the items lacks data that conditions and aggregates may ask for."""
    return any("out" in item or "z" in item for item in items)


def measure_outside(item: Item, *, cold: bool = True) -> int:
    """Return the bytes of an item's JSON data that is kept outside of the item."""
    return sum(int(marker["b"]) for marker in _list_markers(item, cold=cold))


def _list_markers(item: Item, *, cold: bool) -> list[Any]:
    names = ("out", "cold") if cold else ("out",)
    return [item[name] for name in names if name in item]


def group_items(items: Sequence[Item], *, cold: bool = False) -> Iterable[list[Item]]:
    """Group the items, in order, so that the data of a group fits into memory."""
    return group_by_size(items, lambda item: measure_outside(item, cold=cold), _AT_ONCE_BYTES)
