"""Throughput by the second: saved units, debts, growth, partitions, and the batches and pages that go beyond them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from strict import Rule
from strict.buckets import Peaks, TokenBucket
from strict.refusals import Refusal
from strict.throughput import Setting, Throughput
from tests.strict.console import KB, NOON, Console, index, item, outcome, provisioned, until_refused
from tests.strict.settings import DEFINED


def after(seconds: float) -> Any:
    return NOON + timedelta(seconds=seconds)


def most(bucket: TokenBucket, seconds: float) -> int:
    """The whole units that a bucket has."""
    return max(units for units in range(5000) if bucket.has(units, after(seconds)) or units == 0)


def test_a_bucket_saves_for_its_seconds_and_keeps_a_debt() -> None:
    bucket = TokenBucket(10, 300, NOON)
    assert most(bucket, 0) == 10
    assert most(bucket, 289) == 2900
    assert most(bucket, 1000) == 3000
    bucket.take(3025)
    assert [most(bucket, 1000 + seconds) for seconds in (0, 2, 3)] == [0, 0, 5]
    # A clock that is set back gives nothing and takes nothing.
    assert most(bucket, 990) == 5


def test_a_new_rate_holds_from_its_instant_on_and_cuts_what_was_saved() -> None:
    bucket = TokenBucket(10, 300, NOON)
    bucket.set_rate(5, after(100))
    assert most(bucket, 100) == 1010
    bucket.set_rate(2, after(110))
    assert most(bucket, 110) == 600
    bucket.set_rate(20, after(110))
    assert most(bucket, 111) == 620


def test_peaks_are_those_of_whole_seconds_in_minutes_that_have_ended() -> None:
    peaks = Peaks()
    for seconds, units in ((0, 300), (0.5, 300), (1, 500), (59.9, 200), (60, 900)):
        peaks.add(units, after(seconds))
    assert peaks.find_peak(after(59)) == 0
    assert peaks.find_peak(after(60)) == 600
    assert peaks.find_peak(after(119)) == 600
    assert peaks.find_peak(after(120)) == 900
    peaks.add(100, after(600))
    assert peaks.find_peak(after(7200)) == 900


def on_demand(warm: int = 0, maximum: int | None = None) -> Setting:
    return Setting(None, warm, maximum)


def test_on_demand_throughput_is_twice_the_peak_of_half_an_hour_ago() -> None:
    throughput = Throughput("t", frozenset(), NOON)
    throughput.set(on_demand(), on_demand(), NOON)
    write, read = throughput.write, throughput.read
    assert (write.limit(NOON), read.limit(NOON), throughput.partitions) == (4000, 12_000, 4)
    write.take(3000, 0, NOON)
    # The minute of the peak ends at 60 s, and half an hour after that it counts.
    assert (write.limit(after(1859)), write.limit(after(1860))) == (4000, 6000)
    throughput.find_partition("a", after(1860), on_demand=True)
    assert throughput.partitions == 6
    throughput.set(Setting(10, 0), Setting(10, 0), after(1900))
    assert throughput.partitions == 6, "partitions never merge"


@pytest.mark.parametrize(
    ("write", "read", "partitions"),
    [
        (Setting(1, 0), Setting(1, 0), 1),
        (Setting(1000, 0), Setting(0, 0), 1),
        (Setting(1000, 0), Setting(3000, 0), 2),
        (Setting(500, 0), Setting(1500, 0), 1),
        (Setting(501, 0), Setting(1500, 0), 2),
        (Setting(10, 5000), Setting(10, 12_000), 5),
        (Setting(10, 4000), Setting(10, 24_001), 9),
        (on_demand(), on_demand(), 4),
        (on_demand(6500), on_demand(), 7),
    ],
)
def test_a_table_has_the_partitions_that_its_units_need(write: Setting, read: Setting, partitions: int) -> None:
    """Guide, "Partitions": 1,000 units for writes and 3,000 for reads each."""
    throughput = Throughput("t", frozenset(), NOON)
    throughput.set(write, read, NOON)
    assert throughput.partitions == partitions


@pytest.mark.parametrize(
    ("resource", "setting", "fits", "reason"),
    [
        ("t", Setting(50, 0), 50, "TableWriteProvisionedThroughputExceeded"),
        ("t/index/i", Setting(50, 0), 50, "IndexWriteProvisionedThroughputExceeded"),
        ("t", Setting(4000, 0), 1000, "TableWriteKeyRangeThroughputExceeded"),
        ("t", on_demand(), 1000, "TableWriteKeyRangeThroughputExceeded"),
        ("t", on_demand(maximum=20), 20, "TableWriteMaxOnDemandThroughputExceeded"),
        ("t/index/i", on_demand(maximum=20), 20, "IndexWriteMaxOnDemandThroughputExceeded"),
    ],
)
def test_a_refusal_names_the_limit_that_is_reached(resource: str, setting: Setting, fits: int, reason: str) -> None:
    throughput = Throughput(resource, frozenset(), NOON)
    throughput.set(setting, setting, NOON)
    lane = throughput.write
    # A new maximum fills within its first second.
    begin = 0 if setting.maximum is None else 1
    assert lane.find_refusal(fits, 0, after(begin)) is None
    lane.take(fits, 0, after(begin))
    assert lane.find_refusal(1, 0, after(begin)) == (reason, resource)
    assert lane.find_refusal(fits, 0, after(begin + 1)) is None


def test_a_partition_of_reads_has_three_thousand_units_and_other_partitions_their_own() -> None:
    throughput = Throughput("t", frozenset(), NOON)
    throughput.set(on_demand(), on_demand(), NOON)
    throughput.read.take(3000, 0, NOON)
    assert throughput.read.find_refusal(1, 0, NOON) == ("TableReadKeyRangeThroughputExceeded", "t")
    assert throughput.read.find_refusal(1, 1, NOON) is None
    throughput.read.take(9000, 1, NOON)
    assert throughput.read.find_refusal(1, 2, NOON) == ("TableReadKeyRangeThroughputExceeded", "t"), "of the table"


def test_a_switch_to_units_begins_with_the_units_of_one_second() -> None:
    console = Console()
    console.table()
    console.wait(hours=1)
    console.update(BillingMode="PROVISIONED", ProvisionedThroughput=provisioned(5, 5))
    console.wait(seconds=60)
    console.describe()
    assert until_refused(console.put) == 5


def test_an_index_without_units_refuses_the_write_of_its_table_and_nothing_is_written() -> None:
    console = Console()
    console.table(write=500, read=500, GlobalSecondaryIndexes=[index(write=1, read=1)])
    # The first put makes an entry; to write the same again costs the index nothing.
    assert until_refused(lambda: console.put(g={"S": "x"}), 100) == 100
    sks = map(str, range(200))
    assert until_refused(lambda: console.put("b", next(sks), g={"S": "x"}), 200) == 60
    with pytest.raises(Refusal) as refused:
        console.put("b", "more", g={"S": "x"})
    assert refused.value.members["ThrottlingReasons"] == [
        {
            "reason": "IndexWriteProvisionedThroughputExceeded",
            "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/t/index/i",
        }
    ]
    assert console.query("b", ConsistentRead=True)["Count"] == 60
    assert outcome(lambda: console.put("b", "without")) == "done", "an item that the index does not hold"


def test_a_batch_without_units_writes_what_fits_and_names_the_rest() -> None:
    console = Console()
    console.table(write=1, read=100)
    console.table("u", write=1, read=100)
    # 121 units saved by t and 61 by u.
    items = [item(sk=str(number), size=50 * KB) for number in range(3)]
    requests = {name: [{"PutRequest": {"Item": own}} for own in items] for name in "tu"}
    answer = console("BatchWriteItem", RequestItems=requests, ReturnConsumedCapacity="TOTAL")
    assert answer["UnprocessedItems"] == {"t": requests["t"][2:], "u": requests["u"][1:]}
    assert answer["ConsumedCapacity"] == [
        {"TableName": "t", "CapacityUnits": 100.0},
        {"TableName": "u", "CapacityUnits": 50.0},
    ]
    held = [console.query(name=name, ConsistentRead=True)["Count"] for name in "tu"]
    assert held == [2, 1]


def test_new_on_demand_throughput_is_that_of_one_second_of_reads_too() -> None:
    """Partitions are left out, so that one call can ask for all units of a table."""
    throughput = Throughput("t", frozenset({Rule.PARTITION_THROUGHPUT}), NOON)
    throughput.set(on_demand(maximum=50_000), on_demand(), NOON)
    throughput.write.take(3000, 0, NOON)
    throughput.read.take(9000, 0, NOON)
    for seconds in (1860, 1861, 1900):
        write, read = (lane.find_refusal for lane in (throughput.write, throughput.read))
        assert write(6000, 0, after(seconds)) is None
        assert write(6001, 0, after(seconds)) == ("TableWriteKeyRangeThroughputExceeded", "t"), "below the maximum"
        assert read(18_000, 0, after(seconds)) is None
        assert read(18_001, 0, after(seconds)) == ("TableReadKeyRangeThroughputExceeded", "t")


def test_the_growth_of_reads_splits_partitions_too() -> None:
    throughput = Throughput("t", frozenset(), NOON)
    throughput.set(on_demand(), on_demand(), NOON)
    throughput.read.take(9000, 0, NOON)
    throughput.find_partition("a", after(1860), on_demand=True)
    assert throughput.partitions == 6, "18,000 units of reads"


def test_more_units_keep_those_that_were_saved() -> None:
    console = Console()
    console.table(write=10, read=10)
    console.units(11, 10)
    # 10 units of the first second, and 63 s of ten: the change takes effect when the table is seen again.
    assert until_refused(console.put) == 640


def test_the_units_of_an_index_are_changed_with_it() -> None:
    console = Console()
    console.table(write=500, read=500, GlobalSecondaryIndexes=[index(write=1, read=1)])
    update = {"IndexName": "i", "ProvisionedThroughput": provisioned(50, 1)}
    console.update(GlobalSecondaryIndexUpdates=[{"Update": update}])
    console.wait(seconds=2)
    console.describe()
    console.wait(seconds=10)
    sks = map(str, range(2000))
    # One unit of the first second, 62 s of one, and ten seconds of fifty.
    assert until_refused(lambda: console.put("b", next(sks), g={"S": "x"}), 2000) == 563


def test_an_index_that_is_made_later_has_its_units() -> None:
    console = Console()
    console.table(write=500, read=500)
    made = {"Create": index(write=3, read=4)}
    console.update(GlobalSecondaryIndexUpdates=[made], **DEFINED)
    console.wait(minutes=1)
    (shown,) = console.describe()["GlobalSecondaryIndexes"]
    assert (
        shown["ProvisionedThroughput"]["WriteCapacityUnits"],
        shown["ProvisionedThroughput"]["ReadCapacityUnits"],
    ) == (
        3,
        4,
    )


def test_a_throttle_names_every_resource_that_has_no_units() -> None:
    console = Console()
    console.table(write=1, read=1, GlobalSecondaryIndexes=[index(write=1, read=1)])
    large = item(size=400 * KB, g={"S": "x"})
    reasons = ["TableWriteProvisionedThroughputExceeded", "IndexWriteProvisionedThroughputExceeded"]
    acts: list[Callable[[], Any]] = [
        lambda: console("PutItem", TableName="t", Item=large),
        lambda: console.batch([large]),
    ]
    for act in acts:
        with pytest.raises(Refusal) as refused:
            act()
        assert [reason["reason"] for reason in refused.value.members["ThrottlingReasons"]] == reasons


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ("PutItem", {"Item": item(sk="2", size=100)}),
        ("PutItem", {"Item": item(sk="3", size=5 * KB)}),
        ("DeleteItem", {"Key": {"pk": {"S": "a"}, "sk": {"S": "2"}}}),
        ("UpdateItem", {"Key": {"pk": {"S": "a"}, "sk": {"S": "2"}}, "UpdateExpression": "REMOVE f"}),
    ],
    ids=["smaller", "new", "delete", "update"],
)
def test_a_write_needs_the_units_of_the_larger_item_before_it_begins(operation: str, members: dict[str, Any]) -> None:
    console = Console()
    console.table(write=1, read=1)
    console.put(sk="2", size=5 * KB)
    # 61 units less five, and then all but four.
    assert until_refused(lambda: console.put("b"), 52) == 52
    assert outcome(lambda: console(operation, TableName="t", **members)) == "ProvisionedThroughputExceededException"
    console.wait(seconds=1)
    assert outcome(lambda: console(operation, TableName="t", **members)) == "done"


@pytest.mark.parametrize(
    ("operation", "members"),
    [("DeleteItem", {}), ("UpdateItem", {"UpdateExpression": "REMOVE f"})],
)
def test_a_failed_condition_takes_units_of_every_single_write(operation: str, members: dict[str, Any]) -> None:
    console = Console()
    console.table(write=1, read=1)
    console.put(size=5 * KB)
    request = {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, **members}
    request["ConditionExpression"] = "attribute_not_exists(pk)"
    codes = [outcome(lambda: console(operation, **request)) for _ in range(12)]
    # 56 units are left: eleven times five.
    failed, refused = "ConditionalCheckFailedException", "ProvisionedThroughputExceededException"
    assert codes == [failed] * 11 + [refused]


def test_an_eventually_consistent_read_needs_half_a_unit() -> None:
    console = Console()
    console.table(write=1, read=1)
    key = {"pk": {"S": "a"}, "sk": {"S": "9"}}
    assert until_refused(lambda: console("GetItem", TableName="t", Key=key), 200) == 122, "two each of 61 units"


def test_a_transaction_names_the_action_that_has_no_units() -> None:
    console = Console()
    console.table(write=1, read=1)
    console.table("u")
    until_refused(console.put)
    puts = [{"Put": {"TableName": name, "Item": item("b")}} for name in "ut"]
    with pytest.raises(Refusal) as refused:
        console("TransactWriteItems", TransactItems=puts)
    assert [reason["Code"] for reason in refused.value.members["CancellationReasons"]] == ["None", "ThrottlingError"]
