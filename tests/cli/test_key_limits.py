"""Keys at the edges of their limits, and what is left of a key that could not be made, changed or removed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli import common
from cli.credentials import _check_limits
from cli.options import Target
from tests.fakes.gateway import FakeGateway
from tests.fakes.stage import Stage
from tests.worlds.commands import run
from tidetable.errors import Outage, StoreUnavailable

SENSORS = ("keys", "create", "--name", "sensors", "--stream", "s", "--json")
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "PutItem")


@pytest.fixture
def gateway(stage: Stage) -> FakeGateway:
    gateway: FakeGateway = common.find_account(Target()).gateway
    return gateway


def create(*options: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run(*SENSORS, *options).stdout)
    return made


@pytest.mark.parametrize(
    ("rate", "burst", "named"),
    [
        (None, None, []),
        (0.1, None, []),
        (0.09, None, ["--rate"]),
        (10_000, 5_000, []),
        (10_000.1, 1, ["--rate"]),
        (5, 5_001, ["--burst"]),
        (5, 0, ["--burst"]),
        (5, 1, []),
        (None, 5, ["--burst"]),
    ],
)
def test_a_rate_and_a_burst_have_their_limits(rate: float | None, burst: int | None, named: list[str]) -> None:
    assert [text.partition(" ")[0] for text in _check_limits(rate, burst)] == named


def test_a_burst_is_twice_the_rate_rounded_up_unless_it_is_given(gateway: FakeGateway) -> None:
    assert [create("--rate", rate)["burst"] for rate in ("0.1", "2.6")] == [1, 6]
    assert create("--rate", "3", "--burst", "9")["burst"] == 9
    assert (create()["burst"], create()["rate"]) == (None, None)


def test_a_key_that_has_expired_is_neither_rotated_nor_attached(stage: Stage, gateway: FakeGateway) -> None:
    made = create("--expires", "1d")
    gateway.members["plan0"].clear()
    stage.clock.sleep(86_400)
    result = run("keys", "rotate", made["id"])
    assert (result.exit_code, f"key {made['id']} is expired: make another" in result.output) == (1, True)
    assert run("keys", "attach").output == ""
    assert gateway.members["plan0"] == set()


def test_a_key_that_the_catalog_does_not_take_leaves_nothing_in_the_gateway(
    stage: Stage, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> bool:
        raise StoreUnavailable(Outage.OTHER, "not you", "AccessDeniedException")

    for add, reason in ((refuse, "the keys could not be read or changed: "), (lambda _: False, "by a rare chance")):
        monkeypatch.setattr(stage.keys, "add", add)
        result = run(*SENSORS, "--rate", "5")
        assert (result.exit_code, result.stdout, reason in result.stderr) == (1, "", True)
        assert (gateway.keys, list(gateway.plans)) == ({}, ["plan0"])


def test_a_first_key_that_somebody_else_changed_leaves_no_new_gateway_key(
    stage: Stage, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create()
    record = stage.keys.find(made["id"])
    assert record is not None
    first = replace(record, meter="", gateway_key="", plan="")
    before = dict(gateway.keys)
    monkeypatch.setattr(stage.keys, "find", lambda _: first)
    monkeypatch.setattr(stage.keys, "rotate", lambda *_: False)
    result = run("keys", "rotate", made["id"])
    assert (result.exit_code, "somebody else changed the key" in result.output) == (1, True)
    assert gateway.keys == before
    # A key that the gateway counts by a key of its own keeps it.
    monkeypatch.setattr(stage.keys, "find", lambda _: record)
    assert run("keys", "rotate", made["id"]).exit_code == 1
    assert gateway.keys == before


def test_a_pasted_key_is_shown_by_twelve_characters(stage: Stage) -> None:
    assert "there is no key 'tt_abcdefghi': " in run("keys", "revoke", "tt_abcdefghijklmn").output


def test_a_plan_of_another_api_is_not_shared(gateway: FakeGateway) -> None:
    other = {"apiId": "other", "stage": "api"}
    gateway.plans["old"] = {"id": "old", "name": "tidetable-lapse-5-10", "apiStages": [other]}
    gateway.members["old"] = set()
    create("--rate", "5")
    assert gateway.members["old"] == set()
    (plan,) = (plan for id, plan in gateway.plans.items() if id not in ("plan0", "old"))
    assert plan["apiStages"] == [{"apiId": "api0", "stage": "api"}]


def test_a_revocation_goes_on_where_the_gateways_key_or_plan_is_gone(gateway: FakeGateway) -> None:
    first, second = create("--rate", "5"), create("--rate", "7")
    (plan,) = (id for id, plan in gateway.plans.items() if plan["name"] == "tidetable-lapse-5-10")
    (key,) = (id for id, key in gateway.keys.items() if second["id"] in key["name"])
    del gateway.plans[plan]
    gateway.delete_api_key(apiKey=key)
    for made in (first, second):
        result = run("keys", "revoke", made["id"])
        assert (result.exit_code, "could not be removed" in result.output) == (0, False)
    assert (gateway.keys, list(gateway.plans)) == ({}, ["plan0"])


@pytest.mark.parametrize("fails", ["delete_api_key", "delete_usage_plan"])
def test_a_key_that_the_gateway_keeps_is_told(
    gateway: FakeGateway, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create("--rate", "5")

    def refuse(**_: Any) -> Any:
        raise DENIED

    monkeypatch.setattr(gateway, fails, refuse)
    result = run("keys", "revoke", made["id"])
    assert (result.exit_code, f"`tidetable keys revoke {made['id']}` tries again" in result.stderr) == (0, True)


def test_gateway_keys_that_cannot_be_read_are_not_said_to_be_gone(gateway: FakeGateway) -> None:
    create()
    gateway.fails = "get_api_key"
    result = run("keys", "attach")
    assert "is gone: make another key" not in result.output
    assert result.exit_code == 1


def test_a_key_is_listed_with_its_times_and_limits(stage: Stage) -> None:
    made = create("--rate", "2.5", "--expires", "1d", "--series-prefix", "t7/")
    run("keys", "rotate", made["id"])
    shown = " ".join(run("keys", "list").output.split())
    end = (stage.clock.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%MZ")
    for text in (made["id"], "sensors", "rotating", "write, read", "t7/*", end, "2.5/s"):
        assert text in shown, text


def test_the_plan_of_the_stage_stays_without_keys_and_a_gateway_key_names_its_stage(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = []
    make = gateway.create_api_key
    monkeypatch.setattr(gateway, "create_api_key", lambda **key: made.append(key) or make(**key))
    key = create()
    assert run("keys", "revoke", key["id"]).exit_code == 0
    assert (gateway.keys, list(gateway.plans), gateway.members) == ({}, ["plan0"], {"plan0": set()})
    assert (made[0]["name"], made[0]["tags"]) == (
        f"tidetable-lapse-sensors-{key['id']}",
        {"project": "tidetable", "stage": "lapse"},
    )
