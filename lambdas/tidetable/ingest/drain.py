"""The use case of the drain: write the events of an overflow message, or fail, so that the message comes again.

A waiting event must not replace an event of the same key that was accepted later. So every put has that condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tidetable.catalog import OPENING, Entry, find_entry_at
from tidetable.config import Config
from tidetable.errors import CollectionFull, NotDrained, StoreUnavailable, TableMissing, Undrainable
from tidetable.events import Event, Item
from tidetable.ingest.overflow import Message, decode_message
from tidetable.ingest.routing import PeriodTarget
from tidetable.ingest.versions import add_fenced, is_repeat, write_all_forms
from tidetable.ingest.writing import Jitter, Writer
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.ports import CatalogReader, Clock, DeadLetters, EventStore, Guarded, Put, Transacted
from tidetable.remaining import Remaining, limit_time
from tidetable.window import Window

if TYPE_CHECKING:
    from tidetable.ingest.marks import Marks

# The share of a table's write units that all consumers together may use. The rest is for the live traffic.
SHARE = 0.25
CONSUMERS = 2
# In write units per second. One run of the function must finish a message: otherwise the message would begin again for
# ever.
_LEAST, _UNKNOWN = 2.0, 200.0
# If a table is still throttled after this time, it is left to the live traffic, and the message comes again.
_PATIENCE_SECONDS = 3.0
_AT_ONCE = 10


@dataclass(slots=True)
class Pace:
    """Limits the writes to each table to the drain's share of the table's write units, within one process."""

    clock: Clock
    _free: dict[str, datetime] = field(default_factory=dict)

    def wait(self, entry: Entry, remaining: Remaining) -> None:
        """Sleep until the table may be written again, or until no time remains."""
        pause = (self._free.get(entry.table, self.clock.now()) - self.clock.now()).total_seconds()
        if pause > 0:
            self.clock.sleep(min(pause, max(remaining(), 0.0)))

    def spent(self, entry: Entry, units: float) -> None:
        """Record the write units that were consumed from a table."""
        write_units = entry.seen.write if entry.seen is not None else None
        rate = _UNKNOWN if write_units is None else max(write_units * SHARE / CONSUMERS, _LEAST)
        start = max(self._free.get(entry.table, self.clock.now()), self.clock.now())
        self._free[entry.table] = start + timedelta(seconds=units / rate)


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
    # None if no stream has rollups.
    marks: Marks | None = None


class Drained(NamedTuple):
    """The number of written events of a message or, if it was buried, why it can never be written."""

    events: int
    buried: str | None = None


def drain_message(body: str, ports: Drain, remaining: Remaining, *, repeated: bool = False) -> Drained:
    """Write a message's events, or bury the message if no later try can write them; NotDrained if it must come again.

    The message also comes again if it should be buried, but the queue of dead letters did not take it. Writing an event
    again is harmless, but it costs write units. So if the message is ``repeated`` (it came before), only the events that
    are not in the table yet are written: each try gets further, even if the table has few units.
    """
    try:
        return Drained(_Delivery(_read_message(body, ports), ports, remaining).write(repeated=repeated))
    except Undrainable as error:
        if ports.dead_letters.bury(body, str(error)):
            return Drained(0, str(error))
        raise


def _read_message(body: str, ports: Drain) -> Message:
    try:
        message = decode_message(body)
        if message.kept is None:
            return message
        payload = ports.large.values.get(message.kept)
        if payload is None:
            raise ValueError(f"its events were kept in {message.kept}, which is not there")
        message = decode_message(ports.large.compressor.expand(payload))
        if not message.events:
            raise ValueError(f"{message.kept} is kept in place of its events")
        return message
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error


class _Group(NamedTuple):
    """The events of one table. ``is_direct`` says that the API would still accept them."""

    is_direct: bool
    entry: Entry
    events: list[Event]


class _Delivery:
    """One delivery of a message, at the time at which it began."""

    def __init__(self, message: Message, ports: Drain, remaining: Remaining) -> None:
        self._message, self._stream, self._ports, self._remaining = message, message.stream, ports, remaining
        # None if the stream has left the configuration.
        self._policy = ports.config.streams.get(message.stream)
        self._now = ports.clock.now()
        self._shrinker = Shrinker.of(self._policy, ports.large)
        self._writer = Writer(ports.store, ports.large.values, remaining, ports.clock, ports.jitter)

    def write(self, *, repeated: bool) -> int:
        """Write every event and return their number; NotDrained or Undrainable says what prevents it."""
        problems: list[Exception] = []
        groups = self._group_events(problems)
        self._mark_and_note(groups)
        full = 0
        for is_direct, entry, events in groups:
            try:
                puts = self._make_puts(entry, events)
                if repeated:
                    puts = self._find_missing(puts, entry)
                full += self._write_direct(entry, puts) if is_direct else self._write_fenced(entry, puts)
            except (NotDrained, StoreUnavailable, TableMissing) as error:
                # A failure in one period must not stop the events of other periods.
                problems.append(error)
        # A message is buried only if no later try can write more of its events.
        for problem in sorted(problems, key=lambda problem: isinstance(problem, Undrainable)):
            raise problem
        if full:
            # All other items are written. AWS: a full item collection takes only writes that make it smaller.
            raise Undrainable(
                f"{full} items of {self._stream} belong to item collections that hold 10 GB, the most with a local index:"
                " choose a shorter bucket or more shards for the periods to come (runbook: ItemCollectionFull)"
            )
        return len(self._message.events)

    def _group_events(self, problems: list[Exception]) -> Sequence[_Group]:
        """Group the events by their tables, those before the window first; add a problem for each event without a table."""
        times = [event.time for event in self._message.events]
        entries = self._ports.catalog.entries(self._stream, min(times), max(times), consistent=True)
        oldest = None if self._policy is None else Window.of(self._policy, self._now).oldest
        groups: dict[tuple[bool, str], _Group] = {}
        for event in self._message.events:
            entry = find_entry_at(entries, event.time)
            if entry is None:
                when = event.time.isoformat()
                problems.append(NotDrained(f"no period table of {self._stream} is recorded for {when} yet"))
                continue
            # The API would still accept such an event, so its table is not even closed.
            is_direct = entry.state in OPENING and oldest is not None and event.time >= oldest
            groups.setdefault((is_direct, entry.table), _Group(is_direct, entry, [])).events.append(event)
        return [groups[key] for key in sorted(groups)]

    def _mark_and_note(self, groups: Sequence[_Group]) -> None:
        """Mark the buckets of rollups that late events change, and note the series of events whose tables are
        partitioned by series, before any of the message is written.
        """
        marks = self._ports.marks
        if self._policy is None or not self._policy.rollup or marks is None:
            return
        if not marks.mark(self._policy, [event.time for event in self._message.events], self._now):
            raise NotDrained(
                f"the rollups of {self._stream} could not be marked, so nothing of the message was written"
            )
        series_of: dict[str, set[str]] = {}
        for _, entry, events in groups:
            if entry.layout.partition_by == "series":
                series_of.setdefault(entry.period.label, set()).update(event.series for event in events)
        if not marks.notes.note(self._stream, series_of, self._now):
            raise NotDrained(
                f"series of {self._stream} could not be noted for its rollups, so nothing of the message was written"
            )

    def _make_puts(self, entry: Entry, events: Sequence[Event]) -> list[Put]:
        """Return a put per event of a period or, with packs, a put per pack and per event that is too large for a pack."""
        items = [entry.layout.make_item(event, at=self._message.at) for event in events]
        puts: list[Put] = []
        if entry.layout.pack is not None:
            from tidetable.packs import make_packs

            pack_set = make_packs(items, entry.layout, self._ports.large.compressor)
            puts = [Put(entry.table, pack.item) for pack in pack_set.packs]
            items = [items[number] for number in pack_set.alone]
        target = PeriodTarget(entry, entry.layout, self._shrinker, self._now)
        for item in items:
            put = target.make_put(item)
            if put is None:
                raise Undrainable(f"an event of {self._stream} is too large for period {target.label}")
            puts.append(put)
        return puts

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
        return [put for put in puts if not _is_there(put, items.get(put.key))]

    def _write_fenced(self, entry: Entry, puts: list[Put]) -> int:
        """Write puts, each only if the table is writable: the table may be archived at any moment, and must not get a
        write after that. Return the number of puts that belong to full item collections.
        """
        sealed = f"period {entry.period.label} of {self._stream} is {entry.state}: restore it, then replay"
        store, full = self._ports.store, 0
        for put in puts:
            if not entry.writable:
                raise Undrainable(sealed)
            ready, _ = self._writer.write_outside([put])
            if not ready:
                raise NotDrained(f"the chunks or the object of an event of {self._stream} are not written yet")
            is_version = "version" in put.item
            try:
                done = add_fenced(store, put, entry) if is_version else store.transact([Guarded(put, "newer")], entry)
            except CollectionFull:
                full += 1
                continue
            if done is Transacted.FENCED:
                raise Undrainable(sealed)
            if done is Transacted.CONFLICT and is_version:
                raise NotDrained(f"another writer changes an event of {self._stream} at the same time")
        return full

    def _write_direct(self, entry: Entry, puts: list[Put]) -> int:
        """Write puts, a few at a time, at the table's pace; return how many belong to full item collections."""
        full = 0
        for start in range(0, len(puts), _AT_ONCE):
            batch = puts[start : start + _AT_ONCE]
            self._ports.pace.wait(entry, self._remaining)
            writer = replace(self._writer, remaining=limit_time(_PATIENCE_SECONDS, self._ports.clock, self._remaining))
            written = write_all_forms(writer, batch, lambda waiting: self._ports.store.write_each(waiting, "newer"))
            self._ports.pace.spent(entry, written.units + len(written.conflicts))
            full_puts = sum(map(written.is_full, written.unwritten))
            full += full_puts
            if len(written.unwritten) > full_puts:
                missing = f"; missing: {', '.join(sorted(written.missing_tables))}" if written.missing_tables else ""
                unwritten_count = len(puts) - start - len(batch) + len(written.unwritten)
                raise NotDrained(
                    f"{unwritten_count} of {len(puts)} items of {self._stream} are still to be written{missing}"
                )
        return full


def _is_there(put: Put, item: Item | None) -> bool:
    """True if the item in the table equals the put's item, or was accepted after it."""
    if item is None:
        return False
    if "version" in put.item:
        return is_repeat(put.item, item)
    return item == put.item or item.get("at", 0) > put.item["at"]
