"""The figures of the documents: bills, prices, rates and pictures are what the code and the benches print."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from bench import bill, suffix_kinds, suffixes
from bench.suffix_picture import draw_costs
from bill import prices
from bill.timeline import Day, list_days
from tests.fakes import SEAL
from tidetable.catalog import Entry, State
from tidetable.config import Stream, TableClass, load, parse
from tidetable.periods import Kind, find_containing
from tidetable.query import parse_query
from tidetable.query.plan import plan_query
from tidetable.times import to_text

ROOT = Path(__file__).parents[1]


def test_the_published_bill_is_what_the_bench_prints_and_draws() -> None:
    bills = bill.compute_bills(bill.EXAMPLE)
    assert bill.render_table(bills) in (ROOT / "docs" / "design" / "cost.md").read_text()
    assert bill.render_table(bills) in (ROOT / "docs" / "design" / "packs.md").read_text()
    assert bill.draw_bills(bills) == (ROOT / "docs" / "design" / "cost.svg").read_text()


def test_the_published_price_of_an_idle_stage_is_what_cost_prints() -> None:
    """The example with all its tables: only its first stream has provisioned units."""
    text = (ROOT / "docs" / "design" / "cost.md").read_text()
    days = {name: _settled(stream) for name, stream in load(ROOT / "tidetable.toml").streams.items()}
    quakes = days.pop("quakes")
    assert (quakes.open, quakes.ahead, quakes.closed, quakes.write, quakes.read) == (8, 2, 7, 21, 56)
    assert f"| {quakes.dollars / 24 * 730:.2f} |" in text
    assert "| 16.44 |" in text
    assert {day.dollars for day in days.values()} == {0}


def test_the_published_price_of_late_events_is_what_cost_prints() -> None:
    quakes = load(ROOT / "tidetable.toml").streams["quakes"]
    steps = tuple(step for step in quakes.capacity.ladder if not step.is_late)
    capacity = msgspec.structs.replace(quakes.capacity, ladder=steps)
    text = (ROOT / "docs" / "design" / "cost.md").read_text()
    for name, stream in (
        ("without the step", msgspec.structs.replace(quakes, capacity=capacity)),
        ("with it", quakes),
    ):
        day = _settled(stream)
        row = f"| {name} | {day.write} | {day.read} | {day.dollars:.2f} | {day.dollars / 24 * 730:.2f} |"
        assert row in text
    assert "| without the step | 49 | 56 | 0.98 | 29.73 |" in text
    assert "| with it | 21 | 56 | 0.54 | 16.44 |" in text
    # 100 units, or one, of seven tables at $0.00065 an hour.
    assert (round(7 * 100 * 0.00065 * 730), round(7 * 0.00065 * 730)) == (332, 3)
    assert "the writes of the seven tables cost $332 per month without the step, and $3 with it" in " ".join(
        text.split()
    )


def _settled(stream: Stream) -> Day:
    return list(list_days(stream, datetime(2026, 3, 2, 12, tzinfo=UTC), 100))[-1]


@pytest.mark.parametrize(
    ("period", "tables", "row"),
    [
        ("day", 8, '| by day, `late = "7d"`, write and read | 8 | 64 | $6.40 |'),
        ("hour", 170, '| by hour, `late = "7d"`, write and read | 170 | 1,360 | $136.00 |'),
    ],
)
def test_the_published_alarms_of_auto_scaling_are_those_of_the_open_tables(period: str, tables: int, row: str) -> None:
    late = f'period = "{period}"\nlate = "7d"\nretention = 200\n[streams.s.key]\npartition_by = "series"\n'
    assert _settled(parse(f"[streams.s]\n{late}").streams["s"]).open == tables
    assert row in (ROOT / "docs" / "design" / "cost.md").read_text()


def test_the_kinds_of_suffixes_are_compared_by_what_the_bench_measures() -> None:
    costs = suffixes.compare_kinds()
    text = (ROOT / "docs" / "inside" / "suffix.md").read_text()
    assert suffix_kinds.render_table(costs) in text
    assert draw_costs(costs) == suffixes.PICTURE.read_text()
    assert "](suffix.svg)" in text
    by_title = {kind.title: own for kind, own in costs.items()}
    one, random, calculated = (by_title[name] for name in ("one key", "16 random suffixes", "16 calculated suffixes"))
    # One partition takes 1,000 units per second, and the bucket holds some of a second before; sixteen meet eight partitions.
    assert one.writes == 1005
    assert calculated.writes == 8046
    # A look-up reads one key against all sixteen, each half a unit.
    assert (calculated.get_requests, calculated.get_units) == (1, 0.5)
    assert (random.get_requests, random.get_units) == (16, 8)
    # A range of the newest reads every suffix.
    assert (one.page_requests, random.page_requests, calculated.page_requests) == (1, 16, 16)
    # Of 1,000 repeated events one in sixteen meets its first copy.
    assert calculated.stored == one.stored == 1000
    assert 1000 + 1000 * 14 / 16 < random.stored < 2000


def test_the_picture_of_the_suffixes_is_painted_on_a_light_and_on_a_dark_ground() -> None:
    picture = suffixes.PICTURE.read_text()
    light, dark = picture.split("@media (prefers-color-scheme: dark)")
    assert ".ground { fill: #ffffff } text { fill: #1f2328 }" in light
    assert ".ground { fill: #0d1117 } text { fill: #e6edf3 }" in dark


@pytest.mark.parametrize(("layout", "count"), [("by time", 1), ("by time", 8), ("by series, only one", 4)])
def test_the_published_rates_are_what_the_bench_prints(layout: str, count: int) -> None:
    text = (ROOT / "docs" / "inside" / "suffix.md").read_text()
    header = next(line for line in text.splitlines() if line.startswith("| suffixes | ideal |"))
    row = next(
        line for line in text.splitlines() if line.startswith(f"| {count} |") and line.count("|") == header.count("|")
    )
    column = [cell.strip() for cell in header.split("|")].index(layout)
    assert row.split("|")[column].strip() == f"{suffixes.find_rate(layout, count):,}"


def test_the_published_requests_by_bucket_and_shards_are_those_of_the_planner() -> None:
    rows = (ROOT / "docs" / "design" / "layout.md").read_text().splitlines()
    published = {
        (cells[1].strip(' `"'), int(cells[2])): [int(cell.replace(",", "")) for cell in cells[3:6]]
        for cells in (row.split("|") for row in rows)
        if len(cells) == 7 and cells[2].strip().isdigit()
    }
    assert published == {
        (bucket, shards): _requests(bucket, shards) for bucket in ("1h", "6h", "24h") for shards in (1, 4)
    }
    assert published["6h", 4] == [16, 112, 496]


def _requests(bucket: str, shards: int) -> list[int]:
    """The fewest requests for a day, a week and a month of 31 days, each read to its end, of tables by day."""
    key = f'key = {{ partition_by = "time", bucket = "{bucket}", shards = {shards} }}'
    stream = parse(f'[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 40\n{key}').streams["s"]
    end = datetime(2026, 11, 1, tzinfo=UTC)
    days = [find_containing(end - timedelta(days=day), Kind.DAY) for day in range(31, 0, -1)]
    entries = [Entry("s", day, f"t.{day.label}", stream.layout, State.OPEN, day.start) for day in days]
    found = []
    for length in (1, 7, 31):
        given = {"from": [to_text(end - timedelta(days=length))], "to": [to_text(end)]}
        plan = plan_query(parse_query(stream, given, end, SEAL), entries)
        found.append(sum(scan.count for scan in plan.scans))
    return found


# The figures of scale.md that are not per event, and the loads per second that follow from a figure per event: a request has
# 500 events, and a microsecond is a millionth of a core.
PER_EVENT = {
    "write_units_over_formula": 1,
    "packed_write_units_per_event": 1,
    "notes_write_units_per_event": 1,
    "rollup_write_units_per_raw_event": 1,
    "sealing_microseconds_per_event": 1e-6,
    "packed_sealing_microseconds_per_event": 1e-6,
    "many_streams_catalog_queries_per_request": 1 / 500,
    "many_keys_reads_per_request": 1 / 500,
}
OF_A_STAGE = {
    "many_keys_peak_reads_of_a_partition",
    "many_streams_calls_per_idle_stream_and_run",
    "many_streams_runs_for_300_tables",
    "idle_streams_calls_per_minute",
    "drain_events_per_second_derived",
    "drain_events_per_second_clients",
    "drain_events_per_second_packed",
    "drain_delay_beside_a_stuck_stream_over_alone",
    "catalog_units_page_1",
    "catalog_units_page_100",
    "catalog_units_aggregate",
    "catalog_units_sweep",
    "latest_silent_requests",
    "latest_alone_requests",
    "latest_packs_requests",
    "listing_90_days_units_page_1",
    "listing_90_days_units_page_100",
    "listing_10_years_units_page_1",
    "listing_10_years_units_page_100",
    "plain_parts_seconds_of_slowest_of_16",
}


def test_the_loads_that_meet_limits_follow_from_what_was_measured() -> None:
    results = msgspec.json.decode((ROOT / "bench" / "results.json").read_bytes())
    rows: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / "inside" / "scale.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) > 1 and cells[1].startswith("`"):
            rows[cells[1].strip("`")] = [cell.removesuffix(" µs").replace(",", "") for cell in cells[2:]]
    assert rows.keys() == PER_EVENT.keys() | OF_A_STAGE
    for name, (figure, *others) in rows.items():
        assert float(figure) == results[name], name
        if name in PER_EVENT:
            loads = [results[name] * PER_EVENT[name] * rate for rate in (1e2, 1e3, 1e4, 1e5, 1e6)]
            assert list(map(float, others[:5])) == [float(f"{load:.2g}") for load in loads], name


def test_the_costs_of_a_flood_are_computed_from_the_prices() -> None:
    """A day has 86,400 seconds. 50 requests per second are 4.32 million."""
    rows = (ROOT / "docs" / "operate" / "keys.md").read_text()
    million = 50 * 86_400 / 1e6
    authorizer = prices.price_call(prices.KEYS_SECONDS, prices.KEYS_GB) * 1e6
    busy = prices.QUERY_GB * 86_400 * prices.GB_SECOND
    written = 50 * 1000 * 86_400 * prices.ON_DEMAND[TableClass.STANDARD].write
    for row, dollars in (
        ("| API Gateway, 4.32 million requests |", f"{million * prices.GATEWAY_MILLION:.0f}"),
        ("| the authorizer |", f"{million * authorizer:.2f}"),
        ("1,000 executions of 1 GB are all busy |", f"{1000 * busy:,.0f}"),
        ("| the same with `concurrency = 100` |", f"{100 * busy:.0f}"),
        ("into a stream on demand without `capacity.max` |", f"{written:,.0f}"),
    ):
        assert f"{row} {dollars} |" in rows


def test_the_published_figures_of_parts_are_those_of_the_bench() -> None:
    results = msgspec.json.decode((ROOT / "bench" / "results.json").read_bytes())
    text = (ROOT / "docs" / "inside" / "performance.md").read_text()
    for kind, calls, units, cpu, slowest in (
        ("plain", "344", "27,996", "2.0 s", ("1.17 s", "0.75 s", "0.36 s")),
        ("by_series", "1,376", "21,302", "1.9 s", ("1.30 s", "0.78 s", "0.36 s")),
        ("packed_10s", "1,300", "6,800", "3.0 s", ("1.76 s", "1.13 s", "0.74 s")),
    ):
        assert f"{results[f'{kind}_parts_calls']:,.0f}" == calls
        assert f"{results[f'{kind}_parts_read_units']:,.0f}" == units
        assert f"{results[f'{kind}_parts_cpu_seconds']:.1f} s" == cpu
        of = [results[f"{kind}_parts_seconds_of_slowest_of_{workers}"] for workers in (2, 4, 16)]
        assert tuple(f"{seconds:.2f} s" for seconds in of) == slowest
        assert all(figure in text for figure in (calls, units, cpu, *slowest))


def test_the_published_figures_of_repeated_pages_are_those_of_the_bench() -> None:
    results = msgspec.json.decode((ROOT / "bench" / "results.json").read_bytes())
    text = (ROOT / "docs" / "inside" / "performance.md").read_text()
    kept, valid = results["past_kept_page_cpu_over_read"], results["past_304_cpu_over_read"]
    assert f"| 0 instead of {results['past_page_read_units']}; {kept}, and {valid} for a 304 |" in text
    assert results["past_kept_page_read_units"] == 0
