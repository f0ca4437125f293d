"""Compute listings from cells of rollups or, for the rest of the range, from events.

Each page reads its whole range, because cells are in the order of time. Memory holds only the names of one page,
however many the range has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from tidetable.config import Stream
from tidetable.durations import Duration
from tidetable.forms.field_columns import DATA, FieldColumns
from tidetable.ports import RollupState, Tables
from tidetable.ports.rollups import Span
from tidetable.problems import ProblemError, refuse_request
from tidetable.query.batches import TimeUp
from tidetable.query.indexed_series import Stretch
from tidetable.query.listings.listing_page import Listed, show_row
from tidetable.query.listings.listing_parameters import Listing, find_place, refuse_unrolled
from tidetable.query.listings.names import NameCollector, SeenTimes
from tidetable.query.listings.sightings import list_of_cells, list_of_events, make_widener
from tidetable.query.model import Query, Reader
from tidetable.query.read import read_again
from tidetable.query.rollup_sources import choose_by_state, list_definitions
from tidetable.query.scans import find_visible_gaps
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

    Raises ProblemError if no rollup can answer it, or if reading its range takes too long.
    """
    listing = _resolve_range(listing, stream, reader, now)

    def read(chosen: tuple[Choice, list[Definition]], forgiving: bool) -> Listed:
        choice, versions = chosen
        session = ReadSession(reader, remaining, forgiving)
        run = _Run(listing, stream, session)
        if reader.access.series_prefix:
            run.widen = make_widener(versions)
        run.read_sections(choice.sections)
        names = run.names.list_sorted()
        shown = names[: listing.limit]
        has_more = len(names) > len(shown) or run.names.has_dropped
        return Listed(
            name=listing.kind,
            rows=[show_row(listing, record) for _, record in shown],
            next=reader.seal.seal(listing.make_cursor(shown[-1][0])) if has_more else None,
            gaps=find_visible_gaps([*choice.gaps, *session.gaps], now),
            cost=session.cost,
            sources=list(session.sources.values()),
            data_losses=session.hidden_losses,
            stream=listing.stream,
            # The rollups, not the request, may decide where the range begins.
            extras={"from": to_text(listing.query.start), "to": to_text(listing.query.end)},
            listing=listing,
            reader=reader,
            places=[place for place, _ in shown],
        )

    return read_again(partial(_choose_sections, listing, stream, reader), read, consistent=listing.query.consistent)


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
    if not listing.whole or listing.after is not None:
        return listing
    state = reader.rolled.rollups.read_state(query.stream)
    starts = []
    for definition in fitting:
        # A bucket with a mark counts, too: the beginning does not move if a late event arrives in the first bucket.
        sealed = [(version.start, version.end) for version in _list_versions(listing, definition, state)]
        starts += _find_first_readable(definition.stream, sealed, query.end, reader)
    start = max(min(starts, default=min(now, query.end) - Duration(hours=1)), query.start)
    return msgspec.structs.replace(listing, query=msgspec.structs.replace(query, start=start))


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

    def __init__(self, listing: Listing, stream: Stream, session: ReadSession) -> None:
        self._listing = listing
        self._cold = stream.cold
        self._session = session
        self.names = NameCollector(listing.limit, listing.place)
        # The noted series, each with the first and the last period in which it is noted.
        self._noted: dict[str, tuple[SeenTimes, SeenTimes]] = {}
        self.sections = SectionReader(session)
        self.widen: Callable[[SeenTimes], SeenTimes] | None = None

    def read_sections(self, sections: Iterable[Section]) -> None:
        """Read all sections. Raises ProblemError if the time is not enough."""
        for section in sections:
            if self.sections.has_begun and not self._session.has_time:
                raise _refuse_slow()
            # A note says only that a series has events in the period, not in the section. A key with a prefix reads the
            # events of its few series: its answer must not depend on marks, which other series cause.
            if section.stretch is not None and self._listing.kind == "series" and self.widen is None:
                self._read_notes(section.query, section.stretch)
                continue
            for columns in self._read_section(section):
                if section.definition is None:
                    sightings = list_of_events(self._listing, columns)
                else:
                    sightings = list_of_cells(self._listing, columns, section.definition)
                for value, sighting in sightings:
                    self._add_sighting(value, sighting)
        self._add_noted()

    def _read_section(self, section: Section) -> Iterator[FieldColumns]:
        """Read a section as columns. Raises ProblemError if the time is not enough."""
        needed = self._listing.needed
        for batch in self.sections.read(section, (DATA,) if needed is None else (needed,)):
            if isinstance(batch, TimeUp):
                raise _refuse_slow()
            if len(batch.columns):
                yield batch.columns

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
    detail = "the time does not suffice: each page reads the whole range. Set from and to for a shorter range"
    return refuse_request(422, "too_much", f"{detail}, or add a rollup with a longer every")
