"""The use case of restoring: an archived period becomes a table again, compared with its manifest before it is read.

While it is being restored the period is read from its archive. Every step may be repeated: events overwrite themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from tidetable.archive.export import Exporter, find_entry, source_of
from tidetable.archive.facts import joined
from tidetable.archive.manifest import Manifest, Part
from tidetable.catalog import Entry, Seen, State
from tidetable.config import TableClass
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableThrottled
from tidetable.events import Item
from tidetable.expired import as_of
from tidetable.ingest.routing import LargeValueServices
from tidetable.ingest.writing import Jitter, retry_writes, write_outside
from tidetable.large import Packer, Place
from tidetable.leases import leased
from tidetable.lifecycle.ladder import level_for
from tidetable.lifecycle.reconcile import LEASE, LEASE_MOST
from tidetable.lifecycle.specs import filling_spec
from tidetable.names import parts_table
from tidetable.packs import make_packs
from tidetable.period_tables import NotOurs, NotReady, PeriodTables, TableUnusable, beside, table_tags
from tidetable.ports import EventStore, Put, TableRefused, Tables, TableSpec
from tidetable.times import to_text
from tidetable.values import item_bytes

_POLL_SECONDS = 1.0
# A part is begun only with this much time left, and so is the comparison at the end.
_PART_SECONDS = 60.0
_PUTS = 400
# Of a table with packs so many events are packed together, or so many bytes.
_PACKED_EVENTS, _PACKED_BYTES = 20_000, 16_000_000


@dataclass(slots=True)
class Restorer:
    """What restoring needs besides what archiving does."""

    stage: str
    archive: Exporter
    tables: Tables
    store: EventStore
    jitter: Jitter
    large: LargeValueServices


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to go on: at a part or, once all are written, in the comparison of the table with the manifest.

    ``after`` is the key after which the comparison goes on, ``items`` and ``digest`` are of what was compared before it.
    """

    part: int = 0
    after: Mapping[str, Any] | None = None
    items: int = 0
    digest: str = "0"


@dataclass(frozen=True, slots=True)
class Restored:
    """How far a restore has come: ``next`` is where to go on, None once the period is a table again."""

    entry: Entry
    parts: int
    next: Position | None


def restore_period(
    stream: str,
    label: str,
    restorer: Restorer,
    owner: str,
    *,
    keep: timedelta,
    start: Position = Position(),  # noqa: B008 - frozen
    remaining: Callable[[], float],
) -> Restored:
    """Write a period's archive into a table, as far as the time goes, and open it to queries once it is whole.

    The table is kept for ``keep`` from its last step on, then it is archived and deleted as any other. ArchiveFailed says
    why a period cannot be restored, ArchiveMismatch that the table is not what the manifest says.
    """
    parts = restorer.archive
    entry = as_of(find_entry(stream, label, parts.catalog), parts.config, parts.clock.now())
    if entry.state in (State.OPEN, State.CREATING, State.CLOSED, State.ARCHIVING):
        raise ArchiveFailed(f"period {label} of {stream} is {entry.state}: it has its table")
    if entry.archive is None:
        raise ArchiveFailed(f"period {label} of {stream} was deleted without an archive")
    if entry.archive.expired_at is not None:
        raise ArchiveFailed(f"the archive of period {label} of {stream} expired at {to_text(entry.archive.expired_at)}")
    length = timedelta(seconds=remaining())
    with leased(parts.catalog, f"archive#{stream}#{label}", owner, parts.clock.now(), length) as held:
        if not held:
            raise ArchiveBusy(f"period {label} of {stream} is being archived or restored by another run")
        manifest = Manifest.decode(parts.objects.get(entry.archive.manifest))
        entry = parts.catalog.move(entry, State.RESTORING, expected=(State.ARCHIVED, State.DELETED, State.RESTORING))
        # From its first step on every run sees and counts the table, though the restore may never be finished.
        _lower_horizon(entry, parts)
        _create(entry, restorer, remaining)
        for number in range(start.part, len(manifest.parts)):
            if remaining() < _PART_SECONDS:
                return Restored(entry, len(manifest.parts), Position(number))
            _write(manifest.parts[number], entry, restorer, remaining)
        unfinished = _compare(manifest, entry, parts, start, remaining)
        if unfinished is not None:
            return Restored(entry, len(manifest.parts), unfinished)
        _recover(entry, restorer, remaining)
        return Restored(_open(entry, restorer, owner, parts.clock.now() + keep, remaining), len(manifest.parts), None)


def _create(entry: Entry, restorer: Restorer, remaining: Callable[[], float]) -> None:
    """The period's table with all that its stream's tables have, on demand while it is filled."""
    tags = table_tags(restorer.stage, entry.stream, entry.period.label)
    spec = _spec(entry, restorer.archive, tags)
    specs = [spec, beside(spec)] if entry.layout.parts else [spec]
    tables = PeriodTables(restorer.stage, restorer.tables, restorer.archive.clock, remaining)
    try:
        for one in specs:
            if not restorer.tables.create(one):
                tables.owned(entry, one.name)
        for one in specs:
            tables.settled(one.name)
    except NotReady as error:
        raise ArchiveBusy(f"{error}; restore again") from error
    except (NotOurs, TableUnusable) as error:
        raise ArchiveFailed(str(error)) from error


def _spec(entry: Entry, parts: Exporter, tags: Mapping[str, str]) -> TableSpec:
    """What the period's table is made with; the least there is for a stream of which no policy is recorded."""
    stream = parts.stream(entry.stream)
    if stream is None:
        return TableSpec(entry.table, None, None, TableClass.STANDARD, tags, entry.layout.indexes)
    return filling_spec(entry, stream, level_for(entry, stream, parts.clock.now()), tags)


def _recover(entry: Entry, restorer: Restorer, remaining: Callable[[], float]) -> None:
    """Point-in-time recovery, if the stream's tables have it, once the table is whole."""
    stream = restorer.archive.stream(entry.stream)
    if stream is None or not stream.table.point_in_time_recovery:
        return
    for name in [entry.table, parts_table(entry.table)] if entry.layout.parts else [entry.table]:
        while True:
            try:
                restorer.tables.enable_recovery(name)
                break
            except TableRefused as error:
                # AWS: backups are available some seconds after a table has become active.
                if not error.transient:
                    raise ArchiveFailed(f"point-in-time recovery of {name} is refused: {error}") from error
                if remaining() < 2 * _POLL_SECONDS:
                    raise ArchiveBusy(f"table {name} is whole, but {error}; restore again") from error
                restorer.archive.clock.sleep(_POLL_SECONDS)


def _write(part: Part, entry: Entry, restorer: Restorer, remaining: Callable[[], float]) -> None:
    body = restorer.archive.objects.get(part.key)
    if sha256(body).hexdigest() != part.sha256:
        raise ArchiveMismatch(f"{part.key} is not what was written")
    clock = restorer.archive.clock
    items = iter(restorer.archive.format.items(body, entry.layout))
    place = Place(entry.stream, entry.period.label, entry.table, entry.layout)
    large = restorer.large
    packer = Packer(None, "refuse", (), large.compressor, large.unique)
    budget: dict[str, Any] = {"remaining": remaining, "clock": clock, "jitter": restorer.jitter}
    for some in _portions(items, packed=entry.layout.pack is not None):
        puts = _puts(some, place, packer)
        ready, written = write_outside(restorer.store, large.values, puts, **budget)
        written.add(retry_writes(restorer.store.write, ready, **budget))
        if written.unwritten:
            raise ArchiveBusy(
                f"{len(written.unwritten)} events of {part.key} could not be written in time; restore again"
            )


def _portions(items: Iterator[Item], *, packed: bool) -> Iterator[list[Item]]:
    """Items in order, so many as are written at once. Of packs it is many: the more events there are, the larger packs become."""
    most = _PACKED_EVENTS if packed else _PUTS
    while some := list(islice(items, most)):
        if not packed:
            yield some
            continue
        size, portion = 0, list[Item]()
        for item in some:
            portion.append(item)
            size += item_bytes({name: value for name, value in item.items() if name != "packed"})
            if size > _PACKED_BYTES:
                yield portion
                size, portion = 0, []
        if portion:
            yield portion


def _puts(items: Sequence[Item], place: Place, packer: Packer) -> list[Put]:
    """Items of an archive as puts: in packs, if the period's table has them. The same items make the same puts."""
    if place.layout.pack is None:
        return [packer.put_again(item, place) for item in items]
    bare = [
        {name: value for name, value in item.items() if name != "packed"} for item in items if not item.get("packed")
    ]
    made = make_packs(bare, place.layout, packer.compressor)
    alone = [bare[number] for number in made.alone] + [item for item in items if item.get("packed")]
    return [Put(place.table, one.item) for one in made.packs] + [packer.put_again(item, place) for item in alone]


def _compare(
    manifest: Manifest, entry: Entry, parts: Exporter, start: Position, remaining: Callable[[], float]
) -> Position | None:
    """Scan the table against the manifest; tells where to go on if the time is up before."""
    after, items, digest = start.after, start.items, start.digest
    source = source_of(entry, parts)
    while True:
        if remaining() < _PART_SECONDS:
            return Position(len(manifest.parts), after, items, digest)
        try:
            page = source.page(entry.table, segment=0, segments=1, after=after, limit=None)
        except TableThrottled:
            parts.clock.sleep(_POLL_SECONDS)
            continue
        facts = parts.format.page_facts(parts.completer.whole(page.items, entry.table))
        items, digest = items + facts.items, joined((digest, facts.hex))
        after = page.after
        if after is None:
            break
    if (items, digest) != (manifest.events, manifest.digest):
        raise ArchiveMismatch(f"{entry.table} holds {items} events, its manifest {manifest.events}, or others")
    return None


def _open(entry: Entry, restorer: Restorer, owner: str, keep_until: datetime, remaining: Callable[[], float]) -> Entry:
    """Give the period to the lifecycle again, between two of its runs: one under way would not know of it."""
    parts = restorer.archive
    while True:
        length = min(timedelta(seconds=max(remaining(), _POLL_SECONDS)), LEASE_MOST)
        with leased(parts.catalog, LEASE, owner, parts.clock.now(), length) as held:
            if held:
                _lower_horizon(entry, parts)
                # What the lifecycle saw was the table of the time before.
                parts.catalog.note(entry, Seen(None, None, _spec(entry, parts, {}).table_class))
                return parts.catalog.move(entry, State.CLOSED, expected=(State.RESTORING,), keep_until=keep_until)
        if remaining() < 2 * _POLL_SECONDS:
            raise ArchiveBusy("the lifecycle is at work; restore again")
        parts.clock.sleep(_POLL_SECONDS)


def _lower_horizon(entry: Entry, parts: Exporter) -> None:
    """Let the lifecycle's runs begin to look at this period, if they begin later. A run under way may raise it once more."""
    horizon = parts.catalog.horizon(entry.stream)
    if horizon is not None and horizon > entry.period.start:
        parts.catalog.set_horizon(entry.stream, entry.period.start)
