"""Make packs: the events of a request, or of an archive, that belong to one logical partition become few items.

The same events always make the same packs: only the events decide the content and the borders of a pack.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import eq
from typing import NamedTuple, TypeVar

import msgspec

from tidetable.batch import Batch, pick_values
from tidetable.events import Item, JsonObject
from tidetable.exact_json import encode_json
from tidetable.layout import Layout, escape
from tidetable.layout.pack import PackName, hash_body, make_address, make_pack_key, shift_time
from tidetable.packs.body import encode_body
from tidetable.packs.items import list_places, pack_item
from tidetable.ports import Compressor
from tidetable.times import from_text, to_text

_Value = TypeVar("_Value", str, int)


class PackedItem(NamedTuple):
    """A pack as an item, the address of its events, and the numbers of these events in the batch."""

    item: Item
    address: str
    members: Sequence[int]


class PackSet(msgspec.Struct):
    """The packs, and in ``alone`` the numbers of the events that are too large for a pack: each of these stays an item
    of its own. ``places`` are the places of all events.

    If an event comes twice, only the last copy is in the packs.
    """

    places: Sequence[str]
    packs: list[PackedItem] = []
    alone: list[int] = []


def pack_batch(batch: Batch, layout: Layout, compressor: Compressor) -> PackSet:
    """Make packs of the events of a batch, which are of one period."""
    if layout.pack is None:
        raise ValueError("the layout has no packs")
    pack_set = PackSet(list_places(batch, layout))
    for logical, numbers in _partition_events(batch, layout, pack_set.places):
        for run in _cut_runs(numbers, batch.times, layout.pack.span):
            _pack_run(run, logical, batch, layout, compressor, pack_set)
    return pack_set


def _partition_events(batch: Batch, layout: Layout, places: Sequence[str]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield each logical partition with the numbers of its events, in the order of their places.

    If suffixes follow from the series, the events of each suffix come by themselves.
    """
    if layout.partition_by == "series":
        for series, own in _group_numbers(range(len(places)), batch.series).items():
            yield escape(series), _order_events(own, places)
        return
    is_divided = layout.shard_by == "series" and layout.shards > 1
    suffixes = layout.compute_series_suffixes(batch.series) if is_divided else ()
    numbers = _order_events(range(len(places)), places)
    while numbers:
        bucket = to_text(layout.find_bucket(from_text(batch.times[numbers[0]])))
        end = bisect_left(numbers, shift_time(bucket, layout.bucket), key=batch.times.__getitem__)
        for own in _group_numbers(numbers[:end], suffixes).values() if is_divided else [numbers[:end]]:
            yield bucket, own
        numbers = numbers[end:]


def _order_events(numbers: Sequence[int], places: Sequence[str]) -> list[int]:
    """Order the numbers of events by their places. Of the copies of an event, the last stays."""
    ordered = sorted(numbers, key=places.__getitem__)
    own = pick_values(places, ordered)
    if any(map(eq, own, own[1:])):
        # Sorting has kept the order of equal places.
        ordered = [*dict(zip(own, ordered, strict=True)).values()]
    return ordered


def _group_numbers(numbers: Sequence[int], values: Sequence[_Value]) -> dict[_Value, list[int]]:
    """Group the numbers of events by the values that ``values`` has for them."""
    groups: defaultdict[_Value, list[int]] = defaultdict(list)
    for number in numbers:
        groups[values[number]].append(number)
    return groups


def _cut_runs(numbers: Sequence[int], times: Sequence[str], span: int) -> Iterator[Sequence[int]]:
    """Cut ordered events into runs. In a run, all events are less than ``span`` seconds after the first."""
    start = 0
    while start < len(numbers):
        end = bisect_left(numbers, shift_time(times[numbers[start]], span), start, key=times.__getitem__)
        yield numbers[start:end]
        start = end


def _pack_run(
    numbers: Sequence[int], logical: str, batch: Batch, layout: Layout, compressor: Compressor, pack_set: PackSet
) -> None:
    """Pack ordered events into packs of at most ``max_bytes`` each."""
    assert layout.pack is not None  # noqa: S101 - pack_batch has checked this
    most, run = layout.pack.max_bytes, batch.pick(numbers)
    ats = [run.at] if isinstance(run.at, int) else run.at
    each = ats if len(set(ats)) > 1 else None
    body = encode_body(run.times, run.series, run.ids, run.datas, each, fields=run.fields)
    payload = compressor.compress(body)
    if len(payload) > most:
        if len(numbers) == 1:
            pack_set.alone += numbers
            return
        for group in _divide_large(numbers, run.datas, -(-len(payload) // most), most):
            _pack_run(group, logical, batch, layout, compressor, pack_set)
        return
    name = PackName(run.times[-1], hash_body(body))
    key = make_pack_key(logical, name, layout, run.series[0])
    item = pack_item(key, max(ats), len(numbers), run.times[0], payload)
    pack_set.packs.append(PackedItem(item, make_address(key.pk, name), numbers))


def _divide_large(
    numbers: Sequence[int], datas: Sequence[JsonObject], count: int, most: int
) -> Iterator[Sequence[int]]:
    """Divide events that have too many bytes for one pack. An event is large if its data has more than ``most`` bytes.

    Each large event gets a list of its own, and the other events get one list together. If no event is large, the
    events are cut into ``count`` lists.
    """
    large = {number for number, data in zip(numbers, datas, strict=True) if len(encode_json(data)) > most}
    if large:
        yield from ([number] for number in numbers if number in large)
        rest = [number for number in numbers if number not in large]
        if rest:
            yield rest
        return
    length = -(-len(numbers) // count)
    for start in range(0, len(numbers), length):
        yield numbers[start : start + length]
