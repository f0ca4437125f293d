"""Routing: find the period table that takes an event, by the event's own time, and the puts of its period's form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain

import msgspec
from msgspec.structs import replace

from tidetable.catalog import FENCED, OPENING, Entry
from tidetable.forms.choose import choose_form
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.context import RequestContext
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.layout import encode_refs
from tidetable.periods import show_bounds
from tidetable.ports import Put, Slot
from tidetable.times import from_text, to_text


class Routed(msgspec.Struct):
    """The puts of a request. ``members`` has the numbers of each put's events; ``refs`` are those of all its events.

    ``entries`` are the periods. ``packs`` are the slots that are packs. ``refined`` says that some puts are perhaps
    versions, or have data outside. ``waiting`` are the numbers of the events that have no put, and are queued.
    """

    batch: SentBatch
    entries: Sequence[Entry]
    refs: list[str | None]
    puts: list[Put] = msgspec.field(default_factory=list)
    members: list[Sequence[int]] = msgspec.field(default_factory=list)
    packs: set[Slot] = msgspec.field(default_factory=set)
    waiting: list[int] = msgspec.field(default_factory=list)
    refined: bool = False

    def list_times(self) -> Iterator[tuple[Slot, datetime]]:
        """Yield the slot and the time of each event that has a put."""
        return ((put.slot, from_text(self.batch.times[number])) for put, number in self._list_members())

    def list_series(self) -> Iterator[tuple[Slot, str]]:
        """Yield the slot and the series of each event that has a put."""
        return ((put.slot, self.batch.series[number]) for put, number in self._list_members())

    def _list_members(self) -> Iterator[tuple[Put, int]]:
        return ((put, number) for put, own in zip(self.puts, self.members, strict=True) for number in own)


def route_batch(
    context: RequestContext,
    batch: SentBatch,
    entries: Sequence[Entry],
    bounds: tuple[str, str],
    large: LargeValueServices,
) -> Routed:
    """Give each event of a request a put, or a place in the queue, or a rejection.

    An event is queued if its period is not recorded yet, and rejected if no table may take it. Routing does not read
    tables. ``entries`` are the periods, ``bounds`` the first and the last time of the events. An event before the window
    needs a table that is open for a backfill: any other table may be archived at any moment.
    """
    routed, left = Routed(batch, entries, [None] * len(batch.times)), batch.numbers
    (oldest, newest), window_start = bounds, to_text(context.window.oldest)
    for entry in entries:
        start, end, label = show_bounds(entry.period)
        # Usually all events of a request are of one period.
        if start <= oldest and newest < end:
            numbers, left = left, ()
        elif newest < start or end <= oldest:
            continue
        else:
            numbers = [number for number in left if start <= batch.times[number] < end]
            left = [number for number in left if not start <= batch.times[number] < end]
        # A table that is open, of a period within the window, takes all events.
        if numbers and (entry.state not in OPENING or start < window_start):
            numbers = _admit(context, routed, entry, numbers)
        if numbers:
            _add_puts(context, routed, entry, label, numbers, large)
    routed.waiting += left
    return routed


def _admit(context: RequestContext, routed: Routed, entry: Entry, numbers: Sequence[int]) -> Sequence[int]:
    """Return the numbers of the events that may be written at once; decide the fate of the others."""
    batch = routed.batch
    if not entry.writable:
        for number in numbers:
            where = f"period {entry.period.label} of {entry.stream}, which has {batch.times[number]},"
            batch.reject(number, "too_old", f"{where} is {entry.state}: restore it first")
        return ()
    if entry.state in FENCED:
        # If `late` was raised, a closed table takes events again, while an archive that began before may scan it. So the
        # events are queued: the drain writes each event in a transaction with the state of the table.
        routed.waiting += numbers
        return ()
    if entry.is_open(context.now):
        return numbers
    # An event before the window is here only if a backfill takes it. The lifecycle has not opened the table for the
    # backfill yet.
    oldest = to_text(context.window.oldest)
    routed.waiting += [number for number in numbers if batch.times[number] < oldest]
    return [number for number in numbers if batch.times[number] >= oldest]


def _add_puts(
    context: RequestContext,
    routed: Routed,
    entry: Entry,
    label: str,
    numbers: Sequence[int],
    services: LargeValueServices,
) -> None:
    """Add the puts of a period's events, in the form of the period."""
    batch, layout = routed.batch, entry.layout
    if layout.indexes and layout.indexes != context.rules.layout.indexes:
        # Events were measured with the indexes of the stream's layout: others may add their keys, and copies of fields.
        batch = replace(batch, large=range(len(batch.times)))
    puts = choose_form(layout).make_puts(
        batch,
        numbers,
        entry.table,
        services.compressor,
        lambda item: Shrinker.of(context.stream, services).shrink_item(item, entry),
    )
    for number in puts.too_large:
        size = choose_form(context.rules.layout).measure(batch.make_event(number), context.at)
        batch.reject(number, "too_large", f"the event takes {size} bytes, more than its period's tables can keep")
    # Encoding all refs at once takes a fifth of the time of encoding them one by one.
    refs = encode_refs(context.stream.name, label, puts.pks, puts.sks)
    for number, ref in zip(chain.from_iterable(puts.members), refs, strict=True):
        routed.refs[number] = ref
    routed.puts += puts.puts
    routed.members += puts.members
    routed.packs.update(puts.packs)
    routed.refined |= puts.refined
