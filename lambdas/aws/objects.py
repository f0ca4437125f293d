"""The bucket: archives, and values that are too large for a table or a message."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aws.dynamodb.codes import find_outage
from aws.errors import ignore_refusal, list_aws_errors, read_error_code
from tidetable.errors import Outage, StoreUnavailable
from tidetable.large.sweep_ports import Stored
from tidetable.layout import Key
from tidetable.ports import Blob

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_OWNER = "owner"
# AWS: DeleteObjects takes 1,000 keys.
_DELETES = 1000
# The answer to HEAD has no body, so its code is the status.
_GONE = ("404", "NoSuchKey")


def _list_pages(client: S3Client, bucket: str, prefix: str, **options: Any) -> Iterable[Any]:
    return client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **options)


class S3Objects:
    """A bucket through boto3."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """Write an object by PutObject; S3 checks the bytes that arrive against the checksum that boto3 sends."""
        self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ChecksumAlgorithm="SHA256")

    def get(self, key: str) -> bytes:
        return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()

    def find(self, key: str) -> bytes | None:
        with ignore_refusal("NoSuchKey"):
            return self.get(key)
        return None

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        """Read an object and its ETag. If it still has this ETag, its bytes are not fetched: None."""
        options: Any = {"IfNoneMatch": etag} if etag else {}
        with ignore_refusal("304"):
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **options)
            return answer["Body"].read(), answer["ETag"]
        return None, etag

    def get_range(self, key: str, start: int, end: int) -> bytes:
        answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-{end - 1}")
        return answer["Body"].read()

    def sizes(self, prefix: str) -> Mapping[str, int]:
        pages = _list_pages(self._client, self._bucket, prefix)
        return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", [])}

    def clear(self, prefix: str) -> None:
        """Delete every object under a prefix, each by its own request: a prefix has few objects."""
        for key in self.sizes(prefix):
            self._client.delete_object(Bucket=self._bucket, Key=key)


class S3Values:
    """Large values through boto3. The client is made when the first value is written or read.

    An object's metadata says which item it belongs to: ``owner`` is the Base64 of partition key, line feed, sort key.
    """

    def __init__(self, client: Callable[[], S3Client], bucket: str) -> None:
        self._make = client
        self._bucket = bucket

    @cached_property
    def _client(self) -> S3Client:
        return self._make()

    def put(self, blob: Blob) -> bool:
        """Write a value; S3 checks the bytes that arrive against a checksum."""
        owner = urlsafe_b64encode(f"{blob.owner.pk}\n{blob.owner.sk}".encode()).decode()
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=blob.key, Body=blob.body, ChecksumAlgorithm="SHA256", Metadata={_OWNER: owner}
            )
        except list_aws_errors():
            return False
        return True

    def get(self, key: str) -> bytes | None:
        """Read a value by GetObject; StoreUnavailable if S3 does not answer."""
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except list_aws_errors() as error:
            code = read_error_code(error)
            if code == "NoSuchKey":
                return None
            raise StoreUnavailable(find_outage(code) if code else Outage.NO_ANSWER, str(error), code) from error

    def stored(self, prefix: str, after: str = "") -> Iterator[Stored]:
        options: Any = {"StartAfter": after} if after else {}
        for page in _list_pages(self._client, self._bucket, prefix, **options):
            for entry in page.get("Contents", []):
                yield Stored(entry["Key"], entry["Size"], entry["LastModified"])

    def folders(self, prefix: str) -> Iterator[str]:
        """List the folders by ListObjectsV2 with a delimiter: a page names up to 1,000 folders, however full."""
        for page in _list_pages(self._client, self._bucket, prefix, Delimiter="/"):
            for entry in page.get("CommonPrefixes", []):
                yield entry["Prefix"].removeprefix(prefix).rstrip("/")

    def owner(self, key: str) -> Key | None:
        """Read the metadata; None, too, if the object is gone. Other errors rise: then the owner is unknown."""
        owner = ""
        with ignore_refusal(*_GONE):
            owner = self._client.head_object(Bucket=self._bucket, Key=key)["Metadata"].get(_OWNER, "")
        try:
            pk, separator, sk = urlsafe_b64decode(owner + "=" * (-len(owner) % 4)).decode().partition("\n")
        except ValueError:
            return None  # another program wrote the object
        return Key(pk, sk) if separator else None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete values by DeleteObjects, 1,000 at a time."""
        for start in range(0, len(keys), _DELETES):
            names: Any = [{"Key": key} for key in keys[start : start + _DELETES]]
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": names, "Quiet": True})
            if answer.get("Errors"):
                code = answer["Errors"][0].get("Code", "")
                raise StoreUnavailable(find_outage(code), "objects could not be deleted", code)
