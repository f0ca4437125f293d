"""`check` and `cost` of a stream that lowers its tables for late events."""

import json
from pathlib import Path

import pytest

from tests.worlds.commands import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "late.toml"


LATE = """
[streams.s]
period = "day"
late = "7d"
retention = 14
[streams.s.key]
partition_by = "series"
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
[streams.s.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 100, read = 10, index = { by_kind = { write = 50, read = 2 } } },
    { age = "late", write = 1, read = 10, index = { by_kind = { write = 1, read = 2 } } },
    { age = 1, write = 1, read = 1 },
]
"""
STEP = '    { age = "late", write = 1, read = 10, index = { by_kind = { write = 1, read = 2 } } },\n'
# Seven tables are lowered, all but 15 minutes of the time of one of them: 99 units of the table and 49 of its index.
SAVED = (7 - 0.25 / 24) * (99 + 49) * 0.00065 * 730


def test_days_show_the_tables_that_are_lowered_for_late_events(file: Path) -> None:
    file.write_text(LATE)
    (last,) = json.loads(run("cost", str(file), "--days", "30", "--json").output)["days"]["s"][-1:]
    # At noon: the day, 7 lowered, 7 closed, 2 ahead; table and index each time.
    assert (last["open"], last["late"], last["closed"], last["ahead"]) == (8, 7, 7, 2)
    assert last["write"] == (100 + 50) + 7 * (1 + 1) + 7 * (1 + 1) + 2 * (1 + 1)
    assert last["read"] == (10 + 2) * 8 + 7 * (1 + 1) + 2 * (1 + 1)
    assert "late" in run("cost", str(file), "--days", "2").output
    file.write_text(LATE.replace(STEP, ""))
    (last,) = json.loads(run("cost", str(file), "--days", "30", "--json").output)["days"]["s"][-1:]
    assert (last["open"], last["late"], last["write"]) == (8, 0, 8 * (100 + 50) + 9 * (1 + 1))


def test_cost_says_what_the_step_for_late_events_saves_or_would_save(file: Path) -> None:
    words = ("cost", str(file), "--rate", "50", "--json")
    savings = []
    for text in (LATE, LATE.replace(STEP, ""), LATE.replace(STEP, "").replace('late = "7d"', 'late = "30m"')):
        file.write_text(text)
        found = json.loads(run(*words).output)["alternatives"]
        savings += [(setting["name"], setting["saving"]) for setting in found if "late" in setting["name"]]
    assert [name for name, _ in savings] == ["no step for late events", *["a step for late events"] * 2]
    assert [saving for _, saving in savings[:2]] == pytest.approx([-SAVED, SAVED], rel=0.002)
    # In the middle of the first hour the table of the day before is still open, and lowered.
    assert savings[2][1] == pytest.approx(1 / 24 * (99 + 49) * 0.00065 * 730, rel=0.002)


def test_check_does_not_warn_of_open_tables_that_are_lowered(file: Path) -> None:
    file.write_text(LATE)
    assert "tables are open at once" not in run("check", str(file)).output
    file.write_text(LATE.replace(STEP, ""))
    assert "late: 8 tables are open at once" in run("check", str(file)).output
