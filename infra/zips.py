"""Join ZIP files without compressing their contents again.

A bundle has 70 MB, and shares many files with other bundles. The package keeps each file once, in smaller ZIP files. A
synth joins the ZIP files of a bundle within a second.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

# APPNOTE.TXT, "End of central directory record": signature, disks and entries, size and offset of the directory, comment.
_END = struct.Struct("<4sHHHHLLH")
_END_SIGNATURE = b"PK\x05\x06"
# "Central directory structure": the fixed part of an entry, the lengths of its three texts, and the offset of its file.
_ENTRY_BYTES, _LENGTHS_AT, _OFFSET_AT = 46, 28, 42
_LENGTHS, _OFFSET = struct.Struct("<HHH"), struct.Struct("<L")
_CHUNK = 1024 * 1024
_MOST_ENTRIES, _MOST_BYTES = 0xFFFF, 0xFFFFFFFF


class _Directory(NamedTuple):
    files: int
    offset: int
    entries: bytes


def join_files(sources: Sequence[Path], target: Path) -> None:
    """Write a ZIP file with the files of all ``sources``. They are ZIP files without comments, with different files.

    ValueError if a source is not such a ZIP file, or if the result would need the 64-bit form.
    """
    entries, count = b"", 0
    with target.open("wb") as joined:
        for path in sources:
            with path.open("rb") as source:
                base, directory = joined.tell(), _read_directory(source, path)
                source.seek(0)
                _copy_bytes(source, joined, directory.offset)
                entries += _move_entries(directory.entries, base)
                count += directory.files
        begins = joined.tell()
        if count >= _MOST_ENTRIES or begins + len(entries) >= _MOST_BYTES:
            raise ValueError(f"{target}: {count} files of {begins} bytes are too many for one ZIP file")
        joined.write(entries)
        joined.write(_END.pack(_END_SIGNATURE, 0, 0, count, count, len(entries), begins, 0))


def _read_directory(source: BinaryIO, path: Path) -> _Directory:
    source.seek(-_END.size, 2)
    signature, _, _, _, count, size, offset, _ = _END.unpack(source.read())
    if signature != _END_SIGNATURE:
        raise ValueError(f"{path} is not a ZIP file without a comment")
    source.seek(offset)
    return _Directory(count, offset, source.read(size))


def _copy_bytes(source: BinaryIO, target: BinaryIO, length: int) -> None:
    """Copy ``length`` bytes. ``copyfileobj`` would copy the ZIP file's directory, too."""
    while length:
        chunk = source.read(min(length, _CHUNK))
        if not chunk:
            raise ValueError("a ZIP file ends before its directory")
        target.write(chunk)
        length -= len(chunk)


def _move_entries(entries: bytes, base: int) -> bytes:
    """Return a directory's entries after its files have moved by ``base`` bytes."""
    directory, at = bytearray(entries), 0
    while at < len(directory):
        (offset,) = _OFFSET.unpack_from(directory, at + _OFFSET_AT)
        _OFFSET.pack_into(directory, at + _OFFSET_AT, offset + base)
        at += _ENTRY_BYTES + sum(_LENGTHS.unpack_from(directory, at + _LENGTHS_AT))
    return bytes(directory)
