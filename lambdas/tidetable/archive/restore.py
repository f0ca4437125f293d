"""The use case of restoring: an archived period becomes a table again.

Before queries use the table, it is compared with the manifest. During a restore, queries read the period from its
archive. Every step may be repeated: an event overwrites itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from tidetable.archive.digest import join_digests
from tidetable.archive.exporter import Exporter, hold_period, open_source, read_manifest, read_object
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.ports import ArchivedRows
from tidetable.archive.turn import require_entry
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import LIVE, Entry, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import (
    ArchiveBusy,
    ArchiveFailed,
    ArchiveMismatch,
    NotOurs,
    NotReady,
    TableRefused,
    TableThrottled,
    TableUnusable,
)
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.ingest.series_index import SeriesIndex
from tidetable.ladder import choose_level
from tidetable.large.outside import write_outside
from tidetable.large.shrink import LargeValueServices, Shrinker
from tidetable.leases import LIFECYCLE_LEASE, wait_for_lease
from tidetable.period_tables import PeriodTables, make_table_tags
from tidetable.ports import EventStore, Put, TableSpec
from tidetable.remaining import Remaining
from tidetable.table_specs import make_filling_spec
from tidetable.times import to_text

_POLL_SECONDS = 1.0
# A part, or a page of the comparison, is begun only with this much time left.
_PART_SECONDS = 60.0


@dataclass(slots=True)
class Restorer:
    """The ports that restoring needs in addition to the ports of archiving."""

    stage: str
    archive: Exporter
    store: EventStore
    jitter: Jitter
    large: LargeValueServices
    # None if no stream has rollups.
    notes: SeriesIndex | None = None


class RestorePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position of a restore: in a part or, after all parts are written, in the comparison of table and manifest.

    In a part, ``items`` counts its events that are written. In the comparison, ``after`` is the key after which it goes
    on; ``items`` and ``digest`` describe the items before it.
    """

    part: int = 0
    after: Mapping[str, Any] | None = None
    items: int = 0
    digest: str = "0"


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a run: the number of the archive's parts, and where the next run begins (None: all is done)."""

    entry: Entry
    parts: int
    next: RestorePosition | None


def restore_period(
    stream: str,
    label: str,
    restorer: Restorer,
    owner: str,
    *,
    keep: timedelta,
    start: RestorePosition = RestorePosition(),  # noqa: B008 - frozen
    remaining: Remaining,
) -> Restored:
    """Write a period's archive into a table, as far as the time allows, and open it to queries when it is complete.

    The table is kept for ``keep`` after the last step; then it is archived and deleted like any other table.
    ArchiveFailed says why a period cannot be restored. ArchiveMismatch says that the table differs from the manifest.
    """
    exporter = restorer.archive
    entry = mark_expired(require_entry(stream, label, exporter.catalog), exporter.config, exporter.clock.now())
    if entry.state in LIVE:
        raise ArchiveFailed(f"period {label} of {stream} is {entry.state}: it has its table")
    if entry.archive is None:
        raise ArchiveFailed(f"period {label} of {stream} was deleted without an archive")
    if entry.archive.expired_at is not None:
        raise ArchiveFailed(f"the archive of period {label} of {stream} expired at {to_text(entry.archive.expired_at)}")
    with hold_period(stream, label, exporter, owner, remaining, "archived or restored"):
        manifest = read_manifest(entry.archive.manifest, exporter)
        restorable = (State.ARCHIVED, State.DELETED, State.RESTORING)
        # From this step on, every run of the lifecycle sees and counts the table, even if the restore never finishes.
        entry = exporter.catalog.move(entry, State.RESTORING, expected=restorable)
        run = _Run(entry, restorer, exporter, remaining)
        run.create_tables()
        unfinished = run.write_parts(manifest, start)
        if unfinished is None:
            run.enable_recovery()
            entry = run.open_to_queries(owner, exporter.clock.now() + keep)
        return Restored(entry, len(manifest.parts), unfinished)


@dataclass(slots=True)
class _Run:
    """A run that restores a period: the period's entry, the ports, and the time that is left."""

    entry: Entry
    restorer: Restorer
    exporter: Exporter
    remaining: Remaining

    def create_tables(self) -> None:
        """Create the period's tables with the settings of its stream, but on demand while the restore fills them."""
        entry, tables = self.entry, self._tables()
        spec = self._make_spec(make_table_tags(self.restorer.stage, entry.stream, entry.period.label))
        try:
            tables.create(entry, spec)
        except NotReady as error:
            raise ArchiveBusy(f"{error}; restore again") from error
        except (NotOurs, TableUnusable) as error:
            raise ArchiveFailed(str(error)) from error

    def write_parts(self, manifest: Manifest, start: RestorePosition) -> RestorePosition | None:
        """Write the parts and compare the table with the manifest. Return None, or the position for the next run."""
        position = start
        while position.part < len(manifest.parts):
            if self.remaining() < _PART_SECONDS:
                return position
            part = manifest.parts[position.part]
            reached = self.write_part(part, position)
            if reached == start:
                raise ArchiveBusy(f"some events of {part.key} could not be written in time; restore again")
            if reached.part == position.part:
                return reached
            position = reached
        return self.compare_table(manifest, position)

    def write_part(self, part: Part, start: RestorePosition) -> RestorePosition:
        """Write a part's events into the table, from a position in it.

        Return the beginning of the next part, or a position in this part if the time was too short.
        """
        entry, large = self.entry, self.restorer.large
        body = read_object(part.key, self.exporter)
        if sha256(body).hexdigest() != part.sha256:
            raise ArchiveMismatch(f"{part.key} differs from the bytes that were written")
        writer = Writer(self.restorer.store, large.values, self.remaining, self.exporter.clock, self.restorer.jitter)
        count, together = start.items, choose_form(entry.layout).together
        for rows in self.exporter.format.rows(body, entry.layout, start.items):
            whole = range(len(rows.batch.times))
            for numbers in (whole[first : first + together] for first in whole[::together]):
                self.note_series({rows.batch.series[number] for number in numbers})
                ready, written = write_outside(writer, self.make_puts(rows, numbers))
                written.add(writer.retry_writes(self.restorer.store.write, ready))
                for reason in written.refused.values():
                    raise ArchiveFailed(f"DynamoDB refuses an event of {part.key}: {reason}")
                if written.unwritten:
                    return RestorePosition(start.part, items=count)
                count += len(numbers)
        return RestorePosition(start.part + 1)

    def make_puts(self, rows: ArchivedRows, numbers: Sequence[int]) -> list[Put]:
        """Make the puts of rows: those of usual events in the form of the period, all others as their items were.

        The same rows always give the same puts.
        """
        entry, large = self.entry, self.restorer.large
        shrinker = Shrinker(None, "refuse", (), large.compressor, large.unique)

        def restore(item: Item) -> Put:
            return shrinker.shrink_archived_item(item, entry)

        usual = [number for number in numbers if number not in rows.items]
        made = choose_form(entry.layout).make_puts(rows.batch, usual, entry.table, large.compressor, restore)
        return made.puts + [restore(rows.items[number]) for number in numbers if number in rows.items]

    def note_series(self, series: Set[str]) -> None:
        """If rollups read the period by its series, note the series of rows before the rows are written.

        ArchiveBusy if that fails.
        """
        entry, notes = self.entry, self.restorer.notes
        stream = self.exporter.config.streams.get(entry.stream)
        if notes is None or stream is None or not stream.rollup or entry.layout.partition_by != "series":
            return
        if not notes.note([(entry, series)], self.exporter.clock.now()):
            raise ArchiveBusy(f"series of {entry.stream} could not be noted for its rollups; restore again")

    def compare_table(self, manifest: Manifest, start: RestorePosition) -> RestorePosition | None:
        """Compare the table with the manifest by a scan.

        Return None, or the position for the next run if the time is up.
        """
        table, after, items, digest = self.entry.table, start.after, start.items, start.digest
        source = open_source(self.entry, self.exporter)
        while True:
            if self.remaining() < _PART_SECONDS:
                return RestorePosition(len(manifest.parts), after, items, digest)
            try:
                page = source.page(table, segment=0, segments=1, after=after, limit=None)
                whole = self.exporter.complete(page.items, table)
            except TableThrottled:
                # The table, or its table of chunks. The page is read again.
                self.exporter.clock.sleep(_POLL_SECONDS)
                continue
            facts = self.exporter.format.page_facts(whole)
            items, digest = items + facts.items, join_digests((digest, facts.hex))
            after = page.after
            if after is None:
                break
        if (items, digest) != (manifest.events, manifest.digest):
            expected = f"its manifest {manifest.events} events, or other events"
            raise ArchiveMismatch(f"{table} holds {items} events, {expected}")
        return None

    def enable_recovery(self) -> None:
        """Enable point-in-time recovery of the complete table if the stream's tables have it."""
        stream = self.exporter.stream(self.entry.stream)
        if stream is None or not stream.table.point_in_time_recovery:
            return
        for name in self.entry.tables:
            try:
                self._tables().make_recoverable(name)
            except TableRefused as error:
                if not error.transient:
                    raise ArchiveFailed(f"point-in-time recovery of {name} is refused: {error}") from error
                raise ArchiveBusy(f"table {name} is complete, but {error}; restore again") from error

    def open_to_queries(self, owner: str, keep_until: datetime) -> Entry:
        """Give the period back to the lifecycle, between two runs: a run that has begun would not see the period."""
        entry, exporter = self.entry, self.exporter
        wait = wait_for_lease(
            exporter.catalog, LIFECYCLE_LEASE, owner, exporter.clock, self.remaining, _POLL_SECONDS, least=_POLL_SECONDS
        )
        with wait as is_owner:
            if not is_owner:
                raise ArchiveBusy("a run of the lifecycle is under way; restore again")
            # A run of the lifecycle that read the state before this restore began may have deleted the table.
            table = exporter.tables.describe(entry.table)
            if table is None or table.status == "DELETING":
                raise ArchiveBusy(f"table {entry.table} was deleted meanwhile; restore again")
            # The catalog's last observation describes the table before it was deleted.
            exporter.catalog.note(entry, SeenTable(None, None, self._make_spec({}).table_class))
            return exporter.catalog.move(entry, State.CLOSED, expected=(State.RESTORING,), keep_until=keep_until)

    def _tables(self) -> PeriodTables:
        return PeriodTables(self.restorer.stage, self.exporter.tables, self.exporter.clock, self.remaining)

    def _make_spec(self, tags: Mapping[str, str]) -> TableSpec:
        """Make the specification of the period's table. If its stream has no recorded policy, the layout decides it."""
        entry, stream = self.entry, self.exporter.stream(self.entry.stream)
        if stream is None:
            return TableSpec(entry.table, None, None, TableClass.STANDARD, tags, entry.layout.indexes)
        return make_filling_spec(entry, stream, choose_level(entry, stream, self.exporter.clock.now()), tags)
