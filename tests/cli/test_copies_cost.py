"""`cost` of copies in other Regions: prices are calculated by hand here, from AWS's price list."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.commands import run

STREAM = """
[streams.s]
period = "day"
late = "1h"
retention = 10
replicas = ["eu-west-1", "ap-northeast-1"]
key = { partition_by = "time", bucket = "6h" }
index = [{ name = "by_error", partition_by = "error" }]
"""
SCALED = """
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 100, read = 10 }, { age = 1, mode = "on-demand" }]
autoscaling = { write = { min = 100, max = 200 } }
"""
ROLLUP = """
[[streams.s.rollup]]
name = "m"
every = "1m"
by = ["series"]
fields = ["mag"]
retention = "30d"
"""
LOAD = ("--rate", "100", "--bytes", "500", "--reads", "7", "--in-index", "by_error=0.01")
# Days of a month of 730 hours.
MONTH = 730 / 24


def priced(file: Path, text: str, *words: str) -> Any:
    file.write_text(text)
    result = run("cost", str(file), *(words or LOAD), "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines_of(document: Any) -> dict[str, float]:
    return {line["name"]: line["dollars"] for line in document["lines"]}


def test_two_copies_cost_twice_the_writes_and_storage_and_the_transfer(file: Path) -> None:
    document = priced(file, STREAM)
    found = lines_of(document)
    # 262.8 million events in 730 hours, 1.01 write units each at $0.625 per million, in two other Regions.
    assert found["copies, writes"] == pytest.approx(2 * 262.8 * 1.01 * 0.625, abs=0.01)
    # 4.32 GB per day for ten days and a half, and 1 in 100 of it in the index, at $0.25, twice.
    assert found["copies, storage"] == pytest.approx(2 * (11.34 + 0.1134), abs=0.01)
    # 131.4 GB per month to each Region at $0.02 per GB: indexes are made where the copy is.
    assert found["copies, transfer"] == pytest.approx(2 * 131.4 * 0.02, abs=0.001)
    # Queries are answered in the stage's own Region.
    assert "copies, reads" not in found
    assert found["tables, writes"] == pytest.approx(164.25, abs=0.01)
    plans = {name: sum(bill.values()) for name, bill in document.items() if "table" in name}
    own = lines_of(priced(file, STREAM.replace('replicas = ["eu-west-1", "ap-northeast-1"]', "")))
    assert not [name for name in own if "copies" in name]
    tables = sum(dollars for name, dollars in own.items() if name.startswith(("tables", "indexes")))
    copies = 2 * (262.8 * 1.01 * 0.625 + 11.4534 + 131.4 * 0.02)
    assert plans["rolling tables with the ladder"] == pytest.approx(tables + copies, abs=0.02)


def test_one_table_is_compared_with_as_many_copies(file: Path) -> None:
    document = priced(file, STREAM)
    # In three Regions: 1.01 write units per event; ten days of 4.32 GB and 1 % at $0.25.
    demand = document["one on-demand table"]
    assert demand["writes"] == pytest.approx(3 * 262.8 * 1.01 * 0.625, abs=0.01)
    assert demand["storage"] == pytest.approx(3 * 10 * 4.32 * 1.01 * 0.25, abs=0.01)
    assert demand["transfer"] == pytest.approx(2 * 131.4 * 0.02, abs=0.001)
    # 100 and 1 write units at $0.00065, and 7 and 1 read units at $0.00013, for 730 hours in each Region.
    provisioned = document["one provisioned table"]
    assert provisioned["writes"] == pytest.approx(3 * 101 * 0.00065 * 730)
    assert provisioned["reads"] == pytest.approx(3 * 8 * 0.00013 * 730)


def test_provisioned_units_are_those_of_each_copy(file: Path) -> None:
    found = lines_of(priced(file, STREAM.replace("index =", "# index =") + SCALED, *LOAD[:6]))
    # Today's table, for an hour per day yesterday's, and two ahead, which do not stand by: their writes are scaled before they
    # are copied. In two other Regions.
    assert found["copies, writes"] == pytest.approx(2 * 100 * (25 / 24 + 2) * 0.00065 * 730)
    assert found["copies, reads"] == pytest.approx(2 * 10 * (25 / 24 + 2) * 0.00013 * 730)


def test_the_copies_of_a_rollup_are_a_line_of_their_own(file: Path) -> None:
    found = lines_of(priced(file, STREAM + ROLLUP, *LOAD, "--groups", "1000"))
    # 1,440 buckets per day of 21 write units; 28,987,200 bytes per day, kept for 30 days and half of the present one.
    writes = 1_440 * 21 * MONTH * 0.625e-6
    storage, sent = 0.028987 * 30.5 * 0.25, 0.028987 * MONTH * 0.02
    assert found["rollup s-m, copies"] == pytest.approx(2 * (writes + storage + sent), rel=0.01)


def test_what_is_not_known_of_copies_is_listed(file: Path) -> None:
    file.write_text(STREAM)
    shown = run("cost", str(file), *LOAD).output
    assert "not priced: the prices of ap-northeast-1, eu-west-1: the copies there are priced as in us-east-1" in shown
    assert "not priced: the readers of the copies" in shown
    assert "not priced: the catalog's copies" in shown
    assert "transfer" in shown
    file.write_text(STREAM.replace("replicas", "# replicas"))
    assert "copies" not in run("cost", str(file), *LOAD).output


def test_the_days_of_copies_are_priced(file: Path) -> None:
    days = {}
    for name, text in (("copies", STREAM), ("alone", STREAM.replace("replicas", "# replicas"))):
        file.write_text(text)
        result = run("cost", str(file), "--days", "3", *LOAD[:4], "--reads", "0", "--json")
        assert result.exit_code == 0, result.output
        days[name] = json.loads(result.stdout)["days"]["s"]
    # All events are in the index here: in three Regions, and two times 4.32 GB are sent on the day.
    sent = 2 * 4.32 * 0.02
    assert days["copies"][3]["dollars"] == pytest.approx(3 * days["alone"][3]["dollars"] + sent)


def test_days_without_a_load_price_the_units_in_each_region(file: Path) -> None:
    days = {}
    for name, text in (("copies", STREAM), ("alone", STREAM.replace("replicas", "# replicas"))):
        file.write_text(text + SCALED)
        result = run("cost", str(file), "--days", "2", "--json")
        assert result.exit_code == 0, result.output
        days[name] = json.loads(result.stdout)["days"]["s"][2]
    # A table and its index have as many units. Alone, two tables stand by at one unit each; with copies, they do not.
    table, standing_by = 100 * 0.00065 + 10 * 0.00013, 0.00065 + 0.00013
    assert days["alone"]["dollars"] == pytest.approx(24 * 2 * (table + 2 * standing_by))
    assert days["copies"]["dollars"] == pytest.approx(24 * 2 * 3 * 3 * table)
    assert (days["alone"]["write"], days["copies"]["write"]) == (204, 600)
