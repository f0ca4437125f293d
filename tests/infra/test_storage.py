"""The storage and the queues: encrypted, private, and kept when the stack is deleted unless the configuration says
otherwise.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.storage import make_archive_rules
from tests.infra.synth import (
    AGEING,
    ALL_GOES,
    CONFIG,
    DELETE_ALL,
    EXPIRES,
    FORMER_KEY,
    KEYS,
    LIMITED,
    MOVED,
    PROTECTED,
    STORAGE_KEY,
    STORED_BY_KEY,
    Template,
    actions,
    app,
    located,
    resources,
    template,
)
from tidetable.config import parse

QUEUE, BUCKET, TABLE = "AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::DynamoDB::Table"


def _one(template: Template, kind: str, part: str) -> dict[str, object]:
    return next(resource for id, resource in template.resources.items() if resource["Type"] == kind and part in id)


@pytest.mark.parametrize("part", ["StorageArchive", "StorageAccessLogs"])
def test_a_bucket_is_private_and_encrypted(dev: Template, part: str) -> None:
    bucket = next(bucket for id, bucket in dev.all(BUCKET).items() if part in id)
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]


@pytest.mark.parametrize("kind, policy", [(BUCKET, "AWS::S3::BucketPolicy"), (QUEUE, "AWS::SQS::QueuePolicy")])
def test_nothing_is_reached_without_tls(dev: Template, kind: str, policy: str) -> None:
    denied = [document for document in dev.all(policy).values() if "aws:SecureTransport" in json.dumps(document)]
    assert len(denied) == len(dev.all(kind)) > 0


def test_old_versions_and_broken_uploads_do_not_pile_up(dev: Template) -> None:
    bucket = next(bucket for id, bucket in dev.all(BUCKET).items() if "StorageArchive" in id)
    rule = bucket["LifecycleConfiguration"]["Rules"][0]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] > 0
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] > 0
    assert "ExpirationInDays" not in rule  # the archive itself stays
    expiring = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if "ExpirationInDays" in rule]
    # A message may wait for 14 days, be a dead letter for another 14, be replayed on the last of them, and begin again.
    assert [(rule["Prefix"], rule["ExpirationInDays"]) for rule in expiring] == [("overflow/", 60), ("listings/", 1)]


def test_the_catalog_is_keyed_protected_and_restorable(dev: Template) -> None:
    assert len(dev.all(TABLE)) == 2
    catalog: Any = _one(dev, TABLE, "StorageCatalog")["Properties"]
    assert catalog["TableName"] == "tidetable-dev-catalog"
    assert [(key["AttributeName"], key["KeyType"]) for key in catalog["KeySchema"]] == [("pk", "HASH"), ("sk", "RANGE")]
    assert catalog["BillingMode"] == "PAY_PER_REQUEST"
    assert catalog["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    # AWS encrypts every table: with false by DynamoDB's own key, which costs nothing.
    assert catalog["SSESpecification"] == {"SSEEnabled": False}


def test_no_key_of_kms_is_between_a_request_and_the_check_of_its_key() -> None:
    made = template("dev", *KEYS)
    assert [table["SSESpecification"] for table in made.all(TABLE).values()] == [{"SSEEnabled": False}] * 2
    assert not [one for one in made.statements("authorizer") if any("kms:" in action for action in actions(one))]


def test_the_state_of_rollups_is_kept_as_the_catalog_is_whether_there_are_rollups_or_not(
    dev: Template, rolled: Template
) -> None:
    """A kept table cannot be created again under its name, so it does not come and go with the configuration."""
    catalog: Any = _one(dev, TABLE, "StorageCatalog")
    state = _one(dev, TABLE, "StorageRollups")
    assert state["Properties"] == {**catalog["Properties"], "TableName": "tidetable-dev-rollups"}
    assert _one(rolled, TABLE, "StorageRollups") == state


KEPT = [
    *((TABLE, "StorageCatalog"), (TABLE, "StorageRollups"), (BUCKET, "StorageArchive"), (BUCKET, "StorageAccessLogs")),
    *((QUEUE, "IngestOverflow"), (QUEUE, "IngestDeadLetters")),
]


@pytest.mark.parametrize("kind, part", KEPT)
def test_data_is_kept_when_the_stack_goes_but_not_when_its_creation_fails(dev: Template, kind: str, part: str) -> None:
    resource = _one(dev, kind, part)
    assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


@pytest.mark.parametrize("kind, part", KEPT)
def test_data_goes_when_every_stream_and_the_storage_say_so(kind: str, part: str) -> None:
    assert _one(template("dev", *ALL_GOES), kind, part)["DeletionPolicy"] == "Delete"


def test_the_documents_say_that_the_queues_go_with_everything_else() -> None:
    document = (CONFIG.parent / "docs" / "start" / "deploy.md").read_text()
    (row,) = (line for line in document.splitlines() if line.startswith("| the two queues of acknowledged events"))
    assert 'removal = "delete"' in row


def test_only_buckets_that_go_are_emptied(dev: Template) -> None:
    assert not dev.all("Custom::S3AutoDeleteObjects")
    assert not template("dev", *DELETE_ALL).all("Custom::S3AutoDeleteObjects")
    emptied = template("dev", *ALL_GOES).all("Custom::S3AutoDeleteObjects").values()
    assert {bucket["BucketName"]["Ref"][:18] for bucket in emptied} == {"StorageArchiveEF4C", "StorageAccessLogs9"}


@pytest.mark.parametrize("kind, part", KEPT)
def test_archives_and_their_catalog_stay_though_the_tables_of_every_stream_go(kind: str, part: str) -> None:
    assert _one(template("dev", *DELETE_ALL), kind, part)["DeletionPolicy"] == "RetainExceptOnCreate"


def test_one_stream_that_is_kept_keeps_the_catalog() -> None:
    mixed = template("dev", DELETE_ALL[1])
    assert _one(mixed, TABLE, "StorageCatalog")["DeletionPolicy"] == "RetainExceptOnCreate"


def test_nothing_is_protected_before_the_stage_stands(dev: Template) -> None:
    for unprotected in (dev, template("dev", *ALL_GOES)):
        for table in unprotected.all(TABLE).values():
            assert "DeletionProtectionEnabled" not in table


def test_what_is_taken_back_has_a_literal_name_where_the_account_is_known() -> None:
    made = located()
    names = {
        next(iter(id for id in ("Catalog", "Rollups", "Archive", "AccessLogs") if f"Storage{id}" in name)): bucket.get(
            "TableName"
        )
        or bucket.get("BucketName")
        for name, bucket in {**made.all(TABLE), **made.all(BUCKET)}.items()
    }
    assert names == {
        "Catalog": "tidetable-dev-catalog",
        "Rollups": "tidetable-dev-rollups",
        "Archive": "tidetable-dev-archive-123456789012-eu-west-1",
        "AccessLogs": "tidetable-dev-logs-123456789012-eu-west-1",
    }


def test_without_credentials_cloudformation_puts_the_same_names_together(dev: Template) -> None:
    name = next(bucket["BucketName"] for id, bucket in dev.all(BUCKET).items() if "StorageArchive" in id)
    parts = ["tidetable-dev-archive-", {"Ref": "AWS::AccountId"}, "-", {"Ref": "AWS::Region"}]
    assert name == {"Fn::Join": ["", parts]}


def test_nothing_that_outlives_a_failed_creation_has_a_name_of_its_own(dev: Template) -> None:
    """The only exception is the account's role for API logs, because other APIs may use it."""
    left = {
        resource["Type"]: resource.get("Properties", {})
        for resource in dev.resources.values()
        if resource.get("DeletionPolicy") == "Retain"
    }
    assert set(left) == {"AWS::IAM::Role", "AWS::ApiGateway::Account"}
    assert "RoleName" not in left["AWS::IAM::Role"]


def test_a_stage_in_an_account_with_a_role_for_api_logs_leaves_it_alone() -> None:
    made = template("dev", *LIMITED)
    assert not made.all("AWS::ApiGateway::Account")
    (stage,) = made.all("AWS::ApiGateway::Stage").values()
    assert stage["AccessLogSetting"]


def test_a_stack_is_protected_from_termination_if_the_configuration_says_so() -> None:
    assert app("dev")[1].termination_protection is False
    assert app("dev", PROTECTED)[1].termination_protection is True


def test_a_key_of_ones_own_encrypts_the_bucket_and_the_queues_of_events() -> None:
    made = template("dev", STORED_BY_KEY)
    bucket = next(bucket for id, bucket in made.all(BUCKET).items() if "StorageArchive" in id)
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule == {
        "BucketKeyEnabled": True,
        "ServerSideEncryptionByDefault": {"KMSMasterKeyID": STORAGE_KEY, "SSEAlgorithm": "aws:kms"},
    }
    keys = {id: queue.get("KmsMasterKeyId") for id, queue in made.all(QUEUE).items()}
    assert {re.sub(r"[0-9A-F]{8}$", "", id)[:12]: key for id, key in keys.items()} == {
        "FeedDeadLett": STORAGE_KEY,
        "IngestDeadLe": STORAGE_KEY,
        "IngestOverfl": STORAGE_KEY,
        "LifecycleDea": None,
        "WorkDeadLett": None,
        "WorkArchives": None,
        "WorkFiles": None,
        "WorkLake": None,
        "WorkRestores": None,
    }
    # S3 delivers access logs to no bucket with a customer's key.
    logs = next(bucket for id, bucket in made.all(BUCKET).items() if "StorageAccessLogs" in id)
    assert "aws:kms" not in json.dumps(logs)


def _uses(made: Template, handler: str, service: str) -> dict[str, set[str]]:
    """The keys that a function may use through a service, and the allowed actions."""
    through = {"Fn::Join": ["", [f"{service}.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]}
    found: dict[str, set[str]] = {}
    for statement in made.statements(handler):
        if statement.get("Condition", {}).get("StringEquals", {}).get("kms:ViaService") == through:
            for key in resources(statement):
                found.setdefault(key.strip('"'), set()).update(actions(statement))
    return found


WRITE, READ = {"kms:GenerateDataKey", "kms:Decrypt"}, {"kms:Decrypt"}


@pytest.mark.parametrize(
    "handler, objects, messages",
    [
        ("ingest", WRITE, WRITE),
        ("drain", WRITE, WRITE),
        ("query", WRITE, set()),
        ("archive_reader", READ, set()),
        ("archiver", WRITE, set()),
        ("restorer", WRITE, set()),
        ("sweeper", WRITE, set()),
        ("feed", READ, WRITE),
        ("lifecycle", WRITE, WRITE),
        ("deployment", set(), set()),
    ],
)
def test_functions_may_use_the_storages_keys_present_and_former(
    handler: str, objects: set[str], messages: set[str]
) -> None:
    made = template("dev", *KEYS)
    for service, expected in (("s3", objects), ("sqs", messages)):
        keys = {STORAGE_KEY: expected, FORMER_KEY: expected} if expected else {}
        assert _uses(made, handler, service) == keys


def test_without_a_key_of_ones_own_nobody_may_use_any(dev: Template) -> None:
    policies: list[dict[str, Any]] = [*dev.all("AWS::IAM::Policy").values()]
    assert "kms:" not in json.dumps(policies)


def test_every_queue_is_encrypted_and_keeps_two_weeks(dev: Template) -> None:
    assert {(queue["SqsManagedSseEnabled"], queue["MessageRetentionPeriod"]) for queue in dev.all(QUEUE).values()} == {
        (True, 14 * 24 * 3600)
    }


def test_every_queue_takes_messages_of_a_mebibyte(dev: Template) -> None:
    """AWS has made queues with 256 KB, and with 1 MiB, where a template does not say. The overflow sends up to 1 MB."""
    assert {queue["MaximumMessageSize"] for queue in dev.all(QUEUE).values()} == {1_048_576}


def find_drain(made: Template) -> Any:
    """The mapping that calls the drain."""
    mappings = made.all("AWS::Lambda::EventSourceMapping").values()
    return next(mapping for mapping in mappings if mapping["FunctionName"] == {"Ref": made.id_of("drain")})


def test_the_overflow_queue_outwaits_its_consumer_and_redrives(dev: Template) -> None:
    queue = next(queue for id, queue in dev.all(QUEUE).items() if "IngestOverflow" in id)
    assert queue["VisibilityTimeout"] >= 6 * dev.functions()["drain"]["Timeout"]
    assert "IngestDeadLetters" in json.dumps(queue["RedrivePolicy"]["deadLetterTargetArn"])
    # 120 tries, six minutes apart: an event survives half a day without its table.
    assert (queue["RedrivePolicy"]["maxReceiveCount"], queue["VisibilityTimeout"]) == (120, 360)
    source = find_drain(dev)
    assert "IngestOverflow" in json.dumps(source["EventSourceArn"])


def test_the_drain_reports_single_failures(dev: Template) -> None:
    source = find_drain(dev)
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["FunctionName"] == {"Ref": dev.id_of("drain")}
    assert source["ScalingConfig"]["MaximumConcurrency"] <= 5


def _archive_rules(*changes: tuple[str, str]) -> list[tuple[object, ...]]:
    """Prefix, days until deletion, class and days until it, of each rule about archives."""
    made = template("dev", *changes)
    bucket = next(bucket for id, bucket in made.all(BUCKET).items() if "StorageArchive" in id)
    found = []
    for rule in bucket["LifecycleConfiguration"]["Rules"]:
        if not str(rule.get("Prefix", "")).startswith("stream="):
            continue
        assert rule["Status"] == "Enabled"
        moves = [
            (transition["StorageClass"], transition["TransitionInDays"]) for transition in rule.get("Transitions", [])
        ]
        found.append((rule["Prefix"], rule.get("ExpirationInDays"), *moves))
    return found


KEYED = 'period = "day"\nlate = "1h"\nretention = 3\nkey = { partition_by = "series" }\n'
ARCHIVED_LATER = f'archive.expire_after = "365d"\n[streams.readings]\n{KEYED}'
FOR_EVER = f'[streams.audit]\n{KEYED}archive = {{ expire_after = "0s" }}\n'
OWN = ("[streams.quakes.archive]", '[streams.quakes.archive]\nexpire_after = "730d"\nstorage_class = "standard"')
FOREVER = ("[streams.quakes.archive]", '[streams.quakes.archive]\nexpire_after = "0s"')
COLD = ("[streams.quakes.archive]", '[streams.quakes.archive]\nstorage_class = "glacier-instant-retrieval"')


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ((), []),
        (
            (EXPIRES, MOVED),
            [
                ("stream=quakes/", 365, ("STANDARD_IA", 30)),
                ("stream=stations/", 365, ("STANDARD_IA", 30)),
                ("stream=reports/", 365, ("STANDARD_IA", 30)),
            ],
        ),
    ],
    ids=["for ever", "all alike"],
)
def test_archives_expire_and_change_class_as_configured(
    changes: tuple[tuple[str, str], ...], rules: list[tuple[object, ...]]
) -> None:
    assert _archive_rules(*changes) == rules


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        (
            (EXPIRES, MOVED, OWN),
            [
                ("stream=quakes/", 730),
                ("stream=stations/", 365, ("STANDARD_IA", 30)),
                ("stream=reports/", 365, ("STANDARD_IA", 30)),
            ],
        ),
        (
            (EXPIRES, MOVED, FOREVER),
            [
                ("stream=quakes/", None, ("STANDARD_IA", 30)),
                ("stream=stations/", 365, ("STANDARD_IA", 30)),
                ("stream=reports/", 365, ("STANDARD_IA", 30)),
            ],
        ),
        ((COLD,), [("stream=quakes/", None, ("GLACIER_IR", 30))]),
    ],
    ids=["a stream longer", "a stream for ever", "a stream in another class"],
)
def test_a_stream_may_have_its_own_rule(changes: tuple[tuple[str, str], ...], rules: list[tuple[object, ...]]) -> None:
    """If rules overlap, S3 deletes at the earlier time, so no archive may match two rules."""
    text = CONFIG.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    made = [
        (
            rule.prefix,
            rule.expiration.to_days() if rule.expiration else None,
            *(
                (move.storage_class.value, move.transition_after and move.transition_after.to_days())
                for move in rule.transitions or ()
            ),
        )
        for rule in make_archive_rules(parse(text))
    ]
    assert made == rules


def test_the_archives_of_a_stream_that_leaves_the_configuration_outlive_the_others() -> None:
    """It kept its archives for ever. A rule for all archives would delete them once no other stream has its own rule."""
    config = parse(f"{ARCHIVED_LATER}{FOR_EVER}")
    left = parse(ARCHIVED_LATER)
    assert [(rule.prefix, rule.expiration.to_days()) for rule in make_archive_rules(config) if rule.expiration] == [
        ("stream=readings/", 365)
    ]
    assert not any("stream=audit/2020".startswith(rule.prefix or "") for rule in make_archive_rules(left))


def test_what_has_expired_is_gone_after_thirty_days_more() -> None:
    """The bucket is versioned: an object that a rule deletes becomes a noncurrent version first."""
    made = template("dev", *AGEING)
    bucket = next(bucket for id, bucket in made.all(BUCKET).items() if "StorageArchive" in id)
    everywhere = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if "Prefix" not in rule]
    assert [rule["NoncurrentVersionExpiration"]["NoncurrentDays"] for rule in everywhere] == [30]
    assert everywhere[0]["ExpiredObjectDeleteMarker"] is True
