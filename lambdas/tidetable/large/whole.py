"""Making whole: items with all of their data, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidetable.errors import TidetableError
from tidetable.events import Item
from tidetable.exact import decode_json
from tidetable.large.forms import part_keys
from tidetable.names import parts_table
from tidetable.ports import Compressor, EventStore, Values

# Fetched at a time: the parts of as many events as may be in memory together.
_AT_ONCE_BYTES = 16_000_000


class ValueMissing(TidetableError):
    """Data that an item refers to is not there, or is damaged."""


class Wholes(NamedTuple):
    """Items as they were sent, and those among them (by number) whose data is not to be had."""

    items: Sequence[Item]
    missing: Mapping[int, str]


@dataclass(slots=True)
class Unpacker:
    """Makes items whole."""

    store: EventStore
    values: Values
    compressor: Compressor

    def inflated(self, item: Item) -> Item:
        """An item whose data is compressed in it, with its data; any other as it is."""
        if "z" not in item:
            return item
        try:
            data = decode_json(self.compressor.expand(bytes(item["z"])))
        except ValueError as error:
            raise ValueMissing(f"the data of {item['pk']}, {item['sk']} is damaged") from error
        return {**{name: value for name, value in item.items() if name != "z"}, "data": data}

    def inflate_or_keep(self, item: Item) -> Item:
        """The same, but an item whose data is damaged stays as it is: ``whole`` tells of it."""
        try:
            return self.inflated(item)
        except ValueMissing:
            return item

    def whole(self, items: Sequence[Item], table: str, *, cold: bool) -> Wholes:
        """Items of one table with all of their data, of which cold fields only if they are asked for."""
        result: list[Item] = []
        missing: dict[int, str] = {}
        for group in grouped(items, cold=cold):
            bodies = self._bodies(group, table, cold=cold)
            for item in group:
                try:
                    result.append(self._one(item, bodies, cold=cold))
                except ValueMissing as error:
                    missing[len(result)] = str(error)
                    result.append({**item, "data": item.get("data", {})})
        return Wholes(result, missing)

    def archived(self, items: Sequence[Item], table: str) -> list[Item]:
        """Items with all of their data, and with ``packed`` saying how it was kept; ValueMissing if any is not there."""
        result: list[Item] = []
        for group in grouped(items, cold=True):
            bodies = self._bodies(group, table, cold=True)
            result += [self._noted(item, self._one(item, bodies, cold=True)) for item in group]
        return result

    def _noted(self, item: Item, whole: Item) -> Item:
        """A whole item with the note of how it was kept, so that it can be kept so again."""
        packed: dict[str, Any] = {}
        if "out" in item:
            packed["data"] = "s3" if "o" in item["out"] else "chunks"
        elif "z" in item:
            packed["data"] = "z"
        if "cold" in item and "out" not in item:
            warm = self.inflated(item)["data"]
            packed["cold"] = sorted(name for name in whole["data"] if name not in warm)
        return {**whole, "packed": packed}

    def _bodies(self, items: Iterable[Item], table: str, *, cold: bool) -> Mapping[str, bytes]:
        """The bodies of all parts that these items refer to.

        A part's key is calculated from its content, so versions of an event that have the same content share their parts.
        """
        keys = {
            key: None
            for item in items
            for marker in _markers(item, cold=cold)
            if "v" in marker
            for key in part_keys(item, marker)
        }
        return self.store.get_parts(parts_table(table), list(keys)) if keys else {}

    def _one(self, item: Item, bodies: Mapping[str, bytes], *, cold: bool) -> Item:
        whole = dict(self.inflated(item))
        if "out" in whole:
            whole["data"] = self._payload(item, whole.pop("out"), bodies)
        if cold and "cold" in whole:
            whole["data"] = {**whole["data"], **self._payload(item, whole.pop("cold"), bodies)}
        return whole

    def _payload(self, item: Item, marker: Any, bodies: Mapping[str, bytes]) -> dict[str, Any]:
        where = f"the data of {item['pk']}, {item['sk']}"
        if "o" in marker:
            payload = self.values.get(marker["o"])
        else:
            found = [bodies.get(key) for key in part_keys(item, marker)]
            payload = None if None in found else b"".join(one for one in found if one is not None)
        if payload is None:
            raise ValueMissing(f"{where} is not there: {marker.get('o') or marker['v']}")
        try:
            text = self.compressor.expand(payload)
            if len(text) != int(marker["b"]):
                raise ValueError("another length")
            data: dict[str, Any] = decode_json(text)
        except ValueError as error:
            raise ValueMissing(f"{where} is damaged: {error}") from error
        return data


def is_partial(item: Item, *, cold: bool) -> bool:
    """Whether an item does not have its data: it is to be fetched from elsewhere, or is damaged."""
    return "out" in item or "z" in item or (cold and "cold" in item)


def size_outside(item: Item, *, cold: bool) -> int:
    """How many bytes of JSON an item's data has outside of it."""
    return sum(int(marker["b"]) for marker in _markers(item, cold=cold))


def _markers(item: Item, *, cold: bool) -> list[Any]:
    names = ("out", "cold") if cold else ("out",)
    return [item[name] for name in names if name in item]


def grouped(items: Sequence[Item], *, cold: bool) -> Iterable[list[Item]]:
    """The items in order, in groups whose data may be in memory together."""
    group: list[Item] = []
    size = 0
    for item in items:
        more = size_outside(item, cold=cold)
        if group and size + more > _AT_ONCE_BYTES:
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group
