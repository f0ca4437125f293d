"""Times, sizes and counts of the template, written out: limits of functions, repeated calls, retention."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.infra.synth import (
    AGEING,
    LARGEST,
    Properties,
    Template,
    actions,
    resources,
    template,
)
from tidetable.rollup_model.bounds import FUNCTION_LIFE

# Seconds and megabytes. API Gateway gives up after 29 seconds, so the functions behind the API end earlier; the archive
# reader ends before the query function that waits for it.
FUNCTIONS = {
    "ingest": (28, 512),
    "authorizer": (25, 512),
    "console": (10, 256),
    "operations": (28, 1769),
    "doors": (28, 1024),
    "query": (28, 1024),
    "archive_reader": (25, 1769),
    "drain": (60, 1024),
    "lifecycle": (300, 512),
    "deployment": (840, 512),
    "archiver": (300, 1769),
    "restorer": (300, 3008),
    "sweeper": (900, 512),
    "lake": (300, 1024),
    "feed": (300, 512),
    "refresher": (300, 1769),
}


def test_cloudformation_takes_the_largest_template() -> None:
    """CloudFormation takes 1,000,000 bytes and 500 resources. The CDK indents by 1, and adds the path of each resource."""
    made = template("dev", *LARGEST)
    assert len(json.dumps(made.document, indent=1)) < 700_000


def test_the_template_has_no_resource_and_no_right_per_stream(dev: Template) -> None:
    """500 streams more have the resources of the example. CloudFormation takes 500 resources."""
    stream = '[streams.more-{}]\nperiod = "day"\nlate = "1d"\nretention = 1\nkey = {{ partition_by = "series" }}\n'
    streams = "".join(map(stream.format, range(500)))
    quota = ("table_quota = 2500", "table_quota = 10000")
    many = template("dev", quota, ("[streams.stations]", f"{streams}[streams.stations]"))
    assert set(many.resources) == set(dev.resources)
    different = {many.resources[id]["Type"] for id in many.resources if many.resources[id] != dev.resources[id]}
    # The digest of the configuration makes the custom resources run again. One alarm has the quota.
    assert different == {
        "AWS::CloudWatch::Alarm",
        "Custom::TidetableTables",
        "Custom::TidetableStanding",
        "Custom::TidetableFirstKey",
    }


def test_a_function_has_this_time_and_this_memory(rolled: Template) -> None:
    assert {
        name: (function["Timeout"], function["MemorySize"]) for name, function in rolled.functions().items()
    } == FUNCTIONS


@pytest.mark.parametrize("name", ["ingest", "doors", "drain"])
def test_a_function_that_writes_events_lives_no_longer_than_the_bound_by_which_buckets_are_sealed(
    rolled: Template, name: str
) -> None:
    """A bucket is sealed when every writer is dead that put no mark: a longer time-out would make rollups miss events."""
    assert timedelta(seconds=rolled.functions()[name]["Timeout"]) <= FUNCTION_LIFE == timedelta(seconds=60)


def test_the_refresher_runs_each_minute_is_not_repeated_and_begins_after_the_tables_are_made(rolled: Template) -> None:
    ((id, schedule),) = (
        item for item in rolled.all("AWS::Scheduler::Schedule").items() if item[0].startswith("Rollups")
    )
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["Target"]["Arn"] == {"Fn::GetAtt": [rolled.id_of("refresher"), "Arn"]}
    assert json.loads(schedule["Target"]["Input"]) == {"source": "schedule"}
    policy = schedule["Target"]["RetryPolicy"]
    assert (policy["MaximumRetryAttempts"], policy["MaximumEventAgeInSeconds"]) == (0, 60)
    (tables,) = rolled.all("Custom::TidetableTables")
    assert tables in rolled.resources[id]["DependsOn"]
    configs = rolled.all("AWS::Lambda::EventInvokeConfig").values()
    (config,) = (mapping for mapping in configs if mapping["FunctionName"] == {"Ref": rolled.id_of("refresher")})
    assert config["MaximumRetryAttempts"] == 0


def find_mapping(made: Template, name: str) -> dict[str, Any]:
    """The mapping that calls a function with messages."""
    mappings = made.all("AWS::Lambda::EventSourceMapping").values()
    (found,) = (mapping for mapping in mappings if mapping["FunctionName"] == {"Ref": made.id_of(name)})
    return found


@pytest.mark.parametrize(
    ("name", "queue", "hidden"),
    [
        ("refresher", "WorkLight", 1_800),
        ("sweeper", "WorkFiles", 5_400),
        ("archiver", "WorkArchives", 1_800),
        ("restorer", "WorkRestores", 1_800),
        ("lake", "WorkLake", 1_800),
    ],
)
def test_workers_have_a_message_each_and_as_many_executions_as_the_configuration_says(
    rolled: Template, name: str, queue: str, hidden: int
) -> None:
    """Lambda refuses a mapping whose queue hides messages for less than the function's time-out, and AWS advises six times
    as long, five tries, and a concurrency from 2 to 1,000: "Creating and configuring an Amazon SQS event source mapping" and
    "Configuring scaling behavior for SQS event source mappings".
    """
    mapping = find_mapping(rolled, name)
    assert (mapping["BatchSize"], mapping["ScalingConfig"]) == (1, {"MaximumConcurrency": 5})
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    ((id, found),) = ((id, one) for id, one in rolled.all("AWS::SQS::Queue").items() if id.startswith(queue))
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [id, "Arn"]}
    assert (found["VisibilityTimeout"], "FifoQueue" in found) == (hidden, False)
    assert hidden == 6 * rolled.functions()[name]["Timeout"]
    assert found["RedrivePolicy"]["maxReceiveCount"] == 5
    assert "WorkDeadLetters" in str(found["RedrivePolicy"]["deadLetterTargetArn"])


def test_the_number_of_workers_is_that_of_the_configuration() -> None:
    made = template("dev", ("workers = 5 ", "workers = 1000 "), ("consumers = 5 ", "consumers = 20 "))
    assert find_mapping(made, "sweeper")["ScalingConfig"] == {"MaximumConcurrency": 1_000}
    assert find_mapping(made, "drain")["ScalingConfig"] == {"MaximumConcurrency": 20}


def test_the_drain_takes_many_messages_at_a_time_and_five_runs_of_it_at_once(dev: Template) -> None:
    """Live traffic has priority at the tables: the consumers of the drain share a quarter of the capacity. AWS: a batch of
    more than ten messages needs a window.
    """
    source = find_mapping(dev, "drain")
    assert (source["BatchSize"], source["ScalingConfig"]) == (100, {"MaximumConcurrency": 5})
    assert source["MaximumBatchingWindowInSeconds"] == 1


def _repeats(made: Template, name: str) -> tuple[Any, str]:
    """How often Lambda repeats an asynchronous call, and its destination after the last failure."""
    configs = made.all("AWS::Lambda::EventInvokeConfig").values()
    found = [mapping for mapping in configs if mapping["FunctionName"] == {"Ref": made.id_of(name)}]
    if not found:
        return None, ""
    (mapping,) = found
    return mapping["MaximumRetryAttempts"], json.dumps(mapping["DestinationConfig"]["OnFailure"])


@pytest.mark.parametrize("name", ["lifecycle", "sweeper", "lake"])
def test_a_scheduled_call_that_fails_is_not_repeated_and_leaves_a_dead_letter(dev: Template, name: str) -> None:
    """The next run does the same work; an immediate repetition would probably fail, too."""
    attempts, left = _repeats(dev, name)
    assert attempts == 0
    assert "LifecycleDeadLetters" in left


@pytest.mark.parametrize(
    ("name", "age"), [("LifecycleSchedule", 300), ("LifecycleSweeps", 86_400), ("LifecycleLakeRuns", 3_600)]
)
def test_a_scheduled_call_that_is_not_delivered_is_tried_twice_more_and_leaves_a_dead_letter(
    dev: Template, name: str, age: int
) -> None:
    (schedule,) = (one for id, one in dev.all("AWS::Scheduler::Schedule").items() if id.startswith(name))
    policy = schedule["Target"]["RetryPolicy"]
    # The default is the scheduler's longest age, a day.
    assert (policy["MaximumRetryAttempts"], policy.get("MaximumEventAgeInSeconds", 86_400)) == (2, age)
    assert "LifecycleDeadLetters" in json.dumps(schedule["Target"]["DeadLetterConfig"])


def test_cloudformation_waits_longer_than_the_fifteen_minutes_of_the_provider(dev: Template) -> None:
    for kind in ("Tables", "FirstKey", "Standing"):
        (resource,) = dev.all(f"Custom::Tidetable{kind}").values()
        assert resource["ServiceTimeout"] == "960"


def _rules(made: Template, part: str) -> list[Properties]:
    bucket = next(one for id, one in made.all("AWS::S3::Bucket").items() if part in id)
    return list(bucket["LifecycleConfiguration"]["Rules"])


def test_access_logs_are_kept_for_ninety_days(dev: Template) -> None:
    (rule,) = _rules(dev, "StorageAccessLogs")
    assert (rule["ExpirationInDays"], rule["Status"]) == (90, "Enabled")


def test_archives_change_class_after_the_days_of_the_configuration() -> None:
    made = template("dev", *AGEING)
    moves = [rule["Transitions"] for rule in _rules(made, "StorageArchive") if "Transitions" in rule]
    # A rule for each of the three streams.
    assert moves == [[{"StorageClass": "STANDARD_IA", "TransitionInDays": 45}]] * 3


@pytest.mark.parametrize("name", ["lifecycle", "deployment"])
def test_alarms_of_auto_scaling_may_be_changed_for_the_stages_own_tables_only(dev: Template, name: str) -> None:
    (statement,) = (
        statement for statement in dev.statements(name) if "cloudwatch:PutMetricAlarm" in actions(statement)
    )
    (alarms,) = resources(statement)
    assert alarms.endswith(':alarm:TargetTracking-table/tidetable-dev.*"]]}')
