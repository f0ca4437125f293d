"""Find the date and the kind of a period table's next change by the rules of the lifecycle.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.expiry import compute_entry_expiry
from tidetable.ladder import RAISE_AHEAD, Level, choose_level, compute_stagger
from tidetable.late import find_lowering

# The rules of the ladder compare by "later than", so a level holds only from a moment after its instant.
_MOMENT = timedelta(milliseconds=1)
_ENDS = {"archive": "archived", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class NextStep:
    """A change at the instant ``at``: from then on the table has ``level``.

    Without a level, ``end`` says how the table ends.
    """

    at: datetime
    level: Level | None = None
    end: str = ""


def find_next_step(entry: Entry, stream: Stream, now: datetime, stagger: timedelta) -> NextStep | None:
    """Return the next change of the entry's table; None if no change will come, or if its archive exists or is being
    made.

    The lifecycle runs every five minutes, so a change comes up to five minutes later.
    """
    if not entry.live or entry.state is State.ARCHIVING:
        return None
    ends = compute_entry_expiry(entry, stream) if stream.on_expiry != "keep" else None
    present = choose_level(entry, stream, now, stagger)
    for at in sorted(set(_list_instants(entry, stream, stagger))):
        if at < now or (ends is not None and at >= ends):
            continue
        level = choose_level(entry, stream, at + _MOMENT, stagger)
        units = (present.write, present.read) != (level.write, level.read)
        if units or present.table_class is not level.table_class or present.index_units != level.index_units:
            return NextStep(at, level)
    return NextStep(ends, end=_ENDS[stream.on_expiry]) if ends is not None and now <= ends else None


def _list_instants(entry: Entry, stream: Stream, stagger: timedelta) -> Iterator[datetime]:
    """List, without an order, the instants at which a rule of the ladder can begin to hold."""
    period, delay = entry.period, compute_stagger(entry.table, stagger)
    yield period.start - stream.ahead - RAISE_AHEAD - delay
    lowered = find_lowering(period, stream)
    if lowered is not None:
        yield lowered + delay
    for step in stream.capacity.ladder:
        if isinstance(step.age, int) and step.age > 0:
            yield period.shift(step.age).start + stream.late + delay
    if entry.opened is not None:
        yield entry.opened.until
