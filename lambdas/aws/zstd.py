"""Compression by Zstandard, imported when the first value needs it."""

from __future__ import annotations

from threading import local
from typing import Any

# The compressor and the decompressor of each thread. Each handles only one frame at a time, and creating one costs as
# much as handling a small value.
_OF_THREAD = local()


class Zstd:
    """Zstandard at level 3: the output is as small as with gzip's best level, in a tenth of the time."""

    def compress(self, value: bytes) -> bytes:
        """Compress the value as one zstd frame, which holds its size and checksum."""
        compressed: bytes = _find_tools()[0].compress(value)
        return compressed

    def expand(self, value: bytes) -> bytes:
        """Decompress the output of ``compress``; ValueError for any other bytes."""
        from zstandard import ZstdError

        try:
            expanded: bytes = _find_tools()[1].decompress(value)
        except ZstdError as error:
            raise ValueError(str(error)) from error
        return expanded


def _find_tools() -> tuple[Any, Any]:
    """Return the compressor and the decompressor of this thread."""
    tools: tuple[Any, Any] | None = getattr(_OF_THREAD, "tools", None)
    if tools is None:
        from zstandard import ZstdCompressor, ZstdDecompressor

        compressor = ZstdCompressor(level=3, write_checksum=True, write_content_size=True)
        tools = _OF_THREAD.tools = compressor, ZstdDecompressor()
    return tools
