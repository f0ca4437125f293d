"""What `check` says of a stream and warns of, at the last figures that are usual and the first that are not."""

import json
from pathlib import Path

import pytest

from cli.advice import describe_stream, warn_about
from tests.worlds.commands import run
from tidetable.config import parse

BASE = """
[lifecycle]
delete_expired = true
[streams.s]
period = "{period}"
late = "{late}"
retention = 9
on_expiry = "{expiry}"
{more}
[streams.s.key]
partition_by = "time"
bucket = "{bucket}"
shards = {shards}
[streams.s.capacity]
{capacity}
{archive}
"""
DEFAULTS = {
    "period": "day", "late": "1h", "expiry": "archive", "bucket": "1h", "shards": 1,
    "capacity": 'mode = "on-demand"', "archive": "", "more": "",
}  # fmt: skip
PROVISIONED = 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }'
OLD = "{ age = 1, write = 1, read = %d }]"


def render(**changes: object) -> str:
    return BASE.format(**(DEFAULTS | changes))


def warned(**changes: object) -> list[str]:
    """The first words of each warning about the stream."""
    warnings = [text.removeprefix("streams.s.") for text in warn_about(parse(render(**changes)))]
    return [text.partition(":")[0] for text in warnings if text.startswith(("key: ", "late: ", "archive.read_units: "))]


@pytest.mark.parametrize(
    ("changes", "warnings"),
    [
        # A query over a day reads 48 partitions, or 72.
        ({"shards": 2}, []),
        ({"shards": 3}, ["key"]),
        ({"bucket": "24h", "shards": 48}, []),
        ({"bucket": "24h", "shards": 49}, ["key"]),
        # Open tables with the units of age 0: more than two periods of late events.
        ({"late": "2d", "capacity": f"{PROVISIONED}]"}, []),
        ({"late": "49h", "capacity": f"{PROVISIONED}]"}, ["late"]),
        ({"late": "49h"}, []),
        ({"late": "49h", "capacity": PROVISIONED + ', { age = "late", write = 1, read = 9 }]'}, []),
        # A gigabyte in a day are 2.83 units of 4 KB per second.
        (
            {
                "capacity": f"{PROVISIONED}, {OLD % 1}",
                "archive": "[streams.s.archive]\nread_units = 3\nread_share = 1.0",
            },
            [],
        ),
        (
            {
                "capacity": f"{PROVISIONED}, {OLD % 1}",
                "archive": "[streams.s.archive]\nread_units = 2\nread_share = 1.0",
            },
            ["archive.read_units"],
        ),
        # Half of five units are too few, and half of six suffice.
        (
            {
                "capacity": f"{PROVISIONED}, {OLD % 1}",
                "archive": "[streams.s.archive]\nread_units = 5\nread_share = 0.5",
            },
            ["archive.read_units"],
        ),
        # The step's own units are more than those to which it would be raised.
        (
            {
                "capacity": f"{PROVISIONED}, {OLD % 6}",
                "archive": "[streams.s.archive]\nread_units = 5\nread_share = 0.5",
            },
            [],
        ),
        (
            {
                "capacity": f"{PROVISIONED}, {OLD % 1}",
                "archive": "[streams.s.archive]\nread_units = 2\nread_share = 1.0",
                "expiry": "delete",
            },
            [],
        ),
    ],
)
def test_a_stream_is_warned_of_what_is_rarely_meant(changes: dict[str, object], warnings: list[str]) -> None:
    assert warned(**changes) == warnings


OTLP = """
[doors]
otlp = true
{doors}
[streams.s]
period = "day"
late = "1h"
retention = 9
key = {{ partition_by = "{by}"{bucket} }}
{more}
[streams.other]
period = "day"
late = "1h"
retention = 9
key = {{ partition_by = "time", bucket = "1h" }}
"""


@pytest.mark.parametrize(
    ("by", "doors", "more", "warned_of"),
    [
        ("series", "", "", True),
        ("series", 'otlp_metrics = "s"', "", True),
        ("series", 'otlp_logs = "s"', "", True),
        ("time", 'otlp_metrics = "s"', "", False),
        ("series", 'otlp_metrics = "other"', "", False),
        ("series", "", 'otlp = { series = ["service.name"] }', False),
    ],
)
def test_the_random_instance_in_opentelemetrys_series_is_named_where_it_begins_series(
    by: str, doors: str, more: str, warned_of: bool
) -> None:
    text = OTLP.format(by=by, bucket=', bucket = "1h"' if by == "time" else "", doors=doors, more=more)
    found = [warning for warning in warn_about(parse(text)) if "service.instance.id" in warning]
    assert [warning.startswith("streams.s.otlp.series: ") for warning in found] == [True] * warned_of
    closed = parse(
        text.replace("otlp = true", "otlp = false").replace(doors, "") if doors else text.replace("otlp = true", "")
    )
    assert not [warning for warning in warn_about(closed) if "service.instance.id" in warning]


def test_streams_that_opentelemetry_may_reach_share_a_warning() -> None:
    text = OTLP.format(by="series", bucket="", doors="", more="") + "".join(
        f'[streams.{name}]\nperiod = "day"\nlate = "1h"\nretention = 9\nkey = {{ partition_by = "series" }}\n'
        for name in "tu"
    )
    (found,) = (warning for warning in warn_about(parse(text)) if "service.instance.id" in warning)
    assert found.startswith("streams.s.otlp.series: ")
    assert found.endswith("; the same holds for t, u")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "a table per day, partitioned by time, 1 shard, buckets of 1h, on demand"),
        (
            {"shards": 2, "capacity": f"{PROVISIONED}]", "more": 'index = [{ name = "by_a", partition_by = "a" }]'},
            "a table per day, partitioned by time, 2 shards, buckets of 1h, provisioned, indexes: by_a",
        ),
        (
            {"more": 'pack = { span = "1m" }'},
            "a table per day, partitioned by time, 1 shard, buckets of 1h, on demand, packs of up to 1m",
        ),
    ],
)
def test_a_stream_is_described_in_a_line(changes: dict[str, object], text: str) -> None:
    assert describe_stream(parse(render(**changes)).streams["s"]) == text


def test_check_prints_json_with_tables_and_warnings(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(render(shards=3))
    document = json.loads(run("check", str(file), "--json").stdout)
    assert (document["configuration"], list(document["tables"])) == (str(file), ["s"])
    assert [text for text in document["warnings"] if text.startswith("streams.s.key: ")]
