"""Read archives from their bucket."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from io import RawIOBase
from typing import Any, TypeVar

import pyarrow.parquet as pq

from aws.archive.column_read import ColumnsPage, read_page
from aws.archive.range_read import name_damage, read_between
from aws.objects import S3Objects
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, WholeRange

# One request for this many bytes at a file's end brings its footer and, if the file is small, the whole file.
_TAIL_BYTES = 256 * 1024
# The manifests and the footers that a process keeps. A footer of 20 row groups of 10 columns takes some 100 KB.
_MANIFESTS, _FOOTERS = 2, 256
_Kept = TypeVar("_Kept")


class Ranged(RawIOBase):
    """An object in S3 as a file.

    It fetches the object's end, where Parquet's footer is, when that is read first, and otherwise only the bytes to read.
    """

    def __init__(self, objects: S3Objects, key: str, size: int) -> None:
        self._objects = objects
        self._key = key
        self._size = size
        self._position = 0
        self._tail_from = max(0, size - _TAIL_BYTES)

    @cached_property
    def _tail(self) -> bytes:
        return self._objects.get_range(self._key, self._tail_from, self._size)

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
        if start >= self._tail_from:
            content = self._tail[start - self._tail_from : end - self._tail_from]
        else:
            content = self._objects.get_range(self._key, start, end)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)


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

    def _open(self, part: Part) -> pq.ParquetFile:
        """Open a part. Its footer is kept: each page of a period begins with the footers of its parts."""
        name = f"{part.key} {part.sha256}"
        file = pq.ParquetFile(Ranged(self._objects, part.key, part.size), metadata=self._footers.get(name))
        _keep(self._footers, name, file.metadata, _FOOTERS)
        return file

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[ArchivedEvent]:
        """Yield the events of the part's row groups that the range overlaps."""
        with name_damage(part.key):
            yield from read_between(Ranged(self._objects, part.key, part.size), keys, layout, ascending=ascending)


def _keep(kept: dict[str, _Kept], key: str, value: _Kept, most: int) -> None:
    """Keep a value, but no more than ``most`` values: the oldest goes."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
