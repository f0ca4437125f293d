"""Write one segment of a table as Parquet files. Each file is read back and compared before it is noted."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import msgspec

from tidetable.archive.exporter import Exporter
from tidetable.archive.manifest import Part
from tidetable.archive.pacing import Pacer
from tidetable.archive.ports import PartWriter, RawPage, Source
from tidetable.archive.segments import Segment
from tidetable.archive.verified import write_verified_part
from tidetable.catalog import Entry
from tidetable.errors import ArchiveBusy, ArchiveFailed, TableMissing, TableThrottled
from tidetable.remaining import Remaining
from tidetable.times import to_text
from tidetable.work.claim import HeldClaim

# If less time than this is left, no page is fetched: the open part must still be written, read back and noted. To read back
# the most events of a part takes half a minute on a core.
_PART_SECONDS = 60.0
_LONGEST_PAUSE = 4.0


@dataclass(slots=True)
class SegmentRun:
    """The work of one claim on a segment.

    While a page is written, the next one is read, so memory holds one page more. ``ahead`` is the page after the last one.
    """

    entry: Entry
    segment: Segment
    held: HeldClaim
    exporter: Exporter
    source: Source
    pacer: Pacer
    remaining: Remaining
    packs: int = 0
    ahead: Future[RawPage | None] | None = None

    def run(self) -> None:
        """Write files until the segment ends or the time is up. The memo of the claim then has the progress."""
        with self.exporter.pools(1) as pool:
            self._write_files(pool)

    def _write_files(self, pool: Executor) -> None:
        exporter, parts = self.exporter, self.segment.read_parts(self.exporter.objects)
        if parts is None:
            self.segment, parts = self.segment.begin_anew(), []
        memo = self.segment.memo
        after, ended = memo.after, False
        while not ended:
            writer, self.packs = exporter.format.writer(self.entry.layout, memo.columns), 0
            reached, ended = self._fill_part(writer, after, pool)
            if reached == after and not ended:
                break
            # Pages without events are progress, too: in a table with packs, a run on a slow table may read nothing else.
            after = reached
            if writer.facts.items:
                parts.append(self._write_verified_part(writer, len(parts)))
        if after != memo.after or ended:
            self._note_progress(parts, after)
            # Only now: a run that fails before must not finish the segment.
            self.held.done = ended

    def _note_progress(self, parts: list[Part], after: Mapping[str, Any] | None) -> None:
        """Note all files of the segment in one object, and let the record name it."""
        memo, generation, events = self.segment.memo, self.held.generation, sum(part.events for part in parts)
        if events != memo.events:
            self._require_time()
            self.segment.note_parts(parts, generation, self.exporter.objects)
            memo = msgspec.structs.replace(memo, events=events, noted=generation)
        memo = msgspec.structs.replace(memo, after=after, free=to_text(self.pacer.free))
        self.held.memo = msgspec.json.encode(memo).decode()

    def _require_time(self) -> None:
        """Raise ArchiveBusy if the time is up: then the claim may have ended, and another worker reads the segment."""
        if self.remaining() <= 0:
            raise ArchiveBusy("the time is up")

    def _fill_part(
        self, writer: PartWriter, after: Mapping[str, object] | None, pool: Executor
    ) -> tuple[Mapping[str, object] | None, bool]:
        """Read pages into a part. Return the key after which the next part begins, and True if the segment ended."""
        while not writer.is_full and writer.size < self.exporter.part_bytes:
            page = self._fetch_page(after) if self.ahead is None else self.ahead.result()
            if page is None:
                return after, False
            if page.after is not None:
                self.ahead = pool.submit(self._fetch_page, page.after)
            try:
                items = self.exporter.complete(page.items, self.entry.table)
            except TableThrottled:
                # The table beside the period table has no units left for this run. The next run reads this page again.
                self.ahead = None
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
                number, count, limit = self.segment.number, self.segment.memo.count, self.pacer.limit()
                page = self.source.page(self.entry.table, segment=number, segments=count, after=after, limit=limit)
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
        exporter, layout = self.exporter, self.entry.layout
        key = f"{self.segment.make_part_prefix(self.held.generation)}{number:05d}.parquet"
        objects, format, packs = exporter.objects, exporter.format, self.packs
        return write_verified_part(key, writer, objects, format, layout, packs, require_time=self._require_time)
