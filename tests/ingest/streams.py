"""The configuration that the ingest tests share."""

from datetime import UTC, datetime

from tidetable.config import Config, parse

NOW = datetime(2026, 3, 1, 0, 5, tzinfo=UTC)

CONFIG: Config = parse(
    """
    [api]
    max_events = 50
    max_body = 20_000
    [streams.quakes]
    period = "day"
    late = "2d"
    ahead = "5m"
    retention = 7
    [streams.quakes.key]
    partition_by = "time"
    bucket = "6h"
    shards = 4
    [streams.devices]
    period = "hour"
    late = "3h"
    retention = 48
    [streams.devices.key]
    partition_by = "series"
    shards = 2
    """
)
QUAKES = CONFIG.streams["quakes"]
