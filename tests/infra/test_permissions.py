"""Least privilege: each role's actions, on what, and no wildcard without a reason."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.infra import synth
from tests.infra.synth import ENCRYPTED, FORMER, FORMER_KEY, KEY, SCALED, Template, actions, resources

TABLES = ":table/tidetable-dev.*"
# A stream whose archives expire, with values in the bucket.
SWEPT = """
[archive]
expire_after = "7d"
[streams.s]
period = "day"
late = "1d"
retention = 3
large = { beyond = "s3" }
key = { partition_by = "series" }
"""
RECONCILE = {
    *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTable"),
    *("dynamodb:DeleteTable", "dynamodb:TagResource", "dynamodb:ListTagsOfResource"),
    "dynamodb:UpdateContinuousBackups",
}
ENTRIES = {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
# Per function: what it may do on period tables, on the catalog, and in the archive.
RIGHTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "ingest": (
        {"dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:BatchGetItem"},
        {"dynamodb:Query"},
        {"s3:PutObject"},
    ),
    "drain": (
        {f"dynamodb:{one}" for one in ("BatchWriteItem", "PutItem", "GetItem", "BatchGetItem")},
        {"dynamodb:Query", "dynamodb:ConditionCheckItem"},
        {"s3:PutObject", "s3:GetObject", "s3:ListBucket"},
    ),
    "query": (
        {"dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:DescribeTable"},
        {"dynamodb:Query"},
        {"s3:GetObject", "s3:ListBucket"},
    ),
    "lifecycle": (RECONCILE, ENTRIES | {"dynamodb:GetItem"}, set()),
    "deployment": (
        RECONCILE,
        ENTRIES | {"dynamodb:GetItem", "dynamodb:DescribeTable", "dynamodb:UpdateTable"},
        set(),
    ),
    "archiver": (
        {"dynamodb:Scan", "dynamodb:Query", "dynamodb:DescribeTable", "dynamodb:BatchGetItem"},
        ENTRIES,
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
    "restorer": (
        {
            *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:TagResource"),
            *("dynamodb:ListTagsOfResource", "dynamodb:BatchWriteItem", "dynamodb:Scan"),
            "dynamodb:Query",
            *("dynamodb:BatchGetItem", "dynamodb:UpdateContinuousBackups"),
        },
        ENTRIES | {"dynamodb:GetItem"},
        {"s3:GetObject", "s3:PutObject", "s3:ListBucket"},
    ),
    "archive_reader": (set(), set(), {"s3:GetObject"}),
    "sweeper": (
        {"dynamodb:BatchGetItem"},
        {"dynamodb:Query", "dynamodb:UpdateItem"},
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
}
# Per function: what it may do with the bucket's objects, by prefix. Listing goes for the bucket itself.
OBJECTS: dict[str, dict[str, set[str]]] = {
    "ingest": {"large/": {"PutObject"}, "overflow/": {"PutObject"}},
    "drain": {"large/": {"PutObject"}, "overflow/": {"GetObject"}},
    "query": {"large/": {"GetObject"}},
    "archive_reader": {"stream=": {"GetObject"}},
    "archiver": {"stream=": {"GetObject", "PutObject", "DeleteObject"}, "large/": {"GetObject"}},
    "restorer": {"stream=": {"GetObject"}, "large/": {"GetObject", "PutObject"}},
    "sweeper": {"large/": {"GetObject", "DeleteObject"}, "large/_sweep.json": {"PutObject"}},
    "lifecycle": {},
    "deployment": {},
}
# Every wildcard in any policy, and why it may stand.
WILDCARDS = {
    r":table/tidetable-dev\.\*": "period tables come and go by themselves",
    r"/stream=\*": "the archive's objects",
    r"/large/\*": "large values",
    r"/overflow/\*": "messages too large for their queue",
    r":scalable-target/\*": "the names of scalable targets are AWS's own",
    r":alarm:TargetTracking-table/tidetable-dev\.\*": "alarms of Application Auto Scaling carry the tables' names",
    r"Lifecycle(Function|Deployment|Sweeper)\w+\", \"Arn\"\]}, \":\*": "any version of the one function that is called",
}


def _on(template: Template, handler: str, resource: str) -> set[str]:
    found = [one for one in template.statements(handler) if any(resource in text for text in resources(one))]
    return {action for one in found for action in actions(one)}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_do_exactly_its_own(dev: Template, name: str) -> None:
    tables, catalog, archive = RIGHTS[name]
    assert _on(dev, name, TABLES) == tables
    assert _on(dev, name, '"StorageCatalog') == catalog
    assert _on(dev, name, '"StorageArchive') == archive


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
        name: [text for one in dev.statements(name) if "events:PutEvents" in actions(one) for text in resources(one)]
        for name in RIGHTS
    }
    assert {name for name, on in may.items() if on} == {"lifecycle", "deployment"}
    for name in ("lifecycle", "deployment"):
        (bus,) = may[name]
        assert ":events:" in bus
        assert bus.endswith(':event-bus/default"]]}')


def test_the_drain_alone_takes_from_the_overflow_queue_and_fills_the_dead_letter_queue(dev: Template) -> None:
    takes = {name for name in RIGHTS if "sqs:ReceiveMessage" in _on(dev, name, '"IngestOverflow')}
    fills = {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"IngestDeadLetters')}
    assert (takes, fills) == ({"drain"}, {"drain"})


@pytest.mark.parametrize(
    "name, called", [("query", "archive_reader"), ("lifecycle", "archiver"), ("deployment", "archiver")]
)
def test_a_function_may_call_one_other(dev: Template, name: str, called: str) -> None:
    invoking = [one for one in dev.statements(name) if "lambda:InvokeFunction" in actions(one)]
    assert [resources(one) for one in invoking] == [[json.dumps({"Fn::GetAtt": [dev.id_of(called), "Arn"]})]]


def test_only_ingest_may_send_to_the_overflow_queue(dev: Template) -> None:
    may = {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"IngestOverflow')}
    assert may == {"ingest"}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_write_to_its_own_log_group_only(dev: Template, name: str) -> None:
    group = dev.functions()[name]["LoggingConfig"]["LogGroup"]["Ref"]
    writing = [one for one in dev.statements(name) if any(action.startswith("logs:") for action in actions(one))]
    assert [resources(one) for one in writing] == [[json.dumps({"Fn::GetAtt": [group, "Arn"]})]]


def test_no_two_functions_share_a_role(dev: Template) -> None:
    roles = [json.dumps(one["Role"]) for one in dev.functions().values()]
    assert len(set(roles)) == len(roles)


def test_no_action_is_a_wildcard(dev: Template) -> None:
    found = [action for one in _allowed(dev) for action in actions(one) if "*" in action]
    assert found == []


def test_every_wildcard_of_a_resource_has_a_reason(dev: Template) -> None:
    starred = {text for one in _allowed(dev) for text in resources(one) if "*" in text}
    assert [text for text in starred if not any(re.search(reason, text) for reason in WILDCARDS)] == []


def test_tracing_alone_brings_a_bare_wildcard(signed: Template) -> None:
    bare = [one for one in _allowed(signed) if '"*"' in resources(one)]
    assert bare
    assert {action for one in bare for action in actions(one)} == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


def test_nobody_may_list_the_accounts_tables(dev: Template) -> None:
    assert "dynamodb:ListTables" not in {action for one in _allowed(dev) for action in actions(one)}


def test_only_who_scales_may_scale(dev: Template) -> None:
    may = {
        name
        for name in RIGHTS
        if any("application-autoscaling:RegisterScalableTarget" in actions(one) for one in dev.statements(name))
    }
    assert may == {"lifecycle", "deployment"}
    linked = [one for one in dev.statements("lifecycle") if "iam:CreateServiceLinkedRole" in actions(one)]
    assert [one["Condition"] for one in linked] == [
        {"StringLike": {"iam:AWSServiceName": "dynamodb.application-autoscaling.amazonaws.com"}}
    ]


# Features that tables keep for their life: what the functions may do must not shrink when they are configured no longer.
PLAIN = (
    ('versions = "keep"', ""),
    ('cold = ["raw"]', ""),
    ('beyond = "s3"', 'beyond = "refuse"'),
    ('beyond = "chunks"', ""),
)


@pytest.mark.parametrize("name", RIGHTS)
def test_rights_do_not_follow_todays_configuration(name: str) -> None:
    def rights(made: Template) -> set[tuple[str, str]]:
        return {(action, text) for one in made.statements(name) for action in actions(one) for text in resources(one)}

    assert rights(synth.template("dev", *PLAIN)) == rights(synth.template("dev", SCALED))


USES = {
    *("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:DescribeKey"),
    *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"),
}
THROUGH = {"Fn::Join": ["", ["dynamodb.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}


@pytest.mark.parametrize(
    "changes, keys", [((ENCRYPTED,), {KEY}), ((ENCRYPTED, FORMER), {KEY, FORMER_KEY}), ((FORMER,), {FORMER_KEY})]
)
def test_keys_of_tables_present_and_former_are_used_through_dynamodb_only(
    changes: tuple[tuple[str, str], ...], keys: set[str]
) -> None:
    made = synth.template("dev", *changes)
    for name in ("ingest", "drain", "query", "lifecycle", "deployment", "archiver", "restorer", "sweeper"):
        uses = [
            one
            for one in made.statements(name)
            if one.get("Condition", {}) == {"StringEquals": {"kms:ViaService": THROUGH}}
        ]
        assert [actions(one) for one in uses] == [USES]
        assert {text.strip('"') for one in uses for text in resources(one)} == keys


def test_only_who_makes_tables_may_let_dynamodb_keep_using_a_key() -> None:
    made = synth.template("dev", ENCRYPTED, FORMER)
    may = {}
    for name in RIGHTS:
        for one in made.statements(name):
            if "kms:CreateGrant" in actions(one):
                may[name] = one["Condition"]
    assert set(may) == {"lifecycle", "deployment", "restorer"}
    condition = {
        "StringEquals": {"kms:ViaService": THROUGH},
        "Bool": {"kms:GrantIsForAWSResource": "true"},
    }
    assert list(may.values()) == [condition] * 3


@pytest.mark.parametrize(
    "name, prefixes",
    [
        ("query", ["large/*"]),
        ("drain", ["overflow/*"]),
        ("archiver", ["stream=*", "large/*"]),
        ("restorer", ["stream=*", "large/*"]),
        ("sweeper", ["stream=*", "large/*"]),
    ],
)
def test_the_bucket_is_listed_under_a_functions_own_prefixes(dev: Template, name: str, prefixes: list[str]) -> None:
    listing = [one for one in dev.statements(name) if "s3:ListBucket" in actions(one)]
    # CloudFormation takes a list of one as its element.
    expected = {"StringLike": {"s3:prefix": prefixes if len(prefixes) > 1 else prefixes[0]}}
    assert [_unlisted(one["Condition"]) for one in listing] == [expected]


def test_the_sweeper_may_list_what_it_lists(dev: Template) -> None:
    """S3 denies a listing whose prefix the condition does not know, and the emulator does not."""
    stage = Stage(datetime(2026, 3, 15, 12, tzinfo=UTC), SWEPT)
    while stage.run_lifecycle().done:
        pass
    stage.send("s", json.dumps([{"series": "a", "data": {"text": noise(500_000)}}]).encode())
    listed: list[str] = []
    for store, name in ((stage.values, "stored"), (stage.values, "folders"), (stage.bucket, "sizes")):
        _note_prefixes(store, name, listed)
    for _ in range(40):
        stage.clock.sleep(86_400)
        stage.run_lifecycle()
    listed.clear()
    assert stage.sweep().failures == []
    (statement,) = [one for one in dev.statements("sweeper") if "s3:ListBucket" in actions(one)]
    patterns = statement["Condition"]["StringLike"]["s3:prefix"]
    assert {pattern: any(fnmatchcase(one, pattern) for one in listed) for pattern in patterns} == {
        "stream=*": True,
        "large/*": True,
    }
    assert [one for one in listed if not any(fnmatchcase(one, pattern) for pattern in patterns)] == []


def _note_prefixes(store: Any, name: str, listed: list[str]) -> None:
    lists = getattr(store, name)

    def note(prefix: str, *more: Any) -> Any:
        listed.append(prefix)
        return lists(prefix, *more)

    setattr(store, name, note)


@pytest.mark.parametrize("name", RIGHTS)
def test_the_local_stages_rights_are_those_of_any_stage(dev: Template, local: Template, name: str) -> None:
    """What the end-to-end tests try under IAM is what is deployed to AWS."""

    def without_stage(template: Template, stage: str) -> str:
        return json.dumps(template.statements(name), sort_keys=True).replace(f"tidetable-{stage}", "tidetable-STAGE")

    assert without_stage(local, "local") == without_stage(dev, "dev")


def _unlisted(condition: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {
        test: {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()}
        for test, keys in condition.items()
    }


def test_objects_are_those_of_the_accounts_own_bucket(dev: Template) -> None:
    """A bucket that was deleted may come back in a stranger's account."""
    found = [
        one for name in RIGHTS for one in dev.statements(name) if any("/large/*" in text for text in resources(one))
    ]
    assert len(found) > 4
    assert all(one["Condition"]["StringEquals"] == {"aws:ResourceAccount": {"Ref": "AWS::AccountId"}} for one in found)


def _allowed(template: Template) -> list[dict[str, object]]:
    inline = [policy for role in template.all("AWS::IAM::Role").values() for policy in role.get("Policies", [])]
    documents = [policy["PolicyDocument"] for policy in [*template.all("AWS::IAM::Policy").values(), *inline]]
    return [one for document in documents for one in document["Statement"] if one["Effect"] == "Allow"]
