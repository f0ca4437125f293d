"""Read archives from their bucket."""

from __future__ import annotations

from collections.abc import Iterator
from io import RawIOBase
from typing import Any

import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from aws.archive.column_read import read_page
from aws.archive.range_read import read_between
from aws.objects import S3Objects
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import ArchivedEvent, describe_damage
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange, WholeRange

# One request for this many bytes at a file's end brings its footer and, if the file is small, the whole file.
_TAIL_BYTES = 256 * 1024


class Ranged(RawIOBase):
    """An object in S3 as a file.

    It fetches the object's end, where Parquet's footer is, and then only the bytes to read.
    """

    def __init__(self, objects: S3Objects, key: str, size: int) -> None:
        self._objects = objects
        self._key = key
        self._size = size
        self._position = 0
        self._tail_from = max(0, size - _TAIL_BYTES)
        self._tail = objects.get_range(key, self._tail_from, size)

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

    def manifest(self, key: str) -> Manifest:
        """Read the manifest of a key.

        It is not cached: a period that is restored and archived again has another manifest.
        """
        try:
            return Manifest.decode(self._objects.get(key))
        except (ClientError, BotoCoreError, ValueError) as error:
            raise describe_damage(key, error) from error

    def read_whole(self, keys: WholeRange) -> str:
        """Read the first events of a range as JSON; see ``column_read``."""
        manifest = self.manifest(keys.manifest)
        try:
            return read_page(keys, manifest, lambda part: pq.ParquetFile(Ranged(self._objects, part.key, part.size)))
        except (ClientError, BotoCoreError, OSError, ValueError) as error:
            raise describe_damage(keys.manifest, error) from error

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[ArchivedEvent]:
        """Yield the events of the part's row groups that the range overlaps."""
        try:
            yield from read_between(Ranged(self._objects, part.key, part.size), keys, layout, ascending=ascending)
        except (ClientError, BotoCoreError, OSError, ValueError) as error:
            raise describe_damage(part.key, error) from error
