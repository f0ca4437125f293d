"""The use case of archiving: fence, scan, write, read back, compare, mark.

A run may stop anywhere: the next run continues. A table is scanned in segments side by side. Each part is read back and
compared as soon as it is written, and only then noted in its segment's progress. The next run goes on from there, so an
archive may take any number of runs. On a slow table, a run reads only the unused capacity and then ends: a function
that waits costs more than the units.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from tidetable.archive.digest import join_digests
from tidetable.archive.exporter import Exporter, hold_period, open_source
from tidetable.archive.manifest import (
    ExportPlan,
    Manifest,
    Part,
    SegmentProgress,
    make_manifest_key,
    make_plan_key,
    make_prefix,
    make_progress_prefix,
)
from tidetable.archive.pacing import BURST_SECONDS, SMOOTH_SECONDS, Pacer, compute_rate, count_segments
from tidetable.archive.segment import Segment
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import ArchivePolicy
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch
from tidetable.expiry import compute_settling
from tidetable.periods import parse_label
from tidetable.ports import Catalog, Table
from tidetable.remaining import Remaining
from tidetable.times import from_text, to_text

# In these states a table is not archived: its archive exists, it is deleted, or it is being filled from its archive.
_DONE = frozenset({State.ARCHIVED, State.DELETED, State.RESTORING})


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run: ``events`` counts the events that are archived and verified so far.

    ``wait`` is the number of seconds after which another run finds as much unused capacity as one run can use.
    """

    entry: Entry
    events: int
    wait: float = 0.0

    @property
    def done(self) -> bool:
        return self.entry.state is not State.ARCHIVING


def archive_period(stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining) -> Archived:
    """Archive a period's table as far as the time allows; mark the period as archived when the archive is complete.

    ``remaining`` returns the seconds that this run may still take. The run holds a lease for this time, so that no
    second run works on the same period. ArchiveFailed and ArchiveMismatch leave the table as it is.
    """
    entry = require_entry(stream, label, exporter.catalog)
    if entry.state in _DONE:
        return _report_archived(entry)
    _require_active_table(entry, exporter)
    with hold_period(stream, label, exporter, owner, remaining, "archived"):
        # Read again: a run that held the lease until now may have finished the archive, which must not be cleared.
        entry = require_entry(stream, label, exporter.catalog)
        if entry.state in _DONE:
            return _report_archived(entry)
        if entry.state is not State.ARCHIVING:
            _require_writes_over(entry, exporter)
            # The new archive must not continue the files of an earlier archive of this period, and readers must not
            # find both.
            exporter.objects.clear(make_prefix(stream, label))
        # From here on no write can reach the table: this state fences the drain's writes, and the window is long past.
        entry = exporter.catalog.move(entry, State.ARCHIVING, expected=(State.CLOSED, State.ARCHIVING))
        plan, segments, wait = _export_segments(entry, exporter, remaining)
        written = [part for progress in segments for part in progress.parts]
        events = sum(part.events for part in written)
        if not all(progress.done for progress in segments):
            return Archived(entry, events, wait)
        return Archived(_complete_archive(entry, plan, written, exporter), events)


def _report_archived(entry: Entry) -> Archived:
    return Archived(entry, entry.archive.events if entry.archive is not None else 0)


def require_entry(stream: str, label: str, catalog: Catalog) -> Entry:
    """Return the catalog's entry of a period; ArchiveFailed if the catalog has no such entry."""
    entry = read_entry(catalog, stream, parse_label(label))
    if entry is None:
        raise ArchiveFailed(f"the catalog has no period {label} of {stream}")
    return entry


def _require_writes_over(entry: Entry, exporter: Exporter) -> None:
    """Raise ArchiveBusy while a request that began before the table closed may still write into the table.

    Ingest writes without reading the state. If it wrote an event where the scan has already read, the event would be
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


def _require_active_table(entry: Entry, exporter: Exporter) -> Table:
    """Return the table; ArchiveBusy while it changes. Usually its units are being raised, and they decide the plan."""
    table = exporter.tables.describe(entry.table)
    if table is None:
        raise ArchiveFailed(f"table {entry.table} does not exist, so there is nothing to archive")
    if table.status != "ACTIVE":
        raise ArchiveBusy(f"table {entry.table} is {table.status}, perhaps to be made faster; a later run goes on")
    return table


def _export_segments(
    entry: Entry, exporter: Exporter, remaining: Remaining
) -> tuple[ExportPlan, list[SegmentProgress], float]:
    """Export every segment as far as the time and the table's pace allow. Returns the plan, the progress and the wait."""
    table, stream = _require_active_table(entry, exporter), exporter.stream(entry.stream)
    policy, maxima = (stream.archive, stream.capacity.maxima) if stream is not None else (ArchivePolicy(), None)
    rate = compute_rate(table, policy, maxima[1] if maxima is not None else None)
    key = make_plan_key(entry.stream, entry.period.label)
    stored = exporter.objects.find(key)
    if stored is None:
        plan = ExportPlan(segments=count_segments(rate, policy), columns=policy.columns)
        exporter.objects.put(key, msgspec.json.encode(plan))
    else:
        plan = msgspec.json.decode(stored, type=ExportPlan)
    burst = SMOOTH_SECONDS if table.on_demand else BURST_SECONDS
    pacer = Pacer(rate, exporter.clock, burst=burst, free=from_text(plan.free) if plan.free else None)
    source = open_source(entry, exporter)
    segments = [Segment(entry, number, plan, exporter, source, pacer, remaining) for number in range(plan.segments)]
    with exporter.pools(plan.segments) as pool:
        progress = list(pool.map(Segment.run, segments))
    if all(segment.done for segment in progress):
        return plan, progress, 0.0
    # If this run stops before it notes the pace, the next run reads a little too much and is throttled.
    exporter.objects.put(key, msgspec.json.encode(msgspec.structs.replace(plan, free=to_text(pacer.free))))
    return plan, progress, pacer.measure_time_to_full_burst()


def _complete_archive(entry: Entry, plan: ExportPlan, written: list[Part], exporter: Exporter) -> Entry:
    """Check that the prefix holds only the written parts, write the manifest, and mark the period."""
    stream, label = entry.stream, entry.period.label
    sizes = exporter.objects.sizes(make_prefix(stream, label))
    stored = {key: size for key, size in sizes.items() if key.endswith(".parquet")}
    if stored != {part.key: part.size for part in written}:
        # The table is unchanged, so the next run begins anew.
        exporter.objects.clear(make_prefix(stream, label))
        raise ArchiveMismatch(f"{make_prefix(stream, label)} did not hold the {len(written)} parts that were written")
    manifest = Manifest(
        stream=stream,
        period=label,
        table=entry.table,
        layout=entry.layout,
        events=sum(part.events for part in written),
        size=sum(part.size for part in written),
        digest=join_digests(part.digest for part in written),
        columns=plan.columns,
        written_at=to_text(exporter.clock.now()),
        parts=tuple(written),
        packs=sum(part.packs for part in written),
        untyped=dict(sum((Counter(part.untyped) for part in written), Counter[str]())),
    )
    key = make_manifest_key(stream, label)
    exporter.objects.put(key, manifest.encode())
    facts = ArchiveFacts(
        manifest=key,
        events=manifest.events,
        bytes=manifest.size,
        at=exporter.clock.now(),
        untyped=manifest.untyped,
    )
    archived = exporter.catalog.move(entry, State.ARCHIVED, expected=(State.ARCHIVING,), archive=facts)
    exporter.objects.clear(make_progress_prefix(stream, label))
    return archived
