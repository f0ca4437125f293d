"""The first events of a ranking, exact across suffixes, periods and archives.

Every suffix of every period is read from its best number on, all at once and a few items each; what is read on is only what
may still be better than the last of those found. Of events of one number the newest come first (the oldest, in ascending
order), as far as ties at the end of a page are few enough to be read; if they are not, the answer says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.events import Event, Item
from tidetable.keys import number_at
from tidetable.ports import Asked, KeyRange, Page
from tidetable.problems import ProblemError, refuse
from tidetable.query.answer import MAX_ANSWER_BYTES, Table
from tidetable.query.fetch import share
from tidetable.query.plan import Gap, Stage, cut_gap
from tidetable.query.rankings.asked import Place, Ranking, plan_ranking
from tidetable.query.read import ARCHIVES, RESERVE, Cost, Reader, Remaining, Vanished, got
from tidetable.query.rows import Row, complete, row_of, shown
from tidetable.query.run import told_gaps
from tidetable.times import from_text

# So many items more than wanted are read for the sake of ties, for each item wanted, and at least.
_TIES_EACH, _TIES_LEAST = 4, 1_000


@dataclass(slots=True, kw_only=True)
class Top(Table):
    """The first events of a ranking, with their rank in the page and the number that they are ranked by.

    ``tied`` says that others share the last one's number, of which not all were compared.
    """

    tied: bool
    name = "top"
    # The page was cut so that it can be answered.
    bounded = True

    def about(self) -> dict[str, Any]:
        """What the answer says besides its events."""
        return self.told(tied=self.tied)


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
    """The first events of a ranking; ProblemError, with what to change, if the time does not suffice."""
    for consistent in (False, True):
        gaps: list[Gap] = []
        entries = reader.catalog.entries(stream.name, ranking.start, ranking.end, consistent=consistent)
        stages = plan_ranking(ranking, entries, gaps)
        try:
            return _Run(ranking, reader, remaining, forgiving=consistent).top(stages, gaps, now)
        except Vanished:
            continue  # it may just have been archived: the catalog, read anew, knows
    raise StoreUnavailable("no answer", "tables of the range went while they were read")


def _too_much(what: str) -> ProblemError:
    """422 for a ranking that takes longer than an answer may, however often it is queried."""
    narrower = "narrow from and to, lower limit, or add a condition on the ranked number, which narrows what is read"
    return refuse(422, "too_much", f"{what} longer than an answer may: {narrower}")


class _Run:
    def __init__(self, ranking: Ranking, reader: Reader, remaining: Remaining, *, forgiving: bool) -> None:
        self._ranking = ranking
        self._reader = reader
        self._remaining = remaining
        self._forgiving = forgiving
        self._found: list[_Found] = []
        self._cost = Cost()
        self._missing: dict[str, Gap] = {}
        # The last events of pages of archives that had no room for all that were asked for.
        self._floors: list[Place] = []

    def top(self, stages: Sequence[Stage], gaps: list[Gap], now: datetime) -> Top:
        """Read until nothing that was not read can be among the first, and show those."""
        ranking = self._ranking
        self._read_archives([stage for stage in stages if stage.archive is not None])
        tied = self._read_ranges([_Range(stage, keys, 0) for stage in stages for keys in stage.ranges])
        first = self._certain(self._ordered())
        rows, last = self._rows(first[: ranking.limit])
        # Of the number that was read to its end nowhere there may be others, anywhere before the last one shown.
        cut = bool(rows) and tied is not None and first[last - 1].place.number == tied
        goes_on = last < len(first) or (bool(rows) and bool(self._floors))
        following = self._reader.seal.seal(ranking.cursor(first[last - 1].place)) if goes_on and not cut else None
        gaps = told_gaps([*gaps, *self._missing.values()], now)
        columns = ["rank", "value", "series", "time", "id", "ref"]
        return Top(rows=rows, next=following, tied=cut, gaps=gaps, cost=self._cost, sources=stages, columns=columns)

    def _certain(self, first: list[_Found]) -> list[_Found]:
        """Those before which nothing can be that an archive's page had no room for."""
        if not self._floors:
            return first
        if self._ranking.ascending:
            return [found for found in first if found.place <= min(self._floors)]
        return [found for found in first if found.place >= max(self._floors)]

    def _ordered(self) -> list[_Found]:
        """What was found, the first first."""
        return sorted(self._found, key=attrgetter("place"), reverse=not self._ranking.ascending)

    def _better(self, one: Decimal, other: Decimal) -> bool:
        return one < other if self._ranking.ascending else one > other

    def _read_ranges(self, ranges: list[_Range]) -> Decimal | None:
        """Read ranges as far as they may matter; the number of which ties were left unread, if there is one."""
        limit = self._ranking.limit + 1
        due, least = ranges, limit
        while due:
            if self._remaining() < RESERVE:
                raise _too_much("the ranking takes")
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
                    return nth
                due, least = ties, max(len(ties), 100)
        return None

    def _fetch(self, due: Sequence[_Range]) -> None:
        asked = [Asked(one.keys, one.limit) for one in due]
        pages = self._reader.store.query_many(asked, ascending=self._ranking.ascending)
        for one, page in zip(due, pages, strict=True):
            self._cost.requests += 1
            if page is None and not self._forgiving:
                raise Vanished
            if page is None:
                period = one.stage.entry.period
                self._missing[one.keys.table] = cut_gap(period, self._ranking.start, self._ranking.end)
            self._take(one, page or Page((), more=False))

    def _take(self, one: _Range, page: Page) -> None:
        self._cost.page(page)
        index = one.stage.index
        if index is None:
            return
        items: Sequence[Item] = page.items
        # Conditions about what the index does not hold: every event must be got.
        whole = not index.holds(condition.top for condition in one.stage.conditions)
        if whole:
            items = got(items, one.stage, index, self._reader.store, self._cost)
        one.more = page.more
        if page.last is not None:
            one.edge = Decimal(page.last[index.sk])
            one.keys = replace(one.keys, start=page.last)
        layout = one.stage.entry.layout
        for item in items:
            time, series, id = layout.names_of(item)
            place = Place(Decimal(item[index.sk]), from_text(time), series, id)
            self._add(_Found(place, one.stage.entry, one.stage, item, whole=whole))

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

    def _read_archives(self, stages: Sequence[Stage]) -> None:
        """The first of each archived period, a few side by side."""
        pool = self._reader.pools(ARCHIVES)
        try:
            for reading in [pool.submit(self._read_archive, stage) for stage in stages]:
                reading.result(timeout=max(self._remaining() - RESERVE, 0.1))
        except TimeoutError as error:
            raise _too_much(f"ranking the range's {len(stages)} archived periods takes") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read_archive(self, stage: Stage) -> None:
        """The first of a period's archive, whose reader ranks them itself, some of its events at a time."""
        ranking, field, keys = self._ranking, self._ranking.index.sort_by, stage.archive
        while keys is not None and self._remaining() > RESERVE:
            page = self._reader.archive.read(keys, limit=ranking.limit + 1, ascending=ranking.ascending)
            self._cost.requests += 1
            self._cost.read += len(page.events)
            places = [
                Place(Decimal(number_at(event.data, field) or 0), event.time, event.series, event.id)
                for event in page.events
            ]
            for event, place in zip(page.events, places, strict=True):
                self._add(_Found(place, stage.entry, stage, archived=event))
            if page.cut:
                self._floors.append(places[-1])
            if not page.more or page.reached is None:
                return
            keys = replace(keys, after=page.reached)
        raise _too_much(f"ranking the archived period {stage.entry.period.label} takes")

    def _rows(self, first: Sequence[_Found]) -> tuple[list[dict[str, Any]], int]:
        """The first events as they are shown, as many as an answer holds, and how many of those found they are."""
        size, fetched = 0, self._fetched(first)
        rows: list[Row | None] = [self._row(found) for found in first]
        for number, found in enumerate(first):
            if number in fetched:
                item = fetched[number]
                rows[number] = None if item is None else self._row(replace(found, item=item))
            row = rows[number]
            size += 0 if row is None else row.size(self._ranking.shape)
            if number and size > MAX_ANSWER_BYTES:
                rows = rows[:number]
                break
        shown_rows: list[dict[str, Any]] = []
        for found, document in zip(first, self._documents(rows), strict=False):
            if document is not None:
                shown_rows.append({"rank": len(shown_rows) + 1, "value": found.place.number, **document})
        return shown_rows, len(rows)

    def _row(self, found: _Found) -> Row:
        if found.archived is not None:
            return Row(found.entry, archived=found.archived)
        item = found.item or {}
        if found.stage.copied is not None:
            item = {**item, "data": item.get(found.stage.copied, {})}
        return row_of(self._reader.unpacker.eased(item), found.entry, self._ranking.shape)

    def _documents(self, rows: Sequence[Row | None]) -> list[dict[str, Any] | None]:
        """The events whole; None for those that have gone, or have another number, since the index saw them."""
        ranking = self._ranking
        try:
            complete([row for row in rows if row is not None], self._reader.unpacker, ranking.shape)
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
            current = [] if stage.index is None else got(items, stage, stage.index, self._reader.store, self._cost)
            by_key = {(item["pk"], item["sk"]): item for item in current}
            for one, item in zip(numbers, items, strict=True):
                result[one] = by_key.get((item["pk"], item["sk"]))
        return result
