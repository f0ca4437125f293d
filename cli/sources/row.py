"""A row of a file: its event, or the reason why it has none."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_GZIP = b"\x1f\x8b"
# Bytes with which a text in UTF-16 or UTF-32 begins.
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


class SourceError(Exception):
    """The file cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Row:
    """A row: its ``number`` from 0, the bytes or rows of the file that were ``read`` so far, and its event or its
    problem.

    ``text`` is the row as the file has it. A row of Parquet has a text only if it has a problem.
    """

    number: int
    read: int
    event: dict[str, Any] | None
    problem: str = ""
    text: bytes = b""


def make_row(number: int, read: int, text: bytes, make: Callable[[], dict[str, Any]]) -> Row:
    """Make a row. If ``make`` cannot make its event, the row has the reason."""
    try:
        return Row(number, read, make(), text=text)
    # A time outside of the calendar raises an ArithmeticError or an OSError.
    except (ValueError, RecursionError, ArithmeticError, OSError) as error:
        return Row(number, read, None, str(error) or type(error).__name__, text)


@contextmanager
def open_inflated(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file; yield it with the stream of its bytes, which are decompressed if the name ends with ``.gz``.

    SourceError if the file cannot be read, is damaged, or is not UTF-8 from its first bytes on.
    """
    try:
        with path.open("rb") as raw:
            inflated = gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
            first = inflated.peek(4)[:4]
            if first.startswith(_GZIP):
                raise SourceError(f"{path} is compressed, but its name does not end with .gz: rename it")
            if first.startswith(_WIDE):
                raise SourceError(f"{path} is UTF-16 or UTF-32: convert it with iconv -f UTF-16 -t UTF-8")
            yield raw, inflated  # type: ignore[misc]  # typeshed: GzipFile is not an IO
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{path} cannot be decompressed: {error}") from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}") from error
