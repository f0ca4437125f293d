"""Copies in other Regions: the rights of a stage with ``replicas``, and the storage of a reader of another stage's copies.

AWS, "DynamoDB global tables security": a role that makes or deletes a replica needs rights in the replica's Region,
namely for the requests that DynamoDB makes there on the role's behalf.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidetable.names import make_table_prefix

from .function import Common, Function
from .naming import make_arn, name_archive_bucket, name_catalog_table
from .objects import Objects
from .tables import allow_linked_role

_MAKES = (
    *("CreateTable", "CreateTableReplica", "Scan", "Query", "GetItem"),
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
)
# The actions that give a copy the tags of its table.
_TAGS = ("DescribeTable", "TagResource")
_DELETES = ("DeleteTable", "DeleteTableReplica")


def allow_copies(function: Function, common: Common) -> None:
    """Let the function make copies of period tables in the Regions of the configuration; tag and delete copies in any Region.

    A table keeps its copies although the configuration no longer names their Region. So the right to tag and delete
    copies must not depend on today's list of Regions.
    """
    if not common.config.has_had_copies:
        return
    tables = f"{make_table_prefix(common.stage)}*"
    _allow_making(function, common.config.replicas, tables)
    function.allow_actions("dynamodb", (*_DELETES, *_TAGS), find_table_arn(function, "*", tables))
    # AWS mirrors the scalable targets of a table to a copy's Region, and leaves them there when the copy is deleted.
    targets = make_arn(function, "application-autoscaling", "scalable-target", "*", region="*")
    function.allow_actions("application-autoscaling", ["DeregisterScalableTarget"], targets)
    # DynamoDB makes this role together with the account's first copy, with the rights of the caller that makes the
    # copy.
    allow_linked_role(function, "replication.dynamodb.amazonaws.com", "AWSServiceRoleForDynamoDBReplication")


def allow_catalog_copies(function: Function, common: Common, catalog: str, *, deletes: bool) -> None:
    """Let the function make copies of the catalog and, with ``deletes``, delete them.

    ``catalog`` is the ARN of the catalog in the stage's own Region.
    """
    if not common.config.has_had_copies:
        return
    function.allow_actions("dynamodb", ["DescribeTable", "UpdateTable"], catalog)
    _allow_making(function, common.config.replicas, name_catalog_table(common.stage))
    if deletes:
        copies = find_table_arn(function, "*", name_catalog_table(common.stage))
        function.allow_actions("dynamodb", _DELETES, copies)


def _allow_making(function: Function, regions: Sequence[str], tables: str) -> None:
    if regions:
        copies = [find_table_arn(function, region, tables) for region in regions]
        function.allow_actions("dynamodb", _MAKES, *copies)


def find_table_arn(function: Function, region: str, tables: str) -> str:
    """Find the ARN of the tables in a Region whose names match ``tables``, a name or a pattern."""
    return make_arn(function, "dynamodb", "table", tables, region)


class Copied(Objects):
    """The reader's storage, by names only. The lifecycle makes the copies, and the origin's stack makes the bucket."""

    def __init__(
        self, scope: Construct, id: str, common: Common, *, bucket: s3.IBucket | None, key: kms.IKey | None
    ) -> None:
        super().__init__(scope, id)
        self.key = key
        self._region = common.origin
        self._object_keys = [*common.config.storage_keys, *([key.key_arn] if key is not None else [])]
        self.catalog = dynamodb.Table.from_table_name(self, "Catalog", name_catalog_table(common.stage))
        name = name_archive_bucket(self, common.stage, common.origin)
        self.bucket = bucket or s3.Bucket.from_bucket_name(self, "Archive", name)
        if bucket is not None and bucket.encryption_key is not None:
            self._object_keys.append(bucket.encryption_key.key_arn)
