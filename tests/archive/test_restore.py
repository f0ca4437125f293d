"""A restored period is a table again, with everything in it, until its own date."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aws.archive.scan import RawScan
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.killed import CONFIG, EVENTS, IDS, NOON, built, ids, killed_after_every_call
from tidetable.archive.ports import RawPage
from tidetable.catalog import Entry, Opened, State
from tidetable.config import parse
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch
from tidetable.events import Event
from tidetable.ports import TableRefused
from tidetable.times import from_text

LABEL = "2026-03-15"
COUNT = sum(str(event["time"]) >= LABEL for event in EVENTS)
TABLE = f"tidetable-lapse.s.{LABEL}"


def gone() -> Stage:
    """A stage whose first tables were archived, in several parts, and deleted long ago."""
    stage = built()
    stage.part_bytes = 800
    for _ in range(12):
        stage.clock.sleep(86_400)
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    assert TABLE not in stage.dynamo.account.tables
    assert ids(stage) == IDS
    return stage


def entry(stage: Stage) -> Entry:
    return next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == LABEL)


def items(stage: Stage) -> list[Any]:
    found: list[Any] = stage.dynamo.account.engine.call("Scan", {"TableName": TABLE, "ConsistentRead": True})["Items"]
    return found


def test_a_restored_period_is_read_from_its_table_and_tended_again() -> None:
    stage = gone()
    before = entry(stage)
    done = stage.restore("s", LABEL)
    assert (done.next, done.entry.state) == (None, State.CLOSED)
    assert entry(stage).layout == before.layout
    assert len(items(stage)) == COUNT
    # The archive may go: what answers is the table.
    stage.bucket.objects = {key: body for key, body in stage.bucket.objects.items() if LABEL not in key}
    assert ids(stage) == IDS
    for _ in range(3):
        assert stage.run_lifecycle().healthy
        stage.clock.sleep(300)
    table = stage.dynamo.account.tables[TABLE]
    assert (table.on_demand, table.write, table.infrequent) == (False, 1, True), "its age's step of the ladder"


def test_it_expires_again_on_its_own_date_with_what_came_meanwhile() -> None:
    stage = gone()
    stage.restore("s", LABEL, keep_days=3)
    # A message that had died because its period was archived is sent back.
    stage.queue.send("s", [Event("late", from_text("2026-03-15T10:00:00Z"), "came late", {})], 0)
    stage.drain()
    assert stage.queue.messages == []
    for _ in range(2 * 24):
        done = [one.action.name for one in stage.run_lifecycle().done if one.action.entry.period.label == LABEL]
        assert set(done) <= {"capacity", "class"}
        stage.clock.sleep(3600)
    stage.clock.sleep(30 * 3600)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert entry(stage).state is State.DELETED
    assert TABLE not in stage.dynamo.account.tables
    assert ids(stage) == sorted([*IDS, "came late"])


def test_a_restore_stopped_after_any_call_is_finished_by_the_next() -> None:
    for calls, stage in killed_after_every_call(gone, lambda stage: stage.restore("s", LABEL)):
        assert ids(stage) == IDS, f"killed after {calls} calls: something cannot be found meanwhile"
        if entry(stage).state is not State.CLOSED:
            stage.clock.sleep(900)
            stage.restore("s", LABEL)
        assert ids(stage) == IDS, f"killed after {calls} calls"
        assert len(items(stage)) == COUNT


def test_a_restore_goes_on_where_its_time_was_up() -> None:
    stage = gone()
    first = stage.restore("s", LABEL, within=62)
    assert first.next is not None
    assert first.entry.state is State.RESTORING
    assert ids(stage) == IDS, "it is read from the archive meanwhile"
    done = stage.restore("s", LABEL, start=first.next)
    assert done.next is None
    assert ids(stage) == IDS


def test_a_restore_that_is_never_finished_leaves_a_table_that_every_run_counts() -> None:
    stage = gone()
    assert stage.restore("s", LABEL, within=62).next is not None
    assert TABLE in stage.dynamo.account.tables
    for _ in range(3):
        stage.clock.sleep(300)
        report = stage.run_lifecycle()
        there = set(stage.dynamo.account.tables) - {CATALOG}
        assert (report.tables, report.outlook.overdue) == (len(there), ())
    assert entry(stage).state is State.RESTORING


def test_a_damaged_archive_is_not_restored() -> None:
    stage = gone()
    part = next(key for key in stage.bucket.objects if LABEL in key and "part" in key)
    stage.bucket.objects[part] = stage.bucket.objects[part].replace(b"e3", b"x3") + b" "
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING


def test_a_table_that_is_not_what_the_manifest_says_is_not_opened() -> None:
    stage = gone()
    stage.restore("s", LABEL, within=62)
    stranger = {"pk": {"S": "2026-03-15T00:00:00.000000Z#0"}, "sk": {"S": "2026-03-15T01:00:00.000000Z#a#x"}}
    stage.dynamo.account.engine.call("PutItem", {"TableName": TABLE, "Item": {**stranger, "data": {"M": {}}}})
    with pytest.raises(ArchiveMismatch, match="its manifest"):
        stage.restore("s", LABEL)
    assert ids(stage) == IDS


def test_what_has_a_table_or_no_archive_says_so() -> None:
    stage = gone()
    today = (stage.clock.now()).date().isoformat()
    with pytest.raises(ArchiveFailed, match="it has its table"):
        stage.restore("s", today)
    with pytest.raises(ArchiveFailed, match="the catalog has no period 2020-01-01"):
        stage.restore("s", "2020-01-01")


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


def made(stage: Stage, patch: pytest.MonkeyPatch) -> list[Any]:
    """The requests for tables from now on."""
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
    requests = made(stage, monkeypatch)
    assert stage.restore("s", LABEL).next is None
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
    stage = gone()
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
    assert stage.restore("s", LABEL).next is None
    assert stage.dynamo.account.tables[TABLE].recoverable
    assert ids(stage) == IDS


def test_a_table_of_as_many_events_with_one_changed_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the digest tells them apart."""
    stage = gone()
    page = RawScan.page
    original, changed = b'"n": {"N": "7"}', b'"n": {"N": "8"}'

    def other(*arguments: Any, **options: Any) -> RawPage:
        found = page(*arguments, **options)
        assert original in found.items
        return replace(found, items=found.items.replace(original, changed))

    monkeypatch.setattr(RawScan, "page", other)
    with pytest.raises(ArchiveMismatch, match="its manifest"):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING
    monkeypatch.undo()
    assert stage.restore("s", LABEL).next is None


def test_a_strangers_table_of_our_name_is_not_restored_into() -> None:
    stage = gone()
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


def test_a_period_whose_backfill_has_just_ended_is_not_archived_on_request() -> None:
    stage = built()
    stage.clock.time = from_text("2026-03-18T12:00:00Z")
    stage.run_lifecycle()
    until = from_text("2026-03-18T12:30:00Z")
    stage.catalog.move(entry(stage), State.CLOSED, expected=(State.CLOSED,), opened=Opened(until, None, None))
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
