"""The functions' rights on the bucket: on its objects, and on the keys that encrypt them."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from .function import Function
from .kms import READS, WRITES, make_key_statements

# Prefixes of the bucket: archives, large values, messages that were too large for their queue, events that wait without a
# limit of time, and the names of listings between two pages. Nothing deletes waiting events by a rule: they are
# acknowledged events that no table has yet.
ARCHIVES, LARGE, OVERFLOW, SAVED, LISTINGS = "stream=", "large/", "overflow/", "saved/", "listings/"
# The manifests of archives, as a pattern of keys.
MANIFESTS = f"{ARCHIVES}*/_manifest*.json"


class Objects(Construct):
    """A bucket with its keys, in the stack's Region unless ``_region`` names another."""

    bucket: s3.IBucket
    catalog: dynamodb.ITable
    _object_keys: list[str]
    _region: str | None = None

    @property
    def bucket_variable(self) -> dict[str, str]:
        """The variable that names the bucket to a function."""
        return {"TIDETABLE_ARCHIVE_BUCKET": self.bucket.bucket_name}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name the bucket and, except for a reader, the table of the rollups' state."""
        return self.bucket_variable

    def allow_catalog(self, function: Function, *actions: str) -> None:
        """Let the function do these actions, such as ``Query``, on the catalog."""
        function.allow_actions("dynamodb", actions, self.catalog.table_arn)

    def allow_objects(self, function: Function, actions: Sequence[str], *prefixes: str) -> None:
        """Let the function do S3 actions, such as ``GetObject``, on objects under the prefixes, with their KMS keys."""
        self._allow_patterns(function, actions, [f"{prefix}*" for prefix in prefixes])

    def allow_object(self, function: Function, action: str, key: str) -> None:
        """Let the function do this S3 action on one object, with its KMS keys."""
        self._allow_patterns(function, [action], [key])

    def _allow_patterns(self, function: Function, actions: Sequence[str], patterns: Sequence[str]) -> None:
        own_account = {"StringEquals": {"aws:ResourceAccount": Stack.of(self).account}}
        objects = [self.bucket.arn_for_objects(pattern) for pattern in patterns]
        function.allow_actions("s3", actions, *objects, conditions=own_account)
        uses = WRITES if "PutObject" in actions else READS if "GetObject" in actions else ()
        if uses:
            for statement in make_key_statements(self, "s3", self._object_keys, uses, region=self._region):
                function.add_to_role_policy(statement)

    def allow_listing(self, function: Function, *prefixes: str) -> None:
        """Let the function list the objects under the prefixes.

        A function that reads objects needs this right, too: without it S3 answers "denied" for a missing object. For
        that check S3 takes the object's key as the prefix (ceph/ceph#68577 describes AWS so).
        """
        conditions = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}}
        function.allow_actions("s3", ["ListBucket"], self.bucket.bucket_arn, conditions=conditions)
