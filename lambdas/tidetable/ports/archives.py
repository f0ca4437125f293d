"""The ports of archived periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.events import Event


class Archiver(Protocol):
    """Archives one period: writes it to S3, reads it back and compares it."""

    def archive(self, stream: str, label: str, *, within: float, retain: bool = False) -> None:
        """Archive the period and mark the catalog; wait at most ``within`` seconds. The table answers on, if it is to
        ``retain``.

        The call may be repeated at any time. ArchiveFailed says why it failed. ArchiveBusy says that the archive is
        still being written.
        """


class Rank(NamedTuple):
    """A ranking by the number of a field. The page begins ``after`` an event: number, time, series and id, as text."""

    field: str
    after: tuple[str, str, str, str] | None = None


class ArchiveRange(msgspec.Struct, frozen=True):
    """The range to read from an archived period: sort keys as in KeyRange, of one ``series`` or, if it is None, of all
    series.

    For all series, the sort keys are those of a table partitioned by time, however the period's table was partitioned.

    With ``versions`` each event is followed by its earlier versions, as many as a page holds. With ``version``,
    versions with a greater number are left out. Only events that meet all ``conditions`` and ``names`` are answered.
    With ``rank``, a page ranks only the events that it has read; the next pages may have events that rank before them.
    """

    manifest: str
    low: str
    high: str
    series: str | None = None
    after: str | None = None
    versions: bool = False
    conditions: tuple[Condition, ...] = ()
    rank: Rank | None = None
    names: NameConditions = ANY
    version: int | None = None

    def find_names(self) -> NameConditions | None:
        """Return the conditions on names together with ``series``; None if no event can meet them."""
        if self.series is None:
            return self.names
        possible = not self.names.series or self.series in self.names.series
        return self.names._replace(series=(self.series,)) if possible else None


class EventVersion(NamedTuple):
    """The number of an event's version, from 1, and the time when the version was accepted, in epoch milliseconds."""

    number: int
    at: int
    newest: bool


class ArchivePage(msgspec.Struct, frozen=True):
    """A page of archived events in the order of their sort keys. ``more`` is True if the range goes on after the page.

    ``versions`` are the versions of the events, one per event, if the range has ``versions``. ``reached`` is the sort
    key up to which the reader has read, if there is ``more``. It may lie beyond the last event: a page also ends after
    many events that do not meet the conditions. A ranked page is ``cut`` if an answer could not hold all requested
    events. ``read`` is the number of events that were read for the page.
    """

    events: Sequence[Event]
    more: bool
    versions: Sequence[EventVersion] | None = None
    reached: str | None = None
    cut: bool = False
    read: int = 0

    def follow(self, keys: ArchiveRange) -> ArchiveRange | None:
        """Return the rest of a range after the page; None at its end."""
        return replace(keys, after=self.reached) if self.more else None


class WholeRange(msgspec.Struct, frozen=True):
    """The events to read of an archived period, with ``start <= time < end`` (as texts) and in their newest versions.

    ``fields`` are the needed paths of data; the empty path is the whole data. ``ids`` says if ids are needed. ``skip``
    events at ``start`` were read before.
    """

    manifest: str
    start: str
    end: str
    fields: tuple[str, ...]
    ids: bool
    names: NameConditions = ANY
    conditions: tuple[Condition, ...] = ()
    skip: int = 0


class ArchiveColumns(msgspec.Struct, frozen=True):
    """Archived events in the order of time, as columns; ``values`` are the needed parts of data, by path.

    All events before the time ``reached`` were read, and ``skip`` events at this time; None is the end of the range.
    ``read`` is the number of events that were read for the answer, also those that do not meet the conditions.
    """

    times: Sequence[str]
    series: Sequence[str]
    ids: Sequence[str]
    values: Mapping[str, Sequence[Any]]
    reached: str | None
    skip: int
    read: int

    def follow(self, keys: WholeRange) -> WholeRange | None:
        """Return the rest of a range after the page; None at its end."""
        return None if self.reached is None else replace(keys, start=self.reached, skip=self.skip)


class ArchiveReader(Protocol):
    """Reads archived periods."""

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        """Read the first events of a range, as many as fit into an answer. ArchiveFailed as in ``read``."""
        ...

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """Read the first events of a range.

        If an answer cannot hold ``limit`` events, it has fewer, and ``more`` is set. ArchiveFailed if the archive is
        missing or damaged.
        """
