"""The report of a lifecycle run as text: what it says beside its actions, and what is pending."""

from typing import Any

import pytest

from cli.common import is_pending, show_report

NOTHING: dict[str, Any] = {"skipped": None, "tables": 1234, "actions": []}
COPY = {"action": "create", "region": "eu-west-1", "outcome": "planned", "detail": "ten minutes"}
FEED = {"action": "map", "table": "tidetable-t.s.2026-03-15", "reason": "", "outcome": "deferred", "detail": ""}


def shown(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    show_report(NOTHING | more, as_json=False)
    return " ".join(capsys.readouterr().out.split())


def test_a_removed_stream_and_a_change_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, removed_streams=[{"stream": "old", "tables": 3}], changes=["s: shards 1 -> 2"])
    assert "old left the configuration: its 3 tables are handled by its last policy" in text
    assert "not in force yet: s: shards 1 -> 2" in text
    assert "nothing to do: 1234 tables are as they should be" in text


def test_a_run_that_was_skipped_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, skipped="another run is under way")
    assert text == "nothing was done: another run is under way"


def test_a_copy_of_the_catalog_is_a_step_with_its_region(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, catalog_copies=[COPY])
    assert "catalog: create" in text
    assert "replicas names eu-west-1: ten minutes" in text
    assert "nothing to do" not in text


@pytest.mark.parametrize(
    ("more", "pending"),
    [
        ({}, False),
        ({"actions": [{}]}, True),
        ({"catalog_copies": [COPY]}, True),
        ({"catalog_copies": [COPY | {"outcome": "deferred"}]}, False),
        ({"feeds": [FEED]}, False),
        ({"feeds": [FEED, FEED | {"outcome": "planned"}]}, True),
    ],
)
def test_what_the_next_run_does_is_pending(more: dict[str, Any], pending: bool) -> None:
    assert is_pending(NOTHING | more) is pending
