"""The use case of a query: answer a page of events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial

from tidetable.conditions import ANY
from tidetable.config import Stream
from tidetable.problems import ProblemError, refuse_request
from tidetable.query.batches import TimeUp
from tidetable.query.hydrate import complete_rows
from tidetable.query.merge import Demand
from tidetable.query.model import Position, Query, Reader
from tidetable.query.page import Events, EventsPage
from tidetable.query.plan import PagePlan, plan_page
from tidetable.query.read import read_again, read_scans
from tidetable.query.scans import Scan, find_visible_gaps
from tidetable.query.session import ReadPass, ReadSession
from tidetable.remaining import Remaining
from tidetable.times import MOMENT


def run_query(query: Query, stream: Stream, reader: Reader, now: datetime, remaining: Remaining) -> Events:
    """Answer a page: read scans until the page is full, the time is up or the plan ends."""

    def read(plan: PagePlan, forgiving: bool) -> Events:
        session = ReadSession(reader, remaining, forgiving)
        work, page = ReadPass(query, session, Demand(query.limit + 1, filtered=False)), EventsPage(query.limit)
        position = _fill_page(page, work, plan.scans)
        if position is None and plan.stops:
            position = find_stop(query, page, Position(plan.stops[0]))
        if not page.count and position is not None and not _is_ahead(query, position):
            raise _refuse_slow(query)
        rows = [row for rows in page.rows for row in rows.rows]
        losses = complete_rows(rows, session) if rows else []
        # The scans that were begun ahead may have passed gaps of the next page.
        gaps = [
            gap
            for gap in plan.gaps
            if position is None or (gap.start < position.time if query.ascending else position.time < gap.end)
        ]
        gaps += session.gaps
        return Events(
            stream=query.stream,
            rows=page.rows,
            next=None if position is None else reader.seal.seal(query.make_cursor(position)),
            gaps=find_visible_gaps(gaps, now) if gaps else [],
            cost=session.cost,
            sources=list(session.sources.values()),
            data_losses=[*losses, *session.hidden_losses],
            projection=query.projection,
            declared=stream.archive.columns,
            make_cursor=lambda position: reader.seal.seal(query.make_cursor(position)),
        )

    return read_again(partial(plan_page, reader.catalog, query), read, consistent=query.consistent)


def _is_ahead(query: Query, position: Position) -> bool:
    """True if a position lies after the beginning of the query in its order, so that the next page reads less."""
    begin = query.after or Position(query.start if query.ascending else query.end)
    return position > begin if query.ascending else position < begin


def _refuse_slow(query: Query) -> ProblemError:
    """Make the error 422 for a page whose time ends before its first event is known: a retry does not help."""
    how = "ask with order=desc, which settles events sooner, or" if query.ascending else "narrow from and to, or"
    detail = (
        "an event in packs is settled when all packs of one span after it are read, and a request has too little time or"
        f" memory for the packs of one span here: {how} set a shorter span in [streams.{query.stream}.pack], which holds"
        " for the next tables"
    )
    return refuse_request(422, "too_much", detail)


def _fill_page(page: EventsPage, work: ReadPass, scans: Iterable[Scan]) -> Position | None:
    """Fill a page; return the position where the next page begins, None at the end of the range."""
    query, session = work.query, work.session
    for batch in read_scans(work, scans):
        if isinstance(batch, TimeUp):
            return find_stop(query, page, batch.reached)
        for rows in batch.rows:
            if not page.take(rows):
                return page.position
        # A single event with its versions may exceed the limit.
        work.demand.count = max(query.limit + 1 - page.count, 1)
        if batch.reached is not None and not session.has_time:
            return find_stop(query, page, batch.reached)
    return None


def find_stop(query: Query, page: EventsPage, reached: Position | None) -> Position | None:
    """Find the position of the next page, if the time is up after ``reached``.

    If the query selects names, ``reached`` may be an event that its caller may not read. Whoever follows the cursor and
    writes events around this position learns the position, although the cursor is sealed. So the page goes back to a
    whole second or to its own last event. Without either, it goes back to a time without names. It never goes back to
    its beginning, because a walk must advance.
    """
    if reached is None or query.names == ANY:
        return reached
    ascending = query.ascending
    shown = page.position if page.rows else query.after or Position(query.start if ascending else query.end)
    # A position without names lies before all events of its time. So in descending order it is the next instant.
    instant = reached.time + MOMENT if reached.id and not ascending else reached.time
    second = instant.replace(microsecond=0)
    if not ascending and second < instant:
        second += timedelta(seconds=1)

    def is_further(position: Position) -> bool:
        return position > shown if ascending else position < shown

    if is_further(Position(second)):
        return Position(second)
    if page.rows:
        return page.position
    return Position(instant) if is_further(Position(instant)) else reached
