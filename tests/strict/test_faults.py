"""Faults on demand: the caller's view, and the effect of the request."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from strict import Fault, Kind, ManualClock, StrictDynamo
from strict.client import StrictClient
from strict.memory import MemoryEngine
from tests.strict.console import KEYS, NOON, Console, item


@pytest.fixture
def console() -> Console:
    console = Console()
    console.table("t")
    console.table("u")
    return console


def put(console: Console, name: str = "t", sk: str = "1") -> None:
    StrictClient(console.dynamo).put_item(TableName=name, Item=item(sk=sk))


def count_items(console: Console, name: str = "t") -> int:
    console.dynamo.faults.clear()
    return int(console.query(name=name, ConsistentRead=True)["Count"])


def code(act: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        act()
    return str(refused.value.response["Error"]["Code"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.THROTTLED, "ProvisionedThroughputExceededException"),
        (Kind.SERVER_ERROR, "InternalServerError"),
        (Kind.ACCESS_DENIED, "AccessDeniedException"),
    ],
)
def test_a_refusal_takes_no_effect(console: Console, kind: Kind, expected: str) -> None:
    console.dynamo.faults.add(Fault(kind))
    assert code(lambda: put(console)) == expected
    assert count_items(console) == 0


@pytest.mark.parametrize(
    ("kind", "expected", "effect"),
    [
        (Kind.TIMEOUT_BEFORE, ReadTimeoutError, 0),
        (Kind.TIMEOUT_AFTER, ReadTimeoutError, 1),
        (Kind.RESET, ConnectionClosedError, 0),
        (Kind.GONE, EndpointConnectionError, 0),
    ],
)
def test_a_lost_answer_says_nothing_about_its_effect(
    console: Console, kind: Kind, expected: type[Exception], effect: int
) -> None:
    console.dynamo.faults.add(Fault(kind))
    with pytest.raises(expected):
        put(console)
    assert count_items(console) == effect


def test_a_slow_answer_lets_time_pass(console: Console) -> None:
    before = console.clock.time
    console.dynamo.faults.add(Fault(Kind.SLOW, seconds=7))
    put(console)
    assert (console.clock.time - before).total_seconds() == 7
    assert count_items(console) == 1


def test_a_fault_strikes_its_own_operation_and_table_only(console: Console) -> None:
    console.dynamo.faults.add(Fault(Kind.SERVER_ERROR, operation="PutItem", table="u"))
    put(console, "t")
    assert code(lambda: put(console, "u")) == "InternalServerError"
    assert console.query(name="u")["Count"] == 0, "reads are not struck"


def test_a_fault_of_a_table_strikes_batches_and_transactions_that_touch_it(console: Console) -> None:
    fault = console.dynamo.faults.add(Fault(Kind.SERVER_ERROR, table="u"))
    client = StrictClient(console.dynamo)
    puts = [{"PutRequest": {"Item": item()}}]
    assert code(lambda: client.batch_write_item(RequestItems={"t": puts, "u": puts})) == "InternalServerError"
    action = {"Put": {"TableName": "u", "Item": item()}}
    assert code(lambda: client.transact_write_items(TransactItems=[action])) == "InternalServerError"
    client.batch_write_item(RequestItems={"t": puts})
    assert fault.struck == 2


def test_a_script_says_which_calls_are_struck(console: Console) -> None:
    console.dynamo.faults.add(Fault(Kind.SERVER_ERROR, operation="PutItem", script=iter([False, True, False])))
    outcomes = []
    for number in range(5):
        try:
            put(console, sk=str(number))
            outcomes.append(True)
        except ClientError:
            outcomes.append(False)
    assert outcomes == [True, False, True, True, True]


def test_a_fault_ends_after_its_times(console: Console) -> None:
    console.dynamo.faults.add(Fault(Kind.THROTTLED, times=2))
    for _ in range(2):
        assert code(lambda: put(console)) == "ProvisionedThroughputExceededException"
    put(console)


def test_chance_is_repeatable() -> None:
    def run() -> list[bool]:
        console = Console()
        console.table()
        fault = console.dynamo.faults.add(Fault(Kind.SERVER_ERROR, probability=0.3))
        struck = []
        for number in range(50):
            before = fault.struck
            with suppress(ClientError):
                put(console, sk=str(number))
            struck.append(fault.struck > before)
        return struck

    assert run() == run()
    assert 5 < sum(run()) < 30


def test_a_slow_call_may_be_struck_by_another_fault_too(console: Console) -> None:
    before = console.clock.time
    console.dynamo.faults.add(Fault(Kind.SLOW, seconds=7))
    console.dynamo.faults.add(Fault(Kind.SERVER_ERROR))
    assert code(lambda: put(console)) == "InternalServerError"
    assert (console.clock.time - before).total_seconds() == 7


def test_each_seed_has_its_own_faults_and_delays() -> None:
    """A table is seen after three seconds at most, its tags after five, and a write is read after two."""
    struck: set[tuple[bool, ...]] = set()
    seen: dict[float, list[bool]] = {1.5: [], 2.9: [], 3.0: []}
    tagged: dict[float, list[bool]] = {4.5: [], 5.0: []}
    arrived: list[bool] = []
    for seed in range(20):
        clock = ManualClock(NOON)
        service = StrictDynamo(MemoryEngine(), clock, seed=seed, stale_seconds=2)
        client = StrictClient(service)
        tags = [{"Key": "a", "Value": "b"}]
        client.create_table(TableName="t", **KEYS, BillingMode="PAY_PER_REQUEST", Tags=tags)
        arn = "arn:aws:dynamodb:us-east-1:000000000000:table/t"
        for seconds, found in seen.items():
            clock.time = NOON + timedelta(seconds=seconds)
            with suppress(ClientError):
                client.describe_table(TableName="t")
                found.append(True)
        for seconds, found in tagged.items():
            clock.time = NOON + timedelta(seconds=seconds)
            found += [True] * len(client.list_tags_of_resource(ResourceArn=arn)["Tags"])
        clock.time = NOON + timedelta(seconds=60)
        client.put_item(TableName="t", Item=item())
        clock.sleep(1.5)
        arrived.append("Item" in client.get_item(TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "1"}}))
        service.faults.add(Fault(Kind.SERVER_ERROR, operation="PutItem", probability=0.5))
        struck.add(tuple(_is_struck(client) for _ in range(20)))
    assert len(struck) == 20
    assert 0 < len(seen[1.5]) <= len(seen[2.9]) <= len(seen[3.0]) == 20
    assert len(seen[1.5]) < 20
    assert 0 < len(tagged[4.5]) < len(tagged[5.0]) == 20
    assert {True, False} == set(arrived)


def _is_struck(client: StrictClient) -> bool:
    try:
        client.put_item(TableName="t", Item=item())
    except ClientError:
        return True
    return False
