"""The contract of the bucket of large values: the fake, and the emulator's S3."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from aws.objects import S3Values
from local.stack import make_aws_client
from tests.fakes import FakeValues
from tidetable.large.sweep_ports import Store
from tidetable.layout import Key
from tidetable.ports import Blob, Values

KEY = "large/stream=s/period=2026-03-01/abc/1"
OWNER = Key("a%23é#0", "v0#2026-03-01T00:00:00.000000Z#ü")


class Bucket(Values, Store, Protocol):
    """Both ports of the bucket that the pipeline uses."""


@pytest.fixture(params=["fake", "s3"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    if request.param == "fake":
        yield FakeValues(lambda: datetime.now(UTC))
        return
    client = make_aws_client(request.getfixturevalue("emulator"), "s3")
    client.create_bucket(Bucket="values")
    yield S3Values(lambda: client, "values")
    for stored in client.list_objects_v2(Bucket="values").get("Contents", []):
        client.delete_object(Bucket="values", Key=stored["Key"])
    client.delete_bucket(Bucket="values")


def test_an_object_comes_back_with_its_owner(bucket: Bucket) -> None:
    assert bucket.get(KEY) is None
    assert bucket.put(Blob(KEY, b"\x00body", OWNER))
    assert (bucket.get(KEY), bucket.owner(KEY)) == (b"\x00body", OWNER)


def test_what_is_there_is_listed_with_its_size_and_age_until_it_is_deleted(bucket: Bucket) -> None:
    for number in range(3):
        bucket.put(Blob(f"{KEY}{number}", b"x" * number, OWNER))
    bucket.put(Blob("large/stream=other/period=2026-03-01/abc/1", b"", OWNER))
    blobs = list(bucket.stored("large/stream=s/"))
    assert [(blob.key, blob.size) for blob in blobs] == [(f"{KEY}{number}", number) for number in range(3)]
    assert all(abs(datetime.now(UTC) - blob.written) < timedelta(minutes=5) for blob in blobs)
    bucket.delete([blob.key for blob in blobs[:2]])
    assert [blob.key for blob in bucket.stored("large/")] == ["large/stream=other/period=2026-03-01/abc/1", f"{KEY}2"]


def test_a_bucket_that_is_not_there_takes_nothing(emulator: str) -> None:
    client = make_aws_client(emulator, "s3")
    assert not S3Values(lambda: client, "no-such-bucket").put(Blob(KEY, b"x", OWNER))
