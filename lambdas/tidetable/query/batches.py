"""The results of reading a scan: some events, or the message that the time is up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidetable.query.model import Position
from tidetable.query.rows import Rows


class RowsBatch(NamedTuple):
    """Some events in order. The scan was read up to ``reached``, which is None at the scan's end."""

    rows: Iterable[Rows]
    reached: Position | None


class TimeUp(NamedTuple):
    """The time was up before the end of the range. The range was read up to ``reached``."""

    reached: Position | None
