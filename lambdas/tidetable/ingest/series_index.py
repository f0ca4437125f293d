"""Notes of series, for streams that are partitioned by series and have rollups: a writer notes each series before it
writes the first event of the series into a period.

No single key of such a table gives all of its events, so rollups read the events of the noted series. The order is: the
note, the event, the acknowledgement. A writer that dies in between leaves a note that is not needed, but never an event
without a note.

The notes of a period are chains of pages, and a hash of a series chooses its chain. A process that meets an unknown
series first reads what others have added to the chain, and notes only what nobody has noted. So a series is noted about
once, however many processes there are.

Notes are removed two days after the deletion of the period's table, never before. So a process that sees a period's
table relies on the notes that it has put or read for as long as the table lives. After a restore, it relies only on
notes that the removal spares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.ingest.series_set import SeriesSet
from tidetable.layout.suffix import compute_each
from tidetable.ports import NotePage, Slot
from tidetable.ports.rollups import Rollups
from tidetable.rollup_model.bounds import NOTE_KEPT, to_millis
from tidetable.times import EPOCH

# The number of chains of a period. Each costs a request if all of its series are new, so they are few. Four chains share
# a partition: DynamoDB can give them separate partitions if they are written often.
CHAINS = 64
# The bytes of the series of a page. With its key the page has less than 1 KB, so that a further note costs a write unit.
PAGE_BYTES = 900
# The bytes that a process remembers: about 3,300,000 series of 16 bytes.
MOST = 64_000_000
# A request learns at most this share of the memory: a million series take about 1.2 seconds of a processor.
LEARNED = 4
# A period that a process did not use for this long can be forgotten.
UNUSED = timedelta(hours=1)


class _Life(NamedTuple):
    """A period from the creation of its table, or from its last restore, to the deletion of the table."""

    stream: str
    period: str
    deleted_at: datetime | None

    def can_trust(self, page: NotePage) -> bool:
        """True if no removal after an earlier deletion can take the page (``rollups.series_index_upkeep``)."""
        return self.deleted_at is None or page.at >= to_millis(self.deleted_at + NOTE_KEPT)


class _Known:
    """The notes of a period that a process knows, and the instant when it last ``used`` them.

    ``ends`` has the number and the bytes of the last known page of each chain: all pages before it are known.
    """

    def __init__(self) -> None:
        self.series = SeriesSet()
        self.ends: dict[int, tuple[int, int]] = {}
        self.used = EPOCH

    def place(self, chains: Mapping[str, int]) -> tuple[list[NotePage], dict[int, tuple[int, int]]]:
        """Choose the pages for new notes: the last pages of the series' chains, and new pages behind these.

        Return also the ``ends`` of the chains with these notes.
        """
        pages: dict[tuple[int, int], list[str]] = {}
        ends = dict(self.ends)
        for name, chain in chains.items():
            number, size = ends.get(chain, (0, 0))
            length = len(name.encode())
            if size + length > PAGE_BYTES:
                number, size = number + 1, 0
            ends[chain] = number, size + length
            pages.setdefault((chain, number), []).append(name)
        return [NotePage(chain, number, names) for (chain, number), names in pages.items()], ends


class SeriesIndex:
    """Puts the notes of a process, and skips those that it knows to be there. It remembers at most about ``most`` bytes.

    If that is not enough, other series are noted each time that they come, each on a page of its own, without a read. So
    are those of a request that would have to read too much; the next requests go on reading.
    """

    def __init__(self, rollups: Rollups, most: int = MOST) -> None:
        self._rollups = rollups
        self._most = most
        self._known: dict[_Life, _Known] = {}
        # Why notes were not put the last time that they failed.
        self.trouble = ""

    def note(self, series_of: Iterable[tuple[Entry, Iterable[str]]], now: datetime) -> bool:
        """Put notes for series in their periods; False if any note may be missing.

        ``now`` is the instant when the writer looked at the clock, before it decided to write.
        """
        for entry, series in series_of:
            life, known = self._find_known(entry, now)
            unknown = sorted(set(known.series.list_missing(series)))
            if unknown:
                try:
                    self._note_unknown(life, known, unknown, now)
                except (StoreUnavailable, TableMissing, TableThrottled) as error:
                    self.trouble = str(error)
                    return False
        return True

    def note_events(
        self, entries: Sequence[Entry], events: Iterable[tuple[Slot, str]], now: datetime
    ) -> frozenset[Slot]:
        """Note the series of events. Return the slots that must not be written: their notes may be missing.

        ``events`` has the slot and the series of each event. Only periods that are partitioned by series need notes.
        """
        noted = {entry.table: entry for entry in entries if entry.layout.partition_by == "series"}
        if not noted:
            return frozenset()
        slots = [(slot, series) for slot, series in events if slot[0] in noted]
        series_of: dict[str, set[str]] = {}
        for slot, series in slots:
            series_of.setdefault(slot[0], set()).add(series)
        if self.note([(noted[table], series) for table, series in series_of.items()], now):
            return frozenset()
        missing = {
            (table, name)
            for table, series in series_of.items()
            for name in self._find_known(noted[table], now)[1].series.list_missing(series)
        }
        return frozenset(slot for slot, series in slots if (slot[0], series) in missing)

    def _find_known(self, entry: Entry, now: datetime) -> tuple[_Life, _Known]:
        life = _Life(entry.stream, entry.period.label, entry.deleted_at)
        known = self._known.setdefault(life, _Known())
        known.used = now
        return life, known

    def _note_unknown(self, life: _Life, known: _Known, unknown: Sequence[str], now: datetime) -> None:
        chains = dict(zip(unknown, compute_each(unknown, CHAINS), strict=True))
        is_read = self._has_room(now) and self._read_others(life, known, chains.values())
        chains = {name: chains[name] for name in known.series.list_missing(unknown)}
        ends, pages = known.ends, [NotePage(chain, None, [name]) for name, chain in chains.items()]
        if is_read:
            pages, ends = known.place(chains)
        if pages:
            self._rollups.put_notes(life.stream, life.period, pages, to_millis(now))
        known.ends = ends
        if self._has_room(now):
            known.series.add(chains)

    def _read_others(self, life: _Life, known: _Known, chains: Iterable[int]) -> bool:
        """Read what others have noted in chains since they were last read; False if that is too much for one request."""
        first = {chain: known.ends.get(chain, (0, 0))[0] for chain in chains}
        before = known.series.bytes
        for page in self._rollups.read_chains(life.stream, life.period, first):
            known.ends[page.chain] = page.number or 0, sum(len(name.encode()) for name in page.series)
            if life.can_trust(page):
                known.series.add(page.series)
                if known.series.bytes > before + self._most // LEARNED:
                    return False
        return True

    def _has_room(self, now: datetime) -> bool:
        """True if further series can be remembered. If not, the periods that were not used for an hour are forgotten.

        A period in use is not forgotten in favour of another: to read all of its notes again costs more than to put some
        again.
        """
        if self._measure_bytes() > self._most:
            self._known = {life: known for life, known in self._known.items() if now - known.used < UNUSED}
        return self._measure_bytes() <= self._most

    def _measure_bytes(self) -> int:
        return sum(known.series.bytes for known in self._known.values())
