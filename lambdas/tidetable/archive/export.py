"""The use case of archiving: fence, scan, write, read back, compare, mark. Stopped anywhere, it is simply run again.

A table is scanned in segments side by side. Each part is read back and compared as soon as it is written, and only then
noted in its segment's progress, so that a run goes on where the one before it ended, however long the whole takes. Of a slow
table a run reads what was left unused for it, and ends: the function's time costs more than what it would wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import msgspec

from tidetable.archive.facts import joined
from tidetable.archive.manifest import (
    Manifest,
    Part,
    Plan,
    Progress,
    StoredLayout,
    manifest_key,
    part_key,
    plan_key,
    prefix_of,
    progress_key,
    progress_prefix,
)
from tidetable.archive.pacing import BURST_SECONDS, SMOOTH_SECONDS, Pacer, rate_of, segments_of
from tidetable.archive.ports import Completer, Format, Objects, PartWriter, RawPage, Source
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import ArchivePolicy, Config, Stream
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableMissing, TableThrottled
from tidetable.leases import leased
from tidetable.lifecycle.expiry import settled_at
from tidetable.lifecycle.known import recorded_policy
from tidetable.periods import from_label
from tidetable.ports import Catalog, Clock, Pools, Table, Tables
from tidetable.times import from_text, to_text

# With less time left than this no page is fetched: the open part must still be written, read back and noted.
_PART_SECONDS = 30.0
_LONGEST_PAUSE = 4.0
# Nothing is left to archive: there is an archive, the table is gone, or it is being filled from its archive.
_DONE = frozenset({State.ARCHIVED, State.DELETED, State.RESTORING})


@dataclass(slots=True)
class Exporter:
    """What archiving needs. ``part_bytes``, of scanned pages, bounds a part and with it the memory of a segment."""

    config: Config
    catalog: Catalog
    tables: Tables
    source: Source
    objects: Objects
    format: Format
    clock: Clock
    completer: Completer
    pools: Pools
    part_bytes: int = 32_000_000

    def policy(self, stream: str) -> ArchivePolicy:
        """The stream's policy; for a stream that is no longer configured, what the catalog recorded of it, or the default."""
        found = self.stream(stream)
        return found.archive if found is not None else ArchivePolicy()

    def most(self, stream: str) -> int | None:
        """The read units that the stream's tables may take at the most on demand, if there is such a limit."""
        found = self.stream(stream)
        return found.capacity.most.read if found is not None and found.capacity.most is not None else None

    def late(self, stream: str) -> timedelta:
        """How long after a period's end its events are taken; nothing for a stream of which no policy is recorded."""
        found = self.stream(stream)
        return found.late if found is not None else timedelta()

    def stream(self, name: str) -> Stream | None:
        """The stream's configuration or, if it was removed, the last that the catalog recorded."""
        return self.config.streams.get(name) or recorded_policy(name, self.catalog)


@dataclass(frozen=True, slots=True)
class Archived:
    """What a run of archiving came to; ``events`` are those that are archived and verified so far.

    ``wait`` is after how many seconds another run finds as much to read as one run can.
    """

    entry: Entry
    events: int
    wait: float = 0.0

    @property
    def done(self) -> bool:
        return self.entry.state is not State.ARCHIVING


def archive_period(stream: str, label: str, parts: Exporter, owner: str, remaining: Callable[[], float]) -> Archived:
    """Archive a period's table as far as the time goes, and mark the catalog once it is whole.

    ``remaining`` tells the seconds that this run may take; so long it holds the lease that keeps a second run away.
    ArchiveFailed or ArchiveMismatch leave the table as it is.
    """
    entry = find_entry(stream, label, parts.catalog)
    if entry.state in _DONE:
        return _archived(entry)
    _settled(entry, parts)
    length = timedelta(seconds=remaining())
    with leased(parts.catalog, f"archive#{stream}#{label}", owner, parts.clock.now(), length) as held:
        if not held:
            raise ArchiveBusy(f"period {label} of {stream} is being archived by another run")
        # Read again: a run that held the lease until now may have finished the archive, which must not be cleared.
        entry = find_entry(stream, label, parts.catalog)
        if entry.state in _DONE:
            return _archived(entry)
        if entry.state is not State.ARCHIVING:
            _await_writes(entry, parts)
            # What an earlier archive of this period left must neither be gone on with nor be read beside the new one.
            parts.objects.clear(prefix_of(stream, label))
        # From here on no write can land: the drain's are fenced by this very state, and the window is long past.
        entry = parts.catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
        plan, found, wait = _export(entry, parts, remaining)
        written = [part for progress in found for part in progress.parts]
        events = sum(part.events for part in written)
        if not all(progress.done for progress in found):
            return Archived(entry, events, wait)
        return Archived(_finish(entry, plan, written, parts), events)


def _archived(entry: Entry) -> Archived:
    return Archived(entry, entry.archive.events if entry.archive is not None else 0)


def find_entry(stream: str, label: str, catalog: Catalog) -> Entry:
    """The catalog's entry of a period; ArchiveFailed if there is none."""
    start = from_label(label).start
    for entry in catalog.entries(stream, start, start, consistent=True):
        if entry.period.label == label:
            return entry
    raise ArchiveFailed(f"the catalog has no period {label} of {stream}")


def _await_writes(entry: Entry, parts: Exporter) -> None:
    """ArchiveBusy as long as a request that began before the table closed may still write into it.

    Ingest writes without looking at the state: what landed behind the scan would be acknowledged, and in no archive.
    """
    late, now = parts.late(entry.stream), parts.clock.now()
    if now <= entry.period.end + late:
        # Closed before its time: only a local stage's lifecycle does that, when it is run as at a later time.
        return
    settled = settled_at(entry, late)
    if now <= settled:
        raise ArchiveBusy(
            f"period {entry.period.label} of {entry.stream} has just closed: writes that began before may still land"
            f"; archive it after {to_text(settled)}"
        )


def _settled(entry: Entry, parts: Exporter) -> Table:
    """The table; ArchiveBusy while it changes, as it mostly becomes faster, and everything is planned by how fast it is."""
    table = parts.tables.describe(entry.table)
    if table is None:
        raise ArchiveFailed(f"table {entry.table} does not exist, so there is nothing to archive")
    if table.status != "ACTIVE":
        raise ArchiveBusy(f"table {entry.table} is {table.status}, perhaps to be made faster; a later run goes on")
    return table


def _export(entry: Entry, parts: Exporter, remaining: Callable[[], float]) -> tuple[Plan, list[Progress], float]:
    """Bring every segment as far as the time and the table's pace go."""
    table, policy = _settled(entry, parts), parts.policy(entry.stream)
    rate = rate_of(table, policy, parts.most(entry.stream))
    key = plan_key(entry.stream, entry.period.label)
    found = parts.objects.find(key)
    if found is None:
        plan = Plan(segments=segments_of(rate, policy), columns=policy.columns)
        parts.objects.put(key, msgspec.json.encode(plan))
    else:
        plan = msgspec.json.decode(found, type=Plan)
    burst = SMOOTH_SECONDS if table.on_demand else BURST_SECONDS
    pacer = Pacer(rate, parts.clock, burst=burst, free=from_text(plan.free) if plan.free else None)
    source = source_of(entry, parts)
    segments = [Segment(entry, number, plan, parts, source, pacer, remaining) for number in range(plan.segments)]
    with parts.pools(plan.segments) as pool:
        progress = list(pool.map(Segment.run, segments))
    if all(one.done for one in progress):
        return plan, progress, 0.0
    # If this run ends before it is noted, the next one reads a little too much and is throttled.
    parts.objects.put(key, msgspec.json.encode(msgspec.structs.replace(plan, free=to_text(pacer.free))))
    return plan, progress, pacer.rested()


def source_of(entry: Entry, parts: Exporter) -> Source:
    """The table that is archived: by its items or, if it has packs, by the events in them."""
    return parts.source if entry.layout.pack is None else parts.source.settled(entry.layout)


@dataclass(slots=True)
class Segment:
    """One segment of a table's scan."""

    entry: Entry
    number: int
    plan: Plan
    parts: Exporter
    source: Source
    pacer: Pacer
    remaining: Callable[[], float]
    packs: int = 0

    def run(self) -> Progress:
        """Write parts until the segment is at its end or the time is up."""
        key = progress_key(self.entry.stream, self.entry.period.label, self.number)
        noted = self.parts.objects.find(key)
        progress = msgspec.json.decode(noted, type=Progress) if noted is not None else Progress()
        while not progress.done:
            writer, self.packs = self.parts.format.writer(self.entry.layout, self.plan.columns), 0
            after, ended = self._fill(writer, progress.after)
            if not writer.facts.items and not ended:
                break
            written = (
                (*progress.parts, self._write(writer, len(progress.parts))) if writer.facts.items else progress.parts
            )
            progress = Progress(parts=written, after=after, done=ended)
            self.parts.objects.put(key, msgspec.json.encode(progress))
        return progress

    def _fill(self, writer: PartWriter, after: Mapping[str, object] | None) -> tuple[Mapping[str, object] | None, bool]:
        """Read pages into a part; tells where to go on, and whether that is the end."""
        while writer.size < self.parts.part_bytes:
            page = self._page(after)
            if page is None:
                return after, False
            writer.add(self.parts.completer.whole(page.items, self.entry.table))
            self.packs += page.packs
            after = page.after
            if after is None:
                return None, True
        return after, False

    def _page(self, after: Mapping[str, object] | None) -> RawPage | None:
        """The next page at its turn; None if the time does not suffice, or the wait is left to a later run."""
        backoff = 1.0
        pause = self.pacer.pause()
        while True:
            if pause is None or self.remaining() - pause < _PART_SECONDS:
                return None
            self.parts.clock.sleep(pause)
            try:
                page = self.source.page(
                    self.entry.table,
                    segment=self.number,
                    segments=self.plan.segments,
                    after=after,
                    limit=self.pacer.limit(),
                )
            except TableThrottled:
                # A table that refuses so often has nothing left for this run; others read it, or it has no burst.
                pause = backoff if backoff <= _LONGEST_PAUSE else None
                backoff *= 2
                continue
            except TableMissing as error:
                raise ArchiveFailed(f"table {self.entry.table} went away while it was archived") from error
            self.pacer.spent(page.units, page.count)
            return page

    def _write(self, writer: PartWriter, number: int) -> Part:
        """Write a part, fetch it anew, and compare bytes, counts by partition and content with what was scanned."""
        objects, facts = self.parts.objects, writer.facts
        body = writer.finish()
        key = part_key(self.entry.stream, self.entry.period.label, self.number, number)
        objects.put(key, body)
        found = objects.get(key)
        if found != body:
            raise ArchiveMismatch(f"{key} is not what was written")
        held = self.parts.format.facts(found, self.entry.layout)
        if held.same != facts.same:
            raise ArchiveMismatch(
                f"{held.items} events read back, {facts.items} scanned, and their digests differ"
                if held.items == facts.items
                else f"{held.items} events read back but {facts.items} scanned"
            )
        return Part(
            key=key,
            events=facts.items,
            size=len(body),
            sha256=sha256(body).hexdigest(),
            digest=facts.hex,
            partitions=len(facts.partitions),
            first=facts.first,
            last=facts.last,
            packs=self.packs,
        )


def _finish(entry: Entry, plan: Plan, written: list[Part], parts: Exporter) -> Entry:
    """The manifest, once every part is seen to be there and nothing else is; then the mark."""
    stream, label = entry.stream, entry.period.label
    sizes = parts.objects.sizes(prefix_of(stream, label))
    held = {key: size for key, size in sizes.items() if key.endswith(".parquet")}
    if held != {part.key: part.size for part in written}:
        # The table is untouched, so the next run begins anew.
        parts.objects.clear(prefix_of(stream, label))
        raise ArchiveMismatch(f"{prefix_of(stream, label)} did not hold the {len(written)} parts that were written")
    manifest = Manifest(
        stream=stream,
        period=label,
        table=entry.table,
        layout=StoredLayout.of(entry.layout),
        events=sum(part.events for part in written),
        size=sum(part.size for part in written),
        digest=joined(part.digest for part in written),
        columns=plan.columns,
        written_at=to_text(parts.clock.now()),
        parts=tuple(written),
        packs=sum(part.packs for part in written),
    )
    key = manifest_key(stream, label)
    parts.objects.put(key, manifest.encode())
    facts = ArchiveFacts(manifest=key, events=manifest.events, bytes=manifest.size, at=parts.clock.now())
    archived = parts.catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)
    parts.objects.clear(progress_prefix(stream, label))
    return archived
