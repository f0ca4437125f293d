"""How long the service takes for changes of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. Those of creation, deletion, capacity, billing modes and backups were measured on the service by others; the
    rest is unpublished, and chosen so that a caller that does not wait is found out.
    """

    create: float = 6.0
    create_indexed: float = 22.0
    # A table whose key is lost while it is made stays CREATING so long, and is then dropped.
    create_without_key: float = 3560.0
    delete: float = 8.0
    capacity: float = 2.0
    to_provisioned: float = 60.0
    to_on_demand: float = 172.0
    # After a table has become ACTIVE, until it may have point-in-time recovery.
    backups: float = 6.0
    # The time in which so many tables may be made or deleted, as the rate of control plane requests allows.
    rate: float = 1.0
    table_class: float = 30.0
    protection: float = 1.0
    warm: float = 30.0
    stream: float = 5.0
    encryption: float = 30.0
    index: float = 60.0
    # How long a table that is being deleted still answers.
    linger: float = 1.0
    # Until DescribeTable finds a new table, and until ListTagsOfResource has its tags, at the latest: by the seed.
    seen: float = 3.0
    tagged: float = 5.0
    # How long a transaction whose caller has no answer goes on.
    transaction: float = 0.5

    def scaled(self, factor: float) -> Timings:
        """The same in fast motion, for a clock that nobody moves."""
        return Timings(*(getattr(self, field.name) * factor for field in fields(self)))
