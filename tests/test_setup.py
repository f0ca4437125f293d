"""What is installed for the demo, for the commands and for the tests: complete lists, and each command with its own."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.packages import find_bundle

ROOT = Path(__file__).parents[1]
# ministack requires them, but imports them only for services that a stage does not use.
UNUSED = {"graphql-core", "jsonata-python"}


def read_list(name: str) -> dict[str, Requirement]:
    lines = (ROOT / name).read_text().splitlines()
    found = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


DEMO = read_list("requirements-demo.txt")


def list_imports(file: Path) -> set[str]:
    """The packages that a module imports at its start, without those of the project and of Python."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names - sys.stdlib_module_names - {"local", "infra", "cdk", "examples", "tidetable", "aws"}


def test_the_demos_list_has_each_package_that_its_modules_import() -> None:
    files = [ROOT / "app.py", *(ROOT / "local").glob("*.py"), *(ROOT / "infra").glob("*.py")]
    files += [ROOT / "cdk" / "packages.py"]
    files += [*(ROOT / "examples" / "earthquakes").glob("*.py"), *(ROOT / "lambdas" / "tidetable").rglob("*.py")]
    imported = set.union(*map(list_imports, files))
    assert imported == {"aws_cdk", "boto3", "botocore", "constructs", "ministack", "msgspec", "urllib3"}
    owners = packages_distributions()
    assert all({*map(canonicalize_name, owners[name])} & {*DEMO} for name in imported)


def test_the_demos_list_has_all_that_its_packages_require() -> None:
    missing = set()
    for name in DEMO:
        if name == "libfaketime":
            continue
        for text in distribution(name).requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                missing |= {canonicalize_name(requirement.name)} - {*DEMO}
    assert missing == UNUSED
    # With pip, and with the setuptools that Python 3.11 adds to a virtual environment.
    assert len(DEMO) + 2 <= 40


def test_the_demos_packages_are_pinned() -> None:
    pins = (ROOT / "lambdas" / "requirements.txt").read_text()
    for name, requirement in DEMO.items():
        pin = str(requirement.specifier) or re.findall(rf"^{name}(==.*)$", pins, re.MULTILINE)[0]
        assert pin == f"=={distribution(name).version}", name


def test_npm_installs_only_what_the_demo_needs_without_the_tests_packages() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    assert {*package["dependencies"]} == {"@aws-sdk/client-s3", "aws-cdk", "uplot"}
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert lock[""]["dependencies"] == package["dependencies"]
    assert lock[""]["devDependencies"] == package["devDependencies"]
    assert sum(not entry.get("dev") for entry in lock.values()) <= 40


@pytest.mark.parametrize(
    ("goal", "lists", "npm"),
    [
        ("demo", ["--no-deps -r requirements-demo.txt"], "npm ci --no-fund --no-audit --omit=dev"),
        ("local", ["-r requirements-tools.txt"], "npm ci --no-fund --no-audit --omit=dev"),
        ("deploy", ["-r requirements-tools.txt"], "npm ci --no-fund --no-audit --omit=dev"),
        ("setup", ["-r requirements-tools.txt"], "npm ci --no-fund --no-audit --omit=dev"),
        ("test", ["-r requirements.txt"], "npm ci --no-fund --no-audit"),
        ("check", ["-r requirements.txt"], "npm ci --no-fund --no-audit"),
        ("stop", [], ""),
    ],
)
def test_a_command_installs_what_it_needs(tmp_path: Path, goal: str, lists: list[str], npm: str) -> None:
    for file in (ROOT / "Makefile", *ROOT.glob("requirements*.txt"), *ROOT.glob("package*.json")):
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "lambdas").symlink_to(ROOT / "lambdas")
    shown = subprocess.run(["make", "-n", goal], cwd=tmp_path, capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    assert re.findall(r"install --no-compile (.*)$", shown, re.MULTILINE) == lists
    assert [line.strip() for line in re.findall(r"^npm ci.*$", shown, re.MULTILINE)] == ([npm] if npm else [])


def test_the_demo_leaves_the_tests_packages_of_npm(tmp_path: Path) -> None:
    for file in (ROOT / "Makefile", *ROOT.glob("requirements*.txt"), *ROOT.glob("package*.json")):
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "lambdas").symlink_to(ROOT / "lambdas")
    (tmp_path / "node_modules").mkdir()
    mark = tmp_path / "node_modules" / ".installed"
    mark.touch()
    os.utime(mark, (0, 0))
    shown = subprocess.run(["make", "-n", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout  # noqa: S607
    assert [line.strip() for line in re.findall(r"^npm ci.*$", shown, re.MULTILINE)] == ["npm ci --no-fund --no-audit"]


def test_the_demo_finds_pyarrow_in_the_code_of_the_deployed_functions(tmp_path: Path) -> None:
    output = tmp_path / "cdk.out"
    output.mkdir()
    for name, package in (("a", "msgspec"), ("b", "pyarrow")):
        (tmp_path / name / package).mkdir(parents=True)
        with zipfile.ZipFile(output / f"asset.{name}.zip", "w") as packed:
            packed.writestr("tidetable-asset-folder", str(tmp_path / name))
    with zipfile.ZipFile(output / "asset.console.zip", "w") as packed:
        packed.writestr("index.html", "")
        packed.writestr("style.css", "")
    assert find_bundle(output, "pyarrow") == tmp_path / "b"
    with pytest.raises(RuntimeError, match=r"no function of .*cdk\.out has the package polars"):
        find_bundle(output, "polars")
