"""Read archives from their bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from io import RawIOBase
from typing import Any, TypeVar

import pyarrow.parquet as pq

from aws.archive.chosen_rows import OpenPart
from aws.archive.column_read import ColumnsPage, read_page
from aws.archive.range_read import name_damage, read_between
from aws.objects import S3Objects
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, Skipped
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, WholeRange

# One request for at least this many bytes at a file's end brings its footer and, if the file is small, the whole file.
_TAIL_BYTES = 256 * 1024
# Row groups are fetched by one request if no more than the first number of bytes lies between them, and together they
# have at most the second number. If several parts are read together, they share it, and each has at least the third.
_GAP_BYTES, _MOST_BYTES, _LEAST_BYTES = 256 * 1024, 32_000_000, 1_000_000
# The manifests and the footers that a process keeps. A footer of 100 row groups of 10 columns takes half a megabyte.
_MANIFESTS, _FOOTERS = 2, 64
_Kept = TypeVar("_Kept")


class Ranged(RawIOBase):
    """An object in S3 as a file.

    It fetches the object's end, where Parquet's ``footer`` is, when that is read first, and otherwise only the bytes to read.
    ``plan`` says which ranges will be read, so that a few requests fetch them.
    """

    def __init__(self, objects: S3Objects, key: str, size: int, footer: int = 0, most_bytes: int = _MOST_BYTES) -> None:
        self._objects = objects
        self._key = key
        self._size = size
        self._most_bytes = most_bytes
        self._position = 0
        self._tail_from = max(0, size - max(_TAIL_BYTES, footer))
        self._planned: list[tuple[int, int]] = []
        self._held = (0, 0, b"")

    @cached_property
    def _tail(self) -> bytes:
        return self._objects.get_range(self._key, self._tail_from, self._size)

    def plan(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take the ranges that are read next, and drop what was fetched before.

        Neighbours are joined, and fetched when their first byte is read.
        """
        joined: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if joined and start - joined[-1][1] <= _GAP_BYTES and end - joined[-1][0] <= self._most_bytes:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        self._planned, self._held = joined, (0, 0, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = (0, self._position, self._size)[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        start, end = self._position, min(self._position + len(buffer), self._size)
        if start >= end:
            return 0
        content = self._read(start, end)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def _read(self, start: int, end: int) -> bytes | memoryview:
        in_tail = start >= self._tail_from
        if not (in_tail and "_tail" in self.__dict__):
            for first, last in self._planned:
                if first <= start and end <= last:
                    if self._held[:2] != (first, last):
                        self._held = first, last, self._objects.get_range(self._key, first, last)
                    return memoryview(self._held[2])[start - first : end - first]
            if not in_tail:
                return self._objects.get_range(self._key, start, end)
        return memoryview(self._tail)[start - self._tail_from : end - self._tail_from]


class S3PartReader:
    """Reads manifests and parts from a bucket."""

    def __init__(self, objects: S3Objects) -> None:
        self._objects = objects
        self._manifests: dict[str, tuple[str, Manifest]] = {}
        self._footers: dict[str, pq.FileMetaData] = {}

    def manifest(self, key: str) -> Manifest:
        """Read the manifest of a key. One that is kept is used only if the bucket has no other version of it: a period
        that is restored and archived again has another manifest.
        """
        etag, kept = self._manifests.get(key, ("", None))
        with name_damage(key):
            body, etag = self._objects.get_changed(key, etag)
            manifest = Manifest.decode(body or b"") if kept is None or body is not None else kept
        _keep(self._manifests, key, (etag, manifest), _MANIFESTS)
        return manifest

    def read_whole(self, keys: WholeRange) -> ColumnsPage:
        """Read the first events of a range as JSON; see ``column_read``."""
        return read_page(keys, self.manifest(keys.manifest), self._open)

    def _open(self, part: Part, together: int = 1) -> OpenPart:
        """Open a part, one of so many. Its footer is kept: each page of a period begins with the footers of its parts."""
        name = f"{part.key} {part.sha256}"
        footer, most = part.bounds.footer if part.bounds is not None else 0, max(_MOST_BYTES // together, _LEAST_BYTES)
        source = Ranged(self._objects, part.key, part.size, footer, most)
        file = pq.ParquetFile(source, metadata=self._footers.get(name))
        _keep(self._footers, name, file.metadata, _FOOTERS)
        return OpenPart(file, source.plan)

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent | Skipped]:
        """Yield the part's events of a range; see ``read_between``."""
        with name_damage(part.key):
            yield from read_between(self._open(part, together), keys, layout, ascending=ascending, together=together)


def _keep(kept: dict[str, _Kept], key: str, value: _Kept, most: int) -> None:
    """Keep a value, but no more than ``most`` values: the oldest goes."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
