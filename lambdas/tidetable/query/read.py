"""Reading a plan: stages a few at a time, their partitions at once, in order, as raw as they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from tidetable.conditions import ANY
from tidetable.errors import ArchiveBusy, TableMissing
from tidetable.events import Item
from tidetable.keys import Index, Key
from tidetable.large.whole import Unpacker, grouped
from tidetable.periods import Period
from tidetable.ports import (
    ArchivePage,
    ArchiveRange,
    ArchiveReader,
    Asked,
    CatalogReader,
    EventStore,
    Page,
    Plain,
    Pools,
    Sketches,
)
from tidetable.query.cursor import Position, Seal
from tidetable.query.fetch import AHEAD, Wanted, batches, first_asked, items_of, plain_of
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Stage, cut_gap
from tidetable.values import item_bytes

# So many archives are read at once: each is a function of its own, with pyarrow to load.
ARCHIVES = 2
_SLIM_PAGE = 50_000
# So many ranges are begun at once, where a stage of many series does not have more itself.
_RANGES = 512
# Seconds kept for merging and encoding.
RESERVE = 3.0

Remaining = Callable[[], float]


@dataclass(slots=True)
class Reader:
    """What queries need."""

    catalog: CatalogReader
    store: EventStore
    archive: ArchiveReader
    unpacker: Unpacker
    seal: Seal
    sketches: Sketches
    pools: Pools


@dataclass(slots=True)
class Cost:
    """What reading took: read units, requests, and how many events were read, shown or not."""

    units: float = 0.0
    requests: int = 0
    read: int = 0

    def page(self, page: Page) -> None:
        """Take a page into account."""
        self.units += page.units
        self.read += page.read

    def fetched(self, items: Sequence[Item]) -> None:
        """Take items into account that were got by their keys."""
        # AWS: half a unit for each 4 KB of each item.
        self.units += sum(-(-item_bytes(item) // 4096) / 2 for item in items)


class Vanished(Exception):
    """A table went while it was read: it may just have been archived."""


class Batch(NamedTuple):
    """A part of a stage in order: items of its table, plain ones, or a page of its archive; none where the time was up before it.

    ``reached`` is the place up to which everything was read, if the stage goes on.
    """

    stage: Stage
    items: Sequence[Item] | None
    archived: ArchivePage | None
    reached: Position | None
    plain: Plain | None = None

    @property
    def unread(self) -> bool:
        """Whether the time was up before it."""
        return self.items is None and self.archived is None and self.plain is None


class _Begun(NamedTuple):
    """A stage and its first pages, or the future of its archive's."""

    stage: Stage
    asked: Sequence[Asked]
    pages: Sequence[Page]
    archived: Future[ArchivePage] | None


class StageReader:
    """One pass over the stages of a plan.

    ``wanted`` is how many events are still wanted, ``plain`` whether items may come as plain ones, ``fields`` what of their
    data is needed (all, if none are named). A table that vanishes is ``missing``, if that is to be ``forgiving``.
    """

    def __init__(
        self,
        query: Query,
        reader: Reader,
        remaining: Remaining,
        *,
        wanted: int,
        plain: bool = False,
        fields: Sequence[str] = (),
        forgiving: bool = False,
    ) -> None:
        self._query = query
        self._reader = reader
        self._remaining = remaining
        self._plain = plain
        self._fields = fields
        self._forgiving = forgiving
        self._periods: dict[str, Period] = {}
        self.wanted = Wanted(wanted, filtered=False)
        self.missing: dict[str, Gap] = {}
        self.cost = Cost()
        self.sources: list[Stage] = []

    def batches(self, stages: Iterable[Stage]) -> Iterator[Batch]:
        """What the stages hold, in order.

        Stages are begun one, then two, then four at a time: a page that the first fills costs no reads elsewhere, and a
        long empty range is not walked step by step.
        """
        begun: deque[_Begun] = deque()
        coming, ahead, number = iter(stages), 1, 0
        pool = self._reader.pools(ARCHIVES)
        try:
            while following := [begun[0].stage] if begun else list(islice(coming, ahead)):
                stage = following[0]
                edge = Position(stage.start if self._query.ascending else stage.end)
                if number and self._remaining() < RESERVE:
                    yield Batch(stage, None, None, edge)
                    return
                if not begun:
                    begun.extend(self._begin(following, pool))
                    ahead = min(2 * ahead, AHEAD, max(_RANGES // max(stage.count, 1), 1))
                one = begun.popleft()
                first = None if one.archived is None else self._awaited(one.archived)
                if one.archived is not None and first is None:
                    if not number:
                        raise ArchiveBusy(f"the archive of {stage.entry.period.label} is slow")
                    yield Batch(stage, None, None, edge)
                    return
                number += 1
                self.sources.append(stage)
                yield from self._live(one) if first is None else self._archived(stage, first, pool)
        finally:
            # A full page does not wait for what was read ahead.
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, stages: Sequence[Stage], pool: Executor) -> list[_Begun]:
        """The first pages of some stages, all at once."""
        self._periods |= {stage.entry.table: stage.entry.period for stage in stages}
        archived = [pool.submit(self._read, stage.archive) if stage.archive is not None else None for stage in stages]
        asked = [first_asked(stage.ranges, self.wanted.count) for stage in stages]
        pages = iter(self._fetch([one for some in asked for one in some]))
        return [
            _Begun(stage, some, [next(pages) for _ in some], future)
            for stage, some, future in zip(stages, asked, archived, strict=True)
        ]

    def _fetch(self, asked: Sequence[Asked]) -> list[Page]:
        """The pages of some ranges; a range of a table that went has none, if that is to be forgiven."""
        query = self._query
        ask = partial(self._reader.store.query_many, ascending=query.ascending, consistent=query.consistent)
        pages = ask(asked, plain=self._plain, fields=self._fields) if asked else ()
        found: list[Page] = []
        for one, page in zip(asked, pages, strict=True):
            self.cost.requests += 1
            if page is None and not self._forgiving:
                raise Vanished
            if page is None:
                period = self._periods[one.keys.table]
                self.missing[one.keys.table] = cut_gap(period, query.start, query.end)
            else:
                self.cost.page(page)
            found.append(page or Page((), more=False))
        return found

    def _live(self, begun: _Begun) -> Iterator[Batch]:
        stage, query, wanted = begun.stage, self._query, self.wanted
        if not begun.asked:
            return
        wanted.filtered = bool(stage.filtered_by(query))
        names, names_of = stage.names_left(query), stage.entry.layout.names
        read = batches(
            begun.asked, begun.pages, self._fetch, wanted, ascending=query.ascending, spread=bool(stage.spread)
        )
        for found, edge, plain in read:
            if names != ANY:
                # AWS: a filter takes no attribute of the primary key, and an event's names are nowhere else.
                found = [one for one in found if names.hold(*names_of(one[1], one[2])[1:])]
            if len(stage.partitions) > 1:
                # For a moment an index may hold an event under its old value and its new one.
                found = list({one[1:3]: one for one in found}.values())
            # What an index does not hold is got for no more events than are wanted.
            while stage.fetches and len(found) > wanted.count:
                some, found = found[: wanted.count], found[wanted.count :]
                items = self._got(items_of(some), stage)
                yield self._batch(items, stage, stage.position_of(some[-1][0], query))
            reached = None if edge is None else stage.position_of(edge, query)
            if plain:
                yield Batch(stage, None, None, reached, plain_of(found))
            else:
                items = items_of(found)
                yield self._batch(self._got(items, stage) if stage.fetches else items, stage, reached)

    def _got(self, items: Sequence[Item], stage: Stage) -> Sequence[Item]:
        """The items of an index as they are in the table."""
        return [] if stage.index is None else got(items, stage, stage.index, self._reader.store, self.cost)

    def _batch(self, items: Sequence[Item], stage: Stage, reached: Position | None) -> Batch:
        """Items with what conditions need of them."""
        unpacker = self._reader.unpacker
        if stage.copied is not None:
            items = [{"pk": one["pk"], "sk": one["sk"], "data": one.get(stage.copied, {})} for one in items]
        if not (stage.conditions or self._fields):
            return Batch(stage, [unpacker.eased(item) for item in items], None, reached)
        if not any("out" in item or "z" in item for item in items):
            kept = [item for item in items if all(one.holds(item.get("data", {})) for one in stage.conditions)]
            return Batch(stage, kept, None, reached)
        # The service cannot tell of data that is kept apart, or compressed.
        sifted = [item for some in grouped(items, cold=False) for item in self._sifted(some, stage)]
        return Batch(stage, sifted, None, reached)

    def _sifted(self, items: Sequence[Item], stage: Stage) -> Iterator[Item]:
        """Those that meet the conditions; whole, if their fields are needed, and else as they came."""
        unpacker = self._reader.unpacker
        wholes = unpacker.whole([unpacker.eased(item) for item in items], stage.entry.table, cold=False).items
        tops = {field.partition(".")[0] for field in self._fields}
        for item, whole in zip(items, wholes, strict=True):
            data = whole.get("data", {})
            if all(one.holds(data) for one in stage.conditions):
                if tops:
                    yield {**item, "data": {name: data[name] for name in tops if name in data}}
                else:
                    yield item if "out" in item else whole

    def _read(self, keys: ArchiveRange) -> ArchivePage:
        keys = replace(keys, fields=tuple(self._fields))
        # Some fields of events take less room than events do, and a page of an archive is a function called.
        limit = _SLIM_PAGE if self._fields else self.wanted.count
        return self._reader.archive.read(keys, limit=limit, ascending=self._query.ascending)

    def _awaited(self, first: Future[ArchivePage]) -> ArchivePage | None:
        """An archive's first page; None if it does not come in time: its reader may have to start first."""
        try:
            return first.result(timeout=max(self._remaining() - RESERVE, 0.1))
        except TimeoutError:
            return None

    def _archived(self, stage: Stage, first: ArchivePage, pool: Executor) -> Iterator[Batch]:
        keys, layout = stage.archive, stage.entry.layout.across(self._query.series)
        page = first
        while keys is not None:
            self.cost.requests += 1
            self.cost.read += len(page.events)
            reached = page.reached
            if reached is None and page.events:
                last = page.events[-1]
                reached = layout.sort_key(last.time, last.series, last.id)
            place = None if reached is None or not page.more else stage.position_of(reached, self._query)
            yield Batch(stage, None, page, place)
            if not page.more:
                return
            keys = replace(keys, after=reached or keys.after)
            following = self._awaited(pool.submit(self._read, keys))
            if following is None:
                yield Batch(stage, None, None, place)
                return
            page = following


def got(items: Sequence[Item], stage: Stage, index: Index, store: EventStore, cost: Cost) -> list[Item]:
    """The items of an index as they are in the table, but for those that have gone, or are elsewhere in the index by now."""
    seen = {Key(item["pk"], item["sk"]): (item[index.pk], item[index.sk]) for item in items}
    if not seen:
        return []
    cost.requests += -(-len(seen) // 100)
    try:
        found = store.get_many(stage.entry.table, list(seen), consistent=False)
    except TableMissing as error:
        raise Vanished from error
    cost.fetched(list(found.values()))
    current = ((found[key], place) for key, place in seen.items() if key in found)
    return [item for item, place in current if (item.get(index.pk), item.get(index.sk)) == place]
