"""The function behind the stack's custom resource."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from settings import read_settings
from strict import Fault, Kind, Timings
from tests.api.gateway import Context
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.deploys import CONFIG, MORE, NOON
from tidetable.config import parse
from tidetable.errors import RemovalFailed
from tidetable.lifecycle.deploy import Deployed

ID = "tidetable-lapse-tables"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage whose deployment function is called in this process."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", CATALOG)
    read_settings.cache_clear()
    stage = Stage(NOON, CONFIG)
    # Each invocation uses the stage's configuration of that time.
    monkeypatch.setattr("wiring_upkeep.pipeline", lambda: stage.pipeline)
    yield stage
    read_settings.cache_clear()


class Unhurried(Context):
    """The context of the deployment function at its start."""

    def get_remaining_time_in_millis(self) -> int:
        return 840_000


def invoke(request: str, configuration: str = "a") -> Any:
    from handlers.deployment import handler

    event = {"RequestType": request, "ResourceProperties": {"configuration": configuration}}
    return handler(event, Unhurried())  # type: ignore[arg-type]


def refuse(stage: Stage, *labels: str, stream: str = "s") -> None:
    for label in labels:
        table = f"tidetable-lapse.{stream}.{label}"
        stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="CreateTable", table=table))


def test_the_tables_are_there_when_it_answers(stage: Stage) -> None:
    answer = invoke("Create")
    assert answer == {"PhysicalResourceId": ID, "Data": {"TablesLeftToSchedule": "0", "Tables": ""}}
    assert len(stage.dynamo.account.tables) == 5


def test_tables_that_are_left_to_the_schedule_are_in_the_answer(stage: Stage) -> None:
    refuse(stage, "2026-03-17")
    answer = invoke("Create")
    assert answer["Data"] == {"TablesLeftToSchedule": "1", "Tables": "tidetable-lapse.s.2026-03-17"}


def test_of_many_tables_that_are_left_the_answer_names_the_first_ten(stage: Stage) -> None:
    """CloudFormation takes 4,096 bytes of an answer; a longer one would fail the deploy."""
    more = MORE.replace("retention = 5", "retention = 5\npremake = 2")
    stage.config = parse(CONFIG.replace("retention = 5", "retention = 5\npremake = 10") + more)
    labels = [f"2026-03-{day}" for day in range(16, 26)]
    refuse(stage, *labels)
    refuse(stage, *labels, stream="new")
    data = invoke("Create")["Data"]
    assert data["TablesLeftToSchedule"] == "12"
    first = ["new.2026-03-16", "new.2026-03-17", *(f"s.{label}" for label in labels[:8])]
    assert data["Tables"] == ", ".join(f"tidetable-lapse.{name}" for name in first)


def test_a_table_that_events_need_now_fails_it(stage: Stage) -> None:
    refuse(stage, "2026-03-15")
    with pytest.raises(
        Exception, match=r"1 tables that events need now could not be made; tidetable-lapse.s.2026-03-15"
    ):
        invoke("Create")


def test_a_first_deployment_says_why_it_failed_though_its_tables_cannot_be_deleted_either(stage: Stage) -> None:
    refuse(stage, "2026-03-15")
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="DeleteTable", table="tidetable-lapse.s.2026-03-16"))
    with pytest.raises(Exception, match=r"2026-03-15.*dynamodb:CreateTable.*not all be deleted.*dynamodb:DeleteTable"):
        invoke("Create")


# DynamoDB's words if the policy of a key does not let it make a grant.
NO_GRANT = (
    "AccessDeniedException: KMS key access denied error: User: arn:aws:sts::123456789012:assumed-role/"
    "Tidetable-production-LifecycleDeploymentRole5D9A3B7C-k3JxQw8ZrT2m/"
    'Tidetable-production-LifecycleDeployment8C1F2E6A-hV9sLq4YtB7n is not authorized to perform: "kms:CreateGrant"'
    " on resource: arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab because no resource-based policy"
    " allows the kms:CreateGrant action (Service: AWSKMS; Status Code: 400; Error Code: AccessDeniedException; Request ID:"
    " 11111111-2222-3333-4444-555555555555; Proxy: null)"
)


@pytest.mark.parametrize("why", [NO_GRANT, NO_GRANT.replace(" ", '"'), NO_GRANT.replace(" ", "\u20ac")])
def test_a_reason_that_cloudformation_cannot_take_is_shown_as_far_as_it_can(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """An answer of more than 4,096 bytes fails with "Response object is too long", which says nothing."""
    failure = "; ".join(f"tidetable-lapse.earthquakes.2026-03-{day}: {why}" for day in range(15, 20))
    monkeypatch.setattr("handlers.deployment.deploy", lambda *_, **__: Deployed(failure=failure))
    with pytest.raises(Exception, match=r"tidetable-lapse") as failed:
        invoke("Update")
    shown, _, rest = str(failed.value).partition(" ... ")
    assert failure.startswith(shown)
    assert shown.startswith(f"tidetable-lapse.earthquakes.2026-03-15: {why}; tidetable-lapse.earthquakes.2026-03-16: ")
    assert rest == "The log of the deployment's function has the whole reason"
    # The CDK's provider framework adds the ids of the answer, and the lines of its own stack.
    assert 1_500 < len(json.dumps(str(failed.value), ensure_ascii=False).encode()) < 2_900


def test_a_rollback_to_a_configuration_that_stood_does_not_fail(stage: Stage) -> None:
    invoke("Create", "a")
    stage.clock.sleep(4 * 86_400)
    refuse(stage, "2026-03-19")
    stage.config = parse(CONFIG.replace("retention = 5", "retention = 6"))
    with pytest.raises(Exception, match="2026-03-19"):
        invoke("Update", "b")
    stage.config = parse(CONFIG)
    assert invoke("Update", "a")["Data"]["Tables"] == "tidetable-lapse.s.2026-03-19"


def test_a_deletion_removes_what_the_streams_say_and_fails_for_what_is_left(stage: Stage) -> None:
    invoke("Create")
    stage.catalog.mark_deployed()
    stage.config = parse(CONFIG.replace("retention = 5", 'retention = 5\nremoval = "delete"'))
    fault = Fault(Kind.ACCESS_DENIED, operation="DeleteTable", table="tidetable-lapse.s.2026-03-16")
    stage.dynamo.faults.add(fault)
    with pytest.raises(RemovalFailed, match="2026-03-16"):
        invoke("Delete")
    stage.dynamo.faults.clear()
    assert invoke("Delete") == {"PhysicalResourceId": ID}
    stage.dynamo.account.settle()
    assert set(stage.dynamo.account.tables) == {CATALOG}


@pytest.mark.parametrize("kind", ["TidetableTables", "TidetableStanding", "TidetableFirstKey"])
def test_a_stack_whose_catalog_somebody_deleted_can_be_deleted(stage: Stage, kind: str) -> None:
    from handlers.deployment import handler

    invoke("Create")
    stage.tables.delete(CATALOG)
    stage.clock.sleep(60)
    stage.dynamo.account.settle()
    began = stage.clock.now()

    class Running(Context):
        def get_remaining_time_in_millis(self) -> int:
            return int((840 - (stage.clock.now() - began).total_seconds()) * 1000)

    event = {"RequestType": "Delete", "ResourceType": f"Custom::{kind}", "PhysicalResourceId": "former"}
    answer = handler(event | {"ResourceProperties": {"protected": "false"}}, Running())  # type: ignore[arg-type]
    assert answer == {"PhysicalResourceId": "former"}
    assert stage.clock.now() == began
    assert len(stage.dynamo.account.tables) == 4, "nobody knows whose they are"


@pytest.mark.parametrize("request_type", ["Create", "Update", "Delete"])
def test_a_resource_of_a_later_version_is_refused_and_no_table_is_deleted_for_it(
    stage: Stage, request_type: str
) -> None:
    """The rollback of a later version's deployment deletes its resources, with the code of this version."""
    from tests.lifecycle.calls import call

    invoke("Create")
    there = set(stage.dynamo.account.tables)
    with pytest.raises(Exception, match="this version does not know resources of the type Custom::TidetableLater"):
        call(request_type, "Custom::TidetableLater")
    assert set(stage.dynamo.account.tables) == there


def test_a_first_deployment_is_held_to_its_tables_though_the_same_configuration_stood_before(stage: Stage) -> None:
    """A stack that takes its catalog back is not a rollback, so a missing table fails it."""
    invoke("Create", "a")
    stage.catalog.mark_deployed()
    stage.clock.sleep(4 * 86_400)
    refuse(stage, "2026-03-19")
    with pytest.raises(Exception, match="2026-03-19"):
        invoke("Create", "a")


def test_a_first_deployment_that_does_not_get_ready_leaves_time_to_take_back_what_it_made(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from handlers import deployment

    stage.dynamo.account.timings = Timings(create=3600)
    began, given_up = stage.clock.now(), [0.0]

    def elapsed() -> float:
        return (stage.clock.now() - began).total_seconds()

    class Running(Context):
        def get_remaining_time_in_millis(self) -> int:
            return int((840 - elapsed()) * 1000)

    monkeypatch.setattr(deployment, "_take_back", lambda *_: given_up.append(elapsed()))
    event = {"RequestType": "Create", "ResourceProperties": {"configuration": "a"}}
    with pytest.raises(deployment.DeployFailed):
        deployment.handler(event, Running())  # type: ignore[arg-type]
    # Of 14 minutes, four are reserved for deleting tables again, and 15 s for the answer.
    assert 500 < given_up[-1] <= 840 - 240 - 15
