"""The function behind the stack's custom resource."""

from collections.abc import Iterator
from typing import Any

import pytest

from settings import settings
from strict import Fault, Kind, Timings
from tests.api.gateway import Context
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.deploys import CONFIG, MORE, NOON
from tidetable.config import parse
from tidetable.errors import RemovalFailed

ID = "tidetable-lapse-tables"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage whose deployment function is called in this process."""
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", CATALOG)
    settings.cache_clear()
    stage = Stage(NOON, CONFIG)
    # Each invocation uses the stage's configuration of that time.
    monkeypatch.setattr("wiring_upkeep.pipeline", lambda: stage.pipeline)
    yield stage
    settings.cache_clear()


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
    stage.catalog.mark_standing()
    stage.config = parse(CONFIG.replace("retention = 5", 'retention = 5\nremoval = "delete"'))
    fault = Fault(Kind.ACCESS_DENIED, operation="DeleteTable", table="tidetable-lapse.s.2026-03-16")
    stage.dynamo.faults.add(fault)
    with pytest.raises(RemovalFailed, match="2026-03-16"):
        invoke("Delete")
    stage.dynamo.faults.clear()
    assert invoke("Delete") == {"PhysicalResourceId": ID}
    stage.dynamo.account.settle()
    assert set(stage.dynamo.account.tables) == {CATALOG}


def test_a_first_deployment_is_held_to_its_tables_though_the_same_configuration_stood_before(stage: Stage) -> None:
    """A stack that takes its catalog back is not a rollback, so a missing table fails it."""
    invoke("Create", "a")
    stage.catalog.mark_standing()
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
