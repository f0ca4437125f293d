"""The use case of the drain: write the events of an overflow message, or fail, so that the message comes again.

A waiting event must not replace an event of the same key that was accepted later. So every put has that condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from tidetable.catalog import OPENING, Entry, find_entry_at
from tidetable.config import Config
from tidetable.errors import CollectionFull, NotDrained, StoreUnavailable, TableMissing, Undrainable
from tidetable.events import Event, Item
from tidetable.ingest.overflow import Message, decode_message
from tidetable.ingest.routing import LargeValueServices, PeriodTarget
from tidetable.ingest.versions import add_fenced, is_repeat, write_packed
from tidetable.ingest.writing import Jitter, write_outside
from tidetable.large.shrink import Shrinker
from tidetable.ports import CatalogReader, Clock, DeadLetters, EventStore, Guarded, Put, Transacted, Written
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
    """The result of a message: the number of written events or, if the message was buried, the reason why it can never
    be written.
    """

    events: int
    buried: str | None = None


def drain_message(body: str, ports: Drain, remaining: Remaining, *, repeated: bool = False) -> Drained:
    """Write a message's events, or bury the message if no later try can write them; NotDrained if it must come again.

    The message also comes again if it should be buried, but the queue of dead letters did not take it.
    """
    try:
        return Drained(write_message(body, ports, remaining, repeated=repeated))
    except Undrainable as error:
        if ports.dead_letters.bury(body, str(error)):
            return Drained(0, str(error))
        raise


def write_message(body: str, ports: Drain, remaining: Remaining, *, repeated: bool = False) -> int:
    """Write every event of a message and return their number; NotDrained or Undrainable says what prevents it.

    Writing an event again is harmless, but it costs write units. So if the message is ``repeated`` (it came before),
    only the events that are not in the table yet are written: each try gets further, even if the table has few units.
    """
    message = _read_message(body, ports)
    entries = _read_entries(ports.catalog, message.stream, message.events)
    # The key of a group of events: True if the API would still accept them, and their table. Events before the window
    # are written first.
    groups: dict[tuple[bool, str], tuple[Entry, list[Event]]] = {}
    problems: list[Exception] = []
    policy = ports.config.streams.get(message.stream)
    window = None if policy is None else Window.of(policy, ports.clock.now())
    for event in message.events:
        entry = find_entry_at(entries, event.time)
        if entry is None:
            when = event.time.isoformat()
            problems.append(NotDrained(f"no period table of {message.stream} is recorded for {when} yet"))
            continue
        # The API would still accept such an event, so its table is not even closed.
        is_direct = entry.state in OPENING and window is not None and event.time >= window.oldest
        groups.setdefault((is_direct, entry.table), (entry, []))[1].append(event)
    _mark_late(message, ports)
    _note_series(message, list(groups.values()), ports)
    full = 0
    for (is_direct, _), (entry, events) in sorted(groups.items(), key=itemgetter(0)):
        write = _write_direct if is_direct else _write_all_fenced
        try:
            puts = _make_puts(message, entry, events, ports)
            if repeated:
                puts = _find_missing(puts, entry, ports)
            full += write(message.stream, entry, puts, ports, remaining)
        except (NotDrained, StoreUnavailable, TableMissing) as error:
            # A failure in one period must not stop the events of other periods.
            problems.append(error)
    # A message is buried only if no later try can write more of its events.
    for problem in sorted(problems, key=lambda problem: isinstance(problem, Undrainable)):
        raise problem
    if full:
        # All other items are written. AWS: a full item collection takes only writes that make it smaller.
        raise Undrainable(
            f"{full} items of {message.stream} belong to item collections that hold 10 GB, the most with a local index: choose a"
            " shorter bucket or more shards for the periods to come (runbook: ItemCollectionFull)"
        )
    return len(message.events)


def _mark_late(message: Message, ports: Drain) -> None:
    """Mark the buckets of rollups that late events change, before any of the message is written."""
    stream = ports.config.streams.get(message.stream)
    if stream is None or not stream.rollup or ports.marks is None:
        return
    if not ports.marks.mark(stream, [event.time for event in message.events], ports.clock.now()):
        raise NotDrained(f"the rollups of {stream.name} could not be marked, so nothing of the message was written")


def _note_series(message: Message, groups: Sequence[tuple[Entry, list[Event]]], ports: Drain) -> None:
    """Note the series of events whose tables are partitioned by series, before any of the message is written."""
    stream = ports.config.streams.get(message.stream)
    if stream is None or not stream.rollup or ports.marks is None:
        return
    series_of: dict[str, set[str]] = {}
    for entry, events in groups:
        if entry.layout.partition_by == "series":
            series_of.setdefault(entry.period.label, set()).update(event.series for event in events)
    if not ports.marks.notes.note(stream.name, series_of, ports.clock.now()):
        raise NotDrained(
            f"series of {stream.name} could not be noted for its rollups, so nothing of the message was written"
        )


def _find_missing(puts: list[Put], entry: Entry, ports: Drain) -> list[Put]:
    """Return the puts that no earlier attempt wrote; all puts if the table cannot be read now.

    A put is there if the item in the table equals it, or was accepted after it. A read that is not strongly consistent
    may miss an item that was written a moment ago; that item is written again.
    """
    if not entry.writable:
        return puts
    try:
        items = ports.store.get_many(entry.table, [put.key for put in puts], consistent=False)
    except (StoreUnavailable, TableMissing):
        return puts
    return [put for put in puts if not _is_there(put, items.get(put.key))]


def _is_there(put: Put, item: Item | None) -> bool:
    if item is None:
        return False
    if "version" in put.item:
        return is_repeat(put.item, item)
    return item == put.item or item.get("at", 0) > put.item["at"]


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


def _make_puts(message: Message, entry: Entry, events: Sequence[Event], ports: Drain) -> list[Put]:
    """Return a put per event of a period or, with packs, a put per pack and per event that is too large for a pack."""
    items = [entry.layout.make_item(event, at=message.at) for event in events]
    packs: list[Put] = []
    if entry.layout.pack is not None:
        from tidetable.packs import make_packs

        pack_set = make_packs(items, entry.layout, ports.large.compressor)
        packs = [Put(entry.table, pack.item) for pack in pack_set.packs]
        items = [items[number] for number in pack_set.alone]
    policy, large = ports.config.streams.get(message.stream), ports.large
    if policy is not None:
        shrinker = Shrinker.of(policy, large.compressor, large.unique)
    else:
        # The stream has left the configuration. The events that it accepted are kept, of any size.
        shrinker = Shrinker(None, "s3", (), large.compressor, large.unique)
    target = PeriodTarget(message.stream, entry, entry.layout, shrinker, ports.clock.now())
    return packs + [_make_put(target, item, message.stream) for item in items]


def _make_put(target: PeriodTarget, item: Item, stream: str) -> Put:
    put = target.make_put(item)
    if put is None:
        raise Undrainable(f"an event of {stream} is too large for period {target.label}")
    return put


def _write_all_fenced(stream: str, entry: Entry, puts: list[Put], ports: Drain, remaining: Remaining) -> int:
    """Write puts to a table that may be archived at any moment; return the number of puts that belong to full item
    collections.
    """
    full = 0
    for put in puts:
        try:
            _write_fenced(stream, put, entry, ports, remaining)
        except CollectionFull:
            full += 1
    return full


def _write_fenced(stream: str, put: Put, entry: Entry, ports: Drain, remaining: Remaining) -> None:
    """Write a put only if its table is writable: the table may be archived at any moment, and must not get a write
    after that.
    """
    sealed = f"period {entry.period.label} of {stream} is {entry.state}: restore it, then replay"
    if not entry.writable:
        raise Undrainable(sealed)
    ready, _ = write_outside(
        ports.store, ports.large.values, [put], remaining=remaining, clock=ports.clock, jitter=ports.jitter
    )
    if not ready:
        raise NotDrained(f"the chunks or the object of an event of {stream} are not written yet")
    if "version" in put.item:
        done = add_fenced(ports.store, put, entry)
        if done is Transacted.CONFLICT:
            raise NotDrained(f"another writer changes an event of {stream} at the same time")
    else:
        done = ports.store.transact([Guarded(put, "newer")], entry)
    if done is Transacted.FENCED:
        raise Undrainable(sealed)


def _write_direct(stream: str, entry: Entry, puts: list[Put], ports: Drain, remaining: Remaining) -> int:
    """Write puts, a few at a time, at the table's pace; return the number of puts that belong to full item collections."""
    full = 0
    for start in range(0, len(puts), _AT_ONCE):
        batch = puts[start : start + _AT_ONCE]
        ports.pace.wait(entry, remaining)
        written = _write_some(batch, ports, remaining)
        ports.pace.spent(entry, written.units + len(written.conflicts))
        full_puts = sum(map(written.is_full, written.unwritten))
        full += full_puts
        if len(written.unwritten) > full_puts:
            missing = f"; missing: {', '.join(sorted(written.missing_tables))}" if written.missing_tables else ""
            unwritten_count = len(puts) - start - len(batch) + len(written.unwritten)
            raise NotDrained(f"{unwritten_count} of {len(puts)} items of {stream} are still to be written{missing}")
    return full


def _write_some(puts: list[Put], ports: Drain, remaining: Remaining) -> Written:
    return write_packed(
        ports.store,
        ports.large.values,
        puts,
        lambda waiting: ports.store.write_each(waiting, "newer"),
        remaining=limit_time(_PATIENCE_SECONDS, ports.clock, remaining),
        clock=ports.clock,
        jitter=ports.jitter,
    )


def _read_entries(catalog: CatalogReader, stream: str, events: list[Event]) -> list[Entry]:
    times: list[datetime] = [event.time for event in events]
    return list(catalog.entries(stream, min(times), max(times), consistent=True))
