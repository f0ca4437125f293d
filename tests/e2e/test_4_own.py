"""A configuration of one's own on DynamoDB Local: what `make local CONFIG=... ENGINE=dynamodb-local` brings up."""

import json
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from examples.python.send import send_events
from local import Deployed, Emulator, deploy
from local.emulator import ROOT, clean_environment, clock_can_move
from local.http import Api, invoke_lifecycle
from tests.e2e.clock import NOW, OFFSET, TODAY

CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.access]
period = "day"
late = "1d"
retention = 2
[streams.access.key]
partition_by = "time"
bucket = "6h"
[streams.access.table]
deletion_protection = true
tags = { team = "shop" }
[[streams.access.index]]
name = "by_error"
partition_by = "error"
"""
TABLE = f"tidetable-local.access.{TODAY}"
EVENTS = 1200


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("own") / "shop.toml"
    found.write_text(CONFIG)
    return found


@pytest.fixture(scope="module")
def own(file: Path) -> Iterator[Deployed]:
    with Emulator(clock=clock_can_move()) as emulator:
        deployed = deploy(emulator, config=file, engine="dynamodb-local")
        if clock_can_move():
            emulator.move_clock(OFFSET)
        yield deployed


def test_the_sender_of_the_examples_reaches_it_and_the_tables_are_in_dynamodb_local(own: Deployed) -> None:
    events = [{"series": "web", "id": f"e{number}", "data": {"n": number}} for number in range(EVENTS)]
    wrong = {"series": "web", "id": "late", "time": "2001-01-01T00:00:00Z", "data": {}}
    refused = list(send_events(own.api, own.key, "access", [*events, wrong]))
    assert [(one["code"], one["event"]["id"]) for one in refused] == [("too_old", "late")]
    found = list(Api(own).walk("access", start="-1h", limit=1000))
    assert sorted(one["data"]["n"] for one in found) == list(range(EVENTS))
    assert own.dynamodb != own.endpoint
    tables = own.client("dynamodb")
    described = tables.describe_table(TableName=TABLE)["Table"]
    tags = {tag["Key"]: tag["Value"] for tag in tables.list_tags_of_resource(ResourceArn=described["TableArn"])["Tags"]}
    assert tags["team"] == "shop"
    assert described["DeletionProtectionEnabled"] is True


def test_the_command_line_reaches_it_with_the_printed_variables(own: Deployed, file: Path) -> None:
    environment = clean_environment() | own.environment | {"TIDETABLE_CONFIG": str(file)}
    done = subprocess.run(  # noqa: S603 - our own command
        [str(ROOT / "bin" / "tidetable"), "status", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {row["stream"] for row in json.loads(done.stdout)} == {"access"}


def test_an_expired_table_is_archived_and_deleted_as_its_tags_and_protection_are_kept(own: Deployed) -> None:
    tables = own.client("dynamodb")
    assert TABLE in tables.list_tables()["TableNames"]
    later = (NOW + timedelta(days=6)).isoformat()
    for _ in range(3):
        report = invoke_lifecycle(own, at=later)
        assert report["healthy"], report
    after = tables.list_tables()["TableNames"]
    assert TABLE not in after
    assert f"tidetable-local.access.{(NOW + timedelta(days=6)).date()}" in after
    bucket, key = own.outputs["ArchiveBucket"], f"stream=access/period={TODAY}/_manifest.json"
    manifest = json.loads(own.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    assert manifest["events"] == EVENTS
    found = Api(own).walk("access", start=f"{TODAY}T00:00:00Z", to=f"{TODAY}T23:59:59Z", limit=1000)
    assert sorted(one["data"]["n"] for one in found) == list(range(EVENTS))
