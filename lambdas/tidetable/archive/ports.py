"""What archiving needs of the world besides the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tidetable.archive.facts import Facts
from tidetable.events import Item
from tidetable.keys import Layout


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of a scan as it came: ``items`` is a JSON array in DynamoDB JSON, ``after`` where to go on (None: the end).

    ``count`` is how many items were read for it, ``packs`` how many packs end with it, if its items are the events of packs.
    """

    items: bytes
    count: int
    units: float
    after: Mapping[str, Any] | None
    packs: int = 0


class Source(Protocol):
    """The table that is archived."""

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """The next page of a segment, strongly consistent; TableMissing if there is no table, TableThrottled if it must wait."""
        ...

    def partition(
        self, table: str, pk: str, *, low: str | None, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """The next page of the items of one partition key, in order, from a sort key on; consistent, and with the same errors."""
        ...

    def settled(self, layout: Layout) -> Source:
        """The same table by the events of its packs: each once, in the form of the layout's plain items. One segment is one pass.

        Its pages raise ArchiveFailed for a damaged pack.
        """
        ...


class Objects(Protocol):
    """The bucket that archives are kept in."""

    def put(self, key: str, body: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def find(self, key: str) -> bytes | None:
        """The object, or None if there is none."""
        ...

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """The key and the size in bytes of every object under the prefix."""
        ...

    def clear(self, prefix: str) -> None:
        """Delete every object under the prefix."""
        ...


class Completer(Protocol):
    """Makes the items of a page whole."""

    def whole(self, items: bytes, table: str) -> bytes:
        """A page's items with all of their data, and ``packed`` saying how it was kept; ArchiveFailed if any is not there."""
        ...


class PartWriter(Protocol):
    """A part in the making. ``facts`` are those of the items so far, ``size`` the bytes of their pages."""

    facts: Facts
    size: int

    def add(self, items: bytes) -> None:
        """Take a page's items; ArchiveFailed names one that no event would give."""
        ...

    def finish(self) -> bytes:
        """The part, in the order of its sort keys."""
        ...


class Format(Protocol):
    """How items become a part, and items again."""

    def writer(self, layout: Layout, columns: Mapping[str, str]) -> PartWriter:
        """A new part of a period of that layout; ``columns`` are the declared ones with their types."""
        ...

    def facts(self, part: bytes, layout: Layout) -> Facts:
        """The facts of a finished part, computed from what it holds."""
        ...

    def page_facts(self, items: bytes) -> Facts:
        """The facts of a page of a scan."""
        ...

    def items(self, part: bytes, layout: Layout) -> Iterable[Item]:
        """A part's items, as the table had them."""
        ...
