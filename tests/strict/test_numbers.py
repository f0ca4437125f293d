"""Limits that no scenario of a rule reaches: the last accepted number, and the first refused number."""

from datetime import UTC, datetime
from typing import Any

import pytest

from strict.refusals import Refusal
from tests.strict.console import KB, Console, item, outcome, until_refused


def test_a_batch_has_a_hundred_gets_at_the_most() -> None:
    console = Console()
    console.table()
    seen = [outcome(lambda n=n: console.get_batch(str(number) for number in range(n))) for n in (100, 101)]  # type: ignore[misc]
    assert seen == ["done", "ValidationException"]


def test_a_day_has_twenty_seven_decreases() -> None:
    """Four at once, then one per hour: from midnight on a day has no time for more."""
    console = Console(now=datetime(2026, 3, 15, tzinfo=UTC))
    console.create(write=100, read=1)
    console.clock.time = datetime(2026, 3, 16, tzinfo=UTC)
    lowered = [99 - number for number in range(27)]
    seen = [outcome(lambda units=units: console.units(units)) for units in lowered[:4]]  # type: ignore[misc]
    for hour, units in enumerate(lowered[4:], start=1):
        console.clock.time = datetime(2026, 3, 16, hour, 1, tzinfo=UTC)
        seen.append(outcome(lambda units=units: console.units(units)))  # type: ignore[misc]
    assert seen == ["done"] * 27
    console.clock.time = datetime(2026, 3, 16, 23, 59, tzinfo=UTC)
    with pytest.raises(Refusal, match=r"decreases today: 27\. .* Next decrease can be made at Tuesday, March 17"):
        console.units(1)
    console.clock.time = datetime(2026, 3, 17, tzinfo=UTC)
    assert outcome(lambda: console.units(1)) == "done"


def test_a_partition_key_gives_three_thousand_units_of_reads_in_a_second() -> None:
    console = Console()
    console.create(write=1000, read=9000)
    console.wait(minutes=10)
    console.put(size=400 * KB)
    console.wait(seconds=10)

    def read(pk: str = "a") -> Any:
        key = {"pk": {"S": pk}, "sk": {"S": "1"}}
        return console("GetItem", TableName="t", Key=key, ConsistentRead=True)

    # Each is 100 units, of a table that has 9,000 per second and five minutes of them unused.
    assert until_refused(read, 100) == 30
    with pytest.raises(Refusal) as refused:
        read()
    assert refused.value.members["ThrottlingReasons"][0]["reason"] == "TableReadKeyRangeThroughputExceeded"


def test_a_transaction_beyond_the_tables_units_is_cancelled_and_nothing_of_it_is_written() -> None:
    console = Console()
    console.table("other")
    console.table(write=1, read=10)
    until_refused(console.put)
    puts = [{"Put": {"TableName": name, "Item": item(pk="b", size=20 * KB)}} for name in ("other", "t")]
    with pytest.raises(Refusal) as refused:
        console("TransactWriteItems", TransactItems=puts)
    assert refused.value.code == "TransactionCanceledException"
    assert [reason["Code"] for reason in refused.value.members["CancellationReasons"]] == ["None", "ThrottlingError"]
    console.wait(seconds=3)
    assert [console.query("b", name)["Count"] for name in ("other", "t")] == [0, 0]
    console.wait(minutes=5)
    console("TransactWriteItems", TransactItems=puts)
    console.wait(seconds=3)
    assert [console.query("b", name)["Count"] for name in ("other", "t")] == [1, 1]
