"""Copies of removed and restored streams, of backfills, and of a configuration or a stage that changes."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.copied import (
    DAYS,
    IRELAND,
    NEXT,
    NOON,
    TODAY,
    TOKYO,
    TOMORROW,
    copies,
    describe,
    entry,
    made,
    pass_to,
    run,
    send,
    steps,
    table_of,
    text,
)
from tidetable.catalog import Backfill, Opening, State
from tidetable.config import parse
from tidetable.lifecycle.backfill import open_backfill
from tidetable.lifecycle.removal import remove


def test_a_change_of_replicas_holds_for_new_tables() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    stage.config = parse(text())
    assert run(stage).done == []
    pass_to(stage, 16, 0, 5)
    run(stage, 3)
    assert describe(stage.dynamo, table_of("2026-03-18")).get("StreamSpecification") is None
    assert copies(stage, table_of("2026-03-18")) == {}
    assert copies(stage, table_of(NEXT)) == {IRELAND: "ACTIVE"}
    stage.config = parse(text(IRELAND))
    assert run(stage, 2).done == [], "a table that was made without copies gets none"
    pass_to(stage, 18, 0, 5)
    run(stage, 3)
    assert entry(stage, TODAY).state is State.DELETED
    assert copies(stage, table_of("2026-03-19")) == {IRELAND: "ACTIVE"}


def test_a_region_that_is_no_longer_named_gets_no_copies_and_is_no_trouble() -> None:
    stage = made(IRELAND, TOKYO)
    run(stage, 2)
    stage.config = parse(text(IRELAND))
    stage.clock.sleep(3 * 3600)
    report = run(stage)
    assert (report.healthy, report.done) == (True, [])
    assert copies(stage, table_of(TODAY)) == {IRELAND: "ACTIVE"}
    # Closed tables without that copy are looked at as seldom as others.
    pass_to(stage, 16, 1, 5)
    run(stage, 2)
    looked: list[str] = []
    ask = stage.client._target.describe_table

    def describe_table(**members: Any) -> Any:
        looked.append(members["TableName"])
        return ask(**members)

    stage.client._target.describe_table = describe_table
    run(stage, 12)
    assert looked.count(table_of(TODAY)) == 1


def test_a_removed_streams_tables_get_no_copies_and_lose_those_that_they_have() -> None:
    stage = made(IRELAND)
    run(stage)
    other = text(IRELAND).replace("[streams.s", "[streams.other")
    stage.config = parse(other)
    report = run(stage)
    assert [step for step in steps(report) if step[0] == "copy"] == []
    stage.config = parse(text(IRELAND))
    run(stage, 2)
    stage.config = parse(other)
    pass_to(stage, 18, 0, 5)
    run(stage, 3)
    assert entry(stage, TODAY).state is State.DELETED
    assert describe(stage.others[IRELAND], table_of(TODAY)) == {}
    assert copies(stage, table_of(TOMORROW)) == {IRELAND: "ACTIVE"}


def test_a_restored_table_has_no_copies() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    send(stage, "a", "b")
    pass_to(stage, 18, 0, 5)
    run(stage, 3)
    assert stage.restore("s", TODAY).state is State.CLOSED
    for _ in range(3):
        assert [step for step in steps(run(stage)) if step[1] == TODAY] == []
    assert entry(stage, TODAY).state is State.CLOSED
    described = describe(stage.dynamo, table_of(TODAY))
    assert (described.get("Replicas"), described.get("StreamSpecification")) == (None, None)
    stage.clock.sleep(8 * 86_400)
    run(stage, 3)
    assert entry(stage, TODAY).state is State.DELETED


def test_a_table_that_is_made_for_a_backfill_has_copies_and_is_on_demand() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    start = NOON.replace(day=10, hour=0)
    backfill = Backfill("s", start, start + timedelta(days=1), Opening(NOON + timedelta(days=2), 500, 500))
    open_backfill(backfill, stage.begin_run("backfill", lambda: 200.0))
    stage.clock.sleep(60)
    assert steps(run(stage)) == [("copy", "2026-03-10", "done")]
    assert run(stage).done == []
    assert entry(stage, "2026-03-10").copies.active == (IRELAND,)
    for service in (stage.dynamo, stage.others[IRELAND]):
        assert describe(service, table_of("2026-03-10"))["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}


def test_the_table_of_parts_has_its_copy_first_and_loses_it_first() -> None:
    stage = made(IRELAND, more='large = { beyond = "chunks" }')
    parts = table_of(TODAY, ".parts")
    run(stage)
    run(stage)
    assert (copies(stage, parts), copies(stage, table_of(TODAY))) == ({IRELAND: "ACTIVE"}, {})
    assert entry(stage, TODAY).copies.active == ()
    run(stage)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "ACTIVE"}
    assert run(stage).done == []
    assert entry(stage, TODAY).copies.active == (IRELAND,)
    pass_to(stage, 18, 0, 5)
    run(stage)
    assert (copies(stage, parts), copies(stage, table_of(TODAY))) == ({}, {IRELAND: "ACTIVE"})
    run(stage)
    run(stage)
    assert entry(stage, TODAY).state is State.DELETED
    assert [describe(stage.others[IRELAND], name) for name in (parts, table_of(TODAY))] == [{}, {}]


def test_nothing_is_copied_before_the_stage_stands() -> None:
    stage = Stage(NOON, text(IRELAND), regions=[IRELAND])
    run(stage)
    assert (run(stage).done, copies(stage, table_of(TODAY))) == ([], {})
    stage.catalog.mark_deployed()
    assert steps(run(stage)) == [("copy", day, "done") for day in DAYS]


@pytest.mark.parametrize("removal", ["delete", "keep"])
def test_the_removal_of_the_stage_takes_the_copies_of_tables_that_go(removal: str) -> None:
    stage = made(IRELAND, more=f'removal = "{removal}"')
    run(stage, 3)
    end = stage.clock.now() + timedelta(minutes=40)
    world = stage.begin_run("owner", lambda: (end - stage.clock.now()).total_seconds())
    removed = remove(world)
    gone = removal == "delete"
    stage.clock.sleep(60)
    assert sorted(removed.tables) == ([table_of(day) for day in DAYS] if gone else [])
    for day in DAYS:
        assert (describe(stage.dynamo, table_of(day)) == {}) is gone
        assert (describe(stage.others[IRELAND], table_of(day)) == {}) is gone
        assert entry(stage, day).copies.active == (() if gone else (IRELAND,))
