"""Compute the content of buckets, from events or from finer cells. Every read is strongly consistent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from tidetable.catalog import GONE, Entry, GapReason, State
from tidetable.errors import TableMissing
from tidetable.events import Event
from tidetable.forms.field_columns import DATA, FieldColumns
from tidetable.ports import NotedSeries, Sketches
from tidetable.ports.rollups import Span
from tidetable.query.batches import TimeUp
from tidetable.query.indexed_series import Stretch, find_stretches, is_noted, read_series, read_stretch
from tidetable.query.key_share import KeyShare
from tidetable.query.model import Query
from tidetable.query.plan import plan_query
from tidetable.query.scans import Gap
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch, WholeReader, make_query
from tidetable.rollup_model.cells import MAX_TEXTS, Bucket, parse_cell, parse_names
from tidetable.rollup_model.cover import CoveredSpan
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.division import PACKED, WHOLE_READING, SharedReading, find_longest_span
from tidetable.rollups.services import BucketBlocked, Services, TooManyEvents, Unfinished
from tidetable.statistics import PERCENTILES
from tidetable.times import from_text, to_text

# The share of a table's read units that the refresher uses. The rest is for queries.
_SHARE = 0.5
# The read units per second that are assumed for a table on demand, or for a table whose capacity is not known. AWS: a
# new table on demand takes 12,000.
_UNKNOWN = 4_000.0
# A part is not begun if its requests take longer than so many seconds: a run has 300.
_LONGEST = 200.0
# At most this many buckets are read together. At most this many groups are in memory, without and with sketches (9 KB
# each).
MOST_TOGETHER, MOST_GROUPS, MOST_SKETCHES = 10, 200_000, 20_000
# Buckets with more events than this together are read one by one: a pass must fit into the time of a run.
MOST_IN_RANGE = 2_000_000
# A bucket with too many events is taken to have this many times the events that were read. The next bucket is known
# better.
_GUESS = 4
# Packs with more events than this may not fit into memory until they can be settled.
_MOST_HELD = 8_000_000


def read_events(
    query: Query,
    entries: Sequence[Entry],
    services: Services,
    fields: Sequence[str],
    reading: SharedReading = WHOLE_READING,
    *,
    never: bool,
) -> Iterator[FieldColumns]:
    """Read these fields of all events of a query, in any order. Raises BucketBlocked if that is not possible.

    With ``never``, a period that never had a table counts as a period without events.
    """
    plan = plan_query(query, entries)
    for gap in plan.gaps:
        if gap.reason is not GapReason.NO_INDEX and not (never and gap.reason is GapReason.NO_TABLE):
            raise _make_blocked(query, gap.start, gap.reason)
    stretches = find_stretches(query, entries)
    if stretches:
        _refuse_unnoted(query, stretches, services)
    session = ReadSession(services.reader, services.remaining)
    scans = reading.share.narrow(plan.scans)
    yield from _read_columns(WholeReader(query, session, fields).read(scans), query, session, reading.share)
    for stretch in stretches:
        noted = read_series(query, stretch, services.rollups)
        yield from _read_stretch(query, stretch, noted, services, fields, reading)


def _read_stretch(
    query: Query,
    stretch: Stretch,
    noted: NotedSeries,
    services: Services,
    fields: Sequence[str],
    reading: SharedReading = WHOLE_READING,
) -> Iterator[FieldColumns]:
    """Read these fields of all events of a stretch. Raises BucketBlocked, and Unfinished if too many other runs read it."""
    layout, share = stretch.entry.layout, reading.share
    session = ReadSession(services.reader, services.remaining)
    noted = noted._replace(series=share.choose_series(layout, noted.series))
    requests = len(noted.series) * max(layout.shards // share.shares, 1)
    if reading.readers > 1 and reading.readers * find_pause(stretch.entry, requests) > _LONGEST:
        raise Unfinished("other parts of the bucket take the table's read units")

    def pace(units: float) -> None:
        services.pause(reading.readers * find_pause(stretch.entry, units))

    batches = read_stretch(query, stretch, noted, session, fields, pace=pace, share=share)
    yield from _read_columns(batches, query, session, share)


def find_pause(entry: Entry, units: float) -> float:
    """Find for how many seconds to pause after so many read units, so that most of the table's are left for queries."""
    read_units = entry.capacity.seen.read if entry.capacity.seen is not None else None
    return units / (_UNKNOWN if read_units is None else max(read_units * _SHARE, 1.0))


def _read_columns(
    batches: Iterator[WholeBatch | TimeUp], query: Query, session: ReadSession, share: KeyShare
) -> Iterator[FieldColumns]:
    try:
        for batch in batches:
            if isinstance(batch, TimeUp):
                if session.has_time:
                    raise TooManyEvents(_MOST_HELD * _GUESS)
                raise Unfinished("the time is up")
            # Nothing is computed from events of which some are lost.
            _refuse_damaged(query, session.gaps)
            yield share.select(batch.scan, batch.columns)
    except TableMissing as error:
        raise _make_blocked(query, query.start, error) from error
    _refuse_damaged(query, session.gaps)


def _refuse_damaged(query: Query, gaps: Iterable[Gap]) -> None:
    for gap in gaps:
        raise _make_blocked(query, gap.start, gap.reason)


def _refuse_unnoted(query: Query, stretches: Iterable[Stretch], services: Services) -> None:
    since = services.rollups.read_state(query.stream, (query.start, query.end)).noted_since
    for entry, start, _ in stretches:
        if not is_noted(entry, since):
            where = f"period {entry.period.label} of {query.stream} is partitioned by series"
            raise _make_blocked(query, start, f"{where}, and its series were not noted; its archive can be read")


def _make_blocked(query: Query, start: datetime, why: object) -> BucketBlocked:
    return BucketBlocked(f"{query.stream} cannot be read from {to_text(start)} on: {why}")


def find_end_of_gone(stream: str, start: datetime, end: datetime, services: Services) -> datetime | None:
    """Find the instant from which on events of the bucket ``[start, end)`` can be read; None if all of its events can
    be read.

    Events cannot be read if they were deleted, or if their period is partitioned by series and began before its series
    were noted.
    """
    now = max(services.clock.now(), end)
    query = make_query(stream, start, now)
    entries = services.catalog.entries(stream, start, now, consistent=True)
    since = services.rollups.read_state(stream, (start, end)).noted_since
    spans = [(gap.start, gap.end) for gap in plan_query(query, entries).gaps if gap.reason in GONE]
    if since is not None:
        # No event of such a period can be read by series, not even a future event.
        unnoted = [stretch for stretch in find_stretches(query, entries) if not is_noted(stretch.entry, since)]
        spans += [(stretch.start, stretch.entry.period.end) for stretch in unnoted]
    return max(last for _, last in spans) if any(first < end for first, _ in spans) else None


def list_gone(stream: str, start: datetime, end: datetime, services: Services) -> list[Span]:
    """List the periods of a range whose events are deleted for ever: they have no table and no archive any more.

    Periods that are being restored, and periods whose table is not deleted yet, are not in the list.
    """
    entries = services.catalog.entries(stream, start, end, consistent=True)
    return [
        (entry.period.start, entry.period.end)
        for entry in entries
        if entry.state is State.DELETED and entry.archived is None
    ]


def collect_bucket(
    definition: Definition,
    segments: Iterable[CoveredSpan],
    services: Services,
    most: int | None = None,
    reading: SharedReading = WHOLE_READING,
) -> Bucket:
    """Compute a bucket, or a share of it, from the events or cells of its segments. Stop as soon as there are too many
    groups.

    Raises BucketBlocked if the bucket cannot be read completely, Unfinished if the time is up, and TooManyEvents as soon
    as a segment has more than ``most`` events, of packs and of a share ``PACKED`` times as many.
    """
    reader = services.reader
    bucket = Bucket(definition, reader.sketches)
    for start, end, finer in segments:
        stream = definition.source if finer is None else finer.stream
        entries = services.catalog.entries(stream, start, end, consistent=True)
        query = make_query(stream, start, end)
        count, limit = 0, most
        if limit is not None and (find_longest_span(entries) or not reading.share.is_whole):
            limit *= PACKED
        fields = definition.columns if finer is None else (DATA,)
        for columns in read_events(query, entries, services, fields, reading, never=finer is None):
            if finer is None:
                bucket.add(columns)
                count += len(columns)
                if limit is not None and count > limit:
                    raise TooManyEvents(count * _GUESS)
            else:
                _merge_cells(bucket, columns, finer, definition, reader.sketches)
            if bucket.is_over:
                break
    bucket.fold()
    return bucket


def _merge_cells(
    bucket: Bucket, columns: FieldColumns, finer: Definition, definition: Definition, sketches: Sketches
) -> None:
    for time, series, id, data in columns.rows():
        event = Event(series, from_text(time), id, data)
        bucket.merge_names(parse_names(finer, event))
        cell = parse_cell(finer, event, sketches, definition.fields)
        if cell is not None:
            bucket.merge(cell)


def collect_together(definition: Definition, start: datetime, due: int, services: Services) -> dict[datetime, Bucket]:
    """Compute several buckets from ``start`` on, at most ``due``, in one pass over the series of their period.

    A request per series costs at least one read unit, also if it reads ten buckets instead of one. If the events can be
    read in the order of time, or if only one bucket could be computed, nothing is read, and the result is empty.
    """
    every = definition.every
    entries = services.catalog.entries(definition.source, start, start + every, consistent=True)
    end = min(
        [start + min(due, MOST_TOGETHER) * every, *(entry.period.end for entry in entries if start in entry.period)]
    )
    query = make_query(definition.source, start, end)
    stretches = find_stretches(query, entries)
    if end - start <= every or len(stretches) != 1 or (stretches[0].start, stretches[0].end) != (start, end):
        return {}
    (stretch,) = stretches
    _refuse_unnoted(query, stretches, services)
    noted = read_series(query, stretch, services.rollups)
    cells = max(len(noted.series), 1) * max(len(definition.fields), 1)
    most = MOST_SKETCHES if PERCENTILES in definition.kept_statistics else MOST_GROUPS
    count = min((end - start) // every, most // cells)
    if count < 2:
        return {}
    end = start + count * every
    buckets = {start + number * every: Bucket(definition, services.reader.sketches) for number in range(count)}
    query, stretch = make_query(definition.source, start, end), stretch._replace(end=end)
    events = 0
    for columns in _read_stretch(query, stretch, noted, services, definition.columns):
        events += len(columns)
        if events > MOST_IN_RANGE:
            return {}
        _add_to_each(buckets, columns, definition)
    for bucket in buckets.values():
        bucket.fold()
    return buckets


def collect_range(definition: Definition, start: datetime, end: datetime, services: Services) -> dict[datetime, Bucket]:
    """Compute the buckets of ``[start, end)`` in one pass over their events, of whatever tables and archives.

    The oldest buckets are left out if memory does not hold the groups of all. The result is empty if there are more than
    ``MOST_IN_RANGE`` events: the buckets are then to be read one by one. Raises BucketBlocked and Unfinished.
    """
    every, count = definition.every, 0
    entries = services.catalog.entries(definition.source, start, end, consistent=True)
    numbers = range(1, (end - start) // every + 1)
    buckets = {end - number * every: Bucket(definition, services.reader.sketches) for number in numbers}
    query = make_query(definition.source, start, end)
    for columns in read_events(query, entries, services, definition.columns, never=True):
        count += len(columns)
        if count > MOST_IN_RANGE:
            return {}
        _add_to_each(buckets, columns, definition)
    for bucket in buckets.values():
        bucket.fold()
    return buckets


def _add_to_each(buckets: dict[datetime, Bucket], columns: FieldColumns, definition: Definition) -> None:
    """Add events to their buckets. Take out the last buckets, but not the first one, while memory does not hold all."""
    for at, bucket in buckets.items():
        if not bucket.is_over:
            first, last = (bisect_left(columns.times, to_text(edge)) for edge in (at, at + definition.every))
            bucket.add(columns.cut(first, last))
    most = MOST_SKETCHES if PERCENTILES in definition.kept_statistics else MOST_GROUPS
    while len(buckets) > 1:
        groups = sum(len(bucket.groups) for bucket in buckets.values()) * max(len(definition.fields), 1)
        if groups <= most and sum(bucket.texts for bucket in buckets.values()) <= MAX_TEXTS:
            return
        # They are read in a later pass.
        buckets.popitem()
