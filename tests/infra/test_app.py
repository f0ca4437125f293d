"""app.py as a program: its messages for an invalid stage or configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest

from app import main
from tests.infra.synth import JSII_CACHE, ROOT


def _run(folder: Path, stage: str) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK command line does, without credentials, a Region or a home that could hold them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_", "JSII_"))}
    environment |= {
        "CDK_CONTEXT_JSON": json.dumps({"stage": stage}),
        "CDK_OUTDIR": str(folder / "cdk.out"),
        "HOME": str(folder),
        "AWS_EC2_METADATA_DISABLED": "true",
    } | JSII_CACHE
    command = [sys.executable, str(ROOT / "app.py")]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def test_the_configuration_is_named_before_anything_else_is_done(tmp_path: Path) -> None:
    environment = os.environ | {
        "CDK_CONTEXT_JSON": json.dumps({"stage": "dev", "config": "examples/orders/tidetable.toml"}),
        "CDK_OUTDIR": str(tmp_path / "cdk.out"),
    }
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, str(ROOT / "app.py")], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stderr is not None
        # jsii may print a warning about Node.js first.
        said = next(line for line in started.stderr if line.startswith("configuration"))
        started.kill()
    assert said == "configuration: examples/orders/tidetable.toml, streams: orders\n"


def test_a_stage_that_cannot_be_used(tmp_path: Path) -> None:
    done = _run(tmp_path, stage="Prod")
    assert done.returncode == 1
    assert "stage 'Prod'" in done.stderr
    assert "-c stage=" in done.stderr
    assert "Traceback" not in done.stderr
    assert "end-of-life" not in done.stderr, "jsii's warning about Node.js would hide what is wrong"


def _exit_message(monkeypatch: pytest.MonkeyPatch, folder: Path, config: Path) -> str:
    """The message with which app.py ends for a configuration. In this process, as each process starts another Node.js."""
    app = cdk.App(context={"stage": "dev", "config": str(config)}, outdir=str(folder / "cdk.out"))
    monkeypatch.setattr(cdk, "App", lambda: app)
    with pytest.raises(SystemExit) as ended:
        main()
    # Python writes a text to stderr, and ends with status 1, as the test before sees.
    assert isinstance(ended.value.code, str)
    return ended.value.code


def test_a_configuration_with_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[api]\nauth = "none"\n[streams.quakes]\nperiod = "fortnight"\n')
    message = _exit_message(monkeypatch, tmp_path, file)
    assert "bad.toml" in message
    assert "auth" in message
    assert "period" in message


def test_a_configuration_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none.toml does not exist" in _exit_message(monkeypatch, tmp_path, tmp_path / "none.toml")
