"""Keys while API Gateway has too many requests: it takes one UpdateUsagePlan per 20 seconds and account."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli import common, credential_changes
from cli.options import Target
from tests.fakes.gateway import FakeGateway
from tests.fakes.stage import Stage
from tests.worlds.commands import run

SENSORS = ("keys", "create", "--name", "sensors", "--stream", "s", "--json")


@pytest.fixture
def gateway(stage: Stage) -> FakeGateway:
    gateway: FakeGateway = common.find_account(Target()).gateway
    return gateway


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of a command, which take no time here."""
    found: list[float] = []
    monkeypatch.setattr(credential_changes, "sleep", found.append)
    return found


def create(*options: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run(*SENSORS, *options).stdout)
    return made


@pytest.mark.parametrize(
    "operation", ["create_api_key", "create_usage_plan_key", "create_usage_plan", "get_usage_plans"]
)
def test_a_key_is_made_after_a_pause(gateway: FakeGateway, waits: list[float], operation: str) -> None:
    gateway.busy = {operation: 3}
    made = create("--rate", "5")
    assert waits == [1.0, 2.0, 4.0]
    assert [key["name"] for key in gateway.keys.values()] == [f"tidetable-lapse-sensors-{made['id']}"]
    assert len(gateway.plans) == 2


@pytest.mark.parametrize(
    "operation",
    ["delete_api_key", "get_usage_plan_keys", "get_usage_plan", "update_usage_plan", "delete_usage_plan"],
)
def test_a_key_and_its_plan_are_removed_after_pauses(gateway: FakeGateway, waits: list[float], operation: str) -> None:
    made = create("--rate", "5")
    gateway.busy = {operation: 5}
    result = run("keys", "revoke", made["id"])
    assert "tries again" not in result.output
    # API Gateway takes the next UpdateUsagePlan after 20 seconds.
    assert sum(waits) == 25.0
    assert (gateway.keys, list(gateway.plans)) == ({}, ["plan0"])


def test_after_a_minute_the_command_says_what_is_left(gateway: FakeGateway, waits: list[float]) -> None:
    made = create("--rate", "5")
    gateway.busy = {"update_usage_plan": 99}
    result = run("keys", "revoke", made["id"])
    assert result.exit_code == 0
    assert sum(waits) == 55.0
    assert "a usage plan could not be removed" in result.output
    assert f"`tidetable keys revoke {made['id']}` tries again" in result.output
    gateway.busy = {}
    run("keys", "revoke", made["id"])
    assert list(gateway.plans) == ["plan0"]


def test_a_refusal_for_another_reason_is_not_waited_for(gateway: FakeGateway, waits: list[float]) -> None:
    gateway.fails = "create_usage_plan"
    assert run(*SENSORS, "--rate", "5").exit_code == 1
    assert waits == []


def test_many_keys_are_attached_with_one_list_of_the_plans_and_after_pauses(
    gateway: FakeGateway, waits: list[float]
) -> None:
    made = [create("--rate", str(rate)) for rate in (5, 5, 6, 7)]
    for plan in [name for name in gateway.plans if name != "plan0"]:
        del gateway.plans[plan], gateway.members[plan]
    gateway.calls.clear()
    gateway.busy = {"get_api_key": 1, "create_usage_plan_key": 1}
    result = run("keys", "attach")
    assert result.exit_code == 0
    assert all(f"key {key['id']} (sensors) is attached" in result.output for key in made)
    assert gateway.calls.count("get_usage_plans") == 1
    assert gateway.calls.count("create_usage_plan") == 3
    assert sorted(len(members) for members in gateway.members.values()) == [0, 1, 1, 2]
    assert waits == [1.0, 1.0]


def test_a_plan_of_another_api_with_the_same_name_is_not_used(gateway: FakeGateway) -> None:
    gateway.plans["old"] = {
        "id": "old",
        "name": "tidetable-lapse-5-10",
        "apiStages": [{"apiId": "gone", "stage": "api"}],
    }
    gateway.members["old"] = set()
    create("--rate", "5")
    assert gateway.members["old"] == set()
    assert len(gateway.plans) == 3
