"""The storage that outlives a deployment: the catalog, the state of rollups, and the archive."""

from __future__ import annotations

from typing import Any

from aws_cdk import Annotations, Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidetable.config import Config, Keeping
from tidetable.lake.lake_tables import LAKE
from tidetable.names import name_rollups_table

from .function import Function
from .kms import WRITES, find_customer_key, make_key_statements
from .naming import name_archive_bucket, name_catalog_table, name_log_bucket
from .objects import ARCHIVES, LARGE, LISTINGS, OVERFLOW, SAVED, Objects

# S3 keeps messages that were too large for the overflow queue for this number of days. The message that refers to such
# an object waits for up to 14 days, may be a dead letter for 14 more days, and may be replayed on the last of these
# days: then both times begin again.
_OVERFLOW_DAYS = 60
_OVERFLOW_RULE = s3.LifecycleRule(prefix=OVERFLOW, expiration=Duration.days(_OVERFLOW_DAYS))
# Names of listings count for 15 minutes. A day is the shortest time that S3 knows.
_LISTINGS_RULE = s3.LifecycleRule(
    prefix=LISTINGS, expiration=Duration.days(1), noncurrent_version_expiration=Duration.days(1)
)
_CLASSES = {
    "infrequent-access": s3.StorageClass.INFREQUENT_ACCESS,
    "intelligent-tiering": s3.StorageClass.INTELLIGENT_TIERING,
    "glacier-instant-retrieval": s3.StorageClass.GLACIER_INSTANT_RETRIEVAL,
}


def make_archive_rules(config: Config) -> list[s3.LifecycleRule]:
    """Make the rules for the retention and the storage class of archives, one rule per configured stream.

    There is no rule for all archives: it would delete the archives of a stream that has left the configuration,
    although that stream kept its archives longer. If rules overlap, S3 follows the rule that deletes first.
    """
    policies = {f"{ARCHIVES}{name}/": config.find_keeping(name) for name in config.streams}
    return [
        _make_rule(prefix, policy)
        for prefix, policy in policies.items()
        if policy.expire_after or policy.storage_class != "standard"
    ]


def _make_rule(prefix: str, policy: Keeping) -> s3.LifecycleRule:
    storage_class = _CLASSES.get(policy.storage_class)
    after = Duration.days(policy.storage_class_after.days)
    return s3.LifecycleRule(
        prefix=prefix,
        expiration=Duration.days(policy.expire_after.days) if policy.expire_after else None,
        transitions=[s3.Transition(storage_class=storage_class, transition_after=after)] if storage_class else None,
    )


class Storage(Objects):
    """The catalog, the table of the rollups' state, the archive bucket, and the bucket of its access logs.

    They are kept when the stack is destroyed, unless the configuration says otherwise. Their names are fixed, so that
    ``cdk deploy --import-existing-resources`` imports them again. If the first deployment fails, its rollback deletes
    them: otherwise the next deployment could not use their names. For the same reason ``make_stage`` sets the
    catalog's deletion protection at the end of the deployment.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: str,
        config: Config,
        bucket: s3.IBucket | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        # The key of the bucket and the queues; None if the services use their own keys.
        self.key = key or find_customer_key(self, "Key", config.storage.encryption)
        self._message_keys = [*config.storage_keys, *([key.key_arn] if key is not None else [])]
        keep = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        removal = keep if config.keeps_catalog else RemovalPolicy.DESTROY
        self.catalog = self._make_table("Catalog", name_catalog_table(stage), removal)
        # A stage without rollups has this table, too. Otherwise a stage whose rollups come back could not create the
        # table, because a kept table has its name.
        self.rollups = self._make_table("Rollups", name_rollups_table(stage), removal)
        self.bucket = self._make_bucket(stage, config) if bucket is None else bucket
        self._object_keys = list(self._message_keys)
        if bucket is not None:
            self._adopt_bucket(bucket, config)

    def _adopt_bucket(self, bucket: s3.IBucket, config: Config) -> None:
        """Use the app's own bucket, with rights on its key and with rules for the project's own prefixes."""
        if bucket.encryption_key is not None:
            self._object_keys.append(bucket.encryption_key.key_arn)
        if not isinstance(bucket, s3.Bucket):
            Annotations.of(self).add_info(
                f"The bucket is imported, so its rules are yours: let objects under {OVERFLOW} expire after {_OVERFLOW_DAYS}"
                f" days and those under {LISTINGS} after 1 day,"
                " and apply [archive] expire_after and storage_class, as docs/start/own-app.md says."
            )
            return
        for prefix in (ARCHIVES, LAKE, LARGE, OVERFLOW, SAVED):
            bucket.add_lifecycle_rule(
                prefix=prefix,
                abort_incomplete_multipart_upload_after=Duration.days(1),
                noncurrent_version_expiration=Duration.days(30),
            )
        for rule in (_OVERFLOW_RULE, _LISTINGS_RULE, *make_archive_rules(config)):
            bucket.add_lifecycle_rule(
                prefix=rule.prefix,
                expiration=rule.expiration,
                noncurrent_version_expiration=rule.noncurrent_version_expiration,
                transitions=rule.transitions,
            )

    def _make_bucket(self, stage: str, config: Config) -> s3.Bucket:
        keeps = config.storage.removal == "keep"
        common: dict[str, Any] = {
            "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
            "enforce_ssl": True,
            "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            "removal_policy": RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keeps else RemovalPolicy.DESTROY,
            "auto_delete_objects": not keeps,
        }
        logs = s3.Bucket(
            self,
            "AccessLogs",
            bucket_name=name_log_bucket(self, stage),
            **common,
            # S3 delivers access logs only to buckets that are encrypted with S3's own keys.
            encryption=s3.BucketEncryption.S3_MANAGED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(90))],
        )
        return s3.Bucket(
            self,
            "Archive",
            bucket_name=name_archive_bucket(self, stage),
            **common,
            encryption=s3.BucketEncryption.KMS if self.key is not None else s3.BucketEncryption.S3_MANAGED,
            encryption_key=self.key,
            # S3 then uses one data key for the bucket instead of one for each object: requests to KMS are billed.
            bucket_key_enabled=True if self.key is not None else None,
            versioned=True,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="archive/",
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                    noncurrent_version_expiration=Duration.days(30),
                    expired_object_delete_marker=True,
                ),
                _OVERFLOW_RULE,
                _LISTINGS_RULE,
                *make_archive_rules(config),
            ],
        )

    def _make_table(self, id: str, name: str, removal: RemovalPolicy) -> dynamodb.Table:
        """Make an on-demand table with a partition key and a sort key, which can be restored to any second."""
        return dynamodb.Table(
            self,
            id,
            table_name=name,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            # DynamoDB's own key. With a key of KMS, each check of a caller's key would need KMS, and pay for it.
            encryption=dynamodb.TableEncryption.DEFAULT,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=removal,
        )

    @property
    def rollups_variable(self) -> dict[str, str]:
        """The variable that names the table of the rollups' state to a function."""
        return {"TIDETABLE_ROLLUPS_TABLE": self.rollups.table_name}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the bucket and the table of the rollups' state."""
        return self.bucket_variable | self.rollups_variable

    def allow_rollups(self, function: Function, *actions: str) -> None:
        """Let the function do these actions, such as ``Query``, on the state of rollups."""
        function.allow_actions("dynamodb", actions, self.rollups.table_arn)

    def allow_messages(self, function: Function) -> None:
        """Let the function use the queues' keys to send messages."""
        for statement in make_key_statements(self, "sqs", self._message_keys, WRITES):
            function.add_to_role_policy(statement)
