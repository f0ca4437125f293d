"""One delivery of the events of an overflow message: they are written to the tables of their periods.

A waiting event must not replace an event of the same key that was accepted later. So every put has that condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tidetable.batch import Batch
from tidetable.catalog import OPENING, Entry, find_entry_at
from tidetable.config import Config
from tidetable.errors import CollectionFull, NotDrained, PutRefused, StoreUnavailable, TableMissing, Undrainable
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.ingest.overflow import OverflowMessage
from tidetable.ingest.pace import Pace
from tidetable.ingest.puts import is_stored, write_fenced, write_puts
from tidetable.large.outside import write_outside
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.large.sweep_ports import Store
from tidetable.ports import CatalogReader, Clock, DeadLetters, EventStore, Put, Slot, Transacted, Written
from tidetable.remaining import Remaining, limit_time
from tidetable.window import Window

if TYPE_CHECKING:
    from tidetable.ingest.marks import Marks

# If a table is still throttled after this time, it is left to the live traffic, and the message comes again.
_PATIENCE_SECONDS = 3.0
_AT_ONCE = 10


@dataclass(slots=True)
class Drain:
    """The ports and settings that the drain needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    dead_letters: DeadLetters
    clock: Clock
    jitter: Jitter
    large: LargeValueServices
    pace: Pace
    # The bucket's list of saved messages.
    saved: Store
    # None if no stream has rollups.
    marks: Marks | None = None


class _Group(NamedTuple):
    """The events of one table. ``is_direct`` says that the API would still accept them."""

    is_direct: bool
    entry: Entry
    events: list[Event]


class Delivery:
    """One delivery of a message, at the time at which it began."""

    def __init__(self, message: OverflowMessage, ports: Drain, remaining: Remaining) -> None:
        self._message, self._stream, self._ports, self._remaining = message, message.stream, ports, remaining
        # None if the stream has left the configuration.
        self._policy = ports.config.streams.get(message.stream)
        self._now = ports.clock.now()
        self._shrinker = Shrinker.of(self._policy, ports.large)
        self._writer = Writer(ports.store, ports.large.values, remaining, ports.clock, ports.jitter)
        # The events of each put, the puts of full item collections, and DynamoDB's reasons by the slots that it refuses.
        self._events_of: dict[Slot, list[Event]] = {}
        self._full: set[Slot] = set()
        self._refused: dict[Slot, str] = {}
        # Events that no table can take, with the reason.
        self._unwritable: list[tuple[str, Sequence[Event]]] = []

    def write(self, *, repeated: bool) -> int:
        """Write every event and return their number; NotDrained or Undrainable says what prevents it."""
        problems: list[Exception] = []
        groups = self._group_events(problems)
        self._mark_and_note(groups)
        for is_direct, entry, events in groups:
            try:
                puts = self._make_puts(entry, events)
                if repeated:
                    puts = self._find_missing(puts, entry)
                if is_direct:
                    self._write_direct(entry, puts)
                else:
                    self._write_fenced(entry, puts)
            except Undrainable as error:
                self._unwritable.append((str(error), events))
            except (NotDrained, StoreUnavailable, TableMissing) as error:
                # A failure in one period must not stop the events of other periods.
                problems.append(error)
        # Events are buried only if no later try can write more of the message.
        for problem in problems:
            raise NotDrained(str(problem)) from problem
        unwritable = [*self._unwritable, *self._list_refused()]
        if unwritable:
            reasons = dict.fromkeys(reason for reason, _ in unwritable)
            buried = {id(event) for _, events in unwritable for event in events}
            raise Undrainable("; ".join(reasons), [event for event in self._message.events if id(event) in buried])
        return len(self._message.events)

    def _list_refused(self) -> Iterator[tuple[str, Sequence[Event]]]:
        """Yield the reasons why DynamoDB refuses items for ever, each with the events of these items."""
        if self._full:
            # AWS: a full item collection takes only writes that make it smaller.
            reason = (
                f"{len(self._full)} items of {self._stream} belong to item collections that hold 10 GB, the most with a"
                " local index: choose a shorter bucket or more shards for the periods to come (runbook: ItemCollectionFull)"
            )
            yield reason, [event for slot in self._full for event in self._events_of[slot]]
        for reason, count in Counter(self._refused.values()).items():
            slots = [slot for slot, own in self._refused.items() if own == reason]
            yield (
                f"DynamoDB refuses {count} items of {self._stream}: {reason}",
                [event for slot in slots for event in self._events_of[slot]],
            )

    def _group_events(self, problems: list[Exception]) -> Sequence[_Group]:
        """Group the events by their tables, those before the window first; add a problem for each event without a table."""
        times = [event.time for event in self._message.events]
        entries = self._ports.catalog.entries(self._stream, min(times), max(times), consistent=True)
        window = None if self._policy is None else Window.of(self._policy, self._now)
        groups: dict[tuple[bool, str], _Group] = {}
        for event in self._message.events:
            entry = find_entry_at(entries, event.time)
            if entry is None:
                when = event.time.isoformat()
                problems.append(NotDrained(f"no period table of {self._stream} is recorded for {when} yet"))
                continue
            # The API would still accept such an event, so its table is not even closed.
            is_direct = entry.state in OPENING and window is not None and not window.is_too_old(event.time)
            groups.setdefault((is_direct, entry.table), _Group(is_direct, entry, [])).events.append(event)
        return [groups[key] for key in sorted(groups)]

    def _mark_and_note(self, groups: Sequence[_Group]) -> None:
        """Mark the buckets of rollups that delayed events change, and note the series of events whose tables are
        partitioned by series, before any of the message is written.
        """
        marks = self._ports.marks
        if self._policy is None or not self._policy.rollup or marks is None:
            return
        if not marks.mark(self._policy, [event.time for event in self._message.events], self._now):
            raise NotDrained(
                f"the rollups of {self._stream} could not be marked, so nothing of the message was written: {marks.trouble}"
            )
        series_of = [
            (entry, {event.series for event in events})
            for _, entry, events in groups
            if entry.layout.partition_by == "series"
        ]
        if not marks.notes.note(series_of, self._now):
            raise NotDrained(
                f"series of {self._stream} could not be noted for its rollups, so nothing of the message was written:"
                f" {marks.notes.trouble}"
            )

    def _make_puts(self, entry: Entry, events: Sequence[Event]) -> list[Put]:
        """Return the puts of the events of a period in its form, and note the events of each."""
        puts = choose_form(entry.layout).make_puts(
            Batch.of(events, self._message.at),
            range(len(events)),
            entry.table,
            self._ports.large.compressor,
            lambda item: self._shrinker.shrink_item(item, entry),
        )
        if puts.too_large:
            reason = f"an event of {self._stream} is too large for period {entry.period.label}"
            self._unwritable.append((reason, [events[number] for number in puts.too_large]))
        for put, members in zip(puts.puts, puts.members, strict=True):
            self._events_of[put.slot] = [events[number] for number in members]
        return puts.puts

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

    def _write_fenced(self, entry: Entry, puts: list[Put]) -> None:
        """Write puts, each only if the table is writable: the table may be archived at any moment, and must not get a
        write after that.
        """
        refusal = f"period {entry.period.label} of {self._stream} is {entry.state}: restore it, then replay"
        store = self._ports.store
        for put in puts:
            if not entry.writable:
                raise Undrainable(refusal)
            ready, outside = write_outside(self._writer, [put])
            if outside.refused:
                self._refused |= outside.refused
                continue
            if not ready:
                why = _explain_troubles(outside)
                raise NotDrained(f"the data of a large event of {self._stream} is not written yet{why}")
            try:
                done = write_fenced(store, put, entry)
            except CollectionFull:
                self._full.add(put.slot)
                continue
            except PutRefused as error:
                self._refused[put.slot] = str(error)
                continue
            if done is Transacted.FENCED:
                raise Undrainable(refusal)
            if done is Transacted.CONFLICT:
                raise NotDrained(f"another writer changes an event of {self._stream} at the same time")

    def _write_direct(self, entry: Entry, puts: list[Put]) -> None:
        """Write puts, a few at a time, at the table's pace."""
        for start in range(0, len(puts), _AT_ONCE):
            batch = puts[start : start + _AT_ONCE]
            self._ports.pace.wait(entry, self._remaining)
            writer = replace(self._writer, remaining=limit_time(_PATIENCE_SECONDS, self._ports.clock, self._remaining))
            written = write_puts(writer, batch, lambda waiting: self._ports.store.write_each(waiting, "newer"))
            self._ports.pace.record_units(entry, written.units + len(written.conflicts))
            self._refused |= written.refused
            self._full |= {put.slot for put in written.unwritten if written.is_full(put)}
            waiting = [put for put in written.unwritten if not written.is_final(put)]
            if waiting:
                count, why = len(puts) - start - len(batch) + len(waiting), _explain_troubles(written)
                raise NotDrained(f"{count} of {len(puts)} items of {self._stream} are still to be written{why}")


def _explain_troubles(written: Written) -> str:
    """Return the end of a sentence that says why puts are not written; empty if DynamoDB gave no reason."""
    if written.missing_tables:
        return f"; missing: {', '.join(sorted(written.missing_tables))}"
    return f": {'; '.join(sorted(set(written.troubles.values())))}" if written.troubles else ""
