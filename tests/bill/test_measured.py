"""The workload that tables, archives and CloudWatch show, calculated by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bill.consumed import ConsumedUnits, Traffic
from bill.current_tables import ObservedPeriod
from bill.measured import Measured, StreamFacts, measure_workload
from tests.lifecycle.world import configuration
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, TableClass
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import Table

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
LAYOUT = Layout("series", 1, "id")
PACKED = {"more": '[streams.s.pack]\nspan = "1h"'}


def period(
    label: str, items: int, size: int, stream: Stream, created: str = "2026-03-01", **facts: Any
) -> ObservedPeriod:
    name = f"tidetable-t.s.{label}"
    entry = Entry(
        "s", parse_label(label), name, LAYOUT, State.OPEN, datetime.fromisoformat(f"{created}T00:00+00:00"), **facts
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
    facts = StreamFacts(periods, entries, consumed or {}, traffic or Traffic(), alone)
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
    assert found.how[0] == "129,600 events per day: the items of its newest whole tables"


def test_a_young_stage_is_measured_over_its_age() -> None:
    policy = configuration().streams["s"]
    found = measure([period("2026-03-15", 3600, 360_000, policy, created="2026-03-15")])
    assert found is not None
    assert found.workload.events_per_second[0] == pytest.approx(3600 / (12 * 3600), rel=1e-3)
    assert found.how[0] == "7,200 events per day: the items of the time since it began"


def test_a_table_that_was_created_at_the_begin_of_its_period_has_the_whole_period() -> None:
    found = measure([period("2026-03-14", 86_400, 43_200_000, configuration().streams["s"], created="2026-03-14")])
    assert found is not None
    assert found.workload.events_per_second == [1] * 24, "and not the events of the day and a half until now"


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


@pytest.mark.parametrize(("units", "size"), [(2.5, 20_480), (8.0, 32_768), (3.75, 4_096), (0.5, 4_096)])
def test_what_further_shards_round_up_is_no_part_of_a_query(units: float, size: int) -> None:
    """Of 16 shards: a quarter of a unit for each but the first."""
    policy = configuration().streams["s"]
    shards = 1 if units == 2.5 else 16
    sharded = msgspec.structs.replace(policy, key=msgspec.structs.replace(policy.key, shards=shards))
    found = measure([period("2026-03-14", 86_400, 43_200_000, sharded)], {}, Traffic(10, 250, 100, 100 * units))
    assert found is not None
    assert found.workload.read_bytes == size


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
    # 125 bytes of the table: 1.3 are the event's share of its pack's own 130, and 123.7 are a quarter of an item.
    assert (found.workload.packed_bytes, found.workload.event_bytes) == (123.7, 495)
    # A hundred events per request and per pack: the requests have one series.
    assert found.workload.series_per_request == 1


def test_packs_of_few_events_tell_how_many_series_a_request_has() -> None:
    """86,400 events in 43,200 packs of 180 bytes: 50 packs per request of a hundred events, each with its own 130 bytes."""
    policy = configuration(**PACKED).streams["s"]
    found = measure([period("2026-03-14", 43_200, 43_200 * 180, policy)], archived=[archived("2026-03-02", 86_400)])
    assert found is not None
    assert (found.workload.packed_bytes, found.workload.series_per_request) == (25.0, 50)
    assert (found.workload.items_per_event, found.workload.event_units) == (0.5, 0.5)


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
    facts = StreamFacts(periods, [measured.entry for measured in periods], {}, Traffic(), alone=False)
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


def daily(count: int, packed: bool = False) -> list[ObservedPeriod]:
    """Whole days, the newest first: each older one has an event per second more, of 100 bytes more."""
    policy = configuration(**(PACKED if packed else {})).streams["s"]
    days = [NOON - timedelta(days=number) for number in range(1, count + 1)]
    return [
        period(f"{day:%Y-%m-%d}", 86_400 * number, 86_400 * number * 100, policy)
        for number, day in enumerate(days, start=1)
    ]


def test_the_seven_newest_whole_periods_are_measured() -> None:
    """The mean of one to seven events per second; the eighth day is older."""
    found = measure(daily(9)[::-1])
    assert found is not None
    assert found.workload.events_per_second[0] == 4.0


def test_the_seven_newest_archives_with_events_are_measured() -> None:
    days = [archived(f"2026-03-{day:02}", 86_400 * day) for day in range(1, 10)]
    found = measure(daily(1, packed=True), archived=[*days, archived("2026-03-10", 0)])
    assert found is not None
    # The mean of three to nine events per second.
    assert found.workload.events_per_second[0] == 6.0


def test_a_day_is_whole_if_its_table_was_there_from_its_beginning_on() -> None:
    """The first day of a stage is half a day, and a day of which nothing is counted says nothing."""
    policy = configuration().streams["s"]
    whole, first = (period(f"2026-03-{day}", 86_400, 8_640_000, policy) for day in ("14", "13"))
    first = replace(first, entry=replace(first.entry, created_at=datetime(2026, 3, 13, 6, tzinfo=UTC)))
    found = measure([whole, first, period("2026-03-12", 0, 0, policy)])
    assert found is not None
    assert found.workload.events_per_second[0] == 1.0
    # Without a whole day, the time counts from which a table could take events: two days and a quarter, or half a day.
    found = measure([first, period("2026-03-12", 0, 0, policy)])
    assert found is not None
    assert found.workload.events_per_second[0] == pytest.approx(1 / 2.25, rel=1e-3)
    found = measure([period("2026-03-15", 43_200, 4_320_000, policy)])
    assert found is not None
    assert found.workload.events_per_second[0] == 1.0


@pytest.mark.parametrize(("hour", "rate"), [(5, 2.0), (6, 1.0)])
def test_a_count_is_used_from_six_hours_after_the_periods_end_on(hour: int, rate: float) -> None:
    policy = configuration().streams["s"]
    periods = [period("2026-03-14", 0, 0, policy), period("2026-03-13", 172_800, 86_400_000, policy)]
    table = next(iter(periods[0].tables.values()))
    # The day before has one event.
    periods[0] = replace(periods[0], tables={table.name: replace(table, item_count=1, size_bytes=500)})
    facts = StreamFacts(periods, [own.entry for own in periods], {}, Traffic(), alone=False)
    found = measure_workload(policy, facts, datetime(2026, 3, 15, hour, tzinfo=UTC), by_key=True)
    assert found is not None
    assert found.workload.events_per_second[0] == rate


def test_metrics_cover_thirty_days_of_an_older_stage_and_reads_of_indexes_too() -> None:
    policy = configuration().streams["s"]
    periods = [period("2026-03-14", 86_400, 43_200_000, policy, created="2025-01-01")]
    name = periods[0].entry.table
    # One unit per second of the table and two of its index, for 30 days; a query takes a unit.
    consumed = {(name, ""): ConsumedUnits(9, 2_592_000), (name, "status"): ConsumedUnits(9, 5_184_000)}
    found = measure(periods, consumed, Traffic(1, 0, 100, 100))
    assert found is not None
    assert (found.workload.reads_per_second, found.workload.read_bytes) == (3.0, 8192)
    assert (found.workload.batch, "assumed" in found.how[2]) == (100, True)


def test_reads_of_a_young_stage_are_spread_over_an_hour_at_least() -> None:
    young = period("2026-03-15", 600, 60_000, configuration().streams["s"])
    young = replace(young, entry=replace(young.entry, created_at=NOON - timedelta(minutes=10)))
    found = measure([young], {(young.entry.table, ""): ConsumedUnits(0, 3600)}, Traffic(5, 2, 1, 1))
    assert found is not None
    assert (found.workload.reads_per_second, found.workload.batch) == (1.0, 1)


def test_small_figures_are_one_at_least_and_all_have_four_digits() -> None:
    policy = configuration(**PACKED).streams["s"]
    periods = [period("2026-03-14", 864, 12_345_678, policy)]
    found = measure(periods, traffic=Traffic(1, 1, 1000, 100), archived=[archived("2026-03-02", 123_456)])
    assert found is not None
    # 1.428889 events per second of 100.0006 bytes, 0.9 of them a pack's own; a tenth of a unit per query is half a unit of 4 KB.
    assert (found.workload.events_per_second[0], found.workload.packed_bytes) == (1.429, 99.09)
    assert found.workload.read_bytes == 4096
    tiny = measure([period("2026-03-14", 86_400, 8_640, configuration().streams["s"])])
    assert tiny is not None
    assert tiny.workload.event_bytes == 1


def test_more_items_in_an_index_than_in_its_table_are_all_of_them() -> None:
    """DynamoDB counts both, at different times."""
    policy = configuration(more='[[streams.s.index]]\nname = "status"\npartition_by = "status"').streams["s"]
    own = period("2026-03-14", 1_000, 500_000, policy)
    (table,) = own.tables.values()
    found = measure([replace(own, tables={table.name: replace(table, index_sizes={"status": (1_001, 50_000)})})])
    assert found is not None
    assert found.workload.index_shares == {"status": 1.0}


def test_packs_of_which_no_event_is_counted_are_no_workload() -> None:
    packed = daily(1, packed=True)
    assert measure(packed, traffic=Traffic(1, 0), alone=True) is None


def test_a_stream_without_queries_has_the_assumed_size_of_an_answer() -> None:
    found = measure(daily(1))
    assert found is not None
    assert (found.workload.read_bytes, found.workload.batch, found.workload.reads_per_second) == (8192, 100, 0.0)
    assert found.how[2] == "100 events per request: assumed, as no request was counted"


def test_the_sentence_on_the_size_names_the_share_of_packs() -> None:
    plain = measure(daily(1))
    policy = configuration(**PACKED).streams["s"]
    packed = measure([period("2026-03-14", 864, 8_640_000, policy)], archived=[archived("2026-03-02", 86_400)])
    assert plain is not None
    assert packed is not None
    assert plain.how[1] == "100 bytes per event: the size of its tables"
    assert packed.how[1] == "395 bytes per event: the size of its tables, and packs that take 25% of plain items"


@pytest.mark.parametrize("by_key", [True, False])
def test_the_caller_says_whether_keys_are_checked(*, by_key: bool) -> None:
    days = daily(1)
    found = measure_workload(
        days[0].stream, StreamFacts(days, [days[0].entry], {}, Traffic(), alone=False), NOON, by_key=by_key
    )
    assert found is not None
    assert found.workload.by_key is by_key


def test_the_size_of_packs_is_that_of_a_day() -> None:
    policy = configuration(**PACKED).streams["s"]
    days = [period(f"2026-03-{day}", 864, 8_640_000, policy) for day in ("13", "14")]
    found = measure(days, archived=[archived("2026-03-02", 86_400)])
    assert found is not None
    assert found.workload.packed_bytes == 98.7


@pytest.mark.parametrize("entries", [[], [archived("2026-03-02", 86_400)]])
def test_packs_without_a_counted_table_are_no_workload(entries: list[Entry]) -> None:
    """Neither the events of the stage nor those of an archive tell the size of a pack."""
    policy = configuration(**PACKED).streams["s"]
    facts = StreamFacts([], entries, {}, Traffic(12, 1_200), alone=True)
    assert measure_workload(policy, facts, NOON, by_key=True) is None


def test_a_young_stage_is_measured_from_its_first_table_on() -> None:
    """43,200 events of the fourteenth from six o'clock on, and as many of this morning: 30 hours."""
    policy = configuration().streams["s"]
    first, today = (period(f"2026-03-{day}", 43_200, 4_320_000, policy) for day in ("14", "15"))
    first = replace(first, entry=replace(first.entry, created_at=datetime(2026, 3, 14, 6, tzinfo=UTC)))
    found = measure([today, first])
    assert found is not None
    assert found.workload.events_per_second[0] == 0.8


def test_reads_of_several_tables_are_added_and_metrics_cover_the_age_of_the_oldest() -> None:
    policy = configuration().streams["s"]
    dates = {
        "2026-03-16": "2026-03-14",
        "2026-03-15": "2026-03-13",
        "2026-03-02": "2026-03-01",
        "2026-03-01": "2026-02-28",
    }
    periods = [period(label, 86_400, 8_640_000, policy, created=created) for label, created in dates.items()]
    # From 28 February on: 15.5 days.
    seconds = 1_339_200
    units = dict(zip(dates, (1, 2, 4, 8), strict=True))
    consumed = {(f"tidetable-t.s.{label}", ""): ConsumedUnits(0, seconds * each) for label, each in units.items()}
    found = measure(periods, consumed, Traffic(1, 1, 1, 1))
    assert found is not None
    assert (found.workload.reads_per_second, found.workload.old_reads_per_second) == (3.0, 12.0)


def test_events_without_a_counted_request_have_the_assumed_batch() -> None:
    found = measure(daily(1), traffic=Traffic(requests=0, events=5))
    assert found is not None
    assert found.workload.batch == 100


def test_a_period_without_its_table_says_nothing_about_the_share_of_an_index() -> None:
    policy = configuration(more='[[streams.s.index]]\nname = "status"\npartition_by = "status"').streams["s"]
    own = period("2026-03-14", 1_000, 500_000, policy)
    (table,) = own.tables.values()
    own = replace(own, tables={table.name: replace(table, index_sizes={"status": (250, 50_000)})})
    found = measure([own, replace(period("2026-03-13", 0, 0, policy), tables={})])
    assert found is not None
    assert found.workload.index_shares == {"status": 0.25}
