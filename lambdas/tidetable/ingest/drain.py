"""The use case of the drain: write the events of an overflow message, or fail so that the message comes again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidetable.catalog import Entry, entry_at
from tidetable.config import Config
from tidetable.errors import TidetableError
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message
from tidetable.ingest.writing import Jitter, Remaining, write_with_retries
from tidetable.ports import CatalogReader, Clock, EventStore, Put


class NotDrained(TidetableError):
    """Some events of a message are not written yet; the queue will deliver it again, and in the end keep it as dead."""


class Undrainable(NotDrained):
    """Some events of a message cannot be written however often it comes: somebody must do something first."""


@dataclass(slots=True)
class Drain:
    """What draining needs."""

    config: Config
    catalog: CatalogReader
    store: EventStore
    clock: Clock
    jitter: Jitter


def drain_message(body: str, parts: Drain, remaining: Remaining) -> int:
    """Write every event of a message and return how many; NotDrained or Undrainable says what stands in the way.

    Writing an event again is harmless, so a message that was written in part is simply repeated.
    """
    try:
        stream, events = decode_message(body)
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error
    entries = _entries(parts.catalog, stream, events)
    direct: dict[tuple[str, str, str], Put] = {}
    for event in events:
        entry = entry_at(entries, event.time)
        if entry is None:
            raise NotDrained(f"no period table of {stream} is recorded for {event.time.isoformat()} yet")
        put = Put(entry.table, entry.layout.item_of(event))
        if entry.writable and _in_window(stream, event, parts):
            direct[put.place] = put
        elif not (entry.writable and parts.store.write_fenced(put, entry)):
            # Behind the window a table may be archived at any moment, hence the fence; once it is, no write may land.
            raise Undrainable(f"period {entry.period.label} of {stream} is {entry.state}: restore it, then replay")
    written = write_with_retries(
        parts.store, list(direct.values()), remaining=remaining, clock=parts.clock, jitter=parts.jitter
    )
    if written.unwritten:
        missing = f"; missing: {', '.join(sorted(written.missing_tables))}" if written.missing_tables else ""
        raise NotDrained(
            f"{len(written.unwritten)} of {len(events)} events of {stream} are still to be written{missing}"
        )
    return len(events)


def _in_window(stream: str, event: Event, parts: Drain) -> bool:
    """Whether the event may still come by the API too: its table then is not even closed."""
    policy = parts.config.streams.get(stream)
    return policy is not None and event.time >= parts.clock.now() - policy.late


def _entries(catalog: CatalogReader, stream: str, events: list[Event]) -> list[Entry]:
    times: list[datetime] = [event.time for event in events]
    return list(catalog.entries(stream, min(times), max(times), consistent=True))
