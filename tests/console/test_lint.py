"""The linter of the console's code: the code keeps its rules, and the rules find what they are there for."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.worlds.configs import ROOT

# ESLint as a program takes a third of a second to start, so one process looks at all samples.
_PROGRAM = """
import { ESLint } from "eslint";
import { text } from "node:stream/consumers";
const linter = new ESLint({ overrideConfigFile: "console/eslint.config.mjs" });
const broken = [];
for (const code of JSON.parse(await text(process.stdin))) {
    const files = await linter.lintText(code, { filePath: "console/js/sample.js" });
    broken.push(files.flatMap((file) => file.messages.map((message) => message.ruleId)));
}
process.stdout.write(JSON.stringify(broken));
"""


def run_node(command: list[str], text: str | None = None) -> Any:
    """The JSON that a program of Node.js prints, whatever its status."""
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_the_code_of_the_console_keeps_every_rule() -> None:
    command = ["node_modules/.bin/eslint", "-c", "console/eslint.config.mjs", "--format", "json", "console/js"]
    files = run_node(command)
    assert len(files) > 10
    assert [message["ruleId"] for file in files for message in file["messages"]] == []


# A line of code, and the rule that it breaks.
SAMPLES = [
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
]


CLEAN = 'document.title = "x";'


def test_each_rule_finds_what_it_is_for_and_nothing_else() -> None:
    codes = [*(code for code, _ in SAMPLES), CLEAN]
    *broken, clean = run_node(["node", "--input-type=module", "--eval", _PROGRAM], json.dumps(codes))
    missed = [(code, rule, rules) for (code, rule), rules in zip(SAMPLES, broken, strict=True) if rule not in rules]
    assert missed == []
    assert clean == []
