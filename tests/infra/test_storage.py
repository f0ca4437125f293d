"""What outlives a deployment, and the queues: encrypted, private, and kept unless every stream says otherwise."""

from __future__ import annotations

import json

import pytest

from tests.infra.synth import DELETE_ALL, Template, template

QUEUE, BUCKET, TABLE = "AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::DynamoDB::Table"


def _one(template: Template, kind: str, part: str) -> dict[str, object]:
    return next(one for id, one in template.resources.items() if one["Type"] == kind and part in id)


@pytest.mark.parametrize("part", ["StorageArchive", "StorageAccessLogs"])
def test_a_bucket_is_private_and_encrypted(dev: Template, part: str) -> None:
    bucket = next(one for id, one in dev.all(BUCKET).items() if part in id)
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["BucketEncryption"]


@pytest.mark.parametrize("kind, policy", [(BUCKET, "AWS::S3::BucketPolicy"), (QUEUE, "AWS::SQS::QueuePolicy")])
def test_nothing_is_reached_without_tls(dev: Template, kind: str, policy: str) -> None:
    denied = [one for one in dev.all(policy).values() if "aws:SecureTransport" in json.dumps(one)]
    assert len(denied) == len(dev.all(kind)) > 0


def test_old_versions_and_broken_uploads_do_not_pile_up(dev: Template) -> None:
    bucket = next(one for id, one in dev.all(BUCKET).items() if "StorageArchive" in id)
    rule = bucket["LifecycleConfiguration"]["Rules"][0]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] > 0
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] > 0
    assert "ExpirationInDays" not in rule  # the archive itself stays
    expiring = [one for one in bucket["LifecycleConfiguration"]["Rules"] if "ExpirationInDays" in one]
    # Longer than the queue keeps the messages that refer to them.
    assert [(one["Prefix"], one["ExpirationInDays"]) for one in expiring] == [("overflow/", 15)]


def test_the_catalog_is_keyed_protected_and_restorable(dev: Template) -> None:
    (catalog,) = dev.all(TABLE).values()
    assert catalog["TableName"] == "tidetable-dev-catalog"
    assert [(key["AttributeName"], key["KeyType"]) for key in catalog["KeySchema"]] == [("pk", "HASH"), ("sk", "RANGE")]
    assert catalog["BillingMode"] == "PAY_PER_REQUEST"
    assert catalog["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert catalog["DeletionProtectionEnabled"] is True
    assert catalog["SSESpecification"]["SSEEnabled"] is True


@pytest.mark.parametrize("kind, part", [(TABLE, "StorageCatalog"), (BUCKET, "StorageArchive")])
def test_data_is_kept_when_the_stack_goes(dev: Template, kind: str, part: str) -> None:
    assert _one(dev, kind, part)["DeletionPolicy"] == "Retain"


@pytest.mark.parametrize("kind, part", [(TABLE, "StorageCatalog"), (BUCKET, "StorageArchive")])
def test_data_goes_when_every_stream_says_so(kind: str, part: str) -> None:
    gone = template("dev", *DELETE_ALL)
    assert _one(gone, kind, part)["DeletionPolicy"] == "Delete"
    assert len(gone.all("Custom::S3AutoDeleteObjects")) == 1


def test_one_stream_that_is_kept_keeps_the_catalog() -> None:
    mixed = template("dev", DELETE_ALL[1])
    assert _one(mixed, TABLE, "StorageCatalog")["DeletionPolicy"] == "Retain"


def test_every_queue_is_encrypted_and_keeps_two_weeks(dev: Template) -> None:
    assert {(one["SqsManagedSseEnabled"], one["MessageRetentionPeriod"]) for one in dev.all(QUEUE).values()} == {
        (True, 14 * 24 * 3600)
    }


def test_the_overflow_queue_outwaits_its_consumer_and_redrives(dev: Template) -> None:
    queue = next(one for id, one in dev.all(QUEUE).items() if "IngestOverflow" in id)
    assert queue["VisibilityTimeout"] >= 6 * dev.functions()["drain"]["Timeout"]
    assert "IngestDeadLetters" in json.dumps(queue["RedrivePolicy"])


def test_the_drain_reports_single_failures(dev: Template) -> None:
    (source,) = dev.all("AWS::Lambda::EventSourceMapping").values()
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["FunctionName"] == {"Ref": dev.id_of("drain")}
    assert source["ScalingConfig"]["MaximumConcurrency"] <= 5


def _archive_rules(*changes: tuple[str, str]) -> list[tuple[object, ...]]:
    """Prefix, days until deletion, class and days until it, of each rule about archives."""
    made = template("dev", *changes)
    bucket = next(one for id, one in made.all(BUCKET).items() if "StorageArchive" in id)
    found = []
    for rule in bucket["LifecycleConfiguration"]["Rules"]:
        if not str(rule.get("Prefix", "")).startswith("stream="):
            continue
        assert rule["Status"] == "Enabled"
        moves = [(one["StorageClass"], one["TransitionInDays"]) for one in rule.get("Transitions", [])]
        found.append((rule["Prefix"], rule.get("ExpirationInDays"), *moves))
    return found


EXPIRES = ('expire_after = "0s" ', 'expire_after = "365d" ')
MOVED = ('storage_class = "standard" ', 'storage_class = "infrequent-access" ')
OWN = ("[streams.quakes.archive]", '[streams.quakes.archive]\nexpire_after = "730d"\nstorage_class = "standard"')
FOREVER = ("[streams.quakes.archive]", '[streams.quakes.archive]\nexpire_after = "0s"')
COLD = ("[streams.quakes.archive]", '[streams.quakes.archive]\nstorage_class = "glacier-instant-retrieval"')


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ((), []),
        ((EXPIRES, MOVED), [("stream=", 365, ("STANDARD_IA", 30))]),
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
    ids=["for ever", "all alike", "a stream longer", "a stream for ever", "a stream in another class"],
)
def test_archives_expire_and_change_class_as_configured(
    changes: tuple[tuple[str, str], ...], rules: list[tuple[object, ...]]
) -> None:
    """Of rules that overlap S3 follows the one that deletes first, so no archive may meet two."""
    assert _archive_rules(*changes) == rules


def test_what_has_expired_is_gone_after_thirty_days_more() -> None:
    """The bucket is versioned: what a rule deletes becomes a noncurrent version first."""
    made = template("dev", EXPIRES)
    bucket = next(one for id, one in made.all(BUCKET).items() if "StorageArchive" in id)
    everywhere = [one for one in bucket["LifecycleConfiguration"]["Rules"] if "Prefix" not in one]
    assert [one["NoncurrentVersionExpiration"]["NoncurrentDays"] for one in everywhere] == [30]
    assert everywhere[0]["ExpiredObjectDeleteMarker"] is True
