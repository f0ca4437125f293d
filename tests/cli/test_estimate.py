"""`check`, `cost` and `simulate`: prices are worked out by hand here, from AWS's price list."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli import clock
from cli.bill import existing, one_on_demand, one_provisioned, rolling
from cli.workload import Workload, by_hour
from tests.worlds.commands import ROOT, run
from tidetable.config import LifecyclePolicy, parse
from tidetable.config.demand import demand_of
from tidetable.durations import Duration

ON_DEMAND = """
[lifecycle]
delete_expired = true
[streams.access]
period = "day"
late = "1h"
retention = 10
[streams.access.key]
partition_by = "time"
bucket = "6h"
[[streams.access.index]]
name = "by_error"
partition_by = "error"
[[streams.access.index]]
name = "slowest"
partition_by = "*"
sort_by = "ms"
project = "keys"
"""
PROVISIONED = """
[lifecycle]
delete_expired = true
[streams.access]
period = "day"
late = "1h"
retention = 1
[streams.access.key]
partition_by = "series"
[[streams.access.index]]
name = "by_error"
partition_by = "error"
[streams.access.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10, index = { by_error = { write = 10000, read = 1 } } },
    { age = 1, write = 1, read = 1 },
]
[streams.access.archive]
read_units = 400
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "shop.toml"
    found.write_text(ON_DEMAND)
    return found


def lines_of(*words: str) -> dict[str, float]:
    result = run("cost", *words, "--json")
    assert result.exit_code == 0, result.output
    return {line["name"]: line["dollars"] for line in json.loads(result.stdout)["lines"]}


def test_every_line_of_an_on_demand_bill_is_what_the_price_list_says(file: Path) -> None:
    found = lines_of(
        str(file), "--rate", "100", "--bytes", "500", "--batch", "100", "--reads", "0", "--in-index", "by_error=0.01"
    )
    # 100 a second are 262.8 million events in 730 hours, of a write unit each at $0.625 a million.
    assert found["tables, writes"] == pytest.approx(164.25, abs=0.01)
    # All are in the ranking, one in a hundred in the sparse index: 1.01 units per event more.
    assert found["indexes, writes"] == pytest.approx(165.89, abs=0.01)
    assert found["tables, reads"] == 0
    # 4.32 GB per day, ten days and on average half of the present one, at $0.25.
    assert found["tables, storage"] == pytest.approx(11.34, abs=0.01)
    # By error 5 bytes per event on average, in the ranking 200 of keys: 205 of 500.
    assert found["indexes, storage"] == pytest.approx(4.65, abs=0.01)
    # 2.628 million requests at $3.50, and at $0.20.
    assert found["API Gateway"] == pytest.approx(9.20, abs=0.01)
    assert found["functions, calls"] == pytest.approx(0.53, abs=0.01)
    # 23 ms of half a GB each at $0.0000133334: 30,222 GB-seconds.
    assert found["functions, time"] == pytest.approx(0.40, abs=0.01)
    # 131.4 GB per month, a quarter of it as Parquet, for twelve months: 394.2 GB at $0.023.
    assert found["archive, S3"] == pytest.approx(9.07, abs=0.01)
    # 32.08 million units of 4 KB, strongly consistent, at $0.125 a million.
    assert found["archive, reads"] == pytest.approx(4.01, abs=0.01)
    # 13,140 seconds of 2.94 GB.
    assert found["archive, functions"] == pytest.approx(0.51, abs=0.01)


def test_one_event_per_request_makes_the_gateway_the_largest_line(file: Path) -> None:
    words = (str(file), "--rate", "100", "--reads", "0", "--in-index", "by_error=0", "--in-index", "slowest=0")
    assert lines_of(*words, "--batch", "1")["API Gateway"] == pytest.approx(919.80, abs=0.01)
    assert "send batches" in run("cost", *words, "--batch", "1").output
    assert "send batches" not in run("cost", *words, "--batch", "100").output


def test_an_index_with_units_of_its_own_is_priced(file: Path) -> None:
    file.write_text(PROVISIONED)
    found = lines_of(str(file), "--rate", "5", "--reads", "0")
    # 10,000 units at $0.00065 for 730 hours, an hour of each day twice, as the day before is open for an hour more;
    # and a unit each of the three other tables, two ahead and one kept.
    assert found["indexes, writes"] == pytest.approx((10_000 * 25 / 24 + 3) * 0.00065 * 730, rel=0.001)
    # Raised to 400 units for its export: an hour of 399 at $0.00013 for each of 30.4 tables.
    assert found["archive, reads"] == pytest.approx(30.4167 * 399 * 0.00013, abs=0.01)


def test_the_night_is_eight_hours(file: Path) -> None:
    found = lines_of(str(file), "--rate", "50", "--night", "5", "--reads", "0")
    # 16 hours of 50 and 8 of 5: 3.024 million events per day, 91.98 million in 730 hours.
    assert found["tables, writes"] == pytest.approx(57.49, abs=0.01)


def test_what_is_cheaper_is_said_plainly(file: Path) -> None:
    steady = run("cost", str(file), "--rate", "100", "--reads", "0").output
    assert "one plain provisioned table would be cheaper" in steady
    file.write_text(PROVISIONED)
    rare = run("cost", str(file), "--rate", "0.1", "--reads", "0").output
    assert 'mode = "on-demand" for this stream would be cheaper' in rare
    # Its ladder pays against both single tables.
    assert "would be cheaper" not in run("cost", str(ROOT / "bench" / "workload")).output


def test_what_is_not_priced_is_listed(file: Path) -> None:
    shown = run("cost", str(file), "--rate", "1").output
    assert "not priced: CloudWatch" in shown
    assert "versions" not in shown
    versions = ON_DEMAND.replace('late = "1h"', 'late = "1h"\nversions = "keep"')
    file.write_text(versions)
    assert "not priced: versions and cold fields" in run("cost", str(file), "--rate", "1").output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tidetable.toml"], "add --rate, the events per second"),
        (["tidetable.toml", "--rate", "1"], "several streams: add --stream with one of quakes, stations, reports"),
        (
            ["tidetable.toml", "--rate", "1", "--stream", "quake"],
            "there is no stream 'quake'; there are: quakes, stations",
        ),
        (
            ["tidetable.toml", "--rate", "1", "--stream", "stations", "--in-index", "x=1"],
            "there is no index 'x'; there are: by_status, strongest",
        ),
        (
            ["tidetable.toml", "--rate", "1", "--stream", "stations", "--in-index", "strongest=7"],
            "write the share of the events that are in it, such as strongest=0.01",
        ),
    ],
)
def test_what_cost_cannot_know_is_asked_for(words: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = run("cost", *words)
    assert result.exit_code == 64
    assert message in result.output


def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "read_clock", lambda: datetime(2026, 6, 1, 12, tzinfo=UTC))


def test_simulate_counts_the_units_of_indexes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_noon(monkeypatch)
    file.write_text(PROVISIONED)
    life = json.loads(run("simulate", "--config", str(file), "--days", "1", "--json").stdout)["access"]
    # The open table's 10 and its index's 10,000; two tables stand by at a unit each, and so do their indexes.
    assert life[0]["write"] == 10_014
    assert life[0]["read"] == 15
    assert life[0]["dollars"] == pytest.approx(24 * (10_014 * 0.00065 + 15 * 0.00013))


def test_simulate_prices_on_demand_tables_once_it_knows_the_events(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_noon(monkeypatch)
    plain = run("simulate", "--config", str(file), "--days", "1")
    assert "access, on demand" in plain.output
    assert "add --rate" in plain.output
    words = (
        "simulate",
        "--config",
        str(file),
        "--days",
        "3",
        "--rate",
        "100",
        "--bytes",
        "500",
        "--reads",
        "0",
        "--json",
    )
    life = json.loads(run(*words).stdout)["access"]
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
            'streams.access.index.slowest: a stream partitioned by "time" answers by itself what this index would',
        ),
        ('bucket = "6h"', 'bucket = "1h"\nshards = 4', "streams.access.key: a query over a day asks 96 partitions"),
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
    assert "late: 5 tables are open at once" in shown
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
    counted = demand_of(stream, LifecyclePolicy(delete_expired=True, delete_grace=Duration(0))).tables
    start = datetime(2026, 2, 27, tzinfo=UTC)
    most = max(len(list(existing(stream, start + timedelta(minutes=97 * number)))) for number in range(100))
    assert most <= counted <= most + 4


def test_the_bill_in_the_documents_is_what_the_command_prints(file: Path) -> None:
    text = (ROOT / "docs" / "cost.md").read_text()
    configuration, _, table = text.partition("    [streams.access]")[2].partition("In dollars a month:")
    table = table.partition("One plain")[0]
    file.write_text("[streams.access]" + configuration.replace("\n    ", "\n"))
    (command,) = re.findall(r"bin/tidetable cost shop.toml (--.*)", text)
    kinds = {
        "tables: writes, reads, storage": "tables",
        "indexes": "indexes",
        "API Gateway": "API",
        "functions": "functions",
        "archive for a year": "archive",
        "**in all**": "",
    }
    rows = {
        cells[1].strip(): cells[2:4] for cells in (line.split("|") for line in table.splitlines()) if len(cells) == 5
    }
    for column, batch in enumerate(("100", "1")):
        lines = lines_of(str(file), *command.split(), "--batch", batch)
        for row, kind in kinds.items():
            found = sum(dollars for name, dollars in lines.items() if name.startswith(kind))
            assert rows[row][column].strip().strip("*") == f"{found:.2f}", (row, batch)


def test_packs_are_priced_by_their_bytes_and_single_tables_by_their_events() -> None:
    """500 bytes, a quarter of it in a pack: 100 events are 12,630 bytes with the pack's own, so 13 write units."""
    text = (
        '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 2\nkey = {{ partition_by = "time", bucket = "1h" }}\n{}'
    )
    plain = parse(text.format("")).streams["s"]
    packed = parse(text.format('pack = { span = "1m" }')).streams["s"]
    before = Workload(by_hour(50, None), 500, 1, 8192, 0, plain)
    after = Workload(by_hour(50, None), 500, 1, 8192, 0, packed)
    assert (before.event_units, before.stored_bytes, before.read_units) == (1, 500, 1)
    # A query of 8,192 bytes of plain events needs 2,048 of packs, and reads one pack more: 14,678 bytes.
    assert (after.event_units, after.stored_bytes, after.read_units) == (0.13, 126.3, 2)
    assert replace(after, packed_bytes=300.0).event_units == 0.3
    # 100 events of 2,000 bytes in packs of 65,536 at the most: 4 packs of 50,130 bytes, 49 write units each.
    assert replace(after, packed_bytes=2000.0).event_units == 1.96
    assert one_on_demand(after) == one_on_demand(before)
    assert one_provisioned(after) == one_provisioned(before)
    assert rolling(after).writes == pytest.approx(0.13 * rolling(before).writes)
    assert rolling(after).storage == pytest.approx(126.3 / 500 * rolling(before).storage)
