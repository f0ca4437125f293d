"""A user's configuration on DynamoDB Local, as `make local CONFIG=... ENGINE=dynamodb-local` deploys it: a shop's streams,
every door with the streams of the documentation's programs, and the stream of the dashboard.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import Deployed, Emulator, deploy
from tests.worlds.grafana import FOLDER

SHOP = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.access]
period = "day"
late = "1d"
retention = 2
[streams.access.key]
partition_by = "time"
bucket = "6h"
[streams.access.table]
deletion_protection = true
tags = { team = "shop" }
[[streams.access.index]]
name = "by_error"
partition_by = "error"
# The same events three times: an item each, in packs by time, and in packs by series.
[streams.plain]
period = "day"
late = "2d"
retention = 14
key = { partition_by = "time", bucket = "6h", shards = 2 }
[streams.packed]
period = "day"
late = "2d"
retention = 14
key = { partition_by = "time", bucket = "6h", shards = 2 }
pack = { span = "10m" }
[streams.by_series]
period = "day"
late = "2d"
retention = 14
key = { partition_by = "series" }
pack = { span = "10m" }
"""
DOORS = """
[doors]
influx = true
otlp = true
cloudevents = true
firehose = true
otlp_metrics = "metrics"
otlp_logs = "logs"
"""
# Of these no table expires before the shop's do.
SENT_BY_OTHERS = """
[streams.{name}]
period = "day"
late = "1d"
ahead = "1h"
retention = 14
[streams.{name}.key]
partition_by = "time"
bucket = "6h"
shards = 2
"""
OTHERS = """
[streams.batches.pack]
span = "10m"
[streams.metrics.otlp]
series = ["service.name", "country"]
[streams.logs.otlp]
series = ["service.name"]
"""
QUAKES = """
[streams.quakes]
period = "day"
late = "1d"
retention = 14
key = { partition_by = "time", bucket = "6h", shards = 2 }
archive = { columns = { mag = "double" } }
"""
(ROLLUP,) = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)


@pytest.fixture(scope="package")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "shop.toml"
    streams = (SENT_BY_OTHERS.format(name=name) for name in ("sensors", "metrics", "logs", "orders", "batches"))
    path.write_text("".join([SHOP, DOORS, *streams, OTHERS, QUAKES, ROLLUP]))
    return path


@pytest.fixture(scope="package")
def own(file: Path) -> Iterator[Deployed]:
    with Emulator(long=False) as emulator:
        yield deploy(emulator, config=file, engine="dynamodb-local")
