"""`check` and `cost`: prices are calculated by hand here, from AWS's price list."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bill.table_bill import price_one_on_demand, price_one_provisioned, price_rolling
from bill.workload import Workload, spread_by_hour
from tests.worlds.commands import ROOT, run
from tests.worlds.estimates import ON_DEMAND, PROVISIONED
from tidetable.config import parse


def lines_of(*words: str) -> dict[str, float]:
    result = run("cost", *words, "--json")
    assert result.exit_code == 0, result.output
    return {line["name"]: line["dollars"] for line in json.loads(result.stdout)["lines"]}


def test_every_line_of_an_on_demand_bill_is_what_the_price_list_says(file: Path) -> None:
    lines = lines_of(
        str(file), "--rate", "100", "--bytes", "500", "--batch", "100", "--reads", "0", "--in-index", "by_error=0.01"
    )
    # 100 a second are 262.8 million events in 730 hours, of a write unit each at $0.625 a million.
    assert lines["tables, writes"] == pytest.approx(164.25, abs=0.01)
    # All are in the ranking, one in a hundred in the sparse index: 1.01 units per event more.
    assert lines["indexes, writes"] == pytest.approx(165.89, abs=0.01)
    assert lines["tables, reads"] == 0
    # 4.32 GB per day, ten days and on average half of the present one, at $0.25.
    assert lines["tables, storage"] == pytest.approx(11.34, abs=0.01)
    # By error 5 bytes per event on average, in the ranking 200 of keys: 205 of 500.
    assert lines["indexes, storage"] == pytest.approx(4.65, abs=0.01)
    # 2.628 million requests at $3.50, and at $0.20.
    assert lines["API Gateway"] == pytest.approx(9.20, abs=0.01)
    assert lines["functions, calls"] == pytest.approx(0.53, abs=0.01)
    # The same requests at $0.20, and 2 ms of half a GB each at $0.0000133334.
    assert lines["functions, authorizer"] == pytest.approx(0.56, abs=0.01)
    # 23 ms of half a GB each at $0.0000133334: 30,222 GB-seconds.
    assert lines["functions, time"] == pytest.approx(0.40, abs=0.01)
    # 131.4 GB per month, a quarter of it as Parquet, for twelve months: 394.2 GB at $0.023.
    assert lines["archive, S3"] == pytest.approx(9.07, abs=0.01)
    # 32.08 million units of 4 KB, strongly consistent, at $0.125 a million.
    assert lines["archive, reads"] == pytest.approx(4.01, abs=0.01)
    # 13,140 seconds of 1.73 GB.
    assert lines["archive, functions"] == pytest.approx(0.30, abs=0.01)


def test_signed_requests_need_no_authorizer(file: Path) -> None:
    file.write_text('[api]\nauth = "iam"\n' + file.read_text())
    words = "--rate", "100", "--in-index", "by_error=0", "--in-index", "slowest=0"
    assert "functions, authorizer" not in lines_of(str(file), *words)


def test_one_event_per_request_makes_the_gateway_the_largest_line(file: Path) -> None:
    words = (str(file), "--rate", "100", "--reads", "0", "--in-index", "by_error=0", "--in-index", "slowest=0")
    assert lines_of(*words, "--batch", "1")["API Gateway"] == pytest.approx(919.80, abs=0.01)
    assert "send batches" in run("cost", *words, "--batch", "1").output
    assert "send batches" not in run("cost", *words, "--batch", "100").output


def test_an_index_with_units_of_its_own_is_priced(file: Path) -> None:
    file.write_text(PROVISIONED)
    lines = lines_of(str(file), "--rate", "5", "--reads", "0")
    # 10,000 units at $0.00065 for 730 hours, an hour of each day twice, as the day before is open for an hour more;
    # and a unit each of the three other tables, two ahead and one kept.
    assert lines["indexes, writes"] == pytest.approx((10_000 * 25 / 24 + 3) * 0.00065 * 730, rel=0.001)
    # Raised to 400 units for its export: an hour of 399 at $0.00013 for each of 30.4 tables.
    assert lines["archive, reads"] == pytest.approx(30.4167 * 399 * 0.00013, abs=0.01)


def test_the_night_is_eight_hours(file: Path) -> None:
    lines = lines_of(str(file), "--rate", "50", "--night", "5", "--reads", "0")
    # 16 hours of 50 and 8 of 5: 3.024 million events per day, 91.98 million in 730 hours.
    assert lines["tables, writes"] == pytest.approx(57.49, abs=0.01)


def test_what_is_cheaper_is_said_plainly(file: Path) -> None:
    steady = run("cost", str(file), "--rate", "100", "--reads", "0").output
    assert "one plain provisioned table would be cheaper" in steady
    file.write_text(PROVISIONED)
    rare = run("cost", str(file), "--rate", "0.1", "--reads", "0").output
    assert "on demand: saves $" in rare
    # Its ladder pays against both single tables.
    assert "would be cheaper" not in run("cost", str(ROOT / "bench" / "workload")).output


def test_what_is_not_priced_is_listed(file: Path) -> None:
    shown = run("cost", str(file), "--rate", "1").output
    assert "not priced: data that leaves AWS" in shown
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
            "there is no stream 'quake'; there are: quakes, reports, stations; did you mean quakes?",
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


def test_the_bill_in_the_documents_is_what_the_command_prints(file: Path) -> None:
    text = (ROOT / "docs" / "design" / "cost.md").read_text()
    configuration, _, table = text.partition("    [streams.access]")[2].partition("In dollars per month:")
    table = table.partition("One plain")[0]
    file.write_text("[streams.access]" + configuration.replace("\n    ", "\n"))
    command = re.findall(r"bin/tidetable cost shop.toml (--.*)", text)[0]
    kinds = {
        "tables: writes, reads, storage": "tables",
        "indexes": "indexes",
        "API Gateway": "API",
        "functions": "functions",
        "logs": "logs",
        "archive for a year": "archive",
        "**the stream**": "",
    }
    rows = {
        cells[1].strip(): cells[2:4] for cells in (line.split("|") for line in table.splitlines()) if len(cells) == 5
    }
    for column, batch in enumerate(("100", "1")):
        lines = lines_of(str(file), *command.split(), "--batch", batch)
        for row, kind in kinds.items():
            dollars_of_kind = sum(dollars for name, dollars in lines.items() if name.startswith(kind))
            assert rows[row][column].strip().strip("*") == f"{dollars_of_kind:.2f}", (row, batch)


def test_packs_are_priced_by_their_bytes_and_single_tables_by_their_events() -> None:
    """The first event of a pack has 500 bytes, 99 others a quarter, and the pack some 130: 13,005 bytes, 13 write units."""
    text = (
        '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 2\nkey = {{ partition_by = "time", bucket = "1h" }}\n{}'
    )
    plain = parse(text.format("")).streams["s"]
    packed = parse(text.format('pack = { span = "1m" }')).streams["s"]
    before = Workload(spread_by_hour(50, None), 500, 1, 8192, 0, plain)
    after = Workload(spread_by_hour(50, None), 500, 1, 8192, 0, packed)
    assert (before.event_units, before.stored_bytes, before.read_units) == (1, 500, 1)
    # A query of 8,192 bytes of plain events needs 2,130 of packs, and reads one pack more: 15,135 bytes.
    assert (after.event_units, after.read_units) == (0.13, 2)
    assert after.stored_bytes == pytest.approx(130, abs=0.5)
    assert replace(after, packed_bytes=300.0).event_units == 0.3
    # 100 events of 2,000 bytes in packs of 65,536 at the most: 4 packs of 50,130 bytes, 49 write units each.
    assert replace(after, packed_bytes=2000.0).event_units == 1.96
    assert price_one_on_demand(after) == price_one_on_demand(before)
    assert price_one_provisioned(after) == price_one_provisioned(before)
    assert price_rolling(after).whole.writes == pytest.approx(0.13 * price_rolling(before).whole.writes)
    assert price_rolling(after).whole.storage == pytest.approx(
        130 / 500 * price_rolling(before).whole.storage, rel=0.005
    )


LOCAL = """
[streams.access]
period = "day"
late = "1h"
retention = 10
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_kind", local = true, sort_by = ["kind"] }]
"""


def test_a_local_index_is_priced_with_its_table(file: Path) -> None:
    """A unit more per event, of the table, and the storage again."""
    file.write_text(LOCAL)
    lines = lines_of(str(file), "--rate", "100", "--bytes", "500", "--reads", "0")
    # 262.8 million events per month, of two write units each at $0.625 per million.
    assert lines["tables, writes"] == pytest.approx(328.50, abs=0.01)
    assert lines["indexes, writes"] == 0
    assert lines["tables, storage"] == lines["indexes, storage"] == pytest.approx(11.34, abs=0.01)


@pytest.mark.parametrize(("rate", "warned"), [("900", False), ("1000", True)])
def test_a_rate_that_fills_a_partition_key_is_told(file: Path, rate: str, warned: bool) -> None:
    """Per suffix and bucket 500 events per second of 500 bytes, twice, are 10.8 GB in 6 hours: 10.06 of 1,024 cubed."""
    file.write_text(LOCAL)
    told = run("cost", str(file), "--rate", rate, "--bytes", "500").output
    assert ("a suffix of a bucket of 6h gets 10.1 GB at the busiest hour" in " ".join(told.split())) == warned


def test_a_load_that_the_file_cannot_take_has_no_price(file: Path) -> None:
    """One suffix takes 1,000 write units per second; 200 requests of 100 events are 20,000, less the queries' 1 per second."""
    fine = run("cost", str(file), "--rate", "1000", "--json")
    assert fine.exit_code == 0
    wall = json.loads(fine.stdout)["wall"]
    assert (wall["name"], wall["events_per_second"], wall["met"]) == ("the bucket's 1 shard", 1000.0, False)
    refused = run("cost", str(file), "--rate", "1000000")
    text = " ".join(refused.output.split())
    assert refused.exit_code == 1
    assert "no price: stream access cannot take 1,000,000 events per second" in text
    assert "first wall: the bucket's 1 shard takes 1,000 events per second" in text
    assert "then: the gateway takes 19,900 events per second: [api] rate lets 200 requests per second through" in text
    assert "then: the table's quota takes 40,000 events per second" in text
    assert "in dollars per month" not in text
    document = json.loads(run("cost", str(file), "--rate", "1000000", "--json").stdout)
    assert document["walls"][0]["events_per_second"] == 1000.0
    assert "lines" not in document


def test_fixed_costs_stand_beside_the_streams_own(file: Path) -> None:
    """20 metrics at $0.30, 28 alarms at $0.10, five queues, the drain, a key of $1.00; a bill names the month of its prices."""
    file.write_text('[observability]\nnotify = ["ops@example.com"]\n' + file.read_text())
    document = json.loads(run("cost", str(file), "--rate", "1", "--json").stdout)
    assert document["fixed"]["dollars"] == pytest.approx(6.0 + 2.8 + 1.314 + 0.50516 + 1.0)
    assert not {"metrics", "alarms", "queues", "KMS key"} & {line["name"] for line in document["lines"]}
    assert (document["prices"]["region"], document["prices"]["month"]) == ("us-east-1", "2026-11")
    for words in (("--rate", "1"), ("--days", "1"), ("--rate", "1", "--change", "retention = 3")):
        assert "prices: AWS's list of us-east-1, 2026-11" in run("cost", str(file), *words).output


def test_the_file_says_how_long_archives_are_kept(file: Path) -> None:
    """262.8 million events of 1,000 bytes, a quarter of it: 65.7 GB per month at $0.023, for five years and for ten days."""
    file.write_text('[archive]\nexpire_after = "1825d"\n' + file.read_text())
    monthly = 65.7 / (730 / 24) * 0.023
    assert lines_of(str(file), "--rate", "100")["archive, S3"] == pytest.approx(1825 * monthly, abs=0.01)
    assert lines_of(str(file), "--rate", "100", "--archive-days", "10")["archive, S3"] == pytest.approx(
        10 * monthly, abs=0.01
    )


def test_a_savings_plan_is_a_remark_with_its_figure(file: Path) -> None:
    """18% of $164.25 for writes, and of $165.89 for the indexes'."""
    words = "--rate", "100", "--bytes", "500", "--reads", "0", "--in-index", "by_error=0.01"
    told = " ".join(run("cost", str(file), *words).output.split())
    assert "discount: Database Savings Plan, 1 year may save $59.43 per month: 18% off units on demand" in told
    assert "Savings Plan" not in run("cost", str(file), "--rate", "0.1").output
