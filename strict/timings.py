"""How long the service takes for changes of a table."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in seconds.

    The durations of creation, deletion, capacity, billing modes and backups were measured on the service by others. The
    rest is unpublished, and chosen so that a caller that does not wait fails.
    """

    create: float = 6.0
    create_indexed: float = 22.0
    # A table whose key is lost during its creation stays CREATING for this time, and is then dropped.
    create_without_key: float = 3560.0
    delete: float = 8.0
    capacity: float = 2.0
    to_provisioned: float = 60.0
    to_on_demand: float = 172.0
    # From the moment when a table is ACTIVE until it may have point-in-time recovery.
    backups: float = 6.0
    # The window over which the rate of control plane requests is counted.
    rate: float = 1.0
    table_class: float = 30.0
    protection: float = 1.0
    warm: float = 30.0
    stream: float = 5.0
    encryption: float = 30.0
    index: float = 60.0
    # A table that is being deleted still answers for this time.
    linger: float = 1.0
    # The longest time until DescribeTable finds a new table, and until ListTagsOfResource has its tags: the seed
    # decides.
    seen: float = 3.0
    tagged: float = 5.0
    # A transaction whose caller had no answer continues for this time.
    transaction: float = 0.5
    # Copies in other Regions: making a copy of an empty table, and of one with items; when the copy's Region and the table's
    # own description show it; a change of a table that has copies; deleting a copy, which ends so long after the table has
    # ceased to list it.
    copy: float = 49.0
    copy_filled: float = 690.0
    copy_seen: float = 10.0
    copy_listed: float = 7.0
    copy_update: float = 39.0
    copy_delete: float = 244.0
    copy_lingers: float = 35.0

    def scale(self, factor: float) -> Timings:
        """The durations multiplied by a factor: fast motion for a real clock."""
        return Timings(*(getattr(self, field.name) * factor for field in fields(self)))
