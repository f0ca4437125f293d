"""The lines of a bill, calculated by hand from AWS's price list of us-east-1: a month has 730 hours."""

from typing import Any

import pytest

from bill.amounts import Bill, TableCost
from bill.copied import price_copies
from bill.prices import PROVISIONED
from bill.workload import Workload
from bill.workload_bill import advise, compute_whole_bill, name_unpriced, price_lines, price_requests
from tests.worlds.billed import INDEX, ON_DEMAND
from tests.worlds.billed import make_workload as workload
from tidetable.config import TableClass

BACKUPS = "[streams.s.table]\npoint_in_time_recovery = true\n"


def lines(found: Workload) -> dict[str, float]:
    """The lines beside the tables' own, which cost the simulation of a month."""
    return {line.name: line.dollars for line in price_lines(found, Bill())}


def test_every_line_of_a_stream_on_demand() -> None:
    """2,628,000 events of a month in 262,800 requests, and as many queries: 2,890,800 calls."""
    found = {line.name: line.dollars for line in compute_whole_bill(workload(more=INDEX + BACKUPS)).lines}
    # 86,400 events of 1,000 bytes per day for the five days that are kept, and some hours more, at $0.25 per GB.
    assert 0.108 < found.pop("tables, storage") == found.pop("indexes, storage") < 0.16
    assert {name: round(dollars, 5) for name, dollars in found.items()} == {
        "tables, writes": 1.6425,
        "tables, reads": 0.16425,
        "indexes, writes": 1.6425,
        "indexes, reads": 0.0,
        # 0.432 GB, and as much in the index, at $0.20.
        "backups": 0.1728,
        # $3.50 per million.
        "API Gateway": 10.1178,
        # $0.20 per million.
        "functions, calls": 0.57816,
        # 20.3 ms at half a GB per request, 30 ms at 1,024 MB per query: 81,507.42 GB-seconds at $0.0000133334.
        "functions, time": 1.08677,
        # 620 bytes of access log at $0.25 per GB and 526 of metrics at $0.50: $0.418 per million.
        "logs": 1.20835,
        # A call, and 2 ms at half a GB: 2,890.8 GB-seconds.
        "functions, authorizer": 0.6167,
        # 2.628 GB, a quarter of it for twelve months, at $0.023.
        "archive, S3": 0.18133,
        # 641,602 read units at $0.125 per million.
        "archive, reads": 0.0802,
        # 262.8 seconds at 3,008 MB.
        "archive, functions": 0.00605,
    }


def test_lines_of_what_a_stream_does_not_have_are_left_out() -> None:
    found = lines(workload(on_expiry="delete", by_key=False))
    assert list(found) == [
        "tables, writes", "tables, reads", "tables, storage", "API Gateway", "functions, calls", "functions, time",
        "logs",
    ]  # fmt: skip


def test_queries_of_old_events_pass_the_gateway_too() -> None:
    (gateway, *_) = price_requests(0.0, 10, 1e6, by_key=False)
    assert gateway.dollars == 3.5
    assert lines(workload(rate=0.0, reads=0.0, old=1.0))["API Gateway"] == pytest.approx(9.198)


@pytest.mark.parametrize(
    ("kind", "write", "read"), [(TableClass.STANDARD, 0.0065, 0.0026), (TableClass.INFREQUENT, 0.008125, 0.00325)]
)
def test_ten_write_and_twenty_read_units_of_an_hour(kind: TableClass, write: float, read: float) -> None:
    """$0.00065 and $0.00013 each; a quarter more in the class for infrequent access."""
    found = PROVISIONED[kind].price(10, 20, 0)
    assert (found.writes, found.reads, found.storage) == pytest.approx((write, read, 0))


def test_copies_are_priced_each_and_by_what_travels_to_them() -> None:
    copied = Bill(TableCost(1.0, 2.0, 4.0), TableCost(8.0, 16.0, 32.0))
    assert copied.whole == TableCost(9.0, 18.0, 36.0)
    found = price_copies(copied.whole, 2, 50e9)
    assert found == Bill(copies=TableCost(18.0, 36.0, 72.0), transfer=2.0)
    assert (found.whole, found.total) == (TableCost(18.0, 36.0, 72.0), 128.0)
    both = (copied + found) * 2
    assert both == Bill(TableCost(2.0, 4.0, 8.0), TableCost(16.0, 32.0, 64.0), TableCost(36.0, 72.0, 144.0), 4.0)
    assert both.document() == {"writes": 54.0, "reads": 108.0, "storage": 216.0, "transfer": 4.0}
    assert price_copies(copied.whole, 0, 50e9) == Bill()


def raised(read: int, units: int, share: str = "1.0", *, kind: str = "") -> float:
    """Dollars of the exports of a stream of 100 GB per day, whose expired tables have some read units, raised to others."""
    ladder = f'mode = "provisioned"\nladder = [{{ age = 0, write = 200, read = {read} }}, {{ age = 1, write = 1, read = {read}'
    more = f"[streams.s.archive]\nread_units = {units}\nread_share = {share}"
    return lines(workload(f"{ladder}{kind} }}]", rate=100e9 / 86_400 / 1000, more=more, late="1h"))["archive, reads"]


def test_an_export_pays_for_the_units_that_it_raises() -> None:
    """24,414,063 units of a table at 1,000 per second take 6.8 hours, of which seven are begun, in 30.4 tables."""
    hours = 730 / 24 * 7
    assert raised(10, 1000) == pytest.approx(hours * 990 * 0.00013)
    assert raised(10, 1000, kind=', class = "infrequent-access"') == pytest.approx(hours * 990 * 0.00013 * 1.25)
    # With half of the units it takes 13.6 hours.
    assert raised(10, 1000, "0.5") == pytest.approx(730 / 24 * 14 * 990 * 0.00013)
    assert raised(1000, 1000) == 0.0
    assert raised(2000, 1000) == 0.0


def test_an_export_is_priced_in_the_class_of_the_last_step() -> None:
    """641,602 read units at $0.155 per million. A table expires after five days."""
    for age, dollars in ((1, 0.09945), (5, 0.09945), (6, 0.0802)):
        ladder = f'{ON_DEMAND}\nladder = [{{ age = 0 }}, {{ age = {age}, class = "infrequent-access" }}]'
        assert round(lines(workload(ladder))["archive, reads"], 5) == dollars


def test_an_export_at_the_close_is_priced_in_the_class_of_the_first_step_after_it() -> None:
    ladder = f'{ON_DEMAND}\nladder = [{{ age = 0 }}, {{ age = 5, class = "infrequent-access" }}]'
    at_close = workload(ladder).change_stream(archive_at="close")
    assert round(lines(at_close)["archive, reads"], 5) == 0.0802


def test_packs_are_exported_by_reading_them_twice() -> None:
    plain = lines(workload(size=1000))["archive, reads"]
    packed = workload(size=1000, more='[streams.s.pack]\nspan = "1h"')
    assert lines(packed)["archive, reads"] == pytest.approx(plain * 2 * packed.stored_bytes / 1000)


@pytest.mark.parametrize(
    ("ours", "plans", "best"),
    [(9.0, (1.0, 1.2), "provisioned"), (9.0, (1.2, 1.0), "on-demand"), (1.0, (0.96, 9.0), "")],
)
def test_a_plain_table_is_advised_if_it_is_the_cheapest_of_all(
    ours: float, plans: tuple[float, float], best: str
) -> None:
    found = workload(rate=1.0, reads=0.0, old=0.0)
    bills = dict(zip(("rolling", "provisioned", "on demand"), map(Bill, map(TableCost, (ours, *plans))), strict=True))
    texts = [text for text in advise(found, bills) if text.startswith("one plain")]
    assert len(texts) == bool(best)
    assert all(text.startswith(f"one plain {best} table would be cheaper") for text in texts)


def test_batches_are_advised_for_small_requests_that_cost_more_than_the_tables() -> None:
    """2.628 million requests cost $9.198."""
    for batch, ours, advised in ((1, 9.0, True), (1, 9.3, False), (9, 1.0, True), (10, 0.5, False)):
        found = workload(rate=batch, batch=batch, reads=0.0, old=0.0)
        texts = advise(
            found,
            {
                "rolling": Bill(TableCost(ours)),
                "provisioned": Bill(TableCost(99.0)),
                "on demand": Bill(TableCost(99.0)),
            },
        )
        assert any(text.startswith(f"send batches: at {batch} events") for text in texts) == advised


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ('versions = "keep"', "versions and cold fields"),
        ('cold = ["trace"]', "versions and cold fields"),
        ('[streams.s.large]\nbeyond = "s3"', "large values in S3"),
        (
            '[streams.s.table]\nencryption = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"',
            "the KMS key itself",
        ),
    ],
)
def test_what_no_line_prices_is_named(more: str, named: str) -> None:
    assert not any(named in text for text in name_unpriced(workload()))
    assert any(named in text for text in name_unpriced(workload(more=more)))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"capacity": f"{ON_DEMAND}\nwarm = {{ write = 5000, read = 13000 }}"},
            "warm throughput, which is charged once",
        ),
        (
            {
                "capacity": 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }]\n'
                "autoscaling = { write = { min = 1, max = 100 } }"
            },
            "the units that auto scaling adds or takes: the ladder's units are priced",
        ),
        (
            {"more": '[[streams.s.rollup]]\nname = "h"\nevery = "1h"\nby = ["series"]\nretention = "9d"'},
            "the rollups' archives (cents)",
        ),
        (
            {"more": 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }\n'},
            "the targets of the feed: what their services charge",
        ),
    ],
)
def test_what_other_settings_cost_without_a_line_is_named(changes: dict[str, Any], named: str) -> None:
    assert not any(named in text for text in name_unpriced(workload()))
    assert any(named in text for text in name_unpriced(workload(**changes)))


def test_the_document_has_each_plan_by_kind_of_cost() -> None:
    document = compute_whole_bill(workload()).document()
    plan = document["one on-demand table"]
    assert set(plan) == {"writes", "reads", "storage", "transfer"}
    assert (round(plan["writes"], 4), plan["transfer"]) == (1.6425, 0.0)
