"""The start: a command imports its own module alone, and works as with all others."""

import json
import subprocess
import sys

import pytest

from cli.app import app
from cli.start import MODULES
from tests.worlds.commands import ROOT

_PROGRAM = """
import json, sys
from cli.start import load_app
app = load_app(sys.argv[1:])
print(json.dumps(sorted(name for name in sys.modules if name.startswith("cli."))), file=sys.stderr)
app(sys.argv[1:], prog_name="tidetable")
"""


def start(*words: str) -> tuple[set[str], str]:
    """The modules that the words import, and what they print, in a new process."""
    paths = [str(ROOT), str(ROOT / "lambdas"), str(ROOT / "clients" / "python" / "src")]
    program = f"import sys\nsys.path[:0] = {paths!r}\n{_PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(done.stderr)), done.stdout


def test_each_command_is_found_in_its_module() -> None:
    found = {
        command.name or command.callback.__name__: command.callback.__module__
        for command in app.registered_commands
        if command.callback is not None
    }
    groups = {str(group.name): "cli.credentials" for group in app.registered_groups}
    assert {name: f"cli.{module}" for name, module in MODULES.items()} == found | groups


@pytest.mark.parametrize(("word", "module"), [("console", "cli.console"), ("keys", "cli.credentials")])
def test_a_command_imports_no_other(word: str, module: str) -> None:
    modules, shown = start(word, "--help")
    every = {
        "cli.act",
        "cli.advise",
        "cli.console",
        "cli.estimate",
        "cli.importing",
        "cli.credentials",
        "cli.reading",
        "cli.show",
    }
    assert modules & every == {module}
    assert f"Usage: tidetable {word} " in " ".join(shown.split())


def test_without_a_command_all_are_listed() -> None:
    modules, shown = start("--help")
    assert {"cli.act", "cli.console", "cli.credentials", "cli.show"} < modules
    words = set(shown.split())
    assert set(MODULES) <= words
