"""Making packs: the events of a request, or of an archive, that fall into one logical partition become few items.

The same events make the same packs: a pack is a function of its events, and where packs are cut follows from the events, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidetable.events import Item
from tidetable.exact import encode_json
from tidetable.keys import Layout, unescape
from tidetable.packs.body import encode_body
from tidetable.packs.items import pack_item
from tidetable.packs.names import PackName, address, hash_of, pack_key, shifted
from tidetable.ports import Compressor

_TIME = 27


class PackedItem(NamedTuple):
    """A pack as an item, the address of its events, and their numbers among the events that packs were made of."""

    item: Item
    address: str
    members: Sequence[int]


@dataclass(slots=True)
class Made:
    """Packs, and the numbers of the events that are too large for one: they stay items of their own.

    An event that comes twice is in the packs by its last number alone.
    """

    packs: list[PackedItem] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)


def make_packs(items: Sequence[Item], layout: Layout, compressor: Compressor) -> Made:
    """Make packs of events that are given as the plain items of the layout, all of one period.

    ``at`` may differ from item to item, as it does in an archive. Of items with one key the last counts.
    """
    if layout.pack is None:
        raise ValueError("the layout has no packs")
    logicals = {pk: pk.rpartition("#")[0] for pk in {item["pk"] for item in items}}
    groups: dict[str, dict[str, int]] = {logical: {} for logical in logicals.values()}
    for number, item in enumerate(items):
        groups[logicals[item["pk"]]][item["sk"]] = number
    made = Made()
    for logical, held in groups.items():
        for places in _runs(sorted(held), layout.pack.span):
            _Packer(items, layout, compressor, logical, held, made).pack(places)
    return made


def _runs(places: Sequence[str], span: int) -> Iterator[Sequence[str]]:
    """Places in order, cut where they are as much as ``span`` seconds apart from the first."""
    start = 0
    while start < len(places):
        # "$" sorts after "#", which follows the time: the edge is after no place of its own time.
        edge = shifted(places[start][:_TIME], span)
        end = len(places) if places[-1] < edge else next(n for n in range(start, len(places)) if places[n] >= edge)
        yield places[start:end]
        start = end


def _parted(places: Sequence[str], items: Sequence[Item], parts: int, most: int) -> Iterator[Sequence[str]]:
    """Events that are too much for one pack: each large one alone, if there are any, or so many parts."""
    large = [len(encode_json(item["data"])) > most for item in items]
    if any(large):
        yield from ([place] for place, is_large in zip(places, large, strict=True) if is_large)
        rest = [place for place, is_large in zip(places, large, strict=True) if not is_large]
        if rest:
            yield rest
        return
    length = -(-len(places) // parts)
    for start in range(0, len(places), length):
        yield places[start : start + length]


@dataclass(slots=True)
class _Packer:
    """Packs some events of one logical partition; ``held`` says the number of each place."""

    items: Sequence[Item]
    layout: Layout
    compressor: Compressor
    logical: str
    held: Mapping[str, int]
    made: Made

    def pack(self, places: Sequence[str]) -> None:
        """Pack events into as many packs as ``max_bytes`` makes it."""
        assert self.layout.pack is not None  # noqa: S101 - make_packs saw to it
        most = self.layout.pack.max_bytes
        numbers = [self.held[place] for place in places]
        items = [self.items[number] for number in numbers]
        body = self._body(places, items)
        payload = self.compressor.compress(body)
        if len(payload) > most:
            if len(places) == 1:
                self.made.alone += numbers
                return
            for some in _parted(places, items, -(-len(payload) // most), most):
                self.pack(some)
            return
        name = PackName(places[-1][:_TIME], hash_of(body))
        key = pack_key(self.logical, name, self.layout.shards)
        at = max([int(item.get("at", 0)) for item in items])
        item = pack_item(key, at, len(places), places[0][:_TIME], payload)
        self.made.packs.append(PackedItem(item, address(key.pk, name), numbers))

    def _body(self, places: Sequence[str], items: Sequence[Item]) -> bytes:
        whole = "#".join(places)
        if self.layout.partition_by == "time":
            names = whole.split("#")
            times, series, ids = names[0::3], names[1::3], names[2::3]
            if "%" in whole:
                series = list(map(unescape, series))
        else:
            names = whole.split("#")
            times, ids = names[0::2], names[1::2]
            series = [unescape(self.logical)] * len(places)
        if "%" in whole:
            ids = list(map(unescape, ids))
        ats = [int(item.get("at", 0)) for item in items]
        differing = ats if len(set(ats)) > 1 else None
        return encode_body(times, series, ids, [item["data"] for item in items], differing)
