"""Times and throughput at their edges: creations per second, backups, a lost key, a new maximum, and parallel scans."""

from typing import Any

import pytest

from strict import Rule
from strict.refusals import Refusal
from tests.strict.console import KB, Console, item, outcome, until_refused
from tests.strict.settings import KEY

RECOVERY = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}


@pytest.mark.parametrize(("seconds", "expected"), [(0.9, "ThrottlingException"), (1, "done")])
def test_six_tables_are_created_in_a_second(seconds: float, expected: str) -> None:
    console = Console()
    for number in range(6):
        console.create(f"t{number}")
    console.wait(seconds=seconds)
    assert outcome(lambda: console.create("another")) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(11.9, "ContinuousBackupsUnavailableException"), (12, "done")])
def test_backups_come_six_seconds_after_the_table(seconds: float, expected: str) -> None:
    console = Console()
    console.create()
    console.wait(seconds=seconds)
    assert outcome(lambda: console("UpdateContinuousBackups", TableName="t", **RECOVERY)) == expected


def test_a_table_whose_key_is_lost_is_being_created_for_an_hour_almost() -> None:
    console = Console()
    console.dynamo.account.lost_keys.add("arn:key")
    console.create(**KEY)
    console.wait(seconds=3559)
    assert console.describe()["TableStatus"] == "CREATING"
    console.wait(seconds=1)
    assert outcome(console.describe) == "ResourceNotFoundException"


def test_a_new_maximum_holds_for_the_next_requests() -> None:
    console = Console()
    console.table(OnDemandThroughput={"MaxWriteRequestUnits": 50, "MaxReadRequestUnits": -1})
    for units in (20, 70):
        console.update(OnDemandThroughput={"MaxWriteRequestUnits": units, "MaxReadRequestUnits": -1})
        console.wait(seconds=2)
        console.describe()
        console.wait(seconds=2)
        assert until_refused(console.put, 200) == units


def test_segments_of_a_scan_read_partitions_of_their_own() -> None:
    console = Console()
    console.create(write=1000, read=9000)
    console.wait(minutes=10)
    for pk in "abcd":
        console.put(pk, size=400 * KB)
        console.wait(seconds=1)

    def scan(segment: int) -> Any:
        return console("Scan", TableName="t", Segment=segment, TotalSegments=2, ConsistentRead=True)

    # A partition has 3,000 read units per second, and each segment two items of a hundred units.
    assert until_refused(lambda: scan(0), 100) == 15
    assert until_refused(lambda: scan(1), 100) == 15
    with pytest.raises(Refusal) as refused:
        scan(0)
    assert refused.value.members["ThrottlingReasons"][0]["reason"] == "TableReadKeyRangeThroughputExceeded"


def test_a_batch_is_answered_if_any_of_its_keys_was_read_though_no_item_has_it() -> None:
    console = Console()
    console.table(write=1, read=1)
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    until_refused(lambda: console("GetItem", TableName="t", Key=key, ConsistentRead=True))
    console.wait(seconds=0.5)
    answer = console.get_batch("12")
    assert answer["Responses"] == {"t": []}
    assert answer["UnprocessedKeys"] == {"t": {"Keys": [{"pk": {"S": "a"}, "sk": {"S": "2"}}]}}


def test_a_change_that_is_refused_for_its_units_is_no_decrease() -> None:
    console = Console()
    console.table(write=50, read=50)
    assert outcome(lambda: console.units(49, 40_001)) == "LimitExceededException"
    assert console.describe()["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0


def test_a_key_may_be_repeated_in_a_batch_of_gets_where_its_rule_is_left_out() -> None:
    console = Console(without={Rule.BATCH_REPEATED_KEY})
    console.table()
    console.put()
    console.wait(seconds=3)
    assert console.get_batch("11")["Responses"] == {"t": [item(), item()]}
