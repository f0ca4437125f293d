"""The warnings about a new key's series prefix."""

from __future__ import annotations

import json

import pytest

from tests.worlds.commands import run

pytestmark = pytest.mark.usefixtures("stage")
SENSORS = ("keys", "create", "--name", "sensors", "--stream", "s")


@pytest.mark.parametrize(
    ("prefix", "warned"),
    [("t7", "t71"), ("TENANT", "TENANT1"), ("é", "é1"), ("t7/", ""), ("t7.", ""), ("t7-", ""), ("t 7_", ""), ("/", "")],
)
def test_a_prefix_without_a_separator_is_warned_of(prefix: str, warned: str) -> None:
    result = run(*SENSORS, "--series-prefix", prefix)
    assert result.exit_code == 0
    expected = f"the prefix {prefix!r} is also the beginning of {warned!r}: end it with a separator, such as {prefix}/"
    assert (expected in result.stderr) is bool(warned)
    assert ("separator" in result.stderr) is bool(warned)
    assert [entry["series_prefix"] for entry in json.loads(run("keys", "list", "--json").output)] == [prefix]


def test_an_operator_with_a_prefix_is_warned_of() -> None:
    said = "the routes of operators show figures of all series, so they refuse a key with a series prefix"
    for options, warned in (
        (("--can", "operate", "--series-prefix", "t7/"), True),
        (("--can", "read", "--series-prefix", "t7/"), False),
        (("--can", "operate"), False),
    ):
        assert (said in run(*SENSORS, *options).stderr) is warned
