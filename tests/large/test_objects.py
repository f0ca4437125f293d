"""The bucket's adapters: their requests to S3, and their handling of refusals and partial failures."""

import io
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from aws.objects import S3Objects, S3Values
from tidetable.errors import StoreUnavailable
from tidetable.large.sweep_ports import Stored
from tidetable.layout import Key
from tidetable.ports import Blob

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNREACHABLE = EndpointConnectionError(endpoint_url="https://s3")
OWNER = Key("a#0", "2026-03-01T12:00:00.000000Z#é")
BLOB = Blob("large/stream=s/period=2026-03-01/ab/1", b"body", OWNER)


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "any")


class S3:
    """The operations of S3 that the adapters use, with two keys per page; ``error`` is raised by every call, ``keeps``
    are not deleted.
    """

    def __init__(self, *keys: str, error: Exception | None = None, keeps: str = "") -> None:
        self.objects: dict[str, bytes] = dict.fromkeys(keys, b"0123456789")
        self.metadata: dict[str, dict[str, str]] = {}
        self.error = error
        self.keeps = keeps
        self.sent: list[dict[str, Any]] = []

    def _take(self, request: dict[str, Any]) -> None:
        self.sent.append(request)
        assert request["Bucket"] == "bucket"
        if self.error is not None:
            raise self.error

    def put_object(self, **request: Any) -> None:
        self._take(request)
        self.objects[request["Key"]] = request["Body"]
        self.metadata[request["Key"]] = request.get("Metadata", {})

    def get_object(self, **request: Any) -> dict[str, Any]:
        self._take(request)
        if request["Key"] not in self.objects:
            raise refused("NoSuchKey")
        body = self.objects[request["Key"]]
        if "Range" in request:
            # RFC 9110: both ends of a range are part of it.
            first, last = map(int, request["Range"].removeprefix("bytes=").split("-"))
            body = body[first : last + 1]
        return {"Body": io.BytesIO(body)}

    def head_object(self, **request: Any) -> dict[str, Any]:
        self._take(request)
        return {"Metadata": self.metadata.get(request["Key"], {})}

    def delete_object(self, **request: Any) -> None:
        self._take(request)
        del self.objects[request["Key"]]

    def delete_objects(self, **request: Any) -> dict[str, Any]:
        self._take(request)
        keys = [object_["Key"] for object_ in request["Delete"]["Objects"]]
        assert len(keys) <= 1000, "MalformedXML"
        errors = [{"Key": key, "Code": "AccessDenied"} for key in keys if key == self.keeps]
        for key in keys:
            if key != self.keeps:
                self.objects.pop(key, None)
        return {"Errors": errors} if errors else {}

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, **request: Any) -> Any:
        self._take(request)
        keys = [key for key in sorted(self.objects) if key.startswith(request["Prefix"])]
        keys = [key for key in keys if key > request.get("StartAfter", "")]
        if "Delimiter" in request:
            rest = len(request["Prefix"])
            folders = {key[: key.index("/", rest) + 1] for key in keys if "/" in key[rest:]}
            yield {"CommonPrefixes": [{"Prefix": folder} for folder in sorted(folders)]}
            return
        for start in range(0, len(keys), 2):
            some = keys[start : start + 2]
            yield {"Contents": [{"Key": key, "Size": len(self.objects[key]), "LastModified": NOON} for key in some]}
        yield {}


def values(s3: S3) -> S3Values:
    client: Any = s3
    return S3Values(lambda: client, "bucket")


def objects(s3: S3) -> S3Objects:
    client: Any = s3
    return S3Objects(client, "bucket")


def test_a_value_is_put_with_a_checksum_and_with_its_owner() -> None:
    """The owner's format does not change, so that the sweep can read the owners of existing objects."""
    s3 = S3()
    assert values(s3).put(BLOB) is True
    (sent,) = s3.sent
    assert (sent["Key"], sent["Body"], sent["ChecksumAlgorithm"]) == (BLOB.key, b"body", "SHA256")
    assert sent["Metadata"] == {"owner": urlsafe_b64encode("a#0\n2026-03-01T12:00:00.000000Z#é".encode()).decode()}
    assert values(s3).owner(BLOB.key) == OWNER
    assert values(s3).get(BLOB.key) == b"body"


@pytest.mark.parametrize("error", [refused("SlowDown"), refused("AccessDenied"), UNREACHABLE])
def test_a_value_that_s3_did_not_take_is_not_said_to_be_stored(error: Exception) -> None:
    assert values(S3(error=error)).put(BLOB) is False


@pytest.mark.parametrize(
    ("error", "code"), [(refused("SlowDown"), "SlowDown"), (refused("403"), "403"), (UNREACHABLE, "no answer")]
)
def test_a_value_that_s3_does_not_answer_is_not_said_to_be_missing(error: Exception, code: str) -> None:
    with pytest.raises(StoreUnavailable) as unavailable:
        values(S3(error=error)).get("key")
    assert unavailable.value.code == code
    assert values(S3()).get("key") is None


def test_an_object_that_does_not_say_its_owner_has_none() -> None:
    s3 = S3("one", "two")
    s3.metadata["two"] = {"owner": urlsafe_b64encode(b"no line feed").decode()}
    assert [values(s3).owner(key) for key in ("one", "two")] == [None, None]
    for code in ("404", "NoSuchKey"):
        assert values(S3(error=refused(code))).owner("gone") is None


def test_an_owner_is_read_with_or_without_the_signs_that_fill_its_base64() -> None:
    s3 = S3("key")
    for owner in ("YSMwCnNr", "YSMwCnNrMQ==", "YSMwCnNrMQ", "YSMwCnNrMTI"):
        s3.metadata["key"] = {"owner": owner}
        key = values(s3).owner("key")
        assert key is not None
        assert (key.pk, key.sk[:2]) == ("a#0", "sk")


@pytest.mark.parametrize("owner", ["%", "a", "_w==", "é"])
def test_an_object_with_another_writers_metadata_has_no_owner(owner: str) -> None:
    """Not Base64, cut short, not UTF-8, not ASCII: an error would keep the sweep from the other objects of its group."""
    s3 = S3("foreign")
    s3.metadata["foreign"] = {"owner": owner}
    assert values(s3).owner("foreign") is None


@pytest.mark.parametrize("code", ["403", "503"])
def test_an_owner_that_s3_refuses_to_tell_is_unknown_and_not_nobody(code: str) -> None:
    """The answer to HEAD has no body, so the code is the status. The sweep must report these objects."""
    with pytest.raises(ClientError, match=code):
        values(S3(error=refused(code))).owner(BLOB.key)


def test_values_are_listed_page_by_page_from_behind_a_key() -> None:
    s3 = S3("a/1", "a/2", "a/3", "a/4", "b/1")
    assert list(values(s3).stored("a/")) == [Stored(f"a/{n}", 10, NOON) for n in (1, 2, 3, 4)]
    assert [value.key for value in values(s3).stored("a/", after="a/2")] == ["a/3", "a/4"]


def test_folders_are_named_once_without_what_is_before_and_behind_them() -> None:
    s3 = S3("large/stream=s/period=1/x/1", "large/stream=s/period=1/y/1", "large/stream=s/period=2/z/1")
    assert list(values(s3).folders("large/stream=s/")) == ["period=1", "period=2"]


def test_a_thousand_values_are_deleted_at_a_time() -> None:
    """AWS: DeleteObjects takes 1,000 keys."""
    keys = [f"k{n:04d}" for n in range(1_001)]
    s3 = S3(*keys)
    values(s3).delete(keys)
    assert [len(event["Delete"]["Objects"]) for event in s3.sent] == [1_000, 1]
    assert s3.objects == {}
    values(s3).delete([])
    assert len(s3.sent) == 2


def test_a_value_that_could_not_be_deleted_is_told() -> None:
    with pytest.raises(StoreUnavailable, match="could not be deleted") as refusal:
        values(S3("one", "two", keeps="two")).delete(["one", "two"])
    assert refusal.value.code == "AccessDenied"


def test_a_part_of_an_object_is_what_lies_between_its_edges() -> None:
    s3 = S3("key")
    assert objects(s3).get_range("key", 2, 5) == b"234"
    assert objects(s3).get_range("key", 0, 10) == b"0123456789"


def test_an_object_that_is_not_there_is_told_from_one_that_cannot_be_read() -> None:
    assert objects(S3()).find("key") is None
    assert objects(S3("key")).find("key") == b"0123456789"
    for code in ("AccessDenied", "SlowDown"):
        with pytest.raises(ClientError, match=code):
            objects(S3("key", error=refused(code))).find("key")


def test_an_object_is_put_with_a_checksum_and_sizes_are_those_of_all_pages() -> None:
    s3 = S3("a/1", "a/2", "a/3", "b/1")
    objects(s3).put("a/4", b"four")
    assert s3.sent[0] == {"Bucket": "bucket", "Key": "a/4", "Body": b"four", "ChecksumAlgorithm": "SHA256"}
    assert objects(s3).sizes("a/") == {"a/1": 10, "a/2": 10, "a/3": 10, "a/4": 4}


def test_the_objects_of_a_prefix_are_deleted_and_no_others() -> None:
    s3 = S3("a/1", "a/2", "a/3", "b/1")
    objects(s3).clear("a/")
    assert list(s3.objects) == ["b/1"]


def test_a_client_is_made_for_the_first_value_and_only_once() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(S3("key"))
        return made[-1]

    bucket = S3Values(make, "bucket")
    assert made == []
    bucket.get("key")
    bucket.delete(["key"])
    assert len(made) == 1


def test_an_owner_that_s3_does_not_answer_for_is_unknown_and_not_nobody() -> None:
    """Nobody's objects stay; a sweep counts a request without an answer as a failure."""
    with pytest.raises(EndpointConnectionError):
        values(S3(error=UNREACHABLE)).owner(BLOB.key)
    assert values(S3(error=refused("404"))).owner(BLOB.key) is None
