"""A configuration with one table per hour."""

CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "hour"
late = "1h"
retention = 4
[streams.s.key]
partition_by = "series"
[streams.s.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10 },
    { age = 1, write = 2, read = 5 },
    { age = 2, write = 1, read = 1, class = "infrequent-access" },
]
"""
