"""Copies whose request fails, or whose state does not pass by itself: reported, and the origin goes on."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from strict import Fault, Kind, Rule
from tests.fakes.stage import STAGE
from tests.worlds.copied import (
    DAYS,
    IRELAND,
    NOON,
    TODAY,
    TOKYO,
    TOMORROW,
    copies,
    entry,
    made,
    pass_to,
    run,
    send,
    steps,
    table_of,
    tags_of,
    text,
)
from tests.worlds.entries import make_entry
from tidetable.catalog import State
from tidetable.config import TableClass, parse
from tidetable.lifecycle.observe import Observed
from tidetable.lifecycle.plan import plan
from tidetable.periods import parse_label
from tidetable.ports import Table


@pytest.mark.parametrize("kind", [Kind.TIMEOUT_BEFORE, Kind.TIMEOUT_AFTER])
def test_a_copy_whose_beginning_was_not_answered_is_made_all_the_same(kind: Kind) -> None:
    stage = made(IRELAND)
    run(stage)
    stage.dynamo.faults.add(Fault(kind, operation="UpdateTable"))
    report = run(stage)
    assert {outcome for _, _, outcome in steps(report)} == {"failed"}
    stage.dynamo.faults.clear()
    run(stage, 2)
    assert run(stage).done == []
    assert entry(stage, TODAY).copies.active == (IRELAND,)


def test_a_region_at_its_quota_is_reported_and_the_origin_goes_on() -> None:
    stage = made(IRELAND)
    stage.others[IRELAND].account.without = frozenset({Rule.CHANGES_LAST})
    for number in range(2500):
        stage.others[IRELAND].account.tables[f"n{number}"] = None  # type: ignore[assignment]
    run(stage)
    report = run(stage)
    assert steps(report) == [("copy", day, "failed") for day in DAYS]
    assert "LimitExceededException" in report.done[0].detail
    send(stage, "a")
    assert not report.healthy


def test_rights_that_are_missing_in_the_other_region_are_reported() -> None:
    stage = made(IRELAND)
    run(stage)
    update: Any = stage.client._target.update_table

    def refuse(**members: Any) -> Any:
        if "ReplicaUpdates" in members:
            answer: Any = {
                "Error": {"Code": "AccessDeniedException", "Message": "not authorized to CreateTableReplica"}
            }
            raise ClientError(answer, "UpdateTable")
        return update(**members)

    stage.client._target.update_table = refuse
    report = run(stage)
    assert [(done.outcome, "CreateTableReplica" in done.detail) for done in report.done] == [("failed", True)] * 3


def test_a_copy_is_marked_once_it_has_its_tags() -> None:
    stage = made(IRELAND)
    fault = stage.others[IRELAND].faults.add(Fault(Kind.SERVER_ERROR, "TagResource"))
    run(stage, 2)
    report = run(stage)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "ACTIVE"}
    assert entry(stage, TODAY).copies.active == ()
    assert not report.healthy
    assert f"the copies of {table_of(TODAY)} could not be tagged and marked for s: " in "\n".join(report.troubles)
    fault.times = 0
    assert run(stage).healthy
    assert (entry(stage, TODAY).copies.active, tags_of(stage.others[IRELAND], table_of(TODAY))["tidetable:period"]) == (
        (IRELAND,),
        TODAY,
    )


def test_a_copy_whose_region_does_not_know_it_yet_waits_for_the_next_run() -> None:
    stage = made(IRELAND)
    run(stage, 2)
    ireland = stage.others[IRELAND]
    ireland.account.tables[table_of(TODAY)].seen_from = stage.clock.now() + timedelta(minutes=1)
    report = run(stage)
    assert report.healthy
    assert (entry(stage, TODAY).copies.active, entry(stage, TOMORROW).copies.active) == ((), (IRELAND,))
    run(stage)
    assert entry(stage, TODAY).copies.active == (IRELAND,)


@pytest.mark.parametrize(
    "status",
    [
        "CREATION_FAILED",
        "INACCESSIBLE_ENCRYPTION_CREDENTIALS",
        "REGION_DISABLED",
        "REPLICATION_NOT_AUTHORIZED",
        "ARCHIVED",
    ],
)
def test_a_copy_in_a_state_that_does_not_pass_is_trouble_and_the_table_goes_on(status: str) -> None:
    config = parse(text(IRELAND, TOKYO))
    period = parse_label(TODAY)
    stream = config.streams["s"]
    held = make_entry("s", period, table_of(TODAY), stream.layout, State.OPEN, NOON, replicas=(IRELAND, TOKYO))
    there = {IRELAND: status, TOKYO: "ACTIVE"}
    table = Table(held.table, "ACTIVE", None, None, TableClass.STANDARD, copies=there)
    late = datetime(2026, 3, 16, 1, 5, tzinfo=NOON.tzinfo)
    planned = plan(config, STAGE, late, {"s": Observed([held], {held.table: table})})
    ours = [(action.name, action.reason) for action in planned if action.entry.period == period]
    assert ours == [
        ("class", "standard to infrequent-access; age 1: step 1 of the ladder"),
        ("close", "its events could arrive until 2026-03-16T01:00:00.000000Z"),
        (
            "copy-trouble",
            f"the copy of {held.table} in eu-west-1 is {status}; see the runbook, *Copies in other Regions*",
        ),
    ]


def test_a_table_that_was_only_believed_to_be_there_has_the_copies_of_the_catalog() -> None:
    """A run does not look at every table. It must not make copies that are there, nor delete a table before its copies."""
    stage = made(IRELAND)
    run(stage, 3)
    pass_to(stage, 16, 1, 5)
    run(stage, 2)
    assert all(run(stage).done == [] for _ in range(12)), "the table of the day before is closed, and seldom looked at"
    assert entry(stage, TODAY).copies.active == (IRELAND,)
