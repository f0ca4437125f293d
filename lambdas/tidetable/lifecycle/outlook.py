"""What should worry an operator before anything breaks: a next table not made, an archive overdue, the quota near."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.catalog import State, entry_at
from tidetable.config import Config, Stream
from tidetable.lifecycle.expiry import expires_at
from tidetable.lifecycle.observe import Observed

# An archive is tried at every run, so one that is a day overdue fails again and again.
OVERDUE = timedelta(days=1)
# The next table should be there a quarter of a period before it is needed, but an hour is enough for any.
LEAD_SHARE, LEAD_MOST = 0.25, timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Streams whose next table is missing though its period is near, and periods whose archive is overdue."""

    without_next: tuple[str, ...]
    overdue: tuple[str, ...]


def outlook(config: Config, observed: Mapping[str, Observed], now: datetime) -> Outlook:
    """Look at what a run found at its beginning: tables are made two periods ahead, so at a good run none is missing."""
    without_next = [name for name, found in observed.items() if _lacks_next(config.streams[name], found, now)]
    overdue = [
        f"{name} {entry.period.label}"
        for name, found in observed.items()
        if config.streams[name].on_expiry == "archive"
        for entry in found.entries
        if entry.state not in (State.ARCHIVED, State.DELETED)
        and now > expires_at(entry.period, config.streams[name]) + OVERDUE
    ]
    return Outlook(tuple(without_next), tuple(overdue))


def _lacks_next(stream: Stream, found: Observed, now: datetime) -> bool:
    newest = now + stream.ahead
    current = entry_at(found.entries, newest)
    if current is None:
        return True
    start = current.period.end
    if newest < start - min(LEAD_SHARE * (start - current.period.start), LEAD_MOST):
        return False
    following = entry_at(found.entries, start)
    table = found.tables.get(following.table) if following is not None else None
    return table is None or table.status != "ACTIVE"
