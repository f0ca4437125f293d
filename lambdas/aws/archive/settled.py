"""A table with packs by its events, each once: what an archive holds does not depend on how events came to be in packs.

The copies of an event are in one logical partition, perhaps under several suffixes. So a scan finds the logical partitions, and
each is read as a whole, in order, where the scan meets its first item: the first of the least suffix that there is. Every item is
met once, in whichever order a scan gives them, so every logical partition is read once. Packs are read twice for that; they are a
small part of what their events would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING, Any

import msgspec

from aws.wire import item_of, item_text
from aws.zstd import Zstd
from tidetable.archive.ports import RawPage
from tidetable.errors import ArchiveFailed
from tidetable.events import Item
from tidetable.exact import decode_json
from tidetable.keys import Layout, suffix_of, unescape
from tidetable.packs import Opened, Run, open_item, walk

if TYPE_CHECKING:
    from tidetable.archive.ports import Source

_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode
_TIME = 27
# A page of events is at least so large, unless its logical partition ends.
_PAGE_BYTES = 1_000_000


class _State(msgspec.Struct, frozen=True, omit_defaults=True):
    """The next position: after ``page`` of the scan, behind ``done`` of its items; in a logical partition, after ``place``."""

    page: dict[str, Any] | None = None
    done: int = 0
    place: str = ""


@dataclass(slots=True)
class _Pass:
    """One segment's pass, from a state on: what was read since the last page, and the packs whose last event is still to come."""

    units: float = 0.0
    count: int = 0
    limit: int | None = None
    lasts: list[str] = field(default_factory=list)

    def read(self, page: RawPage) -> RawPage:
        """Take a page into account."""
        self.units += page.units
        self.count += page.count
        return page

    def give(self, texts: list[str], after: Mapping[str, Any] | None, packs: int = 0) -> RawPage:
        """A page of events."""
        units, self.units, count, self.count = self.units, 0.0, self.count, 0
        return RawPage(f"[{','.join(texts)}]".encode(), count, units, after, packs)


class SettledScan:
    """A table by the events of its packs. A segment's pages go on where the last ended, or begin anew at any earlier one."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._compressor = Zstd()
        self._passes: dict[tuple[str, int], tuple[Any, _Pass, Iterator[RawPage]]] = {}

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """The next events of a segment."""
        progress = self._passes.pop((table, segment), None)
        if progress is None or progress[0] != after:
            state = msgspec.convert(after, _State) if after is not None else _State()
            own = _Pass()
            progress = after, own, self._pages(table, segment, segments, state, own)
        _, own, pages = progress
        own.limit = limit
        page = next(pages)
        if page.after is not None:
            self._passes[table, segment] = page.after, own, pages
        return page

    def partition(
        self, table: str, pk: str, *, low: str | None, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """The items of the table itself."""
        return self._source.partition(table, pk, low=low, after=after, limit=limit)

    def settled(self, layout: Layout) -> SettledScan:
        """The scan of another layout."""
        return SettledScan(self._source, layout)

    def _pages(self, table: str, segment: int, segments: int, state: _State, own: _Pass) -> Iterator[RawPage]:
        start, done, place = state.page, state.done, state.place
        while True:
            raw = own.read(self._source.page(table, segment=segment, segments=segments, after=start, limit=own.limit))
            items = _PAGE(raw.items)
            following = dict(raw.after) if raw.after is not None else None
            for number, item in enumerate(items):
                # What a shorter page leaves to be passed over is passed over in those that follow.
                if number < done:
                    continue
                pk, sk = item["pk"]["S"], item["sk"]["S"]
                if place or self._is_first(table, pk, sk, own):
                    yield from self._events(table, pk.rpartition("#")[0], place, _State(start, number), own)
                place = ""
            done = max(done - len(items), 0)
            if following is None:
                yield own.give([], None)
                return
            start = following
            yield own.give([], _state(_State(start, done, place)))

    def _is_first(self, table: str, pk: str, sk: str, own: _Pass) -> bool:
        """True if an item is the first of its partition key, and no lesser suffix has items."""
        logical, _, suffix = pk.rpartition("#")
        for number in range(int(suffix) + 1):
            page = self._source.partition(table, f"{logical}#{number}", low=None, after=None, limit=1)
            items = _PAGE(own.read(page).items)
            if items:
                return number == int(suffix) and items[0]["sk"]["S"] == sk
        return False

    def _events(self, table: str, logical: str, after: str, at: _State, own: _Pass) -> Iterator[RawPage]:
        """The events of a logical partition after a place, in pages."""
        assert self._layout.pack is not None  # noqa: S101 - only such layouts come here
        low = after + "\0" if after else ""
        keys = after[:_TIME] or None
        suffixes = [self._opened(table, f"{logical}#{number}", keys, own) for number in range(self._layout.shards)]
        own.lasts.clear()
        texts: list[str] = []
        size = 0
        last = after
        opened = _noted(merge(*suffixes, key=lambda item: item.newest), after, own)
        for run in walk(opened, span=self._layout.pack.span, ascending=True, low=low):
            if run.problems:
                raise ArchiveFailed(f"{table} is not whole: {run.problems[0]}")
            for text, place in self._texts(run, logical):
                texts.append(text)
                size, last = size + len(text), place
                if size > _PAGE_BYTES:
                    yield own.give(texts, _state(msgspec.structs.replace(at, place=last)), _ended(own, last))
                    texts, size = [], 0
        yield own.give(texts, _state(msgspec.structs.replace(at, done=at.done + 1)), len(own.lasts))

    def _opened(self, table: str, pk: str, low: str | None, own: _Pass) -> Iterator[Opened]:
        """The items of a partition key, opened, in order."""
        after: Mapping[str, Any] | None = None
        while True:
            page = own.read(self._source.partition(table, pk, low=low, after=after, limit=own.limit))
            for item in _PAGE(page.items):
                yield open_item(item_of(item), self._layout, self._compressor)
            after = page.after
            if after is None:
                return

    def _texts(self, run: Run, logical: str) -> Iterator[tuple[str, str]]:
        """Events as plain items in DynamoDB JSON, with their places."""
        shards = self._layout.shards
        for place, copy in zip(run.places, run.copies, strict=True):
            item: Item
            if not isinstance(copy.value, str):
                item = copy.value
            else:
                suffix = suffix_of(unescape(place.rpartition("#")[2]), shards) if shards > 1 else 0
                item = {"pk": f"{logical}#{suffix}", "sk": place, "at": copy.at, "data": decode_json(copy.value)}
            yield item_text(item), place


def _noted(opened: Iterator[Opened], after: str, own: _Pass) -> Iterator[Opened]:
    """Pass items on; note the last place of each pack that ends after ``after``."""
    for item in opened:
        if item.hash and item.places and item.places[-1] > after:
            own.lasts.append(item.places[-1])
        yield item


def _ended(own: _Pass, last: str) -> int:
    """Count the noted packs that end at or before a place, and forget them."""
    before = len(own.lasts)
    own.lasts = [place for place in own.lasts if place > last]
    return before - len(own.lasts)


def _state(state: _State) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(state)
    return document
