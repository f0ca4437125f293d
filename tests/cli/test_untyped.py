"""`status` names the declared columns that do not hold all values of the archived periods."""

import json

from tests.fakes.stage import Stage
from tests.worlds.commands import run
from tidetable.catalog import ArchiveFacts, State


def test_status_names_the_columns_that_do_not_hold_all_values(stage: Stage) -> None:
    for label, untyped in (
        ("2026-03-15T09", {"ms": 3000}),
        ("2026-03-15T10", {"ms": 458, "code": 1}),
        ("2026-03-15T11", {}),
    ):
        entry = next(entry for entry in stage.catalog.entries("s") if entry.period.label == label)
        facts = ArchiveFacts("m", 9, 9, entry.created_at, untyped=untyped)
        stage.catalog.move(entry, State.ARCHIVED, expected=[entry.state], archive=facts)
    stage.clock.sleep(10)  # reads of the catalog may lag
    shown = run("status")
    assert shown.exit_code == 0, shown.output
    said = "s: values that their declared column does not hold, in 2 archived periods: code 1, ms 3,458."
    assert said in shown.output
    rows = json.loads(run("status", "--json").output)
    assert {row["period"]: row["untyped"] for row in rows if row["untyped"]} == {
        "2026-03-15T09": {"ms": 3000},
        "2026-03-15T10": {"ms": 458, "code": 1},
    }


def test_status_says_nothing_of_columns_that_hold_all_values(stage: Stage) -> None:
    assert "declared column" not in run("status").output
