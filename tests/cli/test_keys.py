"""The commands for keys, on a stage in memory: what the authorizer then says, and what the gateway counts by."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from aws.dynamodb import credential_items
from cli import common
from cli.account import Account
from cli.options import Target
from tests.fakes.gateway import FakeGateway
from tests.fakes.stage import Stage
from tests.worlds.commands import OUTPUTS, run
from tidetable.access import Access
from tidetable.credentials import Call, Decision, decide
from tidetable.credentials.first import admit_first, dismiss_first

EVENTS = "/v1/streams/{stream}/events"
FIRST = "Zq3vTn8mLx2KbW7cRj5yHd9sFg1aPe4uNw6iOkVt"
SENSORS = ("keys", "create", "--name", "sensors", "--stream", "s")


@pytest.fixture
def gateway(stage: Stage) -> FakeGateway:
    gateway: FakeGateway = common.find_account(Target()).gateway
    return gateway


def created(*options: str) -> dict[str, Any]:
    result = run(*SENSORS, *options, "--json")
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.stdout)
    return made


def decision_on(stage: Stage, key: str, method: str = "GET", stream: str = "s") -> Decision:
    """What a new process of the authorizer says."""
    stage.restart()
    return decide(Call(method, EVENTS, stream, {"x-api-key": [key]}), stage.key_ring, stage.clock.now())


def list_keys() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("keys", "list", "--json").output)
    return found


def test_a_key_is_shown_once_and_works(stage: Stage, gateway: FakeGateway) -> None:
    result = run(*SENSORS, "--can", "write")
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    assert "only time" in result.stderr
    assert decision_on(stage, key, "POST").allowed
    assert decision_on(stage, key, "POST").meter in gateway.meters("plan0")
    assert (decision_on(stage, key).refusal, decision_on(stage, key, "POST", "other").refusal) == (
        "needs read",
        "another stream",
    )
    for shown in (run("keys", "list").output, run("keys", "list", "--json").output):
        assert key.split("_")[1] in shown
        assert key.split("_")[2] not in shown


def test_neither_the_catalog_nor_the_gateway_has_the_secret(stage: Stage, gateway: FakeGateway) -> None:
    secret = created()["key"].split("_")[2]
    kept = stage.dynamo.call("Scan", {"TableName": "tidetable-lapse-catalog", "ConsistentRead": True})
    assert "sensors" in json.dumps(kept, default=str)
    assert secret not in json.dumps(kept, default=str)
    assert secret not in json.dumps(gateway.keys)


def test_every_right_is_kept_as_it_was_said(stage: Stage) -> None:
    (policy,) = stage.catalog.list_policies()
    stage.catalog.put_policy(policy._replace(stream="q"))
    options = "--can", "read,operate", "--series-prefix", "t7/", "--expires", "90d", "--rate", "2.5"
    made = created("--stream", "q", *options)
    end = "2026-06-13T12:20:00.000000Z"
    assert {name: made[name] for name in ("name", "can", "streams", "series_prefix", "expires", "rate", "burst")} == {
        "name": "sensors",
        "can": ["read", "operate"],
        "streams": ["q", "s"],
        "series_prefix": "t7/",
        "expires": end,
        "rate": 2.5,
        "burst": 5,
    }
    access = Access.of(decision_on(stage, made["key"]).context())
    assert access == Access(made["id"], frozenset("qs"), frozenset({"read", "operate"}), "t7/")
    stage.clock.sleep(90 * 86_400)
    assert decision_on(stage, made["key"]).refusal == "expired"
    assert [entry["state"] for entry in list_keys()] == ["expired"]


def test_a_key_of_all_streams(stage: Stage) -> None:
    result = run("keys", "create", "--name", "all", "--all-streams", "--json")
    made = json.loads(result.output)
    assert made["streams"] is None
    assert decision_on(stage, made["key"], stream="added-later").allowed


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--name", "a b", "--stream", "s"], "--name"),
        (["--name", "", "--stream", "s"], "--name"),
        (["--name", "a"], "--all-streams"),
        (["--name", "a", "--stream", "s", "--all-streams"], "--all-streams"),
        (["--name", "a", "--stream", "Not A Stream"], "--stream"),
        (["--name", "a", "--stream", "s", "--can", "fly"], "--can"),
        (["--name", "a", "--stream", "s", "--can", ""], "--can"),
        (["--name", "a", "--stream", "s", "--series-prefix", "*"], "--series-prefix"),
        (["--name", "a", "--stream", "s", "--series-prefix", ""], "--series-prefix is empty"),
        (["--name", "a", "--stream", "s", "--series-prefix="], "--series-prefix is empty"),
        (["--name", "a", "--stream", "s", "--series-prefix", "x" * 481], "--series-prefix"),
        (["--name", "a", "--stream", "s", "--expires", "soon"], "--expires"),
        (["--name", "a", "--stream", "s", "--expires", "0d"], "--expires"),
        (["--name", "a", "--stream", "s", "--rate", "0"], "--rate"),
        (["--name", "a", "--stream", "s", "--burst", "5"], "--burst"),
    ],
)
def test_a_mistake_names_the_option_and_makes_nothing(gateway: FakeGateway, options: list[str], named: str) -> None:
    result = run("keys", "create", *options)
    assert result.exit_code == 64
    assert named in result.output
    assert (gateway.keys, list_keys()) == ({}, [])


@pytest.mark.parametrize(
    ("streams", "said"),
    [
        (
            ("typo",),
            ["--stream: there is no stream 'typo'; there are: quakes, s\n", "to add a stream, deploy it first"],
        ),
        (("s", "quake", "typo"), ["'quake'; there are: quakes, s; did you mean quakes?", "no stream 'typo'"]),
    ],
)
def test_a_stream_that_the_stage_does_not_have_is_refused_and_nothing_is_made(
    stage: Stage, gateway: FakeGateway, streams: tuple[str, ...], said: list[str]
) -> None:
    (policy,) = stage.catalog.list_policies()
    stage.catalog.put_policy(policy._replace(stream="quakes"))
    named = [word for stream in streams for word in ("--stream", stream)]
    result = run("keys", "create", "--name", "a", *named)
    assert (result.exit_code, [text for text in said if text not in result.output]) == (64, []), result.output
    assert (gateway.keys, list_keys()) == ({}, [])


def test_a_stream_that_left_the_configuration_gets_no_key(stage: Stage) -> None:
    (policy,) = stage.catalog.list_policies()
    stage.catalog.put_policy(policy._replace(stream="old", removed=stage.clock.now()))
    assert "no stream 'old'; there are: s" in run("keys", "create", "--name", "a", "--stream", "old").output


def test_keys_of_one_rate_share_a_plan_which_goes_with_the_last(stage: Stage, gateway: FakeGateway) -> None:
    first, second, other = created("--rate", "5"), created("--rate", "5"), created("--rate", "5", "--burst", "50")
    names = {plan["name"]: (plan["throttle"], plan["id"]) for plan in gateway.plans.values() if "throttle" in plan}
    assert {name: throttle for name, (throttle, _) in names.items()} == {
        "tidetable-lapse-5-10": {"rateLimit": 5.0, "burstLimit": 10},
        "tidetable-lapse-5-50": {"rateLimit": 5.0, "burstLimit": 50},
    }
    shared = names["tidetable-lapse-5-10"][1]
    assert {decision_on(stage, entry["key"]).meter for entry in (first, second)} == gateway.meters(shared)
    run("keys", "revoke", first["id"])
    assert len(gateway.meters(shared)) == 1
    run("keys", "revoke", second["id"])
    run("keys", "revoke", other["id"])
    assert list(gateway.plans) == ["plan0"], "300 plans are an account's quota"
    assert gateway.keys == {}


def test_a_revoked_key_is_refused_and_stays_known(stage: Stage) -> None:
    made = created()
    result = run("keys", "revoke", made["id"])
    assert result.exit_code == 0
    assert "within 60 seconds" in result.output
    assert decision_on(stage, made["key"]).refusal == "revoked"
    assert [(entry["id"], entry["state"]) for entry in list_keys()] == [(made["id"], "revoked")]
    assert run("keys", "revoke", made["id"]).exit_code == 0, "again changes nothing"
    assert "is revoked" in run("keys", "rotate", made["id"]).output


def test_a_key_ends_although_the_gateway_does_not_answer(stage: Stage, gateway: FakeGateway) -> None:
    made = created()
    gateway.fails = "delete_api_key"
    result = run("keys", "revoke", made["id"])
    assert "is revoked" in result.output
    assert decision_on(stage, made["key"]).refusal == "revoked"
    gateway.fails = ""
    run("keys", "revoke", made["id"])
    assert gateway.keys == {}


@pytest.mark.parametrize("fails", ["create_api_key", "create_usage_plan_key", "create_usage_plan"])
def test_where_the_gateway_refuses_no_key_is_shown_and_nothing_is_left(
    stage: Stage, gateway: FakeGateway, fails: str
) -> None:
    gateway.fails = fails
    result = run(*SENSORS, "--rate", "5")
    assert result.exit_code == 1
    assert "tt_" not in result.output
    assert gateway.keys == {}
    assert list_keys() == []


def test_a_rotated_key_has_both_texts_until_the_overlap_ends(stage: Stage, gateway: FakeGateway) -> None:
    made = created("--rate", "5")
    again = json.loads(run("keys", "rotate", made["id"], "--overlap", "2d", "--json").output)
    assert (again["id"], again["state"]) == (made["id"], "rotating")
    assert again["key"] != made["key"]
    assert [decision_on(stage, key["key"]).allowed for key in (made, again)] == [True, True]
    stage.clock.sleep(2 * 86_400)
    assert [decision_on(stage, key["key"]).refusal for key in (made, again)] == ["rotated", ""]
    assert len(gateway.keys) == 1, "the gateway goes on counting by the same key"
    printed = run("keys", "rotate", made["id"]).output
    assert re.search(
        r"the new secret works within 3 seconds; the former secret is accepted until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
        printed,
    )
    at_once = run("keys", "rotate", made["id"], "--overlap", "0s").output
    assert "the former secret is refused everywhere within 60 seconds" in at_once


@pytest.mark.parametrize("overlap", ["soon", "-1d"])
def test_an_overlap_that_is_no_length_of_time_changes_nothing(stage: Stage, overlap: str) -> None:
    made = created()
    assert run("keys", "rotate", made["id"], f"--overlap={overlap}").exit_code == 64
    assert decision_on(stage, made["key"]).allowed


def test_of_two_rotations_at_once_one_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    made = created()
    before = stage.keys.find(made["id"])
    run("keys", "rotate", made["id"])
    monkeypatch.setattr(stage.keys, "find", lambda _: before)
    result = run("keys", "rotate", made["id"])
    assert result.exit_code == 1
    assert "somebody else" in result.output
    assert "tt_" not in result.stdout


def test_a_key_of_a_newer_version_is_shown_and_revoked_but_not_rotated(
    stage: Stage, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotation would write its record without what this version does not know."""
    with monkeypatch.context() as later:
        later.setattr(credential_items, "KEY_FORMAT", 2)
        id = created("--rate", "5")["id"]
    (shown,) = list_keys()
    assert (shown["id"], shown["name"], shown["state"], shown["can"]) == (id, "sensors", "newer", [])
    refused = run("keys", "rotate", id)
    assert (refused.exit_code, "a newer version wrote key" in refused.output) == (1, True)
    assert run("keys", "revoke", id).exit_code == 0
    assert (list_keys()[0]["state"], gateway.keys) == ("revoked", {})


def test_an_unknown_id_is_not_printed_whole_as_it_may_be_a_key(stage: Stage) -> None:
    made = created()
    for command in ("rotate", "revoke"):
        result = run("keys", command, made["key"])
        assert result.exit_code == 1
        assert "keys list" in result.output
        assert made["key"].split("_")[2] not in result.output


def test_a_stage_without_keys_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(stage.pipeline, OUTPUTS)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    for command in (SENSORS, ("keys", "list"), ("keys", "attach")):
        result = run(*command)
        assert result.exit_code == 1
        assert 'auth is "iam"' in result.output


# The first key.


def admit(stage: Stage) -> str:
    return admit_first(stage.keys, "gk0", {"gk0": FIRST}.__getitem__, lambda: bytes(16), stage.clock.now())


def test_the_first_key_may_do_everything_as_before(stage: Stage) -> None:
    assert admit(stage) == "gw6763c11c34"
    decision = decision_on(stage, FIRST, stream="any")
    assert (decision.allowed, decision.meter) == (True, FIRST)
    assert Access.of(decision.context()) == Access("gw6763c11c34")
    assert [(entry["name"], entry["state"], entry["streams"]) for entry in list_keys()] == [("first", "active", None)]


def test_the_first_key_is_rotated_and_then_counted_by_a_key_of_its_own(stage: Stage, gateway: FakeGateway) -> None:
    id = admit(stage)
    again = json.loads(run("keys", "rotate", id, "--json").output)
    assert again["id"] == id
    for key in (FIRST, again["key"]):
        assert decision_on(stage, key).allowed
        assert decision_on(stage, key).meter in gateway.meters("plan0")
    stage.clock.sleep(7 * 86_400)
    assert [decision_on(stage, key).refusal for key in (FIRST, again["key"])] == ["rotated", ""]
    admit(stage)
    assert decision_on(stage, FIRST).refusal == "rotated", "another deployment changes nothing"


def test_a_revoked_first_key_stays_revoked_at_the_next_deployment(stage: Stage) -> None:
    id = admit(stage)
    run("keys", "revoke", id)
    admit(stage)
    assert decision_on(stage, FIRST).refusal == "revoked"
    assert dismiss_first(stage.keys, "gk0") == []
    assert decision_on(stage, FIRST).refusal == "revoked"


def test_with_the_stack_its_first_key_goes_and_no_other(stage: Stage) -> None:
    made, id = created(), admit(stage)
    assert dismiss_first(stage.keys, "other") == []
    assert dismiss_first(stage.keys, "gk0") == [id]
    assert dismiss_first(stage.keys, "gk0") == []
    assert decision_on(stage, FIRST).refusal == f"unknown key {id}"
    assert decision_on(stage, made["key"]).allowed


def test_the_keys_of_a_stage_that_was_destroyed_are_attached_again(stage: Stage, gateway: FakeGateway) -> None:
    plain, fast, gone, ended = created(), created("--rate", "5"), created(), created()
    run("keys", "revoke", ended["id"])
    # The stack and its plan are new; the catalog and the gateway keys stayed.
    gateway.members["plan0"].clear()
    for id in [id for id, plan in gateway.plans.items() if "throttle" in plan]:
        del gateway.plans[id], gateway.members[id]
    (lost,) = [id for id, key in gateway.keys.items() if gone["id"] in key["name"]]
    del gateway.keys[lost]
    result = run("keys", "attach")
    assert decision_on(stage, plain["key"]).meter in gateway.meters("plan0")
    (plan,) = [id for id, entry in gateway.plans.items() if entry["name"] == "tidetable-lapse-5-10"]
    assert decision_on(stage, fast["key"]).meter in gateway.meters(plan)
    assert f"gateway key of {gone['id']}" in result.output
    assert ended["id"] not in result.output
    assert run("keys", "attach").exit_code == 0, "again changes nothing"


def test_the_overlap_ends_when_it_was_said(stage: Stage) -> None:
    made = created()
    run("keys", "rotate", made["id"], "--overlap", "1h")
    kept = stage.keys.find(made["id"])
    assert kept is not None
    assert [secret.until for secret in kept.secrets] == [None, stage.clock.now() + timedelta(hours=1)]
