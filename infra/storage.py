"""What outlives a deployment: the catalog and the archive."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.naming import archive_bucket, catalog_table
from tidetable.config import Config, Keeping

# Prefixes of the bucket: archives, large values, and messages that were too large for their queue.
ARCHIVES, LARGE, OVERFLOW = "stream=", "large/", "overflow/"


_CLASSES = {
    "infrequent-access": s3.StorageClass.INFREQUENT_ACCESS,
    "intelligent-tiering": s3.StorageClass.INTELLIGENT_TIERING,
    "glacier-instant-retrieval": s3.StorageClass.GLACIER_INSTANT_RETRIEVAL,
}


def archive_rules(config: Config) -> list[s3.LifecycleRule]:
    """How long archives are kept, and in which class: one rule for all or, if streams differ, one for each.

    Of rules that overlap S3 follows the one that deletes first, so there is none for all beside those of streams.
    """
    kept = {f"{ARCHIVES}{name}/": config.keeping_of(name) for name in config.streams}
    if set(kept.values()) == {config.archive}:
        kept = {ARCHIVES: config.archive}
    return [_rule(prefix, one) for prefix, one in kept.items() if one.expire_after or one.storage_class != "standard"]


def _rule(prefix: str, kept: Keeping) -> s3.LifecycleRule:
    moved = _CLASSES.get(kept.storage_class)
    after = Duration.days(kept.storage_class_after.days)
    return s3.LifecycleRule(
        prefix=prefix,
        expiration=Duration.days(kept.expire_after.days) if kept.expire_after else None,
        transitions=[s3.Transition(storage_class=moved, transition_after=after)] if moved is not None else None,
    )


def objects(storage: Storage, prefix: str) -> str:
    """The ARN pattern of the objects under a prefix."""
    return storage.bucket.arn_for_objects(f"{prefix}*")


class Storage(Construct):
    """The catalog table and the archive bucket.

    Both are kept when the stack is destroyed, unless every stream says removal = "delete". Their names are fixed, so
    ``cdk deploy --import-existing-resources`` takes them back.
    """

    def __init__(self, scope: Construct, id: str, *, stage: str, config: Config) -> None:
        super().__init__(scope, id)
        keep = any(stream.removal == "keep" for stream in config.streams.values())
        policy = RemovalPolicy.RETAIN if keep else RemovalPolicy.DESTROY
        self.catalog = dynamodb.Table(
            self,
            "Catalog",
            table_name=catalog_table(stage),
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=keep,
            removal_policy=policy,
        )
        logs = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(90))],
            removal_policy=RemovalPolicy.RETAIN,
        )
        self.bucket = s3.Bucket(
            self,
            "Archive",
            bucket_name=archive_bucket(self, stage),
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="archive/",
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    noncurrent_version_expiration=Duration.days(30),
                    expired_object_delete_marker=True,
                ),
                # Messages that were too large for the overflow queue, which keeps its own for 14 days.
                s3.LifecycleRule(prefix=OVERFLOW, expiration=Duration.days(15)),
                *archive_rules(config),
            ],
            removal_policy=policy,
            auto_delete_objects=not keep,
        )
