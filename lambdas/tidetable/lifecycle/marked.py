"""Find the expired tables whose events the rollups of their stream may still need.

A marked bucket is computed anew from its events. An archive can be read for that, so only a table that is deleted
without an archive waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tidetable.catalog import Entry
from tidetable.config import Config
from tidetable.errors import note_trouble
from tidetable.expiry import is_expired
from tidetable.upkeep.run import LifecycleRun


def find_marked_tables(
    entries: Iterable[Entry], config: Config, run: LifecycleRun, now: datetime, troubles: list[str]
) -> Mapping[str, str]:
    """Find the tables of one stream that are due for deletion and have marked buckets; each with the reason.

    It reads the marks of each such period by key. If they cannot be read, the table counts as marked.
    """
    marked: dict[str, str] = {}
    if not config.lifecycle.delete_expired or run.find_rollups is None:
        return marked
    for entry in entries:
        stream = config.streams[entry.stream]
        if not (stream.rollup and stream.on_expiry == "delete" and entry.live and is_expired(entry, stream, now)):
            continue
        marked[entry.table] = "the marks of its rollups could not be read"
        with note_trouble(f"the marks of rollups could not be read for {entry.stream}", troubles):
            span = entry.period.start, entry.period.end
            marks = run.find_rollups().read_state(entry.stream, span).marks
            if marks:
                marked[entry.table] = f"{len(marks)} buckets of its rollups must be computed anew from its events"
            else:
                del marked[entry.table]
    return marked
