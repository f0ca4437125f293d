"""The linter of the console's code: the code keeps its rules, and the rules find what they are there for."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.worlds.configs import ROOT


def lint(*arguments: str, code: str | None = None) -> list[str]:
    """The rules that are broken."""
    command = ["node_modules/.bin/eslint", "-c", "console/eslint.config.mjs", "--format", "json", *arguments]
    done = subprocess.run(command, cwd=ROOT, input=code, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    assert done.stdout, done.stderr
    return [message["ruleId"] for file in json.loads(done.stdout) for message in file["messages"]]


def test_the_code_of_the_console_keeps_every_rule() -> None:
    assert lint("console/js") == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('document.body.innerHTML = "x";', "no-restricted-properties"),
        ('document.body["outerHTML"] = "x";', "no-restricted-properties"),
        ('document.body.insertAdjacentHTML("beforeend", "x");', "no-restricted-properties"),
        ('document.write("x");', "no-restricted-properties"),
        ('document.body.setAttribute("onclick", "x");', "no-restricted-syntax"),
        ('document.body.setAttribute("style", "x");', "no-restricted-syntax"),
        ("window.alert(document.cookie);", "no-restricted-properties"),
        ('eval("x");', "no-eval"),
        ('setTimeout("x", 1);', "no-implied-eval"),
        ('document.body.href = "javascript:x";', "no-script-url"),
        ("if (document.title == 1) document.title = 2;", "eqeqeq"),
        ("const unused = 1;", "no-unused-vars"),
        ("let same = 1; document.title = same;", "prefer-const"),
        ("XMLHttpRequest();", "no-undef"),
    ],
)
def test_a_rule_finds_what_it_is_for(code: str, rule: str) -> None:
    assert rule in lint("--stdin", "--stdin-filename", "console/js/sample.js", code=code)
