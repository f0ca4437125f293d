"""The turn of a period: begin a round of its archive, or complete it when all segments of the round are done.

One run at a time takes the turn of a period, under the period's lease. Workers read the segments without the lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace

from tidetable.archive.exporter import Exporter, hold_period, read_manifest
from tidetable.archive.manifest import Manifest, Part, make_manifest_key, make_prefix, make_progress_prefix
from tidetable.archive.pacing import compute_rate, count_readers
from tidetable.archive.segments import (
    MOST_SEGMENTS,
    Segment,
    SegmentMemo,
    add_segments,
    find_number,
    list_segments,
    remove_segments,
)
from tidetable.catalog import IN_ARCHIVE, ArchiveFacts, Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import ArchivePolicy
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, StaleEntry
from tidetable.expiry import compute_settling
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import Catalog, Table
from tidetable.remaining import Remaining, limit_time
from tidetable.segmentation import Segmentation
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
    stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining, *, retain: bool = False
) -> tuple[Entry, list[Segment]]:
    """Begin the archive of a period, or its next round, or complete it if all segments are done. Return its entry and the
    segments of the round.

    A period that is to ``retain`` its table takes writes meanwhile, which mark segments. A round archives the marked
    segments again. Without ``retain``, writes are shut out first, and the period is archived when no mark is left.

    ArchiveBusy if another run has the turn. ArchiveMismatch if files are missing: then all segments are begun again.
    """
    limited = limit_time(_TURN_SECONDS, exporter.clock, remaining)
    with hold_period(stream, label, exporter, owner, limited, "archived"):
        # Read again: a run that held the lease until now may have finished the archive, which must not be cleared.
        entry = require_entry(stream, label, exporter.catalog)
        if entry.state in DONE:
            return entry, []
        if entry.state is State.RETAINED and not retain:
            exporter.catalog.move(entry, State.ARCHIVING, expected=(State.RETAINED,))
            # No mark can come any more: this reads the last ones.
            entry = require_entry(stream, label, exporter.catalog)
        found = list_segments(exporter.work, stream, label)
        entry, segments = _begin_round(entry, found, exporter, retain=retain)
        names = {segment.item.name for segment in segments}
        remove_segments(exporter.work, [segment for segment in found if segment.item.name not in names])
        plan = entry.segments
        if plan is not None and not entry.is_retained and all(segment.item.done for segment in segments):
            entry = _complete_round(entry, plan, segments, exporter)
        return entry, segments


def _begin_round(
    entry: Entry, found: Sequence[Segment], exporter: Exporter, *, retain: bool
) -> tuple[Entry, list[Segment]]:
    """Begin a round, or go on with the present one. Return the segments that it reads; none if nothing is left to read."""
    plan, numbers = entry.segments, entry.marks.numbers
    if entry.state not in IN_ARCHIVE or plan is None:
        entry = _begin_archive(entry, found, exporter, retain=retain)
    elif entry.has_all_segments:
        if not numbers:
            return entry, []
        if plan.count in numbers or _find_manifest(entry, exporter) is None:
            entry = _begin_archive(entry, found, exporter, retain=retain)
        else:
            # All writes that these marks are of were done before, so the workers read them. If a write has come since the
            # entry was read, nothing changes, and a later run begins the round.
            again = replace(plan, made=_choose_instant(exporter, plan, found), again=numbers)
            entry = _record_segments(entry, entry.state, again, exporter)
    return entry, _add_missing_segments(entry, found, exporter)


def _add_missing_segments(entry: Entry, found: Sequence[Segment], exporter: Exporter) -> list[Segment]:
    """Add the segments of the round that do not exist: all of them, or those that a run did not add before it was stopped."""
    plan = entry.segments
    segments = [segment for segment in found if plan is not None and segment.made == plan.made]
    if plan is None or len(segments) == len(plan.numbers):
        return segments
    if segments:
        # All are alike.
        memo = segments[0].begin_anew().memo
    else:
        policy, rate = compute_policy(entry, require_active_table(entry, exporter), exporter)
        former = _find_manifest(entry, exporter) if entry.has_whole_archive else None
        # All files of an archive have the same declared columns.
        columns = policy.columns if former is None else former.columns
        memo = SegmentMemo(plan.count, min(count_readers(rate, policy), plan.count), columns, slices=plan.slices)
    return add_segments(exporter.work, entry.stream, entry.period.label, plan.made, memo, plan.numbers)


def _find_manifest(entry: Entry, exporter: Exporter) -> Manifest | None:
    """Read the manifest of the period's archive; None if it is missing or damaged."""
    try:
        return read_manifest(make_manifest_key(entry.stream, entry.period.label), exporter)
    except ArchiveFailed:
        return None


def _begin_archive(entry: Entry, former: Sequence[Segment], exporter: Exporter, *, retain: bool) -> Entry:
    """Begin all segments. Files of a former archive, or of an earlier version, must not be continued."""
    stream, label = entry.stream, entry.period.label
    table = require_active_table(entry, exporter)
    to = entry.state
    if to not in IN_ARCHIVE:
        _require_writes_over(entry, exporter)
        if to is not State.CLOSED:
            raise StaleEntry(stream, label, [State.CLOSED])
        # From here on no write can reach the table, or each marks its segment. The window is long past.
        to = State.RETAINED if retain else State.ARCHIVING
    remove_segments(exporter.work, former)
    # Readers of the bucket must not find the files of two archives of this period.
    exporter.objects.clear(make_prefix(stream, label))
    count = max(1, min(-(-table.size_bytes // exporter.segment_bytes), MOST_SEGMENTS))
    slices = _count_slices(entry, table, count) if table.size_bytes > exporter.at_once_bytes else 0
    made = _choose_instant(exporter, entry.segments, former)
    return _record_segments(entry, to, Segmentation(count, slices, made, made), exporter)


def _choose_instant(exporter: Exporter, plan: Segmentation | None, found: Sequence[Segment]) -> str:
    """Choose the instant in the names of new segments: later than all before, whatever the clock of this machine says."""
    earlier = [int(segment.made) for segment in found] + ([int(plan.made)] if plan is not None else [])
    return f"{max([to_micros(exporter.clock.now()) // 1000, *(instant + 1 for instant in earlier)]):013d}"


def _record_segments(entry: Entry, to: State, plan: Segmentation, exporter: Exporter) -> Entry:
    recorded = exporter.catalog.begin_segments(entry, to, plan)
    if recorded is None:
        raise ArchiveBusy(f"period {entry.period.label} of {entry.stream} has just changed; a later run goes on")
    return recorded


def _count_slices(entry: Entry, table: Table, count: int) -> int:
    """Count the slices of time in which a segment is read; 0 if a scan is better: each slice takes a Query per suffix.

    A slice has the events of a row group. A table that is read at once is sorted at once, in whatever order it is read.
    """
    if not is_read_by_time(entry.layout, entry.period.end - entry.period.start, table.size_bytes):
        return 0
    return max(1, -(-table.item_count // (count * SLICE_ITEMS)))


def is_read_by_time(layout: Layout, length: timedelta, size: float) -> bool:
    """True if the table of a period of this length, of ``size`` bytes, is read by ranges of time, and not scanned."""
    if not layout.is_ordered_by_time:
        return False
    partitions = -(-length // timedelta(seconds=layout.bucket)) * layout.shards
    return size >= PARTITION_BYTES * partitions


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


def _complete_round(entry: Entry, plan: Segmentation, segments: Sequence[Segment], exporter: Exporter) -> Entry:
    """Check that all noted files are there, write the manifest, and record the archive. Files that do not count are removed.

    The period is archived if writes are shut out and no mark is left.
    """
    stream, label, objects, former = entry.stream, entry.period.label, exporter.objects, entry.archive
    prefix, key = make_prefix(stream, label), make_manifest_key(stream, label)
    sizes = {key: size for key, size in objects.sizes(prefix).items() if key.endswith(".parquet")}
    written, kept = _collect_parts(segments, exporter), list[Part]()
    columns = segments[0].memo.columns if segments else {}
    if entry.has_whole_archive:
        # The archive has all segments that were not in this round.
        manifest, numbers = _find_manifest(entry, exporter), {segment.number for segment in segments}
        if manifest is None:
            written = None
        else:
            kept, columns = [part for part in manifest.parts if find_number(part) not in numbers], manifest.columns
    parts = sorted([*kept, *(written or ())], key=find_number)
    if written is None or any(sizes.get(part.key) != part.size for part in parts):
        # The table is unchanged, so all segments are begun again.
        _begin_archive(entry, segments, exporter, retain=entry.state is State.RETAINED)
        raise ArchiveMismatch(f"{prefix} did not hold the {len(parts)} parts that were written")
    now = exporter.clock.now()
    manifest = Manifest.of_parts(
        parts, now, stream=stream, period=label, table=entry.table, layout=entry.layout, columns=columns
    )
    objects.put(key, manifest.encode())
    for left in sorted(sizes.keys() - {part.key for part in parts}):
        # It is of a segment that was archived again, or a worker that was overtaken wrote it.
        objects.clear(left)
    facts = ArchiveFacts(
        manifest=key,
        events=manifest.events,
        bytes=manifest.size,
        at=now,
        untyped=manifest.untyped,
        made=plan.made,
        oldest=(former.oldest or former.at) if former is not None and kept else None,
    )
    ends = entry.state is State.ARCHIVING and not entry.marks.numbers
    to = State.ARCHIVED if ends else entry.state
    recorded = exporter.catalog.move(entry, to, expected=(entry.state,), archive=facts)
    objects.clear(make_progress_prefix(stream, label))
    remove_segments(exporter.work, segments)
    return recorded


def _collect_parts(segments: Sequence[Segment], exporter: Exporter) -> list[Part] | None:
    """Read the noted files of segments; None if a note is missing, or has other files than the segment's record says."""
    with exporter.pools(_READ_AT_ONCE) as pool:
        noted = list(pool.map(lambda segment: segment.read_parts(exporter.objects), segments))
    parts = [part for parts in noted for part in parts or ()]
    events = sum(segment.memo.events for segment in segments)
    return None if None in noted or events != sum(part.events for part in parts) else parts
