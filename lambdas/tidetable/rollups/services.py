"""The services that the refresher needs, and the errors that stop it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tidetable.config import Config
from tidetable.errors import TidetableError
from tidetable.ports import Catalog, Clock, Rollups
from tidetable.query.model import Reader
from tidetable.remaining import Remaining
from tidetable.times import EPOCH
from tidetable.work.claim import WorkRecords

# Whoever sleeps longer looks at the time after so many seconds.
_STEP = 10.0


class BucketBlocked(TidetableError):
    """A bucket cannot be computed or written now.

    If the bucket is marked, it stays marked and is read from the events.
    """


class BucketOver(TidetableError):
    """A bucket has too many or too long groups, or a cell that DynamoDB refuses.

    The bucket is not kept: queries read its events.
    """


class Unfinished(TidetableError):
    """The time of this run is up; the next run goes on."""


class Divided(Unfinished):
    """A bucket has too many events for one reading: its parts are work items, which are not all finished."""


class TooManyEvents(TidetableError):
    """A bucket has more events than are read at once; ``events`` is an estimate of their number."""

    def __init__(self, events: int) -> None:
        super().__init__(f"about {events} events")
        self.events = events


class ShareUsed(Unfinished):
    """The stream has had its share of this run; it goes on after the other streams."""


class Superseded(TidetableError):
    """Another run changed the rollups meanwhile; this run stops."""


class Services(msgspec.Struct, frozen=True):
    """The services that the refresher needs. ``remaining`` returns the seconds that are left for this run.

    Since ``held_since`` no run of a former version has worked. ``config`` has the policies of the streams.
    """

    catalog: Catalog
    reader: Reader
    rollups: Rollups
    work: WorkRecords
    clock: Clock
    remaining: Remaining
    held_since: datetime = EPOCH
    config: Config = Config(streams={})

    def pause(self, seconds: float) -> None:
        """Sleep, and look at the time meanwhile; not longer than the time that is left."""
        while seconds > 0 and (left := self.remaining()) > 0:
            step = min(seconds, left, _STEP)
            self.clock.sleep(step)
            seconds -= step

    def require_time(self) -> None:
        """Raise Unfinished if the time is up. Who writes without a condition on the present state asks first.

        No time is left for a run whose claim has ended. So a run that stood still, and wakes after another run has claimed
        the stream, writes nothing of what it read before.
        """
        if self.remaining() <= 0:
            raise Unfinished("the time is up")
