"""The files for GitHub: valid by the published schemas, and true to the Makefile and the README."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(file for file in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if file.name != "config.yml")
SCHEMAS = [
    *(("github-workflows", file) for file in WORKFLOWS),
    *(("github-issue-forms", file) for file in FORMS),
    ("github-issue-config", ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"),
    ("dependabot", ROOT / ".github" / "dependabot.yml"),
]


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def list_steps(file: Path) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    return [step for job in read(file)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("schema, file", SCHEMAS, ids=lambda value: value.name if isinstance(value, Path) else value)
def test_a_file_is_valid(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_few_rights_pinned_actions_and_an_end(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert re.fullmatch(r"[a-z]+-[0-9.]+", job["runs-on"]), "a moving image changes without a commit"
    uses = [step["uses"] for step in list_steps(file) if "uses" in step]
    assert [action for action in uses if not re.fullmatch(r"[\w-]+/[\w-]+@v[0-9]+", action)] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_runs_commands_of_the_makefile_alone(file: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = [step["run"] for step in list_steps(file) if "run" in step]
    assert commands
    for command in commands:
        goal = command.removeprefix("make ")
        assert re.search(rf"^{re.escape(goal)}:.*## ", makefile, re.MULTILINE), command


def test_the_tests_run_on_the_versions_that_the_readme_names() -> None:
    matrix = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"python": ["3.11", "3.12", "3.13"], "node": [22, 24]}
    assert "Python 3.11 or newer and Node.js 22 or newer" in (ROOT / "README.md").read_text()


def test_the_hooks_run_what_make_check_runs() -> None:
    hooks = [hook["entry"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    recipe = (ROOT / "Makefile").read_text().partition("\ncheck: ")[2].partition("\n\n")[0].splitlines()[1:]
    checks = [line.strip().replace("$(PY)", ".venv/bin/python") for line in recipe]
    for check in checks:
        words = check.removesuffix(" .").removesuffix(" console/js").split()
        paths = [word for word in words if word.startswith("tests/")]
        if paths:
            assert all(any(path in hook for hook in hooks) for path in paths), check
        else:
            assert any(hook.split()[: len(words)] == words for hook in hooks), check


def test_each_folder_with_pinned_packages_is_kept_up_to_date() -> None:
    updates = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"pip", "npm", "github-actions"}
    (pip,) = (update for update in updates if update["package-ecosystem"] == "pip")
    folders = {f"/{file.parent.relative_to(ROOT)}".rstrip(".") for file in ROOT.glob("*/requirements*.txt")} | {"/"}
    assert folders <= {*pip["directories"]}


def test_the_report_of_a_bug_asks_for_the_doctor() -> None:
    bug = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")
    (doctor,) = (field for field in bug["body"] if field.get("id") == "doctor")
    assert doctor["validations"]["required"] is True
    assert "bin/tidetable doctor" in doctor["attributes"]["label"]
