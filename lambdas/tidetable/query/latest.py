"""Find the latest event of each named series without a scan: search from the newest table backwards until all are
found, until the tables end, or until an answer has read as much as it may. Then ``before`` continues the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry, GapReason
from tidetable.config import Stream
from tidetable.errors import TableMissing
from tidetable.events import Item
from tidetable.layout import MAX_NAME_BYTES
from tidetable.layout.latest import finds_latest
from tidetable.problems import Problem, ProblemError, refuse_parameter, refuse_request
from tidetable.query.hydrate import complete_rows
from tidetable.query.lookups import LookupTable
from tidetable.query.model import Cost, Projection, Reader
from tidetable.query.page import Room
from tidetable.query.parse import Parameters
from tidetable.query.readings import choose_reading
from tidetable.query.rows import Row, show_rows
from tidetable.query.session import ReadSession
from tidetable.query.units import OutOfTime
from tidetable.remaining import Remaining
from tidetable.times import MOMENT, to_text

KNOWN = ("series", "fields", "consistent", "before", "refs", "tz")
MAX_SERIES = 100
# After this many requests to tables, no further table is searched: 2,000 tables for one silent series, 20 for 100. The
# newest table is always searched for all series.
MAX_REQUESTS = 2_000


class Latest(msgspec.Struct):
    """The latest events, by series. Tables were searched back to ``searched``; None if no table was searched.

    For each series in ``damaged``, a damaged pack may have held a later event. For each series in ``stopped``, older
    tables were not searched. ``tz`` is the zone in which times are shown; empty for UTC.
    """

    series: Sequence[str]
    events: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    damaged: set[str] = msgspec.field(default_factory=set)
    stopped: set[str] = msgspec.field(default_factory=set)
    searched: datetime | None = None
    cost: Cost = msgspec.field(default_factory=Cost)
    room: Room = msgspec.field(default_factory=Room)
    losses: list[str] = msgspec.field(default_factory=list)
    tz: str = ""

    @property
    def missing(self) -> list[str]:
        """The series whose latest event is not found yet."""
        return [name for name in self.series if name not in self.events]

    def document(self) -> dict[str, Any]:
        """Return the body of the answer, in the order of the series in the request."""
        document = {
            "latest": [
                {"series": name, "event": self.events.get(name)}
                | ({"incomplete": True} if name in self.damaged else {})
                | ({"stopped": True} if name in self.stopped else {})
                for name in self.series
            ],
            "searched_back_to": None if self.searched is None else to_text(self.searched),
        }
        if self.tz:
            from tidetable.query.local import show_document  # imported only when it is needed

            return show_document(document, self.tz)
        return document


def find_latest(
    stream: Stream,
    parameters: Mapping[str, Sequence[str]],
    reader: Reader,
    now: datetime,
    remaining: Remaining,
) -> Latest:
    """Find the latest event of each series of the request, up to ``ahead`` from now or before ``before``. Archives are
    not searched.

    ProblemError says what to change, or that no time was left to search the newest table.
    """
    series = _parse_series(parameters)
    options = {name: values for name, values in parameters.items() if name != "series"}
    request = Parameters.read(stream, options, KNOWN, where=False)
    projection, consistent = request.parse_projection(), request.parse_flag("consistent")
    shows_refs = request.read_choice("refs", ("true", "false"), "refs must be true or false") == "true"
    before = request.parse_instant("before", now)
    newest = now + stream.ahead if before is None else min(now + stream.ahead, before - MOMENT)
    if not finds_latest(stream.layout):
        detail = (
            f"{stream.name} is partitioned by time, so only a scan would find a series' latest event: query a range instead,"
            ' or keep its events in packs with shard_by = "series"'
        )
        raise refuse_request(400, "needs_series", detail)
    # In the Region of the stage, a table without a copy was deleted with its events.
    session = ReadSession(reader, remaining, forgiving=reader.copies is None)
    latest = Latest(series, cost=session.cost, tz=request.tz)
    search = _Search(latest, session, projection, consistent)
    for entry, missing in _walk_backwards(stream.name, reader, latest, newest, now, consistent=consistent):
        if missing and not entry.copies.here and reader.copies is not None:
            # This table has no copy here, and an older table might answer an event that is not the latest.
            raise reader.copies.refuse_missing(entry)
        if not missing or not entry.live:
            break
        end = min(entry.period.end, newest + MOMENT)
        slices = list(choose_reading(entry.layout).slice_latest(entry.layout, entry.period.start, end))
        if not slices:
            break
        if not all(search.read_slice(entry, missing, *times) for times in slices):
            latest.stopped = set(latest.missing)
            break
    if not shows_refs:
        for event in latest.events.values():
            event.pop("ref", None)
    return latest


def _walk_backwards(
    stream: str, reader: Reader, latest: Latest, newest: datetime, now: datetime, *, consistent: bool
) -> Iterator[tuple[Entry, list[str]]]:
    """Yield the entries of a stream, newest first, each with the missing series that may have events in its period.

    It begins with the period that holds the time ``newest``. ``searched`` of ``latest`` moves back over periods that are
    left out.
    """
    rolled, known = reader.rolled, None
    if rolled is not None and not (rolled.definitions.get(stream) or stream in rolled.listed):
        rolled = None
    at, since = newest, None
    while True:
        for entry in reader.catalog.walk(stream, None, at, consistent=consistent):
            missing = latest.missing
            if since is not None:
                latest.searched, since = min(latest.searched or since, entry.period.end), None
            if rolled is not None and latest.searched is not None and missing:
                from tidetable.query.silent_series import read_series_periods  # imported only when it is needed

                known, rolled = read_series_periods(stream, missing, rolled, reader.catalog, now), None
            possible = missing if known is None else known.list_possible(missing, entry.period)
            if known is not None and missing and not possible:
                at, since = known.find_next(missing, entry.period)
                break
            yield entry, possible
        else:
            if since is not None:
                latest.searched = since
            return


def _parse_series(parameters: Mapping[str, Sequence[str]]) -> list[str]:
    names = list(dict.fromkeys(parameters.get("series", ())))
    if not 1 <= len(names) <= MAX_SERIES or not all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in names):
        raise refuse_parameter(
            f"give series= for each of 1 to {MAX_SERIES} series, which have 1 to {MAX_NAME_BYTES} bytes"
        )
    return names


class _Search(NamedTuple):
    """A search for the latest events of some series, one period after the other."""

    latest: Latest
    session: ReadSession
    projection: Projection
    consistent: bool

    def read_slice(self, entry: Entry, series: Sequence[str], start: datetime, end: datetime) -> bool:
        """Search a slice of a period for the missing events of some series, some at a time.

        False if it was not searched for all of them. ProblemError, if this is the newest slice and the time is up.
        """
        latest, session = self.latest, self.session
        missing = [name for name in series if name not in latest.events]
        if not missing:
            return True
        is_first = latest.searched is None
        groups = list(choose_reading(entry.layout).group_latest(entry.layout, missing))
        if not is_first and session.cost.requests + sum(ranges for _, ranges in groups) > MAX_REQUESTS:
            return False
        for group, _ in groups:
            try:
                if not session.has_time:
                    raise OutOfTime
                rows = self._read(entry, group, start, end)
            except OutOfTime:
                if is_first:
                    raise _refuse_late(entry, searched=session.cost.requests > 0) from None
                return False
            for row, event in zip(rows, show_rows(rows), strict=True):
                latest.events[row.names[1]] = event
        latest.searched = start
        return True

    def _read(self, entry: Entry, names: Sequence[str], start: datetime, end: datetime) -> list[Row]:
        """Find the latest event of each of some series in a slice of a period."""
        latest, session = self.latest, self.session
        try:
            items = self._find_items(entry, names, start, end)
            inflate = session.reader.unpacker.inflate_or_keep
            rows = [Row.of(inflate(item), entry, self.projection) for item in items]
            if not latest.room.take_all(sum(row.measure_size() for row in rows), len(rows)):
                detail = "these events are larger than an answer may be: ask for fewer series or fields"
                raise refuse_request(422, "too_much", detail)
            latest.losses += complete_rows(rows, session)
        except TableMissing:
            # The table was just deleted with its events. If this is a reader, the origin may have the table.
            if session.reader.copies is not None:
                raise session.reader.copies.refuse_missing(entry) from None
            return []
        return rows

    def _find_items(self, entry: Entry, names: Sequence[str], start: datetime, end: datetime) -> list[Item]:
        """Find the latest events of some series, and note the series whose later events may be damaged."""
        items, hides_damage = list[Item](), self.session.hides_damage(entry)
        table = LookupTable(entry, self.session, self.consistent)
        for name, lookup in choose_reading(entry.layout).find_latest(table, names, start, end):
            if lookup.damaged:
                # A damaged pack of many series may have held none of the caller's.
                self.latest.damaged |= set() if hides_damage else {name}
                self.latest.losses.append(
                    f"{GapReason.DAMAGED_PACK} in {entry.table}, which may hold a later event of series {name}"
                )
            if lookup.item is not None:
                items.append(lookup.item)
        return items


def _refuse_late(entry: Entry, *, searched: bool) -> ProblemError:
    """Make the error to raise if the time is up before the newest table was searched for all series."""
    if searched:
        detail = f"the search of {entry.period.label} takes longer than an answer may: ask for fewer series"
        return refuse_request(422, "too_much", detail)
    detail = "the time of this request was up before a table was searched: ask again"
    return ProblemError(Problem(503, "unavailable", detail, headers={"Retry-After": "2"}))
