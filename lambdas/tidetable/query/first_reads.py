"""The first reads of a scan: how much of each range, and whether all at once."""

from __future__ import annotations

from tidetable.ports import RangeRead
from tidetable.query.merge import compute_share
from tidetable.query.model import Query
from tidetable.query.pack_reading import count_first_packs
from tidetable.query.scans import ArchiveScan, GatherScan, PackScan, Scan
from tidetable.query.waves import TEXTS_AT_ONCE

# Events that are gathered are read to their end. AWS: a page of a query ends at 1 MB, whatever its limit.
GATHERED = 10_000


def make_first_reads(scan: Scan, count: int) -> list[RangeRead]:
    """Make the reads of the first page of each range, if ``count`` events are wanted; empty for an archive."""
    if isinstance(scan, ArchiveScan) or not scan.count:
        return []
    if isinstance(scan, PackScan):
        limit = count_first_packs(scan, count)
    else:
        limit = GATHERED if isinstance(scan, GatherScan) else compute_share(count, scan.count)
    return [RangeRead(keys, limit) for keys in scan.ranges]


def is_page_of_oldest(scan: Scan, query: Query, *, whole: bool) -> bool:
    """True if a page of the oldest events of packs is read. A ``whole`` read is a walk in the order of time.

    A condition on data is checked on the copy that counts, so nobody knows where such a page ends.
    """
    return isinstance(scan, PackScan) and query.ascending and not (whole or scan.conditions)


def reads_in_waves(scan: Scan, query: Query, *, whole: bool) -> bool:
    """True if the first pages of a scan are not held together: the packs of each wave are opened before the next."""
    return scan.count > 2 * TEXTS_AT_ONCE and is_page_of_oldest(scan, query, whole=whole)
