"""The archive's bucket, and the table that is archived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from aws.archive_parquet import Parquet
from aws.codec import from_wire
from aws.errors import naming_table
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import damaged
from tidetable.events import Event, Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client


class S3Objects:
    """A bucket through boto3."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """PutObject; S3 checks the bytes that arrive against the checksum that boto3 sends."""
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ChecksumAlgorithm="SHA256")

    def get(self, key: str) -> bytes:
        """GetObject, whole."""
        return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def clear(self, prefix: str) -> None:
        """Delete every object under a prefix, one by one: there are as many as parts."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        for key in [one["Key"] for page in pages for one in page.get("Contents", [])]:
            self._client.delete_object(Bucket=self._bucket, Key=key)


class TableScan:
    """A table through boto3."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client

    def scan(self, table: str) -> Iterator[Item]:
        """Scan, strongly consistent: the last write before the fence is in it."""
        pages = self._client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        with naming_table(table):
            for page in pages:
                yield from map(from_wire, page["Items"])


class S3PartReader:
    """Manifests and parts from a bucket; manifests never change, so they are kept."""

    def __init__(self, objects: S3Objects, parquet: Parquet) -> None:
        self._objects = objects
        self._parquet = parquet
        self._manifests: dict[str, Manifest] = {}

    def manifest(self, key: str) -> Manifest:
        """The manifest under a key."""
        if key not in self._manifests:
            try:
                self._manifests[key] = Manifest.decode(self._objects.get(key))
            except (ClientError, BotoCoreError, ValueError) as error:
                raise damaged(key, error) from error
        return self._manifests[key]

    def events(self, part: Part, low: str, high: str) -> Sequence[Event]:
        """The part's events within its row groups that meet the range."""
        try:
            return self._parquet.between(self._objects.get(part.key), low, high)
        except (ClientError, BotoCoreError, OSError, ValueError) as error:
            raise damaged(part.key, error) from error
