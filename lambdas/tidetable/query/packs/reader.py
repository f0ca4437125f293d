"""Read the events of a scan of packs in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from tidetable.conditions import ANY
from tidetable.ports import ItemColumns, Page, RangeRead
from tidetable.query.batches import LiveBatch, TimeUp
from tidetable.query.hydrate import match_conditions
from tidetable.query.merge import Demand
from tidetable.query.model import Position, Query
from tidetable.query.packs.oldest_first import OldestFirst
from tidetable.query.packs.scan import PackScan
from tidetable.query.packs.walk import PackWalk
from tidetable.query.session import ReadSession


class _Fetch(Protocol):
    def __call__(self, reads: Sequence[RangeRead], *, ranges: int) -> Sequence[Page]: ...


class PackReader(msgspec.Struct, frozen=True):
    """Reads the events of a scan. ``fields`` are the needed fields of data."""

    scan: PackScan
    query: Query
    session: ReadSession
    demand: Demand
    fields: Sequence[str]

    def read(
        self, reads: Sequence[RangeRead], pages: Sequence[Page], fetch: _Fetch, edge: Position
    ) -> Iterator[LiveBatch | TimeUp]:
        """Yield the events in order. ``pages`` answer the first ``reads``.

        Conditions that DynamoDB would filter by are checked here, after unpacking. If the walk stops before it has
        advanced, the range was read up to ``edge``.
        """
        scan, session, demand = self.scan, self.session, self.demand
        session.note_source(scan)
        names, names_of = scan.find_names_left(self.query), scan.entry.layout.parse_names
        demand.filtered = names != ANY or bool(scan.conditions)
        walk: PackWalk | OldestFirst
        if scan.begins_with_oldest(self.query):
            holds, names = None if names == ANY else names.hold, ANY
            walk, ranges = OldestFirst(scan, session, demand, holds), 0
        else:
            walk, ranges = PackWalk(scan, session, demand, ascending=self.query.ascending), scan.count
        for columns, reached in walk.read(reads, pages, lambda due: fetch(due, ranges=ranges)):
            if names != ANY:
                columns = columns.where([names.hold(*names_of(*key)[1:]) for key in zip(*columns[:2], strict=True)])
            yield LiveBatch(scan, self._complete(columns), reached)
        if walk.stopped:
            yield TimeUp(walk.position or edge)

    def _complete(self, columns: ItemColumns) -> ItemColumns:
        """Return the events that meet all conditions: as texts if they are shown as they are stored."""
        if not columns.are_text or self.scan.conditions:
            columns = match_conditions(columns, self.scan, self.session, self.fields)
        return columns if self.query.projection.as_stored else ItemColumns.of(columns.items())
