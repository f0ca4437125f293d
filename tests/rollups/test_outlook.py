"""What `plan` says of the work in the background: what is due now, what within the hour, and what a deploy would change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES, World, reading
from tests.worlds.runs import begin_run, refresh
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.outlook import PendingWork, compare_definitions, list_pending
from tidetable.work.claim import Pause


def look(world: World) -> list[PendingWork]:
    return list_pending(world.definitions, begin_run(world))


def test_a_rollup_that_has_not_begun_is_due() -> None:
    assert look(World()) == [PendingWork("seal", "s", "due", "2 rollups to begin")]


def test_buckets_are_due_210_seconds_after_their_end_or_within_the_hour() -> None:
    """The rollups begin at 00:10 and at 01:00, with buckets of ten minutes and of an hour."""
    world = World()
    refresh(world, "begin")
    world.sleep(600)
    # At 00:10 the six buckets that end at 00:20 to 01:00 can be sealed by 01:10.
    assert look(world) == [PendingWork("seal", "s", "planned", "5 buckets to seal")]
    world.sleep(7_200)
    # At 02:10 those that end by 02:00 are due: 11, and the hour from 01:00 on.
    assert look(world) == [
        PendingWork("seal", "s", "due", "12 buckets to seal"),
        PendingWork("seal", "s", "planned", "7 buckets to seal"),
    ]
    refresh(world, "run")
    assert look(world) == [PendingWork("seal", "s", "planned", "7 buckets to seal")]


def test_a_former_definition_seals_its_buckets_up_to_the_next_one() -> None:
    """The new one begins at 00:20, ten minutes after it was seen. Hours later the former one has one bucket left."""
    world = World((MINUTES,))
    refresh(world, "begin")
    world.sleep(600)
    world.definitions["s"] = [OTHER]
    refresh(world, "begin anew")
    (old, new) = sorted(world.rollups.read_state("s").edges, key=lambda edge: edge.sealed)
    assert (f"{old.sealed:%H:%M}", f"{new.start:%H:%M}") == ("00:10", "00:20")
    world.sleep(2 * 3_600)
    # At 02:10: one bucket of the former definition, and ten that end from 00:30 to 02:00.
    assert look(world)[0] == PendingWork("seal", "s", "due", "11 buckets to seal")


def test_marked_buckets_and_new_late_events_are_counted() -> None:
    world = World()
    refresh(world, "begin")
    world.sleep(7_800)
    refresh(world, "run")
    world.write(reading(65, 1, kind="x"))
    # Its writer may go on for 120 seconds.
    assert look(world)[0] == PendingWork("seal", "s", "planned", "7 buckets to seal, 1 marked bucket to compute anew")
    world.sleep(300)
    # At 02:15 also the bucket that ended at 02:10.
    assert look(world)[0].reason == "1 bucket to seal, 1 marked bucket to compute anew"
    world.adds = True
    world.write(reading(66, 1, kind="y"))
    assert look(world)[0].reason == "1 bucket to seal, 1 marked bucket to compute anew, 1 late event to add"


def test_what_rests_and_what_cannot_be_read_are_named() -> None:
    world = World()
    world.work.set_pause(Pause("seal", "s"), on=True)
    world.work.add("part", "s#m#2026-03-02T01:00:00.000000Z#0000", "")
    world.work.add("part", "s#m#2026-03-02T01:00:00.000000Z#0001", "")
    assert look(world) == [
        PendingWork("seal", "s", "rests", "2 rollups to begin"),
        PendingWork("part", "s", "rests", "2 items"),
    ]
    world.work.set_pause(Pause("seal", "s"), on=False)
    # The record of a stream adds nothing to what its state says.
    assert world.work.claim("seal", "s", "a worker", world.now(), world.now() + timedelta(minutes=1))
    assert look(world) == [
        PendingWork("seal", "s", "due", "2 rollups to begin"),
        PendingWork("part", "s", "due", "2 items"),
    ]
    world.rollups.refuses = True
    assert look(world)[0] == PendingWork("seal", "s", "unknown", "table rollups is throttled")


OTHER = replace(MINUTES, fields=("depth",))
REBUILD = "bin/tidetable rollup s --name m --rebuild computes past buckets"


@pytest.mark.parametrize(
    ("present", "wanted", "reasons"),
    [
        ([MINUTES], [MINUTES], []),
        ([], [MINUTES], [f"m is new, and begins after the deploy; {REBUILD}"]),
        ([MINUTES], [OTHER], [f"m has another definition from a bucket after the deploy on; {REBUILD}"]),
        ([MINUTES, HOURS], [HOURS], ["m leaves: its buckets are not sealed any more"]),
        ([MINUTES], None, ["m leaves: its buckets are not sealed any more"]),
    ],
)
def test_a_deploy_changes_rollups_and_computes_nothing_anew(
    present: list[Definition], wanted: list[Definition] | None, reasons: list[str]
) -> None:
    texts = {"s": {rollup.name: rollup.text for rollup in present}} if present else {}
    found = list(compare_definitions(texts, {} if wanted is None else {"s": wanted}))
    assert found == [PendingWork("seal", "s", "at a deploy", reason) for reason in reasons]


def test_an_outlook_changes_nothing() -> None:
    world = World()
    refresh(world, "begin")
    world.sleep(timedelta(hours=3).total_seconds())
    before = dict(world.work.records), world.rollups.read_state("s")
    look(world)
    assert (dict(world.work.records), world.rollups.read_state("s")) == before
