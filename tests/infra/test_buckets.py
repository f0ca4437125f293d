"""The rules of the buckets in days, and what goes and stays besides the data."""

from __future__ import annotations

from aws_cdk import App, Stack, assertions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3

from infra.function import Common, make_logs
from infra.storage import Storage, make_archive_rules
from tests.infra.synth import ALL_GOES, CONFIG, ROOT, WATCHED, EmptyAssets, Properties, Template, template
from tidetable.config import parse

STREAM = 'period = "day"\nlate = "1h"\nretention = 3\nkey = { partition_by = "series" }\n'
CLASSES = """
[streams.a]
archive.storage_class = "infrequent-access"
{stream}
[streams.b]
archive.storage_class = "intelligent-tiering"
{stream}
[streams.c]
archive.storage_class = "glacier-instant-retrieval"
{stream}
"""


def _bucket(made: Template, part: str) -> Properties:
    return next(one for id, one in made.all("AWS::S3::Bucket").items() if id.startswith(f"Storage{part}"))


def test_a_bucket_belongs_to_its_owner_with_all_its_objects(dev: Template) -> None:
    for part in ("Archive", "AccessLogs"):
        assert _bucket(dev, part)["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def test_accesses_are_logged_into_the_other_bucket(dev: Template) -> None:
    (logs,) = (id for id in dev.all("AWS::S3::Bucket") if id.startswith("StorageAccessLogs"))
    assert _bucket(dev, "Archive")["LoggingConfiguration"] == {
        "DestinationBucketName": {"Ref": logs},
        "LogFilePrefix": "archive/",
    }


def test_the_rules_of_the_archives_bucket_are_these(dev: Template) -> None:
    assert _bucket(dev, "Archive")["LifecycleConfiguration"]["Rules"] == [
        {
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
            "ExpiredObjectDeleteMarker": True,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
            "Status": "Enabled",
        },
        {"ExpirationInDays": 60, "Prefix": "overflow/", "Status": "Enabled"},
        {
            "ExpirationInDays": 1,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
            "Prefix": "listings/",
            "Status": "Enabled",
        },
    ]


def test_each_storage_class_of_the_configuration_is_one_of_s3() -> None:
    rules = make_archive_rules(parse(CLASSES.replace("{stream}", STREAM)))
    assert {rule.prefix: [move.storage_class.value for move in rule.transitions or []] for rule in rules} == {
        "stream=a/": ["STANDARD_IA"],
        "stream=b/": ["INTELLIGENT_TIERING"],
        "stream=c/": ["GLACIER_IR"],
    }


def test_the_owner_of_an_imported_bucket_is_told_which_rules_it_needs() -> None:
    stack = Stack(App(), "Shop")
    config = parse(f"[streams.a]\n{STREAM}")
    Storage(stack, "Storage", stage="prod", config=config, bucket=s3.Bucket.from_bucket_name(stack, "Own", "shop"))
    told = assertions.Match.string_like_regexp(
        "under overflow/ expire after 60 days and those under listings/ after 1 day"
    )
    assert len(assertions.Annotations.from_stack(stack).find_info("*", told)) == 1


def test_changes_that_no_target_took_are_kept_as_the_data_is_and_notes_of_failed_runs_are_not(dev: Template) -> None:
    queues = {"FeedDeadLetters": ["RetainExceptOnCreate", "Delete"], "LifecycleDeadLetters": ["Delete", "Delete"]}
    goes = template("dev", *ALL_GOES)
    for queue, expected in queues.items():
        found = [
            one["DeletionPolicy"]
            for made in (dev, goes)
            for id, one in made.resources.items()
            if id.startswith(queue) and one["Type"] == "AWS::SQS::Queue"
        ]
        assert found == [*expected]


def test_the_key_of_the_topic_goes_with_the_topic_a_week_later() -> None:
    made = template("dev", *WATCHED)
    (key,) = (one for one in made.resources.values() if one["Type"] == "AWS::KMS::Key")
    assert (key["DeletionPolicy"], key["Properties"]["PendingWindowInDays"]) == ("Delete", 7)


# What CloudWatch offers, in days.
RETENTIONS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545),
    *(731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)


def test_each_retention_of_logs_is_that_number_of_days() -> None:
    stack = Stack()
    for days in RETENTIONS:
        config = parse(f"[observability]\nlog_retention_days = {days}\n[streams.a]\n{STREAM}")
        made = make_logs(stack, f"For{days}Days", Common("prod", config, EmptyAssets(ROOT, CONFIG, "prod")))
        assert isinstance(made.node.default_child, logs.CfnLogGroup)
        assert made.node.default_child.retention_in_days == days
