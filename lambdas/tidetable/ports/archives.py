"""Archived periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from tidetable.conditions import ANY, Condition, Names
from tidetable.events import Event


class Archiver(Protocol):
    """Archives one period: writes, reads back, compares."""

    def archive(self, stream: str, label: str, *, within: float) -> None:
        """Archive the period and mark the catalog, waiting at most ``within`` seconds. Safe to call again at any time.

        ArchiveFailed says why not; ArchiveBusy that it is still under way.
        """


class Rank(NamedTuple):
    """By which field's number events are ranked, and after which of them: its number, time, series and id, as text."""

    field: str
    after: tuple[str, str, str, str] | None = None


class ArchiveRange(msgspec.Struct, frozen=True):
    """The range to read from an archived period: sort keys as in KeyRange, of ``series`` if it is not None.

    Over all series, sort keys are those of a table that is partitioned by time, whatever the period's table was.

    With ``versions`` the earlier versions of each event follow it, as many as a page holds; with ``version`` those that came
    after that one are left out. Only events that meet all ``conditions`` and ``names`` are answered;
    with ``fields`` of their data only those, given by their paths. With ``rank`` the page holds the first of them by a number;
    more pages may hold others that come before those.
    """

    manifest: str
    low: str
    high: str
    series: str | None = None
    after: str | None = None
    versions: bool = False
    conditions: tuple[Condition, ...] = ()
    fields: tuple[str, ...] = ()
    rank: Rank | None = None
    names: Names = ANY
    version: int | None = None


class Version(NamedTuple):
    """Which version an event is, counted from 1, and when it was accepted, in epoch milliseconds."""

    number: int
    at: int
    newest: bool


class ArchivePage(msgspec.Struct, frozen=True):
    """A page of archived events in the order of their sort keys; ``more`` tells whether the range goes on after it.

    ``versions`` are the versions of the events, one by one, if they were asked for. ``reached`` is the sort key up to which
    everything was read, if that is beyond the last event: conditions may leave out more than an answer waits for. A ranked page
    is ``cut`` if an answer could not hold as many of the first as were asked for. ``read`` events were read for it.
    """

    events: Sequence[Event]
    more: bool
    versions: Sequence[Version] | None = None
    reached: str | None = None
    cut: bool = False
    read: int = 0


class ArchiveReader(Protocol):
    """Reads archived periods."""

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """The first events of a range; fewer than ``limit`` with ``more`` set if an answer could not hold them all.

        ArchiveFailed if the archive is missing or damaged.
        """
