"""Find the first events of a ranking, exactly, across suffixes, periods and archives.

First a few items of every suffix of every period are read in parallel, from the best number on. Then only those ranges
are read further that may hold a better event than the last candidate. Of events with the same number, the newest comes
first (in ascending order: the oldest). If too many events tie with the last event of a page, not all are read, and the
answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.events import Item
from tidetable.layout import find_number
from tidetable.ports import ArchivePage, ArchiveRange, ItemColumns, Page
from tidetable.problems import ProblemError, refuse_request
from tidetable.query.archives import ARCHIVES, read_archive_pages
from tidetable.query.earlier import make_archive_rows
from tidetable.query.gather import KEPT_BYTES
from tidetable.query.hydrate import complete_rows, match_conditions, read_base_items
from tidetable.query.index_scans import IndexScan
from tidetable.query.merge import compute_share
from tidetable.query.model import RESERVE, Reader
from tidetable.query.page import Room
from tidetable.query.ranges import RangeProgress
from tidetable.query.rankings.ranking_page import Top
from tidetable.query.rankings.ranking_parameters import Ranking, RankKey, plan_ranking
from tidetable.query.rankings.ranking_reads import find_ranked
from tidetable.query.read import read_again
from tidetable.query.rows import Row, show_rows
from tidetable.query.scans import ArchiveScan, Plan, Scan, find_visible_gaps
from tidetable.query.session import ReadSession
from tidetable.query.waves import AT_ONCE, count_held_units, measure_item, refuse_large_items
from tidetable.remaining import Remaining
from tidetable.times import from_text

# Events with the same number are read until this many items were read: four for each wanted item, plus a thousand.
_TIES_EACH, _TIES_LEAST = 4, 1_000
_Place = TypeVar("_Place", Decimal, RankKey)


@dataclass(slots=True)
class _Candidate:
    """An event that may be among the first: an item of an index (of its table, if ``whole``), or a row of an archive."""

    key: RankKey
    scan: Scan
    item: Item
    row: Row | None = None
    whole: bool = False


class _Range(RangeProgress, kw_only=True):
    """A range of an index that is being read. Its edge is the number reached so far."""

    scan: IndexScan


def find_top(ranking: Ranking, stream: Stream, reader: Reader, now: datetime, remaining: Remaining) -> Top:
    """Find the first events of a ranking. Raises ProblemError, with what to change, if the time is not enough."""

    def read(entries: Sequence[Entry], forgiving: bool) -> Top:
        session = ReadSession(reader, remaining, forgiving)
        return _Run(ranking, stream, session).read_top(plan_ranking(ranking, entries), now)

    return read_again(partial(find_ranked, ranking, reader.catalog), read, consistent=ranking.consistent)


def _refuse_slow(what: str) -> ProblemError:
    """Make the error 422 for a ranking that takes longer than an answer may: a retry does not help."""
    narrower = "narrow from and to, lower limit, or add a condition on the ranked number, which narrows what is read"
    return refuse_request(422, "too_much", f"{what} longer than an answer may: {narrower}")


@dataclass(slots=True)
class _Run:
    """One pass over the periods of a ranking."""

    _ranking: Ranking
    _stream: Stream
    _session: ReadSession
    _candidates: list[_Candidate] = field(default_factory=list)
    _losses: list[str] = field(default_factory=list)
    # The positions of the last events of archives' pages without space for all wanted events.
    _floors: list[RankKey] = field(default_factory=list)
    # The units of the items of indexes in memory.
    _held: float = 0.0

    def read_top(self, plan: Plan, now: datetime) -> Top:
        """Read until no unread item can rank among the first ``limit``, and show those."""
        ranking, scans = self._ranking, list(plan.scans)
        self._read_archives([scan for scan in scans if isinstance(scan, ArchiveScan)])
        ranges = [_Range(keys, 0, scan=scan) for scan in scans if isinstance(scan, IndexScan) for keys in scan.ranges]
        unread = self._read_ranges(ranges)
        first = self._find_certain(self._order_candidates())
        shown, count = self._make_rows(first[: ranking.limit])
        top = Top(
            rows=[{"rank": rank, "value": key.number, **event} for rank, (key, event) in enumerate(shown, 1)],
            next=None,
            gaps=find_visible_gaps([*plan.gaps, *self._session.gaps], now),
            cost=self._session.cost,
            sources=scans,
            data_losses=self._losses,
            declared=self._stream.archive.columns,
            stream=ranking.stream,
            ranking=ranking,
            reader=self._session.reader,
            keys=[key for key, _ in shown],
            unread=unread,
        )
        more = count < len(first) or (bool(shown) and bool(self._floors))
        return top.end_at(first[count - 1].key if count else None, more=more)

    def _find_certain(self, first: list[_Candidate]) -> list[_Candidate]:
        """Find the candidates whose rank is certain: no event that an archive's page left out can come before them."""
        if not self._floors:
            return first
        floor = self._find_first(self._floors)
        return [candidate for candidate in first if not self._is_after(candidate.key, floor)]

    def _order_candidates(self) -> list[_Candidate]:
        return sorted(self._candidates, key=attrgetter("key"), reverse=not self._ranking.ascending)

    def _find_first(self, places: Iterable[_Place]) -> _Place:
        """Find the number or the position that comes first in the order of the ranking."""
        return min(places) if self._ranking.ascending else max(places)

    def _is_after(self, place: _Place, other: _Place) -> bool:
        """True if a number or a position comes after another in the order of the ranking."""
        return place > other if self._ranking.ascending else place < other

    def _read_ranges(self, ranges: list[_Range]) -> Decimal | None:
        """Read ranges as far as they can change the answer. Return the number whose events were not all read, or None."""
        limit = self._ranking.limit + 1
        due, least = ranges, limit
        while due:
            for reading in due:
                filtered = bool(reading.keys.times or reading.scan.conditions)
                reading.limit = max(compute_share(least, len(due)), 2 * reading.limit if filtered else 0)
            # A page has up to 1 MB: the pages of all ranges are never in memory together.
            for at in range(0, len(due), AT_ONCE):
                if not self._session.has_time:
                    raise _refuse_slow("the ranking takes")
                self._fetch_pages(due[at : at + AT_ONCE])
            first = self._order_candidates()
            unread = [reading for reading in ranges if reading.more]
            if len(first) < limit:
                due, least = unread, limit - len(first)
                continue
            nth = first[limit - 1].key.number
            due = [reading for reading in unread if reading.edge is None or self._is_after(nth, reading.edge)]
            edges = [reading.edge for reading in due if reading.edge is not None]
            if edges:
                best = self._find_first(edges)
                least = sum(not self._is_after(best, candidate.key.number) for candidate in first[:limit])
            if not due:
                ties = [reading for reading in unread if reading.edge == nth]
                if ties and self._session.cost.read >= _TIES_EACH * limit + _TIES_LEAST:
                    return nth
                due, least = ties, max(len(ties), 100)
        return None

    def _fetch_pages(self, due: Sequence[_Range]) -> None:
        reads = [reading.next_read for reading in due]
        ranking, session = self._ranking, self._session
        pages = session.reader.store.query_many(reads, ascending=ranking.ascending, consistent=ranking.consistent)
        for reading, answer in zip(due, pages, strict=True):
            page = session.take_page(answer, reading.scan.entry, ranking.start, ranking.end)
            self._held += count_held_units([page], consistent=ranking.consistent)
            refuse_large_items(self._held)
            self._add_page(reading, page)

    def _add_page(self, reading: _Range, page: Page) -> None:
        scan, index = reading.scan, reading.scan.index
        items = page.items
        # If the index lacks a field of the conditions, every event must be fetched from the table.
        whole = not index.holds(condition.top for condition in scan.conditions)
        if whole:
            items = read_base_items(items, scan, self._session, consistent=self._ranking.consistent)
        reading.advance(page)
        items = scan.add_data([item for item in items if self._is_ahead(self._make_key(item, scan))])
        if scan.conditions:
            items = match_conditions(ItemColumns.of(items), scan, self._session).items()
        self._candidates += [_Candidate(self._make_key(item, scan), scan, item, whole=whole) for item in items]

    def _make_key(self, item: Item, scan: IndexScan) -> RankKey:
        time, series, id = scan.entry.layout.read_names(item)
        return RankKey(Decimal(item[scan.index.sk]), from_text(time), series, id)

    def _is_ahead(self, key: RankKey) -> bool:
        """True if a position lies after the cursor's position."""
        return self._ranking.after is None or self._is_after(key, self._ranking.after)

    def _read_archives(self, scans: Sequence[ArchiveScan]) -> None:
        """Read the first events of each archived period, a few periods in parallel."""
        pool = self._session.reader.pools(ARCHIVES)
        try:
            for scan, reading in [(scan, pool.submit(self._read_archive, scan)) for scan in scans]:
                for page in reading.result(timeout=max(self._session.remaining() - RESERVE, 0.1)):
                    self._add_archive_page(scan, page)
        except TimeoutError as error:
            raise _refuse_slow(f"ranking the range's {len(scans)} archived periods takes") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read_archive(self, scan: ArchiveScan) -> list[ArchivePage]:
        """Read the first events of a period's archive. The archive's reader ranks its events, some at a time."""
        ranking, entry = self._ranking, scan.entry
        pages: list[ArchivePage] = []

        def read(keys: ArchiveRange) -> ArchivePage | None:
            if self._session.remaining() <= RESERVE:
                return None
            return self._session.reader.archive.read(keys, limit=ranking.limit + 1, ascending=ranking.ascending)

        for page in read_archive_pages(scan.keys, read):
            if page is None:
                raise _refuse_slow(f"ranking the archived period {entry.period.label} takes")
            pages.append(page)
        return pages

    def _add_archive_page(self, scan: ArchiveScan, page: ArchivePage) -> None:
        self._session.cost.requests += 1
        self._session.cost.read += page.read
        by = self._ranking.index.sort_by
        keys = [
            RankKey(Decimal(find_number(event.data, by) or 0), event.time, event.series, event.id)
            for event in page.events
        ]
        rows = make_archive_rows(page, scan.entry, self._ranking.projection)
        ranked = zip(keys, rows, strict=True)
        self._candidates += [_Candidate(key, scan, row.item, row) for key, row in ranked if self._is_ahead(key)]
        if page.cut:
            self._floors.append(keys[-1])

    def _make_rows(self, first: Sequence[_Candidate]) -> tuple[list[tuple[RankKey, dict[str, Any]]], int]:
        """Make the rows of the first events, as many as an answer holds; also return the number of used candidates.

        An event is left out if it was deleted, or got another number, after the index was read.
        """
        projection, unpacker, room = self._ranking.projection, self._session.reader.unpacker, Room()
        keys, rows, count, kept = list[RankKey](), list[Row](), 0, 0
        for candidate, item, size in self._fetch_in_waves(first):
            if item is not None:
                row = candidate.row or Row.of(unpacker.inflate_or_keep(item), candidate.scan.entry, projection)
                kept += size
                if not room.take(row.measure_size()) or (rows and kept > KEPT_BYTES):
                    break
                keys.append(candidate.key)
                rows.append(row)
            count += 1
        self._losses = complete_rows(rows, self._session)
        return list(zip(keys, show_rows(rows), strict=True)), count

    def _fetch_in_waves(self, first: Sequence[_Candidate]) -> Iterator[tuple[_Candidate, Item | None, int]]:
        """Yield the candidates with their items and the items' bytes, which decide how many items the next wave has."""
        at, size = 0, AT_ONCE
        while some := first[at : at + size]:
            items = self._fetch_items(some)
            sizes = [0 if item is None else measure_item(item) for item in items]
            yield from zip(some, items, sizes, strict=True)
            at, size = at + size, max(KEPT_BYTES // (sum(sizes) // len(some) + 1), 1)

    def _fetch_items(self, first: Sequence[_Candidate]) -> list[Item | None]:
        """Fetch the items with all shown data, from the table if the index lacks data; None for a deleted item."""
        lacking: dict[int, tuple[IndexScan, list[Item]]] = {}
        for candidate in first:
            scan = candidate.scan
            if isinstance(scan, IndexScan) and scan.fetches and not candidate.whole:
                lacking.setdefault(id(scan), (scan, []))[1].append(candidate.item)
        # For a moment, an index may also hold an event under its old number: the number distinguishes the two entries.
        current = {
            (id(scan), item["pk"], item["sk"], item[scan.index.sk]): item
            for scan, items in lacking.values()
            for item in read_base_items(items, scan, self._session, consistent=self._ranking.consistent)
        }
        return [
            current.get((id(scan), candidate.item["pk"], candidate.item["sk"], candidate.item[scan.index.sk]))
            if isinstance(scan := candidate.scan, IndexScan) and id(scan) in lacking
            else candidate.item
            for candidate in first
        ]
