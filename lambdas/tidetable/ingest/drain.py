"""The use case of the drain: write the events of an overflow message, or fail so that the message comes again.

An event that waited must not replace one of the same key that was accepted after it, so each is put on that condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.catalog import Entry, entry_at
from tidetable.config import Config
from tidetable.errors import StoreUnavailable, TableMissing, TidetableError
from tidetable.events import Event, Item
from tidetable.ingest.overflow import Message, decode_message
from tidetable.ingest.routing import Outside, PeriodPlace
from tidetable.ingest.versions import add_fenced, is_repeat, write_packed
from tidetable.ingest.writing import Jitter, Remaining, write_outside
from tidetable.large.pack import Packer
from tidetable.ports import CatalogReader, Clock, EventStore, Guarded, Put, Transacted, Written

# Of a table's write units, for all consumers together: the others are the live traffic's.
SHARE = 0.25
CONSUMERS = 2
# Units per second: a message must get through within one run of the function, or it would begin anew for ever.
_LEAST, _UNKNOWN = 2.0, 200.0
# A table that is still throttled after so long is left to the live traffic; the message comes again.
_PATIENCE = timedelta(seconds=3)
_AT_ONCE = 10


class NotDrained(TidetableError):
    """Some events of a message are not written yet; the queue will deliver it again, and in the end keep it as dead."""


class Undrainable(NotDrained):
    """Some events of a message cannot be written however often it comes: somebody must do something first."""


@dataclass(slots=True)
class Pace:
    """Keeps each table's writes to its share, within one process."""

    clock: Clock
    _free: dict[str, datetime] = field(default_factory=dict)

    def wait(self, entry: Entry, remaining: Remaining) -> None:
        """Let time pass until the table's turn, or until there is none left."""
        pause = (self._free.get(entry.table, self.clock.now()) - self.clock.now()).total_seconds()
        if pause > 0:
            self.clock.sleep(min(pause, max(remaining(), 0.0)))

    def spent(self, entry: Entry, units: float) -> None:
        """Account for what was written."""
        seen = entry.seen.write if entry.seen is not None else None
        rate = _UNKNOWN if seen is None else max(seen * SHARE / CONSUMERS, _LEAST)
        start = max(self._free.get(entry.table, self.clock.now()), self.clock.now())
        self._free[entry.table] = start + timedelta(seconds=units / rate)


@dataclass(slots=True)
class Drain:
    """What draining needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    clock: Clock
    jitter: Jitter
    outside: Outside
    pace: Pace


def drain_message(body: str, parts: Drain, remaining: Remaining, *, repeated: bool = False) -> int:
    """Write every event of a message and return how many; NotDrained or Undrainable says what stands in the way.

    Writing an event again is harmless, but it costs write units. So of a ``repeated`` message, which came before, only the
    events that are not there yet are written: each try gets further, however few units the table has.
    """
    message = _message(body, parts)
    entries = _entries(parts.catalog, message.stream, message.events)
    direct: dict[str, tuple[Entry, list[Put]]] = {}
    fenced: dict[str, tuple[Entry, list[Put]]] = {}
    for event in message.events:
        entry = entry_at(entries, event.time)
        if entry is None:
            raise NotDrained(f"no period table of {message.stream} is recorded for {event.time.isoformat()} yet")
        put = _put(message, entry, event, parts)
        kind = direct if entry.writable and _in_window(message.stream, event, parts) else fenced
        kind.setdefault(entry.table, (entry, []))[1].append(put)
    for entry, puts in fenced.values():
        for put in _missing(puts, entry, parts) if repeated else puts:
            _write_fenced(message.stream, put, entry, parts, remaining)
    for entry, puts in direct.values():
        _write_direct(message.stream, entry, _missing(puts, entry, parts) if repeated else puts, parts, remaining)
    return len(message.events)


def _missing(puts: list[Put], entry: Entry, parts: Drain) -> list[Put]:
    """The puts that an earlier try did not write; all of them if the table cannot be read now.

    What is there equals the put, or was accepted after it. A read that is not strongly consistent may miss what was written a
    moment ago, which then is written again.
    """
    if not entry.writable:
        return puts
    try:
        items = parts.store.get_many(entry.table, [put.key for put in puts], consistent=False)
    except (StoreUnavailable, TableMissing):
        return puts
    return [put for put in puts if not _is_there(put, items.get(put.key))]


def _is_there(put: Put, item: Item | None) -> bool:
    if item is None:
        return False
    if "version" in put.item:
        return is_repeat(put.item, item)
    return item == put.item or item.get("at", 0) > put.item["at"]


def _message(body: str, parts: Drain) -> Message:
    try:
        message = decode_message(body)
        if message.kept is None:
            return message
        kept = parts.outside.values.get(message.kept)
        if kept is None:
            raise ValueError(f"its events were kept in {message.kept}, which is not there")
        return decode_message(parts.outside.compressor.expand(kept))
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error


def _put(message: Message, entry: Entry, event: Event, parts: Drain) -> Put:
    policy = parts.config.streams.get(message.stream)
    if policy is None:
        return Put(entry.table, entry.layout.item_of(event, at=message.at))
    packer = Packer.of(policy, parts.outside.compressor, parts.outside.unique)
    place = PeriodPlace(message.stream, entry, entry.layout, packer, parts.clock.now())
    put = place.put(entry.layout.item_of(event, at=message.at))
    if put is None:
        raise Undrainable(f"an event of {message.stream} is too large for period {entry.period.label}")
    return put


def _write_fenced(stream: str, put: Put, entry: Entry, parts: Drain, remaining: Remaining) -> None:
    """Behind the window a table may be archived at any moment, hence the fence; once it is, no write may land."""
    sealed = f"period {entry.period.label} of {stream} is {entry.state}: restore it, then replay"
    if not entry.writable:
        raise Undrainable(sealed)
    ready, _ = write_outside(
        parts.store, parts.outside.values, [put], remaining=remaining, clock=parts.clock, jitter=parts.jitter
    )
    if not ready:
        raise NotDrained(f"what an event of {stream} refers to is still to be written")
    if "version" in put.item:
        done = add_fenced(parts.store, put, entry)
        if done is Transacted.HELD:
            raise NotDrained(f"others write to an event of {stream}, too")
    else:
        done = parts.store.transact([Guarded(put, "newer")], entry)
    if done is Transacted.FENCED:
        raise Undrainable(sealed)


def _write_direct(stream: str, entry: Entry, puts: list[Put], parts: Drain, remaining: Remaining) -> None:
    """A few at a time, at the table's pace."""
    for start in range(0, len(puts), _AT_ONCE):
        some = puts[start : start + _AT_ONCE]
        parts.pace.wait(entry, remaining)
        written = _write_some(some, parts, remaining)
        parts.pace.spent(entry, written.units + len(written.held))
        if written.unwritten:
            missing = f"; missing: {', '.join(sorted(written.missing_tables))}" if written.missing_tables else ""
            left = len(puts) - start - len(some) + len(written.unwritten)
            raise NotDrained(f"{left} of {len(puts)} events of {stream} are still to be written{missing}")


def _write_some(puts: list[Put], parts: Drain, remaining: Remaining) -> Written:
    end = parts.clock.now() + _PATIENCE

    def patience() -> float:
        return min(remaining(), (end - parts.clock.now()).total_seconds())

    return write_packed(
        parts.store,
        parts.outside.values,
        puts,
        lambda waiting: parts.store.write_each(waiting, "newer"),
        remaining=patience,
        clock=parts.clock,
        jitter=parts.jitter,
    )


def _in_window(stream: str, event: Event, parts: Drain) -> bool:
    """Whether the event may still come by the API too: its table then is not even closed."""
    policy = parts.config.streams.get(stream)
    return policy is not None and event.time >= parts.clock.now() - policy.late


def _entries(catalog: CatalogReader, stream: str, events: list[Event]) -> list[Entry]:
    times: list[datetime] = [event.time for event in events]
    return list(catalog.entries(stream, min(times), max(times), consistent=True))
