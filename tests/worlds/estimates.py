"""Configurations that the commands price."""

from pathlib import Path

import pytest

ON_DEMAND = """
[lifecycle]
delete_expired = true
[streams.access]
period = "day"
late = "1h"
retention = 10
[streams.access.key]
partition_by = "time"
bucket = "6h"
[[streams.access.index]]
name = "by_error"
partition_by = "error"
[[streams.access.index]]
name = "slowest"
partition_by = "*"
sort_by = "ms"
project = "keys"
"""


PROVISIONED = """
[lifecycle]
delete_expired = true
[streams.access]
period = "day"
late = "1h"
retention = 1
[streams.access.key]
partition_by = "series"
[[streams.access.index]]
name = "by_error"
partition_by = "error"
[streams.access.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10, index = { by_error = { write = 10000, read = 1 } } },
    { age = 1, write = 1, read = 1 },
]
[streams.access.archive]
read_units = 400
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(ON_DEMAND)
    return path
