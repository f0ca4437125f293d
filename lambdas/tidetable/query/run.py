"""The use case of a query: stages read a few at a time, their partitions at once, merged lazily up to the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import TableMissing
from tidetable.events import Item
from tidetable.keys import Key
from tidetable.large.whole import Unpacker
from tidetable.ports import ArchivePage, ArchiveReader, CatalogReader, EventStore, KeyRange, Page
from tidetable.query.cursor import Position, encode_cursor
from tidetable.query.merge import Placed, merge_sorted
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Plan, Stage, plan_query
from tidetable.query.rows import Row, Shown, archived_rows, complete, earlier_items, row_of, shown
from tidetable.times import to_text

_CONCURRENCY = 16
# Beyond what is expected of each suffix, so that an uneven spread seldom needs a second page.
_SLACK = 8
# AWS: a Lambda answers at most 6 MB, counted after escaping.
_MAX_ANSWER_BYTES = 4_000_000
# Seconds kept for merging and encoding.
_RESERVE = 3.0


@dataclass(slots=True)
class Reader:
    """What queries need."""

    catalog: CatalogReader
    store: EventStore
    archive: ArchiveReader
    unpacker: Unpacker


@dataclass(slots=True)
class Answer:
    """A page of events; ``next`` is None at the end."""

    events: list[Shown] = field(default_factory=list)
    next: str | None = None
    gaps: Sequence[Gap] = ()
    units: float = 0.0
    requests: int = 0

    def document(self) -> dict[str, object]:
        """The answer's body."""
        return {
            "events": [one.document() for one in self.events],
            "next": self.next,
            "gaps": [{"from": to_text(gap.start), "to": to_text(gap.end), "reason": gap.reason} for gap in self.gaps],
        }


class _Vanished(Exception):
    """A table went while it was read: it may just have been archived."""


def run_query(query: Query, stream: Stream, reader: Reader, now: datetime, remaining: Callable[[], float]) -> Answer:
    """Answer a page. A table that vanishes meanwhile is looked up once more in the catalog, then reported as a gap."""
    entries = reader.catalog.entries(stream.name, query.start, query.end)
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        try:
            return _Run(query, reader, pool, remaining).answer(plan_query(query, entries), now)
        except _Vanished:
            entries = reader.catalog.entries(stream.name, query.start, query.end, consistent=True)
            return _Run(query, reader, pool, remaining, forgiving=True).answer(plan_query(query, entries), now)


class _Run:
    """One pass over a plan."""

    def __init__(
        self,
        query: Query,
        reader: Reader,
        pool: ThreadPoolExecutor,
        remaining: Callable[[], float],
        *,
        forgiving: bool = False,
    ) -> None:
        self._query = query
        self._reader = reader
        self._pool = pool
        self._remaining = remaining
        self._forgiving = forgiving
        self._missing: dict[str, Gap] = {}
        self._page_limit = query.limit + 1
        self._answer = Answer()

    def answer(self, plan: Plan, now: datetime) -> Answer:
        """Read stages until the page is full, the time is up or the plan ends."""
        rows: list[Row] = []
        size = count = 0
        for stage, placed in self._ordered(plan.stages):
            if placed is None:
                return self._finish(rows, plan, now, _edge(stage, ascending=self._query.ascending))
            row = placed[1]
            size += row.size(self._query.shape)
            count += row.count
            # An event is never parted from its earlier versions.
            if rows and (count > self._query.limit or size > _MAX_ANSWER_BYTES):
                last = rows[-1].event
                return self._finish(rows, plan, now, Position(last.time, last.series, last.id))
            rows.append(row)
        return self._finish(rows, plan, now, None)

    def _finish(self, rows: list[Row], plan: Plan, now: datetime, position: Position | None) -> Answer:
        query, answer = self._query, self._answer
        try:
            whole = complete(rows, self._reader.unpacker, query.shape)
        except TableMissing as error:
            raise _Vanished from error
        answer.events = shown(whole, query.stream, query.shape)
        if position is not None:
            answer.next = encode_cursor(
                query.stream,
                query.series,
                query.start,
                query.end,
                position,
                ascending=query.ascending,
                where=query.where,
                fields=query.shape.fields,
                versions=query.shape.versions,
            )
        # What is yet to come is no gap.
        gaps = [*plan.gaps, *self._missing.values()]
        answer.gaps = sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)
        return answer

    def _ordered(self, stages: Sequence[Stage]) -> Iterator[tuple[Stage, Placed | None]]:
        """The events of the stages in order; None in place of an event where the time was up before a stage.

        Stages are begun one, then two, then four at a time: a page that the first fills costs no reads elsewhere, and a
        long empty range is not walked step by step.
        """
        begun: list[tuple[Stage, list[Future[Page]]]] = []
        ahead, index = 1, 0
        for number, stage in enumerate(stages):
            if number and self._remaining() < _RESERVE:
                yield stage, None
                return
            if number == index:
                batch = stages[index : index + ahead]
                begun += [(one, self._begin(one)) for one in batch]
                index += len(batch)
                ahead = min(2 * ahead, _CONCURRENCY)
            _, pages = begun.pop(0)
            yield from ((stage, placed) for placed in self._stage(stage, pages))

    def _begin(self, stage: Stage) -> list[Future[Page]]:
        limit = min(self._page_limit, self._page_limit // max(len(stage.ranges), 1) + _SLACK)
        return [self._pool.submit(self._query_page, keys, limit) for keys in stage.ranges]

    def _stage(self, stage: Stage, pages: list[Future[Page]]) -> Iterator[Placed]:
        if stage.archive is not None:
            yield from self._archived(stage)
            return
        found = any(keys.index is not None for keys in stage.ranges)
        sources = (self._partition(stage, keys, page) for keys, page in zip(stage.ranges, pages, strict=True))
        for placed in merge_sorted(sources, ascending=self._query.ascending):
            # Partitioned by time, a series is a residual filter: DynamoDB does not filter by key attributes.
            if self._query.wants(placed[1].event, found=found):
                yield placed

    def _partition(self, stage: Stage, keys: KeyRange, first: Future[Page]) -> Iterator[Placed]:
        place = keys.index.sk if keys.index is not None else "sk"
        try:
            page = first.result()
            while True:
                self._answer.units += page.units
                self._answer.requests += 1
                items, earlier = self._opened(page.items, stage, keys)
                for item in items:
                    versions = earlier.get(Key(item["pk"], item["sk"]), ()) if earlier else ()
                    yield item[place], row_of(item, stage.entry, self._query.shape, versions)
                if not page.more:
                    return
                last = page.items[-1][place] if page.items else keys.after
                keys = replace(keys, after=last)
                page = self._query_page(keys, self._page_limit)
        except TableMissing as error:
            if not self._forgiving:
                raise _Vanished from error
            self._missing[keys.table] = Gap(stage.entry.period.start, stage.entry.period.end, "table missing")

    def _opened(
        self, items: Sequence[Item], stage: Stage, keys: KeyRange
    ) -> tuple[Sequence[Item], Mapping[Key, Sequence[Item]]]:
        """A page's items with what a filter or the versions asked for need of them."""
        query, unpacker, table = self._query, self._reader.unpacker, stage.entry.table
        if query.where is not None and keys.index is None and any("out" in item for item in items):
            items = unpacker.whole(items, table, cold=False).items
        if not (query.shape.versions and stage.entry.layout.versioned):
            return [unpacker.inflated(item) if "z" in item else item for item in items], {}
        earlier = earlier_items(items, table, self._reader.store)
        return (
            [unpacker.inflated(item) for item in items],
            {key: [unpacker.inflated(item) for item in some] for key, some in earlier.items()},
        )

    def _query_page(self, keys: KeyRange, limit: int) -> Page:
        return self._reader.store.query(keys, limit=limit, ascending=self._query.ascending)

    def _archived(self, stage: Stage) -> Iterator[Placed]:
        keys = stage.archive
        layout = stage.entry.layout
        while keys is not None:
            page: ArchivePage = self._reader.archive.read(keys, limit=self._page_limit, ascending=self._query.ascending)
            self._answer.requests += 1
            place = keys.after
            for row in archived_rows(page.events, page.versions, stage.entry):
                place = layout.sort_key(row.event.time, row.event.series, row.event.id)
                if self._query.wants(row.event):
                    yield place, row
            keys = replace(keys, after=place) if page.more else None


def _edge(stage: Stage, *, ascending: bool) -> Position:
    """The bare instant up to which everything was read before a stage."""
    return Position(stage.start if ascending else stage.end)


def find_entry(entries: Sequence[Entry], label: str) -> Entry | None:
    """The entry of a period's label."""
    return next((entry for entry in entries if entry.period.label == label), None)
