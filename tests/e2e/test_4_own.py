"""A user's configuration on DynamoDB Local, as `make local CONFIG=... ENGINE=dynamodb-local` deploys it."""

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from examples.python.send import send_events
from local import Deployed, Emulator, deploy
from local.emulator import ROOT, clean_environment
from local.http import Api, invoke_lifecycle

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
EVENTS = 1200


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "shop.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def own(file: Path) -> Iterator[Deployed]:
    with Emulator() as emulator:
        yield deploy(emulator, config=file, engine="dynamodb-local")


def day_of(own: Deployed) -> str:
    """The day of the last event, from the event itself, whatever the hour."""
    return str(next(Api(own).walk("access", start="-1d", limit=1))["time"])[:10]


def test_the_sender_of_the_examples_reaches_it_and_the_tables_are_in_dynamodb_local(own: Deployed) -> None:
    events = [{"series": "web", "id": f"e{number}", "data": {"n": number}} for number in range(EVENTS)]
    wrong = {"series": "web", "id": "late", "time": "2001-01-01T00:00:00Z", "data": {}}
    refused = list(send_events(own.api, own.key, "access", [*events, wrong]))
    assert [(error["code"], error["event"]["id"]) for error in refused] == [("too_old", "late")]
    rows = list(Api(own).walk("access", start="-1h", limit=1000))
    assert sorted(event["data"]["n"] for event in rows) == list(range(EVENTS))
    assert own.dynamodb != own.endpoint
    tables = own.client("dynamodb")
    described = tables.describe_table(TableName=f"tidetable-local.access.{day_of(own)}")["Table"]
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
    day = day_of(own)
    start = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    assert f"tidetable-local.access.{day}" in tables.list_tables()["TableNames"]
    later = start + timedelta(days=6, hours=12)
    for _ in range(3):
        report = invoke_lifecycle(own, at=later.isoformat())
        assert report["healthy"], report
    after = tables.list_tables()["TableNames"]
    assert f"tidetable-local.access.{day}" not in after
    assert f"tidetable-local.access.{later.date()}" in after
    bucket, key = own.outputs["ArchiveBucket"], f"stream=access/period={day}/_manifest.json"
    manifest = json.loads(own.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    assert manifest["events"] > 0
    # These events come from the archive. Around midnight the events of the first test are of two days.
    span = {"start": (start - timedelta(days=1)).isoformat(), "to": (start + timedelta(days=1)).isoformat()}
    events = list(Api(own).walk("access", **span, limit=1000))
    assert sorted(event["data"]["n"] for event in events) == list(range(EVENTS))
