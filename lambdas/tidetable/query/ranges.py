"""How far a key range was read. Every reader of ranges goes on in the same way."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from tidetable.ports import FieldPage, KeyRange, Page, RangeRead


class RangeProgress(msgspec.Struct):
    """A range that is being read: ``keys`` is the rest of it, ``limit`` the number of items to read next.

    ``edge`` is the sort key up to which the range was read; None before the first page. ``more`` is False after the last
    page.
    """

    keys: KeyRange
    limit: int
    more: bool = True
    edge: Any = None

    @property
    def next_read(self) -> RangeRead:
        """The read of the next page."""
        return RangeRead(self.keys, self.limit)

    def advance(self, page: Page | FieldPage) -> None:
        """Go on after a page. A filter may have left out the item at which the page ended."""
        self.more = page.more
        if page.last is not None:
            index = self.keys.index
            self.edge = page.last["sk" if index is None else index.sk]
            self.keys = follow_page(self.keys, page)


def follow_page(keys: KeyRange, page: Page | FieldPage) -> KeyRange:
    """Return the rest of a range after a page that is not the last."""
    return replace(keys, after=None, start=page.last)
