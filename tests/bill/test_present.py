"""The bill of a stage's tables as they stand: its lines, its periods with their next steps, and its measured workloads."""

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bill.consumed import ConsumedUnits, Traffic
from bill.current_bill import describe_workload
from bill.prices import describe_prices
from bill.workload import Workload
from tests.lifecycle.world import configuration
from tests.worlds.billed import INDEX, NOON, ON_DEMAND, ROLLUP, TODAY, YESTERDAY, BilledStage, table
from tidetable.catalog import ArchiveFacts, RecordedPolicy, State
from tidetable.config.record import render_policy

PROVISIONED = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 3 }, '
BACKUPS = "[streams.s.table]\npoint_in_time_recovery = true\n"


def test_the_lines_of_a_stream_say_what_they_are_made_of() -> None:
    stage = BilledStage(more=INDEX + BACKUPS)
    stage.add(YESTERDAY, table(1000, 0, size_bytes=10**9, index_sizes={"status": (7, 2 * 10**9)}))
    stage.add("2026-03-13", table(0, 0, size_bytes=10**9))
    stage.add(TODAY, table(size_bytes=2 * 10**9))
    facts = ArchiveFacts("m", 9, 2 * 10**9, NOON)
    for day in ("2026-03-01", "2026-03-02"):
        stage.add(day, state=State.DELETED, archive=facts)
    stage.add("2026-03-03", state=State.DELETED, archive=replace(facts, expired_at=NOON))
    found = stage.stream()
    assert [period["period"] for period in found["periods"]] == [TODAY, YESTERDAY, "2026-03-13"]
    units = "2 tables provisioned, by their units; 1 tables on demand, by their units of 30 days"
    # 1,000 units for 730 hours at $0.00065; 4 GB and 2 GB of the index at $0.25, and at $0.20; 4 GB of archives at $0.023.
    assert [(line["name"], round(line["dollars"], 6), line["how"]) for line in found["lines"]] == [
        ("tables, writes", 474.5, units),
        ("tables, reads", 0.0, units),
        ("tables, storage", 1.0, "4.00 GB, by the class of each"),
        ("indexes, writes", 0.0, "as the tables'"),
        ("indexes, reads", 0.0, "as the tables'"),
        ("indexes, storage", 0.5, "2.00 GB"),
        ("backups", 1.2, "point-in-time recovery of the bytes in the tables"),
        ("archive, S3", 0.092, "2 archives, 4.00 GB of Parquet"),
    ]
    assert found["dollars"] == pytest.approx(474.5 + 1.0 + 0.5 + 1.2 + 0.092)


def test_the_price_of_a_period_is_that_of_its_tables_indexes_and_copies() -> None:
    stage = BilledStage(more=INDEX)
    held = {"status": (7, 2 * 10**9)}
    stage.add(TODAY, table(size_bytes=4 * 10**9, index_sizes=held), active=("eu-west-1",))
    stage.meters.units = {
        ("s.2026-03-15", ""): ConsumedUnits(4e6, 8e6),
        ("s.2026-03-15", "status"): ConsumedUnits(1e6, 2e6),
    }
    found = stage.stream()
    (period,) = found["periods"]
    # $0.625 and $0.125 per million, $0.25 per GB; writes and storage twice, and 4 million KB to the other Region at $0.02 per GB.
    assert [period[name] for name in ("writes", "reads", "storage", "transfer", "dollars")] == pytest.approx(
        [6.25, 1.25, 3.0, 0.08192, 10.58192]
    )
    copies = [(line["name"], line["dollars"]) for line in found["lines"] if line["name"].startswith("copies")]
    assert [name for name, _ in copies] == ["copies, writes", "copies, storage", "copies, transfer"]
    assert [dollars for _, dollars in copies] == pytest.approx([3.125, 1.5, 0.08192])


def test_indexes_have_lines_if_any_table_has_an_index() -> None:
    """The table of yesterday was made before the stream had an index."""
    stage = BilledStage(more=INDEX)
    stage.add(TODAY, table())
    stage.add(YESTERDAY, table())
    for key, entry in stage.catalog.items.items():
        if entry.period.label == YESTERDAY:
            stage.catalog.items[key] = replace(entry, layout=replace(entry.layout, indexes=()))
    names = [line["name"] for line in stage.stream()["lines"]]
    assert names[3:] == ["indexes, writes", "indexes, reads", "indexes, storage"]


@pytest.mark.parametrize(
    ("size", "shown"), [(10**9, "1.00 GB"), (999_990_000, "999.99 MB"), (25_000, "0.03 MB"), (0, "0.00 MB")]
)
def test_sizes_from_a_gigabyte_on_are_shown_in_gigabytes(size: int, shown: str) -> None:
    stage = BilledStage()
    stage.add(TODAY, table(size_bytes=size))
    assert stage.stream()["lines"][2]["how"] == f"{shown}, by the class of each"


def test_a_stream_without_tables_costs_nothing_and_is_not_told_to_wait() -> None:
    stage = BilledStage()
    found = stage.stream()
    assert {(line["how"], line["dollars"]) for line in found["lines"][:2]} == {("no tables", 0.0)}
    assert (found["dollars"], found["periods"], found["workload"]) == (0.0, [], None)
    assert stage.bill()["incomplete"] == []


@pytest.mark.parametrize(
    ("changes", "at", "change"),
    [
        (
            {"capacity": PROVISIONED + '{ age = 1, write = 2000, read = 5, class = "infrequent-access" }]'},
            "2026-03-17T00:00:00.000000Z",
            "2,000 write, 5 read units, infrequent-access",
        ),
        (
            {"capacity": PROVISIONED + '{ age = 1, mode = "on-demand" }]'},
            "2026-03-17T00:00:00.000000Z",
            "on demand, standard",
        ),
        ({}, "2026-03-21T00:00:00.000000Z", "archived"),
        ({"on_expiry": "delete"}, "2026-03-21T00:00:00.000000Z", "deleted"),
        ({"on_expiry": "keep"}, None, None),
    ],
)
def test_the_next_step_is_said_in_words(changes: Any, at: str | None, change: str | None) -> None:
    stage = BilledStage(**changes)
    stage.add(TODAY, table(10, 3))
    (period,) = stage.stream()["periods"]
    assert period["next"] == (None if at is None else {"at": at, "change": change})


def test_a_step_comes_later_by_the_stagger_of_its_table() -> None:
    """The first four bytes of SHA-256 of s.2026-03-15 are 2d140678: 0.17609 of an hour, 633.91 seconds."""
    stage = BilledStage(capacity=PROVISIONED + "{ age = 1, write = 2, read = 2 }]", stagger="1h")
    stage.add(TODAY, table(10, 3))
    (period,) = stage.stream()["periods"]
    assert period["next"]["at"].startswith("2026-03-17T00:10:33.91")


def test_a_removed_stream_is_priced_until_its_tables_are_gone_and_is_not_measured() -> None:
    stage = BilledStage()
    gone, since = configuration(capacity=ON_DEMAND, retention=9).streams["s"], NOON - timedelta(hours=6)
    stage.catalog.put_policy(RecordedPolicy("gone", render_policy(gone), since))
    stage.add(TODAY, table(item_count=10**6, size_bytes=10**9), stream="gone")
    found = stage.stream("gone")
    assert found["removed_since"] == "2026-03-15T06:00:00.000000Z"
    assert (found["dollars"], found["workload"]) == (pytest.approx(0.25), None)
    assert stage.stream()["removed_since"] is None


def test_a_rollup_names_its_source_and_is_not_measured() -> None:
    stage = BilledStage(more=ROLLUP)
    for stream in ("s", "s-hours"):
        stage.add(TODAY, table(item_count=10**6, size_bytes=10**9), stream=stream)
        archive = ArchiveFacts("m", 86_400, 10**6, NOON)
        stage.add("2026-03-01", stream=stream, state=State.DELETED, archive=archive)
    source, rollup = stage.stream(), stage.stream("s-hours")
    assert (source["source"], rollup["source"], rollup["workload"]) == (None, "s", None)
    assert source["workload"]["bytes"] == 1000
    assert any("1,000 bytes per event" in text for text in source["workload"]["how"])


def test_the_events_of_packs_are_those_of_the_stage_where_no_other_stream_has_any() -> None:
    """The stage is half a day old, and took 43,200 events; a rollup's stream takes none."""
    stage = BilledStage(more='[streams.s.pack]\nspan = "1h"\n' + ROLLUP)
    stage.add(TODAY, table(item_count=10, size_bytes=10**6), created_at=NOON - timedelta(hours=12))
    stage.meters.counted = Traffic(requests=432, events=43_200)
    assert stage.stream()["workload"]["rate"] == 1.0
    streams = {**stage.config.streams, "other": msgspec.structs.replace(stage.config.streams["s"], name="other")}
    stage.config = msgspec.structs.replace(stage.config, streams=streams)
    assert stage.stream()["workload"] is None


@pytest.mark.parametrize("by_key", [True, False])
def test_the_stage_pays_for_the_authorizer_where_callers_send_keys(by_key: bool) -> None:
    stage = BilledStage()
    api = msgspec.structs.replace(stage.config.api, auth="api-key" if by_key else "iam")
    stage.config = msgspec.structs.replace(stage.config, api=api)
    stage.meters.counted = Traffic(requests=2e6, events=1e8, queries=1e6)
    found = stage.bill()
    lines = {line["name"]: line for line in found["stage"]["lines"]}
    assert ("functions, authorizer" in lines) == by_key
    # Three million at $3.50.
    assert lines["API Gateway"]["dollars"] == pytest.approx(10.5)
    assert lines["API Gateway"]["how"] == "2.00 M requests of 50 events, 1.00 M queries"
    # 620 bytes at $0.25 per GB and 526 at $0.50, three million times.
    assert lines["logs"]["dollars"] == pytest.approx(1.254)
    # About 20 metrics at $0.30, 27 alarms at $0.10, with keys one more, five queues, and the drain's schedule.
    assert found["fixed"]["dollars"] == pytest.approx((8.8 if by_key else 8.7) + 1.314 + 0.50516)
    assert found["dollars"] == pytest.approx(found["stage"]["dollars"] + found["fixed"]["dollars"])


def test_copies_have_prices_that_are_not_known() -> None:
    stage = BilledStage()
    stage.add(TODAY, table(), active=("eu-west-1",))
    stage.add(YESTERDAY, table(), active=("us-west-2",))
    (text,) = (text for text in stage.bill()["not_priced"] if text.startswith("the prices of"))
    assert text.startswith("the prices of eu-west-1, us-west-2: ")


@pytest.mark.parametrize(("region", "named"), [("eu-west-1", "eu-west-1"), ("", "an unknown Region")])
def test_the_prices_of_another_region_are_not_known(region: str, named: str) -> None:
    note = f"the stage is in {named}, whose prices are not known here: expect up to 60% more"
    assert describe_prices(region) == {"region": "us-east-1", "month": "2026-11", "hours": 730, "note": note}
    assert describe_prices("us-east-1")["note"] is None


def test_a_workload_is_described_as_the_parameters_of_a_simulation() -> None:
    rates = [float(hour) for hour in range(24)]
    shares = {"status": 0.0125, "kind": 1.0}
    workload = Workload(rates, 700, 2.5, 8192, 0.5, BilledStage().config.streams["s"], 40, 30, shares, 120.0)
    workload = dataclasses.replace(workload, series_per_request=4, seconds_per_request=10.0)
    assert describe_workload(workload) == {
        "rate": 12.0,
        "bytes": 700,
        "packed_bytes": 120.0,
        "batch": 40,
        "series_per_request": 4,
        "seconds_per_request": 10.0,
        "reads": 2.5,
        "read_bytes": 8192,
        "old_reads": 0.5,
        "in_index": ["status:0.0125", "kind:1"],
    }
