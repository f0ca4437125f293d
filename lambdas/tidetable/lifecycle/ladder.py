"""The rule for capacity and class: what a table of some age deserves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidetable.catalog import Entry, Seen
from tidetable.config import Stream, TableClass
from tidetable.lifecycle.expiry import closes_at, is_leaving
from tidetable.periods import Period, containing

# A raise takes effect in seconds to minutes, and a run every five minutes must not miss the moment.
RAISE_AHEAD = timedelta(minutes=15)
# The least that DynamoDB provisions: about $0.57 a month, while the table waits for its period.
STANDBY_UNITS = 1


@dataclass(frozen=True, slots=True)
class Level:
    """What a table should have: units per second (None for on-demand) and class, and why."""

    write: int | None
    read: int | None
    table_class: TableClass
    reason: str

    def suits(self, seen: Seen) -> bool:
        """Whether a table that was seen so needs no change.

        A table once put into the class infrequent-access stays there, though a longer window may have made it young again: AWS
        allows two changes of class in 30 days, and the class costs a quarter more per unit, not per table.
        """
        stays = seen.table_class is TableClass.INFREQUENT
        return seen[:2] == (self.write, self.read) and (stays or seen.table_class is self.table_class)


def age_of(period: Period, stream: Stream, now: datetime) -> int:
    """The age in whole periods since the table closed: 0 while it is open or ahead, 1 in the first period after."""
    if now <= closes_at(period, stream):
        return 0
    # A period has closed if its end lies before this instant; the one that holds the instant has not.
    edge = now - stream.late
    holding = containing(edge, period.kind)
    return period.until(holding) - (holding.start == edge)


def level_for(entry: Entry, stream: Stream, now: datetime) -> Level:
    """The level that the entry's table should have: its age's, and while it is exported as many read units as that may take."""
    level = level_of(entry.period, stream, now)
    units = stream.archive.read_units
    if level.read is None or units is None or units <= level.read or not is_exported(entry, stream, now):
        return level
    return replace(level, read=units, reason="raised for its export")


def is_exported(entry: Entry, stream: Stream, now: datetime) -> bool:
    """Whether the entry's table is to be archived, and is not yet."""
    archives = stream.on_expiry == "archive" and entry.live
    return archives and is_leaving(entry, stream, now)


def level_of(period: Period, stream: Stream, now: datetime) -> Level:
    """The level that a period table should have at an instant."""
    age = age_of(period, stream, now)
    step = stream.capacity.step_at(age)
    if stream.capacity.mode == "on-demand":
        return Level(None, None, step.table_class, f"age {age}: step {step.age} of the ladder")
    rises = period.start - stream.ahead - RAISE_AHEAD
    if now < rises:
        return Level(STANDBY_UNITS, STANDBY_UNITS, step.table_class, f"stands by until {rises.isoformat()}")
    return Level(step.write, step.read, step.table_class, f"age {age}: step {step.age} of the ladder")
