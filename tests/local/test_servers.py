"""The servers of the local stage: their addresses, and the settings that the layer before DynamoDB Local keeps."""

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local import Emulator, emulator
from local.processes import find_free_port, start_server
from local.stack import make_aws_client

# Addresses of /proc/net/tcp and tcp6 that only this machine reaches: 127.0.0.1, the same mapped into IPv6, and ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LISTENS = "0A"
KEYS: Any = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Emulator]:
    with Emulator(engine="dynamodb-local") as started:
        yield started


@pytest.fixture
def dynamodb(stage: Emulator) -> Any:
    return make_aws_client(stage.dynamodb, "dynamodb")


def inodes_of(groups: list[int]) -> Iterator[str]:
    """What the open files of these process groups are; a file or a process that ends meanwhile is left out alone."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            group = int((process / "stat").read_text().rpartition(")")[2].split()[2])
            for link in (process / "fd").iterdir() if group in groups else ():
                with suppress(OSError):
                    yield str(link.readlink())


def listening_of(groups: list[int]) -> dict[str, set[str]]:
    """Addresses that the processes of these groups listen on, by port, as the system has them."""
    inodes = set(inodes_of(groups))
    addresses: dict[str, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == LISTENS and f"socket:[{cells[9]}]" in inodes:
                address, _, port = cells[1].partition(":")
                addresses.setdefault(str(int(port, 16)), set()).add(address)
    return addresses


@pytest.mark.skipif(sys.platform != "linux", reason="reads the system's table of sockets in /proc")
def test_every_server_listens_on_the_loopback_interface_only(stage: Emulator) -> None:
    addresses = listening_of(stage.pids)
    assert len(stage.pids) == 3
    assert {stage.endpoint.rpartition(":")[2], stage.dynamodb.rpartition(":")[2]} <= addresses.keys()
    assert len(addresses) == 3
    assert set().union(*addresses.values()) <= LOOPBACK, addresses


def test_a_port_that_another_process_took_meanwhile_costs_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken, find_free_port()])
        monkeypatch.setattr(emulator, "find_free_port", lambda: next(ports))
        with Emulator() as started:
            assert started.port != taken
            assert make_aws_client(started.endpoint, "dynamodb").list_tables()["TableNames"] == []


def test_a_server_that_ends_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no licence')"]
    with pytest.raises(RuntimeError, match="the thing did not start; the end of its log:\nno licence"):
        start_server("the thing", command, tmp_path / "log", lambda _: False, folder=tmp_path, environment={})


def test_tags_class_protection_and_backups_of_a_table_are_kept(dynamodb: Any) -> None:
    made = dynamodb.create_table(
        TableName="kept",
        **KEYS,
        BillingMode="PROVISIONED",
        ProvisionedThroughput={"ReadCapacityUnits": 3, "WriteCapacityUnits": 4},
        TableClass="STANDARD",
        DeletionProtectionEnabled=True,
        Tags=[{"Key": "tidetable:stage", "Value": "local"}],
        WarmThroughput={"ReadUnitsPerSecond": 12000, "WriteUnitsPerSecond": 4000},
    )["TableDescription"]
    assert made["DeletionProtectionEnabled"] is True
    arn = made["TableArn"]
    assert dynamodb.list_tags_of_resource(ResourceArn=arn)["Tags"] == [{"Key": "tidetable:stage", "Value": "local"}]
    with pytest.raises(ClientError, match="protected against deletion"):
        dynamodb.delete_table(TableName="kept")
    dynamodb.update_table(TableName="kept", TableClass="STANDARD_INFREQUENT_ACCESS")
    dynamodb.update_table(TableName="kept", DeletionProtectionEnabled=False)
    dynamodb.update_table(TableName="kept", ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 2})
    dynamodb.update_continuous_backups(
        TableName="kept", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    table = dynamodb.describe_table(TableName="kept")["Table"]
    assert table["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
    assert table["DeletionProtectionEnabled"] is False
    assert table["WarmThroughput"]["WriteUnitsPerSecond"] == 4000
    units = table["ProvisionedThroughput"]
    assert (units["ReadCapacityUnits"], units["WriteCapacityUnits"]) == (1, 2)
    backups = dynamodb.describe_continuous_backups(TableName="kept")["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    dynamodb.delete_table(TableName="kept")
    dynamodb.create_table(TableName="kept", **KEYS, BillingMode="PAY_PER_REQUEST")
    assert dynamodb.list_tags_of_resource(ResourceArn=arn)["Tags"] == [], (
        "a table made anew has no tags of the one before"
    )
    dynamodb.delete_table(TableName="kept")
    for call in (dynamodb.describe_table, dynamodb.delete_table):
        with pytest.raises(ClientError) as refused:
            call(TableName="kept")
        assert refused.value.response["Error"]["Code"] == "ResourceNotFoundException"


def test_a_table_of_cloudformations_is_there_when_it_is_first_used(stage: Emulator, dynamodb: Any) -> None:
    made_by = make_aws_client(stage.endpoint, "dynamodb")
    made_by.create_table(TableName="catalog", **KEYS, BillingMode="PAY_PER_REQUEST")
    dynamodb.put_item(TableName="catalog", Item={"pk": {"S": "a"}})
    assert dynamodb.get_item(TableName="catalog", Key={"pk": {"S": "a"}})["Item"] == {"pk": {"S": "a"}}
    assert made_by.scan(TableName="catalog")["Items"] == []
    with pytest.raises(ClientError) as missing:
        dynamodb.batch_write_item(RequestItems={"nowhere": [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}]})
    assert missing.value.response["Error"]["Code"] == "ResourceNotFoundException"


def test_another_engine_is_taken_before_a_deployment() -> None:
    with Emulator() as started:
        assert started.dynamodb == started.endpoint
        started.change_engine("dynamodb-local")
        assert started.dynamodb != started.endpoint
        assert make_aws_client(started.dynamodb, "dynamodb").list_tables()["TableNames"] == []
