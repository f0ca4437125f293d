"""The work of one run of the refresher on a stream, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tidetable.ports.rollups import Mark, Span
from tidetable.remaining import Remaining
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import BucketPart, meets_part, remove_parts
from tidetable.rollups.rebuild import Rebuild
from tidetable.rollups.services import Services


@dataclass(slots=True)
class RefreshReport:
    """The report of a run: the numbers of sealed and resealed buckets, and the reasons why it did not handle others.

    ``rebuilt`` counts the buckets that were computed for rebuilds, ``added`` the late events that were added to cells.
    ``over`` are the buckets that are not kept: they have too
    many or too long groups. ``marks`` counts the marks that remain, ``gone`` the marks that were cleared because their
    events are deleted for ever. ``lag`` is the longest time for which a bucket could have been sealed already.
    ``finished`` is False if the time was up too early. ``left`` are the streams, and the parts of long buckets, that another
    run has.
    """

    sealed: int = 0
    resealed: int = 0
    gone: int = 0
    blocked: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    marks: int = 0
    lag: timedelta = timedelta(0)
    finished: bool = True
    added: int = 0
    left: list[str] = field(default_factory=list)
    rebuilt: int = 0


class RefreshRun(msgspec.Struct, frozen=True):
    """The work of one run on the rollups of the stream ``source``.

    ``share`` returns the seconds that are left until other streams have a turn. ``bucket_parts`` are the parts of the
    stream's buckets, ``divided`` the buckets that have parts, each with the name of its rollup. ``rebuilds`` are the
    rebuilds of its rollups, and ``rebuilding`` the spans of their pieces. ``sizes`` are the events of each rollup's last
    bucket that was read from events.
    """

    source: str
    definitions: Sequence[Definition]
    services: Services
    report: RefreshReport
    share: Remaining
    bucket_parts: Sequence[BucketPart] = ()
    rebuilds: Sequence[Rebuild] = ()
    rebuilding: Sequence[Span] = ()
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    divided: set[tuple[str, datetime]] = msgspec.field(default_factory=set)

    def is_being_read(self, mark: Mark, parts: Sequence[BucketPart]) -> bool:
        """True if a mark is of a bucket that is being read in these parts, or that a piece of a rebuild has.

        Its events may have been read before the marked events were written, so the mark stays until the bucket counts.
        """
        return meets_part(mark, parts) or any(mark.meets(*span) for span in self.rebuilding)

    def remove_parts(self, rollup: str, bucket: datetime) -> None:
        """Remove the parts of a bucket that was computed."""
        own = [part for part in self.bucket_parts if (part.rollup, part.bucket) == (rollup, bucket)]
        remove_parts(own, self.services)
        self.divided.discard((rollup, bucket))
