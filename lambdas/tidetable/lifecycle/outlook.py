"""Warnings for an operator before anything breaks: a missing next table, or an overdue archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tidetable.catalog import Backfill, Entry, State, find_entry_at
from tidetable.config import Config, Stream
from tidetable.expiry import compute_entry_expiry
from tidetable.lifecycle.observe import Observed
from tidetable.periods import Period
from tidetable.times import to_text
from tidetable.window import Window

# Every run tries an archive that is due, so an archive that is a day overdue has failed again and again.
OVERDUE = timedelta(days=1)
# The next table should exist a quarter of a period before it is needed; for long periods, an hour before is enough.
LEAD_SHARE, LEAD_MOST = 0.25, timedelta(hours=1)


class RemovedStream(NamedTuple):
    """A stream that left the configuration at ``since``, and the number of its tables that still exist."""

    stream: str
    since: datetime
    tables: int

    def document(self) -> dict[str, Any]:
        """Return the stream in the form of a report."""
        return {"stream": self.stream, "since": to_text(self.since), "tables": self.tables}


@dataclass(frozen=True, slots=True)
class Outlook:
    """The outlook: streams whose next table is missing although its period is near, periods with an overdue archive,
    and coming changes.

    ``changes`` are texts. Each says from which time a stream's configured layout or period will hold, if it does not
    hold yet. ``backfills`` are the backfills under way, ``removed`` the streams that left the configuration and still
    have tables.
    """

    without_next_table: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    removed: tuple[RemovedStream, ...] = ()


# In these states a period's events are in an archive. A period stays in RESTORING until its table is complete.
_ARCHIVED = (State.ARCHIVED, State.DELETED, State.RESTORING)


def derive_outlook(config: Config, observed: Mapping[str, Observed], now: datetime) -> Outlook:
    """Derive the outlook from a run's observation. Tables are made ahead, so normally no next table is missing."""
    present = {name: view for name, view in observed.items() if view.removed is None}
    without_next_table = [name for name, view in present.items() if _lacks_next_table(config.streams[name], view, now)]
    overdue = [
        f"{name} {entry.period.label}"
        for name, view in observed.items()
        if config.streams[name].on_expiry == "archive"
        for entry in view.entries
        if entry.state not in _ARCHIVED and now > compute_entry_expiry(entry, config.streams[name]) + OVERDUE
    ]
    changes = [_describe_change(config.streams[name], view, now) for name, view in present.items()]
    removed = [
        RemovedStream(name, view.removed, len(view.table_names))
        for name, view in observed.items()
        if view.removed is not None and view.table_names
    ]
    return Outlook(
        tuple(without_next_table),
        tuple(overdue),
        tuple(change for change in changes if change),
        tuple(backfill for view in present.values() for backfill in view.backfills),
        tuple(removed),
    )


def measure_lead(period: Period) -> timedelta:
    """Compute the least time between the creation of a period's table and its first event."""
    return min(LEAD_SHARE * (period.end - period.start), LEAD_MOST)


def _lacks_next_table(stream: Stream, view: Observed, now: datetime) -> bool:
    newest = Window.of(stream, now).newest
    current = find_entry_at(view.entries, newest)
    if current is None:
        return True
    start = current.period.end
    if newest < start - measure_lead(current.period):
        return False
    following = find_entry_at(view.entries, start)
    table = view.tables.get(following.table) if following is not None else None
    return table is None or table.status != "ACTIVE"


def _describe_change(stream: Stream, view: Observed, now: datetime) -> str | None:
    """Describe from when the stream's configuration will hold, if that is later: a period keeps its table's layout."""
    entries = sorted(view.entries, key=lambda entry: entry.period.start)
    current = find_entry_at(entries, now)
    if current is None:
        return None
    configured = stream.period, stream.layout
    differing = [
        entry for entry in entries if (entry.period.kind, entry.layout) != configured and now < entry.period.end
    ]
    if not differing:
        return None
    last = differing[-1]
    what = ", ".join(_find_differences(stream, last))
    return f"{stream.name}: {what} from {to_text(last.period.end)} on"


def _find_differences(stream: Stream, entry: Entry) -> Iterator[str]:
    if stream.period is not entry.period.kind:
        yield f"period {entry.period.kind} -> {stream.period}"
    old, new = entry.layout, stream.layout
    for name in ("partition_by", "bucket", "shards", "shard_by", "shard_until"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{name} {before} -> {after}"
    if old.indexes != new.indexes:
        names = [", ".join(index.name for index in indexes) or "none" for indexes in (old.indexes, new.indexes)]
        yield f"indexes {names[0]} -> {names[1]}"
