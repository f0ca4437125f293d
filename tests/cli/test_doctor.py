"""What `doctor` finds, on a machine and in an account of the test's own making."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from cli.doctoring import (
    Cloud,
    Finding,
    Machine,
    check_account,
    check_endpoints,
    check_file,
    check_machine,
    check_quotas,
    check_stage,
)
from tests.worlds.commands import ROOT, run
from tidetable.config import load, parse

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


class FakeClient:
    """A client of boto3: each call has its answer, or raises it."""

    def __init__(self, host: str, answers: Mapping[str, Any]) -> None:
        self.meta = type("Meta", (), {"endpoint_url": f"https://{host}"})
        self.answers = answers

    def __getattr__(self, call: str) -> Any:
        answer = self.answers[call]

        def reply(**_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return reply


def make_cloud(region: str = "eu-central-1", **answers: Any) -> Cloud:
    """An account whose services answer as the test says."""

    def make_client(service: str) -> FakeClient:
        return FakeClient(f"{service}.{region}.amazonaws.com", answers)

    return Cloud(make_client, region, lambda: NOW)


def identify(date: str) -> dict[str, Any]:
    return {
        "Account": "123456789012",
        "Arn": "arn:aws:iam::123456789012:user/ana",
        "ResponseMetadata": {"HTTPHeaders": {"date": date}},
    }


def refuse(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")


def find(findings: Sequence[Finding], check: str) -> Finding:
    (found,) = (one for one in findings if one.check == check)
    return found


@pytest.mark.parametrize(
    "version, state",
    [("v24.1.0", "ok"), ("v22.0.0", "ok"), ("v21.9.9", "note"), ("v20.20.2", "note"), ("v19.9.0", "problem")],
)
def test_node_must_be_one_that_the_cdk_supports(version: str, state: str) -> None:
    assert find([*check_machine(Machine(run=lambda _: version))], "Node.js").state == state


@pytest.mark.parametrize(
    "error", [FileNotFoundError("node"), subprocess.TimeoutExpired("node", 20), ValueError("text")]
)
def test_a_machine_without_node_is_told_to_install_it(error: Exception) -> None:
    def run_nothing(_: Sequence[str]) -> str:
        raise error

    found = find([*check_machine(Machine(run=run_nothing))], "Node.js")
    assert (found.state, found.advice.split(":")[0]) == ("problem", "install Node.js 22 or newer")


@pytest.mark.parametrize("python, state", [((3, 10), "problem"), ((3, 11), "ok"), ((3, 14), "ok")])
def test_python_must_be_3_11_or_newer(python: tuple[int, int], state: str) -> None:
    assert find([*check_machine(Machine(python, run=lambda _: "v22.0.0"))], "Python").state == state


def test_a_configuration_with_mistakes_shows_the_first_one(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    assert check_file(file)[1].state == "note"
    file.write_text('[streams.s]\nperiod = "fortnight"\nretention = -1\n')
    config, found = check_file(file)
    assert config is None
    assert (found.state, found.advice) == ("problem", f"bin/tidetable check {file}")
    assert "streams.s.period" in found.found
    assert found.found.endswith("more")
    assert check_file(ROOT / "tidetable.toml")[1].state == "ok"


def test_an_account_without_a_region_or_credentials_says_what_to_set() -> None:
    (found,) = check_account(make_cloud(""))
    assert (found.check, found.state) == ("Region", "problem")
    _, found = check_account(make_cloud(get_caller_identity=NoCredentialsError()))
    assert (found.check, found.state, found.found) == ("account", "problem", "Unable to locate credentials")


@pytest.mark.parametrize(
    "date, state, found",
    [
        ("Sun, 15 Mar 2026 12:00:00 GMT", "ok", "within 5 s of AWS"),
        ("Sun, 15 Mar 2026 11:59:55 GMT", "ok", "within 5 s of AWS"),
        ("Sun, 15 Mar 2026 12:00:06 GMT", "note", "6 s behind AWS"),
        ("Sun, 15 Mar 2026 11:55:00 GMT", "note", "300 s ahead of AWS"),
        ("Sun, 15 Mar 2026 11:54:59 GMT", "problem", "301 s ahead of AWS"),
        ("Sun, 15 Mar 2026 12:10:00 GMT", "problem", "600 s behind AWS"),
    ],
)
def test_the_clock_is_compared_with_that_of_aws(date: str, state: str, found: str) -> None:
    clock = find([*check_account(make_cloud(get_caller_identity=identify(date)))], "clock")
    assert (clock.state, clock.found) == (state, found)


def test_the_clock_of_a_local_stage_is_its_own() -> None:
    cloud = make_cloud(get_caller_identity=identify("Sun, 15 Mar 2026 12:10:00 GMT"))
    clock = find([*check_account(cloud, "http://127.0.0.1:4566")], "clock")
    assert (clock.state, clock.found) == ("note", "600 s behind the stage at http://127.0.0.1:4566")
    assert "NTP" not in clock.advice
    same = make_cloud(get_caller_identity=identify("Sun, 15 Mar 2026 12:00:00 GMT"))
    assert find([*check_account(same, "http://127.0.0.1:4566")], "clock").state == "ok"


def test_quotas_are_compared_with_what_the_configuration_needs() -> None:
    config = load(ROOT / "tidetable.toml")
    answers: dict[str, Any] = {
        "get_service_quota": {"Quota": {"Value": 2500.0}},
        "get_account_settings": {"AccountLimit": {"ConcurrentExecutions": 10}},
        "get_account": {"throttleSettings": {"rateLimit": 10_000.0}},
    }
    found = [*check_quotas(make_cloud(**answers), config)]
    assert [one.state for one in found] == ["ok", "note", "ok"]
    assert found[1].found.startswith("10;")
    few = answers | {"get_service_quota": {"Quota": {"Value": 3.0}}, "get_account": refuse("AccessDenied")}
    found = [*check_quotas(make_cloud(**few), config)]
    assert [one.state for one in found] == ["problem", "note", "note"]
    assert "AccessDenied" in found[2].found
    slow = answers | {"get_account": {"throttleSettings": {"rateLimit": 199.0}}}
    assert find([*check_quotas(make_cloud(**slow), config)], "requests per second of API Gateway").state == "problem"


def test_a_local_stage_has_no_quotas_and_no_note_about_them() -> None:
    config = load(ROOT / "tidetable.toml")
    cloud = make_cloud(get_service_quota=refuse("UnknownOperationException"))
    found = [*check_quotas(cloud, config, "http://127.0.0.1:4566")]
    assert found == [("quotas", "ok", "the stage at http://127.0.0.1:4566 is not an account of AWS, and has none", "")]


STAGE = """
{api}
[streams.s]
period = "day"
late = "1h"
retention = 9
key = {{ partition_by = "series" }}
"""


@pytest.mark.parametrize(
    ("api", "limit", "state", "found"),
    [
        # Without a reservation, few executions work, slowly.
        ("", 99, "note", "99; each request takes two while it is answered"),
        ("", 100, "ok", "100; each request takes two while it is answered"),
        # The functions for sending and for queries; AWS keeps 100 of an account's executions unreserved.
        (
            "[api]\nconcurrency = 50\nconsole = false",
            199,
            "problem",
            "199; [api] concurrency = 50 of 2 functions and the",
        ),
        (
            "[api]\nconcurrency = 50\nconsole = false",
            200,
            "ok",
            "200; [api] concurrency = 50 of 2 functions and the 100",
        ),
        ("[api]\nconcurrency = 50\nconsole = true", 250, "ok", "250; [api] concurrency = 50 of 3 functions"),
        (
            "[api]\nconcurrency = 50\nconsole = true\n[doors]\notlp = true",
            299,
            "problem",
            "299; [api] concurrency = 50 of 4",
        ),
    ],
)
def test_the_executions_that_the_file_reserves_are_compared_with_the_accounts(
    api: str, limit: int, state: str, found: str
) -> None:
    answers: dict[str, Any] = {
        "get_service_quota": {"Quota": {"Value": 2500.0}},
        "get_account_settings": {"AccountLimit": {"ConcurrentExecutions": limit}},
        "get_account": {"throttleSettings": {"rateLimit": 10_000.0}},
    }
    findings = [*check_quotas(make_cloud(**answers), parse(STAGE.format(api=api)))]
    executions = find(findings, "concurrent executions of Lambda")
    assert (executions.state, executions.found.startswith(found), bool(executions.advice)) == (
        state,
        True,
        state != "ok",
    )


def test_an_endpoint_that_cannot_be_reached_is_named() -> None:
    reached: list[tuple[str, int]] = []
    (found,) = check_endpoints(make_cloud(), Machine(reach=lambda host, port: reached.append((host, port))))
    assert found.state == "ok"
    assert ("dynamodb.eu-central-1.amazonaws.com", 443) in reached

    def refuse_queues(host: str, port: int) -> None:
        if host.startswith("sqs"):
            raise TimeoutError("timed out")

    (found,) = check_endpoints(make_cloud(), Machine(reach=refuse_queues))
    assert found.state == "problem"
    assert found.found == "not reachable: sqs (sqs.eu-central-1.amazonaws.com: timed out)"


def test_a_stage_of_another_version_and_an_api_that_fails_are_named() -> None:
    healthy = {"status": "ok", "version": "0.1.0.dev0"}
    same = [*check_stage("prod", {"Version": "0.1.0.dev0"}, lambda: healthy)]
    assert [one.state for one in same] == ["ok", "ok"]
    other = [*check_stage("prod", {}, lambda: healthy)]
    assert (other[0].state, other[0].found) == ("note", "version unknown, here is 0.1.0.dev0")

    def fail() -> Mapping[str, Any]:
        raise OSError("the address gave no answer")

    assert [*check_stage("prod", {}, fail)][1].state == "problem"


def test_the_command_looks_at_this_machine_alone_and_prints_json() -> None:
    printed = run("doctor", "--local", "--json", "--config", str(ROOT / "tidetable.toml"))
    checks = {found["check"]: found["state"] for found in json.loads(printed.stdout)}
    assert checks.keys() == {"tidetable", "Python", "Node.js", "configuration"}
    assert printed.exit_code == int("problem" in checks.values())


def test_a_wrong_profile_is_a_problem_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    printed = run("doctor", "--profile", "nobody", "--json")
    assert printed.exit_code == 1
    (found,) = (one for one in json.loads(printed.stdout) if one["check"] == "account")
    assert "nobody" in found["found"]


def test_without_an_answer_of_the_account_the_endpoints_are_tried_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall in the way looks like an account that does not answer."""

    class Session:
        region_name = "eu-central-1"

        def client(self, service: str, **_: Any) -> FakeClient:
            error = EndpointConnectionError(endpoint_url="https://sts.eu-central-1.amazonaws.com")
            return FakeClient(f"{service}.eu-central-1.amazonaws.com", {"get_caller_identity": error})

    def refuse_all(host: str, port: int) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr("cli.doctor.boto3.Session", lambda **_: Session())
    monkeypatch.setattr("cli.doctor.Machine", lambda: Machine(run=lambda _: "v24.0.0", reach=refuse_all))
    printed = run("doctor", "--json", "--config", str(ROOT / "tidetable.toml"))
    found = {found["check"]: found for found in json.loads(printed.stdout)}
    assert printed.exit_code == 1
    assert found["account"]["advice"] == "the network is in the way: see endpoints below"
    assert found["endpoints"]["found"].startswith("not reachable: cloudformation (")
