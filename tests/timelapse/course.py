"""The course of a simulated life: the streams at its beginning, and the changes of each day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.timelapse.vocabulary import Policy, Rollup, Step

# A Friday. The month is the shortest, and its predecessor, whose window is still open, expires on day 23.
START = datetime(2026, 2, 6, tzinfo=UTC)
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)

ALL = ("count", "sum", "min", "max", "first", "last", "percentiles")
# The tables of these hours expire within the life, so cells are read from archives, too.
HOURS = Rollup("hours", timedelta(hours=1), ("series",), ("n",), ALL, period="day", retention=3, periods=3)
DAYS = Rollup("days", timedelta(days=1), (), ("n",), ALL[:-1], period="month", retention=730, periods=24)
KINDS = Rollup("kinds", timedelta(minutes=30), ("kind",), (), ("count",), period="month", retention=28, periods=1)

POLICIES = {
    "hourly": Policy(
        "hour",
        late=timedelta(minutes=90),
        retention=5,
        key='partition_by = "series", shards = 4',
        ladder=(Step(0, 2, 5), Step(0, 1, 4, late=True), Step(1, 1, 5), Step(2, 1, 3, cheap=True)),
    ),
    "daily": Policy(
        "day",
        late=timedelta(days=1),
        retention=3,
        key='partition_by = "time", bucket = "1h", shards = 2',
        ladder=(Step(0), Step(1, cheap=True)),
        span="10m",
        rollups=(HOURS, DAYS),
    ),
    "texts": Policy(
        "day",
        late=timedelta(hours=12),
        retention=2,
        key='partition_by = "series", shards = 2',
        ladder=(Step(0, 4, 5), Step(0, 1, 3, late=True), Step(1, 1, 2)),
        versions=True,
        cold=True,
        beyond="chunks",
        feed=True,
    ),
    "weekly": Policy(
        "week",
        late=timedelta(days=2),
        retention=1,
        key='partition_by = "series", shards = 2',
        ladder=(Step(0, 3, 3), Step(0, 2, 3, late=True), Step(1, 1, 2, cheap=True)),
        beyond="s3",
    ),
    "monthly": Policy(
        "month",
        late=timedelta(days=21),
        retention=1,
        key='partition_by = "time", bucket = "1d", shards = 1',
        ladder=(Step(0), Step(1, cheap=True)),
        versions=True,
        cold=True,
    ),
    "leaving": Policy(
        "day",
        late=timedelta(hours=6),
        retention=2,
        key='partition_by = "series"',
        ladder=(Step(0, 2, 2), Step(1, 1, 2, cheap=True)),
    ),
    # Its events are deleted without an archive; its rollup stays.
    "fleeting": Policy(
        "day",
        late=timedelta(hours=6),
        retention=1,
        key='partition_by = "time", bucket = "6h", shards = 1',
        ladder=(Step(0),),
        on_expiry="delete",
        rollups=(replace(HOURS, period="month", retention=59, periods=2),),
    ),
}

# By day: the changed settings of each stream; None removes the stream.
CHANGES: dict[int, dict[str, dict[str, Any] | None]] = {
    4: {"hourly": {"scaled": (2, 8), "protected": True}},
    5: {"daily": {"feed": True}},
    6: {"leaving": None},
    7: {"daily": {"rollups": (HOURS, DAYS, KINDS)}},
    8: {"hourly": {"shards": 16}, "texts": {"cold": False}},
    10: {"hourly": {"indexed": True}, "texts": {"versions": False, "cold": True}},
    12: {"daily": {"period": "hour", "retention": 30, "span": ""}},
    13: {"daily": {"rollups": (replace(HOURS, by=("series", "kind")), DAYS, KINDS)}},
    14: {"hourly": {"scaled": None, "protected": False}, "texts": {"protected": True}},
    # Packs again, whose suffix now follows from the series.
    15: {"daily": {"span": "1h", "key": 'partition_by = "time", bucket = "1h", shards = 5, shard_by = "series"'}},
    16: {"texts": {"versions": True, "beyond": "s3"}, "hourly": {"indexed": False}},
    18: {"hourly": {"late": timedelta(hours=3)}, "daily": {"feed": False}},
    20: {"daily": {"period": "day", "retention": 3}, "hourly": {"scaled": (2, 6), "indexed": True}},
    22: {"texts": {"beyond": "chunks"}, "weekly": {"protected": True, "retention": 2}},
    23: {"daily": {"rollups": (replace(HOURS, by=("series", "kind")), DAYS)}},
    25: {"daily": {"rollups": (replace(HOURS, by=("series", "kind")), DAYS, KINDS)}},
    26: {"hourly": {"retention": 8}, "texts": {"protected": False}, "weekly": {"retention": 1}},
}
# On this day deletions are switched off.
KEPT_DAY = 24
# History is imported from the first day on, and another import is ended early.
IMPORT_DAY, EARLY_DAY = 3, 9
IMPORT = (datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 1, 26, tzinfo=UTC))
EARLY_IMPORT = (datetime(2026, 1, 27, tzinfo=UTC), datetime(2026, 1, 30, tzinfo=UTC))
# A day that was sealed and closed before it: its tables are opened again.
LATE_IMPORT = (datetime(2026, 2, 12, tzinfo=UTC), datetime(2026, 2, 13, tzinfo=UTC))
# By day: the restored stream and period, and the number of days.
RESTORES = {
    9: ("daily", "2026-02-09", 2),
    11: ("texts", "2026-02-09", 2),
    13: ("weekly", "2026-W06", 3),
    17: ("hourly", "2026-02-13T13", 1),
}
# On every twelfth day more events come at once than the tables take, and the queue refuses for some minutes.
STORM_DAYS, STORM_HOUR = 12, 13
# On this day the bucket is out of reach for three hours.
BUCKET_DAY, BUCKET_HOURS = 7, range(9, 12)


def is_storm(now: datetime) -> bool:
    """Whether this is an hour of a storm."""
    return (now - START).days % STORM_DAYS == 1 and now.hour == STORM_HOUR


def policies_on(day: int) -> dict[str, Policy]:
    """The configured streams from the beginning of a day on."""
    policies = dict(POLICIES)
    for changed, change in CHANGES.items():
        for name, values in change.items() if changed <= day else ():
            if values is None:
                del policies[name]
                continue
            new = dict(values)
            shards = new.pop("shards", None)
            if shards is not None:
                new["key"] = policies[name].key.replace("shards = 4", f"shards = {shards}")
            policies[name] = replace(policies[name], **new)
    return policies


def keeps_versions(stream: str, start: datetime) -> bool | None:
    """Whether the period that begins then keeps versions; None if the setting changed at about the creation of its table.

    A table is made two periods ahead.
    """
    if stream != "texts":
        return POLICIES[stream].versions
    made = start - timedelta(days=2)
    before, after = (
        policies_on((made + margin - START).days)[stream].versions
        for margin in (-timedelta(hours=1), timedelta(hours=3))
    )
    return before if before == after else None
