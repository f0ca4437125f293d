"""Read every event of a table with packs once: an archive does not depend on which packs held its events.

The copies of an event are in one logical partition, but perhaps under several suffixes. So a logical partition is read
as a whole and in order. A scan finds the logical partitions. It reads a logical partition when it meets the partition's
first item: the first item of the least suffix that has items. A scan returns every item once, in any order, so every
logical partition is read once. Packs are therefore read twice; they take only a small share of the space that their
events would take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING, Any

import msgspec

from aws.wire import decode_item, encode_item
from aws.zstd import Zstd
from tidetable.archive.ports import RawPage
from tidetable.errors import ArchiveFailed
from tidetable.events import Item
from tidetable.exact import decode_json
from tidetable.keys import Layout, compute_suffix, unescape
from tidetable.large.whole import measure_outside
from tidetable.packs import Opened, Run, open_item, walk

if TYPE_CHECKING:
    from tidetable.archive.ports import TableSource

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_TIME = 27
# A page of events ends after this many bytes, or when its logical partition ends. The bytes in chunks and in S3 count.
_PAGE_BYTES = 1_000_000


class _Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position where reading continues.

    It is in the scan's page that begins after the key ``page``; the first ``done`` items of that page are finished. The
    next item's logical partition is finished up to the sort key ``place``.
    """

    page: dict[str, Any] | None = None
    done: int = 0
    place: str = ""

    def document(self) -> dict[str, Any]:
        """Return the position as a page's ``after``, without defaults."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


@dataclass(slots=True)
class _Pass:
    """The pass over one segment: its pages, and the position where they continue (``after``).

    ``units`` and ``count`` are the read units and the items since the last page. ``ends`` are the last sort keys of the
    packs that still have events to return.
    """

    after: Mapping[str, Any] | None
    pages: Iterator[RawPage] = field(init=False)
    units: float = 0.0
    count: int = 0
    limit: int | None = None
    ends: list[str] = field(default_factory=list)

    def account(self, page: RawPage) -> RawPage:
        """Add the units and the items of a page of the table."""
        self.units += page.units
        self.count += page.count
        return page

    def make_page(self, texts: list[str], after: Mapping[str, Any] | None, packs: int = 0) -> RawPage:
        """Make a page of events, with the units and the number of items that were read since the last page."""
        units, self.units, count, self.count = self.units, 0.0, self.count, 0
        return RawPage(f"[{','.join(texts)}]".encode(), count, units, after, packs)

    def note_ends(self, items: Iterator[Opened], after: str) -> Iterator[Opened]:
        """Yield the items unchanged, and note the last sort key of each pack that ends after ``after``."""
        for item in items:
            if item.hash and item.places and item.places[-1] > after:
                self.ends.append(item.places[-1])
            yield item

    def count_ended(self, last: str) -> int:
        """Count the noted packs that end at or before a sort key, and forget them."""
        before = len(self.ends)
        self.ends = [end for end in self.ends if end > last]
        return before - len(self.ends)


class SettledScan:
    """Scans a table event by event. A segment continues after its last page, or begins again after any earlier page."""

    def __init__(self, source: TableSource, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._compressor = Zstd()
        self._passes: dict[tuple[str, int], _Pass] = {}

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Read the next events of a segment."""
        current = self._passes.pop((table, segment), None)
        if current is None or current.after != after:
            position = msgspec.convert(after, _Position) if after is not None else _Position()
            current = _Pass(after)
            current.pages = self._read_pages(table, segment, segments, position, current)
        current.limit = limit
        page = next(current.pages)
        if page.after is not None:
            current.after = page.after
            self._passes[table, segment] = current
        return page

    def _read_pages(
        self, table: str, segment: int, segments: int, position: _Position, current: _Pass
    ) -> Iterator[RawPage]:
        start, done, place = position.page, position.done, position.place
        while True:
            page = self._source.page(table, segment=segment, segments=segments, after=start, limit=current.limit)
            items = _PAGE(current.account(page).items)
            # An earlier run may have had another limit, so a page may have fewer items than ``done``. Then the next
            # pages skip the remaining items.
            for number, item in enumerate(items[done:], done):
                pk, sk = item["pk"]["S"], item["sk"]["S"]
                if place or self._is_first(table, pk, sk, current):
                    yield from self._read_events(table, pk.rpartition("#")[0], place, _Position(start, number), current)
                place = ""
            done = max(done - len(items), 0)
            if page.after is None:
                yield current.make_page([], None)
                return
            start = dict(page.after)
            yield current.make_page([], _Position(start, done, place).document())

    def _is_first(self, table: str, pk: str, sk: str, current: _Pass) -> bool:
        """True if an item is the first of its partition key, and no lesser suffix has items."""
        logical, _, suffix = pk.rpartition("#")
        for number in range(int(suffix) + 1):
            page = self._source.partition(table, f"{logical}#{number}", low=None, after=None, limit=1)
            items = _PAGE(current.account(page).items)
            if items:
                return number == int(suffix) and items[0]["sk"]["S"] == sk
        return False

    def _read_events(
        self, table: str, logical: str, after: str, position: _Position, current: _Pass
    ) -> Iterator[RawPage]:
        """Read the events of a logical partition after a sort key, in pages."""
        assert self._layout.pack is not None  # noqa: S101 - only layouts with packs come here
        low = after + "\0" if after else ""
        first = after[:_TIME] or None
        suffixes = [self._open(table, f"{logical}#{number}", first, current) for number in range(self._layout.shards)]
        current.ends.clear()
        texts: list[str] = []
        size = 0
        items = current.note_ends(merge(*suffixes, key=lambda item: item.newest), after)
        for run in walk(items, span=self._layout.pack.span, ascending=True, low=low):
            if run.problems:
                raise ArchiveFailed(f"{table} is not whole: {run.problems[0]}")
            for text, place, beside in self._render_events(run, logical):
                texts.append(text)
                size += len(text) + beside
                if size > _PAGE_BYTES:
                    reached = msgspec.structs.replace(position, place=place).document()
                    yield current.make_page(texts, reached, current.count_ended(place))
                    texts, size = [], 0
        reached = msgspec.structs.replace(position, done=position.done + 1).document()
        yield current.make_page(texts, reached, len(current.ends))

    def _open(self, table: str, pk: str, low: str | None, current: _Pass) -> Iterator[Opened]:
        """Open the items of a partition key, in order."""
        after: Mapping[str, Any] | None = None
        while True:
            page = self._source.partition(table, pk, low=low, after=after, limit=current.limit)
            for item in _PAGE(current.account(page).items):
                yield open_item(decode_item(item), self._layout, self._compressor)
            after = page.after
            if after is None:
                return

    def _render_events(self, run: Run, logical: str) -> Iterator[tuple[str, str, int]]:
        """Events as plain items in DynamoDB JSON, with their sort keys and the bytes of their data beside the items."""
        shards = self._layout.shards
        for place, copy in zip(run.places, run.copies, strict=True):
            item: Item
            beside = 0
            if not isinstance(copy.value, str):
                beside = measure_outside(copy.value, cold=True)
                item = copy.value
            else:
                suffix = compute_suffix(unescape(place.rpartition("#")[2]), shards) if shards > 1 else 0
                item = {"pk": f"{logical}#{suffix}", "sk": place, "at": copy.at, "data": decode_json(copy.value)}
            yield encode_item(item), place, beside
