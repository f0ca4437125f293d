"""The pages of archived periods. A separate Lambda function reads the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from tidetable.ports import ArchiveColumns, ArchivePage
from tidetable.query.model import RESERVE
from tidetable.remaining import Remaining

_Page = TypeVar("_Page", ArchivePage, ArchiveColumns)
# At most this many archives are read in parallel: each needs a function of its own, which must load pyarrow.
ARCHIVES = 2


def read_archive_pages(keys: Any, read: Callable[[Any], _Page | None]) -> Iterator[_Page | None]:
    """Yield the pages of a range. ``read`` reads the first page of a range.

    If it does not get a page in time, None stands for that page, and no page follows.
    """
    while keys is not None:
        page = read(keys)
        yield page
        keys = None if page is None else page.follow(keys)


def wait_for_pages(
    first: Future[_Page], begin: Callable[[Any], Future[_Page]], remaining: Remaining
) -> Callable[[Any], _Page | None]:
    """Return a function that waits for the page of a range; the ``first`` page is being read already.

    The function returns None for a page that does not come in time, for example because the archive's function has a
    cold start.
    """
    begun = iter([first])

    def wait(keys: Any) -> _Page | None:
        reading = next(begun, None) or begin(keys)
        try:
            return reading.result(timeout=max(remaining() - RESERVE, 0.1))
        except TimeoutError:
            return None

    return wait
