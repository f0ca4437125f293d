"""The services that the refresher needs, and the errors that stop it."""

from __future__ import annotations

import msgspec

from tidetable.errors import TidetableError
from tidetable.ports import Catalog, Clock, Rollups
from tidetable.query.model import Reader
from tidetable.remaining import Remaining


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


class Superseded(TidetableError):
    """Another run changed the rollups meanwhile; this run stops."""


class Services(msgspec.Struct, frozen=True):
    """The services that the refresher needs. ``remaining`` returns the seconds that are left for this run."""

    catalog: Catalog
    reader: Reader
    rollups: Rollups
    clock: Clock
    remaining: Remaining
