"""`check`, and the days of `cost`: warnings, tables and units, calculated by hand."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bill.table_bill import list_existing_periods
from cli import clock
from tests.worlds.commands import run
from tests.worlds.estimates import ON_DEMAND, PROVISIONED
from tidetable.config import LifecyclePolicy, parse
from tidetable.config.demand import compute_demand
from tidetable.durations import Duration


def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "read_clock", lambda: datetime(2026, 6, 1, 12, tzinfo=UTC))


def test_days_count_the_units_of_indexes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_noon(monkeypatch)
    file.write_text(PROVISIONED)
    life = json.loads(run("cost", str(file), "--days", "1", "--json").stdout)["days"]["access"]
    # The open table's 10 and its index's 10,000; two tables stand by at a unit each, and so do their indexes.
    assert life[0]["write"] == 10_014
    assert life[0]["read"] == 15
    assert life[0]["dollars"] == pytest.approx(24 * (10_014 * 0.00065 + 15 * 0.00013))


def test_days_price_packs_by_the_events_of_a_request(file: Path) -> None:
    """A pack takes 1,000 bytes for its first event, 250 for each of 99 others, and 130 bytes of its own: 26 units."""
    file.write_text(
        '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\nkey = { partition_by = "time", bucket = "1h" }\n'
    )
    with file.open("a") as more:
        more.write('capacity = { mode = "on-demand" }\npack = { span = "1m" }\n')
    words = ("cost", str(file), "--days", "1", "--rate", "10", "--reads", "0", "--json")
    prices = [json.loads(run(*words, *batch).stdout)["days"]["s"][0]["dollars"] for batch in (["--batch", "1"], [])]
    # A write unit per event alone, or 26 of the pack per 100 events: 864,000 events a day at $0.625 per million units.
    assert prices[0] == pytest.approx(1.08, rel=0.005)
    assert prices[1] == pytest.approx(0.1404, rel=0.01)


def test_days_price_on_demand_tables_once_they_know_the_events(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_noon(monkeypatch)
    assert "without --rate only provisioned units are priced" in run("cost", str(file), "--days", "1").output
    words = ("cost", str(file), "--days", "3", "--rate", "100", "--bytes", "500", "--reads", "0", "--json")
    life = json.loads(run(*words).stdout)["days"]["access"]
    # 8.64 million events per day of a unit in the table and in both indexes, at $0.625 a million: $16.20; and storage, which
    # grows by 10.3 GB per day (500 + 500 + 200 bytes per event) at $0.25 for 730 hours.
    assert life[3]["dollars"] == pytest.approx(16.20 + 2.5 * 10.368 * 0.25 / 730 * 24, abs=0.02)
    assert life[3]["dollars"] > life[2]["dollars"] > life[1]["dollars"]


def test_check_prints_streams_tables_and_warnings(file: Path) -> None:
    result = run("check", str(file))
    assert result.exit_code == 0
    assert f"configuration: {file}, streams: access" in result.output
    # Two ahead, today's, ten kept, one in its archive's day of grace, and one that leaves.
    assert "up to 15 tables" in result.output
    assert "warning" not in result.output


def test_check_refuses_what_the_deploy_would_refuse(file: Path) -> None:
    file.write_text(ON_DEMAND.replace("retention = 10", 'retention = "10d"'))
    result = run("check", str(file))
    assert result.exit_code == 1
    assert "streams.access.retention" in result.output
    missing = run("check", str(file.parent / "none.toml"))
    assert missing.exit_code == 1
    assert "none.toml does not exist" in missing.output


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        ("delete_expired = true", "", "lifecycle.table_quota: tables of access are never deleted; 365 more per year"),
        (
            'sort_by = "ms"',
            'sort_by = "time"',
            'streams.access.index.slowest: a stream partitioned by "time" answers the same queries without this index',
        ),
        ('bucket = "6h"', 'bucket = "1h"\nshards = 4', "streams.access.key: a query over a day reads 96 partitions"),
        (
            "retention = 10",
            "retention = 2100",
            "lifecycle.table_quota: 2,105 tables at once are near the quota of 2,500",
        ),
    ],
)
def test_check_warns_of_what_is_rarely_meant(file: Path, old: str, new: str, warning: str) -> None:
    assert old in ON_DEMAND
    file.write_text(ON_DEMAND.replace(old, new))
    result = run("check", str(file))
    assert result.exit_code == 0
    assert f"warning: {warning}" in result.output


def test_check_knows_what_the_region_does_not_offer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("[api]\nsnap_start = true\n" + ON_DEMAND)
    assert run("check", str(file), "--region", "eu-central-1").exit_code == 0
    refused = run("check", str(file), "--region", "us-gov-west-1")
    assert refused.exit_code == 1
    assert "1 problem in the configuration:\n  - api.snap_start: us-gov-west-1 has no SnapStart" in refused.output
    file.write_text(ON_DEMAND)
    monkeypatch.setenv("AWS_REGION", "cn-north-1")
    warned = run("check", str(file))
    assert warned.exit_code == 0
    assert "warning: api.auth: in cn-north-1, requests with keys get 403" in warned.output
    shown = json.loads(run("check", str(file), "--region", "cn-north-1", "--json").stdout)["warnings"]
    assert [line.partition(":")[0] for line in shown] == ["api.auth", "api"]
    unknown = run("check", str(file), "--region", "china")
    assert unknown.exit_code == 64
    assert '--region: "china" is not the name of a Region' in unknown.output


def test_check_warns_of_a_slow_export_and_of_many_open_tables(file: Path) -> None:
    file.write_text(
        PROVISIONED.replace("read_units = 400", "read_units = 1").replace('late = "1h"', 'late = "4d"\npremake = 1')
    )
    file.write_text(file.read_text().replace("retention = 1", "retention = 9"))
    shown = run("check", str(file)).output
    # A unit of 4 KB, half of it: 2,048 bytes a second are 5.7 days for a gigabyte.
    assert (
        "archive.read_units: 1 read units at read_share = 0.5 export a gigabyte in 5.7 days: remove read_units" in shown
    )
    assert 'late: 5 tables are open at once, each with the units of age 0: add a step with age = "late"' in shown
    file.write_text(file.read_text().replace("read_units = 1", "segments = 1"))
    assert "export a gigabyte" not in run("check", str(file)).output, "without it tables are switched to on-demand"


def test_check_counts_as_synthesis_does(file: Path) -> None:
    """Tables of parts are tables, and the quota is the configuration's."""
    text = ON_DEMAND.replace("retention = 10", 'retention = 2100\nlarge = { beyond = "chunks" }')
    file.write_text(text.replace("delete_expired = true", "delete_expired = true\ntable_quota = 9000"))
    result = run("check", str(file))
    assert "tables at once: 4,210 of 9,000 (access 4,210)" in result.output
    assert "table_quota" not in result.output.partition("tables at once")[2]


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
@pytest.mark.parametrize("late", ["15m", "2h", "5d"])
def test_never_more_tables_exist_than_are_counted(period: str, late: str) -> None:
    text = ON_DEMAND.replace('period = "day"', f'period = "{period}"').replace('late = "1h"', f'late = "{late}"')
    text = text.replace("retention = 10", "retention = 1000" if period == "hour" else "retention = 50")
    stream = parse(text.replace('bucket = "6h"', 'bucket = "15m"')).streams["access"]
    counted = compute_demand(stream, LifecyclePolicy(delete_expired=True, delete_grace=Duration(0))).tables
    start = datetime(2026, 2, 27, tzinfo=UTC)
    most = max(
        len(list(list_existing_periods(stream, start + timedelta(minutes=97 * number)))) for number in range(100)
    )
    assert most <= counted <= most + 4


def test_packs_by_series_come_with_a_warning_and_packs_by_time_do_not(file: Path) -> None:
    text = '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 9\npack = {{ span = "1m" }}\nkey = {{ {} }}\n'
    file.write_text(text.format('partition_by = "series"'))
    (found,) = (text for text in json.loads(run("check", str(file), "--json").stdout)["warnings"] if "pack" in text)
    assert found.startswith("streams.s.pack: a table by series has packs of one series each")
    file.write_text(text.format('partition_by = "time", bucket = "1h"'))
    assert "packs of one series" not in run("check", str(file), "--json").stdout


def test_shards_that_make_small_packs_come_with_a_warning(file: Path) -> None:
    """A request of 600 events has 30 for each of 20 shards."""
    text = (
        '[api]\nmax_events = 600\n[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 9\npack = {{ span = "1m" }}\n'
        'key = {{ partition_by = "time", bucket = "24h", shards = {}, shard_by = "{}" }}\n'
    )
    file.write_text(text.format(21, "series"))
    found = [text for text in json.loads(run("check", str(file), "--json").stdout)["warnings"] if "pack" in text]
    (warning,) = found
    assert warning == (
        "streams.s.key.shards: 21 shards divide a request of 600 events (api.max_events) into packs of less than 30, which take "
        "a write unit each: take a shard per 30 events of a request, 20 at the most"
    )
    for fine in ((20, "series"), (21, "id")):
        file.write_text(text.format(*fine))
        assert "packs of less" not in run("check", str(file), "--json").stdout
