"""Streams of large events, cold fields and versions, and an object that no item refers to."""

from datetime import UTC, datetime

from tests.fakes.stage import Stage
from tidetable.keys import Key
from tidetable.ports import Blob

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.chunked]
period = "day"
late = "1d"
retention = 5
cold = ["raw"]
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_kind", partition_by = "kind" }]
[streams.stored]
period = "day"
late = "1d"
retention = 5
large = { beyond = "s3" }
key = { partition_by = "series", shards = 2 }
[streams.kept]
period = "day"
late = "1d"
retention = 5
versions = "keep"
large = { beyond = "s3" }
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_kind", partition_by = "kind" }]
[streams.texts]
period = "day"
late = "1d"
retention = 5
versions = "keep"
cold = ["raw"]
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "series", shards = 2 }
[streams.history]
period = "day"
late = "1d"
retention = 5
versions = "keep"
key = { partition_by = "series", shards = 2 }
"""
DAY = "2026-03-15"


def orphan(stage: Stage, stream: str, number: int) -> Blob:
    """An object of an item that was never written."""
    key = f"large/stream={stream}/period={DAY}/{number:x}{number:x}/lost"
    return Blob(key, b"x", Key("a#0", "2026-03-15T00:00:00.000000Z#never"))
