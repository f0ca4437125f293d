"""The defaults: what a configuration means that says only what it must."""

from typing import Any

import msgspec

from tests.worlds.edges import INDEX, STREAM
from tidetable.config import Config, parse

STAGE = {
    "api": {
        "auth": "api-key",
        "rate": 200,
        "burst": 400,
        "key_rate": None,
        "key_burst": None,
        "concurrency": None,
        "snap_start": False,
        "max_events": 1000,
        "max_body": 4_000_000,
        "cors": [],
        "console": True,
        "logging_role": "stage",
        "tls": "1.2",
    },
    "observability": {"log_level": "INFO", "log_retention_days": 30, "tracing": False, "notify": []},
    "lifecycle": {
        "delete_expired": False,
        "delete_grace": "1d",
        "max_deletes": 100,
        "stagger": "10m",
        "table_quota": 2_500,
    },
    "work": {"workers": 5, "consumers": 5},
    "lake": {"keep_snapshots": 10},
    "storage": {
        "encryption": "service-managed",
        "former_keys": [],
        "former_regions": [],
        "removal": "keep",
        "termination_protection": False,
    },
    "archive": {"expire_after": "0s", "storage_class": "standard", "storage_class_after": "30d"},
    "doors": {
        "influx": False,
        "otlp": False,
        "cloudevents": False,
        "firehose": False,
        "otlp_metrics": None,
        "otlp_logs": None,
    },
}
POLICY = {
    "name": "s",
    "source": "",
    "period": "day",
    "late": "1d",
    "ahead": "5m",
    "retention": 3,
    "on_expiry": "archive",
    "archive_at": "expiry",
    "removal": "keep",
    "premake": 2,
    "replicas": [],
    "key": {"partition_by": "series", "bucket": None, "shards": 1, "shard_by": "id", "shard_until": ""},
    "index": [
        {
            "name": "own",
            "partition_by": "kind",
            "kind": None,
            "shards": 1,
            "sort_by": "time",
            "project": "all",
            "replica": False,
            "local": False,
        }
    ],
    "versions": "overwrite",
    "cold": [],
    "large": {"compress_above": None, "beyond": "refuse"},
    "pack": None,
    "capacity": {
        "mode": "on-demand",
        "warm": None,
        "max": None,
        "autoscaling": None,
        "ladder": [{"age": 0, "write": None, "read": None, "mode": None, "index": {}, "class": "standard"}],
    },
    "table": {
        "deletion_protection": False,
        "point_in_time_recovery": False,
        "encryption": "aws-owned",
        "stream": "none",
        "tags": {},
    },
    "archive": {
        "read_share": 0.5,
        "read_units": None,
        "segments": 4,
        "columns": {},
        "expire_after": None,
        "storage_class": None,
        "storage_class_after": None,
    },
    "feed": {
        "targets": ["arn:aws:sqs:eu-central-1:123456789012:changes"],
        "kinds": ["insert", "replace"],
        "where": {},
        "batch": 100,
        "window": "1s",
        "parallel": 1,
        "max_age": "1h",
    },
    "rollup": [
        {
            "name": "hours",
            "every": "1h",
            "by": [],
            "fields": [],
            "stats": ["count", "sum", "min", "max"],
            "retention": "30d",
            "period": None,
            "max_groups": None,
            "on_expiry": "archive",
        }
    ],
    "influx": {"series": ""},
    "otlp": {"series": []},
    "cloudevents": {"series": "subject"},
    "firehose": {"series": "series", "time": "time", "id": "id"},
}
TEXT = (
    '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'
    + INDEX
    + '[streams.s.feed]\ntargets = ["arn:aws:sqs:eu-central-1:123456789012:changes"]\n'
    + '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nretention = "30d"\n'
)


def test_what_a_file_does_not_say_has_its_default() -> None:
    config: Config = parse(TEXT)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config, enc_hook=str))
    streams = found.pop("streams")
    assert found == STAGE
    assert streams["s"] == POLICY


def test_what_auto_scaling_and_packs_do_not_say_has_its_default() -> None:
    scaled = 'mode = "provisioned"\nladder = [{ age = 0, write = 5, read = 5 }]\n'
    scaled += "autoscaling = { write = { min = 1, max = 9 } }\n"
    stream = parse(STREAM + '[streams.s.pack]\nspan = "1m"\n[streams.s.capacity]\n' + scaled).streams["s"]
    assert msgspec.to_builtins(stream.capacity.autoscaling) == {
        "write": {"min": 1, "max": 9, "target": 70},
        "read": None,
    }
    assert stream.pack is not None
    assert stream.pack.max_bytes == 65_536
