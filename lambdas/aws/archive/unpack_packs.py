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
from msgspec.structs import replace

from aws.dynamodb.wire import decode_item, encode_item
from aws.zstd import Zstd
from tidetable.archive.ports import RawPage
from tidetable.errors import ArchiveFailed
from tidetable.events import Item
from tidetable.exact_json import decode_json
from tidetable.forms.choose import choose_form
from tidetable.large.unpack import measure_outside
from tidetable.layout import Layout
from tidetable.packs import OpenedItem, WalkedRun, open_item, walk_packs

if TYPE_CHECKING:
    from tidetable.archive.ports import TableSource

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_TIME = 27
# A page of events ends after this many bytes, or when its logical partition ends. Bytes that are not in an item count, too.
_PAGE_BYTES = 1_000_000


class _Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position where reading continues.

    It is in the scan's page that begins after the key ``page``; the first ``done`` items of that page are finished. The
    next item's logical partition is finished up to the sort key ``place``.
    """

    page: dict[str, Any] | None = None
    done: int = 0
    place: str = ""


@dataclass(slots=True)
class _Pass:
    """The pass over one segment of a table: its pages, and the position where they continue (``after``).

    ``units`` and ``count`` are the read units and the items since the last page. ``ends`` are the last sort keys of the
    packs that still have events to return.
    """

    source: TableSource
    layout: Layout
    table: str
    segment: int
    segments: int
    after: Mapping[str, Any] | None
    limit: int | None = None
    pages: Iterator[RawPage] = field(init=False)
    compressor: Zstd = field(default_factory=Zstd)
    units: float = 0.0
    count: int = 0
    ends: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        start = msgspec.convert(self.after, _Position) if self.after is not None else _Position()
        self.pages = self._read_pages(start)

    def _read_pages(self, position: _Position) -> Iterator[RawPage]:
        start, done, place = position.page, position.done, position.place
        while True:
            page = self.source.page(
                self.table, segment=self.segment, segments=self.segments, after=start, limit=self.limit
            )
            items = self._decode(page)
            # An earlier run may have had another limit, so a page may have fewer items than ``done``. Then the next
            # pages skip the remaining items.
            for number, item in enumerate(items[done:], done):
                pk, sk = item["pk"]["S"], item["sk"]["S"]
                if place or self._is_first(pk, sk):
                    yield from self._read_events(pk.rpartition("#")[0], place, _Position(start, number))
                place = ""
            done = max(done - len(items), 0)
            if page.after is None:
                yield self._make_page([], None)
                return
            start = dict(page.after)
            yield self._make_page([], _Position(start, done, place))

    def _is_first(self, pk: str, sk: str) -> bool:
        """True if an item is the first of its partition key, and no lesser suffix has items."""
        logical, _, suffix = pk.rpartition("#")
        for number in range(int(suffix) + 1):
            page = self.source.partition(self.table, f"{logical}#{number}", low=None, after=None, limit=1)
            if items := self._decode(page):
                return number == int(suffix) and items[0]["sk"]["S"] == sk
        return False

    def _read_events(self, logical: str, after: str, position: _Position) -> Iterator[RawPage]:
        """Read the events of a logical partition after a sort key, in pages."""
        low = after + "\0" if after else ""
        first = after[:_TIME] or None
        suffixes = [self._open(f"{logical}#{number}", first) for number in range(self.layout.shards)]
        self.ends.clear()
        texts: list[str] = []
        size = 0
        items = self._note_ends(merge(*suffixes, key=lambda item: item.newest), after)
        for run in walk_packs(items, span=choose_form(self.layout).span, ascending=True, low=low):
            if run.problems:
                raise ArchiveFailed(f"{self.table} is not whole: {run.problems[0]}")
            for text, place, beside in self._render_events(run, logical):
                texts.append(text)
                size += len(text) + beside
                if size > _PAGE_BYTES:
                    yield self._make_page(texts, replace(position, place=place), self._count_ended(place))
                    texts, size = [], 0
        yield self._make_page(texts, replace(position, done=position.done + 1), len(self.ends))

    def _open(self, pk: str, low: str | None) -> Iterator[OpenedItem]:
        """Open the items of a partition key, in order."""
        after: Mapping[str, Any] | None = None
        while True:
            page = self.source.partition(self.table, pk, low=low, after=after, limit=self.limit)
            for item in self._decode(page):
                yield open_item(decode_item(item), self.layout, self.compressor)
            after = page.after
            if after is None:
                return

    def _render_events(self, run: WalkedRun, logical: str) -> Iterator[tuple[str, str, int]]:
        """Events as plain items in DynamoDB JSON, with their sort keys and the bytes of their data beside the items."""
        for place, copy in zip(run.places, run.copies, strict=True):
            item: Item
            beside = 0
            if not isinstance(copy.value, str):
                beside = measure_outside(copy.value)
                item = copy.value
            else:
                _, series, id = self.layout.parse_names(logical, place)
                suffix = self.layout.compute_suffix(series, id)
                item = {"pk": f"{logical}#{suffix}", "sk": place, "at": copy.at, "data": decode_json(copy.value)}
            yield encode_item(item), place, beside

    def _decode(self, page: RawPage) -> list[dict[str, dict[str, Any]]]:
        """Decode the items of a page of the table; count its items and its units."""
        self.units += page.units
        self.count += page.count
        return _PAGE(page.items)

    def _make_page(self, texts: list[str], position: _Position | None, packs: int = 0) -> RawPage:
        """Make a page of events, with the units and the number of items that were read since the last page."""
        after = msgspec.to_builtins(position)
        page = RawPage(f"[{','.join(texts)}]".encode(), self.count, self.units, after, packs)
        self.units, self.count = 0.0, 0
        return page

    def _note_ends(self, items: Iterator[OpenedItem], after: str) -> Iterator[OpenedItem]:
        """Yield the items unchanged, and note the last sort key of each pack that ends after ``after``."""
        for item in items:
            if item.hash and item.places and item.places[-1] > after:
                self.ends.append(item.places[-1])
            yield item

    def _count_ended(self, last: str) -> int:
        """Count the noted packs that end at or before a sort key, and forget them."""
        before = len(self.ends)
        self.ends = [end for end in self.ends if end > last]
        return before - len(self.ends)


class SettledScan:
    """Scans a table event by event. A segment continues after its last page, or begins again after any earlier page."""

    def __init__(self, source: TableSource, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._passes: dict[tuple[str, int], _Pass] = {}

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Read the next events of a segment."""
        current = self._passes.pop((table, segment), None)
        if current is None or current.after != after:
            current = _Pass(self._source, self._layout, table, segment, segments, after)
        current.limit = limit
        page = next(current.pages)
        if page.after is not None:
            current.after = page.after
            self._passes[table, segment] = current
        return page
