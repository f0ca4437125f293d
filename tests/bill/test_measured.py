"""The workload that tables, archives and CloudWatch show, calculated by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import configuration
from tidetable.bill.consumed import ConsumedUnits, Traffic
from tidetable.bill.measured import Facts, Measured, measure_workload
from tidetable.bill.standing import ObservedPeriod
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, TableClass
from tidetable.keys import Layout
from tidetable.periods import from_label
from tidetable.ports import Table

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
LAYOUT = Layout("series", 1, "id")
PACKED = {"more": '[streams.s.pack]\nspan = "1h"'}


def period(
    label: str, items: int, size: int, stream: Stream, created: str = "2026-03-01", **facts: Any
) -> ObservedPeriod:
    name = f"tidetable-t.s.{label}"
    entry = Entry(
        "s", from_label(label), name, LAYOUT, State.OPEN, datetime.fromisoformat(f"{created}T00:00+00:00"), **facts
    )
    table = Table(name, "ACTIVE", None, None, TableClass.STANDARD, size_bytes=size, item_count=items)
    return ObservedPeriod(entry, stream, {name: table})


def measure(
    periods: list[ObservedPeriod],
    consumed: dict[tuple[str, str], ConsumedUnits] | None = None,
    traffic: Traffic | None = None,
    *,
    alone: bool = False,
    archived: list[Entry] | None = None,
) -> Measured | None:
    entries = [*(archived or []), *(measured.entry for measured in periods)]
    facts = Facts(periods, entries, consumed or {}, traffic or Traffic(), alone)
    return measure_workload(periods[0].stream, facts, NOON, by_key=True)


def test_the_newest_whole_periods_say_how_many_events_come_and_how_large_they_are() -> None:
    policy = configuration().streams["s"]
    periods = [
        period("2026-03-15", 999_999, 1, policy),  # today's is not over
        period("2026-03-14", 86_400, 43_200_000, policy),
        period("2026-03-13", 172_800, 86_400_000, policy),
    ]
    found = measure(periods)
    assert found is not None
    # 259,200 events in two days, 500 bytes each.
    assert found.workload.events_per_second == [1.5] * 24
    assert found.workload.event_bytes == 500
    assert found.workload.batch == 100
    assert "129,600 events per day" in found.how[0]


def test_a_young_stage_is_measured_over_its_age() -> None:
    policy = configuration().streams["s"]
    found = measure([period("2026-03-15", 3600, 360_000, policy, created="2026-03-15")])
    assert found is not None
    assert found.workload.events_per_second[0] == pytest.approx(3600 / (12 * 3600), rel=1e-3)


def test_no_events_are_no_workload() -> None:
    assert measure([period("2026-03-14", 0, 0, configuration().streams["s"])]) is None


def test_queries_are_counted_by_the_units_that_they_took() -> None:
    policy = configuration().streams["s"]
    periods = [period("2026-03-14", 86_400, 43_200_000, policy), period("2026-03-01", 86_400, 43_200_000, policy)]
    consumed = {
        ("tidetable-t.s.2026-03-14", ""): ConsumedUnits(0, 1_209_600),
        ("tidetable-t.s.2026-03-01", ""): ConsumedUnits(0, 604_800),
    }
    # Since 1 March, 14.5 days, the stage's queries took 2.5 units on average: 5 half units of 4 KB.
    found = measure(periods, consumed, Traffic(10, 250, 100, 250))
    assert found is not None
    assert (found.workload.batch, found.workload.read_bytes) == (25, 5 * 4096)
    seconds = 14.5 * 86_400
    assert found.workload.reads_per_second == pytest.approx(1_209_600 / seconds / 2.5, rel=1e-3)
    assert found.workload.old_reads_per_second == pytest.approx(604_800 / seconds / 2.5, rel=1e-3)


def archived(label: str, events: int) -> Entry:
    facts = ArchiveFacts("m", events, 1, NOON)
    entry = period(label, 0, 0, configuration().streams["s"]).entry
    return replace(entry, state=State.DELETED, archive=facts)


def test_events_in_packs_are_counted_by_their_archives() -> None:
    policy = configuration(**PACKED).streams["s"]
    # Items are packs: 864 of them hold a day's 86,400 events in 10.8 MB.
    found = measure([period("2026-03-14", 864, 10_800_000, policy)], archived=[archived("2026-03-02", 86_400)])
    assert found is not None
    assert found.workload.events_per_second[0] == 1.0
    # 125 bytes in a pack, four times as much as an item.
    assert (found.workload.packed_bytes, found.workload.event_bytes) == (125.0, 500)


def test_events_in_packs_without_an_archive_are_those_of_the_stage_if_it_has_no_other_stream() -> None:
    policy = configuration(**PACKED).streams["s"]
    periods = [period("2026-03-14", 864, 10_800_000, policy)]
    traffic = Traffic(12_528, 1_252_800)
    assert measure(periods, traffic=traffic) is None
    found = measure(periods, traffic=traffic, alone=True)
    assert found is not None
    # 14.5 days since 1 March.
    assert found.workload.events_per_second[0] == 1.0


def test_sizes_that_dynamodb_has_not_counted_yet_are_not_used() -> None:
    policy = configuration().streams["s"]
    periods = [period("2026-03-14", 10, 1000, policy), period("2026-03-13", 86_400, 43_200_000, policy)]
    facts = Facts(periods, [measured.entry for measured in periods], {}, Traffic(), alone=False)
    found = measure_workload(policy, facts, datetime(2026, 3, 15, 2, tzinfo=UTC), by_key=True)
    assert found is not None
    assert found.workload.events_per_second[0] == 1.0
    assert timedelta(hours=2) < timedelta(hours=6), "the count is up to six hours old"


def test_a_stage_of_some_minutes_is_measured_over_an_hour() -> None:
    young = period("2026-03-15", 600, 60_000, configuration().streams["s"])
    entry = replace(young.entry, created_at=NOON - timedelta(minutes=10))
    found = measure([replace(young, entry=entry)])
    assert found is not None
    assert found.workload.events_per_second[0] == pytest.approx(600 / 3600, rel=1e-3)


def test_requests_have_at_most_ten_thousand_events() -> None:
    found = measure(
        [period("2026-03-14", 86_400, 8_640_000, configuration().streams["s"])],
        traffic=Traffic(requests=1, events=50_000),
    )
    assert found is not None
    assert found.workload.batch == 10_000


def test_tables_from_before_an_index_say_nothing_about_its_share() -> None:
    index = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
    policy = configuration(more=index).streams["s"]
    older, newer = (period(label, 1_000, 500_000, policy) for label in ("2026-03-13", "2026-03-14"))
    (table,) = newer.tables.values()
    newer = replace(newer, tables={table.name: replace(table, index_sizes={"status": (250, 50_000)})})
    found = measure([newer, older])
    assert found is not None
    assert found.workload.index_shares == {"status": 0.25}
