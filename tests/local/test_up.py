"""`make local`: its output, and its refusals before anything is started."""

import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from local import Deployed, keep, up
from local.keep import RunningStage
from tests.worlds.configs import ROOT
from tidetable.config import load

LOG = Path("/somewhere/emulator.log")


def test_it_prints_all_that_a_user_needs() -> None:
    file = ROOT / "examples" / "telemetry" / "tidetable.toml"
    stage = Deployed("http://127.0.0.1:1", "http://127.0.0.1:1/api", "key", {}, "http://127.0.0.1:2")
    text = up.describe_stage(LOG, stage, file, load(file))
    assert "URL='http://127.0.0.1:1/api' KEY='key'" in text
    (export,) = [line for line in text.splitlines() if line.startswith("  export ")]
    assert set(export.split()[1:]) == {
        "AWS_ACCESS_KEY_ID=test",
        "AWS_SECRET_ACCESS_KEY=test",
        "AWS_DEFAULT_REGION=us-east-1",
        "AWS_REGION=us-east-1",
        "AWS_ENDPOINT_URL=http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:2",
        "TIDETABLE_STAGE=local",
        f"TIDETABLE_CONFIG={file}",
    }
    assert "Logs: /somewhere/emulator.log" in text
    # Events of a stream by series are read with a series; those of its rollup, which is by time, without.
    assert "$URL/v1/streams/telemetry/events?series=a&from=-1h" in text
    assert "$URL/v1/streams/telemetry-hours/events?from=-1h" in text


def test_it_prints_no_request_that_sends_events_to_a_rollup() -> None:
    file = ROOT / "examples" / "follows" / "tidetable.toml"
    rollups = {name for name, stream in load(file).streams.items() if stream.source}
    stage = Deployed("http://127.0.0.1:1", "http://127.0.0.1:1/api", "key", {})
    lines = up.describe_stage(LOG, stage, file, load(file)).splitlines()
    senders = {line.split("/v1/streams/")[1].split("/")[0] for line in lines if " -d " in line}
    readers = {line.split("/v1/streams/")[1].split("/")[0] for line in lines if "?" in line and "/v1/streams/" in line}
    assert rollups == {"follows-days"}
    assert senders == {"follows"}
    assert readers == {"follows", "follows-days"}


@pytest.mark.parametrize("text", [None, "[streams.x]\n"])
def test_a_file_that_cannot_be_used_is_refused_before_anything_is_started(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "shop.toml"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["up", "--config", str(file)])
    monkeypatch.setattr(up, "end_remembered_stage", lambda: pytest.fail("a stage that is up must stay"))
    monkeypatch.setattr(up, "Emulator", lambda **_: pytest.fail("nothing may be started"))
    with pytest.raises(SystemExit, match=r"shop\.toml: (1 problem|4 problems) in"):
        up.main()


RUNNING = RunningStage(Path("/running"), "http://127.0.0.1:1", "http://127.0.0.1:2", "dynamodb-local")


def note_end(done: list[str]) -> bool:
    """End the earlier stage."""
    done.append("end")
    return True


def call_up(monkeypatch: pytest.MonkeyPatch, *words: str, running: RunningStage | None = RUNNING) -> list[str]:
    """Run `make local` without servers; return what it did."""
    done: list[str] = []
    deployed = Deployed("http://127.0.0.1:1", "http://127.0.0.1:1/api", "key", {})

    class FakeEmulator:
        def __init__(self, engine: str) -> None:
            self.log = LOG
            done.append(f"new {engine}")

        def start(self) -> None:
            done.append("start")

    def deploy(*_: object, config: Path) -> Deployed:
        done.append(f"deploy {config.name}")
        return deployed

    def deploy_over(stage: RunningStage, *_: object, config: Path) -> Deployed:
        done.append(f"deploy {config.name} over {stage.folder}")
        return deployed

    monkeypatch.setattr(sys, "argv", ["up", "--config", str(ROOT / "tidetable.toml"), *words])
    monkeypatch.setattr(up, "find_running_stage", lambda: running)
    monkeypatch.setattr(up, "end_remembered_stage", lambda: note_end(done))
    monkeypatch.setattr(up, "remember_stage", lambda _: done.append("remember"))
    monkeypatch.setattr(up, "Emulator", FakeEmulator)
    monkeypatch.setattr(up, "deploy", deploy)
    monkeypatch.setattr(up, "deploy_over", deploy_over)
    up.main()
    return done


def test_a_running_stage_is_deployed_over_and_keeps_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call_up(monkeypatch) == ["deploy tidetable.toml over /running"]
    assert call_up(monkeypatch, "--engine", "dynamodb-local") == ["deploy tidetable.toml over /running"]


def test_a_stage_begins_anew_if_none_runs_or_if_this_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = ["end", "new emulator", "start", "deploy tidetable.toml", "remember"]
    assert call_up(monkeypatch, running=None) == anew
    assert call_up(monkeypatch, "--fresh") == anew
    assert call_up(monkeypatch, "--fresh", "--engine", "dynamodb-local")[1] == "new dynamodb-local"


def test_another_engine_is_refused_while_a_stage_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="the running stage has the engine dynamodb-local: add FRESH=1"):
        call_up(monkeypatch, "--engine", "emulator")


def test_a_failed_deployment_over_a_stage_leaves_it_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Deployed:
        raise RuntimeError("cdk deploy failed")

    monkeypatch.setattr(up, "deploy_over", fail)
    with pytest.raises(SystemExit, match=r"FAILED: cdk deploy failed\nThe stage still runs"):
        up._change_stage(RUNNING, ROOT / "tidetable.toml", None)


def test_only_a_stage_that_answers_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    record = tmp_path / "emulator.json"
    monkeypatch.setattr(keep, "_FILE", record)
    assert keep.find_running_stage() is None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    stage: dict[str, object] = {
        "pids": [],
        "folder": str(tmp_path),
        "dynamodb": "http://127.0.0.1:2",
        "engine": "emulator",
        "clock": None,
    }
    record.write_text(json.dumps(stage | {"endpoint": f"http://127.0.0.1:{port}"}))
    assert keep.find_running_stage() is None, "nothing listens there"
    server = HTTPServer(("127.0.0.1", 0), Healthy)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        record.write_text(json.dumps(stage | {"endpoint": endpoint}))
        assert keep.find_running_stage() == RunningStage(tmp_path, endpoint, "http://127.0.0.1:2", "emulator")
        record.write_text(json.dumps(stage | {"endpoint": endpoint, "folder": str(tmp_path / "gone")}))
        assert keep.find_running_stage() is None, "the machine was started anew"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Healthy(BaseHTTPRequestHandler):
    """An emulator that answers its health."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_ministack/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
