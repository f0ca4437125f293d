"""The turn of a period: begin its archive, or complete it when all of its segments are done.

One run at a time takes the turn of a period, under the period's lease. Workers read the segments without the lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tidetable.archive.exporter import Exporter, hold_period
from tidetable.archive.manifest import Manifest, make_manifest_key, make_prefix, make_progress_prefix
from tidetable.archive.pacing import compute_rate, count_readers
from tidetable.archive.segments import (
    MOST_SEGMENTS,
    Segment,
    SegmentMemo,
    add_segments,
    list_segments,
    remove_segments,
)
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import ArchivePolicy
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch
from tidetable.expiry import compute_settling
from tidetable.periods import parse_label
from tidetable.ports import Catalog, Table
from tidetable.remaining import Remaining, limit_time
from tidetable.times import to_micros, to_text

# In these states a table is not archived: its archive exists, it is deleted, or it is being filled from its archive.
DONE = frozenset({State.ARCHIVED, State.DELETED, State.RESTORING})
# A thousand segments are added or completed in some ten seconds.
_TURN_SECONDS = 120.0
# Partitions with so many bytes are read by a Query each. It costs half a unit more than a scan, at most, and a request.
PARTITION_BYTES = 65_536
# The events of a row group (``aws/archive/part_file.py``).
SLICE_ITEMS = 200_000
# So many notes of segments are read at once.
_READ_AT_ONCE = 16


def require_entry(stream: str, label: str, catalog: Catalog) -> Entry:
    """Return the catalog's entry of a period; ArchiveFailed if the catalog has no such entry."""
    entry = read_entry(catalog, stream, parse_label(label))
    if entry is None:
        raise ArchiveFailed(f"the catalog has no period {label} of {stream}")
    return entry


def require_active_table(entry: Entry, exporter: Exporter) -> Table:
    """Return the table; ArchiveBusy while it changes. Usually its units are being raised, and they decide the plan."""
    table = exporter.tables.describe(entry.table)
    if table is None:
        raise ArchiveFailed(f"table {entry.table} does not exist, so there is nothing to archive")
    if table.status != "ACTIVE":
        raise ArchiveBusy(f"table {entry.table} is {table.status}, perhaps to be made faster; a later run goes on")
    return table


def compute_policy(entry: Entry, table: Table, exporter: Exporter) -> tuple[ArchivePolicy, float]:
    """Return the policy of an export, and the read units per second that it may take."""
    stream = exporter.stream(entry.stream)
    policy, maxima = (stream.archive, stream.capacity.maxima) if stream is not None else (ArchivePolicy(), None)
    return policy, compute_rate(table, policy, maxima[1] if maxima is not None else None)


def take_turn(
    stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining
) -> tuple[Entry, list[Segment]]:
    """Begin the archive of a period, or complete it if all segments are done. Return its entry and its segments.

    ArchiveBusy if another run has the turn. ArchiveMismatch if files are missing: then the next turn begins anew.
    """
    limited = limit_time(_TURN_SECONDS, exporter.clock, remaining)
    with hold_period(stream, label, exporter, owner, limited, "archived"):
        # Read again: a run that held the lease until now may have finished the archive, which must not be cleared.
        entry = require_entry(stream, label, exporter.catalog)
        if entry.state in DONE:
            return entry, []
        segments = list_segments(exporter.work, stream, label)
        begun = entry.state is State.ARCHIVING and segments and not segments[0].number
        if not begun:
            entry, segments = _begin_archive(entry, segments, exporter)
        elif len(segments) < segments[0].memo.count:
            # The run that began the archive was stopped. All segments are alike, so the first one says what is missing.
            first = segments[0].begin_anew()
            segments = add_segments(exporter.work, stream, label, first.made, first.memo)
        if all(segment.item.done for segment in segments):
            entry = _complete_archive(entry, segments, exporter)
        return entry, segments


def _begin_archive(entry: Entry, former: Sequence[Segment], exporter: Exporter) -> tuple[Entry, list[Segment]]:
    """Shut out writes, and add the segments. Files of a former archive, or of an earlier version, must not be continued."""
    stream, label, now = entry.stream, entry.period.label, exporter.clock.now()
    table = require_active_table(entry, exporter)
    if entry.state is not State.ARCHIVING:
        _require_writes_over(entry, exporter)
    remove_segments(exporter.work, former)
    # Readers of the bucket must not find the files of two archives of this period.
    exporter.objects.clear(make_prefix(stream, label))
    # From here on no write can reach the table: this state fences the drain's writes, and the window is long past.
    entry = exporter.catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
    policy, rate = compute_policy(entry, table, exporter)
    count = max(1, min(-(-table.size_bytes // exporter.segment_bytes), MOST_SEGMENTS))
    slices = _count_slices(entry, table, count) if table.size_bytes > exporter.at_once_bytes else 0
    memo = SegmentMemo(count, min(count_readers(rate, policy), count), policy.columns, slices=slices)
    made = f"{to_micros(now) // 1000:013d}"
    return entry, add_segments(exporter.work, stream, label, made, memo)


def _count_slices(entry: Entry, table: Table, count: int) -> int:
    """Count the slices of time in which a segment is read; 0 if a scan is better: each slice takes a Query per suffix.

    A slice has the events of a row group. A table that is read at once is sorted at once, in whatever order it is read.
    """
    layout, period = entry.layout, entry.period
    if not layout.is_ordered_by_time:
        return 0
    partitions = len(layout.list_buckets(period.start, period.end)) * layout.shards
    if table.size_bytes < PARTITION_BYTES * partitions:
        return 0
    return max(1, -(-table.item_count // (count * SLICE_ITEMS)))


def _require_writes_over(entry: Entry, exporter: Exporter) -> None:
    """Raise ArchiveBusy while a request that began before the table closed may still write into the table.

    Ingest writes without reading the state. If it wrote an event where a worker has already read, the event would be
    acknowledged, but not archived.
    """
    stream, now = exporter.stream(entry.stream), exporter.clock.now()
    late = stream.late if stream is not None else timedelta()
    if exporter.time_travel and now <= entry.period.end + late:
        return
    settled = compute_settling(entry, late)
    if now <= settled:
        raise ArchiveBusy(
            f"period {entry.period.label} of {entry.stream} has just closed: writes that began before may still land"
            f"; archive it after {to_text(settled)}"
        )


def _complete_archive(entry: Entry, segments: Sequence[Segment], exporter: Exporter) -> Entry:
    """Check that all noted files are there, write the manifest, and mark the period. Files that do not count are removed."""
    stream, label, objects = entry.stream, entry.period.label, exporter.objects
    prefix = make_prefix(stream, label)
    with exporter.pools(_READ_AT_ONCE) as pool:
        noted = list(pool.map(lambda segment: segment.read_parts(objects), segments))
    written = [part for parts in noted for part in parts or ()]
    sizes = {key: size for key, size in objects.sizes(prefix).items() if key.endswith(".parquet")}
    events = sum(segment.memo.events for segment in segments)
    lost = None in noted or any(sizes.get(part.key) != part.size for part in written)
    if lost or events != sum(part.events for part in written):
        # The table is unchanged, so the next turn begins anew.
        objects.clear(prefix)
        remove_segments(exporter.work, segments)
        raise ArchiveMismatch(f"{prefix} did not hold the {len(written)} parts that were written")
    for key in sorted(sizes.keys() - {part.key for part in written}):
        # A worker that was overtaken wrote it.
        objects.clear(key)
    manifest = Manifest.of_parts(
        written, exporter.clock.now(), stream=stream, period=label, table=entry.table, layout=entry.layout,
        columns=segments[0].memo.columns,
    )  # fmt: skip
    key = make_manifest_key(stream, label)
    objects.put(key, manifest.encode())
    facts = ArchiveFacts(
        manifest=key,
        events=manifest.events,
        bytes=manifest.size,
        at=exporter.clock.now(),
        untyped=manifest.untyped,
    )
    archived = exporter.catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)
    objects.clear(make_progress_prefix(stream, label))
    remove_segments(exporter.work, segments)
    return archived
