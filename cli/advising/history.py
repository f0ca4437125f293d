"""The measured history of a stream, for the rules of the advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from tidetable.config import Stream
from tidetable.periods import Period

# The kinds of throttling, in CloudWatch's words: the metrics are {Write,Read}<reason>ThrottleEvents.
Reason = Literal["KeyRangeThroughput", "ProvisionedThroughput", "MaxOnDemandThroughput", "AccountLimit"]


@dataclass(frozen=True, slots=True)
class Hour:
    """A clock hour of a table or an index.

    ``write`` and ``read`` are consumed units, ``peak_write`` and ``peak_read`` the units per second of the busiest five minutes.
    ``throttles`` counts throttled events by operation and reason.
    """

    start: datetime
    write: float = 0.0
    read: float = 0.0
    peak_write: float = 0.0
    peak_read: float = 0.0
    throttles: Mapping[tuple[Literal["Write", "Read"], Reason], float] = field(default_factory=dict)

    def throttled(self, operation: Literal["Write", "Read"], reason: Reason) -> float:
        """Return the throttled events of an operation for a reason."""
        return self.throttles.get((operation, reason), 0.0)


@dataclass(frozen=True, slots=True)
class Resource:
    """A period's table (``index`` is empty) or one of its indexes, with the hours that have measurements.

    ``shards`` is the number of shards in its frozen layout. ``packed`` is True if this layout has packs. ``items`` and
    ``bytes`` are its last known size, zero if unknown. ``imported`` is True if a backfill wrote to it.
    """

    period: Period
    index: str
    shards: int
    hours: tuple[Hour, ...]
    items: int = 0
    bytes: int = 0
    imported: bool = False
    packed: bool = False


class Writing(NamedTuple):
    """The number of requests that sent events, and the number of events that were accepted from them."""

    requests: int
    events: int


class Use(NamedTuple):
    """The queries of one kind: their route, the fields and operators of their conditions, and their totals.

    ``requests`` is the number of requests to DynamoDB. ``refused`` queries read nothing, because no index answers their
    conditions.
    """

    route: str
    conditions: tuple[str, ...]
    queries: int
    requests: int = 0
    units: float = 0.0
    read: int = 0
    returned: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """All measurements of a stream between two instants, and a list of the missing measurements.

    ``writing``, ``uses`` and ``shares`` are None if unknown. ``shares`` maps partition keys to their shares (0 to 1) of
    the write units, the heaviest first. If the table is partitioned by time, the keys and the units belong to one
    bucket; otherwise to all series.
    """

    stream: Stream
    start: datetime
    end: datetime
    resources: tuple[Resource, ...]
    writing: Writing | None = None
    uses: tuple[Use, ...] | None = None
    shares: Mapping[str, float] | None = None
    missing: tuple[str, ...] = ()
