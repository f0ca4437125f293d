"""Read which series a period's table has. A table is read once, after every further event in it must have a mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidetable.catalog import Entry
from tidetable.query.model import RESERVE
from tidetable.query.whole import make_query
from tidetable.rollup_model.definition import SERIES
from tidetable.rollup_model.last_periods import hash_series
from tidetable.rollups.collect import find_pause, read_events
from tidetable.rollups.services import Services, Unfinished


def read_hashes(entry: Entry, services: Services) -> set[int]:
    """Read the hashes of the series that have events in a period.

    Raises BucketBlocked, TableMissing, TableThrottled or StoreUnavailable if the table cannot be read completely, and
    Unfinished if the time is up.
    """
    return {hash_series(name) for names in _list_series(entry, services) for name in set(names)}


def _list_series(entry: Entry, services: Services) -> Iterator[Sequence[str]]:
    start, end = entry.period.start, entry.period.end
    if entry.layout.partition_by == "time":
        # The series are inside the packs.
        query = make_query(entry.stream, start, end)
        for columns in read_events(query, [entry], services, (SERIES,), never=False):
            yield columns.series
        return
    edge = entry.layout.make_sort_key(start, "", "")
    for keys, units in services.reader.store.scan_partitions(entry.table):
        if services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        yield [entry.layout.parse_names(key, edge)[1] for key in keys]
        services.pause(find_pause(entry, units))
