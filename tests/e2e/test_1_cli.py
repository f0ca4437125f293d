"""The operator's command line against the deployed stage."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from local import Deployed, Emulator
from local.emulator import REGION, ROOT, clean_environment
from local.http import Api
from tests.e2e.conftest import eventually


@pytest.fixture
def tidetable(stage: tuple[Emulator, Deployed]) -> Any:
    emulator, deployed = stage
    # Ages and ends of backfills are reckoned from the operator's time.
    environment = (
        clean_environment()
        | emulator.time_environment
        | {
            "AWS_ENDPOINT_URL": deployed.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "TIDETABLE_STAGE": "local",
        }
    )

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
    assert {row["stream"] for row in status} == {"quakes", "quakes-hours", "stations", "reports"}
    assert {row["state"] for row in status} == {"open"}
    # Two hundred days later the plan has many actions.
    later = tidetable("plan", "--at", "2099-01-01T00:00:00Z", "--json")
    assert later.returncode == 2
    assert {"create", "close", "archive"} <= {action["action"] for action in json.loads(later.stdout)["actions"]}


def test_advise_says_what_it_lacks_of_a_stage_that_is_not_measured(tidetable: Any) -> None:
    """The emulator counts no units: the command reads its metrics and logs, and gives no advice."""
    advice = tidetable("advise", "--json")
    assert advice.returncode == 0, advice.stdout + advice.stderr
    rows = {row["stream"]: row for row in json.loads(advice.stdout)["advice"]}
    assert {"quakes", "stations", "reports"} <= rows.keys()
    assert [finding for row in rows.values() for finding in row["findings"]] == []


def test_a_stage_that_is_not_deployed_says_so(tidetable: Any) -> None:
    result = tidetable("plan", "--stage", "nowhere")
    assert result.returncode == 1
    assert "Is it deployed" in result.stderr


def test_a_backfill_opens_the_past_for_events(tidetable: Any, api: Api) -> None:
    event = {"series": "history", "id": "h", "time": "2026-01-15T12:00:00Z", "data": {"mag": 1}}
    body = json.dumps(event).encode()
    assert api.send("quakes", body).status == 422
    planned = json.loads(tidetable("backfill", "quakes", "2026-01-15", "2026-01-16", "--dry-run", "--json").stdout)
    assert [(action["action"], action["period"]) for action in planned["actions"]] == [("create", "2026-01-15")]
    opened = tidetable("backfill", "quakes", "2026-01-15", "2026-01-16", "--hours", "1")
    assert opened.returncode == 0, opened.stdout + opened.stderr
    assert api.send("quakes", body).body["accepted"] == 1
    events = list(api.walk_events("quakes", start="2026-01-15T00:00:00Z", to="2026-01-16T00:00:00Z"))
    assert [event["id"] for event in events] == ["h"]
    # A second backfill runs beside the first.
    second = json.loads(tidetable("backfill", "quakes", "2026-01-20", "2026-01-21", "--hours", "1", "--json").stdout)
    assert [(action["action"], action["period"]) for action in second["actions"]] == [("create", "2026-01-20")]
    assert tidetable("apply", "--yes").returncode == 0
    window = api.send("quakes", body).body["window"]
    assert [backfill["from"][:10] for backfill in window["backfills"]] == ["2026-01-15", "2026-01-20"]
    shown = api.call("/v1/streams/quakes/periods?to=2026-02-01T00:00:00Z&limit=1").body
    assert [(entry["period"], entry["state"]) for entry in shown["periods"]] == [("2026-01-20", "open")]
    assert shown["periods"][0]["backfill"]["until"] == window["backfills"][1]["until"]
    assert [backfill["from"][:10] for backfill in shown["backfills"]] == ["2026-01-15", "2026-01-20"]
    assert shown["next"] is not None
    assert tidetable("backfill", "quakes", "2026-01-20", "2026-01-21", "--end").returncode == 0
    assert api.send("quakes", body).body["accepted"] == 1
    assert tidetable("backfill", "quakes", "--end").returncode == 0
    assert api.send("quakes", body).status == 422


def test_history_is_imported_straight_into_the_archive(tidetable: Any, api: Api, tmp_path: Path) -> None:
    file = tmp_path / "old.csv"
    lines = [
        f"boiler-{number % 2},2025-06-{1 + number // 12:02d}T{number % 12:02d}:00:00Z,{number}" for number in range(24)
    ]
    file.write_text("series,time,celsius\n" + "\n".join(lines))
    words = ("import", str(file), "--to", "archive", "--stream", "stations", "--state", str(tmp_path / "import"))
    planned = json.loads(tidetable(*words, "--dry-run", "--json").stdout)
    assert (planned["rows"], planned["refused"], planned["not_imported"]) == (24, {}, {})
    done = tidetable(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    span = {"series": "boiler-0", "start": "2025-06-01T00:00:00Z", "to": "2025-07-01T00:00:00Z", "order": "asc"}
    events = list(api.walk_events("stations", **span))
    assert [event["data"]["celsius"] for event in events] == list(range(0, 24, 2))


def test_what_cannot_be_written_is_laid_aside_with_its_reason_and_sent_back(tidetable: Any, deployed: Deployed) -> None:
    queues = deployed.make_client("sqs")
    queues.send_message(QueueUrl=deployed.outputs["OverflowQueueUrl"], MessageBody="no message of ours")

    def dead() -> Any:
        shown = tidetable("replay", "--dry-run", "--json")
        assert shown.returncode == 0, shown.stdout + shown.stderr
        return json.loads(shown.stdout)["dead"]

    (row,) = eventually(dead, bool)
    assert (row["stream"], row["events"]) == ("?", 1)
    assert row["reason"].startswith("the message cannot be read")
    sent = tidetable("replay", "--yes")
    assert sent.returncode == 0, sent.stdout + sent.stderr
    assert "1 events are sent to the overflow again" in sent.stdout
    # The cause was not mended, so the message returns; this time it is deleted.
    (again,) = eventually(dead, bool)
    assert again == row
    queues.purge_queue(QueueUrl=deployed.outputs["DeadLetterQueueUrl"])
