"""The storage of a reader: the copies of the catalog and the period tables in its Region, and its origin's bucket."""

from __future__ import annotations

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from .function import Common
from .naming import name_archive_bucket, name_catalog_table
from .objects import Objects


class Copied(Objects):
    """The reader's storage, by names only. The lifecycle makes the copies, and the origin's stack makes the bucket."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        bucket: s3.IBucket | None = None,
        key: kms.IKey | None = None,
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
