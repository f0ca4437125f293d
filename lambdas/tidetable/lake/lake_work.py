"""Tables as work items: one per stream. Each hour every table is due, and an archive that was written wakes its table at once.

The message of an archive names its period, too. A table rests while the archiving of its stream rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidetable.archive.segments import ARCHIVE
from tidetable.config import Config
from tidetable.errors import describe_error
from tidetable.lake.reconcile import Reconciled, Reconciler
from tidetable.work.claim import ItemName, WorkItem, WorkRecords, hold_claim, rests
from tidetable.work.schedule import DueItem

# The kind of work.
TABLE = "table"


def find_due_tables(config: Config, work: WorkRecords) -> Sequence[DueItem]:
    """Find the tables of all streams that do not rest. Records of streams that are gone are removed."""
    pauses, records = work.list_pauses(), {item.name: item for item in work.list_items(TABLE)}
    for name in records.keys() - config.streams.keys():
        work.remove(TABLE, name)
    return [
        DueItem(records.get(name, WorkItem(TABLE, name)), name)
        for name in config.streams
        if not rests(ARCHIVE, name, pauses)
    ]


def name_archived(stream: str, label: str) -> ItemName:
    """Name a table in the message of an archive that was written."""
    return ItemName(TABLE, f"{stream}#{label}")


def work_on_table(
    name: ItemName,
    reconciler: Reconciler,
    work: WorkRecords,
    owner: str,
    now: datetime,
    length: timedelta,
    *,
    full: bool = False,
) -> Reconciled | None:
    """Reconcile a table; None if it rests, if another worker has it, or if its stream is gone.

    The record has the reason of a failure.
    """
    table, _, label = name.name.partition("#")
    stream = reconciler.config.streams.get(table)
    if stream is None or name.kind != TABLE or rests(ARCHIVE, table, work.list_pauses()):
        return None
    with hold_claim(work, TABLE, table, owner, now, length) as held:
        if held is None:
            return None
        try:
            done = reconciler.reconcile(stream, label, full=full)
        except Exception as error:
            held.problem = describe_error(error)
            raise
        if done.lost:
            held.problem = f"the manifests of {', '.join(done.lost)} are gone"
    return done
