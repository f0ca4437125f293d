"""The first events of a ranking, exact across suffixes, periods and archives.

Every suffix of every period is read from its best number on, all at once and a few items each; what is read on is only what
may still be better than the last of those found. Of events of one number the newest come first (the oldest, in ascending
order), as far as ties at the end of a page are few enough to be read; if they are not, the answer says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.events import Event, Item
from tidetable.exact import encode_json
from tidetable.keys import Index, number_at
from tidetable.ports import ArchiveRange, Asked, KeyRange, Page
from tidetable.query.answer import MAX_ANSWER_BYTES, gaps_of, sources_of
from tidetable.query.fetch import share
from tidetable.query.plan import Gap, Stage
from tidetable.query.ranking import Place, Ranking, plan_ranking
from tidetable.query.read import RESERVE, Cost, Reader, Remaining, Vanished, got
from tidetable.query.rows import Row, complete, row_of, shown
from tidetable.query.run import told_gaps
from tidetable.times import from_text

# So many items more than wanted are read for the sake of ties, for each item wanted, and at least.
_TIES_EACH, _TIES_LEAST = 4, 1_000


@dataclass(slots=True)
class Top:
    """The first events of a ranking. ``tied`` says that others share the last one's number, of which not all were compared."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    next: str | None = None
    tied: bool = False
    gaps: Sequence[Gap] = ()
    cost: Cost = field(default_factory=Cost)
    sources: Sequence[Stage] = ()

    @property
    def name(self) -> str:
        """What the rows are called."""
        return "top"

    @property
    def bounded(self) -> bool:
        """The page was cut so that it can be answered."""
        return True

    def texts(self) -> list[str]:
        """The events as JSON, with their rank in the page and the number that they are ranked by."""
        return [encode_json(row).decode() for row in self.rows]

    def joined(self) -> str:
        """The same with commas between them."""
        return ",".join(self.texts())

    def about(self) -> dict[str, Any]:
        """What the answer says besides its events."""
        about = {"next": self.next, "tied": self.tied}
        return about | {"gaps": gaps_of(self.gaps), "sources": sources_of(self.sources)}


@dataclass(slots=True)
class _Found:
    """An event that may be among the first: an item of an index, or an archived event."""

    place: Place
    entry: Entry
    stage: Stage
    item: Item | None = None
    archived: Event | None = None
    # Whether the item is the table's, though the stage's index does not hold everything.
    whole: bool = False


@dataclass(slots=True)
class _Range:
    """A range that is being read: where it goes on, and the number that it has come to."""

    stage: Stage
    keys: KeyRange
    limit: int
    more: bool = True
    edge: Decimal | None = None


def find_top(ranking: Ranking, stream: Stream, reader: Reader, now: datetime, remaining: Remaining) -> Top:
    """The first events of a ranking; StoreUnavailable if the time does not suffice."""
    for consistent in (False, True):
        gaps: list[Gap] = []
        entries = reader.catalog.entries(stream.name, ranking.start, ranking.end, consistent=consistent)
        stages = plan_ranking(ranking, entries, gaps)
        try:
            return _Run(ranking, reader, remaining, forgiving=consistent).top(stages, gaps, now)
        except Vanished:
            continue  # it may just have been archived: the catalog, read anew, knows
    raise StoreUnavailable("no answer", "tables of the range went while they were read")


class _Run:
    def __init__(self, ranking: Ranking, reader: Reader, remaining: Remaining, *, forgiving: bool) -> None:
        self._ranking = ranking
        self._reader = reader
        self._remaining = remaining
        self._forgiving = forgiving
        self._found: list[_Found] = []
        self._cost = Cost()
        self._gaps: list[Gap] = []

    def top(self, stages: Sequence[Stage], gaps: list[Gap], now: datetime) -> Top:
        """Read until nothing that was not read can be among the first, and show those."""
        ranking = self._ranking
        for stage in stages:
            if stage.archive is not None:
                self._read_archive(stage, stage.archive)
        tied = self._read_ranges([_Range(stage, keys, 0) for stage in stages for keys in stage.ranges])
        first = self._ordered()
        rows, last = self._rows(first)
        following = None
        if last is not None and last < len(first) and not (tied and last == ranking.limit):
            following = self._reader.seal.seal(ranking.cursor(first[last - 1].place))
        told = told_gaps([*gaps, *self._gaps], now)
        return Top(rows, following, tied and last == ranking.limit, told, self._cost, stages)

    def _ordered(self) -> list[_Found]:
        """What was found, the first first."""
        return sorted(self._found, key=attrgetter("place"), reverse=not self._ranking.ascending)

    def _better(self, one: Decimal, other: Decimal) -> bool:
        return one < other if self._ranking.ascending else one > other

    def _read_ranges(self, ranges: list[_Range]) -> bool:
        """Read ranges as far as they may matter; tells whether ties with the last were left unread."""
        limit = self._ranking.limit + 1
        due, least = ranges, limit
        while due:
            if self._remaining() < RESERVE:
                raise StoreUnavailable("no answer", "the ranking takes longer than an answer may: ask for fewer")
            for one in due:
                filtered = bool(one.keys.times or one.stage.conditions)
                one.limit = max(share(least, len(due)), 2 * one.limit if filtered else 0)
            self._fetch(due)
            first = self._ordered()
            unread = [one for one in ranges if one.more]
            if len(first) < limit:
                due, least = unread, limit - len(first)
                continue
            nth = first[limit - 1].place.number
            due = [one for one in unread if one.edge is None or self._better(one.edge, nth)]
            edges = [one.edge for one in due if one.edge is not None]
            if edges:
                best = min(edges) if self._ranking.ascending else max(edges)
                least = sum(not self._better(found.place.number, best) for found in first[:limit])
            if not due:
                ties = [one for one in unread if one.edge == nth]
                if ties and self._cost.read >= _TIES_EACH * limit + _TIES_LEAST:
                    return True
                due, least = ties, max(len(ties), 100)
        return False

    def _fetch(self, due: Sequence[_Range]) -> None:
        asked = [Asked(one.keys, one.limit) for one in due]
        pages = self._reader.store.query_many(asked, ascending=self._ranking.ascending)
        for one, page in zip(due, pages, strict=True):
            self._cost.requests += 1
            if page is None and not self._forgiving:
                raise Vanished
            if page is None:
                period = one.stage.entry.period
                self._gaps.append(Gap(period.start, period.end, "table missing"))
            self._take(one, page or Page((), more=False))

    def _take(self, one: _Range, page: Page) -> None:
        self._cost.page(page)
        index = one.stage.index
        if index is None:
            return
        items: Sequence[Item] = page.items
        whole = self._asks_more(one.stage, index)
        if whole:
            items = self._current(items, one.stage, index)
        one.more = page.more
        if page.last is not None:
            one.edge = Decimal(page.last[index.sk])
            one.keys = replace(one.keys, start=page.last)
        layout = one.stage.entry.layout
        for item in items:
            time, series, id = layout.names_of(item)
            place = Place(Decimal(item[index.sk]), from_text(time), series, id)
            self._add(_Found(place, one.stage.entry, one.stage, item, whole=whole))

    def _asks_more(self, stage: Stage, index: Index) -> bool:
        """Whether conditions are about what the index does not hold, so that every event must be got."""
        held = index.project
        return held is not None and any(condition.top not in held for condition in stage.conditions)

    def _add(self, found: _Found) -> None:
        after, item, stage = self._ranking.after, found.item, found.stage
        if after is not None and not (found.place > after if self._ranking.ascending else found.place < after):
            return
        if item is not None and stage.conditions:
            item = found.item = self._reader.unpacker.eased(item)
            copied = None if stage.index is None or stage.index.project is None else item.get(stage.index.copy)
            data = item.get("data", copied)
            if "out" in item:
                data = self._reader.unpacker.whole([item], found.entry.table, cold=False).items[0].get("data")
            if not all(one.holds(data or {}) for one in stage.conditions):
                return
        self._found.append(found)

    def _read_archive(self, stage: Stage, keys: ArchiveRange) -> None:
        """The first of a period's archive, whose reader ranks them itself, some of its events at a time."""
        ranking, field = self._ranking, self._ranking.index.sort_by
        while True:
            if self._remaining() < RESERVE:
                raise StoreUnavailable("no answer", "the archives of the range take longer than an answer may")
            page = self._reader.archive.read(keys, limit=ranking.limit + 1, ascending=ranking.ascending)
            self._cost.requests += 1
            self._cost.read += len(page.events)
            for event in page.events:
                number = number_at(event.data, field)
                if number is not None:
                    place = Place(Decimal(number), event.time, event.series, event.id)
                    self._add(_Found(place, stage.entry, stage, archived=event))
            if not page.more or page.reached is None:
                return
            keys = replace(keys, after=page.reached)

    def _rows(self, first: Sequence[_Found]) -> tuple[list[dict[str, Any]], int | None]:
        """The first events as they are shown, as many as an answer holds, and how many of those found they are."""
        ranking, size = self._ranking, 0
        rows: list[dict[str, Any]] = []
        shown_events = self._whole(first[: ranking.limit])
        for number, (found, document) in enumerate(zip(first, shown_events, strict=False)):
            if document is None:
                continue
            row = {"rank": len(rows) + 1, "value": found.place.number, **document}
            size += len(encode_json(row)) + 200
            if rows and size > MAX_ANSWER_BYTES:
                return rows, number
            rows.append(row)
        return rows, min(len(first), ranking.limit)

    def _whole(self, first: Sequence[_Found]) -> Iterable[dict[str, Any] | None]:
        """The events whole; None for those that have gone, or have another number, since the index saw them."""
        ranking, unpacker = self._ranking, self._reader.unpacker
        rows: list[Row | None] = []
        fetched = self._fetched(first)
        for number, found in enumerate(first):
            if found.archived is not None:
                rows.append(Row(found.entry, archived=found.archived))
                continue
            item = fetched.get(number, found.item)
            if item is not None and found.stage.copied is not None:
                item = {**item, "data": item.get(found.stage.copied, {})}
            rows.append(None if item is None else row_of(unpacker.eased(item), found.entry, ranking.shape))
        try:
            complete([row for row in rows if row is not None], unpacker, ranking.shape)
        except TableMissing as error:
            raise Vanished from error
        return [None if row is None else shown([row], ranking.stream, ranking.shape)[0].document() for row in rows]

    def _fetched(self, first: Sequence[_Found]) -> dict[int, Item | None]:
        """What the indexes do not hold, by the number of the event, from the tables."""
        wanted: dict[int, list[int]] = {}
        for number, found in enumerate(first):
            if found.item is not None and found.stage.fetches and not found.whole:
                wanted.setdefault(id(found.stage), []).append(number)
        result: dict[int, Item | None] = {}
        for numbers in wanted.values():
            stage = first[numbers[0]].stage
            items = [first[one].item or {} for one in numbers]
            current = {(item["pk"], item["sk"]): item for item in self._current(items, stage, stage.index)}
            for one, item in zip(numbers, items, strict=True):
                result[one] = current.get((item["pk"], item["sk"]))
        return result

    def _current(self, items: Sequence[Item], stage: Stage, index: Index | None) -> list[Item]:
        """Items of an index as they are in the table; an event that was sent again may have another number by now."""
        numbers = {(item["pk"], item["sk"]): item[index.sk] for item in items} if index is not None else {}
        found = got(items, stage.entry.table, self._reader.store, self._cost)
        return [one for one in found if index and one.get(index.sk) == numbers[one["pk"], one["sk"]]]
