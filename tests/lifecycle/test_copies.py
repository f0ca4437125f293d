"""Copies in other Regions, over the strict service's Regions: from the first copy to the last deletion."""

from typing import Any

from strict import Timings
from strict.client import StrictClient
from tests.fakes.stage import CATALOG, STAGE, Stage
from tests.worlds.copied import (
    DAYS,
    IRELAND,
    LIFECYCLE,
    NEXT,
    NOON,
    SCALED,
    TODAY,
    TOKYO,
    TOMORROW,
    client_of,
    copies,
    describe,
    entry,
    ids_in,
    made,
    pass_to,
    run,
    send,
    steps,
    table_of,
    tags_of,
    text,
)
from tidetable.catalog import State
from tidetable.config import parse

STREAM_OF_COPIES = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_the_life_of_a_stream_with_a_copy() -> None:
    stage = made(IRELAND)
    ireland = stage.others[IRELAND]
    assert steps(run(stage)) == [("create", day, "done") for day in DAYS]
    report = run(stage)
    assert steps(report) == [("copy", day, "done") for day in DAYS]
    assert report.done[0].action.reason == "replicas names eu-west-1"
    assert entry(stage, TODAY).copies.active == (), "a copy that is being made is not to be read"
    assert run(stage).done == []
    assert {day: copies(stage, table_of(day)) for day in DAYS} == {day: {IRELAND: "ACTIVE"} for day in DAYS}
    assert {day: entry(stage, day).copies.active for day in DAYS} == dict.fromkeys(DAYS, (IRELAND,))

    send(stage, "a", "b")
    stage.clock.sleep(10)
    assert ids_in(ireland, table_of(TODAY)) == ["a", "b"]

    # The ladder's step: the service keeps the copy in step.
    pass_to(stage, 16, 1, 5)
    assert ("class", TODAY, "done") in steps(run(stage))
    for service in (stage.dynamo, ireland):
        assert describe(service, table_of(TODAY))["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert entry(stage, TODAY).copies.active == (IRELAND,)
    run(stage)

    # Archived, then the copy goes, and only then the table.
    pass_to(stage, 18, 0, 5)
    report = run(stage)
    assert [step for step in steps(report) if step[1] == TODAY] == [
        ("archive", TODAY, "done"),
        ("delete-copy", TODAY, "done"),
    ]
    assert (entry(stage, TODAY).state, entry(stage, TODAY).copies.active) == (State.ARCHIVED, ())
    assert describe(ireland, table_of(TODAY)) == {}
    assert describe(stage.dynamo, table_of(TODAY)) != {}
    report = run(stage)
    assert [step for step in steps(report) if step[1] == TODAY] == [("delete", TODAY, "done")]
    assert entry(stage, TODAY).state is State.DELETED
    assert describe(stage.dynamo, table_of(TODAY)) == {}
    assert run(stage, 3).done == []
    assert sorted(set(ireland.account.tables) - {CATALOG}) == [table_of(f"2026-03-{day}") for day in range(16, 21)]


def test_copies_of_all_of_a_periods_tables_get_the_tags_of_their_tables() -> None:
    own = 'large = { beyond = "chunks" }\ntable = { tags = { team = "sea" } }'
    stage = made(IRELAND, TOKYO, more=own)
    run(stage, 9)
    assert entry(stage, TODAY).copies.active == (IRELAND, TOKYO)
    expected = {
        "project": "tidetable",
        "tidetable:stage": STAGE,
        "tidetable:stream": "s",
        "tidetable:period": TODAY,
        "team": "sea",
    }
    for service in (stage.dynamo, stage.others[IRELAND], stage.others[TOKYO]):
        assert tags_of(service, table_of(TODAY)) == expected
        assert tags_of(service, table_of(TODAY, ".parts")) == expected


def test_copies_are_made_one_at_a_time_and_with_the_stream_that_they_need() -> None:
    stage = made(IRELAND, TOKYO)
    run(stage)
    assert describe(stage.dynamo, table_of(NEXT))["StreamSpecification"] == STREAM_OF_COPIES
    run(stage, minutes=0)
    stage.clock.sleep(20)
    assert copies(stage, table_of(NEXT)) == {IRELAND: "CREATING"}
    stage.clock.sleep(300)
    assert steps(run(stage)) == [("copy", day, "done") for day in DAYS]
    assert copies(stage, table_of(NEXT)) == {IRELAND: "ACTIVE", TOKYO: "ACTIVE"}
    assert run(stage).done == []
    assert entry(stage, NEXT).copies.active == (IRELAND, TOKYO)


def test_a_copy_that_was_begun_and_is_not_listed_yet_is_not_begun_again() -> None:
    stage = made(IRELAND)
    stage.dynamo.account.timings = Timings(copy=5.0, copy_listed=30.0)
    run(stage)
    run(stage, minutes=0)
    begun = stage.dynamo.calls["UpdateTable"]
    stage.clock.sleep(10)
    assert copies(stage, table_of(TODAY)) == {}
    assert describe(stage.dynamo, table_of(TODAY))["TableStatus"] == "ACTIVE"
    report = run(stage, minutes=0)
    assert steps(report) == [("deferred", day, "deferred") for day in DAYS]
    assert "its copy in eu-west-1 was begun at" in report.done[0].detail
    assert stage.dynamo.calls["UpdateTable"] == begun


def test_a_copy_that_was_given_up_is_begun_again_and_reported_if_that_goes_on() -> None:
    """The service may give a copy up without a trace."""
    stage = made(IRELAND)

    def give_up() -> None:
        account = stage.others[IRELAND].account
        account.settle()
        for name in set(account.tables) - {CATALOG}:
            account.make_remover(account.tables[name])()

    run(stage)
    for minutes in range(0, 115, 5):
        report = run(stage)
        assert report.healthy, minutes
        assert [step for step in steps(report) if step[0] == "copy"] == [("copy", day, "done") for day in DAYS]
        give_up()
    stage.clock.sleep(600)
    report = run(stage)
    assert not report.healthy
    troubles = [result for result in report.done if result.action.name == "copy-trouble"]
    assert [result.action.entry.period.label for result in troubles] == list(DAYS)
    assert f"table {table_of(TODAY)} has no copy in eu-west-1 since 2026-03-15T12:01:00" in troubles[0].detail
    assert run(stage).healthy, "the last of them stays"
    assert entry(stage, TODAY).copies.active == (IRELAND,)


def test_another_table_of_the_name_is_trouble_for_its_own_region_and_period_alone() -> None:
    stage = made(IRELAND, TOKYO)
    taken = table_of(TODAY)
    client_of(stage).create_table(
        TableName=taken,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    run(stage)
    report = run(stage)
    assert steps(report) == [("copy", TODAY, "failed"), ("copy", TOMORROW, "done"), ("copy", NEXT, "done")]
    assert report.done[0].detail == (
        f"eu-west-1 has a table {taken} already, which is not a copy of this one; see the runbook, *Copies in other Regions*"
    )
    run(stage, 2)
    assert copies(stage, taken) == {TOKYO: "ACTIVE"}, "the other Region goes on"
    assert entry(stage, TODAY).copies.active == (TOKYO,)
    client_of(stage).delete_table(TableName=taken)
    stage.clock.sleep(60)
    run(stage, 2)
    assert copies(stage, taken) == {IRELAND: "ACTIVE", TOKYO: "ACTIVE"}
    assert run(stage).done == []


def test_while_a_copy_is_made_the_tables_other_changes_wait() -> None:
    """The table has events, so its copy takes eleven minutes. Its ladder has a step meanwhile."""
    stage = made(IRELAND)
    run(stage, minutes=0)
    send(stage, "a")
    pass_to(stage, 16, 0, 55)
    run(stage)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "CREATING"}
    pass_to(stage, 16, 1, 1)
    report = run(stage, minutes=0)
    assert [result.detail for result in report.done if result.action.entry.period.label == TODAY] == [
        "",
        "class waits for a copy: eu-west-1 CREATING",
    ]
    assert ("close", TODAY, "done") in steps(report), "what the catalog alone decides goes on"
    stage.clock.sleep(900)
    assert ("class", TODAY, "done") in steps(run(stage))
    assert entry(stage, TODAY).copies.active == (IRELAND,)


def test_a_description_from_before_a_copy_was_begun_is_answered_by_a_later_run() -> None:
    """A change by hand, which the run does not know of: AWS refuses the change, and it is deferred."""
    stage = made(IRELAND)
    run(stage, 3)
    pass_to(stage, 16, 1, 5)
    client_here: Any = StrictClient(stage.dynamo)
    client_here.update_table(TableName=table_of(TODAY), ReplicaUpdates=[{"Delete": {"RegionName": IRELAND}}])
    stage.clock.sleep(50)
    report = run(stage)
    assert ("deferred", TODAY, "deferred") in steps(report)
    assert entry(stage, TODAY).copies.active == ()
    # A copy that was deleted by hand is made again, as long as its table has its time.
    run(stage, 2)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "ACTIVE"}


def test_provisioned_writes_are_scaled_before_the_copy_and_never_stand_by() -> None:
    stage = made(IRELAND, capacity=SCALED)
    run(stage)
    assert describe(stage.dynamo, table_of(NEXT))["ProvisionedThroughput"]["WriteCapacityUnits"] == 10
    assert steps(run(stage)) == [("scale", day, "done") for day in DAYS]
    assert steps(run(stage)) == [("copy", day, "done") for day in DAYS]
    assert run(stage).done == []
    assert copies(stage, table_of(NEXT)) == {IRELAND: "ACTIVE"}
    pass_to(stage, 16, 1, 5)
    report = run(stage)
    assert [step for step in steps(report) if step[1] == TODAY] == [
        ("unscale", TODAY, "done"),
        ("capacity", TODAY, "done"),
        ("close", TODAY, "done"),
    ]
    assert stage.scaling.elsewhere == [(table_of(TODAY), IRELAND)], "the service has mirrored the targets there"
    for service in (stage.dynamo, stage.others[IRELAND]):
        assert describe(service, table_of(TODAY))["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}


def test_a_policy_that_changes_scales_in_the_stages_own_region_alone() -> None:
    """The service does not change what it has mirrored: two policies would fight over units that all Regions share."""
    stage = made(IRELAND, capacity=SCALED)
    run(stage, 4)
    assert stage.scaling.elsewhere == []
    stage.config = parse(text(IRELAND, capacity=SCALED.replace("max = 100", "max = 50")))
    assert steps(run(stage)) == [("scale", day, "done") for day in DAYS]
    assert stage.scaling.elsewhere == [(table_of(day), IRELAND) for day in DAYS]
    assert run(stage).done == []


def test_a_table_with_copies_stays_on_demand_though_the_ladder_no_longer_says_so() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 10 }]'
    stage.config = parse(text(capacity=ladder))
    assert run(stage).done == []
    pass_to(stage, 16, 0, 5)
    run(stage)
    assert describe(stage.dynamo, table_of("2026-03-18"))["ProvisionedThroughput"]["WriteCapacityUnits"] == 1


def test_a_table_that_is_deleted_without_an_archive_loses_its_copies_first() -> None:
    stage = made(IRELAND, TOKYO, more='on_expiry = "delete"')
    run(stage, 4)
    send(stage, "a")
    pass_to(stage, 16, 1, 5)
    run(stage, 2)
    pass_to(stage, 18, 0, 5)
    label = TODAY
    seen = []
    for _ in range(4):
        seen += [step for step in steps(run(stage)) if step[1] == label and step[0] != "close"]
        assert entry(stage, label).copies.active == ()
    assert seen == [("delete-copy", label, "done")] * 2 + [("delete", label, "done")]
    assert [describe(service, table_of(label)) for service in (stage.dynamo, *stage.others.values())] == [{}, {}, {}]


def test_the_copies_of_a_table_that_goes_are_marked_no_more() -> None:
    stage = made(IRELAND, TOKYO, more='on_expiry = "delete"')
    run(stage, 4)
    pass_to(stage, 18, 0, 5)
    run(stage, minutes=1)
    report = run(stage, minutes=1)
    assert ("deferred", TODAY, "deferred") in steps(report)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "DELETING", TOKYO: "ACTIVE"}
    assert entry(stage, TODAY).copies.active == ()


def test_a_copy_of_a_closed_table_that_was_deleted_by_hand_is_reported_and_made_again() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    pass_to(stage, 16, 1, 5)
    run(stage, 2)
    own: Any = StrictClient(stage.dynamo)
    own.update_table(TableName=table_of(TODAY), ReplicaUpdates=[{"Delete": {"RegionName": IRELAND}}])
    stage.clock.sleep(300)
    seen = [steps(run(stage)) for _ in range(14)]
    assert [step for step in seen if step] == [[("copy", TODAY, "done"), ("copy-trouble", TODAY, "failed")]]
    assert entry(stage, TODAY).copies.active == (IRELAND,)


def test_a_copy_that_is_protected_keeps_its_table_and_is_reported() -> None:
    stage = made(IRELAND)
    run(stage, 3)
    client_of(stage).update_table(TableName=table_of(TODAY), DeletionProtectionEnabled=True)
    pass_to(stage, 18, 0, 5)
    run(stage)
    report = run(stage)
    (failed,) = [result for result in report.done if result.outcome == "failed"]
    assert (failed.action.name, failed.action.entry.period.label) == ("delete-copy", TODAY)
    assert "ValidationException" in failed.detail
    assert entry(stage, TODAY).state is State.ARCHIVED
    client_of(stage).update_table(TableName=table_of(TODAY), DeletionProtectionEnabled=False)
    run(stage, 2)
    assert entry(stage, TODAY).state is State.DELETED


def test_a_copy_that_somebody_else_made_is_left_alone() -> None:
    stage = Stage(NOON, text(IRELAND), regions=[IRELAND, TOKYO])
    stage.catalog.mark_deployed()
    run(stage, 3)
    own: Any = StrictClient(stage.dynamo)
    own.update_table(TableName=table_of(TODAY), ReplicaUpdates=[{"Create": {"RegionName": TOKYO}}])
    pass_to(stage, 18, 0, 5)
    run(stage, 3)
    assert entry(stage, TODAY).state is State.DELETED
    assert describe(stage.others[IRELAND], table_of(TODAY)) == {}
    assert describe(stage.others[TOKYO], table_of(TODAY)) != {}


def test_no_more_copies_go_in_a_run_than_deletions_are_allowed() -> None:
    stage = made(IRELAND, lifecycle=LIFECYCLE + "max_deletes = 1\n")
    run(stage, 3)
    pass_to(stage, 19, 0, 5)
    deletions = []
    for _ in range(4):
        report = run(stage)
        deletions.append([step for step in steps(report) if step[0] in ("delete", "delete-copy")])
    # A table that has lost its copies goes before others lose theirs.
    assert deletions == [[(name, day, "done")] for day in (TODAY, TOMORROW) for name in ("delete-copy", "delete")]
