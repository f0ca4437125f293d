"""A restored table has its stream's settings, and is refused if it differs from the archive."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aws.archive.scan import RawScan
from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, EVENTS, IDS, NOON, built, ids
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry, items
from tidetable.archive.ports import RawPage
from tidetable.catalog import Opening, State
from tidetable.config import parse
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableRefused
from tidetable.times import from_text

KEY = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"


SETTINGS = f"""
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 3
cold = ["raw"]
key = {{ partition_by = "series" }}
index = [{{ name = "by_kind", partition_by = "kind" }}]
[streams.s.table]
deletion_protection = true
point_in_time_recovery = true
encryption = "{KEY}"
stream = "new-image"
tags = {{ team = "seismology" }}
"""


ON_DEMAND = """
[streams.s.capacity]
mode = "on-demand"
max = { write = 500, read = 700 }
ladder = [{ age = 0 }, { age = 1, class = "infrequent-access" }]
"""


PROVISIONED = """
[streams.s.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10 },
    { age = 1, write = 2, read = 3, class = "infrequent-access", index = { by_kind = { write = 4, read = 1 } } },
]
"""


def record_requests(stage: Stage, patch: pytest.MonkeyPatch) -> list[Any]:
    """Record the requests for tables from now on."""
    requests: list[Any] = []
    call = stage.dynamo.account.engine.call

    def noting(operation: str, payload: Any) -> Any:
        if operation == "CreateTable":
            requests.append(payload)
        return call(operation, payload)

    patch.setattr(stage.dynamo.account.engine, "call", noting)
    return requests


@pytest.mark.parametrize(
    ("capacity", "maximum"),
    [(ON_DEMAND, {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 700}), (PROVISIONED, None)],
    ids=["on-demand", "provisioned"],
)
def test_a_restored_table_has_every_setting_of_its_stream(
    capacity: str, maximum: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(NOON, SETTINGS + capacity)
    stage.run_lifecycle()
    stage.send("s", json.dumps([EVENTS[0] | {"data": {"kind": "a", "raw": "r"}}]).encode())
    stage.clock.sleep(7 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert TABLE not in stage.dynamo.account.tables
    requests = record_requests(stage, monkeypatch)
    assert stage.restore("s", LABEL).state == "closed"
    assert [request["TableName"] for request in requests] == [TABLE, f"{TABLE}.parts"]
    for request in requests:
        assert request["SSESpecification"] == {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
        assert request["DeletionProtectionEnabled"] is True
        assert request["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        assert request["BillingMode"] == "PAY_PER_REQUEST", "it is filled as fast as it goes"
        assert sorted((tag["Key"], tag["Value"]) for tag in request["Tags"]) == [
            ("project", "tidetable"),
            ("team", "seismology"),
            ("tidetable:period", LABEL),
            ("tidetable:stage", "lapse"),
            ("tidetable:stream", "s"),
        ]
        assert stage.dynamo.account.tables[request["TableName"]].recoverable
    assert requests[0]["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    assert requests[0].get("OnDemandThroughput") == maximum
    for _ in range(4):
        assert stage.run_lifecycle().healthy
        stage.clock.sleep(300)
    table = stage.dynamo.account.tables[TABLE]
    index = table.indexes["by_kind"]
    if maximum is None:
        assert (table.write, table.read, index.write, index.read) == (2, 3, 4, 1), "the ladder's, the index's own too"
    else:
        assert table.on_demand
    assert [item["sk"]["S"].rpartition("#")[2] for item in items(stage)] == [EVENTS[0]["id"]]
    stage.clock.sleep(9 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert entry(stage).state is State.DELETED, "protection does not outlive its retention"


def test_recovery_that_comes_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS refuses it for some seconds after a table has become active."""
    stage = delete_first_tables()
    stage.config = parse(
        CONFIG.replace("[streams.s.key]", "table = { point_in_time_recovery = true }\n[streams.s.key]")
    )
    enable, refused = stage.tables.enable_recovery, list[str]()

    def later(name: str) -> None:
        if len(refused) < 3:
            refused.append(name)
            raise TableRefused("Backups are being enabled", transient=True)
        enable(name)

    monkeypatch.setattr(stage.tables, "enable_recovery", later)
    assert stage.restore("s", LABEL).state == "closed"
    assert stage.dynamo.account.tables[TABLE].recoverable
    assert ids(stage) == IDS


def test_a_table_of_as_many_events_with_one_changed_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the digest shows the difference."""
    stage = delete_first_tables()
    page = RawScan.page
    original, changed = b'"n":{"N":"7"}', b'"n":{"N":"8"}'

    def other(*arguments: Any, **options: Any) -> RawPage:
        answer = page(*arguments, **options)
        assert original in answer.items
        return replace(answer, items=answer.items.replace(original, changed))

    monkeypatch.setattr(RawScan, "page", other)
    with pytest.raises(ArchiveMismatch, match="its manifest"):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING
    monkeypatch.undo()
    # What was compared stays compared. A new order begins anew.
    with pytest.raises(ArchiveMismatch, match="its manifest"):
        stage.restore("s", LABEL)
    stage.cancel_restores("s")
    assert entry(stage).state is State.ARCHIVED
    assert stage.restore("s", LABEL).state == "closed"


def test_a_strangers_table_of_our_name_is_not_restored_into() -> None:
    stage = delete_first_tables()
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    stage.dynamo.call(
        "CreateTable",
        {
            "TableName": TABLE,
            "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            "BillingMode": "PAY_PER_REQUEST",
            "Tags": [{"Key": "project", "Value": "tidetable"}],
        },
    )
    stage.clock.sleep(60)
    with pytest.raises(ArchiveFailed, match="not tagged as ours"):
        stage.restore("s", LABEL)
    assert items(stage) == []
    assert ids(stage) == IDS, "it is still read from its archive"


def test_a_restore_whose_table_is_not_ready_in_time_is_to_be_called_again() -> None:
    stage = delete_first_tables()
    stage.dynamo.account.timings = replace(stage.dynamo.account.timings, create=10_000, create_indexed=10_000)
    with pytest.raises(ArchiveBusy, match=r"; a later run goes on$"):
        stage.restore("s", LABEL)
    assert ids(stage) == IDS, "it is still read from its archive"
    stage.clock.sleep(10_000)
    assert stage.restore("s", LABEL).state == "closed"
    assert items(stage) != []


def test_a_period_whose_backfill_has_just_ended_is_not_archived_on_request() -> None:
    stage = built()
    stage.clock.time = from_text("2026-03-18T12:00:00Z")
    stage.run_lifecycle()
    until = from_text("2026-03-18T12:30:00Z")
    stage.catalog.move(entry(stage), State.CLOSED, expected=(State.CLOSED,), opened=Opening(until, None, None))
    for now, refused in (
        ("2026-03-18T12:29:00Z", True),
        ("2026-03-18T12:44:59Z", True),
        ("2026-03-18T12:45:01Z", False),
    ):
        stage.clock.time = from_text(now)
        if refused:
            with pytest.raises(ArchiveBusy, match=r"after 2026-03-18T12:45:00"):
                stage.archive("s", LABEL, within=240)
        else:
            stage.archive("s", LABEL, within=240)
    assert entry(stage).state is State.ARCHIVED
