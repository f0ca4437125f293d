"""A configuration to deploy."""

from datetime import UTC, datetime

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 5
[streams.s.key]
partition_by = "series"
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]
"""
# A stream that a later configuration adds.
MORE = """
[streams.new]
period = "day"
late = "1d"
retention = 5
[streams.new.key]
partition_by = "series"
"""
