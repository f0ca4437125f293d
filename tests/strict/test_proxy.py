"""The strict service over HTTP: its use by boto3 and the adapters, in front of DynamoDB Local."""

import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from local.dynamodb_local import DynamoDBLocal
from local.stack import make_aws_client
from strict import Fault, Kind, ManualClock, StrictDynamo
from strict.engines import LOCAL_UNKNOWN, HttpEngine
from strict.proxy import Proxy, _Handler
from tests.strict.console import KB, KEYS, NOON, item, make_billing


@pytest.fixture(scope="module")
def local() -> Iterator[str]:
    with DynamoDBLocal() as started:
        yield started.endpoint


@pytest.fixture
def proxy(local: str) -> Iterator[Proxy]:
    service = StrictDynamo(HttpEngine(local, unknown=LOCAL_UNKNOWN), ManualClock(NOON))
    with Proxy(service) as proxy:
        yield proxy
        proxy.service.faults.clear()
        for name in list(proxy.service.account.tables):
            service.account.engine.call("DeleteTable", {"TableName": name})


def client(endpoint: str, timeout: float = 60, attempts: int = 1) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(read_timeout=timeout, retries={"mode": "standard", "total_max_attempts": attempts}),
    )


def table(proxy: Proxy, write: int | None = None, read: int | None = None) -> Any:
    dynamodb = client(proxy.endpoint)
    dynamodb.create_table(TableName="tides", **KEYS, **make_billing(write, read))
    proxy.service.clock.sleep(60)
    return dynamodb


def test_an_hour_passes_in_moments(proxy: Proxy) -> None:
    dynamodb = client(proxy.endpoint)
    dynamodb.create_table(TableName="tides", **KEYS, **make_billing(5, 5))
    # A table is visible after three seconds at most, and active after six.
    proxy.service.clock.sleep(4)
    assert dynamodb.describe_table(TableName="tides")["Table"]["TableStatus"] == "CREATING"
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        dynamodb.put_item(TableName="tides", Item=item())
    proxy.service.clock.sleep(3600)
    assert dynamodb.describe_table(TableName="tides")["Table"]["TableStatus"] == "ACTIVE"
    dynamodb.put_item(TableName="tides", Item=item())


def test_boto3_sees_reasons_and_times(proxy: Proxy) -> None:
    dynamodb = table(proxy, write=2, read=2)
    dynamodb.update_table(TableName="tides", ProvisionedThroughput={"WriteCapacityUnits": 1, "ReadCapacityUnits": 1})
    proxy.service.clock.sleep(2)
    figures = dynamodb.describe_table(TableName="tides")["Table"]["ProvisionedThroughput"]
    assert figures["NumberOfDecreasesToday"] == 1
    assert figures["LastDecreaseDateTime"].timestamp() == NOON.timestamp() + 60
    for number in range(1, 127):
        dynamodb.put_item(TableName="tides", Item=item(sk=str(number)))
    with pytest.raises(ClientError) as refused:
        dynamodb.put_item(TableName="tides", Item=item(sk="one too many"))
    answer: Any = refused.value.response
    assert answer["Error"]["Code"] == "ProvisionedThroughputExceededException"
    assert answer["ThrottlingReasons"] == [
        {
            "reason": "TableWriteProvisionedThroughputExceeded",
            "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/tides",
        }
    ]


def test_a_time_out_before_and_one_after_the_write(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gives up soon; the test checks the table when the service has finished."""
    lost, lose = threading.Event(), _Handler._lose_answer

    def losing(handler: _Handler, kind: Kind) -> None:
        lost.set()
        lose(handler, kind)

    monkeypatch.setattr(_Handler, "_lose_answer", losing)
    dynamodb = table(proxy)
    hasty = client(proxy.endpoint, timeout=0.3)
    for kind, held in ((Kind.TIMEOUT_BEFORE, 0), (Kind.TIMEOUT_AFTER, 1)):
        proxy.service.faults.add(Fault(kind, operation="PutItem"))
        with pytest.raises(ReadTimeoutError):
            hasty.put_item(TableName="tides", Item=item())
        assert lost.wait(60)
        lost.clear()
        proxy.service.faults.clear()
        assert dynamodb.scan(TableName="tides")["Count"] == held


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.GONE])
def test_a_torn_connection_is_one(proxy: Proxy, kind: Kind) -> None:
    dynamodb = table(proxy)
    fault = proxy.service.faults.add(Fault(kind, times=1))
    with pytest.raises(ConnectionClosedError):
        dynamodb.put_item(TableName="tides", Item=item())
    assert fault.struck == 1
    dynamodb.put_item(TableName="tides", Item=item())


def test_botocore_tries_again_what_may_pass(proxy: Proxy) -> None:
    table(proxy)
    fault = proxy.service.faults.add(Fault(Kind.SERVER_ERROR, times=1))
    client(proxy.endpoint, attempts=2).put_item(TableName="tides", Item=item())
    assert fault.struck == 1


def test_read_and_write_units_are_those_of_dynamodb_local(proxy: Proxy, local: str) -> None:
    """Except for transactions the official engine computes both correctly; the two computations are independent."""
    strict, plain = table(proxy), make_aws_client(local, "dynamodb")

    def both(operation: str, **request: Any) -> None:
        answers = [
            getattr(client, operation)(TableName="tides", ReturnConsumedCapacity="TOTAL", **request)["ConsumedCapacity"]
            for client in (strict, plain)
        ]
        assert answers[0]["CapacityUnits"] == answers[1]["CapacityUnits"], (operation, request.keys())

    for number, size in enumerate((100, KB - 1, KB, KB + 1, 5 * KB, 300 * KB)):
        # Each writes twice, so that both replace an item of that size.
        strict.put_item(TableName="tides", Item=item(sk=str(number), size=size))
        both("put_item", Item=item(sk=str(number), size=size))
        both("get_item", Key={"pk": {"S": "a"}, "sk": {"S": str(number)}}, ConsistentRead=True)
        both("get_item", Key={"pk": {"S": "a"}, "sk": {"S": str(number)}})
    asked: Any = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "a"}}}
    for more in ({}, {"ConsistentRead": True}, {"Limit": 3}, {"ProjectionExpression": "sk"}):
        both("query", **asked, **more)
    both("scan")


def test_what_the_double_itself_cannot_do_is_an_error_and_not_a_silence(proxy: Proxy) -> None:
    dynamodb = table(proxy)
    dynamodb.put_item(TableName="tides", Item=item())
    with pytest.raises(ClientError, match="the strict double failed: NotImplementedError"):
        dynamodb.scan(TableName="tides", ProjectionExpression="f[0]")
