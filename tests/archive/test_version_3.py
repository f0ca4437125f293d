"""Archives of the version 3: sorted by time, with every id, without bounds. They are read and restored as those of today."""

import json
from pathlib import Path
from typing import Any

import pytest

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from tidetable.archive.digest import join_digests
from tidetable.archive.reading import read_archive
from tidetable.ports import ArchiveRange, WholeRange

OLD, NEW = Path(__file__).parent / "version_3", Path(__file__).parents[1] / "formats/fixtures/archives"
PERIODS = ["stream=packs/period=2026-03-09", "stream=times/period=2026-03-09"]


class Bucket:
    """A folder as a bucket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        del etag
        return (self.folder / key).read_bytes(), ""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return (self.folder / key).read_bytes()[start:end]


def open_reader(folder: Path) -> S3PartReader:
    bucket: Any = Bucket(folder)
    return S3PartReader(bucket)


@pytest.mark.parametrize("period", PERIODS)
def test_an_archive_of_the_version_3_has_the_answers_of_todays_archive(period: str) -> None:
    """Both were made from the same tables."""
    key = f"{period}/_manifest.json"
    assert [open_reader(folder).manifest(key).version for folder in (OLD, NEW)] == [3, 4]
    for ascending in (True, False):
        for limit in (3, 1_000):
            old, new = (
                read_archive(ArchiveRange(key, "", "~"), open_reader(folder), limit=limit, ascending=ascending)
                for folder in (OLD, NEW)
            )
            assert (old.events, old.more) == (new.events, new.more)
            assert len(new.events) == min(limit, open_reader(NEW).manifest(key).events)
    keys = WholeRange(key, "2026-03-09T00:00:00.000000Z", "2026-03-10T00:00:00.000000Z", ("",), ids=True)
    old_page, new_page = (open_reader(folder).read_whole(keys) for folder in (OLD, NEW))
    assert json.loads(old_page.text) == json.loads(new_page.text)


@pytest.mark.parametrize("period", PERIODS)
def test_parts_of_the_version_3_have_the_items_that_their_manifest_says(period: str) -> None:
    manifest = open_reader(OLD).manifest(f"{period}/_manifest.json")
    facts = [Parquet().facts((OLD / part.key).read_bytes(), manifest.layout) for part in manifest.parts]
    assert [fact.hex for fact in facts] == [part.digest for part in manifest.parts]
    assert join_digests(fact.hex for fact in facts) == manifest.digest
    rows = [
        rows for part in manifest.parts for rows in Parquet().rows((OLD / part.key).read_bytes(), manifest.layout, 0)
    ]
    assert sum(len(some.batch.times) for some in rows) == manifest.events
