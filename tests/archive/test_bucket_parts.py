"""Parts in a bucket: what a read of them asks the bucket for, and what it says of an object that is damaged."""

import json
from hashlib import sha256
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from msgspec.structs import replace

from aws.archive import s3
from aws.archive.parquet import Parquet
from aws.archive.s3 import Ranged, S3PartReader
from tests.worlds.parts import make_item
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import Skipped
from tidetable.errors import ArchiveFailed
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, WholeRange

LAYOUT = Layout("series", 2, "id")
WHOLE = ArchiveRange("m", "", "~")


class Bucket:
    """Objects in memory. ``requests`` are the ranges that were read of them."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.requests: list[Any] = []

    def get(self, key: str) -> bytes:
        self.requests.append(key)
        if key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "no such key"}}, "GetObject")
        return self.objects[key]

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        body = self.get(key)
        now = sha256(body).hexdigest()
        return (None if now == etag else body), now

    def get_range(self, key: str, start: int, end: int) -> bytes:
        body = self.get(key)
        self.requests[-1] = (start, end)
        assert 0 <= start < end <= len(body), "S3 refuses a range without bytes"
        return body[start:end]


def ranged(body: bytes) -> tuple[Ranged, Bucket]:
    bucket: Any = Bucket({"k": body})
    return Ranged(bucket, "k", len(body)), bucket


@pytest.fixture
def short_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an object that comes with the first request: ten bytes."""
    monkeypatch.setattr(s3, "_TAIL_BYTES", 10)


@pytest.mark.usefixtures("short_tail")
@pytest.mark.parametrize(
    ("start", "count", "read", "requests"),
    [
        (95, 3, [95, 96, 97], [(90, 100)]),
        (90, 10, list(range(90, 100)), [(90, 100)]),
        (97, 50, [97, 98, 99], [(90, 100)]),
        (100, 5, [], []),
        (120, 5, [], []),
        (0, 4, [0, 1, 2, 3], [(0, 4)]),
        (88, 5, [88, 89, 90, 91, 92], [(88, 93)]),
        (88, 50, list(range(88, 100)), [(88, 100)]),
        (5, 0, [], []),
    ],
)
def test_only_what_lies_before_the_end_of_an_object_is_requested(
    start: int, count: int, read: list[int], requests: list[Any]
) -> None:
    file, bucket = ranged(bytes(range(100)))
    file.seek(start)
    assert list(file.read(count)) == read
    assert file.tell() == start + len(read)
    assert bucket.requests == requests
    file.seek(99)
    assert list(file.read(1)) == [99]
    assert bucket.requests == [*requests, *([] if requests == [(90, 100)] else [(90, 100)])], (
        "the end is requested once"
    )


def test_an_object_that_is_shorter_than_an_end_comes_with_one_request() -> None:
    file, bucket = ranged(b"0123456789")
    assert (file.read(4), file.read(), file.read(1)) == (b"0123", b"456789", b"")
    assert bucket.requests == [(0, 10)]


def test_a_quarter_of_a_mebibyte_comes_with_the_first_request() -> None:
    """The footer and, of a small part, everything: a request costs more than these bytes."""
    for size, requests in ((262_144, [(0, 262_144)]), (262_145, [(1, 262_145)])):
        file, bucket = ranged(bytes(size))
        file.seek(-8, 2)
        file.read(8)
        assert bucket.requests == requests


@pytest.mark.usefixtures("short_tail")
def test_a_position_is_from_the_start_from_here_or_from_the_end() -> None:
    file, _ = ranged(bytes(range(100)))
    assert (file.seekable(), file.readable()) == (True, True)
    positions = [file.seek(40), file.seek(5, 1), file.seek(-15, 1), file.seek(-4, 2), file.seek(0, 2)]
    assert positions == [40, 45, 30, 96, 100]
    file.seek(-4, 2)
    assert list(file.read()) == [96, 97, 98, 99]


def archived() -> tuple[Bucket, Part]:
    """An archive of 300 events."""
    items = [make_item(LAYOUT, f"s{n % 7}", n * 1_000, f"id{n}", {"n": {"N": str(n * n)}}, {}) for n in range(300)]
    writer = Parquet().writer(LAYOUT, {})
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    part = Part(key="p", events=300, size=len(body), sha256="", digest="", partitions=0, first="", last="~")
    manifest = Manifest(
        stream="s", period="", table="", layout=LAYOUT, events=300, size=len(body), digest="", columns={},
        written_at="", parts=(part,),
    )  # fmt: skip
    return Bucket({"m": manifest.encode(), "p": body}), part


def test_a_period_that_was_archived_again_is_read_by_its_new_manifest() -> None:
    """It was restored, got an event of a backfill, and was archived again. The manifest's key stays the same."""
    objects, _ = archived()
    bucket: Any = objects
    reader = S3PartReader(bucket)
    assert reader.manifest("m").events == 300
    objects.objects["m"] = objects.objects["m"].replace(b'"events": 300', b'"events": 301')
    assert reader.manifest("m").events == 301


@pytest.mark.usefixtures("short_tail")
def test_a_part_is_read_in_its_order() -> None:
    objects, part = archived()
    bucket: Any = objects
    reader = S3PartReader(bucket)
    for ascending in (True, False):
        rows = reader.events(part, WHOLE, LAYOUT, ascending=ascending)
        numbers = [int(str(row[0].data["n"])) for row in rows if not isinstance(row, Skipped)]
        assert numbers == sorted((n * n for n in range(300)), reverse=not ascending)


def test_an_object_that_is_missing_cut_or_damaged_is_named() -> None:
    objects, part = archived()
    body = objects.objects["p"]
    objects.objects |= {"no json": b"{", "old": objects.objects["m"].replace(b'"version": 4', b'"version": 1')}
    bucket: Any = objects
    reader = S3PartReader(bucket)
    for key in ("none", "no json", "old"):
        with pytest.raises(ArchiveFailed, match=rf"^the archive's object {key} is missing or damaged: ."):
            reader.manifest(key)
    for damaged in (None, body[:-4] + b"nope", body[:100] + bytes(1_000) + body[1_100:]):
        objects.objects.pop("p", None)
        if damaged is not None:
            objects.objects["p"] = damaged
        with pytest.raises(ArchiveFailed, match=r"^the archive's object p is missing or damaged: ."):
            list(reader.events(part, WHOLE, LAYOUT, ascending=True))


def test_the_columns_of_an_archive_name_a_damaged_part_and_keep_what_does_not_change() -> None:
    """A page begins with the manifest and the footers of its parts: the second page has both already."""
    objects, part = archived()
    bucket: Any = objects
    reader = S3PartReader(bucket)
    keys = WholeRange("m", "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z", ("n",), ids=False)
    page = reader.read_whole(keys)
    assert (page.events, json.loads(page.text)["values"]["n"]) == (300, [n * n for n in range(300)])
    first, objects.requests = objects.requests, []
    assert reader.read_whole(keys) == page
    assert (first[0], len(objects.requests)) == ("m", len(first))
    body = objects.objects["p"]
    objects.objects["p"] = body[:4] + bytes(2_000) + body[2_004:]
    with pytest.raises(ArchiveFailed, match=r"^the archive's object p is missing or damaged: ."):
        reader.read_whole(keys)
    del objects.objects["p"]
    with pytest.raises(ArchiveFailed, match=r"^the archive's object p is missing or damaged: ."):
        reader.read_whole(keys)
    assert reader.manifest("m").parts == (part,)


@pytest.mark.parametrize("kept", [{}, {"pandas": "{}"}], ids=["no metadata", "another program's metadata"])
def test_a_part_that_another_program_wrote_anew_is_named(kept: dict[str, str]) -> None:
    objects, part = archived()
    other = BytesIO()
    pq.write_table(pq.read_table(BytesIO(objects.objects["p"])).replace_schema_metadata(kept), other)
    objects.objects["p"] = other.getvalue()
    bucket: Any = objects
    events = S3PartReader(bucket).events(replace(part, size=len(other.getvalue())), WHOLE, LAYOUT, ascending=True)
    with pytest.raises(ArchiveFailed, match=r"^the archive's object p is .*: another program wrote this Parquet file$"):
        next(events)


def test_a_bucket_that_cannot_be_reached_is_an_archive_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    objects, part = archived()
    bucket: Any = objects
    reader = S3PartReader(bucket)

    def fail(*_: object) -> bytes:
        raise EndpointConnectionError(endpoint_url="s3")

    monkeypatch.setattr(objects, "get", fail)
    with pytest.raises(ArchiveFailed, match="object m"):
        reader.manifest("m")
    with pytest.raises(ArchiveFailed, match="object p"):
        list(reader.events(part, WHOLE, LAYOUT, ascending=True))
    monkeypatch.undo()
    assert reader.manifest("m").events == 300, "a failure is not kept"
