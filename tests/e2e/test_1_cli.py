"""The operator's command line against the deployed stage."""

import json
import subprocess
from typing import Any

import pytest

from local import Deployed
from local.emulator import REGION, ROOT, clean_environment


@pytest.fixture
def tidetable(deployed: Deployed) -> Any:
    environment = clean_environment() | {
        "AWS_ENDPOINT_URL": deployed.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "TIDETABLE_STAGE": "local",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(ROOT / "bin" / "tidetable"), *arguments]
        return subprocess.run(  # noqa: S603 - our own command
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_plan_and_status_of_a_deployed_stage(tidetable: Any) -> None:
    plan = tidetable("plan", "--json")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert json.loads(plan.stdout)["actions"] == []
    status = json.loads(tidetable("status", "--json").stdout)
    assert {row["stream"] for row in status} == {"quakes", "stations"}
    assert {row["state"] for row in status} == {"open"}
    # Two hundred days later there is a lot to do.
    later = tidetable("plan", "--at", "2099-01-01T00:00:00Z", "--json")
    assert later.returncode == 2
    assert {"create", "close", "archive"} <= {one["action"] for one in json.loads(later.stdout)["actions"]}


def test_a_stage_that_is_not_deployed_says_so(tidetable: Any) -> None:
    result = tidetable("plan", "--stage", "nowhere")
    assert result.returncode == 1
    assert "Is it deployed" in result.stderr
