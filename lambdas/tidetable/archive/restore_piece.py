"""Write a piece of an archive into the period's table, or compare a piece of the table with the archive."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from hashlib import sha256

from msgspec.structs import replace

from tidetable.archive.digest import join_digests
from tidetable.archive.exporter import Exporter, open_source, read_object
from tidetable.archive.ports import ArchivedRows
from tidetable.archive.restore import Restorer
from tidetable.archive.restore_orders import RestorePieceMemo
from tidetable.catalog import Entry
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableMissing, TableThrottled
from tidetable.event_writing import Writer
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.large.outside import write_outside
from tidetable.large.shrink import Shrinker
from tidetable.ports import Put
from tidetable.remaining import Remaining

_POLL_SECONDS = 1.0
# Nothing is written, and no page is read, with less time than this. A request that is sent then ends before the claim.
_LEAST_SECONDS = 15.0


@dataclass(slots=True)
class PieceRun:
    """The work of one claim on a piece; ``memo`` says how far it is, also after an error."""

    entry: Entry
    number: int
    memo: RestorePieceMemo
    restorer: Restorer
    remaining: Remaining

    @property
    def exporter(self) -> Exporter:
        """The ports of archiving."""
        return self.restorer.archive

    def run(self) -> bool:
        """Write or compare until the piece ends or the time is up; True if it ended."""
        return self.compare() if self.memo.segments else self.write()

    def write(self) -> bool:
        """Write the rows of the piece into the table, from where an earlier run ended."""
        body = read_object(self.memo.key, self.exporter)
        if sha256(body).hexdigest() != self.memo.sha256:
            raise ArchiveMismatch(f"{self.memo.key} differs from the bytes that were written")
        large, layout, clock = self.restorer.large, self.entry.layout, self.exporter.clock
        writer = Writer(self.restorer.store, large.values, self.remaining, clock, self.restorer.jitter)
        together, row = choose_form(layout).together, self.memo.start + self.memo.items
        for rows in self.exporter.format.rows(body, layout, row):
            whole = range(min(len(rows.batch.times), self.memo.end - row))
            for numbers in (whole[first : first + together] for first in whole[::together]):
                if self.remaining() < _LEAST_SECONDS:
                    return False
                self._write_rows(rows, numbers, writer)
                self.memo = replace(self.memo, items=self.memo.items + len(numbers))
            row += len(whole)
            if row == self.memo.end:
                break
        return True

    def _write_rows(self, rows: ArchivedRows, numbers: Sequence[int], writer: Writer) -> None:
        self.note_series({rows.batch.series[number] for number in numbers})
        ready, written = write_outside(writer, self.make_puts(rows, numbers))
        written.add(writer.retry_writes(self.restorer.store.write, ready))
        for reason in written.refused.values():
            raise ArchiveFailed(f"DynamoDB refuses an event of {self.memo.key}: {reason}")
        if written.missing_tables:
            raise TableMissing(self.entry.table)
        if written.unwritten:
            raise ArchiveBusy(f"some events of {self.memo.key} could not be written in time; a later run goes on")

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
            raise ArchiveBusy(f"series of {entry.stream} could not be noted for its rollups; a later run goes on")

    def compare(self) -> bool:
        """Compute the facts of a segment of the table, from where an earlier run ended."""
        table, source = self.entry.table, open_source(self.entry, self.exporter)
        while True:
            if self.remaining() < _LEAST_SECONDS:
                return False
            memo = self.memo
            try:
                page = source.page(table, segment=self.number, segments=memo.segments, after=memo.after, limit=None)
                whole = self.exporter.complete(page.items, table)
            except TableThrottled:
                # The table, or its table of chunks. The page is read again.
                self.exporter.clock.sleep(_POLL_SECONDS)
                continue
            facts = self.exporter.format.page_facts(whole)
            digest = join_digests((memo.digest, facts.hex))
            self.memo = replace(memo, items=memo.items + facts.items, digest=digest, after=page.after)
            if page.after is None:
                return True
