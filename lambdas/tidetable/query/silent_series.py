"""Read the last periods of series, which the refresher keeps (``tidetable.rollups.last_periods``)."""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.ports import CatalogReader, Rollups
from tidetable.rollup_model.bounds import LEASE
from tidetable.rollup_model.cover import join_spans, subtract_spans
from tidetable.rollup_model.last_periods import (
    SeriesPeriods,
    find_holes,
    find_slot,
    find_usable,
    hash_series,
    unpack_pairs,
)

# A generation may be replaced while it is read. Then the record is read again.
_ATTEMPTS = 2


def read_series_periods(
    stream: str, series: Sequence[str], rollups: Rollups, catalog: CatalogReader
) -> SeriesPeriods | None:
    """Read the last periods of some series; None if they are not known, or if too many buckets have marks.

    They only save requests, so an outage of their table is no failure.
    """
    try:
        return _read_present(stream, series, rollups, catalog)
    except (StoreUnavailable, TableMissing, TableThrottled):
        return None


def _read_present(stream: str, series: Sequence[str], rollups: Rollups, catalog: CatalogReader) -> SeriesPeriods | None:
    hashes = {name: hash_series(name) for name in series}
    for _ in range(_ATTEMPTS):
        state = rollups.read_last(stream)
        # The lease is read last: a former version that lets marks rest has taken it before.
        last = None if state is None else find_usable(state, catalog.read_share(LEASE))
        if state is None or last is None or not last.slots:
            return None
        numbers = sorted({find_slot(hashed, last.slots) for hashed in hashes.values()})
        contents = rollups.read_slots(stream, last, numbers)
        if contents is not None:
            starts = dict(pair for content in contents for pair in unpack_pairs(content))
            covered = subtract_spans(last.covered, join_spans(find_holes(state)))
            return SeriesPeriods(covered, {name: starts.get(hashed) for name, hashed in hashes.items()})
    return None
