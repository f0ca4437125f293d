"""The results of reading a scan: some events of a table, a page of an archive, or the message that the time is up."""

from __future__ import annotations

from typing import NamedTuple

from tidetable.ports import ArchivePage, ItemColumns
from tidetable.query.model import Position
from tidetable.query.scans import ArchiveScan, LiveScan


class LiveBatch(NamedTuple):
    """Some events of a table or an index, in order.

    The scan was read up to ``reached``, which is None at the scan's end.
    """

    scan: LiveScan
    columns: ItemColumns
    reached: Position | None


class ArchiveBatch(NamedTuple):
    """A page of an archive. The scan was read up to ``reached``, which is None at the scan's end."""

    scan: ArchiveScan
    page: ArchivePage
    reached: Position | None


class TimeUp(NamedTuple):
    """The time was up before the end of the range. The range was read up to ``reached``."""

    reached: Position | None


Batch = LiveBatch | ArchiveBatch | TimeUp
