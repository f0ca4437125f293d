"""Read the last periods of series, which the refresher keeps (``tidetable.rollups.last_periods``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.ports import CatalogReader
from tidetable.rollup_model.bounds import LEASE
from tidetable.rollup_model.cover import join_spans, subtract_spans
from tidetable.rollup_model.definition import QueryRollups
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
    stream: str, series: Sequence[str], rolled: QueryRollups, catalog: CatalogReader, now: datetime
) -> SeriesPeriods | None:
    """Read the last periods of some series; None if they are not known, or if too many buckets have marks.

    They only save requests, so an outage of their table is no failure.
    """
    try:
        return _read_present(stream, series, rolled, catalog, now)
    except (StoreUnavailable, TableMissing, TableThrottled):
        return None


def _read_present(
    stream: str, series: Sequence[str], rolled: QueryRollups, catalog: CatalogReader, now: datetime
) -> SeriesPeriods | None:
    hashes, rollups = {name: hash_series(name) for name in series}, rolled.rollups
    has_rollups = bool(rolled.definitions.get(stream))
    for _ in range(_ATTEMPTS):
        state = rollups.read_last(stream)
        if state is None or (has_rollups and state.noted_since is None):
            return None
        # The lease is read last: a former version that lets marks rest has taken it before.
        held = catalog.read_share(LEASE) if has_rollups else None
        last = find_usable(state, state.noted_since if has_rollups else None, held, now)
        if last is None or not last.slots:
            return None
        numbers = sorted({find_slot(hashed, last.slots) for hashed in hashes.values()})
        contents = rollups.read_slots(stream, last, numbers)
        if contents is not None:
            starts = dict(pair for content in contents for pair in unpack_pairs(content))
            covered = subtract_spans(last.covered, join_spans(find_holes(state)))
            return SeriesPeriods(covered, {name: starts.get(hashed) for name, hashed in hashes.items()})
    return None
