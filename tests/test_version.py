"""One version: the functions, the command line, the construct and the client read it from one line."""

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from typer.testing import CliRunner

from cli.start import load_app

ROOT = Path(__file__).parents[1]
VERSION = "0.1.0.dev0"


@pytest.mark.parametrize("package", ["cdk", "clients/python"])
def test_a_package_has_the_projects_version(package: str) -> None:
    config = tomllib.loads((ROOT / package / "pyproject.toml").read_text())
    assert ProjectMetadata(str(ROOT / package), PluginManager(), config).version == VERSION


def test_the_command_line_prints_the_version_and_does_nothing_else() -> None:
    printed = CliRunner().invoke(load_app(["--version"]), ["--version"])
    assert (printed.exit_code, printed.output) == (0, f"tidetable {VERSION}\n")


def test_the_version_is_written_in_one_place() -> None:
    found = [
        file.relative_to(ROOT).as_posix()
        for folder in ("lambdas", "infra", "cli", "clients/python/src", "cdk", "local")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if re.search(r"\b0\.1\.0", file.read_text())
    ]
    assert found == ["lambdas/tidetable/version.py"]
