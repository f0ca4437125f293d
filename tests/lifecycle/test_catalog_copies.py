"""The catalog's own copies in other Regions."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from aws.dynamodb.catalog import LeanCatalog
from settings import read_settings
from strict import Fault, Kind
from strict.client import StrictClient
from tests.fakes.stage import CATALOG, ROLLUPS, Stage
from tests.fakes.transport import StrictTransport
from tests.worlds.copied import IRELAND, NOON, TOKYO, copies, describe, made, run, text
from tidetable.config import parse
from tidetable.copies.catalog_copies import remove_catalog_copies
from tidetable.errors import NotReady
from tidetable.lifecycle import RunReport

BARE: dict[str, Any] = {
    "TableName": CATALOG,
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def steps(report: RunReport) -> list[tuple[str, str, str]]:
    return [(step.action, step.region, step.outcome) for step in report.catalog_copies]


def test_the_catalog_has_a_copy_that_says_what_it_says() -> None:
    stage = made(IRELAND)
    assert steps(run(stage)) == [("stream", IRELAND, "done")]
    assert describe(stage.dynamo, CATALOG)["StreamSpecification"] == {
        "StreamEnabled": True,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    assert steps(run(stage)) == [("copy", IRELAND, "done")]
    # The catalog has items, so that this takes eleven minutes.
    assert [steps(run(stage)) for _ in range(3)] == [[], [], []]
    assert copies(stage, CATALOG) == {IRELAND: "ACTIVE"}
    stage.clock.sleep(5)
    client: Any = StrictTransport(stage.others[IRELAND])
    elsewhere = LeanCatalog(client, CATALOG)
    here = list(stage.catalog.entries("s", consistent=True))
    assert list(elsewhere.entries("s", consistent=True)) == here
    assert [entry.copies.active for entry in here] == [(IRELAND,)] * 3
    assert elsewhere.secret() == stage.catalog.secret()


def test_the_catalog_has_the_copies_of_all_streams_and_keeps_them() -> None:
    stage = made(IRELAND, TOKYO)
    other = text(TOKYO).replace("[streams.s", "[streams.other").partition("[streams.other]")[2]
    stage.config = parse(text(IRELAND) + "[streams.other]" + other)
    begun = [step for _ in range(12) for step in steps(run(stage))]
    assert sorted(begun) == [("copy", TOKYO, "done"), ("copy", IRELAND, "done"), ("stream", begun[0][1], "done")]
    assert copies(stage, CATALOG) == {IRELAND: "ACTIVE", TOKYO: "ACTIVE"}
    stage.config = parse(text())
    assert [steps(run(stage)) for _ in range(3)] == [[], [], []]
    assert copies(stage, CATALOG) == {IRELAND: "ACTIVE", TOKYO: "ACTIVE"}, "a reader may still use them"


def test_a_stage_that_does_not_stand_has_no_copies_of_its_catalog() -> None:
    stage = Stage(NOON, text(IRELAND), regions=[IRELAND])
    assert [steps(run(stage)) for _ in range(2)] == [[], []]
    assert describe(stage.dynamo, CATALOG).get("StreamSpecification") is None


def test_a_dry_run_says_what_it_would_do() -> None:
    stage = made(IRELAND)
    calls = stage.dynamo.calls.get("UpdateTable", 0)
    report = stage.run_lifecycle(dry_run=True)
    assert report.document()["catalog_copies"] == [
        {"action": "stream", "region": "eu-west-1", "outcome": "planned", "detail": ""}
    ]
    assert stage.dynamo.calls.get("UpdateTable", 0) == calls


def test_another_catalog_of_the_name_is_reported_and_another_region_goes_on() -> None:
    """Such as that of a stage of the same name. This Region is the first by its name."""
    stage = made(IRELAND, TOKYO)
    client: Any = StrictClient(stage.others[TOKYO])
    client.create_table(**BARE)
    reports = [run(stage) for _ in range(12)]
    failed = [step for report in reports for step in report.catalog_copies if step.outcome == "failed"]
    assert {step.region for step in failed} == {TOKYO}
    assert f"ap-northeast-1 has a table {CATALOG} already" in failed[0].detail
    assert not any(report.healthy for report in reports if any(s.outcome == "failed" for s in report.catalog_copies))
    assert copies(stage, CATALOG) == {IRELAND: "ACTIVE"}


def test_a_copy_that_was_begun_a_moment_ago_is_not_begun_again() -> None:
    stage = made(IRELAND)
    run(stage)
    account = stage.dynamo.account
    object.__setattr__(account.timings, "copy", 1.0)
    object.__setattr__(account.timings, "copy_listed", 60.0)
    run(stage, minutes=0)
    stage.clock.sleep(50)
    assert (copies(stage, CATALOG), describe(stage.dynamo, CATALOG)["TableStatus"]) == ({}, "ACTIVE")
    assert steps(run(stage)) == [("copy", IRELAND, "deferred")]


@pytest.mark.parametrize("status", ["REGION_DISABLED", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "CREATION_FAILED"])
def test_a_copy_of_no_use_is_reported(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = made(IRELAND)
    run(stage, 6)
    ask = stage.client._target.describe_table

    def answer(**members: Any) -> Any:
        described = ask(**members)
        for replica in described["Table"].get("Replicas", ()) if members["TableName"] == CATALOG else ():
            replica["ReplicaStatus"] = status
        return described

    stage.client._target.describe_table = answer
    report = run(stage)
    assert not report.healthy
    assert report.catalog_copies[0].detail == f"it is {status}; see the runbook, *Copies in other Regions*"


def test_a_catalog_that_cannot_be_described_keeps_no_table_waiting() -> None:
    stage = made(IRELAND)
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="DescribeTable", table=CATALOG))
    report = run(stage)
    assert [result.outcome for result in report.done] == ["done"] * 3
    assert (report.healthy, report.troubles) == (False, [])
    assert "the copies of the catalog could not be checked" in report.catalog_copies[0].detail


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A stage whose deployment function is called in this process; ``stage`` is set by the test."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", CATALOG)
    read_settings.cache_clear()
    held = SimpleNamespace(stage=None)
    monkeypatch.setattr("wiring_upkeep.pipeline", lambda: held.stage.pipeline)
    yield held
    read_settings.cache_clear()


@pytest.mark.parametrize("kept", [True, False])
def test_the_removal_of_a_stage_takes_the_copies_of_a_catalog_that_goes(
    deployed: SimpleNamespace, *, kept: bool
) -> None:
    from handlers.deployment import handler

    removal = "" if kept else '[storage]\nremoval = "delete"\n'
    stage = made(IRELAND, TOKYO, more='removal = "delete"', lifecycle=removal + text().partition("[streams.s]")[0])
    deployed.stage = stage
    run(stage, 12)
    context: Any = SimpleNamespace(
        function_name="f",
        memory_limit_in_mb=512,
        invoked_function_arn="arn",
        aws_request_id="owner",
        get_remaining_time_in_millis=lambda: 840_000,
    )
    handler({"RequestType": "Delete", "ResourceProperties": {}}, context)
    assert copies(stage, CATALOG) == ({IRELAND: "ACTIVE", TOKYO: "ACTIVE"} if kept else {})
    stage.clock.sleep(60)
    for service in stage.others.values():
        service.account.settle()
    tables = [sorted(service.account.tables) for service in (stage.dynamo, *stage.others.values())]
    assert tables == ([[CATALOG]] * 3 if kept else [[CATALOG], [], []])


def test_a_removal_whose_time_is_up_says_what_is_left_and_goes_on_where_it_ended() -> None:
    stage = made(IRELAND)
    run(stage, 6)
    for seconds in (30, 60):
        end = stage.clock.now() + timedelta(seconds=seconds)
        world = stage.begin_run("owner", lambda end=end: (end - stage.clock.now()).total_seconds())  # type: ignore[misc]
        with pytest.raises(NotReady, match="still has copies in eu-west-1"):
            remove_catalog_copies(world)
    end = stage.clock.now() + timedelta(seconds=600)
    world = stage.begin_run("owner", lambda: (end - stage.clock.now()).total_seconds())
    assert remove_catalog_copies(world) == []
    assert copies(stage, CATALOG) == {}
    assert ROLLUPS not in stage.dynamo.account.tables
