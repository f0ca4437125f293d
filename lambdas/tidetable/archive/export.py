"""The use case of archiving: fence, scan, write, read back, compare, mark. Stopped anywhere, it is simply run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from tidetable.archive.digest import Digest
from tidetable.archive.manifest import Manifest, Part, StoredLayout, manifest_key, part_key, prefix_of
from tidetable.archive.ports import Format, Objects, Source
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableMissing
from tidetable.events import Event, Item
from tidetable.leases import leased
from tidetable.periods import from_label
from tidetable.ports import Catalog, Clock
from tidetable.times import to_text


@dataclass(slots=True)
class Exporter:
    """What archiving needs. ``part_events`` bounds a part, and with it the memory that is used."""

    catalog: Catalog
    source: Source
    objects: Objects
    format: Format
    clock: Clock
    part_events: int = 200_000


def archive_period(stream: str, label: str, parts: Exporter, owner: str, length: timedelta) -> Entry:
    """Archive a period's table and mark the catalog; ArchiveFailed or ArchiveMismatch leave the table as it is.

    ``length`` is how long this run may take: so long it holds the lease that keeps a second run away.
    """
    entry = find_entry(stream, label, parts.catalog)
    if entry.state in (State.ARCHIVED, State.DELETED, State.RESTORING):
        return entry
    with leased(parts.catalog, f"archive#{stream}#{label}", owner, parts.clock.now(), length) as held:
        if not held:
            raise ArchiveBusy(f"period {label} of {stream} is being archived by another run")
        # From here on no write can land: the drain's are fenced by this very state, and the window is long past.
        entry = parts.catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
        manifest = _export(entry, parts)
        _verify(manifest, parts)
        key = manifest_key(stream, label)
        parts.objects.put(key, manifest.encode())
        facts = ArchiveFacts(manifest=key, events=manifest.events, bytes=manifest.size)
        return parts.catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)


def find_entry(stream: str, label: str, catalog: Catalog) -> Entry:
    """The catalog's entry of a period; ArchiveFailed if there is none."""
    start = from_label(label).start
    for entry in catalog.entries(stream, start, start, consistent=True):
        if entry.period.label == label:
            return entry
    raise ArchiveFailed(f"the catalog has no period {label} of {stream}")


def _export(entry: Entry, parts: Exporter) -> Manifest:
    """Write the parts. What an interrupted run left is removed first: it would be a second copy to whoever reads *.parquet."""
    stream, label = entry.stream, entry.period.label
    parts.objects.clear(prefix_of(stream, label))
    digest = Digest()
    written: list[Part] = []
    try:
        for events in _chunks(parts.source.scan(entry.table), entry, parts.part_events):
            for event in events:
                digest.add(event)
            written.append(_write(entry, len(written), events, parts))
    except TableMissing as error:
        raise ArchiveFailed(f"table {entry.table} does not exist, so there is nothing to archive") from error
    return Manifest(
        stream=stream,
        period=label,
        table=entry.table,
        layout=StoredLayout.of(entry.layout),
        events=digest.count,
        size=sum(part.size for part in written),
        digest=digest.hex(),
        written_at=to_text(parts.clock.now()),
        parts=tuple(written),
    )


def _write(entry: Entry, number: int, events: list[Event], parts: Exporter) -> Part:
    body = parts.format.encode(events)
    key = part_key(entry.stream, entry.period.label, number)
    parts.objects.put(key, body)
    first, last = (entry.layout.sort_key(one.time, one.series, one.id) for one in (events[0], events[-1]))
    return Part(key=key, events=len(events), size=len(body), sha256=sha256(body).hexdigest(), first=first, last=last)


def _verify(manifest: Manifest, parts: Exporter) -> None:
    """Fetch every part anew and compare bytes, count and content with what was scanned."""
    digest = Digest()
    for part in manifest.parts:
        body = parts.objects.get(part.key)
        if sha256(body).hexdigest() != part.sha256:
            raise ArchiveMismatch(f"{part.key} is not what was written")
        for event in parts.format.decode(body):
            digest.add(event)
    if (digest.count, digest.hex()) != (manifest.events, manifest.digest):
        raise ArchiveMismatch(
            f"{digest.count} events read back, {manifest.events} scanned, and their digests differ"
            if digest.count == manifest.events
            else f"{digest.count} events read back but {manifest.events} scanned"
        )


def _chunks(items: Iterable[Item], entry: Entry, size: int) -> Iterator[list[Event]]:
    held: list[tuple[str, Event]] = []
    for item in items:
        held.append((item["sk"], _event(item, entry)))
        if len(held) == size:
            yield [event for _, event in sorted(held, key=lambda one: one[0])]
            held = []
    if held:
        yield [event for _, event in sorted(held, key=lambda one: one[0])]


def _event(item: Item, entry: Entry) -> Event:
    """The item's event; an item that no event would give must not be lost by being written as another."""
    try:
        event = entry.layout.event_of(item)
        same = entry.layout.item_of(event) == item
    except (KeyError, ValueError) as error:
        raise ArchiveFailed(f"{entry.table} holds an item that is no event: {item.get('pk')!r}") from error
    if not same:
        raise ArchiveFailed(f"{entry.table} holds an item that is no event: {item['pk']!r}, {item['sk']!r}")
    return event
