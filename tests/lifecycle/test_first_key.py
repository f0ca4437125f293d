"""The first key in a deployment: the custom resource that admits it, and the right to read it, which comes late."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

import wiring
from aws.gateway_credentials import GatewayCredentials
from tests.api.gateway import Context
from tests.fakes.gateway import FakeGateway, refused
from tests.fakes.stage import Stage
from tests.worlds.hours import CONFIG

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
FIRST = "Zq3vTn8mLx2KbW7cRj5yHd9sFg1aPe4uNw6iOkVt"
KIND = "Custom::TidetableFirstKey"


class Late(FakeGateway):
    """A gateway that denies the first calls, as the right to make them is not in force everywhere."""

    def __init__(self, denials: int) -> None:
        super().__init__()
        self.denials = denials
        self.keys["gk0"] = {"id": "gk0", "name": "first", "value": FIRST}

    def get_api_key(self, *, apiKey: str, includeValue: bool = False) -> dict[str, Any]:  # noqa: N803 - boto3's names
        if self.denials:
            self.denials -= 1
            raise refused("AccessDeniedException", "not authorized to perform apigateway:GET")
        return super().get_api_key(apiKey=apiKey, includeValue=includeValue)


def test_a_right_that_holds_a_moment_later_is_waited_for() -> None:
    pauses: list[float] = []
    gateway = Late(3)
    assert GatewayCredentials(lambda: gateway, pauses.append).read_value("gk0") == FIRST
    assert pauses == [6, 6, 6]


def test_a_right_that_never_comes_ends_the_deployment_within_two_minutes() -> None:
    pauses: list[float] = []
    gateway = Late(99)
    with pytest.raises(ClientError, match="apigateway:GET"):
        GatewayCredentials(lambda: gateway, pauses.append).read_value("gk0")
    assert sum(pauses) < 120


def test_another_failure_is_not_waited_for() -> None:
    pauses: list[float] = []
    with pytest.raises(ClientError, match="Invalid API Key"):
        GatewayCredentials(lambda: Late(0), pauses.append).read_value("none")
    assert pauses == []


def test_the_resource_admits_the_key_and_dismisses_it_with_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    # Powertools reads the namespace when the handlers are imported.
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    from handlers import deployment

    stage = Stage(NOON, CONFIG)
    pipeline = stage.pipeline
    pipeline.gateway_keys = GatewayCredentials(lambda: Late(0), stage.clock.sleep)
    context: Any = Context()

    def request(kind: str, **more: Any) -> dict[str, Any]:
        event = {"ResourceType": KIND, "RequestType": kind, "ResourceProperties": {"gateway_key": "gk0"}, **more}
        with wiring.serve_pipeline(pipeline):
            answer: dict[str, Any] = deployment.handler(event, context)
        return answer

    for kind in ("Create", "Update", "Create"):
        answer = request(kind)
        # Another gateway key is another resource: CloudFormation then deletes the former one.
        assert answer == {"PhysicalResourceId": "gk0", "Data": {"KeyId": "gw6763c11c34"}}
        assert [record.id for record in stage.keys.all()] == ["gw6763c11c34"]
    request("Delete", PhysicalResourceId="another")
    assert len(stage.keys.all()) == 1
    for _ in range(2):
        request("Delete", PhysicalResourceId="gk0")
        assert stage.keys.all() == []
