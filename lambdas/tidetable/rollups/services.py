"""What the refresher works with, and how it stops."""

from __future__ import annotations

import msgspec

from tidetable.errors import TidetableError
from tidetable.ports import Catalog, Clock, Rollups
from tidetable.query.model import Reader, Remaining


class BucketBlocked(TidetableError):
    """A bucket cannot be computed or written now; what is marked stays marked, and is read from the events."""


class Unfinished(TidetableError):
    """The time of this run is up; the next run goes on."""


class Superseded(TidetableError):
    """Another run changed the rollups meanwhile; this one stops."""


class Services(msgspec.Struct, frozen=True):
    """What the refresher works with. ``remaining`` is how many seconds this run has."""

    catalog: Catalog
    reader: Reader
    rollups: Rollups
    clock: Clock
    remaining: Remaining
