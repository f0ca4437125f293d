"""The README's requests, run as they are written."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from local import Deployed

README = (Path(__file__).parents[2] / "README.md").read_text()
COMMANDS = re.findall(r"^    (curl (?:[^\n]*\\\n)*[^\n]*)$", README, re.MULTILINE)


def test_there_are_requests_to_run() -> None:
    assert len(COMMANDS) == 7


@pytest.mark.parametrize("command", COMMANDS)
def test_a_request_of_the_readme_is_answered(command: str, deployed: Deployed) -> None:
    environment = {"PATH": os.environ["PATH"], "URL": deployed.api, "KEY": deployed.key}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)  # noqa: S603, S607
    if "format=csv" in command:
        assert done.stdout.startswith("series,time,id"), "the header is there whatever is found"
        return
    answer = json.loads(done.stdout)
    (kind,) = answer.keys() & {"accepted", "events", "periods", "top", "aggregates"}
    if "quakes" in command:
        # The first command sends an event, which every later command about its stream finds.
        assert answer[kind], answer
