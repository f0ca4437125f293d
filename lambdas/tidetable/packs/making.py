"""Make packs: the events of a request, or of an archive, that belong to one logical partition become few items.

The same events always make the same packs: only the events decide the content and the borders of a pack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidetable.batch import pick_values
from tidetable.events import Item, JsonObject
from tidetable.exact_json import encode_json
from tidetable.layout import Layout, unescape
from tidetable.layout.pack import PackName, hash_body, make_address, make_pack_key, shift_time
from tidetable.packs.body import encode_body
from tidetable.packs.items import pack_item
from tidetable.ports import Compressor
from tidetable.times import TEXT_LENGTH, from_text, to_text


class PackedItem(NamedTuple):
    """A pack as an item, the address of its events, and the numbers of these events among all events of the call."""

    item: Item
    address: str
    members: Sequence[int]


@dataclass(slots=True)
class PackSet:
    """The packs, and in ``alone`` the numbers of the events that are too large for a pack: each of these stays an item
    of its own.

    If an event comes twice, only the last copy is in the packs.
    """

    packs: list[PackedItem] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)


class EventColumns(NamedTuple):
    """Events as columns: their sort keys as plain items, their data, and the times when they were accepted.

    ``ats`` are epoch milliseconds: one per event, or one for all. ``owners`` are the events' logical partitions if the
    layout is partitioned by series; a bucket is calculated from the sort key.
    """

    places: Sequence[str]
    owners: Sequence[str]
    datas: Sequence[JsonObject]
    ats: Sequence[int] | int


def make_packs(items: Sequence[Item], layout: Layout, compressor: Compressor) -> PackSet:
    """Make packs of events of one period. The events come as plain items of the layout.

    ``at`` may differ from item to item, as it does in an archive. Of several items with the same key, the last counts.
    """
    owners = [item["pk"].rpartition("#")[0] for item in items] if layout.partition_by == "series" else ()
    ats = [int(item.get("at", 0)) for item in items]
    rows = EventColumns([item["sk"] for item in items], owners, [item["data"] for item in items], ats)
    return pack_rows(rows, layout, compressor, range(len(items)))


def pack_rows(rows: EventColumns, layout: Layout, compressor: Compressor, numbers: Sequence[int]) -> PackSet:
    """Make packs of the rows with these ascending numbers."""
    if layout.pack is None:
        raise ValueError("the layout has no packs")
    pack_set = PackSet()
    for logical, number_of, places in _partition_rows(rows, numbers, layout):
        packer = _Packer(rows, layout, compressor, logical, number_of, pack_set)
        for run in _cut_runs(places, layout.pack.span):
            packer.pack(run)
    return pack_set


def _partition_rows(
    rows: EventColumns, numbers: Sequence[int], layout: Layout
) -> Iterator[tuple[str, Mapping[str, int], Sequence[str]]]:
    """Yield each logical partition, a map from places to the numbers of events, and the partition's places in order.

    If suffixes follow from the series, the places of each suffix come by themselves.
    """
    places, owners = rows.places, rows.owners
    if len(numbers) < len(places):
        places, owners = pick_values(places, numbers), pick_values(owners, numbers) if owners else owners
    if layout.partition_by == "series":
        groups: dict[str, dict[str, int]] = {}
        for number, owner, place in zip(numbers, owners, places, strict=True):
            groups.setdefault(owner, {})[place] = number
        yield from ((owner, number_of, sorted(number_of)) for owner, number_of in groups.items())
        return
    number_of = dict(zip(places, numbers, strict=True))
    places = sorted(number_of)
    while places:
        bucket = to_text(layout.find_bucket(from_text(places[0][:TEXT_LENGTH])))
        end = bisect_left(places, shift_time(bucket, layout.bucket))
        if layout.shard_by == "series" and layout.shards > 1:
            yield from ((bucket, number_of, own) for own in _divide_by_suffix(places[:end], layout))
        else:
            yield bucket, number_of, places[:end]
        places = places[end:]


def _divide_by_suffix(places: Sequence[str], layout: Layout) -> Iterable[Sequence[str]]:
    """Divide sorted places by the suffixes of their series."""
    names = "#".join(places).split("#")[1::3]
    unique = list(dict.fromkeys(names))
    suffix_of = dict(zip(unique, layout.compute_series_suffixes(list(map(unescape, unique))), strict=True))
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for suffix, place in zip(map(suffix_of.__getitem__, names), places, strict=True):
        groups[suffix].append(place)
    return groups.values()


def _cut_runs(places: Sequence[str], span: int) -> Iterator[Sequence[str]]:
    """Cut sorted places into runs. In a run, all places are less than ``span`` seconds after the first."""
    start = 0
    while start < len(places):
        end = bisect_left(places, shift_time(places[start][:TEXT_LENGTH], span), start)
        yield places[start:end]
        start = end


def _divide_large(places: Sequence[str], datas: Sequence[JsonObject], count: int, most: int) -> Iterator[Sequence[str]]:
    """Divide events that have too many bytes for one pack. An event is large if its data has more than ``most`` bytes.

    Each large event gets a list of its own, and the other events get one list together. If no event is large, the
    events are cut into ``count`` lists.
    """
    large = [len(encode_json(data)) > most for data in datas]
    if any(large):
        yield from ([place] for place, is_large in zip(places, large, strict=True) if is_large)
        rest = [place for place, is_large in zip(places, large, strict=True) if not is_large]
        if rest:
            yield rest
        return
    length = -(-len(places) // count)
    for start in range(0, len(places), length):
        yield places[start : start + length]


@dataclass(slots=True)
class _Packer:
    """Packs some events of one logical partition; ``number_of`` maps a place to the number of its event."""

    rows: EventColumns
    layout: Layout
    compressor: Compressor
    logical: str
    number_of: Mapping[str, int]
    pack_set: PackSet

    def pack(self, places: Sequence[str]) -> None:
        """Pack events into packs of at most ``max_bytes`` each."""
        assert self.layout.pack is not None  # noqa: S101 - pack_rows has checked this
        most = self.layout.pack.max_bytes
        members = pick_values(self.number_of, places)
        datas, ats = pick_values(self.rows.datas, members), self.rows.ats
        each = [ats] if isinstance(ats, int) else pick_values(ats, members)
        times, series, ids = self._split_places(places)
        body = encode_body(times, series, ids, datas, each if len(set(each)) > 1 else None)
        payload = self.compressor.compress(body)
        if len(payload) > most:
            if len(places) == 1:
                self.pack_set.alone += members
                return
            for group in _divide_large(places, datas, -(-len(payload) // most), most):
                self.pack(group)
            return
        name = PackName(places[-1][:TEXT_LENGTH], hash_body(body))
        key = make_pack_key(self.logical, name, self.layout, series[0])
        item = pack_item(key, max(each), len(places), places[0][:TEXT_LENGTH], payload)
        self.pack_set.packs.append(PackedItem(item, make_address(key.pk, name), members))

    def _split_places(self, places: Sequence[str]) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """Split the places of a pack's events into times, series and ids."""
        whole = "#".join(places)
        names = whole.split("#")
        if self.layout.partition_by == "time":
            times, series, ids = names[0::3], names[1::3], names[2::3]
            if "%" in whole:
                series = list(map(unescape, series))
        else:
            times, ids = names[0::2], names[1::2]
            series = [unescape(self.logical)] * len(places)
        if "%" in whole:
            ids = list(map(unescape, ids))
        return times, series, ids
