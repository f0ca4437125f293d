"""Notes of a stream's series: the instant from which on periods count as noted, and the removal of notes.

A writer notes a series in a period before it writes the series' first event there. Processes with an older
configuration do not note. A period counts as noted if all of these processes had ended before its first event could
come, even an event ahead of its time. So every event of a noted period has a note of its series.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.periods import Kind, find_containing
from tidetable.ports.rollups import Noting, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import DEFINED_AHEAD, NOTE_KEPT, NOTES_LEFT, NOTING_PAUSE, to_millis
from tidetable.rollups.services import Services
from tidetable.times import MOMENT

# The number of pages of notes that are removed in one call.
_AT_ONCE = 2_000
# How often the catalog is searched for periods whose notes can be removed.
_SWEPT_EVERY = timedelta(hours=1)


def begin_noting(source: str, ahead: timedelta, state: RollupState, services: Services) -> RollupState:
    """Record the instant from which on the series of a stream are noted, unless it is recorded already; return the
    state with it.

    Events may be ``ahead`` of the clock. After a stream's last rollup was removed, a new record waits for
    ``NOTING_PAUSE``. Each stream with rollups has a record, because it may be partitioned by series later.
    """
    now, noting = services.clock.now(), state.noting
    if not needs_noting(noting, now):
        return state
    new_noting = Noting(now + DEFINED_AHEAD + ahead, now if noting is None else noting.swept - 2 * NOTES_LEFT)
    if not services.rollups.put_noting(source, new_noting, noting):
        return services.rollups.read_at_once(source)
    return state._replace(noting=new_noting)


def needs_noting(noting: Noting | None, now: datetime) -> bool:
    """True if noting is to begin, for the first time or again."""
    return noting is None or (noting.stopped and now >= noting.since + NOTING_PAUSE)


def is_swept(noting: Noting | None, now: datetime) -> bool:
    """True if the notes of deleted periods need no look before the next hour."""
    return noting is None or noting.swept + _SWEPT_EVERY > now - NOTES_LEFT


def find_noted_start(start: datetime, kind: Kind, since: datetime) -> datetime:
    """Find the first instant from ``start`` on whose period is noted.

    Periods that begin at ``since`` or later are noted.
    """
    period = find_containing(start, kind)
    while period.start < since:
        period = period.shift(1)
    return max(start, period.start)


def sweep_notes(source: str, state: RollupState, services: Services) -> None:
    """Remove the notes of periods whose tables were deleted ``NOTES_LEFT`` ago or earlier, until the time is up.

    The period deleted first comes first. After ``NOTES_LEFT`` no process relies on these notes: it would have to see the
    table. A restore writes new notes with a later instant: these stay.
    """
    noting, until = state.noting, services.clock.now() - NOTES_LEFT
    if noting is None or is_swept(noting, services.clock.now()):
        return
    deleted = _find_deleted(source, noting.swept, until, services)
    for at, entry in sorted(deleted, key=lambda pair: (pair[0], pair[1].period.start)):
        if entry.layout.partition_by == "series" and not _clear_notes(source, entry, at, services):
            # Several tables may have been deleted at one instant: the next run begins with this instant again.
            until = at - MOMENT
            break
    services.rollups.put_noting(source, noting._replace(swept=until), noting)


def _find_deleted(source: str, swept: datetime, until: datetime, services: Services) -> list[tuple[datetime, Entry]]:
    """Find the periods that were deleted behind ``swept``, up to ``until``, with the instants of their deletion.

    Tables usually expire in their order, so a walk from the horizon back ends at the first that was swept already. Once
    a day the whole catalog is read: a period that was restored and deleted again may lie anywhere.
    """
    whole = swept.date() != until.date()
    deleted: list[tuple[datetime, Entry]] = []
    since = swept - timedelta(days=1) if whole else swept
    horizon = None if whole else services.catalog.read_horizon(source).at
    for entry in services.catalog.walk(source, None, horizon, consistent=True):
        if entry.state is State.DELETED and entry.deleted_at is not None:
            if since < entry.deleted_at <= until:
                deleted.append((entry.deleted_at, entry))
            elif entry.deleted_at <= since and horizon is not None:
                break
    return deleted


def _clear_notes(source: str, entry: Entry, deleted_at: datetime, services: Services) -> bool:
    """Remove the notes of a period; False if the time is up."""
    before = to_millis(deleted_at + NOTE_KEPT)
    while services.remaining() > RESERVE:
        if not services.rollups.clear_notes(source, entry.period.label, before, _AT_ONCE):
            return True
    return False
