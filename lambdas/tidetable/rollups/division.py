"""How a long bucket is divided into parts: by units of settling, or by time.

By units, no part reads what another part reads. By time, each part costs a request per partition key, and also reads the
packs of one span after it. But it is sound for every form, because all copies of an event have one time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.forms.choose import choose_form
from tidetable.query.indexed_series import find_stretches
from tidetable.query.key_share import WHOLE_SHARE, KeyShare
from tidetable.query.plan import cover_range
from tidetable.query.whole import make_query
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.services import Services

# A bucket of packs is long if it has so many times the events of a long bucket of plain events: each of its parts also
# reads the packs of one span. 3,000,000 events in packs take 8 seconds (bench/sealing).
PACKED = 10
# The plain events of a part: about half a second of computing. A bucket with at most so many events is read as a whole.
PART_EVENTS, MOST_WHOLE = 100_000, 300_000
# A bucket has at most ``MANY`` parts, unless they would have more than ``_LONG`` plain events: the more parts, the longer
# takes their merge. A part of packs is at least ``SPANS`` spans long, unless it would have more than ``SPANS * _LONG``
# events: memory holds 8,000,000 until they can be settled.
MANY, _LONG, SPANS = 100, 1_000_000, 4
# A bucket has at most so many parts.
MOST_PARTS = 4_000
# A bucket is long, too, if it takes more requests than this for its series, and then a part has about so many of them: some
# ten seconds. A part also reads the notes of all series, which are about 4,500 read units for a million.
MOST_REQUESTS, PART_REQUESTS = 100_000, 30_000


class Division(NamedTuple):
    """The number of a bucket's parts, 1 if it is read as a whole. Parts are shares of its units of settling, or ranges of
    its time.
    """

    number: int
    by_unit: bool = False


class SharedReading(NamedTuple):
    """A share of the units of a bucket that is read, and how many runs read parts of the bucket at the same time."""

    share: KeyShare = WHOLE_SHARE
    readers: int = 1


WHOLE_READING = SharedReading()


def choose_division(definition: Definition, bucket: datetime, events: int, services: Services) -> Division:
    """Choose how a bucket with about so many events is divided.

    This takes a request if the bucket may be long, and one per period for the notes of its series.
    """
    if definition.period is None and events <= MOST_WHOLE:
        return Division(1)
    entries, units, requests = _count_units(definition, bucket, services)
    return divide(events, definition.every, find_longest_span(entries), units, requests)


def refine_division(definition: Definition, bucket: datetime, count: int, services: Services) -> Division:
    """Choose what ``count`` parts of a bucket are."""
    _, units, _ = _count_units(definition, bucket, services)
    return Division(count, by_unit=count <= units)


def divide(events: int, every: timedelta, span: timedelta, units: int, requests: int = 0) -> Division:
    """Divide a bucket of the length ``every`` with about so many events, into shares of its ``units`` if they are enough.

    ``span`` is that of the table's packs, zero for plain events. ``requests`` are those for its series.
    """
    count = _count_parts(events, MANY, packed=bool(span))
    if requests > MOST_REQUESTS:
        count = max(count, min(-(-requests // PART_REQUESTS), MOST_PARTS))
    if count <= units:
        return Division(count, by_unit=count > 1)
    return Division(_count_parts(events, min(MANY, every // (SPANS * span)) if span else MANY, packed=bool(span)))


def _count_parts(events: int, most: int, *, packed: bool) -> int:
    ease, spans = (PACKED, SPANS) if packed else (1, 1)
    if events <= ease * MOST_WHOLE:
        return 1
    return min(max(min(-(-events // (ease * PART_EVENTS)), most), -(-events // (spans * _LONG)), 2), MOST_PARTS)


def _count_units(definition: Definition, bucket: datetime, services: Services) -> tuple[Sequence[Entry], int, int]:
    """Count the units of settling of a bucket of which a reader can read some alone, and the requests for its series.

    There are no such units if an archive has events of the bucket: each reader of some would read all of it.
    """
    stream, end, counts, requests = definition.source, bucket + definition.every, list[int](), 0
    entries = services.catalog.entries(stream, bucket, end, consistent=True)
    of_series = {stretch.entry.period for stretch in find_stretches(make_query(stream, bucket, end), entries)}
    for entry, _, _ in cover_range(bucket, end, entries, []):
        unit, series = choose_form(entry.layout).unit, 1
        if entry.period in of_series:
            series = len(services.rollups.read_notes(stream, entry.period.label, consistent=False).series)
            requests += series * entry.layout.shards
        is_divisible = entry.live and any(unit) and unit.series is (entry.period in of_series)
        counts.append(series * (entry.layout.shards if unit.suffix else 1) if is_divisible else 0)
    return entries, min(counts, default=0), requests


def find_longest_span(entries: Iterable[Entry]) -> timedelta:
    """Find the longest span of the packs in these tables; zero if all events are plain."""
    return timedelta(seconds=max([0, *(choose_form(entry.layout).span for entry in entries)]))
