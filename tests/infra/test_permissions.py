"""Least privilege: each role's actions, on what, and no wildcard without a reason."""

from __future__ import annotations

import json
import re

import pytest

from aws import feed_targets
from infra import feed
from tests.infra.rights import RIGHTS, ROLLUPS
from tests.infra.synth import Template, actions, resources, template
from tidetable.config import check_feed

TABLES = ":table/tidetable-dev.*"


@pytest.fixture
def dev(rolled: Template) -> Template:
    """A stage that has every function."""
    return rolled


# Per function: its actions on the bucket's objects, by prefix. Listing is an action on the bucket itself.
OBJECTS: dict[str, dict[str, set[str]]] = {
    "ingest": {"large/": {"PutObject"}, "overflow/": {"PutObject"}, "saved/": {"PutObject"}},
    "doors": {"large/": {"PutObject"}, "overflow/": {"PutObject"}, "saved/": {"PutObject"}},
    "drain": {
        "large/": {"PutObject"},
        "overflow/": {"GetObject", "PutObject"},
        "saved/": {"GetObject", "PutObject", "DeleteObject"},
    },
    "query": {"large/": {"GetObject"}, "listings/": {"GetObject", "PutObject"}},
    "archive_reader": {"stream=": {"GetObject"}},
    "archiver": {"stream=": {"GetObject", "PutObject", "DeleteObject"}, "large/": {"GetObject"}},
    "restorer": {"stream=": {"GetObject"}, "large/": {"GetObject", "PutObject"}},
    "sweeper": {"large/": {"GetObject", "DeleteObject"}, "large/_sweep.json": {"PutObject"}},
    "lake": {"stream=*/_manifest*.json": {"GetObject"}, "iceberg/": {"GetObject", "PutObject", "DeleteObject"}},
    "feed": {"large/": {"GetObject"}},
    "lifecycle": {"overflow/": {"GetObject"}, "saved/": {"PutObject"}},
    "deployment": {},
    "refresher": {"large/": {"GetObject"}},
    "authorizer": {},
    "console": {},
    "operations": {},
}


# Every wildcard in any policy, with its reason.
WILDCARDS = {
    r"^\"\*\"$": "event source mappings and streams are listed by the account; metrics know no resources",
    r":table/tidetable-dev\.\*": "period tables come and go by themselves",
    r":table/tidetable_dev/\*": "Iceberg tables come and go with streams",
    r"/stream=\*": "the archive's objects",
    r"/iceberg/\*": "the metadata of Iceberg tables",
    r"/large/\*": "large values",
    r"/overflow/\*": "messages too large for their queue",
    r"/saved/\*": "acknowledged events that wait without a limit of time",
    r"/listings/\*": "names of listings between two pages",
    r":scalable-target/\*": "the names of scalable targets are AWS's own",
    r":alarm:\*\"": "CloudWatch lists alarms by the beginning of their names, which no resource says",
    r":alarm:TargetTracking-table/tidetable-dev\.\*": "alarms of Application Auto Scaling carry the tables' names",
    r"(Lifecycle(Function|Deployment|Sweeper|Lake|Restorer)|IngestDrain|Rollups)\w+\", \"Arn\"\]}, \":\*": "any version",
}


def _on(template: Template, handler: str, resource: str) -> set[str]:
    found = [
        statement
        for statement in template.statements(handler)
        if any(resource in text for text in resources(statement))
    ]
    return {action for statement in found for action in actions(statement)}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_do_exactly_its_own(dev: Template, name: str) -> None:
    tables, catalog, archive = RIGHTS[name]
    assert _on(dev, name, TABLES) == tables
    assert _on(dev, name, '"StorageCatalog') == catalog
    assert _on(dev, name, '"StorageArchive') == archive
    assert _on(dev, name, '"StorageRollups') == ROLLUPS.get(name, set())


@pytest.mark.parametrize("name", OBJECTS)
def test_a_function_may_read_and_write_objects_of_its_own_prefixes_only(dev: Template, name: str) -> None:
    found: dict[str, set[str]] = {}
    for statement in dev.statements(name):
        does = {action.removeprefix("s3:") for action in actions(statement) if action.startswith("s3:")}
        for text in resources(statement) if does - {"ListBucket"} else []:
            prefix = re.search(r'"StorageArchive\w+", "Arn"\]\}, "/([^"]*?)\*?"', text)
            assert prefix is not None, text
            found.setdefault(prefix[1], set()).update(does)
    assert found == OBJECTS[name]


def test_who_changes_tables_may_announce_it_on_the_default_bus_and_nobody_else_may(dev: Template) -> None:
    may = {
        name: [
            text
            for statement in dev.statements(name)
            if "events:PutEvents" in actions(statement)
            for text in resources(statement)
        ]
        for name in RIGHTS
    }
    assert {name for name, on in may.items() if on} == {"lifecycle", "deployment"}
    for name in ("lifecycle", "deployment"):
        (bus,) = may[name]
        assert ":events:" in bus
        assert bus.endswith(':event-bus/default"]]}')


def test_the_drain_and_the_lifecycle_take_from_the_overflow_and_the_drain_fills_the_dead_letters(dev: Template) -> None:
    """While the drain stands still, the lifecycle saves the messages of both queues."""
    takes = {name for name in RIGHTS if "sqs:ReceiveMessage" in _on(dev, name, '"IngestOverflow')}
    dead = {name for name in RIGHTS if "sqs:ReceiveMessage" in _on(dev, name, '"IngestDeadLetters')}
    fills = {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"IngestDeadLetters')}
    assert (takes, dead, fills) == ({"drain", "lifecycle"}, {"lifecycle"}, {"drain"})


@pytest.mark.parametrize(
    "name, called",
    [
        ("query", "archive_reader"),
        ("lifecycle", "archiver"),
        ("deployment", "archiver"),
        ("refresher", "archive_reader"),
        ("operations", "lifecycle"),
    ],
)
def test_a_function_may_call_one_other(dev: Template, name: str, called: str) -> None:
    invoking = [statement for statement in dev.statements(name) if "lambda:InvokeFunction" in actions(statement)]
    assert [resources(statement) for statement in invoking] == [
        [json.dumps({"Fn::GetAtt": [dev.id_of(called), "Arn"]})]
    ]


def test_only_what_takes_requests_and_what_wakes_the_drain_may_send_to_the_overflow_queue(dev: Template) -> None:
    """The drain wakes its own consumers, and the lifecycle sends beats."""
    may = {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"IngestOverflow')}
    assert may == {"ingest", "doors", "drain", "lifecycle"}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_write_to_its_own_log_group_only(dev: Template, name: str) -> None:
    group = dev.functions()[name]["LoggingConfig"]["LogGroup"]["Ref"]
    writing = [
        statement
        for statement in dev.statements(name)
        if any(action.startswith("logs:") for action in actions(statement))
    ]
    assert [resources(statement) for statement in writing] == [[json.dumps({"Fn::GetAtt": [group, "Arn"]})]]


def test_no_two_functions_share_a_role(dev: Template) -> None:
    roles = [function["Role"]["Fn::GetAtt"][0] for function in dev.functions().values()]
    assert len(set(roles)) == len(roles)
    trusted = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    for role in roles:
        assert dev.resources[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"] == [trusted]


def test_no_action_is_a_wildcard(dev: Template) -> None:
    found = [action for statement in _allowed(dev) for action in actions(statement) if "*" in action]
    assert found == []


def test_every_wildcard_of_a_resource_has_a_reason(dev: Template) -> None:
    starred = {text for statement in _allowed(dev) for text in resources(statement) if "*" in text}
    assert [text for text in starred if not any(re.search(reason, text) for reason in WILDCARDS)] == []


MAPPINGS = {f"lambda:{change}EventSourceMapping" for change in ("Create", "Update", "Delete")}


def _bare(template: Template) -> dict[str, set[str]]:
    """The actions on any resource, by function."""
    found = {
        name: {
            action
            for statement in template.statements(name)
            if '"*"' in resources(statement)
            for action in actions(statement)
        }
        for name in template.functions()
    }
    return {name: may for name, may in found.items() if may}


def test_a_bare_wildcard_stands_where_aws_knows_no_resources(dev: Template) -> None:
    maps = MAPPINGS | {"lambda:ListEventSourceMappings"}
    metrics = {"cloudwatch:GetMetricData"}
    lists = {"dynamodb:ListStreams"}
    assert _bare(dev) == {"lifecycle": maps, "deployment": maps, "feed": lists, "operations": metrics}


def test_the_operators_function_reads_periods_policies_and_work_of_the_catalog_and_no_key(dev: Template) -> None:
    reading = [statement for statement in dev.statements("operations") if "dynamodb:Query" in actions(statement)]
    leading = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["stream#*", "policies", "work#*"]}}
    assert [statement.get("Condition") for statement in reading] == [leading, None]
    # The table of the rollups' state holds no key.
    assert "Rollups" in str(reading[1]["Resource"])


def test_the_drain_changes_entries_of_periods_alone(dev: Template) -> None:
    changing = [
        statement
        for statement in dev.statements("drain")
        if "dynamodb:UpdateItem" in actions(statement) and "Catalog" in str(statement["Resource"])
    ]
    leading = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["stream#*"]}}
    assert [(actions(statement), statement["Condition"]) for statement in changing] == [
        ({"dynamodb:UpdateItem"}, leading)
    ]


@pytest.mark.parametrize("name", ["lifecycle", "deployment"])
def test_mappings_of_the_feeds_function_alone_may_be_changed(dev: Template, name: str) -> None:
    changing = [statement for statement in dev.statements(name) if MAPPINGS & set(actions(statement))]
    feed = {"Fn::GetAtt": [dev.id_of("feed"), "Arn"]}
    assert [statement.get("Condition") for statement in changing] == [{"ArnEquals": {"lambda:FunctionArn": feed}}]
    assert set(actions(changing[0])) == MAPPINGS


def test_tracing_brings_another_bare_wildcard(dev: Template, signed: Template) -> None:
    traces = {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
    without = _bare(dev)
    assert _bare(signed) == {name: without.get(name, set()) | traces for name in signed.functions()}


TARGETS = {
    "arn:aws:lambda:us-east-1:123456789012:function:upsert": {"lambda:InvokeFunction"},
    "arn:aws:sqs:us-east-1:123456789012:changes": {"sqs:SendMessage", "sqs:GetQueueUrl"},
    "arn:aws:events:us-east-1:123456789012:event-bus/default": {"events:PutEvents"},
    "arn:aws:kinesis:us-east-1:123456789012:stream/orders": {"kinesis:PutRecords"},
    "arn:aws:firehose:us-east-1:123456789012:deliverystream/orders": {"firehose:PutRecordBatch"},
}


def test_each_kind_of_target_is_checked_sent_to_and_allowed() -> None:
    """The three tables are in three rooms: the configuration, the adapters and the template."""
    kinds = {arn.split(":")[2] for arn in TARGETS}
    assert [set(check_feed._NAMES), set(feed_targets._TARGETS), set(feed._ACTIONS)] == [kinds, kinds, kinds]


def test_the_feed_may_reach_exactly_the_targets_of_the_configuration(dev: Template) -> None:
    feed = f"[streams.stations.feed]\ntargets = {json.dumps(list(TARGETS))}\n[streams.stations.key]"
    made = template("dev", ("[streams.stations.key]", feed))
    found: dict[str, set[str]] = {}
    for statement in made.statements("feed"):
        for text in resources(statement):
            if text.strip('"') in TARGETS:
                found.setdefault(text.strip('"'), set()).update(actions(statement))
    assert found == TARGETS
    own = [
        statement
        for statement in made.statements("feed")
        if not any(text.strip('"') in TARGETS for text in resources(statement))
    ]
    assert own == dev.statements("feed")


def test_only_the_feed_fills_its_dead_letter_queue(dev: Template) -> None:
    assert {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"FeedDeadLetters')} == {"feed"}


def test_nobody_may_list_the_accounts_tables(dev: Template) -> None:
    assert "dynamodb:ListTables" not in {action for statement in _allowed(dev) for action in actions(statement)}


def test_only_who_scales_may_scale(dev: Template) -> None:
    may = {
        name
        for name in RIGHTS
        if any(
            "application-autoscaling:RegisterScalableTarget" in actions(statement) for statement in dev.statements(name)
        )
    }
    assert may == {"lifecycle", "deployment"}
    linked = [
        statement for statement in dev.statements("lifecycle") if "iam:CreateServiceLinkedRole" in actions(statement)
    ]
    assert [statement["Condition"] for statement in linked] == [
        {"StringLike": {"iam:AWSServiceName": "dynamodb.application-autoscaling.amazonaws.com"}}
    ]
    (role,) = resources(linked[0])
    assert role.endswith(
        ':role/aws-service-role/dynamodb.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_DynamoDBTable"]]}'
    )
    # A stage that no longer scales deregisters its tables.
    assert _on(dev, "lifecycle", ":scalable-target/*") == {
        f"application-autoscaling:{action}"
        for action in ("RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy")
    }


def _allowed(template: Template) -> list[dict[str, object]]:
    inline = [policy for role in template.all("AWS::IAM::Role").values() for policy in role.get("Policies", [])]
    documents = [policy["PolicyDocument"] for policy in [*template.all("AWS::IAM::Policy").values(), *inline]]
    return [
        statement for document in documents for statement in document["Statement"] if statement["Effect"] == "Allow"
    ]


def test_alarms_are_changed_by_what_scales_and_looked_at_by_the_operators_function(dev: Template) -> None:
    may = {
        name: {
            action
            for statement in dev.statements(name)
            for action in actions(statement)
            if action.startswith("cloudwatch:")
        }
        for name in RIGHTS
    }
    scales = {"cloudwatch:PutMetricAlarm", "cloudwatch:DescribeAlarms", "cloudwatch:DeleteAlarms"}
    assert {name: does for name, does in may.items() if does} == {
        "lifecycle": scales,
        "deployment": scales,
        "operations": {"cloudwatch:DescribeAlarms", "cloudwatch:GetMetricData"},
    }
    (looks,) = (one for one in dev.statements("operations") if "cloudwatch:DescribeAlarms" in actions(one))
    (alarms,) = resources(looks)
    assert ":cloudwatch:" in alarms
    assert alarms.endswith(':alarm:*"]]}')
