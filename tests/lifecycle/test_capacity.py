"""Capacity beyond the plain ladder: billing mode by step, separate units of an index, early rise, auto scaling,
staggering.
"""

from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from msgspec.structs import replace

from aws.dynamodb.scaling import ApplicationScaling
from tests.lifecycle.world import INDEXED, NOON, SCALED, World, configuration, outcomes
from tidetable.config import Autoscaling, Range
from tidetable.errors import ConfigError
from tidetable.ladder import choose_level
from tidetable.periods import Kind, find_containing

TODAY = "tidetable-t.s.2026-03-15"
MIXED = """
        mode = "provisioned"
        ladder = [
            { age = 0, mode = "on-demand" },
            { age = 1, write = 3, read = 4 },
        ]
"""


def days(world: World, count: int) -> None:
    for _ in range(count):
        world.after(days=1)
        for _ in range(3):
            world.after(minutes=5)


def test_a_step_may_have_a_billing_mode_of_its_own() -> None:
    world = World(capacity=MIXED)
    world.run()
    assert world.levels()["2026-03-15"][:2] == (None, None)
    assert world.levels()["2026-03-17"][:2] == (None, None), "an on-demand table has no need to stand by"
    days(world, 3)
    assert world.levels()["2026-03-15"][:2] == (3, 4)
    assert world.after(minutes=5).done == []


def test_an_index_has_units_of_its_own_and_then_the_tables() -> None:
    world = World(capacity=INDEXED)
    world.run()
    world.after(minutes=5)
    table = world.tables.describe(TODAY)
    assert table is not None
    assert table.index_units == {"status": (7, 2)}
    assert world.after(minutes=5).done == [], "different units of an index are no drift"
    world.tables.set_capacity(TODAY, 10, 10, itself=False, indexes={"status": (70, 2)})
    for _ in range(12):
        world.after(minutes=5)
    table = world.tables.describe(TODAY)
    assert table is not None
    assert table.index_units == {"status": (7, 2)}, "put back"
    days(world, 3)
    table = world.tables.describe(TODAY)
    assert table is not None
    assert (table.write, table.index_units) == (1, {"status": (1, 1)})


def test_an_open_table_is_scaled_and_the_ladder_leaves_its_units_alone() -> None:
    world = World(capacity=SCALED)
    world.run()
    world.after(minutes=5)
    assert TODAY in world.scaling.tended
    assert "tidetable-t.s.2026-03-17" not in world.scaling.tended, "what stands by is not scaled"
    calls = world.scaling.calls
    # Application Auto Scaling acts:
    world.tables.set_capacity(TODAY, 80, 10)
    for _ in range(20):
        assert world.after(minutes=5).done == []
    assert world.levels()["2026-03-15"][:2] == (80, 10)
    assert world.scaling.calls == calls, "registered once"
    world.tables.set_capacity(TODAY, 80, 33)
    for _ in range(12):
        world.after(minutes=5)
    assert world.levels()["2026-03-15"][:2] == (80, 10), "reads are not scaled, so they are the ladder's"


def test_scaling_ends_before_the_ladder_steps_down() -> None:
    world = World(capacity=SCALED)
    world.run()
    world.after(minutes=5)
    closes = world.catalog.entries("s")[1].period.end + timedelta(days=1)
    world.at(closes - timedelta(minutes=5))
    assert TODAY in world.scaling.tended
    report = world.at(closes + timedelta(minutes=5))
    mine = [name for name, label, _ in outcomes(report) if label == "2026-03-15"]
    assert mine[:2] == ["unscale", "capacity"]
    assert TODAY not in world.scaling.tended
    days(world, 10)
    assert set(world.scaling.tended) <= world.tables.names, "no target is left of a table that is gone"


def test_a_registration_that_fails_is_reported_and_repeated_until_it_is_confirmed() -> None:
    world = World(capacity=SCALED)
    world.run()
    register, fails = world.scaling.register, [3]

    def failing(*given: Any) -> None:
        if fails[0]:
            fails[0] -= 1
            raise ConnectionError("no answer")
        register(*given)

    world.scaling.register = failing  # type: ignore[method-assign, assignment]
    # Two tables of the window need scaling: the first run fails for both, the second for one of them.
    reports = [world.after(minutes=5) for _ in range(4)]
    assert [report.healthy for report in reports] == [False, False, True, True]
    assert [[outcome for name, _, outcome in outcomes(report) if name == "scale"] for report in reports] == [
        ["failed", "failed"],
        ["failed", "done"],
        ["done"],
        [],
    ]
    assert set(world.scaling.tended) == {"tidetable-t.s.2026-03-14", TODAY}
    assert world.scaling.calls == 2


def test_a_run_that_ended_before_its_registration_was_confirmed_is_repeated() -> None:
    world = World(capacity=SCALED)
    world.run()
    mark = world.catalog.mark_scaled
    # The run ends between the call to Application Auto Scaling and the note of it.
    world.catalog.mark_scaled = lambda *given, **named: None if named.get("policy") else mark(*given, **named)  # type: ignore[method-assign]
    world.after(minutes=5)
    world.catalog.mark_scaled = mark  # type: ignore[method-assign]
    report = world.after(minutes=5)
    assert {(name, outcome) for name, _, outcome in outcomes(report)} == {("scale", "done")}
    assert world.after(minutes=5).done == []


def test_another_policy_is_registered_with_open_tables_and_the_former_taken_back() -> None:
    world = World(capacity=SCALED.replace("max = 100 }", "max = 100 }, read = { min = 10, max = 20 }"))
    world.run()
    world.after(minutes=5)
    taken_back: list[str] = []
    deregister = world.scaling.deregister

    def noting(table: str, indexes: Any, regions: Any = ()) -> None:
        taken_back.append(table)
        deregister(table, indexes, regions)

    world.scaling.deregister = noting  # type: ignore[method-assign]
    world.config = configuration(capacity=SCALED.replace("max = 100", "max = 50"))
    world.after(minutes=5)
    assert world.scaling.tended[TODAY][1] == Autoscaling(write=Range(min=5, max=50))
    assert sorted(taken_back) == ["tidetable-t.s.2026-03-14", TODAY], "reads are no longer scaled"
    assert world.after(minutes=5).done == []


def test_units_beyond_the_scaling_range_are_put_back_to_the_ladders() -> None:
    world = World(capacity=SCALED)
    world.run()
    world.after(minutes=5)
    for units, expected in ((100, 100), (101, 10), (5, 5), (4, 10)):
        world.tables.set_capacity(TODAY, units, 10)
        world.clock.sleep(10)
        for _ in range(12):
            world.after(minutes=5)
        assert world.levels()["2026-03-15"][:2] == (expected, 10)


def test_a_deleted_table_leaves_no_scalable_target_though_the_ladder_never_stepped_down() -> None:
    one_step = SCALED.replace("{ age = 1, write = 2, read = 5 },", "")
    world = World(capacity=one_step, on_expiry="delete")
    world.run()
    world.after(minutes=5)
    assert TODAY in world.scaling.tended
    entry = next(entry for entry in world.catalog.entries("s") if entry.table == TODAY)
    # An outage until the table has expired: the run that deletes it is the first since it was scaled.
    world.at(entry.period.shift(5).end + timedelta(hours=1))
    assert TODAY not in world.tables.names
    assert TODAY not in world.scaling.tended


def test_a_table_is_made_ready_for_its_first_event() -> None:
    made: list[Any] = []
    world = World(capacity=SCALED.replace("autoscaling", "warm = { write = 8000, read = 9000 }\n        autoscaling"))
    create = world.tables.create
    world.tables.create = lambda spec: made.append(spec) or create(spec)  # type: ignore[func-returns-value, method-assign]
    world.run()
    assert {spec.warm for spec in made} == {(8000, 9000)}
    assert {spec.most for spec in made} == {None}


def test_tables_of_one_age_change_one_after_another_but_none_too_late_to_rise() -> None:
    stream = configuration().streams["s"]
    world = World()
    world.run()
    entry = world.catalog.entries("s")[0]
    stagger = timedelta(minutes=30)
    steps, rises = set(), set()
    for number in range(50):
        other_entry = replace(entry, table=f"tidetable-t.s{number}.2026-03-15", period=find_containing(NOON, Kind.DAY))
        edge = other_entry.period.end + stream.late
        steps.add(
            next(
                m
                for m in range(60)
                if choose_level(other_entry, stream, edge + timedelta(minutes=m), stagger).write == 2
            )
        )
        early = other_entry.period.start - timedelta(hours=2)
        rises.add(
            next(
                m
                for m in range(120)
                if choose_level(other_entry, stream, early + timedelta(minutes=m), stagger).write == 10
            )
        )
    assert len(steps) > 15
    assert max(steps) <= 31
    assert len(rises) > 15
    assert max(rises) <= 120 - 15 - 5, "fifteen minutes before the first event, at the latest"


PROBLEMS = [
    (MIXED.replace('"on-demand" }', '"on-demand", write = 3 }'), "on-demand tables have no units"),
    (
        MIXED.replace(
            "{ age = 1, write = 3, read = 4 }", '{ age = 1, write = 3, read = 4 }, { age = 2, mode = "on-demand" }'
        ),
        "mode",
    ),
    (MIXED + "autoscaling = { write = { min = 1, max = 2 } }", "follow their traffic by themselves"),
    (MIXED + "warm = { write = 100, read = 100 }", "warm.write: 100 is not within 4000"),
    (SCALED + "max = { write = 10, read = 10 }", "only tables that are made"),
    (SCALED.replace("min = 5", "min = 50"), "are not within 50 to 100"),
    (SCALED.replace("{ write = { min = 5, max = 100 } }", "{}"), "says neither write nor read"),
    (SCALED.replace("max = 100", "max = 100, target = 99"), "target: 99 is not within 20 to 90"),
    (INDEXED.replace("index = { status", "index = { nothing"), "the stream has no index of this name"),
]


@pytest.mark.parametrize(("capacity", "message"), PROBLEMS, ids=[message for _, message in PROBLEMS])
def test_what_cannot_be_is_said_when_the_configuration_is_read(capacity: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configuration(capacity=capacity)


def test_the_adapter_registers_each_dimension_and_takes_back_all() -> None:
    client = boto3.client(
        "application-autoscaling", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    scaling = ApplicationScaling(lambda: client)
    with Stubber(client) as stub:
        for resource, dimension in (("table/t", "table"), ("table/t/index/i", "index")):
            target = {
                "ServiceNamespace": "dynamodb",
                "ResourceId": resource,
                "ScalableDimension": f"dynamodb:{dimension}:WriteCapacityUnits",
            }
            stub.add_response("register_scalable_target", {}, {**target, "MinCapacity": 5, "MaxCapacity": 50})
            configuration = {
                "TargetValue": 70.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"},
            }
            stub.add_response(
                "put_scaling_policy",
                {"PolicyARN": "arn:aws:autoscaling:us-east-1:000000000000:scalingPolicy:x"},
                {
                    **target,
                    "PolicyName": "tidetable-write",
                    "PolicyType": "TargetTrackingScaling",
                    "TargetTrackingScalingPolicyConfiguration": configuration,
                },
            )
        scaling.register("t", ["i"], Autoscaling(write=Range(min=5, max=50)))
        for _ in range(4):
            stub.add_client_error("deregister_scalable_target", "ObjectNotFoundException")
        scaling.deregister("t", ["i"])
        stub.assert_no_pending_responses()
