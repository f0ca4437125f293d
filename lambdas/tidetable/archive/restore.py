"""The use case of restoring: an archived period becomes a table again, compared with its manifest before it is read.

While it is being restored the period is read from its archive. Every step may be repeated: events overwrite themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from tidetable.archive.digest import Digest
from tidetable.archive.export import Exporter, find_entry
from tidetable.archive.manifest import Manifest, Part
from tidetable.catalog import Entry, Seen, State
from tidetable.config import TableClass
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch
from tidetable.ingest.writing import Jitter, write_with_retries
from tidetable.leases import leased
from tidetable.lifecycle.plan import table_tags
from tidetable.lifecycle.reconcile import LEASE
from tidetable.ports import EventStore, Put, Tables, TableSpec

_POLL_SECONDS = 1.0
# A part is begun only with this much time left, and so is the comparison at the end.
_PART_SECONDS = 60.0
_PUTS = 400


@dataclass(slots=True)
class Restorer:
    """What restoring needs besides what archiving does."""

    stage: str
    archive: Exporter
    tables: Tables
    store: EventStore
    jitter: Jitter


@dataclass(frozen=True, slots=True)
class Restored:
    """How far a restore has come: ``next_part`` is where to go on, None once the period is a table again."""

    entry: Entry
    parts: int
    next_part: int | None


def restore_period(
    stream: str,
    label: str,
    restorer: Restorer,
    owner: str,
    *,
    keep: timedelta,
    first_part: int = 0,
    remaining: Callable[[], float],
) -> Restored:
    """Write a period's archive into a table, as far as the time goes, and open it to queries once it is whole.

    The table is kept for ``keep`` from its last step on, then it is archived and deleted as any other. ArchiveFailed says
    why a period cannot be restored, ArchiveMismatch that the table is not what the manifest says.
    """
    parts = restorer.archive
    entry = find_entry(stream, label, parts.catalog)
    if entry.state in (State.OPEN, State.CREATING, State.CLOSED, State.ARCHIVING):
        raise ArchiveFailed(f"period {label} of {stream} is {entry.state}: it has its table")
    if entry.archive is None:
        raise ArchiveFailed(f"period {label} of {stream} was deleted without an archive")
    length = timedelta(seconds=remaining())
    with leased(parts.catalog, f"archive#{stream}#{label}", owner, parts.clock.now(), length) as held:
        if not held:
            raise ArchiveBusy(f"period {label} of {stream} is being archived or restored by another run")
        manifest = Manifest.decode(parts.objects.get(entry.archive.manifest))
        entry = parts.catalog.move(entry, State.RESTORING, expected=(State.ARCHIVED, State.DELETED, State.RESTORING))
        _create(entry, restorer, remaining)
        for number in range(first_part, len(manifest.parts)):
            if remaining() < _PART_SECONDS:
                return Restored(entry, len(manifest.parts), number)
            _write(manifest.parts[number], entry, restorer, remaining)
        if remaining() < _PART_SECONDS:
            return Restored(entry, len(manifest.parts), len(manifest.parts))
        _compare(manifest, entry, parts)
        return Restored(_open(entry, restorer, owner, parts.clock.now() + keep, remaining), len(manifest.parts), None)


def _create(entry: Entry, restorer: Restorer, remaining: Callable[[], float]) -> None:
    """The period's table, on demand: it is filled as fast as it goes, and the ladder sets its units afterwards."""
    tags = table_tags(restorer.stage, entry.stream, entry.period.label)
    spec = TableSpec(entry.table, None, None, TableClass.STANDARD, tags, entry.layout.indexes)
    if not restorer.tables.create(spec):
        held = restorer.tables.tags(entry.table)
        if any(held.get(name) != value for name, value in tags.items()):
            raise ArchiveFailed(f"table {entry.table} exists but is not tagged as ours; it is left alone")
    while (table := restorer.tables.describe(entry.table)) is None or table.status != "ACTIVE":
        if remaining() < _POLL_SECONDS:
            raise ArchiveBusy(f"table {entry.table} is not active yet; restore again")
        restorer.archive.clock.sleep(_POLL_SECONDS)


def _write(part: Part, entry: Entry, restorer: Restorer, remaining: Callable[[], float]) -> None:
    body = restorer.archive.objects.get(part.key)
    if sha256(body).hexdigest() != part.sha256:
        raise ArchiveMismatch(f"{part.key} is not what was written")
    events = restorer.archive.format.decode(body)
    for start in range(0, len(events), _PUTS):
        puts = [Put(entry.table, entry.layout.item_of(event)) for event in events[start : start + _PUTS]]
        clock = restorer.archive.clock
        written = write_with_retries(restorer.store, puts, remaining=remaining, clock=clock, jitter=restorer.jitter)
        if written.unwritten:
            raise ArchiveBusy(
                f"{len(written.unwritten)} events of {part.key} could not be written in time; restore again"
            )


def _compare(manifest: Manifest, entry: Entry, parts: Exporter) -> None:
    digest = Digest()
    for item in parts.source.scan(entry.table):
        digest.add(entry.layout.event_of(item))
    if (digest.count, digest.hex()) != (manifest.events, manifest.digest):
        raise ArchiveMismatch(f"{entry.table} holds {digest.count} events, its manifest {manifest.events}, or others")


def _open(entry: Entry, restorer: Restorer, owner: str, keep_until: datetime, remaining: Callable[[], float]) -> Entry:
    """Give the period to the lifecycle again, between two of its runs: one under way would not know of it."""
    parts = restorer.archive
    while True:
        length = timedelta(seconds=max(remaining(), _POLL_SECONDS))
        with leased(parts.catalog, LEASE, owner, parts.clock.now(), length) as held:
            if held:
                horizon = parts.catalog.horizon(entry.stream)
                if horizon is not None and horizon > entry.period.start:
                    parts.catalog.set_horizon(entry.stream, entry.period.start)
                # What the lifecycle saw was the table of the time before.
                parts.catalog.note(entry, Seen(None, None, TableClass.STANDARD))
                return parts.catalog.move(entry, State.CLOSED, expected=(State.RESTORING,), keep_until=keep_until)
        if remaining() < 2 * _POLL_SECONDS:
            raise ArchiveBusy("the lifecycle is at work; restore again")
        parts.clock.sleep(_POLL_SECONDS)
