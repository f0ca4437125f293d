"""The parts of a range: which of them rollups answer, which the events, and why a rollup is not used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import Names
from tidetable.ports import RollupState
from tidetable.query.model import Query, Reader
from tidetable.query.plan import plan_query
from tidetable.query.scans import Gap, Plan
from tidetable.rollups.collect import make_query
from tidetable.rollups.cover import Segment, Usable, Version, cover, list_versions, readable_spans, usable_spans
from tidetable.rollups.definition import Definition

# The reason why a rollup's cells do not say what a query wants to know; None if they do.
FindMisfit = Callable[[Definition], str | None]


class Part(NamedTuple):
    """A part of a range, and how it is read: from a rollup, or (None) from the events."""

    start: datetime
    query: Query
    plan: Plan
    definition: Definition | None


class Choice(NamedTuple):
    """The parts of a range in the order of time; of each rollup why it is not used, None if it is."""

    parts: Sequence[Part]
    reasons: Mapping[str, str | None]

    @property
    def gaps(self) -> list[Gap]:
        """The gaps of all parts."""
        return [gap for part in self.parts for gap in part.plan.gaps]

    @property
    def plan(self) -> Plan:
        """All parts as one plan, to be explained."""
        return Plan([scan for part in self.parts for scan in part.plan.scans], self.gaps)

    def document(self) -> list[dict[str, Any]]:
        """The rollups as a plan shows them."""
        return [{"rollup": name, "used": reason is None, "reason": reason} for name, reason in self.reasons.items()]


def list_definitions(stream: str, reader: Reader) -> Sequence[Definition]:
    """The rollups of a stream."""
    return () if reader.rolled is None else reader.rolled.definitions.get(stream, ())


def read_events_alone(query: Query, entries: Sequence[Entry], reasons: Mapping[str, str | None]) -> Choice:
    """The choice of no rollup, for these reasons."""
    begin = query.start if query.after is None else query.after.time
    return Choice([Part(begin, query, plan_query(query, entries), None)], reasons)


def choose_by_state(
    query: Query,
    state: RollupState,
    reader: Reader,
    entries: Sequence[Entry],
    find_misfit: FindMisfit,
    *,
    consistent: bool,
) -> Choice:
    """Choose what a range is read from: the coarsest rollups that fit, and the events elsewhere.

    ``state`` was read before anything else: what is marked later was acknowledged later. ``entries`` are the stream's own. With
    ``consistent`` the catalog is read so for the rollups, too.
    """
    reasons: dict[str, str | None] = {}
    usable: list[Usable] = []
    entries_of = {query.stream: entries}
    for definition in list_definitions(query.stream, reader):
        reasons[definition.stream] = find_misfit(definition)
        versions = _fitting(definition, query, state, find_misfit)
        if versions:
            entries_of[definition.stream] = reader.catalog.entries(
                definition.stream, query.start, query.end, consistent=consistent
            )
            readable = readable_spans(entries_of[definition.stream])
            usable += [Usable(one.definition, usable_spans(one, state, readable)) for one in versions]
    # Of equally long buckets those with fewer groups are read.
    usable.sort(key=lambda one: (len(one.definition.by), len(one.definition.fields)))
    segments = cover(query.start if query.after is None else query.after.time, query.end, usable)
    used = {one.definition.stream for one in segments if one.definition is not None}
    for name, reason in reasons.items():
        if name in used:
            reasons[name] = None
        elif reason is None:
            reasons[name] = "no sealed bucket of it without a mark lies in the range, or a coarser rollup has them"
    if not used:
        return read_events_alone(query, entries, reasons)
    return Choice([_part(query, segment, entries_of) for segment in segments], reasons)


def _fitting(definition: Definition, query: Query, state: RollupState, find_misfit: FindMisfit) -> list[Version]:
    """The versions of a rollup that fit, and have sealed something of the range."""
    return [
        one
        for one in list_versions(definition, state)
        if one.start < query.end and query.start < one.end and find_misfit(one.definition) is None
    ]


def _part(query: Query, segment: Segment, entries_of: Mapping[str, Sequence[Entry]]) -> Part:
    start, end, definition = segment
    if definition is None:
        own = msgspec.structs.replace(query, start=start, end=end, after=None)
    else:
        names = Names(series=query.names.series, series_prefix=query.names.series_prefix)
        own = make_query(definition.stream, start, end, names)
    return Part(start, own, plan_query(own, entries_of[own.stream]), definition)
