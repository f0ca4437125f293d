"""Write one segment of a table's scan as Parquet parts. Each part is read back and compared before it is noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from tidetable.archive.exporter import Exporter
from tidetable.archive.manifest import ExportPlan, Part, SegmentProgress, make_part_key, make_progress_key
from tidetable.archive.pacing import Pacer
from tidetable.archive.ports import PartWriter, RawPage, Source
from tidetable.archive.verified import write_verified_part
from tidetable.catalog import Entry
from tidetable.errors import ArchiveFailed, TableMissing, TableThrottled
from tidetable.remaining import Remaining

# If less time than this is left, no page is fetched: the open part must still be written, read back and noted.
_PART_SECONDS = 30.0
_LONGEST_PAUSE = 4.0
# A record of the progress is written anew for each part, so it has only this many parts. Then another record begins.
_PARTS_OF_RECORD = 64


@dataclass(slots=True)
class Segment:
    """One segment of a table's scan."""

    entry: Entry
    number: int
    plan: ExportPlan
    exporter: Exporter
    source: Source
    pacer: Pacer
    remaining: Remaining
    packs: int = 0

    def run(self) -> SegmentProgress:
        """Write parts until the segment ends or the time is up. Return the progress with all parts."""
        *full, progress = self._read_records() or [SegmentProgress()]
        before = [part for record in full for part in record.parts]
        while not progress.done:
            writer, self.packs = self.exporter.format.writer(self.entry.layout, self.plan.columns), 0
            after, ended = self._fill_part(writer, progress.after)
            if after == progress.after and not ended:
                break
            if len(progress.parts) >= _PARTS_OF_RECORD:
                full, before = [*full, progress], [*before, *progress.parts]
                progress = SegmentProgress()
            # Pages without events are progress, too: in a table with packs, a run on a slow table may read nothing else.
            parts = progress.parts
            if writer.facts.items:
                parts = (*parts, self._write_verified_part(writer, len(before) + len(parts)))
            progress = SegmentProgress(parts=parts, after=after, done=ended)
            self.exporter.objects.put(self._make_key(len(full)), msgspec.json.encode(progress))
        return msgspec.structs.replace(progress, parts=(*before, *progress.parts))

    def _read_records(self) -> list[SegmentProgress]:
        records: list[SegmentProgress] = []
        while (stored := self.exporter.objects.find(self._make_key(len(records)))) is not None:
            records.append(msgspec.json.decode(stored, type=SegmentProgress))
        return records

    def _make_key(self, number: int) -> str:
        return make_progress_key(self.entry.stream, self.entry.period.label, self.number, number)

    def _fill_part(
        self, writer: PartWriter, after: Mapping[str, object] | None
    ) -> tuple[Mapping[str, object] | None, bool]:
        """Read pages into a part. Return the key after which the next part begins, and True if the segment ended."""
        while writer.size < self.exporter.part_bytes:
            page = self._fetch_page(after)
            if page is None:
                return after, False
            try:
                items = self.exporter.complete(page.items, self.entry.table)
            except TableThrottled:
                # The table beside the period table has no units left for this run. The next run reads this page again.
                return after, False
            writer.add(items)
            self.packs += page.packs
            after = page.after
            if after is None:
                return None, True
        return after, False

    def _fetch_page(self, after: Mapping[str, object] | None) -> RawPage | None:
        """Fetch the next page when the pacer allows it; None if too little time is left, or a wait costs too much."""
        backoff = 1.0
        pause = self.pacer.pause()
        while True:
            if pause is None or self.remaining() - pause < _PART_SECONDS:
                return None
            self.exporter.clock.sleep(pause)
            try:
                segments, limit = self.plan.segments, self.pacer.limit()
                page = self.source.page(
                    self.entry.table, segment=self.number, segments=segments, after=after, limit=limit
                )
            except TableThrottled:
                # A table that refuses so often has no units left for this run: other readers use them, or its burst is
                # used up.
                pause = backoff if backoff <= _LONGEST_PAUSE else None
                backoff *= 2
                continue
            except TableMissing as error:
                raise ArchiveFailed(f"table {self.entry.table} went away while it was archived") from error
            self.pacer.account(page.units, page.count)
            return page

    def _write_verified_part(self, writer: PartWriter, number: int) -> Part:
        exporter, entry = self.exporter, self.entry
        key = make_part_key(entry.stream, entry.period.label, self.number, number)
        return write_verified_part(key, writer, exporter.objects, exporter.format, entry.layout, packs=self.packs)
