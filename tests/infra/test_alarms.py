"""The alarms: the metric and the condition of each, written out, and their targets."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns

from bill.fixed import count_alarms, price_fixed
from infra import UsageError
from infra.function import Common
from infra.targets import Targets
from tests.infra.synth import (
    BOTH,
    CONFIG,
    LIMITED,
    PAGER,
    ROOT,
    SIGNED,
    WATCHED,
    EmptyAssets,
    Template,
    template,
)
from tidetable.config import parse
from tidetable.work.kinds import KINDS

SQS, LAMBDA, GATEWAY, OWN = "AWS/SQS", "AWS/Lambda", "AWS/ApiGateway", "Tidetable"
# Name: (namespace, metric, watched resource, statistic, seconds per period, periods, condition, missing data).
ALARMS: dict[str, tuple[str, str, str, str, int, int, str, str]] = {
    "DeadLetters": (SQS, "ApproximateNumberOfMessagesVisible", "IngestDeadLetters", "Maximum", 60, 1, ">= 1", "fine"),
    # AWS leaves messages that were received three times out of the queue's own metric: the drain measures them.
    "OverflowOld": (OWN, "OldestMessage", "tidetable-dev-drain", "Maximum", 300, 1, ">= 3600", "fine"),
    "OverflowUnread": (OWN, "DrainStopped", "tidetable-dev-lifecycle", "Sum", 900, 1, ">= 1", "fine"),
    "OverflowSaved": (OWN, "OldestMessage", "tidetable-dev-drain", "Maximum", 300, 1, ">= 86400", "fine"),
    # A run that is killed measures nothing: its messages would be seen as dead letters only, half a day later.
    "DrainFailing": (LAMBDA, "Errors", "drain", "Sum", 300, 3, ">= 1", "fine"),
    "LifecycleFailing": (LAMBDA, "Errors", "lifecycle", "Sum", 300, 3, ">= 1", "fine"),
    "LifecycleUnhealthy": (OWN, "LifecycleHealthy", "tidetable-dev-lifecycle", "Minimum", 300, 3, "< 1", "fine"),
    "LifecycleNotRunning": (LAMBDA, "Invocations", "lifecycle", "Sum", 300, 4, "< 1", "bad"),
    "LifecycleUndelivered": (
        *(SQS, "ApproximateNumberOfMessagesVisible", "LifecycleDeadLetters"),
        *("Maximum", 60, 1, ">= 1", "fine"),
    ),
    "NextTableMissing": (
        *(OWN, "StreamsWithoutNextTable", "tidetable-dev-lifecycle"),
        *("Maximum", 300, 2, ">= 1", "fine"),
    ),
    "WritesThrottled": (OWN, "ThrottledWrites", "tidetable-dev-ingest", "Sum", 300, 3, ">= 1000", "fine"),
    "TableQuotaNear": (OWN, "PeriodTables", "tidetable-dev-lifecycle", "Maximum", 300, 1, ">= 2000", "fine"),
    "ArchiveOverdue": (OWN, "ArchivesOverdue", "tidetable-dev-lifecycle", "Maximum", 300, 2, ">= 1", "fine"),
    "ArchiveFailing": (LAMBDA, "Errors", "archiver", "Sum", 300, 1, ">= 1", "fine"),
    "RestoresFailing": (OWN, "RestoresFailed", "tidetable-dev-restorer", "Sum", 300, 3, ">= 1", "fine"),
    "RestoresWaiting": (SQS, "ApproximateAgeOfOldestMessage", "WorkRestores", "Maximum", 300, 1, ">= 3600", "fine"),
    "UntypedValues": (OWN, "UntypedValues", "tidetable-dev-archiver", "Sum", 300, 1, ">= 1", "fine"),
    "SweepFailing": (LAMBDA, "Errors", "sweeper", "Sum", 300, 1, ">= 1", "fine"),
    "SweepWaiting": (SQS, "ApproximateAgeOfOldestMessage", "WorkFiles", "Maximum", 300, 1, ">= 3600", "fine"),
    "LakeBehind": (OWN, "LakeFailed", "tidetable-dev-lake", "Sum", 3600, 3, ">= 1", "fine"),
    "LakeColumnsRefused": (OWN, "LakeColumnsRefused", "tidetable-dev-lake", "Sum", 3600, 1, ">= 1", "fine"),
    "LakeWaiting": (SQS, "ApproximateAgeOfOldestMessage", "WorkLake", "Maximum", 300, 1, ">= 3600", "fine"),
    "WorkDeadLetters": (SQS, "ApproximateNumberOfMessagesVisible", "WorkDeadLetters", "Maximum", 60, 1, ">= 1", "fine"),
    "FeedLagging": (LAMBDA, "IteratorAge", "feed", "Maximum", 300, 3, ">= 900000", "fine"),
    "FeedDeadLetters": (SQS, "ApproximateNumberOfMessagesVisible", "FeedDeadLetters", "Maximum", 60, 1, ">= 1", "fine"),
    "FeedFailing": (LAMBDA, "Errors", "feed", "Sum", 300, 3, ">= 1", "fine"),
    "IngestFailing": (LAMBDA, "Errors", "ingest", "Sum", 60, 3, ">= 1", "fine"),
    # The metrics per API and stage are free. Metrics per route and method must be switched on and paid for.
    "ApiFailing": (GATEWAY, "5XXError", "tidetable-dev api", "Sum", 60, 3, ">= 1", "fine"),
    "ItemCollectionFull": (OWN, "FullCollectionWrites", "tidetable-dev-ingest", "Sum", 300, 1, ">= 1", "fine"),
    "FormerKeyUsed": (OWN, "FormerKeysUsed", "tidetable-dev-authorizer", "Sum", 300, 1, ">= 1", "fine"),
}
OF_DOORS = {"DoorsFailing": (LAMBDA, "Errors", "doors", "Sum", 60, 3, ">= 1", "fine")}
OF_ROLLUPS = {
    "RollupLagging": (OWN, "RollupLag", "tidetable-dev-refresher", "Maximum", 300, 3, ">= 600", "bad"),
    "RollupMarksStaying": (OWN, "RollupMarks", "tidetable-dev-refresher", "Minimum", 3600, 6, ">= 1000", "fine"),
    "DeletedWithMarks": (OWN, "DeletedWithMarks", "tidetable-dev-lifecycle", "Sum", 300, 1, ">= 1", "fine"),
    "RollupsFailing": (OWN, "StreamsFailed", "tidetable-dev-refresher", "Sum", 300, 3, ">= 1", "fine"),
    "WorkWaiting": (OWN, "WorkOldest", "tidetable-dev-refresher", "Maximum", 300, 1, ">= 3600", "fine"),
    "RollupGroupsExceeded": (
        *(OWN, "RollupGroupsExceeded", "tidetable-dev-refresher"),
        *("Maximum", 300, 1, ">= 1", "fine"),
    ),
}
ALARMS |= OF_ROLLUPS | OF_DOORS
OPERATORS = {"GreaterThanOrEqualToThreshold": ">=", "LessThanThreshold": "<"}
WITHOUT_DATA = {"notBreaching": "fine", "breaching": "bad"}
ONLY_TOPIC = ("notify = []", f'notify = ["{PAGER}"]')


def alarms(made: Template) -> dict[str, dict[str, Any]]:
    """The alarms by the section of the runbook that they name."""
    found = {}
    for one in made.all("AWS::CloudWatch::Alarm").values():
        section = re.search(r"docs/operate/runbook\.md#(\w+)$", one["AlarmDescription"])
        assert section is not None, one["AlarmDescription"]
        found[section[1]] = one
    return found


def watched(made: Template, alarm: dict[str, Any]) -> str:
    """The resource in an alarm's dimensions: a queue, a function, a service, or an API and its stage."""
    dimensions = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
    match sorted(dimensions):
        case ["QueueName"]:
            queue, attribute = dimensions["QueueName"]["Fn::GetAtt"]
            assert attribute == "QueueName"
            assert made.resources[queue]["Type"] == "AWS::SQS::Queue"
            return re.sub(r"[0-9A-F]{8}$", "", queue)
        case ["FunctionName"]:
            ids = {made.id_of(name): name for name in made.functions()}
            return ids[dimensions["FunctionName"]["Ref"]]
        case ["service"]:
            return str(dimensions["service"])
        case ["ApiName", "Stage"]:
            (stage,) = made.all("AWS::ApiGateway::Stage")
            assert dimensions["Stage"] == {"Ref": stage}
            return f"{dimensions['ApiName']} {made.all('AWS::ApiGateway::Stage')[stage]['StageName']}"
    raise AssertionError(f"nothing is known of dimensions {sorted(dimensions)}")


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_watches_this_and_begins_then(rolled: Template, name: str) -> None:
    dev = rolled
    alarm = alarms(dev)[name.lower()]
    assert (
        alarm["Namespace"],
        alarm["MetricName"],
        watched(dev, alarm),
        alarm["Statistic"],
        alarm["Period"],
        alarm["EvaluationPeriods"],
        f"{OPERATORS[alarm['ComparisonOperator']]} {alarm['Threshold']}",
        WITHOUT_DATA[alarm["TreatMissingData"]],
    ) == ALARMS[name]
    assert alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"]) == alarm["EvaluationPeriods"]


def test_each_kind_of_work_has_an_alarm_for_failures_and_one_for_its_oldest_item() -> None:
    assert {kind: (rules.alarm, rules.waits_alarm) for kind, rules in KINDS.items()} == {
        **dict.fromkeys(("seal", "part", "rebuild"), ("RollupsFailing", "WorkWaiting")),
        "archive": ("ArchiveFailing", "ArchiveOverdue"),
        "restore": ("RestoresFailing", "RestoresWaiting"),
        "sweep": ("SweepFailing", "SweepWaiting"),
        "table": ("LakeBehind", "LakeWaiting"),
    }
    assert {name for rules in KINDS.values() for name in (rules.alarm, rules.waits_alarm)} <= ALARMS.keys()


def test_there_is_no_other_alarm(dev: Template) -> None:
    assert alarms(dev).keys() == {name.lower() for name in ALARMS.keys() - OF_ROLLUPS.keys() - OF_DOORS.keys()}
    assert len(dev.all("AWS::CloudWatch::Alarm")) == len(ALARMS) - len(OF_ROLLUPS) - len(OF_DOORS)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (SIGNED,),
        (BOTH,),
        LIMITED,
        WATCHED,
    ],
    ids=["example", "signed", "both", "no columns", "all"],
)
def test_the_bill_counts_the_alarms_and_the_keys_of_the_template(changes: tuple[tuple[str, str], ...]) -> None:
    text = CONFIG.read_text(encoding="utf-8")
    for old, new in changes:
        text = text.replace(old, new)
    made, config = template("dev", *changes), parse(text)
    assert count_alarms(config) == len(made.all("AWS::CloudWatch::Alarm"))
    keys = [line for line in price_fixed(config, busy=True) if line.name == "KMS key"]
    assert len(keys) == len(made.all("AWS::KMS::Key"))


def test_columns_are_watched_only_where_they_are_declared() -> None:
    plain = template("dev", *LIMITED)
    assert "untypedvalues" not in alarms(plain)


def test_the_names_of_alarms_begin_as_the_console_looks_for_them(dev: Template) -> None:
    """CloudFormation makes them of the stack's name, the logical id and a random text."""
    assert all(id.startswith("Alarms") for id in dev.all("AWS::CloudWatch::Alarm"))


def test_an_alarm_on_the_lag_of_rollups_is_made_when_runs_are_due(rolled: Template) -> None:
    (alarm,) = (resource for id, resource in rolled.resources.items() if id.startswith("AlarmsRollupLagging"))
    (schedule,) = (id for id in rolled.all("AWS::Scheduler::Schedule") if id.startswith("RollupsSchedule"))
    assert schedule in alarm["DependsOn"]


def test_alarms_are_simple_ones_that_the_emulator_takes(dev: Template) -> None:
    assert not dev.all("AWS::CloudWatch::CompositeAlarm")
    assert not [alarm for alarm in dev.all("AWS::CloudWatch::Alarm").values() if "Metrics" in alarm]


def test_an_alarm_on_runs_is_made_when_runs_are_due_and_goes_before_they_end(dev: Template) -> None:
    """Missing data counts as an alarm, and there is no data before the schedule."""
    resources = dev.resources.items()
    (alarm,) = (resource for id, resource in resources if id.startswith("AlarmsLifecycleNotRunning"))
    (schedule,) = (id for id in dev.all("AWS::Scheduler::Schedule") if id.startswith("LifecycleSchedule"))
    assert schedule in alarm["DependsOn"]


def test_every_alarm_notifies_every_target_when_it_begins_and_when_it_ends() -> None:
    made = template("dev", *WATCHED)
    (topic,) = made.all("AWS::SNS::Topic")
    for one in made.all("AWS::CloudWatch::Alarm").values():
        assert one["AlarmActions"] == [PAGER, {"Ref": topic}]
        assert one["OKActions"] == [PAGER, {"Ref": topic}]
        assert one.get("ActionsEnabled", True) is True
    assert made.document["Outputs"]["AlarmTopic"]["Value"] == {"Ref": topic}


def test_addresses_are_subscribed_to_a_topic_of_the_stack() -> None:
    made = template("dev", *WATCHED)
    (topic,) = made.all("AWS::SNS::Topic")
    subscriptions = made.all("AWS::SNS::Subscription").values()
    assert {(subscription["Protocol"], subscription["Endpoint"]) for subscription in subscriptions} == {
        ("email", "ops@example.com"),
        ("email", "night@example.com"),
    }
    assert {json.dumps(subscription["TopicArn"]) for subscription in subscriptions} == {json.dumps({"Ref": topic})}


def test_cloudwatch_may_publish_to_the_encrypted_topic_for_alarms_of_this_account() -> None:
    made = template("dev", *WATCHED)
    ((id, topic),) = made.all("AWS::SNS::Topic").items()
    ((key_id, key),) = made.all("AWS::KMS::Key").items()
    assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key_id, "Arn"]}
    assert key["EnableKeyRotation"] is True
    (may,) = (statement for statement in key["KeyPolicy"]["Statement"] if "Service" in statement["Principal"])
    assert may["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert (may["Effect"], may["Action"]) == ("Allow", ["kms:Decrypt", "kms:GenerateDataKey*"])
    (policy,) = made.all("AWS::SNS::TopicPolicy").values()
    assert policy["Topics"] == [{"Ref": id}]
    insecure, publish = policy["PolicyDocument"]["Statement"]
    assert (insecure["Effect"], insecure["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert (publish["Effect"], publish["Action"]) == ("Allow", "sns:Publish")
    assert publish["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert publish["Resource"] == {"Ref": id}
    assert publish["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    assert ":alarm:*" in json.dumps(publish["Condition"]["ArnLike"]["aws:SourceArn"])


def test_a_topic_that_is_there_already_needs_none_of_the_stack() -> None:
    made = template("dev", ONLY_TOPIC)
    assert not made.all("AWS::SNS::Topic")
    assert not made.all("AWS::KMS::Key")
    assert {json.dumps(alarm["AlarmActions"]) for alarm in made.all("AWS::CloudWatch::Alarm").values()} == {
        f'["{PAGER}"]'
    }


def _notify(*targets: str, region: str | None = None) -> list[Any]:
    """The actions of an alarm in an app that passes a topic of its own beside those of its configuration."""
    env = cdk.Environment(account="123456789012", region=region) if region else None
    stack = cdk.Stack(cdk.App(), "Shop", env=env)
    config = parse(CONFIG.read_text().replace("notify = []", f"notify = {json.dumps(targets)}"))
    metric = cloudwatch.Metric(namespace="n", metric_name="m")
    alarm = cloudwatch.Alarm(stack, "Alarm", metric=metric, threshold=1, evaluation_periods=1)
    Targets(
        stack, "Notify", Common("prod", config, EmptyAssets(ROOT, CONFIG, "prod")), topic=sns.Topic(stack, "Calls")
    ).watch_alarm(alarm)
    resources = assertions.Template.from_stack(stack).to_json()["Resources"]
    (made,) = (resource for resource in resources.values() if resource["Type"] == "AWS::CloudWatch::Alarm")
    actions: list[Any] = made["Properties"]["AlarmActions"]
    return actions


def test_the_topic_of_an_app_is_refused_if_alarms_have_their_five_topics_already() -> None:
    """CloudWatch takes five actions per state of an alarm: a deploy with six would fail."""
    four, fifth = [f"{PAGER}-{n}" for n in range(4)], PAGER
    assert len(_notify(*four)) == 5
    with pytest.raises(UsageError, match=r"^alarm_topic: \[observability\] notify has 5 topics already"):
        _notify(*four, fifth)
    with pytest.raises(UsageError, match="notify has 5 topics already"):
        _notify(*four, "ops@example.com")


def test_topics_of_another_region_leave_room_for_the_topic_of_an_app() -> None:
    actions = _notify(*(f"{PAGER}-{n}" for n in range(5)), region="eu-west-1")
    assert len(actions) == 1, "the topic of the app alone"
    # An alarm notifies those of one Region, whichever that is.
    others = [f"{PAGER.replace('us-east-1', 'eu-west-1')}-{n}" for n in range(2)]
    assert len(_notify(*(f"{PAGER}-{n}" for n in range(3)), *others)) == 6


def _notes(stage: str, *changes: tuple[str, str]) -> list[str]:
    return [message for message in template(stage, *changes).messages if "notifies" in message]


def test_the_synth_says_so_if_alarms_notify_nobody(dev: Template) -> None:
    assert not [
        alarm for alarm in dev.all("AWS::CloudWatch::Alarm").values() if "AlarmActions" in alarm or "OKActions" in alarm
    ]
    (note,) = _notes("dev")
    assert note.startswith("No alarm notifies anybody: set [observability] notify")
    assert _notes("dev", ONLY_TOPIC) == []
    assert _notes("local") == []
