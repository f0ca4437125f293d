"""Streams and periods as the API describes them: every member, written out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.fakes.serial import Serial
from tests.worlds.days import Days
from tidetable.catalog import ArchiveFacts, Entry, Opening, State
from tidetable.config import TableClass, parse
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.problems import ProblemError
from tidetable.query import (
    describe_periods,
    describe_streams,
    parse_periods,
)

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
CONFIG = parse(
    """
    [streams.quakes]
    period = "day"
    late = "2h"
    ahead = "10m"
    retention = 9
    versions = "keep"
    on_expiry = "delete"
    key = { partition_by = "time", bucket = "6h", shards = 4, shard_by = "series", shard_until = "/" }
    [[streams.quakes.index]]
    name = "by_kind"
    kind = "type"
    partition_by = { order = "customer", refund = "order" }
    [[streams.quakes.index]]
    name = "near"
    local = true
    sort_by = ["state", "city"]
    [[streams.quakes.index]]
    name = "best"
    partition_by = "status"
    sort_by = "mag"
    [[streams.quakes.index]]
    name = "copy"
    replica = true
    [streams.plain]
    period = "month"
    late = "3d"
    retention = 2
    key = { partition_by = "series" }
    [[streams.plain.rollup]]
    name = "hourly"
    every = "1h"
    by = ["series", "place"]
    retention = "30d"
    """
)
QUAKES = {
    "stream": "quakes",
    "period": "day",
    "late": "2h",
    "ahead": "10m",
    "retention": 9,
    "on_expiry": "delete",
    "versions": "keep",
    "layout": {
        "partition_by": "time",
        "bucket_seconds": 21_600,
        "shards": 4,
        "shard_by": "series",
        "shard_until": "/",
        "pack": None,
    },
    "indexes": [
        {
            "name": "by_kind",
            "partition_by": "type",
            "kinds": ["order", "refund"],
            "sort_by": "time",
            "replica": False,
            "local": False,
        },
        {
            "name": "near",
            "partition_by": None,
            "kinds": None,
            "sort_by": ["state", "city"],
            "replica": False,
            "local": True,
        },
        {
            "name": "best",
            "partition_by": "status",
            "kinds": None,
            "sort_by": "mag",
            "replica": False,
            "local": False,
        },
        {
            "name": "copy",
            "partition_by": None,
            "kinds": None,
            "sort_by": "time",
            "replica": True,
            "local": False,
        },
    ],
    "rollups": [],
    "window": {"oldest": "2026-03-05T10:00:00.000000Z", "newest": "2026-03-05T12:10:00.000000Z"},
}


def test_a_stream_is_described_by_its_configuration_and_its_window() -> None:
    quakes, plain = describe_streams(CONFIG, NOON, lambda name: not name.startswith("plain-"))["streams"]
    assert quakes == QUAKES
    assert (plain["on_expiry"], plain["versions"], plain["late"], plain["ahead"]) == (
        "archive",
        "overwrite",
        "3d",
        "5m",
    )
    assert plain["layout"] == {
        "partition_by": "series",
        "bucket_seconds": None,
        "shards": 1,
        "shard_by": "id",
        "shard_until": None,
        "pack": None,
    }
    assert plain["rollups"] == [{"stream": "plain-hourly", "every": "1h", "by": ("series", "place")}]


LAYOUT = Layout("time", 3, "id", 86_400)
SHOWN_LAYOUT = {
    "partition_by": "time",
    "bucket_seconds": 86_400,
    "shards": 3,
    "shard_by": "id",
    "shard_until": None,
    "pack": None,
}


class Tables:
    """Describes a provisioned table, a table on demand, and tables that are not there."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def describe(self, name: str) -> Table | None:
        self.asked.append(name)
        if name == "t4":
            return Table(name, "UPDATING", 5, 7, TableClass.STANDARD, size_bytes=4_096, item_count=9)
        if name == "t3":
            return Table(name, "ACTIVE", None, None, TableClass.INFREQUENT, size_bytes=10, item_count=2)
        return None


def test_a_period_is_described_by_the_catalog_and_by_its_table() -> None:
    days, tables = Days(), Tables()
    facts = ArchiveFacts("manifest", 5, 700, NOON)
    opened = Opening(NOON + timedelta(hours=1), 5, None)
    for number, facts_of_day in (
        (4, {"state": State.OPEN, "opened": opened}),
        (3, {"state": State.ARCHIVED, "archive": facts}),
        (2, {"state": State.DELETED, "archive": facts}),
    ):
        made: dict[str, Any] = facts_of_day
        days.catalog.add(
            Entry("quakes", parse_label(f"2026-03-0{number}"), f"t{number}", LAYOUT, created_at=NOON, **made)
        )
    stream = CONFIG.streams["quakes"]
    query = parse_periods(stream, {}, NOON, SEAL)
    read: Any = tables
    shown = describe_periods(query, stream, days.catalog, read, NOON, SEAL, Serial)
    assert (shown["next"], shown["backfills"], tables.asked) == (None, [], ["t4", "t3"])
    archive = {"manifest": "manifest", "events": 5, "bytes": 700}
    assert shown["periods"] == [
        {
            "period": "2026-03-04",
            "start": "2026-03-04T00:00:00.000000Z",
            "end": "2026-03-05T00:00:00.000000Z",
            "state": "open",
            "backfill": {"until": "2026-03-05T13:00:00.000000Z", "write": 5, "read": None},
            "table": "t4",
            "layout": SHOWN_LAYOUT,
            "capacity": {"mode": "provisioned", "write": 5, "read": 7, "class": "standard"},
            "archive": None,
            "status": "UPDATING",
            "size_bytes": 4_096,
            "item_count": 9,
        },
        {
            "period": "2026-03-03",
            "start": "2026-03-03T00:00:00.000000Z",
            "end": "2026-03-04T00:00:00.000000Z",
            "state": "archived",
            "backfill": None,
            "table": "t3",
            "layout": SHOWN_LAYOUT,
            "capacity": {"mode": "on-demand", "write": None, "read": None, "class": "infrequent-access"},
            "archive": archive,
            "status": "ACTIVE",
            "size_bytes": 10,
            "item_count": 2,
        },
        {
            "period": "2026-03-02",
            "start": "2026-03-02T00:00:00.000000Z",
            "end": "2026-03-03T00:00:00.000000Z",
            "state": "deleted",
            "backfill": None,
            "table": "t2",
            "layout": SHOWN_LAYOUT,
            "capacity": None,
            "archive": archive,
        },
    ]


@pytest.mark.parametrize("name", ["where.a", "where.a:ge", "series"])
def test_periods_have_no_conditions(name: str) -> None:
    with pytest.raises(ProblemError, match="400 unknown_parameter"):
        parse_periods(CONFIG.streams["quakes"], {name: ["1"]}, NOON, SEAL)
