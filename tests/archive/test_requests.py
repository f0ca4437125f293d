"""How many requests a question to an archive takes, and how much it fetches."""

import json
from io import BytesIO
from itertools import islice
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from aws.archive.parquet import Parquet
from aws.archive.part_file import read_filters
from aws.archive.s3 import S3PartReader
from tests.worlds.parts import make_item
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import Skipped
from tidetable.archive.series_filter import make_filter, may_hold
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, WholeRange

LAYOUT = Layout("time", 2, "id", 3_600)
WHOLE = ArchiveRange("m", "", "~")
DAY = WholeRange("m", "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z", ("n",), ids=False)


class Bucket:
    """A part of 240 events in six row groups, and its manifest. ``requests`` are the ranges of bytes that were read."""

    def __init__(self) -> None:
        # pyarrow reads the last 64 KB of a file first.
        chance = Random(1)
        items = [
            make_item(
                LAYOUT,
                f"s{n % 7}",
                n * 10**6,
                f"id{n}",
                {"n": {"N": str(n)}, "text": {"S": chance.randbytes(400).hex()}},
                {},
            )
            for n in range(240)
        ]
        writer = Parquet().writer(LAYOUT, {})
        writer.add(json.dumps(items).encode())
        self.body = writer.finish()
        self.part = Part(
            key="p", events=240, size=len(self.body), sha256="", digest="", partitions=0, first="", last="~",
            bounds=writer.find_bounds(),
        )  # fmt: skip
        self.manifest = Manifest(
            stream="s", period="", table="", layout=LAYOUT, events=240, size=len(self.body), digest="", columns={},
            written_at="", parts=(self.part,),
        )  # fmt: skip
        self.requests: list[tuple[int, int]] = []

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        del key, etag
        return self.manifest.encode(), ""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        del key
        self.requests.append((start, end))
        return self.body[start:end]

    def read(self, count: int | None, *, ascending: bool = True, together: int = 1) -> list[int]:
        """Read so many events by a new reader; return the numbers in their data."""
        self.requests.clear()
        objects: Any = self
        rows = S3PartReader(objects).events(self.part, WHOLE, LAYOUT, ascending=ascending, together=together)
        return [int(str(row[0].data["n"])) for row in islice(rows, count) if not isinstance(row, Skipped)]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket whose reader has windows of a row group. The end of an object is as short as its footer."""
    for name, value in {
        "part_file._GROUP_EVENTS": 40, "range_read._WINDOW_EVENTS": 40, "range_read._WHOLE_EVENTS": 40,
        "s3._TAIL_BYTES": 10,
    }.items():  # fmt: skip
        monkeypatch.setattr(f"aws.archive.{name}", value)
    return Bucket()


@pytest.mark.parametrize("ascending", [True, False])
def test_a_reader_that_needs_more_than_a_window_fetches_the_others_together(bucket: Bucket, ascending: bool) -> None:
    order = list(range(240)) if ascending else list(range(239, -1, -1))
    assert bucket.read(3, ascending=ascending) == order[:3]
    assert len(bucket.requests) == 2, "the footer, and one row group"
    first = bucket.requests[1]
    assert bucket.read(None, ascending=ascending) == order
    assert len(bucket.requests) == 3
    sizes = [end - start for start, end in bucket.requests[1:]]
    assert bucket.requests[1] == first
    assert 4 * sizes[0] < sizes[1] < 6 * sizes[0], "the other five row groups"


def test_the_footer_comes_with_one_request_however_long_it_is(bucket: Bucket) -> None:
    bounds = bucket.part.bounds
    assert bounds is not None
    assert bucket.body[-8:-4] == (bounds.footer - 8).to_bytes(4, "little")
    bucket.part = replace(bucket.part, bounds=replace(bounds, footer=100_000))
    bucket.read(1)
    assert bucket.requests[0] == (len(bucket.body) - 100_000, len(bucket.body))


def test_parts_that_are_read_together_share_the_memory(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aws.archive.s3._MOST_BYTES", 200_000)
    monkeypatch.setattr("aws.archive.s3._LEAST_BYTES", 10)
    for name, value in (("_WINDOW_EVENTS", 240), ("_WHOLE_EVENTS", 240), ("_LEAST_EVENTS", 20)):
        monkeypatch.setattr(f"aws.archive.range_read.{name}", value)
    assert bucket.read(None) == list(range(240))
    assert len(bucket.requests) == 2, "one window, which is fetched at once"
    one = bucket.requests[1]
    assert bucket.read(None, together=6) == list(range(240))
    assert len(bucket.requests) == 7, "the share of each holds one row group"
    assert bucket.read(1, together=6) == [0]
    assert len(bucket.requests) == 2, "and a window has the events of one"
    assert bucket.read(None, together=1_000) == list(range(240))
    assert all(end - start < (one[1] - one[0]) / 5 for start, end in bucket.requests[1:])


def test_the_columns_of_a_page_come_with_one_request_per_part(bucket: Bucket) -> None:
    objects: Any = bucket
    assert S3PartReader(objects).read_whole(DAY).events == 240
    assert len(bucket.requests) == 2


def test_row_groups_have_the_filters_that_are_more_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", 40)
    layout = Layout("series", 2, "id")
    writer = Parquet().writer(layout, {})
    items = [make_item(layout, f"s{number}", 0, "id", {"n": {"N": "1"}}, {}) for number in range(80)]
    writer.add(json.dumps(items).encode())
    filters = read_filters(pq.ParquetFile(BytesIO(writer.finish())).metadata)
    assert [len(bits) for bits in filters] == [100, 100], "20 bits for each of 40 series"
    bounds = writer.find_bounds()
    assert len(bounds.names) == 100, "10 bits for each of 80 series"


def test_a_filter_of_few_series_is_as_exact_as_one_of_many() -> None:
    others = [f"other-{number}" for number in range(10_000)]
    for count, exact, size, most in (
        (1, True, 64, 2),
        (10, True, 64, 8),
        (500, True, 1_250, 8),
        (500, False, 625, 120),
    ):
        bits = make_filter((f"sensor-{number}" for number in range(count)), exact=exact)
        assert len(bits) == size
        assert all(may_hold(bits, f"sensor-{number}") for number in range(count))
        assert sum(may_hold(bits, name) for name in others) <= most
    assert len(make_filter(map(str, range(5_000)), exact=True)) == 4_096
