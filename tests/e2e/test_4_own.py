"""A configuration of one's own on DynamoDB Local: what `make local CONFIG=... ENGINE=dynamodb-local` brings up."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("own") / "shop.toml"
    found.write_text(CONFIG)
    return found


@pytest.fixture(scope="module")
def own(file: Path) -> Iterator[Deployed]:
    with Emulator() as emulator:
        yield deploy(emulator, config=file, engine="dynamodb-local")


def test_the_sender_of_the_examples_reaches_it_and_the_tables_are_in_dynamodb_local(own: Deployed) -> None:
    events = [{"series": "web", "id": f"e{number}", "data": {"n": number}} for number in range(1200)]
    wrong = {"series": "web", "id": "late", "time": "2001-01-01T00:00:00Z", "data": {}}
    refused = list(send_events(own.api, own.key, "access", [*events, wrong]))
    assert [(one["code"], one["event"]["id"]) for one in refused] == [("too_old", "late")]
    found = list(Api(own).walk("access", start="-1h", limit=1000))
    assert sorted(one["data"]["n"] for one in found) == list(range(1200))
    assert own.dynamodb != own.endpoint
    tables = own.client("dynamodb")
    names = tables.list_tables()["TableNames"]
    assert f"tidetable-local.access.{datetime.now(UTC).date()}" in names or len(names) >= 3
    described = tables.describe_table(TableName=next(name for name in names if ".access." in name))["Table"]
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
    before = [name for name in tables.list_tables()["TableNames"] if ".access." in name]
    later = (datetime.now(UTC) + timedelta(days=6)).isoformat()
    for _ in range(3):
        report = invoke_lifecycle(own, at=later)
        assert report["healthy"], report
    after = tables.list_tables()["TableNames"]
    gone = [name for name in before if name not in after]
    assert gone, after
    archived = own.client("s3").list_objects_v2(Bucket=own.outputs["ArchiveBucket"])["Contents"]
    assert any(one["Key"].endswith("_manifest.json") for one in archived)
