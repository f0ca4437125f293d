"""The use case of a query: stages read a few at a time, their partitions at once, merged lazily up to the limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
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
from tidetable.query.cursor import Position, Seal
from tidetable.query.explain import explained
from tidetable.query.fetch import AHEAD, Wanted, batches, first_asked
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Plan, Stage, plan_query
from tidetable.query.rows import Quick, Row, archived_rows, complete, earlier_items, row_of, shown
from tidetable.values import item_bytes

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
    seal: Seal


class _Vanished(Exception):
    """A table went while it was read: it may just have been archived."""


class _Batch(NamedTuple):
    """Rows of a stage in order, and the place up to which everything was read, if the stage goes on after it."""

    stage: Stage
    rows: list[Row] | Quick | None
    reached: Position | None


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
        self._quick = not (shape.fields or shape.cold or shape.versions)

    def answer(self, plan: Plan, now: datetime) -> Answer:
        """Read stages until the page is full, the time is up or the plan ends."""
        query = self._query
        page = AnswerPage(query)
        self._periods = {stage.entry.table: stage.entry.period for stage in plan.stages}
        sources = self._answer.sources
        for stage, batch, reached in self._batches(plan.stages):
            if batch is None:
                return self._finish(page, plan, now, reached)
            if not sources or sources[-1] is not stage:
                sources.append(stage)
            by_series = query.series is not None and stage.by_series(query)
            if isinstance(batch, Quick):
                full = page.take_quick(batch.of_series(query.series or "") if by_series else batch)
            else:
                full = page.take(row for row in batch if not by_series or row.names[1] == query.series)
            if full:
                return self._finish(page, plan, now, page.position)
            # An event with its versions may be more than the limit, all by itself.
            self._wanted.count = max(query.limit + 1 - page.count, 1)
            if reached is not None and self._remaining() < RESERVE:
                return self._finish(page, plan, now, reached)
        return self._finish(page, plan, now, None)

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
            answer.next = self._reader.seal.seal(query.cursor(position))
        # What is yet to come is no gap.
        gaps = [*plan.gaps, *self._missing.values()]
        answer.gaps = sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)
        return answer

    def _batches(self, stages: Sequence[Stage]) -> Iterator[_Batch]:
        """The rows of the stages in order, in batches; None in place of rows where the time was up before a stage.

        Stages are begun one, then two, then four at a time: a page that the first fills costs no reads elsewhere, and a
        long empty range is not walked step by step.
        """
        begun: deque[_Begun] = deque()
        ahead = 1
        pool = ThreadPoolExecutor(_ARCHIVES)
        try:
            for number, stage in enumerate(stages):
                edge = Position(stage.start if self._query.ascending else stage.end)
                if number and self._remaining() < RESERVE:
                    yield _Batch(stage, None, edge)
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
                        yield _Batch(stage, None, edge)
                        return
                    yield from self._archived(stage, first)
                else:
                    yield from self._live(one)
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
        ask = partial(self._reader.store.query_many, ascending=query.ascending, consistent=query.consistent)
        pages = ask(asked, quick=self._quick) if asked else ()
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
                self._answer.read += page.read
            found.append(page or Page((), more=False))
        return found

    def _live(self, begun: _Begun) -> Iterator[_Batch]:
        stage, query = begun.stage, self._query
        if not begun.asked:
            return
        self._wanted.filtered = bool(stage.filtered_by(query))
        for items, edge in batches(begun.asked, begun.pages, self._fetch, self._wanted, ascending=query.ascending):
            reached = None if edge is None else stage.position_of(edge, query)
            # What an index does not hold is got for no more events than are wanted.
            while stage.fetches and len(items) > self._wanted.count:
                some, items = items[: self._wanted.count], items[self._wanted.count :]
                place = stage.position_of(some[-1][stage.place], query)
                yield _Batch(stage, self._rows(self._fetched(some, stage), stage), place)
            yield _Batch(stage, self._rows(self._fetched(items, stage) if stage.fetches else items, stage), reached)

    def _fetched(self, items: Sequence[Item], stage: Stage) -> Sequence[Item]:
        """The items of an index as they are in the table, where they may have changed, or gone, since."""
        keys = [Key(item["pk"], item["sk"]) for item in items]
        if not keys:
            return items
        self._answer.requests += -(-len(keys) // 100)
        try:
            found = self._reader.store.get_many(stage.entry.table, keys, consistent=False)
        except TableMissing as error:
            raise _Vanished from error
        # AWS: half a unit for each 4 KB of each item.
        self._answer.units += sum(-(-item_bytes(item) // 4096) / 2 for item in found.values())
        return [found[key] for key in keys if key in found]

    def _rows(self, items: Sequence[Item], stage: Stage) -> list[Row] | Quick:
        """The rows of a batch, with what a filter or the versions asked for need of them."""
        query, unpacker, entry = self._query, self._reader.unpacker, stage.entry
        if self._quick and all("json" in item for item in items):
            return Quick(entry, items)
        # One large value makes its page come the long way, and what is merged with that page goes it, too.
        items = [{**item, "data": decode_json(item["json"])} if "json" in item else item for item in items]
        if stage.index is not None and stage.index.project is not None and not stage.fetches:
            items = [{"pk": one["pk"], "sk": one["sk"], "data": one.get(stage.index.copy, {})} for one in items]
        if stage.conditions and any("out" in item for item in items):
            items = unpacker.whole(items, entry.table, cold=False).items
        items = [unpacker.eased(item) for item in items]
        if stage.conditions:
            # The service cannot tell of data that is kept apart, or compressed.
            items = [item for item in items if all(one.holds(item.get("data", {})) for one in stage.conditions)]
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

    def _archived(self, stage: Stage, first: ArchivePage) -> Iterator[_Batch]:
        keys, layout = stage.archive, stage.entry.layout
        page = first
        while keys is not None:
            self._answer.requests += 1
            self._answer.read += len(page.events)
            rows = list(archived_rows(page.events, page.versions, stage.entry))
            reached = page.reached
            if reached is None and rows:
                last = rows[-1].event
                reached = layout.sort_key(last.time, last.series, last.id)
            place = None if reached is None or not page.more else stage.position_of(reached, self._query)
            yield _Batch(stage, rows, place)
            if not page.more:
                return
            keys = replace(keys, after=reached or keys.after)
            page = self._read(keys)


def find_entry(entries: Sequence[Entry], label: str) -> Entry | None:
    """The entry of a period's label."""
    return next((entry for entry in entries if entry.period.label == label), None)
