"""Compute listings from cells of rollups or, for the rest of the range, from events.

A page reads its whole range, because cells are in the order of time, and keeps the names for the pages after it
(``kept``). Memory holds at most ``MOST_NAMES`` names and half as many more, however many the range has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from tidetable.config import Stream
from tidetable.durations import Duration
from tidetable.forms.field_columns import DATA
from tidetable.ports import RollupState, Tables
from tidetable.ports.rollups import Span
from tidetable.problems import ProblemError, refuse_request
from tidetable.query.batches import TimeUp
from tidetable.query.indexed_series import Stretch
from tidetable.query.listings.kept import MOST_NAMES, KeptNames, find_kept, is_worth_keeping
from tidetable.query.listings.listing_page import Listed
from tidetable.query.listings.listing_parameters import Listing, find_place, refuse_unrolled
from tidetable.query.listings.names import NameCollector, SeenTimes
from tidetable.query.listings.sightings import CellReader, list_of_events, make_widener
from tidetable.query.model import Cost, Query, Reader
from tidetable.query.read import read_again
from tidetable.query.rollup_sources import choose_by_state, list_definitions
from tidetable.query.scans import Gap, find_visible_gaps
from tidetable.query.sections import Choice, Section, SectionReader
from tidetable.query.session import ReadSession
from tidetable.remaining import Remaining
from tidetable.rollup_model.cover import (
    DefinitionVersion,
    find_readable_spans,
    intersect_spans,
    list_versions,
)
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text


def find_listing(listing: Listing, stream: Stream, reader: Reader, now: datetime, remaining: Remaining) -> Listed:
    """Answer a page of a listing.

    If the time is up before its range is read, the page has no rows, and its cursor goes on. Raises ProblemError if no
    rollup can answer it, or if the time is not enough to go on.
    """
    listing = _resolve_range(listing, stream, reader, now)
    kept = find_kept(listing, reader, now)
    if kept is not None and kept.reached is None:
        page = _show_kept(listing, kept, reader)
        if page is not None:
            return page
        kept = None
    part = listing if kept is None or kept.reached is None else _begin_at(listing, kept.reached)

    def read(chosen: tuple[Choice, list[Definition]], forgiving: bool) -> Listed:
        choice, versions = chosen
        session = ReadSession(reader, remaining, forgiving)
        run = _Run(part, stream, session, kept)
        if reader.access.series_prefix:
            run.widen = make_widener(versions)
        stopped = run.read_sections(choice.sections)
        gaps = dict.fromkeys([*(kept.gaps if kept else ()), *choice.gaps, *session.gaps])
        page = _make_page(listing, reader, session.cost, find_visible_gaps(gaps, now), kept)
        page.sources, page.data_losses = list(session.sources.values()), session.hidden_losses
        names, is_whole = run.names.list_sorted(), not run.names.has_dropped
        shown = [] if stopped else names[: listing.limit]
        if stopped is None and is_whole and len(shown) == len(names):
            return page.show(shown, listing, has_more=False)
        name = ""
        if not listing.query.consistent and (stopped or kept or is_worth_keeping(session.cost, reader)):
            found = KeptNames(now, reader.access.series_prefix, stopped, is_whole, list(page.gaps), page.list_sources())
            name = found.put(names, listing, reader)
            session.cost.requests += 1
        if stopped and not name:
            raise _refuse_slow()
        return page.show(shown, msgspec.structs.replace(listing, kept=name), has_more=True)

    return read_again(partial(_choose_sections, part, stream, reader), read, consistent=listing.query.consistent)


def _show_kept(listing: Listing, kept: KeptNames, reader: Reader) -> Listed | None:
    """Show a page of the names that an earlier page found; None if they have no further name."""
    names = kept.list_names(listing.place, listing.limit + 1, reader)
    if not names:
        return None
    page = _make_page(listing, reader, Cost(requests=1), kept.gaps, kept)
    has_more = len(names) > listing.limit or not kept.is_whole
    return page.show(names[: listing.limit], listing, has_more=has_more)


def _make_page(listing: Listing, reader: Reader, cost: Cost, gaps: Sequence[Gap], kept: KeptNames | None) -> Listed:
    """Make a page without rows and without sources of its own."""
    # The rollups, not the request, may decide where the range begins.
    extras = {"from": to_text(listing.query.start), "to": to_text(listing.query.end)}
    earlier = kept.sources if kept else ()
    return Listed(
        name=listing.kind,
        rows=[],
        next=None,
        gaps=gaps,
        cost=cost,
        sources=(),
        stream=listing.stream,
        extras=extras,
        listing=listing,
        reader=reader,
        earlier=earlier,
    )


def _begin_at(listing: Listing, start: datetime) -> Listing:
    return msgspec.structs.replace(listing, query=msgspec.structs.replace(listing.query, start=start))


def explain_listing(listing: Listing, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """Describe what each page of a listing would read, and estimate the cost."""
    listing = _resolve_range(listing, stream, reader, now)
    choice, _ = _choose_sections(listing, stream, reader, consistent=False)
    return choice.explain(listing.query, stream, reader, tables, now)


def _resolve_range(listing: Listing, stream: Stream, reader: Reader, now: datetime) -> Listing:
    """Return the listing with the beginning of its range: without ``from``, the first bucket that a rollup answers.

    If no rollup that fits has sealed a bucket yet, the range is the last hour. Raises ProblemError if no rollup fits.
    """
    query = listing.query
    fitting = [
        definition for definition in list_definitions(query.stream, reader) if listing.find_misfit(definition) is None
    ]
    if reader.copies is not None:
        raise reader.copies.refuse_listing(listing.kind)
    if reader.rolled is None or not fitting:
        raise refuse_unrolled(listing, stream)
    if not listing.whole or listing.after is not None or listing.kept:
        return listing
    state = reader.rolled.rollups.read_state(query.stream)
    starts = []
    for definition in fitting:
        # A bucket with a mark counts, too: the beginning does not move if a late event arrives in the first bucket.
        sealed = [(version.start, version.end) for version in _list_versions(listing, definition, state)]
        starts += _find_first_readable(definition.stream, sealed, query.end, reader)
    start = max(min(starts, default=min(now, query.end) - Duration(hours=1)), query.start)
    return _begin_at(listing, start)


def _find_first_readable(stream: str, spans: Sequence[Span], end: datetime, reader: Reader) -> list[datetime]:
    """Find, as the only element, the first instant of some spans before ``end`` of which a stream can be read."""
    start = min((first for first, _ in spans), default=end)
    if start < end:
        for entry in reader.catalog.walk(stream, start, end, ascending=True):
            found = intersect_spans(spans, find_readable_spans([entry]))
            if found:
                return [first for first, _ in found[:1] if first < end]
    return []


def _list_versions(listing: Listing, definition: Definition, state: RollupState) -> list[DefinitionVersion]:
    """List the versions of a rollup whose cells can answer the listing."""
    return [version for version in list_versions(definition, state) if listing.find_misfit(version.definition) is None]


def _choose_sections(
    listing: Listing, stream: Stream, reader: Reader, *, consistent: bool
) -> tuple[Choice, list[Definition]]:
    """Choose the sources of a listing. Return also the present and former definitions that can answer it."""
    assert reader.rolled is not None  # noqa: S101 - _resolve_range has checked this
    state = reader.rolled.rollups.read_state(listing.stream, (listing.query.start, listing.query.end))
    find_misfit = listing.find_misfit
    choice = choose_by_state(listing.query, stream, state, reader, find_misfit, consistent=consistent)
    present = list_definitions(listing.stream, reader)
    former = [version.definition for name in present for version in _list_versions(listing, name, state)]
    return choice, [definition for definition in (*present, *former) if find_misfit(definition) is None]


class _Run:
    """One pass over the sections of a range."""

    def __init__(self, listing: Listing, stream: Stream, session: ReadSession, kept: KeptNames | None) -> None:
        self._listing = listing
        self._cold = stream.cold
        self._session = session
        most = 0 if listing.query.consistent else MOST_NAMES
        self.names = NameCollector(max(listing.limit + 1, most), listing.place)
        if kept is not None:
            found = kept.list_names(listing.place, sys.maxsize, session.reader)
            self.names.resume(found, is_whole=kept.is_whole)
        # The noted series, each with the first and the last period in which it is noted.
        self._noted: dict[str, tuple[SeenTimes, SeenTimes]] = {}
        self.sections = SectionReader(session)
        self.widen: Callable[[SeenTimes], SeenTimes] | None = None

    def read_sections(self, sections: Iterable[Section]) -> datetime | None:
        """Read all sections, or until the time is up; return the instant up to which they were read, None if all were.

        Raises ProblemError if the time was not enough to go on.
        """
        for section in sections:
            if self.sections.has_begun and not self._session.has_time:
                return self._stop(section.start)
            # A note says only that a series has events in the period, not in the section. A key with a prefix reads the
            # events of its few series: its answer must not depend on marks, which other series cause.
            if section.stretch is not None and self._listing.kind == "series" and self.widen is None:
                self._read_notes(section.query, section.stretch)
                continue
            reached = self._read_section(section)
            if reached is not None:
                return self._stop(reached)
        self._add_noted()
        return None

    def _stop(self, reached: datetime) -> datetime:
        """End a reading whose time is up. The next page reads again from ``reached`` on."""
        if reached <= self._listing.query.start or self._noted:
            raise _refuse_slow()
        return reached

    def _read_section(self, section: Section) -> datetime | None:
        """Read a section; return the instant up to which it was read if the time was up, None if it was read."""
        needed, definition = self._listing.needed, section.definition
        cells = None if definition is None else CellReader(self._listing, definition)
        stopped = None
        for batch in self.sections.read(section, (DATA,) if needed is None else (needed,)):
            if isinstance(batch, TimeUp):
                reached = section.start if batch.reached is None else batch.reached.time
                # Cells are read again from the beginning of a bucket on.
                stopped = max(section.start, definition.floor(reached) if definition else reached)
            elif len(batch.columns):
                columns = batch.columns
                self._add_sightings(cells.read(columns) if cells else list_of_events(self._listing, columns))
        if cells:
            self._add_sightings(cells.list_rest())
        return stopped

    def _add_noted(self) -> None:
        """Take the noted series that were in no event and in no cell: events and cells have more precise times."""
        for series, periods in self._noted.items():
            place = find_place(series)
            if place is not None and not self.names.holds(place):
                for sighting in periods:
                    self._add_sighting(series, sighting)

    def _read_notes(self, query: Query, stretch: Stretch) -> None:
        """Take a period's noted series: each of them has an event in the period.

        Reading events would cost a request per series and suffix.
        """
        noted = self.sections.read_noted(query, stretch)
        period = stretch.entry.period
        within = str(Duration(seconds=(period.end - period.start) // Duration(seconds=1)))
        sighting = SeenTimes(to_text(period.start), to_text(period.end), within)
        for series in noted.series:
            first, _ = self._noted.get(series, (sighting, sighting))
            self._noted[series] = first, sighting

    def _add_sightings(self, sightings: Iterable[tuple[Any, SeenTimes]]) -> None:
        for value, seen in sightings:
            self._add_sighting(value, seen)

    def _add_sighting(self, value: Any, seen: SeenTimes) -> None:
        listing = self._listing
        if listing.prefix and not (isinstance(value, str) and value.startswith(listing.prefix)):
            return
        if listing.kind == "fields" and value in self._cold:
            # A rollup does not know all cold fields, so cold fields are not listed.
            return
        place = find_place(value)
        if place is not None:
            self.names.add(place, value, seen if self.widen is None else self.widen(seen))


def _refuse_slow() -> ProblemError:
    """Make the error 422 for a listing that cannot go on in the time of a request."""
    detail = "the time does not suffice to read the range. Set from and to for a shorter range"
    return refuse_request(422, "too_much", f"{detail}, or add a rollup with a longer every")
