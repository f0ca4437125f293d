"""The price of archives by the rules of the file, by hand: a GB-month costs $0.023 in Standard."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from bill.amounts import Line
from bill.archived import price_archive
from bill.workload import Workload
from tests.lifecycle.world import configuration
from tests.worlds.billed import NOON, BilledStage
from tidetable.catalog import ArchiveFacts, State

ROWS = "[streams.s.archive]\n"


def price(rules: str = "", **facts: Any) -> Line:
    """The line of S3 for 1,000 bytes per second: 2.628 GB per month, a quarter of it as Parquet."""
    config = configuration(capacity='mode = "on-demand"', more=ROWS + rules)
    workload = Workload(
        [1.0] * 24, 1000, 0.0, 4096, 0.0, config.streams["s"], keeping=config.find_keeping("s"), **facts
    )
    return price_archive(workload)[0]


MONTH = 2.628 / 4
DAY = MONTH / (730 / 24)


@pytest.mark.parametrize(
    ("rules", "dollars"),
    [
        ("", 365 * DAY * 0.023),
        ('expire_after = "1825d"', 1825 * DAY * 0.023),
        ('expire_after = "30d"', 30 * DAY * 0.023),
        ('storage_class = "infrequent-access"', DAY * (30 * 0.023 + 335 * 0.0125)),
        ('storage_class = "infrequent-access"\nstorage_class_after = "100d"', DAY * (100 * 0.023 + 265 * 0.0125)),
        ('storage_class = "glacier-instant-retrieval"\nstorage_class_after = "0s"', DAY * 365 * 0.004),
        (
            'storage_class = "glacier-instant-retrieval"\nexpire_after = "1825d"',
            DAY * (30 * 0.023 + 1795 * 0.004),
        ),
        # 30 days in Standard, then 30 days, 60 days and the rest in the three tiers.
        ('storage_class = "intelligent-tiering"', DAY * (60 * 0.023 + 60 * 0.0125 + 245 * 0.004)),
        ('storage_class = "intelligent-tiering"\nexpire_after = "70d"', DAY * (60 * 0.023 + 10 * 0.0125)),
        # The class comes after the end: nothing is ever moved.
        ('storage_class = "infrequent-access"\nstorage_class_after = "400d"', DAY * 365 * 0.023),
    ],
)
def test_archives_are_priced_by_their_class_and_for_as_long_as_they_are_kept(rules: str, dollars: float) -> None:
    assert price(rules).dollars == pytest.approx(dollars)


def test_days_of_the_caller_come_before_those_of_the_file() -> None:
    assert price('expire_after = "1825d"', archive_days=10).dollars == pytest.approx(10 * DAY * 0.023)


@pytest.mark.parametrize(
    ("rules", "facts", "said"), [("", {}, True), ('expire_after = "9d"', {}, False), ("", {"archive_days": 365}, False)]
)
def test_archives_that_are_kept_for_ever_are_named(rules: str, facts: dict[str, int], said: bool) -> None:
    assert ("archives are kept for ever" in price(rules, **facts).how) is said
    assert "Parquet of 9 days" in price('expire_after = "9d"').how


@pytest.mark.parametrize(("days", "dollars"), [(29, 2 * 0.023), (31, 2 * 0.0125)])
def test_present_archives_are_priced_in_the_class_that_they_have_by_now(days: int, dollars: float) -> None:
    stage = BilledStage(more='[streams.s.archive]\nstorage_class = "infrequent-access"')
    facts = ArchiveFacts("m", 9, 2 * 10**9, NOON - timedelta(days=days))
    stage.add("2026-02-01", state=State.DELETED, archive=facts)
    stage.add("2026-02-02", state=State.DELETED, archive=replace(facts, expired_at=NOON))
    (line,) = (line for line in stage.stream()["lines"] if line["name"] == "archive, S3")
    assert line["dollars"] == pytest.approx(dollars)
    assert line["how"] == "1 archives, 2.00 GB of Parquet, in infrequent-access from 30 days after their export on"


@pytest.mark.parametrize(
    ("minutes", "rate", "times"),
    [
        # 100 events per second of 500 bytes: 180 MB per hour and a table of 4.3 GB.
        (60, 100.0, 1),
        (0, 100.0, 2),
        # 216 MB in 1,440 buckets and 4 suffixes: 38 KB each, for which a Query costs too much.
        (1, 5.0, 2),
        # 1.5 events per second are a table of 65 MB, and 1.4 one of 60 MB, which is read at once by a scan.
        (60, 1.5, 1),
        (60, 1.4, 2),
    ],
)
def test_packs_of_a_large_table_by_time_are_read_once(minutes: int, rate: float, times: int) -> None:
    """Ranges of time are read by Query. A scan finds the partitions of packs first, and then reads each in order.

    Without ``minutes`` of a bucket, the table is partitioned by series.
    """
    config = configuration(capacity='mode = "on-demand"', more='[streams.s.pack]\nspan = "1h"')
    stream = config.streams["s"]
    key = replace(stream.key, shards=4)
    if minutes:
        key = replace(key, partition_by="time", bucket=timedelta(minutes=minutes))
    workload = Workload([rate] * 24, 1000, 0.0, 4096, 0.0, replace(stream, key=key), packed_bytes=500)
    line = price_archive(workload)[1]
    size = rate * 730 * 3_600 * workload.stored_bytes
    assert line.dollars == pytest.approx(times * size / 4_096 * 0.125e-6)
