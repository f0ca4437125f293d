"""The converter of access logs: the event of each line, and equal events from equal files."""

import json
import re
import subprocess
import sys

import pytest

from examples.weblogs.convert import convert_lines
from tests.worlds.configs import ROOT

LINE = 'shop.example 192.0.2.7 - c7 [31/Mar/2026:12:30:05 +0200] "GET /pay?v=3 HTTP/1.1" 503 1234 0.912'
USUAL = LINE.replace("- c7", "- -").replace(" 503 ", " 200 ").replace("0.912", "0.031")


def test_a_line_becomes_an_event() -> None:
    (event,) = convert_lines([LINE + "\n"])
    assert event["id"] == "0f023c0ea409615706e70f2a"
    assert event == {
        "series": "shop.example",
        "time": "2026-03-31T12:30:05+02:00",
        "id": event["id"],
        "data": {
            "method": "GET",
            "path": "/pay",
            "status": 503,
            "bytes": 1234,
            "ms": 912,
            "address": "192.0.2.7",
            "customer": "c7",
            "error": "503",
            "slow_ms": 912,
        },
    }


def test_only_the_events_that_are_looked_for_have_the_fields_of_the_sparse_indexes() -> None:
    at_the_limit = USUAL.replace("0.031", "0.200").replace(" 200 ", " 499 ")
    for event in convert_lines([USUAL, at_the_limit]):
        assert event["data"].keys() == {"method", "path", "status", "bytes", "ms", "address"}


def test_equal_lines_of_one_second_are_several_events_and_the_same_ones_each_time() -> None:
    later = USUAL.replace(":05 ", ":06 ")
    first = [event["id"] for event in convert_lines([USUAL, USUAL, later, later])]
    assert len(set(first)) == 4
    assert [event["id"] for event in convert_lines([USUAL, USUAL, later, later])] == first


def test_a_line_of_another_format_is_named() -> None:
    with pytest.raises(ValueError, match=r"line 2 does not have the documented log_format: 192\.0\.2\.7 - -"):
        list(convert_lines([LINE, '192.0.2.7 - - [31/Mar/2026:12:30:05 +0200] "GET / HTTP/1.1" 200 5']))


def test_the_command_of_the_readme_prints_events() -> None:
    readme = (ROOT / "examples" / "weblogs" / "README.md").read_text()
    (command,) = re.findall(
        r"^    (python -m examples\.weblogs\.data .*) \| python examples/python/send", readme, re.MULTILINE
    )
    script = f"set -o pipefail; {command.replace('python ', f'{sys.executable} ')}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(events) >= 12
    assert {event["series"] for event in events} == {"shop.example"}
