"""The use case of a query: stages read a few at a time, their partitions at once, merged lazily up to the limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.events import Item
from tidetable.exact import decode_json
from tidetable.keys import Key
from tidetable.large.whole import Unpacker
from tidetable.periods import Period
from tidetable.ports import ArchivePage, ArchiveRange, ArchiveReader, Asked, CatalogReader, EventStore, Page, Tables
from tidetable.query.answer import Answer, AnswerPage
from tidetable.query.cursor import Position, encode_cursor
from tidetable.query.explain import explained
from tidetable.query.fetch import AHEAD, Wanted, batches, first_asked
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Plan, Stage, plan_query
from tidetable.query.rows import Quick, Row, archived_rows, complete, earlier_items, row_of, shown

# So many archives are read at once: each is a function of its own, with pyarrow to load.
_ARCHIVES = 2
# Seconds kept for merging and encoding.
RESERVE = 3.0


@dataclass(slots=True)
class Reader:
    """What queries need."""

    catalog: CatalogReader
    store: EventStore
    archive: ArchiveReader
    unpacker: Unpacker


class _Vanished(Exception):
    """A table went while it was read: it may just have been archived."""


class _Begun(NamedTuple):
    """A stage and its first pages, or the future of its archive's."""

    stage: Stage
    asked: Sequence[Asked]
    pages: Sequence[Page]
    archived: Future[ArchivePage] | None


def run_query(query: Query, stream: Stream, reader: Reader, now: datetime, remaining: Callable[[], float]) -> Answer:
    """Answer a page. A table that vanishes meanwhile is looked up once more in the catalog, then reported as a gap."""
    entries = reader.catalog.entries(stream.name, query.start, query.end, consistent=query.consistent)
    try:
        return _Run(query, reader, remaining).answer(plan_query(query, entries), now)
    except _Vanished:
        entries = reader.catalog.entries(stream.name, query.start, query.end, consistent=True)
        return _Run(query, reader, remaining, forgiving=True).answer(plan_query(query, entries), now)


def explain_query(query: Query, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """What ``run_query`` would read, and about how much."""
    plan = plan_query(query, reader.catalog.entries(stream.name, query.start, query.end))
    live = {stage.entry.table for stage in plan.stages if stage.archive is None}
    with ThreadPoolExecutor(AHEAD) as pool:
        described = dict(zip(live, pool.map(tables.describe, live), strict=True))
    return explained(query, plan, described, now)


class _Run:
    """One pass over a plan."""

    def __init__(
        self, query: Query, reader: Reader, remaining: Callable[[], float], *, forgiving: bool = False
    ) -> None:
        self._query = query
        self._reader = reader
        self._remaining = remaining
        self._forgiving = forgiving
        self._periods: dict[str, Period] = {}
        self._missing: dict[str, Gap] = {}
        self._answer = Answer()
        self._wanted = Wanted(query.limit + 1, filtered=False)
        shape = query.shape
        # What is shown as it is stored need not become Python's values on the way.
        self._quick = query.where is None and not (shape.fields or shape.cold or shape.versions)

    def answer(self, plan: Plan, now: datetime) -> Answer:
        """Read stages until the page is full, the time is up or the plan ends."""
        query = self._query
        page = AnswerPage(query)
        self._periods = {stage.entry.table: stage.entry.period for stage in plan.stages}
        for stage, batch in self._batches(plan.stages):
            if batch is None:
                return self._finish(page, plan, now, _edge(stage, ascending=query.ascending))
            filters = stage.filters(query)
            if isinstance(batch, Quick):
                full = page.take_quick(batch.of_series(query.series) if filters and query.series else batch)
            else:
                full = page.take(row for row in batch if not filters or self._wants(row, stage))
            if full:
                return self._finish(page, plan, now, page.position)
            # An event with its versions may be more than the limit, all by itself.
            self._wanted.count = max(query.limit + 1 - page.count, 1)
            read = len(batch.items if isinstance(batch, Quick) else batch)
            if read and self._remaining() < RESERVE:
                last = batch.position(-1) if isinstance(batch, Quick) else batch[-1].position
                return self._finish(page, plan, now, last)
        return self._finish(page, plan, now, None)

    def _wants(self, row: Row, stage: Stage) -> bool:
        """Whether a row meets what key ranges alone do not decide."""
        query = self._query
        if query.series is not None and row.names[1] != query.series:
            return False
        return query.where is None or stage.indexed or query.wants(row.event)

    def _finish(self, page: AnswerPage, plan: Plan, now: datetime, position: Position | None) -> Answer:
        query, answer = self._query, self._answer
        try:
            complete(page.rows, self._reader.unpacker, query.shape)
        except TableMissing as error:
            raise _Vanished from error
        answer.parts = [
            part.texts(query.stream) if isinstance(part, Quick) else shown(part, query.stream, query.shape)
            for part in page.parts
        ]
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
                consistent=query.consistent,
            )
        # What is yet to come is no gap.
        gaps = [*plan.gaps, *self._missing.values()]
        answer.gaps = sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)
        return answer

    def _batches(self, stages: Sequence[Stage]) -> Iterator[tuple[Stage, list[Row] | Quick | None]]:
        """The rows of the stages in order, in batches; None in place of rows where the time was up before a stage.

        Stages are begun one, then two, then four at a time: a page that the first fills costs no reads elsewhere, and a
        long empty range is not walked step by step.
        """
        begun: deque[_Begun] = deque()
        ahead = 1
        pool = ThreadPoolExecutor(_ARCHIVES)
        try:
            for number, stage in enumerate(stages):
                if number and self._remaining() < RESERVE:
                    yield stage, None
                    return
                if not begun:
                    begun.extend(self._begin(stages[number : number + ahead], pool))
                    ahead = min(2 * ahead, AHEAD)
                one = begun.popleft()
                if one.archived is not None:
                    first = self._awaited(one.archived)
                    if first is None and not number:
                        raise StoreUnavailable("no answer", f"the archive of {stage.entry.period.label} is slow")
                    if first is None:
                        yield stage, None
                        return
                    yield from ((stage, batch) for batch in self._archived(stage, first))
                else:
                    yield from ((stage, rows) for rows in self._live(one))
        finally:
            # A full page does not wait for what was read ahead.
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, stages: Sequence[Stage], pool: ThreadPoolExecutor) -> list[_Begun]:
        """The first pages of some stages, all at once."""
        archived = [pool.submit(self._read, stage.archive) if stage.archive is not None else None for stage in stages]
        asked = [first_asked(stage.ranges, self._wanted.count) for stage in stages]
        pages = iter(self._fetch([one for some in asked for one in some]))
        return [
            _Begun(stage, some, [next(pages) for _ in some], future)
            for stage, some, future in zip(stages, asked, archived, strict=True)
        ]

    def _fetch(self, asked: Sequence[Asked]) -> list[Page]:
        """The pages of some ranges; a range of a table that went has none, if that is to be forgiven."""
        query = self._query
        store, options = self._reader.store, {"ascending": query.ascending, "consistent": query.consistent}
        pages = store.query_many(asked, quick=self._quick, **options) if asked else ()
        found: list[Page] = []
        for one, page in zip(asked, pages, strict=True):
            self._answer.requests += 1
            if page is None and not self._forgiving:
                raise _Vanished
            if page is None:
                period = self._periods[one.keys.table]
                self._missing[one.keys.table] = Gap(period.start, period.end, "table missing")
            else:
                self._answer.units += page.units
            found.append(page or Page((), more=False))
        return found

    def _live(self, begun: _Begun) -> Iterator[list[Row] | Quick]:
        stage, query = begun.stage, self._query
        if not begun.asked:
            return
        self._wanted.filtered = stage.filters(query)
        for items in batches(begun.asked, begun.pages, self._fetch, self._wanted, ascending=query.ascending):
            yield self._rows(items, stage)

    def _rows(self, items: Sequence[Item], stage: Stage) -> list[Row] | Quick:
        """The rows of a batch, with what a filter or the versions asked for need of them."""
        query, unpacker, entry = self._query, self._reader.unpacker, stage.entry
        if self._quick and all("json" in item for item in items):
            return Quick(entry, items)
        # One large value makes its page come the long way, and what is merged with that page goes it, too.
        items = [{**item, "data": decode_json(item["json"])} if "json" in item else item for item in items]
        if query.where is not None and not stage.indexed and any("out" in item for item in items):
            items = unpacker.whole(items, entry.table, cold=False).items
        items = [unpacker.eased(item) for item in items]
        if not (query.shape.versions and entry.layout.versioned):
            return [row_of(item, entry, query.shape) for item in items]
        earlier = earlier_items(items, entry.table, self._reader.store)
        return [
            row_of(
                item,
                entry,
                query.shape,
                [unpacker.eased(one) for one in earlier.get(Key(item["pk"], item["sk"]), ())],
            )
            for item in items
        ]

    def _read(self, keys: ArchiveRange) -> ArchivePage:
        return self._reader.archive.read(keys, limit=self._wanted.count, ascending=self._query.ascending)

    def _awaited(self, first: Future[ArchivePage]) -> ArchivePage | None:
        """An archive's first page; None if it does not come in time: its reader may have to start first."""
        try:
            return first.result(timeout=max(self._remaining() - RESERVE, 0.1))
        except TimeoutError:
            return None

    def _archived(self, stage: Stage, first: ArchivePage) -> Iterator[list[Row]]:
        keys, layout = stage.archive, stage.entry.layout
        page = first
        while keys is not None:
            self._answer.requests += 1
            rows = list(archived_rows(page.events, page.versions, stage.entry))
            yield rows
            if not page.more:
                return
            if rows:
                last = rows[-1].event
                keys = replace(keys, after=layout.sort_key(last.time, last.series, last.id))
            page = self._read(keys)


def _edge(stage: Stage, *, ascending: bool) -> Position:
    """The bare instant up to which everything was read before a stage."""
    return Position(stage.start if ascending else stage.end)


def find_entry(entries: Sequence[Entry], label: str) -> Entry | None:
    """The entry of a period's label."""
    return next((entry for entry in entries if entry.period.label == label), None)
