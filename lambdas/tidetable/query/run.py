"""The use case of a query: a page of events, and what it would cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import TableMissing
from tidetable.events import Item
from tidetable.ports import Table, Tables
from tidetable.query.answer import Answer, AnswerPage, Texts
from tidetable.query.cursor import Position
from tidetable.query.explain import explained
from tidetable.query.fetch import AHEAD
from tidetable.query.params import Query
from tidetable.query.plain import PlainRows
from tidetable.query.plan import Gap, Plan, Stage, plan_query
from tidetable.query.read import RESERVE, Batch, Reader, Remaining, StageReader, Vanished
from tidetable.query.rows import Row, archived_rows, complete, row_of, shown
from tidetable.query.versions import rows_with_versions

_Found = TypeVar("_Found")


def run_query(query: Query, stream: Stream, reader: Reader, now: datetime, remaining: Remaining) -> Answer:
    """Answer a page."""
    return planned(
        query,
        stream,
        reader,
        lambda plan, forgiving: _Run(query, reader, remaining, forgiving=forgiving).answer(plan, now),
    )


def planned(query: Query, stream: Stream, reader: Reader, run: Callable[[Plan, bool], _Found]) -> _Found:
    """Plan a query and run it. A table that vanishes meanwhile is looked up once more in the catalog, then forgiven."""
    entries = reader.catalog.entries(stream.name, query.start, query.end, consistent=query.consistent)
    try:
        return run(plan_query(query, entries), False)
    except Vanished:
        entries = reader.catalog.entries(stream.name, query.start, query.end, consistent=True)
        return run(plan_query(query, entries), True)


def explain_query(
    query: Query, stream: Stream, reader: Reader, tables: Tables, now: datetime, *, whole: bool = False
) -> dict[str, Any]:
    """What ``run_query`` would read, and about how much; or, with ``whole``, what reads the range to its end."""
    plan = plan_query(query, reader.catalog.entries(stream.name, query.start, query.end))
    return explained(query, plan, described(plan.stages, tables), now, whole=whole)


def described(stages: Iterable[Stage], tables: Tables) -> dict[str, Table | None]:
    """The tables of some stages as DynamoDB describes them."""
    live = sorted({stage.entry.table for stage in stages if stage.archive is None})
    with ThreadPoolExecutor(AHEAD) as pool:
        return dict(zip(live, pool.map(tables.describe, live), strict=True))


class _Run:
    """One pass over a plan, up to a page."""

    def __init__(self, query: Query, reader: Reader, remaining: Remaining, *, forgiving: bool) -> None:
        self._query = query
        self._reader = reader
        self._remaining = remaining
        shape = query.shape
        # What is shown as it is stored need not become Python's values on the way.
        plain = not (shape.fields or shape.cold or shape.versions)
        self._stages = StageReader(query, reader, remaining, wanted=query.limit + 1, plain=plain, forgiving=forgiving)

    def answer(self, plan: Plan, now: datetime) -> Answer:
        """Read stages until the page is full, the time is up or the plan ends."""
        query, wanted = self._query, self._stages.wanted
        page = AnswerPage(query)
        for batch in self._stages.batches(plan.stages):
            reached = batch.reached
            if batch.unread:
                return self._finish(page, plan, now, reached)
            if batch.plain is not None:
                full = page.take_plain(PlainRows(batch.stage.entry, batch.plain))
            else:
                full = page.take(self._rows(batch))
            if full:
                return self._finish(page, plan, now, page.position)
            # An event with its versions may be more than the limit, all by itself.
            wanted.count = max(query.limit + 1 - page.count, 1)
            if reached is not None and self._remaining() < RESERVE:
                return self._finish(page, plan, now, reached)
        return self._finish(page, plan, now, None)

    def _finish(self, page: AnswerPage, plan: Plan, now: datetime, position: Position | None) -> Answer:
        query, stages = self._query, self._stages
        try:
            complete(page.rows, self._reader.unpacker, query.shape)
        except TableMissing as error:
            raise Vanished from error
        parts = [part if isinstance(part, Texts) else shown(part, query.stream, query.shape) for part in page.parts]
        following = None if position is None else self._reader.seal.seal(query.cursor(position))
        gaps = told_gaps([*plan.gaps, *stages.missing.values()], now)
        return Answer(parts, following, gaps, stages.cost, stages.sources, query.shape.fields)

    def _rows(self, batch: Batch) -> Iterable[Row]:
        """The rows of a batch, with the earlier versions of its events if they are asked for."""
        query, stage = self._query, batch.stage
        entry = stage.entry
        if batch.archived is not None:
            return list(archived_rows(batch.archived.events, batch.archived.versions, entry))
        items = batch.items or ()
        if not (query.shape.versions and entry.layout.versioned):
            return [row_of(item, entry, query.shape) for item in items]
        return self._with_versions(items, entry)

    def _with_versions(self, items: Sequence[Item], entry: Entry) -> Iterator[Row]:
        reader = self._reader
        try:
            yield from rows_with_versions(items, entry, self._query.shape, reader.store, reader.unpacker)
        except TableMissing as error:
            raise Vanished from error


def told_gaps(gaps: Sequence[Gap], now: datetime) -> list[Gap]:
    """The gaps of an answer, oldest first; what is yet to come is none."""
    return sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)


def find_entry(entries: Sequence[Entry], label: str) -> Entry | None:
    """The entry of a period's label."""
    return next((entry for entry in entries if entry.period.label == label), None)
