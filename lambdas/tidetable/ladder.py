"""The rule that decides a table's capacity and class by its age, and DynamoDB's limit on decreases of capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256

from tidetable.catalog import Entry, SeenTable, State
from tidetable.config import Autoscaling, Stream, TableClass
from tidetable.config.capacity import find_index_units
from tidetable.expiry import compute_closing, is_closed, is_due_at_close, is_expired
from tidetable.late import is_lowered
from tidetable.periods import Period, find_containing
from tidetable.ports import Table
from tidetable.times import to_text

# Units are raised 15 minutes before they are needed: a raise takes seconds to minutes, and runs are 5 minutes apart.
RAISE_AHEAD = timedelta(minutes=15)
# The units of a table that waits for its period: the smallest units that DynamoDB provisions, for about $0.57 per
# month.
STANDBY_UNITS = 1
RAISED = "raised for its export"
# AWS: in a UTC day, 4 decreases at any time, then one per hour after the last decrease, and 27 per day at the most.
AT_ONCE = 4
PER_DAY = 27
SPACING = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Level:
    """The target of a table: units per second (None for on-demand), class, and the reason.

    ``index_units`` are the units of indexes that have other units than the table. With ``scaling``, units within its
    ranges are not changed. ``most`` has the maximum write and read units of an on-demand table, and of each of its
    indexes.
    """

    write: int | None
    read: int | None
    table_class: TableClass
    reason: str
    index_units: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    scaling: Autoscaling | None = None
    most: tuple[int, int] | None = None

    def units(self, current: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        """Return the units that a table with the ``current`` units should have: the same units, if it needs no change."""
        return self._fit_units((self.write, self.read), current)

    def choose_index_units(self, index: str, current: tuple[int, int]) -> tuple[int, int]:
        """Return the units that an index with the ``current`` units should have. Only for a provisioned level."""
        write, read = self._fit_units(find_index_units(index, self.index_units, (self.write, self.read)), current)
        return write or 0, read or 0

    def choose_class(self, current: TableClass) -> TableClass:
        """Return the class that a table in the ``current`` class should have.

        A table in the class infrequent-access stays there, even if a longer window has made its age lower: AWS allows
        two changes of class in 30 days. In this class a unit costs a quarter more, but storage does not.
        """
        return current if current is TableClass.INFREQUENT else self.table_class

    def suits(self, seen: SeenTable) -> bool:
        """True if a table in this last known state needs no change."""
        current = seen.write, seen.read
        indexes = self.write is None or all(
            self.choose_index_units(name, units) == units for name, units in seen.indexes
        )
        return self.units(current) == current and indexes and self.choose_class(seen.table_class) is seen.table_class

    def caps(self, table: Table) -> bool:
        """True if an on-demand table, or one of its indexes, needs other maxima, as far as its maxima are known.

        A switch of the billing mode drops all maxima. The switch back to on-demand can set only the table's maxima.
        """
        if self.write is not None or not table.on_demand or not table.shows_maxima:
            return False
        return any(most != self.most for most in (table.most, *table.index_most.values()))

    def _fit_units(
        self, target: tuple[int | None, int | None], current: tuple[int | None, int | None]
    ) -> tuple[int | None, int | None]:
        if self.scaling is None or None in current or None in target:
            return target
        ranges = self.scaling.write, self.scaling.read
        write, read = (
            have if scaled is not None and have is not None and scaled.min <= have <= scaled.max else want
            for scaled, have, want in zip(ranges, current, target, strict=True)
        )
        return write, read


def compute_age(period: Period, stream: Stream, now: datetime) -> int:
    """Compute the age for the ladder: 0 until the table closes, 1 after it closes, 2 one period later."""
    if now <= compute_closing(period, stream):
        return 0
    # A period has closed if its end lies before this instant. The period that holds the instant has not closed.
    edge = now - stream.late
    holding = find_containing(edge, period.kind)
    return period.count_until(holding) - (holding.start == edge)


def is_past(period: Period, stream: Stream, now: datetime) -> bool:
    """True if the period's table no longer has the units of an open table: it is lowered for late events, or closed."""
    return is_closed(period, stream, now) or is_lowered(period, stream, now)


def choose_level(entry: Entry, stream: Stream, now: datetime, stagger: timedelta = timedelta(0)) -> Level:
    """Choose the level that the entry's table should have: for its age, for a backfill, or for an export.

    AWS: the write units of a table with copies must be on demand or scaled, whatever the configuration says now.
    """
    level = _choose_level(entry, stream, now, stagger)
    scaled = level.scaling is not None and level.scaling.write is not None
    if not entry.copied or level.write is None or scaled:
        return level
    return Level(None, None, level.table_class, f"{level.reason}, on demand as it has copies")


def _choose_level(entry: Entry, stream: Stream, now: datetime, stagger: timedelta) -> Level:
    delay = compute_stagger(entry.table, stagger)
    level = compute_level(entry.period, stream, now, delay=delay, copied=entry.copied)
    if entry.opened is not None and entry.is_open(now) and is_past(entry.period, stream, now):
        until, write, read = entry.opened
        most = stream.capacity.maxima if write is None else None
        return Level(write, read, level.table_class, f"open for a backfill until {to_text(until)}", most=most)
    units = stream.archive.read_units
    if level.read is None or not is_exported(entry, stream, now):
        return level
    if units is None:
        # On demand, a table that is read only once costs its storage and the units of that reading; decision 31.
        return Level(None, None, level.table_class, RAISED)
    if units <= level.read or not entry.live:
        return level
    return replace(level, read=units, reason=RAISED)


def compute_stagger(table: str, stagger: timedelta) -> timedelta:
    """Compute the delay of a table's steps, from 0 to ``stagger``, by a hash of its name: the same in every run."""
    return int.from_bytes(sha256(table.encode()).digest()[:4], "big") / 2**32 * stagger


def is_exported(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table will now be archived, is being archived, or was archived and still exists."""
    if entry.state in (State.ARCHIVING, State.ARCHIVED) or is_due_at_close(entry, stream, now):
        return True
    return stream.on_expiry == "archive" and entry.live and is_expired(entry, stream, now)


def compute_level(
    period: Period, stream: Stream, now: datetime, delay: timedelta = timedelta(0), *, copied: bool | None = None
) -> Level:
    """Compute the level that a period table should have at an instant.

    The level falls ``delay`` later than the ladder says, and rises ``delay`` earlier. A table that is ``copied`` into
    other Regions does not wait with the smallest units: its copies are made while it is empty, and its writes must be
    scaled before that. By default the configuration says whether it is copied.
    """
    capacity = stream.capacity
    age = compute_age(period, stream, now - delay)
    step = capacity.step_at(age, lowered=is_lowered(period, stream, now - delay))
    reason = f"age {age}: step {step.age} of the ladder"
    if age == 0 and step.is_late:
        reason = "its period is over: step late of the ladder"
    if capacity.on_demand(step):
        return Level(None, None, step.table_class, reason, most=capacity.maxima)
    rises = period.start - stream.ahead - RAISE_AHEAD - delay
    if now < rises and not (stream.copied if copied is None else copied):
        return Level(STANDBY_UNITS, STANDBY_UNITS, step.table_class, f"stands by until {rises.isoformat()}")
    units = {name: (own.write, own.read) for name, own in step.index.items()}
    scaling = capacity.autoscaling if age == 0 and not step.is_late else None
    return Level(step.write, step.read, step.table_class, reason, units, scaling)


def find_next_decrease(table: Table, now: datetime) -> datetime | None:
    """Find the instant at which the table's capacity may be lowered next; None if it may be lowered now."""
    if table.decreases_today < AT_ONCE or table.last_decrease is None or table.last_decrease.date() < now.date():
        return None
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    if table.decreases_today >= PER_DAY:
        return midnight
    allowed = min(table.last_decrease + SPACING, midnight)
    return allowed if allowed > now else None
