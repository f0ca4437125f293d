"""Read every event of a table with packs once: an archive does not depend on which packs held its events.

The copies of an event are in one logical partition, but perhaps under several suffixes. So a logical partition is read
as a whole, and settled as queries of whole ranges settle it (``forms/packed.py``). A scan finds the logical partitions.
It reads a logical partition when it meets the partition's first item: the first item of the least suffix that has
items. A scan returns every item once, in any order, so every logical partition is read once. Packs are therefore read
twice; they take only a small share of the space that their events would take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from json.encoder import encode_basestring as quote
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from aws.archive.time_scan import TimeScan
from aws.dynamodb.wire import decode_item, encode_item, encode_value
from aws.zstd import Zstd
from tidetable.archive.ports import RawPage, TimeRange
from tidetable.errors import ArchiveFailed
from tidetable.events import Item
from tidetable.exact_json import decode_json
from tidetable.forms.choose import choose_form
from tidetable.forms.field_columns import DATA
from tidetable.forms.pack_unit import PackUnit
from tidetable.forms.packed import Opened
from tidetable.large.forms import has_all_data
from tidetable.large.unpack import measure_outside
from tidetable.layout import Layout, escape
from tidetable.layout.pack import is_pack, shift_time
from tidetable.packs.body import split_lines
from tidetable.packs.partial import PartialPack
from tidetable.times import EPOCH, LATEST, TEXT_LENGTH, to_text

if TYPE_CHECKING:
    from tidetable.archive.ports import Source, TableSource

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
# A page of events ends after this many bytes, or when its logical partition ends. Bytes that are not in an item count, too.
_PAGE_BYTES = 1_000_000
# About so many events are settled together: as texts they take some 20 MB, and each segment has them in memory.
_SETTLED_TOGETHER = 50_000
_MOST_FIRSTS = 100_000
# Before and after the times of all events.
_BEGIN, _END = to_text(EPOCH), to_text(LATEST)
_DIGITS = b"0123456789.-\n"
# Numbers that are not JSON, and those that Python's decimals write in another way: -0, and more than six zeros.
_HAS_ODD_NUMBER = re.compile(rb"(?m)(?!^-?(0|[1-9]\d*)(\.\d+)?$)^|-0$|0\.0{6}").search
_STRINGS = msgspec.json.Decoder(list[str]).decode


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

    ``units`` and ``count`` are the read units and the items since the last page. ``ends`` are the newest times of the
    packs that still have events to return. ``firsts`` are the first keys of the logical partitions that were met.
    """

    source: TableSource
    layout: Layout
    table: str
    segment: int
    segments: int
    after: Mapping[str, Any] | None
    limit: int | None = None
    range: TimeRange | None = None
    pages: Iterator[RawPage] = field(init=False)
    compressor: Zstd = field(default_factory=Zstd)
    units: float = 0.0
    count: int = 0
    ends: list[str] = field(default_factory=list)
    firsts: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start = msgspec.convert(self.after, _Position) if self.after is not None else _Position()
        self.pages = self._read_pages(start) if self.range is None else self._read_range(self.range, start)

    def _read_range(self, range: TimeRange, position: _Position) -> Iterator[RawPage]:
        """Read the logical partitions of a range of time; the first ``done`` of them are finished."""
        place = position.place
        for number, logical in enumerate(self.layout.list_buckets(range.start, range.end)):
            if number >= position.done:
                yield from self._read_events(logical, place, _Position(None, number))
                place = ""
        yield self._make_page([], None)

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
        logical = pk.rpartition("#")[0]
        if logical not in self.firsts:
            if len(self.firsts) >= _MOST_FIRSTS:
                self.firsts.clear()
            self.firsts[logical] = self._find_first(logical)
        return self.firsts[logical] == (pk, sk)

    def _find_first(self, logical: str) -> tuple[str, str]:
        for number in range(self.layout.shards):
            page = self.source.partition(self.table, f"{logical}#{number}", low=None, after=None, limit=1)
            for item in self._decode(page):
                return item["pk"]["S"], item["sk"]["S"]
        return "", ""

    def _read_events(self, logical: str, after: str, position: _Position) -> Iterator[RawPage]:
        """Read the events of a logical partition after a sort key, in pages. Each suffix is read in the order of time."""
        span, first = choose_form(self.layout).span, after[:TEXT_LENGTH]
        start, end = (_BEGIN, _END) if self.range is None else map(to_text, self.range[:2])
        unit = PackUnit(
            self.layout, span, first or start, end, (DATA,), self.compressor, self._refuse, lambda: None,
            render=_render_wire, together=_SETTLED_TOGETHER,
        )  # fmt: skip
        # Packs of which the newest event is up to one span later may have events of the range.
        low, high = (first or None, None) if self.range is None else (first or start, shift_time(end, span))
        self.ends.clear()
        texts: list[str] = []
        size = 0
        # The suffix that is behind the others is read next.
        unread: list[tuple[str, str, Mapping[str, Any] | None]] = [
            ("", f"{logical}#{number}", None) for number in range(self.layout.shards)
        ]
        heapify(unread)
        while unread:
            _, pk, key = heappop(unread)
            page = self.source.partition(self.table, pk, low=low, high=high, after=key, limit=self.limit)
            items = list(map(decode_item, self._decode(page)))
            unit.hold(items)
            # The packs that end at ``first`` were counted with the page before.
            newest = [item["sk"][:TEXT_LENGTH] for item in items if is_pack(item)]
            # A pack counts in the range that has its newest event.
            self.ends += [time for time in newest if start <= time < end and time > first]
            if page.after is not None:
                heappush(unread, (page.after["sk"]["S"][:TEXT_LENGTH], pk, page.after))
            edge = unread[0][0] if unread else None
            if edge == "":
                continue
            # A copy of an event may lie in a pack whose newest event is almost one span newer.
            for opened, _ in unit.settle_before(None if edge is None else shift_time(edge, -span)):
                rows = sorted(row for each in opened for row in self._render_events(each, logical) if row[0] > after)
                for place, text, beside in rows:
                    texts.append(text)
                    size += len(text) + beside
                    if size > _PAGE_BYTES:
                        yield self._make_page(texts, replace(position, place=place), self._count_ended(place))
                        texts, size = [], 0
        yield self._make_page(texts, replace(position, done=position.done + 1), len(self.ends))

    def _refuse(self, item: Item) -> None:
        raise ArchiveFailed(f"{self.table} is not whole: the pack {item['pk']}, {item['sk']} is damaged")

    def _render_events(self, opened: Opened, logical: str) -> Iterator[tuple[str, str, int]]:
        """Yield sort keys, plain items in DynamoDB JSON, and the bytes of their data beside the items."""
        columns, item = opened.columns, opened.item
        if item is not None:
            if len(columns):
                whole = _find_whole(item)
                yield item["sk"], encode_item(whole), measure_outside(whole)
            return
        by_time, suffix_of = self.layout.partition_by == "time", self.layout.compute_suffix
        for time, series, id, at, data in zip(
            columns.times, columns.series, columns.ids, opened.list_ats(), columns.values[DATA], strict=True
        ):
            place = f"{time}#{escape(series)}#{escape(id)}" if by_time else f"{time}#{escape(id)}"
            pk = quote(f"{logical}#{suffix_of(series, id)}")
            yield place, f'{{"pk":{{"S":{pk}}},"sk":{{"S":{quote(place)}}},"at":{{"N":"{at}"}},"data":{data}}}', 0

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

    def _count_ended(self, place: str) -> int:
        """Count the noted packs whose newest event is not newer than the event at a sort key, and forget them."""
        before = len(self.ends)
        self.ends = [end for end in self.ends if end > place[:TEXT_LENGTH]]
        return before - len(self.ends)


def _find_whole(item: Item) -> Item:
    """Return what an archive keeps of an event that is alone: its data, or where its data is."""
    return {name: item[name] for name in ("pk", "sk", "at", "data")} if has_all_data(item) else item


def _render_wire(pack: PartialPack) -> Sequence[str]:
    return pack.render(_split_wire, '{"M":{%s}}')


def _split_wire(column: bytes) -> list[str]:
    """Write a column of JSON, a line per value, as DynamoDB's JSON. ValueError if a line is not JSON."""
    lines = split_lines(column)
    if not column.translate(None, _DIGITS) and _HAS_ODD_NUMBER(column) is None:
        return [f'{{"N":"{line}"}}' for line in lines]
    texts = [line for line in set(lines) if line[:1] == '"']
    if len(_STRINGS(f"[{','.join(texts)}]")) != len(texts):
        raise ValueError("a line has several values")
    known = {line: f'{{"S":{line}}}' for line in texts}
    known |= {line: encode_value(decode_json(line)) for line in set(lines) - known.keys()}
    return [known[line] for line in lines]


class SettledScan:
    """Scans a table, or a range of its time, event by event. A segment continues after its last page, or begins again
    after any earlier page.
    """

    def __init__(self, source: TableSource, layout: Layout, range: TimeRange | None = None) -> None:
        self._source = source
        self._layout = layout
        self._range = range
        self._passes: dict[tuple[str, int], _Pass] = {}

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Read the next events of a segment."""
        current = self._passes.pop((table, segment), None)
        if current is None or current.after != after:
            current = _Pass(self._source, self._layout, table, segment, segments, after, range=self._range)
        current.limit = limit
        page = next(current.pages)
        if page.after is not None:
            current.after = page.after
            self._passes[table, segment] = current
        return page


def open_time_scan(source: TableSource, layout: Layout, range: TimeRange) -> Source:
    """Open a source of the events of a range of time, in the form of the layout."""
    scan: Source = TimeScan(source, layout, range)
    return choose_form(layout).settle_source(scan, lambda layout: SettledScan(source, layout, range))
