"""The archive's bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import RawIOBase
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from aws.archive.parquet import Parquet
from aws.errors import error_code
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import damaged
from tidetable.events import Event
from tidetable.keys import Layout

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# One request for a file's end brings its footer and, of a small file, everything else.
_TAIL_BYTES = 256 * 1024


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

    def find(self, key: str) -> bytes | None:
        """GetObject of what may not be there."""
        try:
            return self.get(key)
        except ClientError as error:
            if error_code(error) != "NoSuchKey":
                raise
            return None

    def part(self, key: str, start: int, end: int) -> bytes:
        """GetObject of the bytes from ``start`` up to ``end``."""
        found = self._client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-{end - 1}")
        return found["Body"].read()

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """ListObjectsV2, to its end."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def clear(self, prefix: str) -> None:
        """Delete every object under a prefix, one by one: there are as many as parts."""
        for key in self.sizes(prefix):
            self._client.delete_object(Bucket=self._bucket, Key=key)


class Ranged(RawIOBase):
    """An object as a file of which only what is read is fetched. Its end is fetched at once, where Parquet has its footer."""

    def __init__(self, objects: S3Objects, key: str, size: int) -> None:
        self._objects = objects
        self._key = key
        self._size = size
        self._at = 0
        self._tail_from = max(0, size - _TAIL_BYTES)
        self._tail = objects.part(key, self._tail_from, size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = self._fetch(self._at, min(self._at + len(buffer), self._size))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _fetch(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if start >= self._tail_from:
            return self._tail[start - self._tail_from : end - self._tail_from]
        return self._objects.part(self._key, start, end)


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

    def events(self, part: Part, low: str, high: str, layout: Layout) -> Sequence[Event]:
        """The part's events within its row groups that meet the range."""
        try:
            return self._parquet.between(Ranged(self._objects, part.key, part.size), low, high, layout)
        except (ClientError, BotoCoreError, OSError, ValueError) as error:
            raise damaged(part.key, error) from error
