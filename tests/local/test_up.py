"""`make local`: its output, and its refusals before anything is started."""

import sys
from pathlib import Path

import pytest

from local import Deployed, up
from tests.worlds.configs import ROOT
from tidetable.config import load


class Log:
    """The attributes of an emulator that the text needs."""

    log = Path("/somewhere/emulator.log")


def test_it_prints_all_that_a_user_needs() -> None:
    file = ROOT / "examples" / "telemetry" / "tidetable.toml"
    stage = Deployed("http://127.0.0.1:1", "http://127.0.0.1:1/api", "key", {}, "http://127.0.0.1:2")
    text = up.describe_stage(Log(), stage, file, load(file))  # type: ignore[arg-type]
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
    for name in load(file).streams:
        assert f"$URL/v1/streams/{name}/events?series=a&from=-1h" in text


def test_it_prints_no_request_that_sends_events_to_a_rollup() -> None:
    file = ROOT / "examples" / "follows" / "tidetable.toml"
    rollups = {name for name, stream in load(file).streams.items() if stream.source}
    stage = Deployed("http://127.0.0.1:1", "http://127.0.0.1:1/api", "key", {})
    lines = up.describe_stage(Log(), stage, file, load(file)).splitlines()  # type: ignore[arg-type]
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
