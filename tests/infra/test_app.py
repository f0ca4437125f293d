"""app.py as a program: its messages for an invalid stage or configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.infra.synth import ROOT


def _run(folder: Path, **context: str) -> subprocess.CompletedProcess[str]:
    """Run app.py as the CDK command line does, without credentials, a Region or a home that could hold them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    environment |= {
        "CDK_CONTEXT_JSON": json.dumps({"stage": "dev"} | context),
        "CDK_OUTDIR": str(folder / "cdk.out"),
        "HOME": str(folder),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
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


def test_a_configuration_with_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[api]\nauth = "none"\n[streams.quakes]\nperiod = "fortnight"\n')
    done = _run(tmp_path, config=str(file))
    assert done.returncode == 1
    assert "bad.toml" in done.stderr
    assert "auth" in done.stderr
    assert "period" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    done = _run(tmp_path, config=str(tmp_path / "none.toml"))
    assert done.returncode == 1
    assert "none.toml does not exist" in done.stderr
    assert "Traceback" not in done.stderr
