"""The catalog's entries: each is a period table, present or past, with its frozen layout and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypedDict

import msgspec

from tidetable.config import TableClass
from tidetable.large.table_names import name_tables
from tidetable.layout import Layout
from tidetable.periods import Period
from tidetable.segmentation import Segmentation, SegmentMarks
from tidetable.times import to_text


class State(StrEnum):
    """The states of a period table, in this order; a restore moves an archived or deleted table to closed.

    RETAINED is for streams that are archived at the close: the table still answers, until its retention ends.
    """

    CREATING = "creating"
    OPEN = "open"
    CLOSED = "closed"
    RETAINED = "retained"
    ARCHIVING = "archiving"
    ARCHIVED = "archived"
    DELETED = "deleted"
    RESTORING = "restoring"


class GapReason(StrEnum):
    """The reasons why a range of time cannot be read, as answers show them."""

    NO_TABLE = "no table"  # the period never had a table, so it never had an event
    NO_INDEX = "no index"  # the period is partitioned by series, and the query names neither a series nor an index
    NO_COPY = "no copy"  # a reader in another Region has no copy of the table
    DELETED = "deleted"
    ARCHIVE_EXPIRED = "archive expired"
    TABLE_MISSING = "table missing"
    DAMAGED_PACK = "damaged pack"
    DAMAGED_DATA = "damaged data"
    LATE_EVENTS_DELETED = (
        "late events deleted"  # a rollup's bucket may lack events: they were deleted before it was computed
    )


# The reasons that are faults: somebody deleted a table or damaged an item. The others are a result of the configuration.
FAULTS = frozenset({GapReason.TABLE_MISSING, GapReason.DAMAGED_PACK, GapReason.DAMAGED_DATA})
# The reasons that hold for ever, unless somebody restores the period.
GONE = frozenset({GapReason.DELETED, GapReason.ARCHIVE_EXPIRED})
# States in which the table holds the events. In other states the events are in the archive, or deleted by policy.
LIVE = frozenset({State.CREATING, State.OPEN, State.CLOSED, State.RETAINED, State.ARCHIVING})
# States in which the API may write to the table. In these states a table is never archived: it must close first, and then
# its period has been over for a while.
OPENING = frozenset({State.CREATING, State.OPEN})
# States in which a write may still reach the table. In ARCHIVING no write may, because the scan could miss it.
WRITABLE = frozenset({State.CREATING, State.OPEN, State.CLOSED, State.RETAINED})
# States in which each write is a transaction with the entry: the table may be archived at any moment, or it is archived
# already, and the write marks its segment.
FENCED = frozenset({State.CLOSED, State.RETAINED})
# States in which a table is read for its archive.
IN_ARCHIVE = frozenset({State.RETAINED, State.ARCHIVING})


class ArchiveFacts(msgspec.Struct, frozen=True):
    """The catalog's record of a verified archive: its manifest, its size, and the time of its verification.

    ``expired_at`` is the instant since which the bucket's rules may have deleted its files. ``untyped`` counts by declared
    column the values that the column does not hold. ``made`` is that of the segments whose files the archive has.
    ``oldest`` is when its oldest file was verified, if only some of its segments were archived again.
    """

    manifest: str
    events: int
    bytes: int
    at: datetime
    expired_at: datetime | None = None
    untyped: Mapping[str, int] = {}
    made: str = ""
    oldest: datetime | None = None


class SeenTable(NamedTuple):
    """The last known state of a table: units (None on demand), its class, and the units of its indexes by name.

    ``changing`` is True if a run has begun to change the table since then, so the next run must look at the table.
    """

    write: int | None
    read: int | None
    table_class: TableClass
    indexes: tuple[tuple[str, tuple[int, int]], ...] = ()
    changing: bool = False


class Opening(NamedTuple):
    """The opening of a period for a backfill: until when it takes events, and its units (None: on demand)."""

    until: datetime
    write: int | None
    read: int | None

    def takes_events(self, now: datetime) -> bool:
        """True if the backfill has not ended at an instant."""
        return now < self.until

    def joined(self, other: Opening) -> Opening:
        """Merge two backfills of one period: the later end and the greater units."""
        units = [
            None if mine is None or theirs is None else max(mine, theirs)
            for mine, theirs in ((self.write, other.write), (self.read, other.read))
        ]
        return Opening(max(self.until, other.until), *units)


class EntryFacts(TypedDict, total=False):
    """Facts of an entry that a change of its state may record."""

    archive: ArchiveFacts
    deleted_at: datetime
    keep_until: datetime
    opened: Opening


class RecordedPolicy(NamedTuple):
    """A stream's policy as the configuration last had it.

    ``policy`` is the text that ``config.record`` writes and reads. ``removed`` is the time at which a run first saw
    that the configuration no longer has the stream; None while the configuration has it.
    """

    stream: str
    policy: str
    removed: datetime | None = None


class Backfill(msgspec.Struct, frozen=True):
    """A request to open the periods of a stream that overlap ``[start, end)``, for an import of history."""

    stream: str
    start: datetime
    end: datetime
    opened: Opening

    def meets(self, period: Period) -> bool:
        """True if the backfill opens the period or a part of the period."""
        return self.start < period.end and period.start < self.end

    def document(self) -> dict[str, str]:
        """Return the backfill in the form of the API and of the reports."""
        return {"from": to_text(self.start), "to": to_text(self.end), "until": to_text(self.opened.until)}

    def holds(self, time: datetime) -> bool:
        """True if an event of that time may be imported while the backfill is open."""
        return self.start <= time < self.end

    def is_open(self, now: datetime) -> bool:
        """True if the backfill has not ended at an instant."""
        return self.opened.takes_events(now)


class CopyFacts(msgspec.Struct, frozen=True):
    """The copies of a period's table in other Regions.

    ``replicas`` are the Regions that are to have copies; they are decided when the period is recorded. ``active`` are
    those in which the lifecycle last saw an ACTIVE copy. ``begun`` names the Region whose copy was begun last, and the
    time when it was begun. ``here`` is False if a reader in another Region has no copy of the table; it is not stored.
    """

    replicas: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    begun: tuple[str, datetime] | None = None
    here: bool = True


class CapacityFacts(msgspec.Struct, frozen=True):
    """The units of a period's table, as the lifecycle last knew them.

    ``seen`` is the table's last known state: with it the lifecycle need not look at a table that needs no change.
    ``scaled`` says that Application Auto Scaling may change the table's units, ``policy`` is the policy that it has
    confirmed.
    """

    seen: SeenTable | None = None
    scaled: bool = False
    policy: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One period table of one stream.

    ``keep_until`` says how long a restored table is kept. ``opened`` is set if the table is or was open for a backfill.
    ``segments`` are those of its present or last archive, and ``marks`` the writes that came after they were begun.
    """

    stream: str
    period: Period
    table: str
    layout: Layout
    state: State
    created_at: datetime
    archive: ArchiveFacts | None = None
    deleted_at: datetime | None = None
    keep_until: datetime | None = None
    opened: Opening | None = None
    capacity: CapacityFacts = CapacityFacts()
    copies: CopyFacts = CopyFacts()
    segments: Segmentation | None = None
    marks: SegmentMarks = SegmentMarks()

    @property
    def live(self) -> bool:
        """True if reads go to the table."""
        return self.state in LIVE and self.copies.here

    @property
    def archived(self) -> ArchiveFacts | None:
        """The archive that queries may read; None if there is no archive, or if it has expired."""
        return self.archive if self.archive is not None and self.archive.expired_at is None else None

    @property
    def copied(self) -> bool:
        """True if the table is to have copies in other Regions."""
        return bool(self.copies.replicas)

    @property
    def has_whole_archive(self) -> bool:
        """True if the archive has the files of all segments; some segments may have changed since."""
        return self.archive is not None and self.segments is not None and self.archive.made >= self.segments.whole

    @property
    def has_all_segments(self) -> bool:
        """True if the archive has the files of all segments, as they were when the last ones of them were begun."""
        return self.archive is not None and self.segments is not None and self.archive.made == self.segments.made

    @property
    def is_retained(self) -> bool:
        """True if the table still answers, and its archive has all that the table has."""
        return self.state is State.RETAINED and self.has_all_segments and not self.marks.numbers

    @property
    def absence(self) -> GapReason:
        """The reason why a period without table and archive cannot be read."""
        if not self.copies.here:
            return GapReason.NO_COPY
        return GapReason.DELETED if self.archive is None else GapReason.ARCHIVE_EXPIRED

    @property
    def writable(self) -> bool:
        """True if writes may go to the table."""
        return self.state in WRITABLE

    @property
    def is_far(self) -> bool:
        """True if the period may lie before its stream's horizon, though it is not deleted: it was recorded after its end,
        or is restored.
        """
        return self.state is State.RESTORING or (self.state is not State.DELETED and self.period.end <= self.created_at)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the period's tables, its own table first."""
        return name_tables(self.table, self.layout)

    def is_open(self, now: datetime) -> bool:
        """True if a backfill may write to the table."""
        return self.opened is not None and self.opened.takes_events(now) and self.writable


class Horizon(NamedTuple):
    """Where the tables of a stream are: each period before ``at`` is deleted, except for the ``far`` ones.

    ``at`` is None if it is unknown: then any period may have a table. ``far`` are in the order of time, and may have later
    periods, too.
    """

    at: datetime | None = None
    far: tuple[Period, ...] = ()


def find_entry_at(entries: Iterable[Entry], instant: datetime) -> Entry | None:
    """Find the entry whose period contains the instant; periods of one stream never overlap."""
    return next((entry for entry in entries if instant in entry.period), None)


def find_entry(entries: Iterable[Entry], period: Period) -> Entry | None:
    """Find the entry of exactly this period."""
    return next((entry for entry in entries if entry.period == period), None)
