"""The Makefile: each variable reaches its command, or is an error. Only make itself is run. And the command line's start."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.worlds.configs import ROOT

ORDERS = "examples/orders/tidetable.toml"


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["synth", f"CONFIG={ORDERS}"], f"cdk synth -c stage=dev -c config={ORDERS}"),
        (["deploy", f"CONFIG={ORDERS}", "STAGE=prod"], f"cdk deploy -c stage=prod -c config={ORDERS}"),
        (
            ["deploy", "STAGE=prod", "ROLE=reader", "ORIGIN=us-east-1"],
            "cdk deploy -c stage=prod  -c role=reader -c origin=us-east-1",
        ),
        (["destroy", f"CONFIG={ORDERS}"], f"cdk destroy -c stage=dev -c config={ORDERS}"),
        (["local", f"CONFIG={ORDERS}"], f"-m local.up --config {ORDERS}"),
        (["wheel", "PLATFORMS=local"], "-m cdk.bundle local"),
        (["fixtures"], "PYTHONPATH=lambdas:. .venv/bin/python -m tests.formats.make"),
        (["lists"], "PYTHONPATH=lambdas:. .venv/bin/python -m tests.console.lists"),
        (["local", "ENGINE=dynamodb-local"], "-m local.up  --engine dynamodb-local"),
        (["local", "FRESH=1"], "-m local.up   --fresh"),
        (
            ["demo", f"CONFIG={ORDERS}", "KEEP=1"],
            f"-m examples.earthquakes.demo --config {ORDERS}  --keep",
        ),
    ],
)
def test_a_variable_reaches_its_command(words: list[str], command: str) -> None:
    done = make(*words)
    assert done.returncode == 0, done.stderr
    assert command in done.stdout


def test_keep_may_be_switched_off() -> None:
    assert "--keep" not in make("demo", "KEEP=0").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["synth", "CONFG=x.toml"], "make synth takes no CONFG; it takes: CONFIG ORIGIN PYTHON ROLE STAGE"),
        (
            ["test", f"CONFIG={ORDERS}"],
            "make test takes no CONFIG; it takes: PYTHON. To check a configuration: bin/tidetable check FILE",
        ),
        (["deploy", "CONFIG=none.toml"], "CONFIG=none.toml: there is no such file"),
        (["local", "ENGINE=mysql"], "ENGINE=mysql: use emulator or dynamodb-local"),
    ],
)
def test_a_variable_that_would_be_passed_over_is_an_error(words: list[str], message: str) -> None:
    done = make(*words)
    assert done.returncode == 2
    assert message in done.stderr


def test_the_command_line_names_make_setup_if_its_environment_is_missing(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = shutil.copy(ROOT / "bin" / "tidetable", tmp_path / "bin")
    done = subprocess.run([command, "check", "shop.toml"], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bin/tidetable needs Python packages that are not installed here. Run: make setup\n"
