"""The fast way for a request to a stream with packs.

Events are handled by columns: no event is decoded, or gets its own key and item. A request takes this way if nothing in
it is unusual. Otherwise it takes the general way of ``request.py``, which gives a verdict on each event. Both ways make
the same packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from msgspec import Raw

from tidetable.catalog import OPENING, Entry, find_entry_at
from tidetable.errors import InvalidTime
from tidetable.events import Event
from tidetable.exact_json import decode_json, encode_json
from tidetable.ingest.bodies import SentRaw
from tidetable.ingest.context import RequestContext
from tidetable.ingest.routing import Routed
from tidetable.ingest.submission import Slot
from tidetable.ingest.verdicts import SURELY_SHORT
from tidetable.layout import encode_refs, escape
from tidetable.packs import EventColumns, PackColumns, derive_ids, list_places, pack_rows
from tidetable.ports import Compressor, Put
from tidetable.times import from_text, identify_time, parse_stamps, to_text
from tidetable.values import MAX_ITEM_BYTES

# An item has at most four times the bytes of its JSON. In a list of digits, two bytes of JSON become four bytes.
_EXPANSION = 4


class Batch(NamedTuple):
    """The events of a request as columns: times (as text), series, ids, and data as raw JSON."""

    times: Sequence[str]
    series: Sequence[str]
    ids: Sequence[str]
    datas: Sequence[dict[str, Raw]]

    def decode(self, number: int) -> Event:
        """Decode the event with this number."""
        data = decode_json(encode_json(self.datas[number]))
        return Event(self.series[number], from_text(self.times[number]), self.ids[number], data)


def read_batch(context: RequestContext, sent: Sequence[SentRaw], *, small: bool) -> Batch | None:
    """Return the events as columns; None if there is no event, or if any event must take the general way.

    ``small`` says that no event can exceed DynamoDB's limit for items.
    """
    if not sent:
        return None
    now, window = to_text(context.now), context.window
    series, datas = [event.series for event in sent], [event.data for event in sent]
    stamps, ids = [event.time for event in sent], [event.id for event in sent]
    if not small and max(len(encode_json(data)) for data in datas) * _EXPANSION > MAX_ITEM_BYTES:
        return None
    try:
        times = parse_stamps([now if stamp is None else stamp for stamp in stamps] if None in stamps else stamps)
        if window.is_too_old(from_text(min(times))) or window.is_too_new(from_text(max(times))):
            return None
        if None in ids:
            absent = [number for number, id in enumerate(ids) if id is None]
            sent_times = [(stamps[number], times[number]) for number in absent]
            known = [None if stamp is None else identify_time(stamp, time) for stamp, time in sent_times]
            derived = derive_ids(known, [series[number] for number in absent], [datas[number] for number in absent])
            for number, id in zip(absent, derived, strict=True):
                ids[number] = id
    except (ValueError, InvalidTime):
        return None
    names = [id for id in ids if id is not None]
    if not all(0 < length <= SURELY_SHORT for length in {*map(len, series), *map(len, names)}):
        return None
    if not all(map(context.access.covers, set(series))):
        return None
    return Batch(times, series, names, datas)


def route_batch(
    context: RequestContext, batch: Batch, entries: Sequence[Entry], compressor: Compressor
) -> tuple[Routed, dict[Slot, Sequence[int]]] | None:
    """Make the packs of a batch, and list the numbers of the events in each pack, by the pack's slot.

    None if any event must take the general way. All events are within the window.
    """
    layout, at = context.layout, context.at
    places = list_places(PackColumns(batch.times, batch.series, batch.ids, ()), layout)
    owners = list(map(escape, batch.series)) if layout.partition_by == "series" else batch.series
    rows = EventColumns(places, owners, batch.datas, at)
    routed, members_of = Routed(entries), dict[Slot, Sequence[int]]()
    labels, pks = list[str](), list[str]()
    oldest, newest = min(batch.times), max(batch.times)
    numbers_left: Sequence[int] = range(len(places))
    while numbers_left:
        entry = find_entry_at(entries, from_text(batch.times[numbers_left[0]]))
        # A layout of another form does not make these items.
        if entry is None or entry.state not in OPENING or not entry.layout.makes_items_of(layout):
            return None
        start, end = to_text(entry.period.start), to_text(entry.period.end)
        if start <= oldest and newest < end:
            numbers, numbers_left = numbers_left, ()
        else:
            numbers = [number for number in numbers_left if start <= batch.times[number] < end]
            numbers_left = [number for number in numbers_left if not start <= batch.times[number] < end]
        try:
            pack_set = pack_rows(rows, entry.layout, compressor, numbers)
        except ValueError:
            return None
        for item, address, members in pack_set.packs:
            put = Put(entry.table, item)
            routed.puts[put.place], members_of[put.place] = put, members
            routed.indexes += members
            pks += repeat(address, len(members))
            labels += repeat(entry.period.label, len(members))
        routed.tables.add(entry.table)
    if len(routed.indexes) < len(places):
        # Some events are too large for a pack, or repeat other events.
        return None
    routed.packs = set(members_of)
    routed.times = (
        (slot, from_text(batch.times[number])) for slot, members in members_of.items() for number in members
    )
    routed.series = ((slot, batch.series[number]) for slot, members in members_of.items() for number in members)
    routed.refs = encode_refs(context.stream.name, labels, pks, [places[index] for index in routed.indexes])
    return routed, members_of
