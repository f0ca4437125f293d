"""The time that the service needs for each change of a table."""

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
    # A table whose key is lost during its creation stays CREATING for this time, and then disappears.
    create_without_key: float = 3560.0
    delete: float = 8.0
    capacity: float = 2.0
    to_provisioned: float = 60.0
    to_on_demand: float = 172.0
    # The time from the moment when a table is ACTIVE until a caller may turn on point-in-time recovery.
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
    # The longest time until DescribeTable finds a new table, and until ListTagsOfResource has its tags. The seed
    # decides the time of each table.
    seen: float = 3.0
    tagged: float = 5.0
    # A transaction whose caller got no answer continues for this time.
    transaction: float = 0.5
    # Copies in other Regions. `copy` is the time to copy an empty table, `copy_filled` a table with items. The copy is
    # visible in its own Region after `copy_seen`, and in the table's description after `copy_listed`. `copy_update` is
    # a change of a table that has copies. `copy_delete` is the deletion of a copy; the table ceases to list it
    # `copy_lingers` before its end.
    copy: float = 49.0
    copy_filled: float = 690.0
    copy_seen: float = 10.0
    copy_listed: float = 7.0
    copy_update: float = 39.0
    copy_delete: float = 244.0
    copy_lingers: float = 35.0

    def scale(self, factor: float) -> Timings:
        """Multiply the durations by a factor. A small factor makes them short enough for tests with a real clock."""
        return Timings(*(getattr(self, field.name) * factor for field in fields(self)))
