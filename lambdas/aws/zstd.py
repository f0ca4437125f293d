"""Compression by Zstandard, imported when the first value needs it."""

from __future__ import annotations

from threading import local
from typing import Any

# The compressor of each thread. A compressor makes only one frame at a time, and creating a compressor costs as much as
# compressing a small value.
_OF_THREAD = local()


class Zstd:
    """Zstandard at level 3: the output is as small as with gzip's best level, in a tenth of the time."""

    def compress(self, value: bytes) -> bytes:
        """Compress the value as one zstd frame, which holds its size and checksum."""
        compressed: bytes = _find_compressor().compress(value)
        return compressed

    def expand(self, value: bytes) -> bytes:
        """Decompress the output of ``compress``; ValueError for any other bytes."""
        from zstandard import ZstdDecompressor, ZstdError

        try:
            return ZstdDecompressor().decompress(value)
        except ZstdError as error:
            raise ValueError(str(error)) from error


def _find_compressor() -> Any:
    compressor = getattr(_OF_THREAD, "compressor", None)
    if compressor is None:
        from zstandard import ZstdCompressor

        compressor = _OF_THREAD.compressor = ZstdCompressor(level=3, write_checksum=True, write_content_size=True)
    return compressor
