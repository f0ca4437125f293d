"""Read the events of all series of a period that is partitioned by series, by means of the period's noted series.

Such a table has no order over all events, so the events do not come in the order of time. Each series and suffix costs
a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.ports import NotedSeries, Rollups
from tidetable.query.batches import TimeUp
from tidetable.query.key_share import WHOLE_SHARE, KeyShare
from tidetable.query.model import Position, Query
from tidetable.query.plan import cover_range, find_access_path, plan_query
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch, WholeReader

# The ranges that are planned together. After them, the caller's pace may pause.
_RANGES = 256
# A function that waits after the given number of read units was read.
Pace = Callable[[float], None]


class Stretch(NamedTuple):
    """A span of a range within one period that can be read only through its noted series."""

    entry: Entry
    start: datetime
    end: datetime


def find_stretches(query: Query, entries: Sequence[Entry]) -> list[Stretch]:
    """Find the stretches of a query, in the order of time: the ranges of the periods that have no key for the query's
    events.
    """
    return [
        Stretch(entry, start, end)
        for entry, start, end in cover_range(query.start, query.end, entries, [])
        if entry.live and find_access_path(query, entry, start, end) is None
    ]


def is_noted(entry: Entry, since: datetime | None) -> bool:
    """True if all series of a period are noted: if the period begins at ``since`` or later."""
    return since is not None and entry.period.start >= since


def read_series(query: Query, stretch: Stretch, rollups: Rollups) -> NotedSeries:
    """Read the noted series of a stretch that meet the query's names."""
    noted = rollups.read_notes(query.stream, stretch.entry.period.label, consistent=query.consistent)
    return noted._replace(series=[name for name in noted.series if name.startswith(query.names.series_prefix)])


def read_stretch(
    query: Query,
    stretch: Stretch,
    noted: NotedSeries,
    session: ReadSession,
    fields: Sequence[str],
    *,
    pace: Pace = lambda *_: None,
    share: KeyShare = WHOLE_SHARE,
) -> Iterator[WholeBatch | TimeUp]:
    """Read the events of the noted series of a stretch: all events of some series, then those of the next series. Of the
    series of a share, only the events of its units are read.

    ``fields`` are the needed fields of data, as in ``WholeReader``. Nothing is complete before the stretch ends.
    """
    entry, start, end = stretch
    session.cost.units += noted.units
    step = max(_RANGES // max(entry.layout.shards // share.shares, 1), 1)
    for first in range(0, len(noted.series), step):
        if first and not session.has_time:
            yield TimeUp(Position(start))
            return
        names = query.names._replace(series=tuple(noted.series[first : first + step]), series_prefix="")
        narrowed = msgspec.structs.replace(query, start=start, end=end, after=None, names=names)
        before = session.cost.units
        scans = share.narrow(plan_query(narrowed, [entry]).scans)
        for batch in WholeReader(narrowed, session, fields).read(scans):
            if isinstance(batch, TimeUp):
                yield TimeUp(Position(start))
                return
            yield batch._replace(reached=start)
        pace(session.cost.units - before)
