"""The documents of a run: the report of its actions, and the notices to other systems."""

from typing import Any

from tests.lifecycle.world import NOON, World
from tidetable.copies.catalog_copies import CatalogCopy
from tidetable.copies.table_copies import Copy, CopyTrouble, DeleteCopy
from tidetable.feed.mappings import FeedStep
from tidetable.lifecycle import RunReport
from tidetable.lifecycle.report import Done, Notice, make_notices
from tidetable.upkeep import actions

REASON = "it meets the writable window or is among the next periods"
STEP = {
    "action": "create",
    "stream": "s",
    "period": "2026-03-14",
    "table": "tidetable-t.s.2026-03-14",
    "reason": REASON,
    "outcome": "failed",
    "detail": "LimitExceededException: the account's table limit is reached",
}


def test_the_actions_of_a_run_have_their_order() -> None:
    """What events need at once comes first. A table is raised before it is scaled, and closed before it is archived."""
    ranked: list[Any] = [
        actions.Create, actions.Open, actions.Reopen, actions.Unscale, actions.SetCapacity, actions.SetClass,
        actions.Scale, Copy, actions.Close, actions.Archive, actions.Delete, DeleteCopy,
        actions.Deferred, actions.Lost, actions.Unseen, actions.Stuck, CopyTrouble,
    ]  # fmt: skip
    assert [action.rank for action in ranked] == list(range(17))
    findings = (actions.Deferred, actions.Lost, actions.Unseen, actions.Stuck, CopyTrouble)
    assert [finding.outcome for finding in findings] == ["deferred", "lost", "failed", "failed", "failed"]


def test_a_report_says_all_that_a_run_saw_and_did() -> None:
    world = World()
    world.tables.fails = {"tidetable-t.s.2026-03-14"}
    world.catalog.ensure_secret = lambda: 1 / 0  # type: ignore[method-assign, assignment]
    document = world.run().document()
    assert document.pop("actions")[0] == STEP
    assert document == {
        "now": "2026-03-15T12:00:00.000000Z",
        "dry_run": False,
        "healthy": False,
        "skipped": None,
        "tables": 3,
        "troubles": ["the secret of cursors could not be made: ZeroDivisionError: division by zero"],
        "without_next_table": ["s"],
        "archives_overdue": [],
        "changes": [],
        "backfills": [],
        "removed_streams": [],
        "feeds": [],
        "catalog_copies": [],
    }


def test_a_dry_run_says_that_it_is_one() -> None:
    planned = World().run(dry_run=True).document()
    assert (planned["dry_run"], planned["healthy"], planned["tables"]) == (True, True, 0)
    assert planned["actions"][0] == STEP | {"outcome": "planned", "detail": ""}


def test_a_run_is_healthy_if_nothing_failed_was_lost_or_was_not_seen() -> None:
    (action, *_) = [done.action for done in World().run(dry_run=True).done]
    step, copy = FeedStep("map", "t", "why"), CatalogCopy("copy", "eu-west-1")
    good: dict[str, Any] = {
        "done": [Done(action, "done"), Done(action, "deferred"), Done(action, "planned")],
        "feeds": [step._replace(outcome="done"), step._replace(outcome="deferred")],
        "catalog_copies": [copy._replace(outcome="done"), copy._replace(outcome="deferred")],
    }
    bad: dict[str, list[Any]] = {
        "done": [[Done(action, "failed")], [Done(action, "lost")]],
        "feeds": [[step._replace(outcome="failed")]],
        "catalog_copies": [[copy._replace(outcome="failed")]],
        "troubles": [["it was not seen"]],
    }
    assert make_report(**good).healthy is True
    for name, cases in bad.items():
        for case in cases:
            assert make_report(**(good | {name: case})).healthy is False
            assert make_report(**(good | {name: case}), skipped="another run").healthy is None


def make_report(**found: Any) -> RunReport:
    return RunReport(NOON, dry_run=False, **found)


def test_a_notice_says_which_period_and_why() -> None:
    world = World()
    first, *_ = make_notices(world.run(), "stage")
    assert first == Notice(
        "Period Table Created",
        {
            "stage": "stage",
            "stream": "s",
            "period": "2026-03-14",
            "start": "2026-03-14T00:00:00.000000Z",
            "end": "2026-03-15T00:00:00.000000Z",
            "table": "tidetable-t.s.2026-03-14",
            "reason": REASON,
        },
    )
