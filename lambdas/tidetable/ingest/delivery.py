"""One delivery of waiting events: the events of some messages of a stream are written to the tables of their periods.

A waiting event must not replace an event of the same key that was accepted later. So every put has that condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tidetable.batch import Batch
from tidetable.catalog import OPENING, Entry, find_entry_at
from tidetable.catalog_steps import read_entries_at
from tidetable.config import Config
from tidetable.errors import NotDrained, StoreUnavailable, TableMissing
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.fates import Fate, Fates, explain_troubles
from tidetable.ingest.fenced import FencedWriter
from tidetable.ingest.overflow import OverflowMessage
from tidetable.ingest.pace import Pace
from tidetable.ingest.puts import is_stored, merge_copies, write_puts
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.large.sweep_ports import Store
from tidetable.layout.latest import finds_latest
from tidetable.ports import (
    CatalogReader,
    Clock,
    DeadLetters,
    EventStore,
    Overflow,
    Pools,
    Put,
)
from tidetable.remaining import Remaining, limit_time
from tidetable.window import Window

if TYPE_CHECKING:
    from tidetable.ingest.beat import Beats
    from tidetable.ingest.marks import Marks

# If a table takes nothing in this time, it is left to the live traffic, and the messages come again.
_PATIENCE_SECONDS = 1.0


@dataclass(slots=True)
class Drain:
    """The ports and settings that the drain needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    dead_letters: DeadLetters
    clock: Clock
    jitter: Jitter
    circuit: Circuit
    # The queue that wakes workers for saved messages.
    overflow: Overflow
    large: LargeValueServices
    pace: Pace
    # The bucket's list of saved messages.
    saved: Store
    marks: Marks
    beats: Beats
    pools: Pools


class _Group(NamedTuple):
    """The events of one table, by the numbers of their messages. ``is_direct`` says that the API would still accept
    them.
    """

    is_direct: bool
    entry: Entry
    events: dict[int, list[Event]]


class Delivery:
    """One delivery of messages of one stream, at the time at which it began.

    ``repeated`` are the numbers of the messages that were delivered before.
    """

    def __init__(
        self,
        messages: Sequence[OverflowMessage],
        ports: Drain,
        remaining: Remaining,
        *,
        repeated: frozenset[int] = frozenset(),
    ) -> None:
        self._messages, self._stream, self._ports, self._remaining = messages, messages[0].stream, ports, remaining
        self._repeated = repeated
        # None if the stream has left the configuration.
        self._policy = ports.config.streams.get(self._stream)
        self._now = ports.clock.now()
        self._shrinker = Shrinker.of(self._policy, ports.large)
        self._writer = Writer(ports.store, ports.large.values, remaining, ports.clock, ports.jitter)
        self._fates = Fates(self._stream, len(messages))

    def write(self) -> Sequence[Fate]:
        """Write every event, and return what became of each message; NotDrained or StoreUnavailable if nothing could be
        written.
        """
        groups = self._group_events()
        self._mark_and_note(groups)
        for group in groups:
            puts = self._make_puts(group)
            # A failure in one period must not stop the events of other periods.
            try:
                if group.is_direct:
                    self._write_direct(group.entry, puts)
                else:
                    FencedWriter(group.entry, self._ports.catalog, self._writer, self._fates).write(puts)
            except (StoreUnavailable, TableMissing) as error:
                self._fates.wait_puts(puts, str(error))
        self._fates.give_up_refused()
        return self._fates.of_messages

    def _group_events(self) -> Sequence[_Group]:
        """Group the events by their tables, those before the window first; events without a table wait."""
        times = {event.time for message in self._messages for event in message.events}
        entries = read_entries_at(self._ports.catalog, self._stream, times)
        window = None if self._policy is None else Window.of(self._policy, self._now)
        groups: dict[tuple[bool, str], _Group] = {}
        for number, message in enumerate(self._messages):
            for event in message.events:
                entry = find_entry_at(entries, event.time)
                if entry is None:
                    when = event.time.isoformat()
                    self._fates.wait([(number, event)], f"no period table of {self._stream} is recorded for {when} yet")
                    continue
                # The API would still accept such an event, so its table is not even closed.
                is_direct = entry.state in OPENING and window is not None and not window.is_too_old(event.time)
                group = groups.setdefault((is_direct, entry.table), _Group(is_direct, entry, {}))
                group.events.setdefault(number, []).append(event)
        return [groups[key] for key in sorted(groups)]

    def _mark_and_note(self, groups: Sequence[_Group]) -> None:
        """Mark the buckets of rollups that delayed events change, and note the series of events whose tables are
        partitioned by series, before any of the messages is written. Without rollups, mark the periods that are over.
        """
        marks = self._ports.marks
        if self._policy is None or not self._policy.rollup:
            periods = [entry.period for _, entry, _ in groups if finds_latest(entry.layout)]
            if not marks.mark_ended(self._stream, periods, self._now):
                what = f"the periods of {self._stream} that are over could not be marked"
                raise NotDrained(f"{what}, so nothing of the message was written: {marks.trouble}")
            return
        times = [event.time for message in self._messages for event in message.events]
        if not marks.mark(self._policy, times, self._now):
            raise NotDrained(
                f"the rollups of {self._stream} could not be marked, so nothing of the message was written: {marks.trouble}"
            )
        series_of = [
            (entry, {event.series for own in events.values() for event in own})
            for _, entry, events in groups
            if entry.layout.partition_by == "series"
        ]
        if not marks.notes.note(series_of, self._now):
            raise NotDrained(
                f"series of {self._stream} could not be noted for its rollups, so nothing of the message was written:"
                f" {marks.notes.trouble}"
            )

    def _make_puts(self, group: _Group) -> list[Put]:
        """Return the puts of the events of a table in its form, and note the events of each.

        Each message makes its own puts: so a message that comes again makes the same packs.
        """
        entry, made = group.entry, list[Put]()
        for number, events in group.events.items():
            puts = choose_form(entry.layout).make_puts(
                Batch.of(events, self._messages[number].at),
                range(len(events)),
                entry.table,
                self._ports.large.compressor,
                lambda item: self._shrinker.shrink_item(item, entry),
            )
            if puts.too_large:
                reason = f"an event of {self._stream} is too large for period {entry.period.label}"
                self._fates.of_messages[number].unwritable.append((reason, [events[place] for place in puts.too_large]))
            for put, members in zip(puts.puts, puts.members, strict=True):
                self._fates.events_of[put.slot] += [(number, events[place]) for place in members]
            made += self._find_missing(puts.puts, entry) if number in self._repeated else puts.puts
        # A state that waits would hold up all messages that have the event, also those whose copy is written.
        return merge_copies(made)

    def _find_missing(self, puts: list[Put], entry: Entry) -> list[Put]:
        """Return the puts that no earlier attempt wrote; all puts if the table cannot be read now.

        A read that is not strongly consistent may miss an item that was written a moment ago; that item is written again.
        """
        if not entry.writable:
            return puts
        try:
            items = self._ports.store.get_many(entry.table, [put.key for put in puts], consistent=False)
        except (StoreUnavailable, TableMissing):
            return puts
        return [put for put in puts if not is_stored(put, items.get(put.key))]

    def _write_direct(self, entry: Entry, puts: list[Put]) -> None:
        """Write puts, many at once, at the table's pace. Stop if the table takes nothing, or if the time is up."""
        table, pace, circuit = entry.table, self._ports.pace, self._ports.circuit
        waiting, why, is_blocked = puts, ": the time was up", False
        while waiting:
            if not circuit.admits(table):
                why, is_blocked = ": the table took nothing a moment ago", True
                break
            if not pace.wait(entry, self._remaining):
                break
            amount = pace.find_amount(entry)
            batch, waiting = waiting[:amount], waiting[amount:]
            writer = replace(self._writer, remaining=limit_time(_PATIENCE_SECONDS, self._ports.clock, self._remaining))
            written = write_puts(writer, batch, lambda own: self._ports.store.write_each(own, "newer"))
            pace.record_units(entry, written.units + len(written.conflicts), throttled=bool(written.throttles))
            self._fates.refused |= written.refused
            self._fates.full |= {put.slot for put in written.unwritten if written.is_full(put)}
            failed = [put for put in written.unwritten if not written.is_final(put)]
            waiting = failed + waiting
            if len(failed) < len(batch):
                circuit.close([table])
            if failed and (len(failed) == len(batch) or self._remaining() <= 0):
                why, is_blocked = explain_troubles(written), len(failed) == len(batch)
                if is_blocked and written.throttles:
                    circuit.trip([table])
                break
        if waiting:
            text = f"{len(waiting)} of {len(puts)} items of {self._stream} are still to be written{why}"
            self._fates.wait_puts(waiting, text, is_blocked=is_blocked)
