"""The work of one run of the refresher on a stream, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from tidetable.remaining import Remaining
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import BucketPart
from tidetable.rollups.services import Services


@dataclass(slots=True)
class RefreshReport:
    """The report of a run: the numbers of sealed and resealed buckets, and the reasons why it did not handle others.

    ``added`` counts the late events that were added to cells. ``over`` are the buckets that are not kept: they have too
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


class RefreshRun(msgspec.Struct, frozen=True):
    """The work of one run on the rollups of the stream ``source``.

    ``share`` returns the seconds that are left until other streams have a turn. ``bucket_parts`` are the parts of the
    stream's buckets, and ``sizes`` the events of each rollup's last bucket that was read from events.
    """

    source: str
    definitions: Sequence[Definition]
    services: Services
    report: RefreshReport
    share: Remaining
    bucket_parts: Sequence[BucketPart] = ()
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
