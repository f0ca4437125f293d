"""The pages of archived periods. A separate Lambda function reads the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from msgspec.structs import replace

from tidetable.layout import Layout
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange
from tidetable.query.model import RESERVE
from tidetable.remaining import Remaining

_Page = TypeVar("_Page", ArchivePage, ArchiveColumns)
# At most this many archives are read in parallel: each needs a function of its own, which must load pyarrow.
ARCHIVES = 2


def read_archive_pages(
    keys: ArchiveRange, layout: Layout, read: Callable[[ArchiveRange], ArchivePage | None]
) -> Iterator[tuple[ArchivePage | None, str | None]]:
    """Yield the pages of a range, each with the sort key (of ``layout``) up to which the range was read.

    If ``read`` does not get a page in time, None stands for that page, and no page follows.
    """
    more = True
    while more:
        page = read(keys)
        if page is None:
            yield None, keys.after
            return
        reached, more = page.reached, page.more
        if reached is None and page.events:
            last = page.events[-1]
            reached = layout.make_sort_key(last.time, last.series, last.id)
        yield page, reached
        keys = replace(keys, after=reached or keys.after)


def wait_for_page(reading: Future[_Page], remaining: Remaining) -> _Page | None:
    """Wait for a page that is being read; None if it does not come in time, for example because its function has a cold
    start.
    """
    try:
        return reading.result(timeout=max(remaining() - RESERVE, 0.1))
    except TimeoutError:
        return None
