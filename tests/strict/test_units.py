"""Sizes and units, compared with the published rules (calculated by hand) and with the engines."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strict import ManualClock
from strict.buckets import TokenBucket
from strict.memory import MemoryEngine
from strict.replica import LaggingEngine
from strict.units import index_units, measure_item, measure_number, measure_value, read_units, write_units
from tests.strict.console import KB, KEYS, NOON, Console, index, item, outcome
from tests.worlds.codec import to_wire
from tidetable.values import count_item_bytes


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": ""}, 0),
        ({"S": "abc"}, 3),
        ({"S": "é"}, 2),
        ({"S": "\U0001f30a"}, 4),
        ({"B": "AAEC"}, 3),
        ({"BOOL": False}, 1),
        ({"NULL": True}, 1),
        ({"N": "0"}, 1),
        ({"N": "1"}, 2),
        ({"N": "12"}, 2),
        ({"N": "123"}, 3),
        ({"N": "-123"}, 4),
        ({"N": "1200"}, 2),  # Trailing zeros do not count.
        ({"N": "0.0012"}, 2),  # Leading zeros do not count.
        ({"N": "12345678901234567890123456789012345678"}, 20),
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "ab"}, {"S": "c"}]}, 3 + 2 + 3),
        ({"M": {"k": {"S": "ab"}}}, 3 + 1 + 1 + 2),
        ({"M": {"é": {"S": ""}}}, 3 + 1 + 2),
        ({"L": [{"M": {}}]}, 3 + 1 + 3),
        ({"B": b"abc"}, 3),
        ({"SS": ["ab", "c"]}, 3),
        ({"SS": ["é"]}, 2),
        ({"NS": ["1", "1200"]}, 4),
        ({"BS": ["AAEC", b"ab"]}, 5),
    ],
)
def test_the_size_of_a_value(value: Any, size: int) -> None:
    assert measure_value(value) == size


def test_names_count() -> None:
    assert measure_item({"pk": {"S": "a"}, "größe": {"N": "7"}}) == 2 + 1 + 7 + 2


@pytest.mark.parametrize(("size", "units"), [(1, 1), (KB, 1), (KB + 1, 2), (400 * KB, 400)])
def test_a_write_costs_a_unit_a_kilobyte(size: int, units: int) -> None:
    assert write_units(size) == units
    console = Console()
    console.table()
    assert console.put(size=max(size, 9))["ConsumedCapacity"]["CapacityUnits"] == units


@pytest.mark.parametrize(
    ("size", "consistent", "units"),
    [
        (0, True, 1),
        (0, False, 0.5),
        (4 * KB, True, 1),
        (4 * KB, False, 0.5),
        (4 * KB + 1, True, 2),
        (9 * KB, False, 1.5),
    ],
)
def test_a_read_costs_a_unit_for_four_kilobytes_or_half(size: int, consistent: bool, units: float) -> None:
    assert read_units(size, consistent=consistent) == units


def test_a_put_costs_the_larger_of_the_old_and_the_new_item() -> None:
    console = Console()
    console.table()
    console.put(size=3 * KB)
    assert console.put(size=100)["ConsumedCapacity"]["CapacityUnits"] == 3
    assert console.put(size=100)["ConsumedCapacity"]["CapacityUnits"] == 1


def test_a_query_sums_its_items_before_it_rounds() -> None:
    console = Console()
    console.table()
    for number in range(8):
        console.put(sk=str(number), size=KB)
    console.wait(seconds=3)
    assert console.query()["ConsumedCapacity"]["CapacityUnits"] == 1.0, "8 KB, eventually consistent"
    assert console.query(ConsistentRead=True)["ConsumedCapacity"]["CapacityUnits"] == 2.0
    assert console.query(Limit=1)["ConsumedCapacity"]["CapacityUnits"] == 0.5
    assert console.query(pk="none")["ConsumedCapacity"]["CapacityUnits"] == 0.5


def test_what_a_filter_or_a_projection_hides_is_paid_for() -> None:
    console = Console()
    console.table()
    for number in range(8):
        console.put(sk=str(number), size=KB, n={"S": str(number)})
    console.wait(seconds=3)
    values = {":pk": {"S": "a"}, ":n": {"S": "3"}}
    page = console.query(FilterExpression="n = :n", ExpressionAttributeValues=values, ConsistentRead=True)
    assert (page["Count"], page["ScannedCount"], page["ConsumedCapacity"]["CapacityUnits"]) == (1, 8, 2.0)
    page = console.query(ProjectionExpression="sk", ConsistentRead=True)
    assert (page["Items"][0], page["ConsumedCapacity"]["CapacityUnits"]) == ({"sk": {"S": "0"}}, 2.0)
    page = console.query(Select="COUNT")
    assert (page["Items"], page["Count"], page["ConsumedCapacity"]["CapacityUnits"]) == ([], 8, 1.0)


def test_a_page_is_limited_before_it_is_filtered() -> None:
    console = Console()
    console.table()
    for number in range(8):
        console.put(sk=str(number), n={"S": str(number)})
    console.wait(seconds=3)
    values = {":pk": {"S": "a"}, ":n": {"S": "5"}}
    page = console.query(FilterExpression="n = :n", ExpressionAttributeValues=values, Limit=4)
    assert (page["Count"], page["ScannedCount"]) == (0, 4)
    assert page["LastEvaluatedKey"] == {"pk": {"S": "a"}, "sk": {"S": "3"}}


KEYS_ONLY: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        (None, {"g": "x"}, 1),  # The item enters the index.
        (None, {}, 0),  # Without the attribute the item is not in the index.
        ({"g": "x"}, {"g": "y"}, 2),  # Another key: one delete and one put.
        ({"g": "x"}, {}, 1),  # The item leaves the index.
        ({"g": "x"}, {"g": "x", "f": "z"}, 0),  # Attributes outside the projection cost nothing.
    ],
)
def test_writes_of_an_index(before: dict[str, str] | None, after: dict[str, str], units: int) -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index(**KEYS_ONLY)])

    def put(attributes: dict[str, str]) -> Any:
        extra: dict[str, Any] = {"g" if name == "g" else "h": {"S": value} for name, value in attributes.items()}
        return console.put(**extra)

    if before is not None:
        put(before)
    consumed = put(after)["ConsumedCapacity"]
    assert consumed["Table"]["CapacityUnits"] == 1
    assert consumed.get("GlobalSecondaryIndexes", {}).get("i", {"CapacityUnits": 0})["CapacityUnits"] == units
    assert consumed["CapacityUnits"] == 1 + units


def test_a_change_of_a_projected_attribute_costs_an_index_its_larger_projection() -> None:
    small, large = item(size=100, g={"S": "x"}), item(size=3 * KB, g={"S": "x"})
    assert index_units(large, small, ("g",)) == 3
    assert index_units(large, {**small, "g": {"S": "y"}}, ("g",)) == 4
    middle = item(size=1500, g={"S": "x"})
    assert index_units(middle, {**middle, "g": {"S": "y"}}, ("g",)) == 4, "each is rounded by itself"
    assert index_units(small, large, ("g",)) == 3
    assert (index_units(large, None, ("g",)), index_units(None, large, ("g",))) == (3, 3)
    assert index_units(small, small, ("g",)) == 0


def test_a_get_of_what_is_not_there_costs_the_least() -> None:
    console = Console()
    console.table()
    request = {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, "ReturnConsumedCapacity": "TOTAL"}
    assert console("GetItem", **request)["ConsumedCapacity"]["CapacityUnits"] == 0.5
    console.put(size=9 * KB)
    assert console("GetItem", **request, ConsistentRead=True)["ConsumedCapacity"]["CapacityUnits"] == 3
    console.wait(seconds=3)
    shown = console("GetItem", **request, ProjectionExpression="sk")
    assert shown["ConsumedCapacity"]["CapacityUnits"] == 1.5


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.text()
    | st.integers(-(10**30), 10**30)
    | st.decimals(Decimal(-1000), Decimal(1000), places=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=5))
def test_the_pipeline_never_thinks_an_item_smaller_than_it_is(data: dict[str, Any]) -> None:
    thought, size = count_item_bytes({"data": data}), measure_item(to_wire({"data": data}))
    numbers = str(data).count(".") + sum(character.isdigit() for character in str(data))
    assert size <= thought <= size + 2 * numbers + 2


@given(st.decimals(-(10**12), 10**12, places=6))
def test_a_numbers_size_does_not_depend_on_how_it_is_written(number: Decimal) -> None:
    assert measure_number(str(number)) == measure_number(str(number.normalize())) == measure_number(f"{number:f}")


def test_a_bucket_has_what_it_saved_and_no_unit_more() -> None:
    bucket = TokenBucket(10, 300, NOON)
    assert (bucket.has(10, NOON), bucket.has(10.5, NOON)) == (True, False)
    bucket.take(4)
    assert (bucket.has(6, NOON), bucket.has(6.5, NOON)) == (True, False)
    later = NOON + timedelta(seconds=1)
    assert (bucket.has(16, later), bucket.has(16.5, later)) == (True, False)


def test_a_batch_of_which_nothing_can_be_written_is_refused() -> None:
    """AWS, BatchWriteItem: if none of the items can be processed, ProvisionedThroughputExceededException is returned."""
    console = Console()
    console.table(write=1, read=1)
    assert outcome(lambda: console.batch([item(sk="0", size=400 * KB)])) == "ProvisionedThroughputExceededException"
    console.wait(seconds=60)
    left = console.batch([item(sk="1", size=KB), item(sk="2", size=400 * KB)])["UnprocessedItems"]["t"]
    assert [request["PutRequest"]["Item"]["sk"]["S"] for request in left] == ["2"]


@pytest.mark.parametrize("seed", range(20))
def test_a_replica_never_shows_an_earlier_write_of_an_item_after_a_later(seed: int) -> None:
    clock = ManualClock(NOON)
    engine = LaggingEngine(MemoryEngine(), clock, seconds=2, seed=seed)
    engine.call("CreateTable", {"TableName": "t", **KEYS, "BillingMode": "PAY_PER_REQUEST"})
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    for number in range(4):
        engine.call("PutItem", {"TableName": "t", "Item": {**key, "n": {"N": str(number)}}})
    seen = []
    for _ in range(30):
        clock.sleep(0.1)
        item = engine.call("GetItem", {"TableName": "t", "Key": key}).get("Item")
        seen.append(-1 if item is None else int(item["n"]["N"]))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (-1, 3)
